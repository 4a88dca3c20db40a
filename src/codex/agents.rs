//! The roles of Codex's sub-agents that have a model of their own: a file for each, which the
//! settings name. A role that the user wrote stays as it is.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml_edit::{DocumentMut, Item, TableLike};

use super::change::FileChange;
use super::file::{self, FileError};
use super::profile::{HEADER, ProfileError};
use crate::config::settings::CodexConfig;

/// How the names of the files begin. The name of the role follows.
const FILE_PREFIX: &str = "respondent-agent-";

/// How deep the user's files of roles are looked for in Codex's folder of them.
const MAX_DEPTH: usize = 8;

/// The sub-agents that the settings of Codex have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodexAgents {
    /// The model of sub-agents that ask for none.
    pub default: Option<String>,
    /// The roles with a model of their own.
    pub roles: Vec<AgentRole>,
    /// The roles that have no model from here, because the user wrote them.
    pub of_user: Vec<String>,
}

/// A role of sub-agents, and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRole {
    /// The name, with which a model asks for it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

impl CodexAgents {
    /// The sub-agents of a configuration. `infos` is the catalog: Codex begins no sub-agent on a
    /// model that is not in it. The files are in `folder`. The roles `of_user` are left out.
    pub fn new(
        config: &CodexConfig,
        infos: &[Value],
        folder: &Path,
        of_user: &BTreeSet<String>,
    ) -> Self {
        let info = |model: &str| infos.iter().find(|info| info["slug"] == model);
        let default = config.default_agent();
        let default = default.filter(|model| info(model).is_some());
        let mut agents = Self {
            default: default.map(str::to_owned),
            ..Self::default()
        };
        for (name, model) in config.roles() {
            if of_user.contains(name) {
                agents.of_user.push(name.to_owned());
            } else if let Some(info) = info(model) {
                agents.roles.push(AgentRole {
                    name: name.to_owned(),
                    path: folder.join(format!("{FILE_PREFIX}{name}.toml")),
                    text: text(name, model, info),
                });
            }
        }
        agents
    }
}

/// The text of the file of a role.
fn text(role: &str, model: &str, info: &Value) -> String {
    let mut document = DocumentMut::new();
    let purpose = match role {
        "explorer" => {
            "Finds out where something is in the code and how it works. It changes nothing. Ask it \
             one well-defined question; several explorers can look for different things at once."
                .to_owned()
        }
        "worker" => {
            "Does a well-defined part of the work: writes code, mends tests, restructures. Tell it \
             which files are its own, and that others work in the same folder."
                .to_owned()
        }
        role => format!("Takes tasks of a {role}."),
    };
    let about = info["description"].as_str().unwrap_or_default();
    let description = format!("{purpose} Its model: {about}");
    document.insert("description", toml_edit::value(description));
    document.insert("model", toml_edit::value(model));
    if let Some(effort) = effort(info) {
        document.insert("model_reasoning_effort", toml_edit::value(effort));
    }
    format!("{HEADER}\n{document}")
}

/// The effort of a role. Without one Codex gives a sub-agent the effort of its parent, and begins
/// none if the model of the role does not have that.
fn effort(info: &Value) -> Option<&str> {
    let levels = info["supported_reasoning_levels"].as_array()?;
    let mut levels = levels.iter().filter_map(|level| level["effort"].as_str());
    let default = info["default_reasoning_level"].as_str();
    default
        .or_else(|| levels.clone().find(|level| *level == "medium"))
        .or_else(|| levels.next())
}

/// The roles that the user wrote: those in `config.toml` of this folder of Codex's, and those that
/// have a file in its folder `agents`. What cannot be read is no role to Codex either.
pub fn of_user(folder: &Path) -> BTreeSet<String> {
    let config = fs::read_to_string(folder.join("config.toml")).unwrap_or_default();
    let config: DocumentMut = config.parse().unwrap_or_default();
    let mut roles = BTreeSet::new();
    let tables = config.get("agents").and_then(Item::as_table_like);
    for (name, item) in tables.into_iter().flat_map(TableLike::iter) {
        if item.is_table_like() && !is_ours(item) {
            roles.insert(name.to_owned());
        }
    }
    let mut folders = vec![(folder.join("agents"), MAX_DEPTH)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && depth > 0 {
                folders.push((path, depth - 1));
            } else if path.extension().is_some_and(|end| end == "toml") {
                let text = fs::read_to_string(path).unwrap_or_default();
                let role: toml::Table = text.parse().unwrap_or_default();
                roles.extend(
                    role.get("name")
                        .and_then(toml::Value::as_str)
                        .map(str::to_owned),
                );
            }
        }
    }
    roles
}

/// Whether a role in the settings of Codex has a file of the setup.
pub(super) fn is_ours(role: &Item) -> bool {
    let file = role.get("config_file").and_then(Item::as_str);
    let name = file.and_then(|file| Path::new(file).file_name()?.to_str());
    name.is_some_and(|name| name.starts_with(FILE_PREFIX))
}

