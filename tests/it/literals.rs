//! Rules about the source that the compiler does not check: no provider's id in the code,
//! dependencies between the crates in one direction, small files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// String literals that equal a provider's id but mean something else, as (file, literal,
/// reason).
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[];

/// Dependencies that a crate without I/O must not have.
const IMPURE: [&str; 10] = [
    "tokio",
    "tokio-util",
    "hyper",
    "hyper-util",
    "reqwest",
    "rusqlite",
    "getrandom",
    "rand",
    "socket2",
    "mio",
];

/// Maximum number of lines in a source file.
const MAX_LINES: usize = 800;

#[test]
fn no_code_names_a_provider() {
    let ids: Vec<String> = fs::read_dir(root().join("registry/providers"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(ids.iter().any(|id| id == registry::SANDBOX), "{ids:?}");
    let mut found = Vec::new();
    let mut used = 0;
    for file in rust_files(&["src", "adapters/src", "adapters/excerpts/src"]) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file
            .strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        // Unit tests may name providers.
        if name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for literal in literals(code) {
            if !ids.contains(&literal) {
                continue;
            }
            if OTHER_MEANINGS
                .iter()
                .any(|(file, text, _)| *file == name && *text == literal)
            {
                used += 1;
            } else {
                found.push(format!("{name}: {literal:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(
        used,
        OTHER_MEANINGS.len(),
        "an exception in OTHER_MEANINGS is unused"
    );
}

/// The contents of the string literals in Rust code, without those in comments.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = (&rest[..at], &rest[at..]);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(quote) = ["'\"'", "'\\''", "'\\\\'"]
            .iter()
            .find(|quote| from.starts_with(**quote))
        {
            rest = &from[quote.len()..];
        } else if let Some(text) = from.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let raw = before.trim_end_matches('#').ends_with('r');
            let end = if raw {
                text.find(&format!("\"{}", "#".repeat(hashes)))
            } else {
                end_of_string(text)
            };
            let end = end.unwrap_or(text.len());
            found.push(text[..end].to_owned());
            rest = text.get(end + 1..).unwrap_or_default();
        } else {
            rest = &from[1..];
        }
    }
    found
}

/// The offset of the first quote that is not escaped.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

#[test]
fn dependencies_run_one_way() {
    let workspace = ["respondent", "registry", "adapters", "excerpts", "kit"];
    let internal = |folder: &str| -> Vec<String> {
        let names = dependencies(folder);
        names
            .into_iter()
            .filter(|name| workspace.contains(&name.as_str()))
            .collect()
    };
    assert_eq!(internal("registry"), Vec::<String>::new());
    assert_eq!(internal("adapters/excerpts"), Vec::<String>::new());
    assert_eq!(internal("adapters"), ["excerpts", "registry"]);
    assert_eq!(internal("."), ["adapters", "excerpts", "registry"]);
    assert_eq!(internal("tests/kit"), ["adapters", "registry"]);
    for folder in ["registry", "adapters", "adapters/excerpts"] {
        for name in dependencies(folder) {
            assert!(
                !IMPURE.contains(&name.as_str()),
                "{folder} depends on {name}"
            );
        }
    }
}

/// Players, strict presets and golden cases belong to the kit, which the program does not depend
/// on: none of its types is defined in the code that is shipped.
#[test]
fn the_program_holds_no_test_server() {
    for folder in [".", "registry", "adapters", "adapters/excerpts"] {
        for name in ["kit", "respondent-kit"] {
            assert!(!dependencies(folder).iter().any(|own| own == name));
        }
    }
    let types = types_of(&["tests/kit/src", "tests/kit/program/src"]);
    for name in [
        "Player",
        "PlayerScript",
        "RefusalRule",
        "ChatDialect",
        "GoldenCase",
        "AnswerDriver",
        "FixtureError",
    ] {
        assert!(types.contains(name), "the kit has no {name}");
    }
    let shipped = types_of(&[
        "src",
        "adapters/src",
        "adapters/excerpts/src",
        "registry/src",
    ]);
    let shared: Vec<_> = types.intersection(&shipped).collect();
    assert!(
        shared.is_empty(),
        "in the program and in the kit: {shared:?}"
    );
    let lines: usize = rust_files(&["src/sandbox"])
        .iter()
        .filter(|file| !file.ends_with("tests.rs"))
        .map(|file| fs::read_to_string(file).unwrap().lines().count())
        .sum();
    assert!(lines <= 1_000, "the sandbox has {lines} lines");
}

/// The names of all structs, enums and traits in these folders, except for those of tests.
fn types_of(folders: &[&str]) -> BTreeSet<String> {
    let mut types = BTreeSet::new();
    for file in rust_files(folders) {
        let below = file.strip_prefix(root()).unwrap().to_string_lossy();
        if below.ends_with("tests.rs") || below.contains("/tests/") && !below.starts_with("tests/")
        {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in code.lines() {
            let mut words = line.split_whitespace().peekable();
            while words.next_if(|word| word.starts_with("pub")).is_some() {}
            if let (Some("struct" | "enum" | "trait"), Some(name)) = (words.next(), words.next()) {
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
                types.insert(name[..end.unwrap_or(name.len())].to_owned());
            }
        }
    }
    types
}

/// The names in `[dependencies]` of a crate, in the order of the file.
fn dependencies(folder: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    assert!(!manifest.contains_key("build-dependencies"));
    let table = manifest["dependencies"].as_table().unwrap();
    assert!(!table.is_empty());
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(toml::Table::values);
    let of_targets =
        of_targets.flat_map(|target| target["dependencies"].as_table().unwrap().keys());
    table.keys().chain(of_targets).cloned().collect()
}

#[test]
fn files_are_small() {
    let files = rust_files(&["src", "adapters", "registry", "tests"]);
    assert!(files.len() > 50, "{} files found", files.len());
    for file in files {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", file.display());
    }
}

/// The root folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below these folders of the workspace, sorted.
pub fn rust_files(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
