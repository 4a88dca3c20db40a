//! Supply-chain rules: no unsafe code, pinned dependencies, and a valid deny.toml.
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use toml::Table;

use crate::trial::{case, case_if};

pub fn trials() -> Vec<Trial> {
    vec![
        case("S46 every crate forbids unsafe code", no_unsafe),
        case("S46 the lock file pins every dependency", lock_file),
        case_if(
            "S46 deny.toml restricts licenses, bans and sources",
            deny_file,
            deny_sections,
        ),
    ]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap();
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn no_unsafe() {
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

async fn lock_file() {
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

fn deny_file() -> Result<PathBuf, String> {
    let path = root().join("deny.toml");
    if path.is_file() {
        Ok(path)
    } else {
        Err("there is no deny.toml".to_owned())
    }
}

async fn deny_sections(deny: PathBuf) {
    let deny = table(&deny);
    for key in ["licenses", "bans", "sources"] {
        assert!(deny.contains_key(key), "{key}");
    }
    assert!(!deny["licenses"]["allow"].as_array().unwrap().is_empty());
}
