//! `respondent codex`: sets the Codex CLI up for this server, and undoes it.

mod preview;
pub mod status;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::invocation::{Invocation, shell_word, typed_program};
use super::progress::Progress;
use super::served::{ModelSource, ServedModels};
use super::{print_text, with_discovered_models};
use crate::codex::agents::{self, CodexAgents};
use crate::codex::catalog::{self, CodexCatalog, CodexFeatures};
use crate::codex::change::FileChange;
use crate::codex::default_config::{self, DefaultPlan, Restored};
use crate::codex::home::CodexHome;
use crate::codex::profile;
use crate::codex::settings::{CodexSearch, CodexSettings, CodexToken, ID, STANDALONE_SEARCH};
use crate::config::search::SearchMode;
use crate::config::{ArtifactMode, Config, Flags, Inputs, address};
use crate::log::TERMINAL_WIDTH;

/// The options of `respondent codex setup`.
#[derive(Debug, Clone, Copy)]
pub struct SetupOptions<'a> {
    /// The model to start with; the configured one if left out.
    pub model: Option<&'a str>,
    /// Whether the settings go into Codex's `config.toml` instead of a profile.
    pub as_default: bool,
    /// Whether the changes are printed and none is made.
    pub dry_run: bool,
    /// The Codex program.
    pub codex: &'a OsStr,
}

/// What the setup would change, and what to say about it.
struct SetupPlan {
    /// The files, in the order in which they are changed.
    changes: Vec<(FileChange, Content)>,
    /// Why no catalog is among them, as the end of a sentence.
    no_catalog: Option<String>,
    /// The file as it was that the setup will keep.
    copy: Option<PathBuf>,
    /// The roles of sub-agents that have no model from here, because the user wrote them.
    own_roles: Vec<String>,
}

/// What a file of the setup contains.
enum Content {
    /// A catalog of these models with the prompt of a model of Codex's.
    Catalog {
        prompt_model: String,
        models: Vec<String>,
    },
    /// The settings, in a profile or in `config.toml`, or a role of sub-agents.
    Settings,
    /// `config.toml` without the settings.
    ConfigBefore,
    /// `config.toml` with the settings.
    ConfigWritten,
}

/// `respondent codex setup`: writes the settings and the model catalog. Returns what to print.
/// `config` was loaded from `inputs` without keys.
pub async fn setup(
    inputs: &Inputs,
    config: Config,
    options: SetupOptions<'_>,
) -> anyhow::Result<String> {
    let home = codex_home()?;
    let source = ModelSource::find(&config).await?;
    let (config, served) = match &source {
        ModelSource::Server(control) => {
            let served = ServedModels::of_server(control, &config, options.model).await?;
            (config, served)
        }
        ModelSource::Shell => {
            let (config, _) = with_discovered_models(inputs, config).await?;
            let served = ServedModels::of_config(&config, options.model);
            (config, served)
        }
    };
    let (flags, config) = (&inputs.flags, &config);
    let model = served.choose(&source, config, options.model).await?;
    let is_demo = options.model.is_none() && served.only_demo().is_some();
    let origin = origin(config);
    let plan = plan(config, &home, &origin, &model, served, options).await?;
    for (change, _) in &plan.changes {
        change.check()?;
    }
    if options.dry_run {
        return Ok(plan.preview(config, &home));
    }
    let mut text = String::new();
    if let Some(reason) = &plan.no_catalog {
        let _ = writeln!(
            text,
            "No model catalog was written: {reason}. Without one Codex reads the models from this server."
        );
    }
    for (change, content) in &plan.changes {
        apply(change, &text)?;
        let path = change.path.display();
        let _ = match content {
            _ if change.text.is_none() => Ok(()),
            Content::Catalog { prompt_model, .. } => {
                writeln!(
                    text,
                    "Wrote {path} with the prompt that Codex has for {prompt_model}."
                )
            }
            _ => writeln!(text, "Wrote {path}."),
        };
    }
    text += &plan.about_own_roles();
    if let Some(copy) = &plan.copy {
        let _ = writeln!(text, "Kept the file as it was: {}.", copy.display());
    }
    if is_demo {
        text += "No provider has a key, so Codex gets the offline demo model. Set a key, such\n\
                 as OPENAI_API_KEY, start the server with it, and run this again.\n";
    }
    let start = if options.as_default {
        "codex".to_owned()
    } else {
        format!("codex -p {ID}")
    };
    let program = typed_program();
    let invocation = invocation(&program, flags, config);
    let mut rows = Vec::new();
    let label = if let ModelSource::Shell = source {
        rows.push(("Next", invocation.starting(), format!("(at {origin})")));
        "then"
    } else {
        "Next"
    };
    rows.push((label, start, format!("(model {model})")));
    let undo = format!("{} codex remove", shell_word(&program));
    rows.push(("Undo", undo, String::new()));
    text.push('\n');
    text += &two_columns(&rows);
    Ok(text)
}

