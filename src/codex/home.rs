//! The folder in which Codex keeps its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of Codex: `CODEX_HOME`, or else `.codex` in the home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexHome {
    folder: PathBuf,
    /// Whether `CODEX_HOME` names it. Codex does not start if such a folder is missing.
    is_named: bool,
}

impl CodexHome {
    /// Finds the folder, which need not exist. `None` without a home directory. `variable` reads an
    /// environment variable.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let named = set("CODEX_HOME");
        let is_named = named.is_some();
        let folder = named.or_else(|| {
            let home = set("HOME").or_else(|| set("USERPROFILE"))?;
            Some(home.join(".codex"))
        })?;
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Some(Self { folder, is_named })
    }

    /// Deletes the folder if it is empty, as after the removal of a setup that made it. A folder
    /// that `CODEX_HOME` names stays. True if it was deleted.
    pub fn remove_if_empty(&self) -> bool {
        !self.is_named && std::fs::remove_dir(&self.folder).is_ok()
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a profile, which `codex -p PROFILE` reads on top of [`Self::config`].
    pub fn profile(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.config.toml"))
    }

    /// The configuration that every Codex reads.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config.toml")
    }

    /// [`Self::config`] as it was before the setup.
    pub fn config_before(&self) -> PathBuf {
        self.folder.join("config.toml.before-respondent")
    }

    /// [`Self::config`] as the setup wrote it, to tell later edits from the settings of the setup.
    pub fn config_written(&self) -> PathBuf {
        self.folder.join("config.toml.with-respondent")
    }

    /// The model catalog of the setup.
    pub fn catalog(&self) -> PathBuf {
        self.folder.join("respondent-models.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_home_comes_before_the_home_directory() {
        for (set, expected) in [
            (
                &[("CODEX_HOME", "/c"), ("HOME", "/h")][..],
                Some(("/c", true)),
            ),
            (
                &[("CODEX_HOME", ""), ("HOME", "/h")],
                Some(("/h/.codex", false)),
            ),
            (&[("USERPROFILE", "/u")], Some(("/u/.codex", false))),
            (&[], None),
        ] {
            let home = CodexHome::find(|name| {
                let (_, value) = set.iter().find(|(set, _)| *set == name)?;
                Some(value.into())
            });
            let expected = expected.map(|(folder, is_named)| CodexHome {
                folder: folder.into(),
                is_named,
            });
            assert_eq!(home, expected);
        }
    }
}
