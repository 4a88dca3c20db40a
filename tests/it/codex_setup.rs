//! `respondent codex setup`, `status` and `remove`: what is printed and which files are left. The
//! real Codex uses the settings in `tests/clients`.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::proxy::{PROGRAM, Setup, write};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "S4-Dg the setup names commands that find the same server",
            commands_with_flags,
        ),
        case(
            "S4-Dg a removal that cannot be done changes nothing",
            nothing_by_halves,
        ),
        case("S4-Dg a dry run names every file", dry_run),
        case("S4-Dg only files of the setup are removed", only_ours),
    ]
}

/// Prints the prompt of Codex.
const CODEX: &str = r#"#!/bin/sh
echo '{"models":[{"slug":"gpt","base_instructions":"You are Codex."}]}'
"#;

/// The home of a user who has a Codex program.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "codex", CODEX);
    let program = home.path().join("codex");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    home
}

/// Runs `respondent LINE`, where the demo model is served.
async fn run(home: &Path, line: &str) -> (i32, String, String) {
    let mut setup = Setup::new().unnamed().env("PATH", "/usr/bin:/bin");
    for word in line.split_whitespace() {
        setup = setup.arg(word);
    }
    setup.run(home).await
}

async fn succeed(home: &Path, line: &str) -> String {
    let (code, out, err) = run(home, line).await;
    assert_eq!(code, 0, "{line}: {out}{err}");
    out
}

/// The files in Codex's folder; `None` without the folder.
fn files(home: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(home.join(".codex")).ok()?;
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    Some(names)
}

const SETUP: &str = "codex setup --codex ./codex";

async fn commands_with_flags() {
    let home = home();
    write(home.path(), "c.toml", "");
    write(home.path(), "t", "open-sesame");
    let flags = "--config c.toml --listen 127.0.0.1:9911 --token-file t";
    let out = succeed(
        home.path(),
        &format!("--config c.toml --listen 9911 --token-file t {SETUP}"),
    )
    .await;
    assert!(out.contains(&format!("respondent {flags}\n")), "{out}");
    let plain = succeed(home.path(), "codex status").await;
    assert!(
        plain.contains("but this one is http://127.0.0.1:9797/v1"),
        "{plain}"
    );
    assert!(plain.contains("respondent codex setup\n"), "{plain}");
    let same = succeed(home.path(), "--listen 9911 codex status").await;
    assert!(
        same.contains("server   http://127.0.0.1:9911/v1\n"),
        "{same}"
    );
    let other = succeed(home.path(), "--listen 9912 codex status").await;
    let again = "respondent --listen 127.0.0.1:9912 codex setup\n";
    assert!(other.contains(again), "{other}");
    for text in [out, plain, same, other] {
        let text = text.replace(PROGRAM, "respondent");
        let text = text.replace(&home.path().display().to_string(), "~");
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{text}");
    }
}

async fn nothing_by_halves() {
    let home = home();
    succeed(home.path(), SETUP).await;
    succeed(home.path(), &format!("{SETUP} --default")).await;
    let config = home.path().join(".codex/config.toml");
    let written = fs::read_to_string(&config).unwrap();
    fs::write(&config, "model = \n").unwrap();
    let before = files(home.path());
    let (code, out, err) = run(home.path(), "codex remove").await;
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("nothing was changed"), "{err}");
    assert_eq!(err.matches("TOML parse error").count(), 1, "{err}");
    assert_eq!(files(home.path()), before);
    fs::write(&config, written).unwrap();
    succeed(home.path(), "codex remove").await;
    assert_eq!(files(home.path()), None);
}

async fn dry_run() {
    let home = home();
    for (flags, expected) in [
        (
            "",
            &["respondent.config.toml", "respondent-models.json"][..],
        ),
        (
            "--default",
            &[
                "config.toml",
                "config.toml.with-respondent",
                "respondent-models.json",
            ],
        ),
    ] {
        let shown = succeed(home.path(), &format!("{SETUP} --dry-run {flags}")).await;
        assert_eq!(files(home.path()), None, "{shown}");
        let table: toml::Table = shown.parse().unwrap();
        assert_eq!(table["model_provider"].as_str(), Some("respondent"));
        succeed(home.path(), &format!("{SETUP} {flags}")).await;
        assert_eq!(files(home.path()).unwrap(), expected_sorted(expected));
        for file in expected {
            assert!(
                shown.contains(&format!("/.codex/{file}")),
                "{file}: {shown}"
            );
        }
        succeed(home.path(), "codex remove").await;
    }
    let shown = succeed(home.path(), "codex setup --codex ./absent --dry-run").await;
    assert!(
        shown.contains("# No model catalog would be written: "),
        "{shown}"
    );
    assert!(!shown.contains("respondent-models.json"), "{shown}");
}

fn expected_sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

async fn only_ours() {
    let home = home();
    let catalog = "respondent-models.json";
    write(home.path(), &format!(".codex/{catalog}"), "{\"models\":[]}");
    let (code, _, err) = run(home.path(), SETUP).await;
    assert_eq!(code, 1);
    assert!(
        err.contains("was not written by `respondent codex setup`"),
        "{err}"
    );
    let (code, _, err) = run(home.path(), "codex setup --codex ./absent").await;
    assert_eq!(code, 0, "{err}");
    succeed(home.path(), "codex remove").await;
    assert_eq!(files(home.path()).unwrap(), [catalog]);
    fs::remove_file(home.path().join(".codex").join(catalog)).unwrap();
    fs::remove_dir(home.path().join(".codex")).unwrap();
    // The catalog of an older version, which has no mark: the settings of the setup name it.
    for again in [SETUP, "codex remove"] {
        succeed(home.path(), SETUP).await;
        write(home.path(), &format!(".codex/{catalog}"), "{\"models\":[]}");
        succeed(home.path(), again).await;
    }
    assert_eq!(files(home.path()), None);
    succeed(home.path(), SETUP).await;
    let out = succeed(home.path(), "codex remove").await;
    assert!(out.contains("/.codex, which was empty."), "{out}");
    assert_eq!(files(home.path()), None);
    // Codex does not start if the folder that CODEX_HOME names is missing.
    let named = Setup::new().unnamed().env("CODEX_HOME", "mine");
    for words in [&["setup", "--codex", "./codex"][..], &["remove"]] {
        let setup = words
            .iter()
            .fold(named.clone().arg("codex"), |setup, word| setup.arg(word));
        let (code, out, err) = setup.run(home.path()).await;
        assert_eq!(code, 0, "{out}{err}");
    }
    assert_eq!(fs::read_dir(home.path().join("mine")).unwrap().count(), 0);
}