impl SetupPlan {
    /// What to say about the roles of the user; empty if there is nothing.
    fn about_own_roles(&self) -> String {
        let sentence = |role: &String| {
            format!(
                "Your own role `{role}` of sub-agents stays as it is; set its model yourself.\n"
            )
        };
        self.own_roles.iter().map(sentence).collect()
    }
}

/// Rows of a label, a command and a remark. The remarks are below their commands if a line would be
/// wider than a terminal.
fn two_columns(rows: &[(&str, String, String)]) -> String {
    let length = |text: &str| text.chars().count();
    let labels = rows.iter().map(|(label, ..)| length(label)).max();
    let labels = labels.unwrap_or_default();
    let commands = rows.iter().filter(|(.., remark)| !remark.is_empty());
    let commands = commands.map(|(_, command, _)| length(command)).max();
    let commands = commands.unwrap_or_default();
    let remarks = rows.iter().map(|(.., remark)| length(remark)).max();
    let is_narrow =
        2 + labels + 2 + commands + 4 + remarks.unwrap_or_default() <= usize::from(TERMINAL_WIDTH);
    let mut text = String::new();
    for (label, command, remark) in rows {
        let line = if remark.is_empty() {
            format!("  {label:labels$}  {command}\n")
        } else if is_narrow {
            format!("  {label:labels$}  {command:commands$}    {remark}\n")
        } else {
            format!("  {label:labels$}  {command}\n  {:labels$}  {remark}\n", "")
        };
        text += &line;
    }
    text
}

/// Decides on all changes of the setup, and makes none.
async fn plan(
    config: &Config,
    home: &CodexHome,
    origin: &str,
    model: &str,
    served: ServedModels,
    options: SetupOptions<'_>,
) -> anyhow::Result<SetupPlan> {
    let mut plan = SetupPlan {
        changes: Vec::new(),
        no_catalog: None,
        copy: None,
        own_roles: Vec::new(),
    };
    let folder = home.folder();
    let of_user = agents::of_user(folder);
    let sub_agents = CodexAgents::new(&config.codex, &served.infos, folder, &of_user);
    match make_catalog(served.infos, options.codex).await {
        Ok(made) => {
            let change = catalog::plan(home, &made)?;
            let content = Content::Catalog {
                prompt_model: made.prompt_model,
                models: made.slugs,
            };
            plan.changes.push((change, content));
        }
        Err(error) => plan.no_catalog = Some(format!("{:#}", anyhow::Error::new(error))),
    }
    let path = home.catalog();
    let written = plan.no_catalog.is_none().then_some(path.as_path());
    let mut settings = settings(config, origin, model, written);
    let knows_standalone = config.search.mode != SearchMode::Off
        && CodexFeatures::of(options.codex)
            .await
            .has(STANDALONE_SEARCH);
    settings.search = CodexSearch::new(config.search.mode, knows_standalone);
    settings.agents = Some(&sub_agents);
    // Codex refuses settings that name a file that is missing.
    for change in agents::plan(&sub_agents.roles)? {
        plan.changes.push((change, Content::Settings));
    }
    if options.as_default {
        let DefaultPlan {
            before,
            written,
            config,
        } = default_config::plan(home, &settings)?;
        plan.copy = before.text.as_ref().map(|_| before.path.clone());
        plan.changes.push((before, Content::ConfigBefore));
        plan.changes.push((written, Content::ConfigWritten));
        plan.changes.push((config, Content::Settings));
    } else {
        let profile = profile::plan(home, &settings)?;
        plan.changes.push((profile, Content::Settings));
    }
    for change in agents::plan_removal(folder, &sub_agents.roles)? {
        plan.changes.push((change, Content::Settings));
    }
    plan.own_roles = sub_agents.of_user;
    Ok(plan)
}

