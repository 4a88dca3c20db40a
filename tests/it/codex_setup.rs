//! `respondent codex setup`, `status` and `remove`: what is printed and which files are left. The
//! real Codex uses the settings in `tests/clients`.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::proxy::{PROGRAM, Setup, write};

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

#[kit::test]
async fn the_setup_names_commands_that_find_the_same_server() {
    let home = home();
    write(home.path(), "c.toml", "");
    write(home.path(), "t", "open-sesame");
    let flags = "--config c.toml --listen 127.0.0.1:9911 --token-file t";
    let out = succeed(
        home.path(),
        &format!("--config c.toml --listen 9911 --token-file t {SETUP}"),
    )
    .await;
    assert!(
        out.contains(&format!("respondent {flags} start\n")),
        "{out}"
    );
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

/// Promise: `codex setup` and `codex remove` decide on every change before they make the first, so
/// that what cannot be done changes nothing. They name each file, touch no file of that name that
/// the setup did not write, and print commands with the flags that lead to the same server.
#[kit::test]
async fn a_removal_that_cannot_be_done_changes_nothing() {
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

/// What a user may have in `config.toml`: comments, the end of a line of Windows, no end of the
/// last.
const CONFIG: &str = "# mine\r\nmodel = \"gpt\" # fast\r\n\r\n[tui]\r\nseen = true\r\n\
    # further\r\n# settings\r\n# follow\r\n\r\n[projects.\"/home/me\"]\r\ntrust_level = \"trusted\"";

/// Promise: `codex setup --dry-run` changes nothing and shows each file that the setup would write,
/// change or delete: its path, and its text, the lines that change, of what it is a copy, or the
/// size and the models of the catalog.
#[kit::test]
async fn a_dry_run_shows_what_the_setup_then_does() {
    for (flags, again, copies) in [
        ("", "--model sandbox/sandbox-1", 0),
        ("--default", "--default --model sandbox/sandbox-1", 2),
    ] {
        let home = home();
        write(home.path(), ".codex/config.toml", CONFIG);
        let shown = foretold(home.path(), flags).await;
        assert_eq!(shown.matches(", a copy of ").count(), copies, "{shown}");
        assert!(
            shown.contains("with the prompt that Codex has for gpt:\n\n  sandbox-1\n"),
            "{shown}"
        );
        // Afterwards nothing is left to do, unless the user or the setup wants something else.
        let shown = foretold(home.path(), flags).await;
        assert_eq!(shown.matches(" as it is.\n").count(), 2 + copies, "{shown}");
        let settings = match flags {
            "" => ".codex/respondent.config.toml",
            _ => ".codex/config.toml",
        };
        let edited = fs::read_to_string(home.path().join(settings)).unwrap() + "\n[mine]\nk = 1\n";
        write(home.path(), settings, &edited);
        let shown = foretold(home.path(), again).await;
        assert!(
            shown.contains("\n  -model = \"sandbox-1\"") && shown.contains("\n  @@ -"),
            "{shown}"
        );
    }
    let home = home();
    foretold(home.path(), "--default").await;
    let shown = succeed(home.path(), "codex setup --codex ./absent --dry-run").await;
    assert!(
        shown.contains("\nNo model catalog would be written: "),
        "{shown}"
    );
    assert!(!shown.contains("/respondent-models.json"), "{shown}");
}

/// Promise: The setup does exactly what its dry run shows, and the dry run fails where the setup
/// would. Secrets are redacted.
#[kit::test]
async fn a_dry_run_fails_where_the_setup_would() {
    let home = home();
    write(home.path(), ".codex/config.toml", CONFIG);
    let config = home.path().join(".codex/config.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o400)).unwrap();
    for dry in ["", "--dry-run"] {
        let (code, out, err) = run(home.path(), &format!("{SETUP} --default {dry}")).await;
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("config.toml is read-only"), "{err}");
    }
    assert_eq!(files(home.path()).unwrap(), ["config.toml"]);
}

/// Makes a dry run, then the setup, and compares: what the one has shown is what the other leaves.
/// Returns what was shown.
async fn foretold(home: &Path, flags: &str) -> String {
    let before = contents(home);
    let shown = succeed(home, &format!("{SETUP} {flags} --dry-run")).await;
    assert_eq!(contents(home), before, "{shown}");
    succeed(home, &format!("{SETUP} {flags}")).await;
    let mut after = contents(home);
    // The catalog is not shown, but what it is of.
    let name = "respondent-models.json";
    let catalog = after.remove(name).unwrap();
    let mut expected = expected(&shown, &before);
    let about = expected.remove(name).unwrap();
    if before.get(name) != Some(&catalog) {
        let parsed: serde_json::Value = catalog.parse().unwrap();
        let models = parsed["models"].as_array().unwrap().iter();
        let slugs: Vec<&str> = models.filter_map(|model| model["slug"].as_str()).collect();
        assert_eq!(about.trim().lines().collect::<Vec<_>>(), slugs, "{shown}");
        let (thousands, rest) = (catalog.len() / 1000, catalog.len() % 1000);
        let size = format!("a catalog of {thousands}.{} kB", rest / 100);
        assert!(shown.contains(&size), "{size}: {shown}");
    }
    assert_eq!(after, expected, "{shown}");
    shown
}

/// The text of every file in Codex's folder.
fn contents(home: &Path) -> BTreeMap<String, String> {
    let read = |name: String| {
        let text = fs::read_to_string(home.join(".codex").join(&name)).unwrap();
        (name, text)
    };
    files(home)
        .unwrap_or_default()
        .into_iter()
        .map(read)
        .collect()
}

/// The files after everything that a dry run has shown.
fn expected(shown: &str, before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut after = before.clone();
    let mut copies = Vec::new();
    for announced in shown.split("\nWould ").skip(1) {
        let (sentence, block) = announced.split_once('\n').unwrap();
        let (verb, rest) = sentence.split_once(' ').unwrap();
        let path = rest.split([',', ':', ' ']).next().unwrap();
        let name = path
            .trim_end_matches('.')
            .rsplit_once("/.codex/")
            .unwrap()
            .1;
        let block = unindented(block);
        if verb == "delete" {
            after.remove(name);
        } else if rest.ends_with("config.toml as it is now.") {
            after.insert(name.to_owned(), before["config.toml"].clone());
        } else if rest.ends_with("config.toml as it would be.") {
            copies.push(name);
        } else if verb == "change" && !rest.contains("a catalog of") {
            after.insert(name.to_owned(), patched(&before[name], &block));
        } else if verb != "leave" {
            after.insert(name.to_owned(), block);
        }
    }
    for name in copies {
        after.insert(name.to_owned(), after["config.toml"].clone());
    }
    after
}

fn unindented(block: &str) -> String {
    let block = block.strip_prefix('\n').unwrap_or(block);
    let lines = block.split_inclusive('\n');
    lines
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect()
}

/// The text after a unified diff.
fn patched(text: &str, diff: &str) -> String {
    let mut old = text.split_inclusive('\n');
    let mut position = 0;
    let mut new = String::new();
    let mut last_sign = "";
    for line in diff.split_inclusive('\n') {
        let (sign, rest) = line.split_at_checked(1).unwrap();
        match sign {
            "@" => {
                let start = rest.split(['-', ',', ' ']).nth(2).unwrap();
                let start: usize = start.parse().unwrap();
                while position + 1 < start {
                    new += old.next().unwrap();
                    position += 1;
                }
            }
            " " | "-" => {
                let line = old.next().unwrap();
                assert_eq!(line.trim_end(), rest.trim_end(), "{diff}");
                new += if sign == " " { line } else { "" };
                position += 1;
            }
            "+" => new += rest,
            _ => {
                assert!(rest.contains("No newline at end of file"), "{diff}");
                if last_sign == "+" {
                    new.truncate(new.trim_end_matches(['\r', '\n']).len());
                }
            }
        }
        last_sign = sign;
    }
    old.for_each(|line| new += line);
    new
}

#[kit::test]
async fn only_files_of_the_setup_are_removed() {
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

/// Promise: The setup lets Codex ask the server for searches if this Codex has the feature and the
/// server searches. A Codex without it gets the tool that runs in the server; where the server does
/// not search, the setup switches searches off in Codex.
#[kit::test]
async fn searches_are_set_up_where_codex_and_the_server_have_them() {
    const LISTED: &str = r#"#!/bin/sh
[ "$1" = features ] && echo 'standalone_web_search  under development  false'
[ "$1" = debug ] && echo '{"models":[{"slug":"gpt","base_instructions":"You are Codex."}]}'
exit 0
"#;
    for (codex, mode, web_search, is_on) in [
        (LISTED, "proxy", "live", true),
        (LISTED, "off", "disabled", false),
        (CODEX, "proxy", "live", false),
    ] {
        let home = home();
        write(home.path(), "codex", codex);
        write(
            home.path(),
            "c.toml",
            &format!("[search]\nmode = \"{mode}\"\n"),
        );
        succeed(home.path(), &format!("--config c.toml {SETUP}")).await;
        let profile = home.path().join(".codex/respondent.config.toml");
        let profile: toml::Table = fs::read_to_string(profile).unwrap().parse().unwrap();
        assert_eq!(profile["web_search"].as_str(), Some(web_search), "{mode}");
        let features = profile.get("features").cloned();
        let expected = is_on.then(|| toml::toml! { standalone_web_search = true }.into());
        assert_eq!(features, expected, "{mode}");
    }
}

/// Promise: `codex setup` gives Codex the models of `[codex.agents]`: that of sub-agents that ask
/// for none, and roles, each with an effort that its model has. A role that the user wrote stays as
/// it is, a role that is no longer configured goes, and `codex remove` leaves nothing.
#[kit::test]
async fn the_setup_writes_the_models_of_sub_agents() {
    const OWN: &str = "[agents]\nmax_depth = 2\n\n[agents.reviewer]\ndescription = \"Mine.\"\n";
    for flags in ["", "--default"] {
        let home = home();
        write(home.path(), ".codex/config.toml", OWN);
        write(home.path(), ".codex/agents/x.toml", "name = \"writer\"\n");
        let models = "[providers.lab]\nbase_url = \"http://127.0.0.1:9/v1\"\nkey_required = false\n\
            discover = \"off\"\nmodels = [{ id = \"large\", reasoning = [\"low\", \"high\"], \
            default_reasoning = \"high\" }, { id = \"small\" }]\n";
        let line = format!("--config c.toml {SETUP} {flags}");
        let agents = "[codex.agents]\ndefault = \"small\"\nexplorer = \"small\"\n\
            reviewer = \"small\"\nwriter = \"small\"\nworker = \"lab/large\"\n";
        write(home.path(), "c.toml", &format!("{models}{agents}"));
        let shown = succeed(home.path(), &format!("{line} --dry-run")).await;
        assert!(
            shown.contains("respondent-agent-explorer.toml:\n"),
            "{shown}"
        );
        let out = succeed(home.path(), &line).await;
        for text in [&shown, &out] {
            for role in ["reviewer", "writer"] {
                assert!(text.contains(&format!("Your own role `{role}` ")), "{text}");
            }
        }
        let settings = match flags {
            "" => "respondent.config.toml",
            _ => "config.toml",
        };
        let read = |name: &str| -> toml::Table {
            let text = fs::read_to_string(home.path().join(".codex").join(name)).unwrap();
            text.parse().unwrap()
        };
        let written = read(settings)["agents"].clone();
        assert_eq!(written["default_subagent_model"].as_str(), Some("small"));
        assert_eq!(written.get("writer"), None);
        for (role, model, effort) in [
            ("explorer", "small", "none"),
            ("worker", "lab/large", "high"),
        ] {
            let name = format!("respondent-agent-{role}.toml");
            let path = home.path().join(".codex").join(&name);
            let named = written[role]["config_file"].as_str().unwrap();
            assert_eq!(
                fs::canonicalize(named).unwrap(),
                fs::canonicalize(path).unwrap()
            );
            let role = read(&name);
            assert_eq!(role["model"].as_str(), Some(model));
            assert_eq!(role["model_reasoning_effort"].as_str(), Some(effort));
            assert!(role["description"].as_str().is_some_and(|it| it.len() > 20));
        }
        let catalog =
            fs::read_to_string(home.path().join(".codex/respondent-models.json")).unwrap();
        assert!(catalog.contains("\"slug\": \"lab/large\""));

        let agents = "[codex.agents]\nworker = \"large\"\n";
        write(home.path(), "c.toml", &format!("{models}{agents}"));
        succeed(home.path(), &line).await;
        let roles = files(home.path()).unwrap().into_iter();
        let roles: Vec<_> = roles.filter(|name| name.contains("-agent-")).collect();
        assert_eq!(roles, ["respondent-agent-worker.toml"]);
        let written = read(settings)["agents"].clone();
        let written = written.as_table().unwrap();
        assert!(written.contains_key("worker"), "{written:?}");
        for gone in ["default_subagent_model", "explorer"] {
            assert!(!written.contains_key(gone), "{written:?}");
        }

        succeed(home.path(), "codex remove").await;
        assert_eq!(files(home.path()).unwrap(), ["agents", "config.toml"]);
        let config = fs::read_to_string(home.path().join(".codex/config.toml")).unwrap();
        assert_eq!(config, OWN);
    }
}
