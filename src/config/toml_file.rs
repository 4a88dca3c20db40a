//! A TOML file with its text, and errors that name the file, the line and what is expected.

use std::ops::Range;
use std::path::{Path, PathBuf};

use registry::suggest;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Table;
use toml::de::{DeTable, DeValue, Deserializer};

use super::error::{ConfigError, MAX_ERRORS};

/// The text of a TOML file. The default is empty and means a configuration without a file.
#[derive(Clone, Debug, Default)]
pub struct TomlFile {
    /// The path; `None` if there is no file.
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

    /// A file that is part of the program, under this name.
    pub fn built_in(name: &str, text: &str) -> Self {
        Self {
            path: Some(name.into()),
            text: text.to_owned(),
        }
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the text as a `T`. An entry that has a mistake is left out, so that the mistakes
    /// after it are found, too. Errors name the line and never quote a value.
    pub fn parse<T: DeserializeOwned>(&self) -> Parsed<T> {
        let mut parsed = Parsed {
            value: None,
            table: Table::new(),
            errors: Vec::new(),
            left_out: Vec::new(),
        };
        let mut document = match DeTable::parse(&self.text) {
            Ok(document) => document,
            Err(error) => {
                parsed.errors.push(self.parse_error(&error));
                return parsed;
            }
        };
        loop {
            let read = T::deserialize(Deserializer::from(document.clone())).and_then(|value| {
                let table = Table::deserialize(Deserializer::from(document.clone()))?;
                Ok((value, table))
            });
            let error = match read {
                Ok((value, table)) => {
                    parsed.value = Some(value);
                    parsed.table = table;
                    return parsed;
                }
                Err(error) => error,
            };
            parsed.errors.push(self.parse_error(&error));
            let span = error.span().filter(|_| parsed.errors.len() < MAX_ERRORS);
            match span.and_then(|span| remove_entry(document.get_mut(), &span)) {
                Some(path) => parsed.left_out.push(path),
                None => return parsed,
            }
        }
    }

    fn parse_error(&self, error: &toml::de::Error) -> ConfigError {
        ConfigError {
            file: self.path.clone(),
            line: error.span().map(|span| self.line_at(span.start)),
            message: self.explain_parse_error(error),
        }
    }

    /// An error about the value at `path`. If the file has no such value, it names the line
    /// of the innermost table on that path.
    pub fn error(&self, path: &[&str], message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.path.clone(),
            line: self.line_of_key(path),
            message: message.into(),
        }
    }