/// What writes the files of roles, in place of earlier ones of the setup.
pub fn plan(roles: &[AgentRole]) -> Result<Vec<FileChange>, ProfileError> {
    let change = |role: &AgentRole| {
        let path = role.path.clone();
        match file::read(&path)? {
            Some(earlier) if !earlier.starts_with(HEADER) => Err(ProfileError::Foreign { path }),
            Some(_) | None => Ok(FileChange::write(path, role.text.clone())),
        }
    };
    roles.iter().map(change).collect()
}

/// What deletes the files of roles that the setup wrote into this folder, but for the roles `kept`.
pub fn plan_removal(folder: &Path, kept: &[AgentRole]) -> Result<Vec<FileChange>, FileError> {
    let mut changes = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(OsStr::to_str);
        let is_named = name.is_some_and(|name| name.starts_with(FILE_PREFIX))
            && path.extension().is_some_and(|end| end == "toml");
        if is_named
            && !kept.iter().any(|role| role.path == path)
            && file::read(&path)?.is_some_and(|text| text.starts_with(HEADER))
        {
            changes.push(FileChange::delete(path));
        }
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(agents: &[(&str, &str)]) -> CodexConfig {
        let agents = agents.iter();
        CodexConfig {
            agents: agents
                .map(|(role, model)| ((*role).to_owned(), (*model).to_owned()))
                .collect(),
            ..CodexConfig::default()
        }
    }

    fn info(slug: &str, levels: &[&str], default: Option<&str>) -> Value {
        let levels: Vec<_> = levels.iter().map(|it| json!({"effort": it})).collect();
        json!({
            "slug": slug, "description": format!("by {slug}"),
            "supported_reasoning_levels": levels, "default_reasoning_level": default,
        })
    }

    #[test]
    fn a_role_has_the_effort_that_its_model_has() {
        for (levels, default, effort) in [
            (&["low", "high"][..], Some("high"), Some("high")),
            (&["low", "medium", "high"], None, Some("medium")),
            (&["low", "high"], None, Some("low")),
            (&["none"], None, Some("none")),
            (&[], None, None),
        ] {
            let infos = [info("m", levels, default)];
            let config = config(&[("explorer", "m"), ("default", "m"), ("worker", "absent")]);
            let agents = CodexAgents::new(&config, &infos, Path::new("/c"), &BTreeSet::new());
            assert_eq!(agents.default.as_deref(), Some("m"));
            let [explorer] = &agents.roles[..] else {
                panic!("{agents:?}");
            };
            assert_eq!(
                explorer.path.to_str(),
                Some("/c/respondent-agent-explorer.toml")
            );
            let role: toml::Table = explorer.text.parse().unwrap();
            assert_eq!(role["model"].as_str(), Some("m"));
            let found = role.get("model_reasoning_effort");
            assert_eq!(found.and_then(toml::Value::as_str), effort, "{levels:?}");
            let description = role["description"].as_str().unwrap();
            assert!(description.ends_with("Its model: by m"), "{description}");
        }
    }

    #[test]
    fn roles_of_the_user_are_found_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "config.toml",
            "[agents]\nenabled = true\n[agents.mine]\ndescription = \"Mine.\"\n\
             [agents.worker]\nconfig_file = \"/c/respondent-agent-worker.toml\"\n",
        );
        write("agents/a.toml", "name = \"explorer\"\nmodel = \"x\"\n");
        write("agents/more/b.toml", "name = \"deep\"\n");
        write("agents/c.toml", "name = ");
        write("agents/d.md", "name = \"text\"\n");
        let found = of_user(folder.path());
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["deep", "explorer", "mine"]);
        let config = config(&[("explorer", "m"), ("worker", "m")]);
        let infos = [info("m", &[], None)];
        let agents = CodexAgents::new(&config, &infos, folder.path(), &of_user(folder.path()));
        assert_eq!(agents.of_user, ["explorer"]);
        let [worker] = &agents.roles[..] else {
            panic!("{agents:?}");
        };
        write("respondent-agent-worker.toml", &worker.text);
        write("respondent-agent-old.toml", &worker.text);
        write("respondent-agent-mine.toml", "model = \"mine\"\n");
        let removed = |kept: &[AgentRole]| -> Vec<_> {
            let changes = plan_removal(folder.path(), kept).unwrap().into_iter();
            changes
                .map(|change| change.path.file_stem().unwrap().to_owned())
                .collect()
        };
        assert_eq!(plan(&agents.roles).unwrap().len(), 1);
        let foreign = AgentRole {
            path: folder.path().join("respondent-agent-mine.toml"),
            ..worker.clone()
        };
        assert!(matches!(
            plan(&[foreign]),
            Err(ProfileError::Foreign { .. })
        ));
        assert_eq!(removed(&agents.roles), ["respondent-agent-old"]);
        assert_eq!(
            removed(&[]),
            ["respondent-agent-old", "respondent-agent-worker"]
        );
    }
}
