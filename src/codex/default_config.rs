//! Our settings in Codex's own `config.toml`, and how they are taken out again.
//!
//! The setup keeps the file as it was, and a copy of what it wrote. While the file is equal to that
//! copy, taking the settings out puts the old file back, byte for byte. After an edit only the
//! settings that are still as written are undone.

use std::path::PathBuf;

use toml_edit::{DocumentMut, Item, TableLike, TomlError};

use super::change::FileChange;
use super::file::{self, FileError};
use super::home::CodexHome;
use super::settings::{CodexSettings, KEYS, empty_group, grouped_keys};

/// A `config.toml` that cannot be changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ConfigTomlError {
    /// It is not TOML.
    #[error("{} is not valid TOML, so nothing was changed", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: TomlError,
    },
    /// It has a value where a table is needed.
    #[error("`{key}` in {} is not a table, so nothing was changed", path.display())]
    NotATable {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What became of a `config.toml` whose settings were taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// It is as it was before the setup, or absent as before.
    Whole,
    /// It was edited after the setup. The settings of the setup that were left as written are gone,
    /// and everything else is as edited.
    Edited,
}

/// What writes the settings into `config.toml`, in the order in which the changes are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPlan {
    /// Keeps the file without the settings.
    pub before: FileChange,
    /// Keeps the file with the settings.
    pub written: FileChange,
    /// Changes the file itself.
    pub config: FileChange,
}

/// What writes the settings into `config.toml`. Settings of an earlier setup are taken out first.
pub fn plan(
    home: &CodexHome,
    settings: &CodexSettings<'_>,
) -> Result<DefaultPlan, ConfigTomlError> {
    let text = without_settings(home)?;
    let merged = merge(home, text.as_deref().unwrap_or_default(), settings)?;
    let path = home.config_before();
    Ok(DefaultPlan {
        before: FileChange { path, text },
        written: FileChange::write(home.config_written(), merged.clone()),
        config: FileChange::write(home.config(), merged),
    })
}

/// Whether `config.toml` was set up.
pub fn is_set_up(home: &CodexHome) -> bool {
    home.config_written().exists()
}

/// What takes the settings out of `config.toml`, which is the first of the changes. `None` if they
/// were never written.
pub fn plan_removal(
    home: &CodexHome,
) -> Result<Option<(Vec<FileChange>, Restored)>, ConfigTomlError> {
    let Some((text, restored)) = restored(home)? else {
        return Ok(None);
    };
    let path = home.config();
    let changes = vec![
        FileChange { path, text },
        FileChange::delete(home.config_written()),
        FileChange::delete(home.config_before()),
    ];
    Ok(Some((changes, restored)))
}

/// The text of `config.toml` without the settings, whether they were written or not. `None` if
/// there is no file without them.
fn without_settings(home: &CodexHome) -> Result<Option<String>, ConfigTomlError> {
    match restored(home)? {
        Some((text, _)) => Ok(text),
        None => Ok(file::read(&home.config())?),
    }
}

/// What taking the settings out would leave: the text, or `None` where no file would be left. The
/// whole is `None` if the settings were never written.
fn restored(home: &CodexHome) -> Result<Option<(Option<String>, Restored)>, ConfigTomlError> {
    let Some(written) = file::read(&home.config_written())? else {
        return Ok(None);
    };
    let before = file::read(&home.config_before())?;
    let Some(current) = file::read(&home.config())? else {
        // The user has deleted it, with our settings.
        return Ok(Some((None, Restored::Edited)));
    };
    if current == written {
        return Ok(Some((before, Restored::Whole)));
    }
    let edited = undo(
        home,
        &current,
        &written,
        before.as_deref().unwrap_or_default(),
    )?;
    Ok(Some((Some(edited), Restored::Edited)))
}

/// The text with the settings in it. Comments, order and line ends of the text stay.
fn merge(
    home: &CodexHome,
    before: &str,
    settings: &CodexSettings<'_>,
) -> Result<String, ConfigTomlError> {
    let mut document = parse(home, before)?;
    let ours = settings.document();
    for key in KEYS {
        if let Some(value) = ours.get(key) {
            put(document.as_table_mut(), key, value);
        }
    }
    for (group, key) in grouped_keys(&ours) {
        let Some(item) = ours.get(group).and_then(|group| group.get(&*key)) else {
            continue;
        };
        let parent = document
            .entry(group)
            .or_insert_with(|| Item::Table(empty_group()));
        let parent = parent
            .as_table_like_mut()
            .ok_or_else(|| ConfigTomlError::NotATable {
                path: home.config(),
                key: group,
            })?;
        put(parent, &key, item);
    }
    Ok(like(before, &document))
}

/// Puts an item into a table. A value that is replaced leaves its comments to the new one.
fn put(table: &mut dyn TableLike, key: &str, item: &Item) {
    match (table.get_mut(key), item) {
        (Some(Item::Value(old)), Item::Value(new)) => {
            let decor = old.decor().clone();
            *old = new.clone();
            *old.decor_mut() = decor;
        }
        _ => drop(table.insert(key, item.clone())),
    }
}

/// Undoes the settings in a text that was edited after it was written. What differs from what was
/// written is the user's.
fn undo(
    home: &CodexHome,
    current: &str,
    written: &str,
    before: &str,
) -> Result<String, ConfigTomlError> {
    let mut document = parse(home, current)?;
    let (written, before) = (parse(home, written)?, parse(home, before)?);
    for key in KEYS {
        restore(
            document.as_table_mut(),
            key,
            written.get(key),
            before.get(key),
        );
    }
    for (group, key) in grouped_keys(&written) {
        let ours = written.get(group).and_then(|group| group.get(&*key));
        let old = before.get(group).and_then(|group| group.get(&*key));
        let Some(parent) = document.get_mut(group).and_then(Item::as_table_like_mut) else {
            continue;
        };
        restore(parent, &key, ours, old);
        if parent.is_empty() && before.get(group).is_none() {
            document.remove(group);
        }
    }
    Ok(like(current, &document))
}

/// Puts the old item back if the one that was written has not been changed since.
fn restore(table: &mut dyn TableLike, key: &str, written: Option<&Item>, before: Option<&Item>) {
    let is_ours = match (table.get(key), written) {
        (Some(current), Some(written)) => says_the_same(current, written),
        _ => false,
    };
    if !is_ours {
        return;
    }
    match before {
        Some(before) => put(table, key, before),
        None => drop(table.remove(key)),
    }
}

fn says_the_same(one: &Item, other: &Item) -> bool {
    let text = |item: &Item| {
        let mut document = DocumentMut::new();
        document.insert("item", item.clone());
        document.to_string().parse::<toml::Table>().ok()
    };
    text(one) == text(other)
}

fn parse(home: &CodexHome, text: &str) -> Result<DocumentMut, ConfigTomlError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.parse().map_err(|source| ConfigTomlError::NotToml {
        path: home.config(),
        source,
    })
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of the document, with the byte order mark and the line ends of the original.
fn like(original: &str, document: &DocumentMut) -> String {
    let mut text = document.to_string();
    if original.contains("\r\n") {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if original.starts_with(BYTE_ORDER_MARK) {
        text.insert(0, BYTE_ORDER_MARK);
    }
    text
}

#[cfg(test)]
mod tests;
