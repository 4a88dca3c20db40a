//! The folder in which Codex keeps its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of Codex: `CODEX_HOME`, or else `.codex` in the home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexHome(PathBuf);

impl CodexHome {
    /// Finds the folder, which need not exist. `None` without a home directory. `variable` reads an
    /// environment variable.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let folder = set("CODEX_HOME").or_else(|| {
            let home = set("HOME").or_else(|| set("USERPROFILE"))?;
            Some(home.join(".codex"))
        })?;
        Some(Self(std::path::absolute(&folder).unwrap_or(folder)))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The file of a profile, which `codex -p PROFILE` reads on top of [`Self::config`].
    pub fn profile(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.config.toml"))
    }

    /// The configuration that every Codex reads.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// [`Self::config`] as it was before the setup.
    pub fn config_before(&self) -> PathBuf {
        self.0.join("config.toml.before-respondent")
    }

    /// [`Self::config`] as the setup wrote it, by which the settings of the setup are told from
    /// later edits.
    pub fn config_written(&self) -> PathBuf {
        self.0.join("config.toml.with-respondent")
    }

    /// The model catalog of the setup.
    pub fn catalog(&self) -> PathBuf {
        self.0.join("respondent-models.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_home_comes_before_the_home_directory() {
        for (set, expected) in [
            (&[("CODEX_HOME", "/c"), ("HOME", "/h")][..], Some("/c")),
            (&[("CODEX_HOME", ""), ("HOME", "/h")], Some("/h/.codex")),
            (&[("USERPROFILE", "/u")], Some("/u/.codex")),
            (&[], None),
        ] {
            let home = CodexHome::find(|name| {
                let (_, value) = set.iter().find(|(set, _)| *set == name)?;
                Some(value.into())
            });
            assert_eq!(home, expected.map(|path| CodexHome(path.into())));
        }
    }
}
