use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::settings::CodexToken;
use super::*;
use crate::codex::agents::{AgentRole, CodexAgents};
use crate::codex::settings::{CodexSearch, GROUPS};

const SETTINGS: CodexSettings<'_> = CodexSettings {
    origin: "http://127.0.0.1:9797",
    model: "kimi-k3",
    token: CodexToken::None,
    catalog: None,
    artifacts: true,
    search: CodexSearch::Standalone,
    agents: None,
};

/// Makes all changes, or none if one of the files is protected.
fn apply(changes: &[FileChange]) -> Result<(), FileError> {
    changes.iter().try_for_each(FileChange::check)?;
    changes.iter().try_for_each(FileChange::apply)
}

fn write(home: &CodexHome, settings: &CodexSettings<'_>) -> Result<(), ConfigTomlError> {
    let DefaultPlan {
        before,
        written,
        config,
    } = plan(home, settings)?;
    Ok(apply(&[before, written, config])?)
}

fn remove(home: &CodexHome) -> Result<Option<Restored>, ConfigTomlError> {
    let Some((changes, restored)) = plan_removal(home)? else {
        return Ok(None);
    };
    apply(&changes)?;
    Ok(Some(restored))
}

/// Configurations of many kinds of people.
const CONFIGS: [(&str, &str); 34] = [
    ("empty", ""),
    ("one line without an end", "model = \"gpt-6\""),
    ("a comment alone", "# Nothing yet.\n"),
    (
        "a model and a provider",
        "model = \"gpt-6\" # the best\nmodel_provider = \"openai\"\n",
    ),
    (
        "ends in a table",
        "approval_policy = \"never\"\n\n[projects.\"/home/me/app\"]\ntrust_level = \"trusted\"\n",
    ),
    (
        "tables alone",
        "[tui]\nnotifications = true\n\n[[hooks]]\nname = \"a\"\n",
    ),
    (
        "other providers",
        "[model_providers.ollama]\nname = \"Ollama\"\nbase_url = \"http://localhost:11434/v1\"\n",
    ),
    (
        "an inline group of providers",
        "model_providers = { ollama = { name = \"Ollama\", base_url = \"http://localhost:1/v1\" } }\n",
    ),
    (
        "dotted keys",
        "model_providers.ollama.name = \"Ollama\"\nmcp_servers.a.command = \"x\"\n",
    ),
    (
        "a provider of our name",
        "model_provider = \"respondent\"\n[model_providers.respondent]\nname = \"mine\" # keep\nbase_url = \"http://10.0.0.1/v1\"\n",
    ),
    (
        "MCP servers",
        "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n  \"files\",\n]\n[mcp_servers.files.env]\nA = \"b\"\n",
    ),
    (
        "profiles",
        "profile = \"work\"\n[profiles.work]\nmodel = \"gpt-6-codex\"\n[profiles.home]\nmodel = \"o9\"\n",
    ),
    (
        "CRLF",
        "model = \"gpt-6\"\r\n\r\n# Mine.\r\n[tui]\r\nnotifications = true\r\n",
    ),
    ("a byte order mark", "\u{feff}model = \"gpt-6\"\n"),
    (
        "odd spaces",
        "  model   =   'gpt-6'   \n\n\n\n  [ tui ]\n\tnotifications=true\n",
    ),
    (
        "a text of many lines",
        "developer_instructions = \"\"\"\nmodel = \"no\"\n[tables]\n\"\"\"\n",
    ),
    ("web search", "web_search = \"live\"\n"),
    (
        "features",
        "[features] # Mine.\nstandalone_web_search = false # Not yet.\nplugins = false\n",
    ),
    (
        "sub-agents",
        "[agents]\nmax_concurrent_threads_per_session = 3 # enough\ndefault_subagent_model = \"gpt-6-mini\"\n\n[agents.reviewer]\ndescription = \"Reviews.\"\nconfig_file = \"reviewer.toml\"\n",
    ),
    ("sub-agents that are off", "agents.enabled = false\n"),
    (
        "sub-agents in an inline table",
        "agents = { max_depth = 1, reviewer = { description = \"Reviews.\" } }\n",
    ),
    ("a feature by its whole key", "features.plugins = false\n"),
    ("a table without an end", "[tui]\nnotifications = true"),
    (
        "tables of a list at the end",
        "model = \"gpt-6\"\n\n[[skills.config]]\npath = \"/a\"\n\n[[skills.config]]\npath = \"/b\"\nenabled = false\n# The last one.\n",
    ),
    (
        "CRLF behind a byte order mark",
        "\u{feff}# Mine.\r\nmodel = \"gpt-6\"\r\n[tui]\r\nnotifications = true",
    ),
    (
        "line ends of two kinds",
        "model = \"gpt-6\"\r\n# From another computer.\n[tui]\nnotifications = true\r\n",
    ),
    (
        "quoted keys",
        "\"model\" = 'gpt-6'\n'model_provider' = \"openai\"\n\"model_providers\".\"my own\".name = \"Mine\"\n",
    ),
    (
        "a provider of our name in dotted keys",
        "model_provider = \"respondent\"\nmodel_providers.respondent.name = \"mine\"\nmodel_providers.respondent.base_url = \"http://10.0.0.1/v1\"\n",
    ),
    (
        "a provider of our name in an inline table",
        "model_providers = { respondent = { name = \"mine\", base_url = \"http://10.0.0.1/v1\" }, other = { name = \"other\" } }\n",
    ),
    (
        "a provider of our name with a table of its own",
        "[model_providers.respondent]\nname = \"mine\"\nbase_url = \"http://10.0.0.1/v1\"\n[model_providers.respondent.http_headers]\n# Who asks.\nx-from = \"me\"\n[mcp_servers.respondent]\ncommand = \"mine\"\n",
    ),
    (
        "a profile of our name",
        "[profiles.respondent]\nmodel = \"gpt-6\"\nmodel_provider = \"respondent\"\n",
    ),
    (
        "groups with headings of their own",
        "# All providers\n[model_providers]\n\n# One\n[model_providers.one]\nname = \"One\"\n\n# All servers\n[mcp_servers] # two\n\n[mcp_servers.two]\nurl = \"http://localhost:1/mcp\"\n",
    ),
    (
        "a long one",
        "model = \"gpt-6-codex\"\nmodel_reasoning_effort = \"high\"\napproval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\nnotify = [\n  \"python3\", # the script\n  \"/home/me/notify.py\",\n]\nproject_doc_fallback_filenames = []\n\n[features]\nunified_exec = true\n\n[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = [\"/tmp\"]\n\n[shell_environment_policy]\ninherit = \"core\"\nset = { CI = \"1\", \"A.B\" = \"c\" }\n\n[mcp_servers.docs]\nurl = \"https://docs.example/mcp\"\nhttp_headers = { \"X-Key\" = \"k\" }\n\n[notice.model_migrations]\n\"gpt-5\" = \"gpt-6\"\n\n[projects.\"/home/me/a b\"]\ntrust_level = \"trusted\"\n\n[projects.'C:\\Users\\me']\ntrust_level = \"untrusted\"\n\n[tui]\nnotifications = [\"agent-turn-complete\"]\n",
    ),
    (
        "letters of all kinds",
        "# Für später 漢字 😀\n[projects.\"/home/ü/漢字\"]\ntrust_level = \"trusted\"\n",
    ),
];

