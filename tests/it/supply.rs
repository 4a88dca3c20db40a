//! Supply-chain rules: no unsafe code, pinned dependencies, and a valid deny.toml.
use std::path::Path;

use kit::harness::skip;
use toml::Table;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap();
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Promise: The code has no `unsafe`.
#[test]
fn every_crate_forbids_unsafe_code() {
    let workspace = table(&root().join("Cargo.toml"));
    let lint = &workspace["workspace"]["lints"]["rust"]["unsafe_code"];
    assert_eq!(lint.as_str(), Some("forbid"));
    let members = workspace["workspace"]["members"].as_array().unwrap();
    assert!(members.len() > 3);
    for member in members {
        let path = root().join(member.as_str().unwrap()).join("Cargo.toml");
        let lints = &table(&path)["lints"]["workspace"];
        assert_eq!(lints.as_bool(), Some(true), "{}", path.display());
    }
}

/// Promise: The lock file pins every dependency.
#[test]
fn the_lock_file_pins_every_dependency() {
    let lock = table(&root().join("Cargo.lock"));
    let packages = lock["package"].as_array().unwrap();
    let external: Vec<_> = packages
        .iter()
        .filter(|package| package.get("source").is_some())
        .collect();
    assert!(external.len() > 50);
    for package in external {
        assert!(package.get("checksum").is_some(), "{package}");
    }
}

/// Promise: Only known licences and sources are allowed, and no crate was yanked or, as far as a
/// copy of the advisory database is there to tell, has a known vulnerability (`tests/supply.sh`).
#[test]
fn deny_toml_restricts_licences_bans_and_sources() {
    let path = root().join("deny.toml");
    if !path.is_file() {
        return skip("there is no deny.toml");
    }
    let deny = table(&path);
    for key in ["licenses", "bans", "sources"] {
        assert!(deny.contains_key(key), "{key}");
    }
    assert!(!deny["licenses"]["allow"].as_array().unwrap().is_empty());
}
