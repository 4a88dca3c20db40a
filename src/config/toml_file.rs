//! A file with its text, and errors that name file, line and what is wanted.

use std::fmt;
use std::path::{Path, PathBuf};

use registry::near;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Why a configuration is refused. Never holds a value that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, unless a flag or variable is wrong.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong and what is wanted.
    pub message: String,
}

impl ConfigError {
    /// An error that no file is to blame for.
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
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A TOML file.
#[derive(Clone, Debug, Default)]
pub struct TomlFile {
    /// Where it is; none stands for the defaults.
    pub path: Option<PathBuf>,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(format!("{}: {error}", path.display())))?;
        Ok(Self {
            path: Some(path.to_owned()),
            text,
        })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text as `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(&self.text).map_err(|error| ConfigError {
            file: self.path.clone(),
            line: error.span().map(|span| self.line_at(span.start)),
            message: self.explain_parse_error(&error),
        })
    }

    /// An error about the value at `path`, or about the nearest table around it.
    pub fn error(&self, path: &[&str], message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.path.clone(),
            line: self.line_of_key(path),
            message: message.into(),
        }
    }

    fn line_of_key(&self, path: &[&str]) -> Option<usize> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut here = table.get_ref();
        let mut line = None;
        for step in path {
            let Some((key, value)) = here.get_key_value(*step) else {
                break;
            };
            line = Some(self.line_at(key.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => here = inner,
                _ => break,
            }
        }
        line
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self
            .text
            .bytes()
            .take(offset)
            .filter(|byte| *byte == b'\n')
            .count()
    }

    /// Says what is wanted and what came, without the value that came.
    fn explain_parse_error(&self, error: &toml::de::Error) -> String {
        let message = error.message();
        if let Some(rest) = message.strip_prefix("unknown field ") {
            return explain_unknown_key(rest);
        }
        let key = error.span().and_then(|span| self.key_before(span.start));
        let key = key.map_or_else(String::new, |key| format!("`{key}`: "));
        match message.split_once(", expected ") {
            Some((came, wanted)) if message.starts_with("invalid ") => {
                let wanted = match wanted {
                    "u32" | "u64" | "usize" => "a whole number",
                    "f32" | "f64" => "a number",
                    other => other,
                };
                let kind = came.strip_prefix("invalid type: ").unwrap_or_default();
                match kind.split([' ', '`', '"']).next() {
                    Some(kind) if !kind.is_empty() => {
                        format!("{key}expected {wanted}, found {kind}")
                    }
                    _ => format!("{key}expected {wanted}"),
                }
            }
            _ if message.starts_with("unknown variant ") => {
                let wanted = message
                    .split_once(", expected ")
                    .map_or("", |(_, wanted)| wanted);
                format!("{key}expected {wanted}")
            }
            _ => format!("{key}{message}"),
        }
    }

    /// The key whose value begins at `offset`, as its line has it.
    fn key_before(&self, offset: usize) -> Option<String> {
        let before = self.text.get(..offset)?;
        let line = before.rsplit('\n').next().unwrap_or(before);
        let key = line.rsplit_once('=').map(|(key, _)| key)?.trim();
        let key = key.rsplit(['{', ',', ' ']).next().unwrap_or(key);
        (!key.is_empty()).then(|| key.to_owned())
    }
}

/// From "`lisen`, expected one of `listen`, `log`" to a sentence with a guess.
fn explain_unknown_key(rest: &str) -> String {
    let mut words = rest.split('`').skip(1).step_by(2);
    let word = words.next().unwrap_or_default();
    let known: Vec<&str> = words.collect();
    match near::nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown key `{word}`; did you mean `{near}`?"),
        None => format!("unknown key `{word}`; known are {}", known.join(", ")),
    }
}