fn home() -> (tempfile::TempDir, CodexHome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codex");
    fs::create_dir(&path).unwrap();
    let home = CodexHome::find(|name| (name == "CODEX_HOME").then(|| path.clone().into()));
    (folder, home.unwrap())
}

fn agents() -> CodexAgents {
    CodexAgents {
        default: Some("small".to_owned()),
        roles: vec![AgentRole {
            name: "explorer".to_owned(),
            path: "/c/respondent-agent-explorer.toml".into(),
            text: String::new(),
        }],
        of_user: Vec::new(),
    }
}

#[test]
fn sub_agents_are_taken_out_of_an_edited_file() {
    let config = CONFIGS.iter().find(|(what, _)| *what == "sub-agents");
    let (_, config) = config.unwrap();
    let (_folder, home) = home();
    fs::write(home.config(), config).unwrap();
    let agents = agents();
    let settings = CodexSettings {
        agents: Some(&agents),
        ..SETTINGS
    };
    write(&home, &settings).unwrap();
    let written = fs::read_to_string(home.config()).unwrap();
    let edited = written + "\n[agents.mine]\ndescription = \"Mine.\"\n";
    fs::write(home.config(), edited).unwrap();
    assert_eq!(remove(&home).unwrap(), Some(Restored::Edited));
    let left: toml::Table = fs::read_to_string(home.config()).unwrap().parse().unwrap();
    let mut expected: toml::Table = config.parse().unwrap();
    let mine = toml::toml! { description = "Mine." };
    let agents = expected["agents"].as_table_mut().unwrap();
    agents.insert("mine".to_owned(), mine.into());
    assert_eq!(left, expected);
}