    fn line_of_key(&self, path: &[&str]) -> Option<usize> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut table = table.get_ref();
        let mut line = None;
        for name in path {
            let Some((key, value)) = table.get_key_value(*name) else {
                break;
            };
            line = Some(self.line_at(key.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
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

    /// Words a parse error: what was expected and the type that was found, without the value.
    fn explain_parse_error(&self, error: &toml::de::Error) -> String {
        let message = error.message();
        if let Some(rest) = message.strip_prefix("unknown field ") {
            return explain_unknown_key(rest);
        }
        let key = error.span().and_then(|span| self.key_before(span.start));
        let key = key.map_or_else(String::new, |key| format!("`{key}`: "));
        match message.split_once(", expected ") {
            Some((found, expected)) if message.starts_with("invalid ") => {
                let expected = match expected {
                    "u32" | "u64" | "usize" => "a whole number",
                    "f32" | "f64" => "a number",
                    "a table" if key == "`models`: " => "tables such as { id = \"MODEL\" }",
                    other => other,
                };
                let kind = found.strip_prefix("invalid type: ").unwrap_or_default();
                match kind.split([' ', '`', '"']).next() {
                    Some(kind) if !kind.is_empty() => {
                        format!("{key}expected {expected}, found {kind}")
                    }
                    _ => format!("{key}expected {expected}"),
                }
            }
            _ if message.starts_with("unknown variant ") => {
                let expected = message
                    .split_once(", expected ")
                    .map_or("", |(_, expected)| expected);
                format!("{key}expected {expected}")
            }
            _ => format!("{key}{message}"),
        }
    }

    /// The key whose value begins or lies at `offset`, if it is written without quotes. What is
    /// in a string is never taken for a key, because it may be part of a secret.
    fn key_before(&self, offset: usize) -> Option<&str> {
        let mut rest = self.text.get(..offset)?;
        let mut key = None;
        while let Some(at) = rest.find(['"', '\'', '#', '=', '\n', '{', ',']) {
            let Some((before, from)) = rest.split_at_checked(at) else {
                break;
            };
            rest = from.get(1..).unwrap_or_default();
            match from.as_bytes().first() {
                Some(b'"' | b'\'') => rest = after_string(from),
                Some(b'#') => rest = from_line_end(rest),
                Some(b'\n') => key = None,
                Some(b'=') => key = Some(before.trim()).filter(|key| is_bare_key(key)),
                _ => {}
            }
        }
        key
    }
}

/// What could be read of a file, and its mistakes. Made by [`TomlFile::parse`].
pub struct Parsed<T> {
    /// The contents without the entries that have mistakes; `None` if nothing can be used.
    pub value: Option<T>,
    /// The same contents as a table.
    pub table: Table,
    /// The mistakes, at most [`MAX_ERRORS`].
    pub errors: Vec<ConfigError>,
    /// The keys that lead to each entry that was left out.
    pub left_out: Vec<Vec<String>>,
}

impl<T> Parsed<T> {
    /// Whether an entry was left out of the table to which these keys lead.
    pub fn is_incomplete(&self, path: &[&str]) -> bool {
        let leads_there = |left_out: &Vec<String>| {
            let keys = left_out.iter().map(String::as_str);
            keys.take(path.len()).eq(path.iter().copied())
        };
        self.left_out.iter().any(leads_there)
    }
}

/// Removes the innermost entry whose key or value holds this part of the text. Returns the keys
/// that lead to it.
fn remove_entry(table: &mut DeTable<'_>, part: &Range<usize>) -> Option<Vec<String>> {
    for (key, value) in table.iter_mut() {
        let inner = match value.get_mut() {
            DeValue::Table(inner) => remove_entry(inner, part),
            DeValue::Array(items) => items.iter_mut().find_map(|item| match item.get_mut() {
                DeValue::Table(inner) => remove_entry(inner, part),
                _ => None,
            }),
            _ => None,
        };
        if let Some(mut path) = inner {
            path.insert(0, key.get_ref().to_string());
            return Some(path);
        }
    }
    let holds = |span: Range<usize>| span.start <= part.start && part.end <= span.end;
    let (key, _) = table
        .iter()
        .find(|(key, value)| holds(key.span()) || holds(value.span()))?;
    let key = key.get_ref().to_string();
    table.remove(key.as_str());
    Some(vec![key])
}

fn is_bare_key(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(is_allowed)
}

fn from_line_end(text: &str) -> &str {
    let end = text.find('\n').and_then(|end| text.get(end..));
    end.unwrap_or_default()
}

/// The text behind the string with which `text` begins; empty if the string does not end.
fn after_string(text: &str) -> &str {
    let quote = ["\"\"\"", "'''", "\"", "'"];
    let quote = quote.into_iter().find(|quote| text.starts_with(quote));
    let quote = quote.unwrap_or_default();
    let is_multi_line = quote.len() == 3;
    let mut rest = text.get(quote.len()..).unwrap_or_default();
    while let Some(at) = rest.find(['\\', '"', '\'', '\n']) {
        let from = rest.get(at..).unwrap_or_default();
        if from.starts_with(quote) {
            return from.get(quote.len()..).unwrap_or_default();
        }
        if from.starts_with('\n') && !is_multi_line {
            return from;
        }
        // An escaped quote ends nothing.
        let is_escape = from.starts_with('\\') && quote.starts_with('"');
        let mut chars = from.chars();
        chars
            .by_ref()
            .take(1 + usize::from(is_escape))
            .for_each(drop);
        rest = chars.as_str();
    }
    ""
}

/// Turns "`lisen`, expected one of `listen`, `log`" into a sentence that suggests a key.
fn explain_unknown_key(rest: &str) -> String {
    let mut words = rest.split('`').skip(1).step_by(2);
    let word = words.next().unwrap_or_default();
    let known: Vec<&str> = words.collect();
    match suggest::nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown key `{word}`; did you mean `{near}`?"),
        None => format!("unknown key `{word}`; known are {}", known.join(", ")),
    }
}
