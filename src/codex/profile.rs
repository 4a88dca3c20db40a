//! A profile of Codex's that points it at this server: `codex -p respondent` reads it on top of the
//! user's own configuration, which stays as it is.

use std::path::PathBuf;

use toml_edit::{DocumentMut, Item, TableLike};

use super::change::FileChange;
use super::file::{self, FileError};
use super::home::CodexHome;
use super::settings::{CodexSettings, ID, KEYS, empty_group, grouped_keys};

/// The first line of a profile that the setup wrote, and of the file of a role.
pub(super) const HEADER: &str =
    "# Written by `respondent codex setup`. `respondent codex remove` deletes it.\n";

/// A profile that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is a profile, or a role of sub-agents, of that name that the setup has not written.
    #[error(
        "{} exists and was not written by `respondent codex setup`; move it elsewhere first",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The text of the profile. What Codex or the user has added to an earlier one of the setup stays:
/// Codex writes there which folders the user trusts.
fn text(home: &CodexHome, settings: &CodexSettings<'_>) -> Result<String, ProfileError> {
    let path = home.profile(ID);
    let mut document = settings.document();
    match file::read(&path)? {
        Some(earlier) if !is_ours(&earlier) => return Err(ProfileError::Foreign { path }),
        // With a file that is not TOML Codex does not start, so nothing of it is kept.
        Some(earlier) => keep_others(&mut document, &earlier.parse().unwrap_or_default()),
        None => {}
    }
    Ok(format!("{HEADER}\n{document}"))
}

/// Puts everything of an earlier profile that the setup does not write into the document.
fn keep_others(document: &mut DocumentMut, earlier: &DocumentMut) {
    let ours = grouped_keys(earlier);
    for (key, item) in earlier.iter().filter(|(key, _)| !KEYS.contains(key)) {
        if !ours.iter().any(|(group, _)| *group == key) {
            document.insert(key, item.clone());
            continue;
        }
        let is_ours = |id: &str| ours.iter().any(|(group, ours)| *group == key && ours == id);
        let others = item.as_table_like().into_iter().flat_map(TableLike::iter);
        for (id, other) in others.filter(|(id, _)| !is_ours(id)) {
            let group = document.entry(key);
            let group = group.or_insert_with(|| Item::Table(empty_group()));
            if let Some(group) = group.as_table_like_mut() {
                group.insert(id, other.clone());
            }
        }
    }
}

/// What writes the profile, in place of an earlier one of the setup.
pub fn plan(home: &CodexHome, settings: &CodexSettings<'_>) -> Result<FileChange, ProfileError> {
    Ok(FileChange::write(home.profile(ID), text(home, settings)?))
}

/// The text of the profile that the setup wrote, if there is one.
pub fn read(home: &CodexHome) -> Result<Option<String>, FileError> {
    Ok(file::read(&home.profile(ID))?.filter(|text| is_ours(text)))
}

/// What deletes the profile, if the setup wrote it.
pub fn plan_removal(home: &CodexHome) -> Result<Option<FileChange>, FileError> {
    let profile = read(home)?;
    Ok(profile.map(|_| FileChange::delete(home.profile(ID))))
}

fn is_ours(text: &str) -> bool {
    text.starts_with(HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codex::settings::{CodexSearch, CodexToken};

    fn write(home: &CodexHome, settings: &CodexSettings<'_>) -> Result<PathBuf, ProfileError> {
        let change = plan(home, settings)?;
        change.apply()?;
        Ok(change.path)
    }

    const SETTINGS: CodexSettings<'_> = CodexSettings {
        origin: "http://127.0.0.1:9797",
        model: "kimi-k3",
        token: CodexToken::None,
        catalog: None,
        artifacts: true,
        search: CodexSearch::Standalone,
        agents: None,
    };

    fn home() -> (tempfile::TempDir, CodexHome) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str().to_owned();
        let home = CodexHome::find(|_| Some(path.clone())).unwrap();
        (folder, home)
    }

    /// Promise: A `codex setup` that is run again keeps what Codex and the user have added to the
    /// profile, such as the folders that the user trusts.
    #[test]
    fn what_codex_has_added_stays_when_the_setup_is_run_again() {
        const ADDED: &str = "\n[tui]\nseen = true\n\n\
            [projects.\"/home/me/app\"]\ntrust_level = \"trusted\"\n\n\
            [mcp_servers.mine]\nurl = \"http://127.0.0.1:1/mcp\"\n";
        let (_folder, home) = home();
        let path = write(&home, &SETTINGS).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        let chosen = written.replace(
            "model = \"kimi-k3\"",
            "model = \"m-1\"\nmodel_reasoning_effort = \"high\"",
        );
        std::fs::write(&path, chosen + ADDED).unwrap();
        let other = CodexSettings {
            origin: "http://127.0.0.1:9798",
            model: "kimi-k2",
            ..SETTINGS
        };
        write(&home, &other).unwrap();
        let written = read(&home).unwrap().unwrap();
        let mut expected: toml::Table = (other.document().to_string() + ADDED).parse().unwrap();
        expected.insert("model_reasoning_effort".to_owned(), "high".into());
        assert_eq!(written.parse::<toml::Table>().unwrap(), expected);
        write(&home, &other).unwrap();
        assert_eq!(read(&home).unwrap().unwrap(), written);
    }

    #[test]
    fn a_profile_of_somebody_else_is_left_alone() {
        let (_folder, home) = home();
        let path = home.profile(ID);
        std::fs::write(&path, "model = \"mine\"\n").unwrap();
        assert!(matches!(
            write(&home, &SETTINGS),
            Err(ProfileError::Foreign { .. })
        ));
        assert_eq!(plan_removal(&home).unwrap(), None);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "model = \"mine\"\n"
        );
    }
}