fn files(home: &CodexHome) -> Vec<String> {
    let entries = fs::read_dir(home.folder()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_configuration_is_restored_byte_for_byte() {
    for (what, config) in CONFIGS {
        let (_folder, home) = home();
        fs::write(home.config(), config).unwrap();
        // A second setup, with another model, does not take the first for the user's.
        let agents = agents();
        for (model, agents) in [("kimi-k3", Some(&agents)), ("glm-5", None)] {
            let settings = CodexSettings {
                model,
                agents,
                ..SETTINGS
            };
            write(&home, &settings).unwrap();
            let text = fs::read_to_string(home.config()).unwrap();
            let text = text.trim_start_matches(BYTE_ORDER_MARK);
            let written: toml::Table = text
                .parse()
                .unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
            assert_eq!(written["model"].as_str(), Some(model), "{what}");
            assert_eq!(written["model_provider"].as_str(), Some("respondent"));
            for (group, key) in GROUPS {
                let ours = &written[group][key];
                assert!(
                    ours.is_table() || ours.as_bool() == Some(true),
                    "{what}: {group}"
                );
            }
            let explorer = written.get("agents").and_then(|it| it.get("explorer"));
            assert_eq!(explorer.is_some(), agents.is_some(), "{what}: {text}");
            let lines = |text: &str| text.matches('\n').count();
            let crlf = text.matches("\r\n").count();
            assert!(crlf == 0 || crlf == lines(text), "{what}: {text:?}");
        }
        assert_eq!(remove(&home).unwrap(), Some(Restored::Whole), "{what}");
        assert_eq!(fs::read_to_string(home.config()).unwrap(), config, "{what}");
        assert_eq!(files(&home), ["config.toml"], "{what}");
        assert_eq!(remove(&home).unwrap(), None, "{what}");
    }
}

#[test]
fn the_other_settings_and_their_comments_stay() {
    for (what, config) in CONFIGS {
        let (_folder, home) = home();
        fs::write(home.config(), config).unwrap();
        write(&home, &SETTINGS).unwrap();
        let written = fs::read_to_string(home.config()).unwrap();
        let replaced = [
            "model = ",
            "\"model\" = ",
            "model   = ",
            "model_provider = ",
            "'model_provider' = ",
            "web_search",
            "agents = {",
            "standalone_web_search",
            "name = \"mine\"",
            "base_url = \"http://10",
            "model_providers.respondent.",
            "model_providers = {",
            "[model_providers.respondent.",
            "# Who asks.",
            "x-from",
            "command = \"mine\"",
        ];
        let without_mark = |text: &str| text.trim_start_matches(BYTE_ORDER_MARK).to_owned();
        let written = without_mark(&written);
        for line in without_mark(config).lines() {
            let is_replaced = replaced
                .iter()
                .any(|start| line.trim_start().starts_with(start));
            assert!(
                is_replaced || written.lines().any(|kept| kept == line),
                "{what}: {line:?} is missing in\n{written}"
            );
        }
        if config.contains("# the best") {
            assert!(
                written.contains("model = \"kimi-k3\" # the best"),
                "{written}"
            );
        }
    }
}

#[test]
fn an_edit_after_the_setup_stays() {
    for (what, config) in CONFIGS {
        let (_folder, home) = home();
        fs::write(home.config(), config).unwrap();
        write(&home, &SETTINGS).unwrap();
        let written = fs::read_to_string(home.config()).unwrap();
        let edited = written.replace("\"kimi-k3\"", "\"my-choice\"") + "\n[edited]\nlater = 1\n";
        fs::write(home.config(), edited).unwrap();

        assert_eq!(remove(&home).unwrap(), Some(Restored::Edited), "{what}");
        let left = fs::read_to_string(home.config()).unwrap();
        let parse = |text: &str| -> toml::Table {
            text.trim_start_matches(BYTE_ORDER_MARK).parse().unwrap()
        };
        let (mut left, mut expected) = (parse(&left), parse(config));
        expected.insert("model".into(), "my-choice".into());
        let later = left.remove("edited").unwrap();
        assert_eq!(later["later"].as_integer(), Some(1), "{what}");
        assert_eq!(left, expected, "{what}");
        assert_eq!(files(&home), ["config.toml"], "{what}");
    }
}

#[test]
fn an_absent_file_is_absent_again() {
    let (_folder, home) = home();
    write(&home, &SETTINGS).unwrap();
    assert!(!home.config_before().exists());
    assert!(is_set_up(&home));
    remove(&home).unwrap();
    assert_eq!(files(&home), [""; 0]);
}

#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    let (folder, home) = home();
    let dotfile = folder.path().join("dotfile.toml");
    fs::write(&dotfile, "model = \"gpt-6\"\n").unwrap();
    fs::set_permissions(&dotfile, PermissionsExt::from_mode(0o640)).unwrap();
    symlink(&dotfile, home.config()).unwrap();
    write(&home, &SETTINGS).unwrap();
    assert!(home.config().is_symlink());
    let written = fs::read_to_string(&dotfile).unwrap();
    assert!(written.contains("kimi-k3"), "{written}");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dotfile.clone()), 0o640);
    // The copies may hold what only the owner may read.
    assert_eq!(mode(home.config_before()), 0o600);
    remove(&home).unwrap();
    assert!(home.config().is_symlink());
    assert_eq!(fs::read_to_string(&dotfile).unwrap(), "model = \"gpt-6\"\n");
}

