//! What was measured, as a provider file that has only what differs from what is known.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use registry::{Discovery, Provider, WireQuirks};
use toml::{Table, Value};

use super::measure::Known;
use super::report::{CheckVerdict, DoctorCheck};
use crate::config::{Config, KeyOrigin};
use crate::log::SafeText;

/// The quirks as they are in a file.
pub(super) fn quirks(quirks: &WireQuirks) -> Table {
    Table::try_from(quirks).unwrap_or_default()
}

/// The settings that have to be added to what is known before, as a provider file.
pub(super) fn difference(before: &Known, after: &Known) -> Table {
    let (old, new) = (
        quirks(&before.dialect.quirks),
        quirks(&after.dialect.quirks),
    );
    let changed: Table = new
        .into_iter()
        .filter(|(key, value)| old.get(key) != Some(value))
        .collect();
    let mut file = Table::new();
    if !changed.is_empty() {
        file.insert("quirks".to_owned(), Value::Table(changed));
    }
    let model = |known: &Known| Table::try_from(&known.model).unwrap_or_default();
    let (old, new) = (model(before), model(after));
    let mut changed: Table = new
        .into_iter()
        .filter(|(key, value)| old.get(key) != Some(value))
        .collect();
    if !changed.is_empty() {
        // A model that is listed takes no images unless its table says so.
        if after.model.images {
            changed.insert("images".to_owned(), Value::Boolean(true));
        }
        let mut table = Table::new();
        table.insert("id".to_owned(), Value::String(after.model.id.clone()));
        table.extend(changed);
        file.insert("models".to_owned(), Value::Array(vec![Value::Table(table)]));
    }
    file
}

/// The settings of a provider that is in no configuration yet: how it is reached.
pub(super) fn head(provider: &Provider, key: Option<&KeyOrigin>) -> Table {
    let mut head = Table::new();
    let mut set = |key: &str, value: Value| head.insert(key.to_owned(), value);
    set("wire", provider.dialect.quirks.wire().name().into());
    set("base_url", provider.base_url.clone().into());
    if let Some(KeyOrigin::Environment(names)) = key {
        set("api_key_env", Value::from(names.clone()));
    }
    if let Some(header) = &provider.key_header {
        set("key_header", header.clone().into());
    }
    if let Some(scheme) = &provider.key_scheme {
        set("key_scheme", scheme.clone().into());
    }
    if let Ok(discover) = Value::try_from(provider.discovery)
        && provider.discovery != Discovery::Off
    {
        set("discover", discover);
    }
    head
}

/// A file of these settings, which says how they came about, and what is still wrong.
pub(super) fn text(settings: &Table, model: &str, checks: &[DoctorCheck]) -> String {
    let failed = checks
        .iter()
        .filter(|check| check.verdict == CheckVerdict::Failed);
    let failed = failed.map(|check| {
        let found = SafeText::new(&check.found);
        format!("# Still wrong: {}: {found}\n", check.subject)
    });
    let failed: String = failed.collect();
    let settings = toml::to_string(settings).unwrap_or_default();
    // The provider may have named it, with a line end that would begin a setting.
    let model = SafeText::new(model);
    format!("# Measured with {model} by `respondent doctor`.\n{failed}{settings}")
}

/// Where the file of a provider is.
pub(super) fn path(config: &Config, id: &str) -> PathBuf {
    config.paths.providers_dir.join(format!("{id}.toml"))
}

/// Whether the configuration file has a table for this provider, so that it cannot have a file too.
pub(super) fn is_in_main_file(config: &Config, id: &str) -> bool {
    let text = config.paths.file.as_ref();
    let text = text.and_then(|path| std::fs::read_to_string(path).ok());
    let table: Table = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    let providers = table.get("providers").and_then(Value::as_table);
    providers.is_some_and(|providers| providers.contains_key(id))
}

/// Writes a new file. One that exists is never replaced.
pub(super) fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use registry::{ChatQuirks, Dialect, Model, ReasoningReplay, SystemRole, ThinkTags};

    use super::*;

    fn known(quirks: ChatQuirks, model: Model) -> Known {
        let dialect = Dialect {
            quirks: quirks.into(),
            ..Dialect::default()
        };
        Known { dialect, model }
    }

    /// Promise: `respondent doctor` finds the wire, the models and the window of a provider of
    /// which only the address and the key are known, and measures how it differs.
    #[test]
    fn only_what_differs_is_in_the_file() {
        let before = known(ChatQuirks::default(), Model::unlisted("m"));
        assert!(difference(&before, &before.clone()).is_empty());
        let quirks = ChatQuirks {
            system_role: SystemRole::User,
            reasoning_replay: ReasoningReplay::Reasoning,
            ..ChatQuirks::default()
        };
        let mut model = Model::unlisted("m");
        model.max_output = Some(4096);
        let file = difference(&before, &known(quirks, model));
        let expected = "# Measured with m by `respondent doctor`.\n\
            [quirks]\nsystem_role = \"user\"\nreasoning_replay = \"reasoning\"\n\n\
            [[models]]\nid = \"m\"\nmax_output = 4096\nimages = true\n";
        assert_eq!(sorted(&text(&file, "m", &[])), sorted(expected));
        // It is a provider file.
        let spec = registry::build("lab", file).unwrap();
        let provider = spec.to_provider("lab");
        // Text between tags is thinking for any provider that is not built in.
        let quirks = ChatQuirks {
            think_tags: ThinkTags::On,
            ..quirks
        };
        assert_eq!(provider.dialect.quirks, WireQuirks::from(quirks));
    }

    fn sorted(text: &str) -> Vec<&str> {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn the_name_of_a_model_is_no_setting() {
        let evil = "m\napi_key_command = \"x\"\n#";
        let wrong = [DoctorCheck::failed("answer", evil, None)];
        let file = text(&Table::new(), evil, &wrong);
        assert!(file.contains("# Still wrong: answer: m"), "{file}");
        assert_eq!(file.parse::<Table>().unwrap(), Table::new(), "{file}");
    }

    #[test]
    fn a_file_that_exists_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("providers/lab.toml");
        write_new(&path, "a").unwrap();
        assert!(write_new(&path, "b").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
    }
}
