//! Why a configuration is refused: every mistake that was found, with its file and line.

use std::fmt;
use std::path::PathBuf;

use crate::log::escape_lines;

/// The most mistakes that are told of one configuration.
pub const MAX_ERRORS: usize = 20;

/// The mistakes of a configuration that cannot be used: at least one, in the order of the files.
/// Made by [`load`](super::load()).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Made of at least one mistake. One that was found twice is told once.
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        let mut once: Vec<ConfigError> = Vec::with_capacity(errors.len());
        for error in errors {
            if !once.contains(&error) {
                once.push(error);
            }
        }
        Self(once)
    }

    /// The mistakes, one line each.
    pub fn all(&self) -> &[ConfigError] {
        &self.0
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One mistake. It never contains a value that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; `None` if the mistake is in a flag or variable.
    pub file: Option<PathBuf>,
    /// The line number, counted from 1.
    pub line: Option<usize>,
    /// The message: the mistake, and what is expected instead.
    pub message: String,
}

impl ConfigError {
    /// An error without a file and line.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            match self.line {
                Some(line) => write!(f, "{line}: ")?,
                None => f.write_str(" ")?,
            }
        }
        // A key or a name from the file may hold what a terminal takes for a command.
        f.write_str(&escape_lines(&self.message))
    }
}

impl std::error::Error for ConfigError {}