/// Makes a change. If it fails, what was done before is printed first.
fn apply(change: &FileChange, done: &str) -> anyhow::Result<()> {
    let applied = change.apply();
    if applied.is_err() {
        print_text(done)?;
    }
    Ok(applied?)
}

/// `respondent codex remove`: undoes what `setup` has written. Returns what to print.
pub fn remove() -> anyhow::Result<String> {
    let home = codex_home()?;
    // Everything is decided before anything is changed: a file that cannot be undone stops it here.
    let profile = profile::plan_removal(&home)?;
    let default = default_config::plan_removal(&home)?;
    let catalog = catalog::plan_removal(&home)?;
    let mut changes = Vec::new();
    let deleted = |change: FileChange| {
        let sentence = format!("Deleted {}.\n", change.path.display());
        (change, sentence)
    };
    changes.extend(profile.map(deleted));
    if let Some((undone, restored)) = default {
        let config = home.config();
        let config = config.display();
        let sentence = match restored {
            Restored::Whole => format!("{config} is as it was before.\n"),
            Restored::Edited => {
                format!("Removed the settings of Respondent from {config}; later edits are kept.\n")
            }
        };
        let sentences = std::iter::once(sentence).chain(std::iter::repeat(String::new()));
        changes.extend(undone.into_iter().zip(sentences));
    }
    changes.extend(catalog.map(deleted));
    let roles = agents::plan_removal(home.folder(), &[])?;
    changes.extend(roles.into_iter().map(deleted));
    for (change, _) in &changes {
        change.check()?;
    }
    let mut text = String::new();
    for (change, sentence) in &changes {
        apply(change, &text)?;
        text += sentence;
    }
    if changes.is_empty() {
        return Ok(format!(
            "Codex is not set up in {}.\n",
            home.folder().display()
        ));
    }
    if home.remove_if_empty() {
        let _ = writeln!(
            text,
            "Deleted {}, which was empty.",
            home.folder().display()
        );
    }
    Ok(text)
}

async fn make_catalog(
    infos: Vec<Value>,
    codex: &OsStr,
) -> Result<CodexCatalog, catalog::CatalogError> {
    let _progress = Progress::begin("Asking Codex for its prompt");
    let printed = catalog::run_codex_debug_models(codex).await?;
    catalog::build(&printed, infos)
}

fn settings<'a>(
    config: &'a Config,
    origin: &'a str,
    model: &'a str,
    catalog: Option<&'a Path>,
) -> CodexSettings<'a> {
    CodexSettings {
        origin,
        model,
        token: match &config.server.token {
            Some(token) => CodexToken::Written(token),
            None => CodexToken::None,
        },
        catalog,
        artifacts: config.artifacts.mode != ArtifactMode::Off,
        search: CodexSearch::Off,
        agents: None,
    }
}

fn invocation<'a>(program: &'a str, flags: &'a Flags, config: &'a Config) -> Invocation<'a> {
    Invocation {
        program,
        flags,
        config,
        address: config.server.listen,
    }
}

fn origin(config: &Config) -> String {
    let address = address::local_client_address(config.server.listen);
    format!("http://{address}")
}

fn codex_home() -> anyhow::Result<CodexHome> {
    CodexHome::find(|name| std::env::var_os(name))
        .ok_or_else(|| anyhow::anyhow!("there is no home directory; set CODEX_HOME"))
}
