//! A profile of Codex's that points it at this server: `codex -p respondent` reads it on top of the
//! user's own configuration, which stays as it is.

use std::path::PathBuf;

use super::file::{self, FileError};
use super::home::CodexHome;
use super::settings::{CodexSettings, ID};

/// The first line of a profile that the setup wrote.
const HEADER: &str =
    "# Written by `respondent codex setup`. `respondent codex remove` deletes it.\n";

/// A profile that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Somebody else wrote a profile of that name.
    #[error(
        "{} exists and was not written by `respondent codex setup`; move it elsewhere first",
        path.display()
    )]
    Foreign {
        /// The file of the profile.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The text of the profile.
pub fn text(settings: &CodexSettings<'_>) -> String {
    format!("{HEADER}\n{}", settings.document())
}

/// Writes the profile, in place of an earlier one of the setup. Returns its file.
pub fn write(home: &CodexHome, settings: &CodexSettings<'_>) -> Result<PathBuf, ProfileError> {
    let path = home.profile(ID);
    if file::read(&path)?.is_some_and(|text| !is_ours(&text)) {
        return Err(ProfileError::Foreign { path });
    }
    file::write(&path, &text(settings))?;
    Ok(path)
}

/// The text of the profile that the setup wrote, if there is one.
pub fn read(home: &CodexHome) -> Result<Option<String>, FileError> {
    Ok(file::read(&home.profile(ID))?.filter(|text| is_ours(text)))
}

/// Deletes the profile if the setup wrote it. Returns its file.
pub fn remove(home: &CodexHome) -> Result<Option<PathBuf>, FileError> {
    if read(home)?.is_none() {
        return Ok(None);
    }
    let path = home.profile(ID);
    file::remove(&path)?;
    Ok(Some(path))
}

fn is_ours(text: &str) -> bool {
    text.starts_with(HEADER)
}