#[test]
fn a_folder_of_dotfiles_behind_a_link_is_used() {
    let (folder, home) = home();
    let dotfiles = folder.path().join("dotfiles");
    fs::rename(home.folder(), &dotfiles).unwrap();
    symlink(&dotfiles, home.folder()).unwrap();
    fs::write(dotfiles.join(".gitignore"), "*\n").unwrap();
    fs::write(dotfiles.join("config.toml"), "model = \"gpt-6\"\n").unwrap();
    write(&home, &SETTINGS).unwrap();
    let config = dotfiles.join("config.toml");
    assert!(fs::read_to_string(&config).unwrap().contains("kimi-k3"));
    remove(&home).unwrap();
    assert!(home.folder().is_symlink());
    assert_eq!(fs::read_to_string(&config).unwrap(), "model = \"gpt-6\"\n");
    assert_eq!(files(&home), [".gitignore", "config.toml"]);
}

#[test]
fn what_cannot_be_changed_is_left_alone() {
    let (_folder, home) = home();
    for (text, expected) in [
        ("model = ", "is not valid TOML, so nothing was changed"),
        ("mcp_servers = 1\n", "`mcp_servers` in "),
    ] {
        fs::write(home.config(), text).unwrap();
        let error = write(&home, &SETTINGS).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read_to_string(home.config()).unwrap(), text);
        assert_eq!(files(&home), ["config.toml"]);
    }
    fs::remove_file(home.config()).unwrap();
    symlink("/nowhere/config.toml", home.config()).unwrap();
    assert!(write(&home, &SETTINGS).is_err());
    assert!(home.config().is_symlink());
}

#[test]
fn a_read_only_file_is_respected() {
    let (_folder, home) = home();
    fs::write(home.config(), "model = \"gpt-6\"\n").unwrap();
    fs::set_permissions(home.config(), PermissionsExt::from_mode(0o444)).unwrap();
    let error = write(&home, &SETTINGS).unwrap_err().to_string();
    assert!(
        error.ends_with("is read-only; make it writable first"),
        "{error}"
    );
    assert_eq!(files(&home), ["config.toml"]);
}
