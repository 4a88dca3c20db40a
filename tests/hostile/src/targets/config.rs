//! `config`: the text of `proxy-config.toml`.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use respondent::config::{Config, ConfigErrors, Flags, Inputs, LoadPurpose, UserDirs, load};
use toml::Value;

/// Settings that make the program read another file or run a command: what a fuzzer wrote must
/// not.
const REACHES_OUT: [&str; 2] = ["file", "command"];

pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    if text.parse::<toml::Table>().is_ok_and(|table| {
        let table = Value::Table(table);
        reaches_out(&table)
    }) {
        return;
    }
    match load_file(text) {
        Ok(config) => {
            let _ = config.redactor();
            let _ = config.registry.models().count();
        }
        Err(error) => assert!(!error.to_string().contains('\u{1b}'), "{error:?}"),
    }
}

/// Loads a configuration file with this text.
pub(crate) fn load_file(text: &str) -> Result<Config, ConfigErrors> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy-config.toml");
    fs::write(&file, text).unwrap();
    let inputs = Inputs {
        flags: Flags {
            config: Some(file),
            ..Flags::default()
        },
        environment: Arc::new(HashMap::<String, String>::new()),
        dirs: UserDirs::under(folder.path()),
    };
    load(&inputs, LoadPurpose::Serve)
}

fn reaches_out(value: &Value) -> bool {
    match value {
        Value::Table(table) => table.iter().any(|(key, value)| {
            REACHES_OUT.iter().any(|word| key.contains(word)) || reaches_out(value)
        }),
        Value::Array(values) => values.iter().any(reaches_out),
        _ => false,
    }
}
