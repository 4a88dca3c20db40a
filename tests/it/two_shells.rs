//! Commands about models in a shell with other keys than the server has.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::proxy::{Proxy, Setup, write};

/// Prints its prompt if it is asked for that, else its arguments.
const CODEX: &str = r#"#!/bin/sh
if [ "$1" = debug ]; then
  echo '{"models":[{"slug":"gpt","base_instructions":"You are Codex."}]}'
elif [ "$1" != features ]; then
  for argument in "$@"; do printf '%s\n' "$argument"; done
fi
"#;

/// A shell with or without the key of a provider, in a home of its own.
struct Shell {
    home: TempDir,
    setup: Setup,
}

impl Shell {
    fn new(has_key: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "codex", CODEX);
        let program = home.path().join("codex");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let mut setup = Setup::new().unnamed().env("PATH", "/usr/bin:/bin");
        if has_key {
            setup = setup.env("MOONSHOT_API_KEY", "sk-moon-1234");
        }
        Self { home, setup }
    }

    /// A server with the environment of this shell.
    async fn server(has_key: bool) -> Proxy {
        let Self { home, setup } = Self::new(has_key);
        Proxy::start_in_folder(home, &setup.arg("--listen=127.0.0.1:0")).await
    }

    async fn run(&self, address: &str, line: &str) -> (i32, String, String) {
        let setup = self.setup.clone().arg("--listen").arg(address);
        let setup = line.split(' ').fold(setup, Setup::arg);
        setup.run(self.home.path()).await
    }

    async fn succeed(&self, address: &str, line: &str) -> (String, String) {
        let (code, out, err) = self.run(address, line).await;
        assert_eq!(code, 0, "{line}: {out}{err}");
        (out, err)
    }

    /// The model of the profile, and the names in the catalog.
    fn codex_setup(&self) -> (String, Vec<String>) {
        let folder = self.home.path().join(".codex");
        let profile = fs::read_to_string(folder.join("respondent.config.toml")).unwrap();
        let profile: toml::Table = profile.parse().unwrap();
        let model = profile["model"].as_str().unwrap().to_owned();
        (model, slugs(&folder.join("respondent-models.json")))
    }
}

fn slugs(catalog: &Path) -> Vec<String> {
    let catalog = fs::read_to_string(catalog).unwrap();
    let catalog: Value = serde_json::from_str(&catalog).unwrap();
    let models = catalog["models"].as_array().unwrap().iter();
    models
        .map(|model| model["slug"].as_str().unwrap().to_owned())
        .collect()
}

const SETUP: &str = "codex setup --codex ./codex";

/// Promise: `models`, `check`, `codex setup`, `codex status` and `run codex` tell what the running
/// server serves, also where this shell lacks its keys or has others, and say that they asked it.
/// The setup takes no demo model where the server has another one.
#[kit::test]
async fn commands_ask_the_server_which_has_a_key_that_this_shell_lacks() {
    let server = Shell::server(true).await;
    let address = server.address.to_string();
    let said = format!("From the server on {address}.\n");
    let shell = Shell::new(false);

    let (out, err) = shell.succeed(&address, "models").await;
    assert!(out.starts_with("moonshot ("), "{out}");
    assert!(!out.contains("sandbox"), "{out}");
    assert_eq!(err, said);
    let (out, err) = shell
        .succeed(&address, "models --json --provider moonshot")
        .await;
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed[0]["on"], true, "{out}");
    assert_eq!(err, said);

    let (out, _) = shell.succeed(&address, "check").await;
    let about_server = format!(
        "The server on {address} has no configuration file either.\n\
         On in that server and off in this shell: moonshot.\n\
         Off in that server and on in this shell: sandbox.\n"
    );
    assert!(out.ends_with(&about_server), "{out}");

    let (out, err) = shell.succeed(&address, SETUP).await;
    assert_eq!(err, said);
    let (model, slugs) = shell.codex_setup();
    assert!(
        slugs.contains(&model) && model.starts_with("kimi"),
        "{model}: {slugs:?}"
    );
    assert!(
        !slugs.iter().any(|slug| slug.contains("sandbox")),
        "{slugs:?}"
    );
    let next = format!("\n  Next  codex -p respondent    (model {model})\n");
    assert!(out.contains(&next), "{out}");
    shell
        .succeed(&address, &format!("{SETUP} --model moonshot/kimi-k3"))
        .await;
    assert_eq!(shell.codex_setup().0, "moonshot/kimi-k3");

    let (out, err) = shell.succeed(&address, "codex status").await;
    assert!(
        !out.contains("not served") && !out.contains("lacks"),
        "{out}"
    );
    assert_eq!(err, said);
    let (out, _) = shell
        .succeed(&address, "run codex --codex ./codex exec go")
        .await;
    assert!(out.contains(&format!("model=\"{model}\"")), "{out}");
}

#[kit::test]
async fn commands_ask_the_server_which_lacks_a_key_that_this_shell_has() {
    let server = Shell::server(false).await;
    let address = server.address.to_string();
    let shell = Shell::new(true);

    let (out, _) = shell.succeed(&address, "models").await;
    assert!(
        out.starts_with("sandbox (") && !out.contains("moonshot"),
        "{out}"
    );
    let (out, _) = shell.succeed(&address, "check").await;
    let about_server = "On in that server and off in this shell: sandbox.\n\
         Off in that server and on in this shell: moonshot.\n";
    assert!(out.ends_with(about_server), "{out}");

    let (out, _) = shell.succeed(&address, SETUP).await;
    assert!(
        out.contains("No provider has a key, so Codex gets the offline demo"),
        "{out}"
    );
    let (model, slugs) = shell.codex_setup();
    assert_eq!(model, "sandbox-1");
    assert_eq!(slugs, ["sandbox-1", "sandbox/sandbox-1"]);
    let (code, _, err) = shell
        .run(&address, &format!("{SETUP} --model kimi-k3"))
        .await;
    assert_eq!(code, 1);
    assert!(
        err.contains("The model 'kimi-k3' does not exist, or its provider is off."),
        "{err}"
    );
    let (code, _, err) = shell
        .run(&address, "run codex --codex ./codex exec go")
        .await;
    assert_eq!(code, 1);
    assert!(
        err.contains("has no provider's key: start it with one"),
        "{err}"
    );
}

/// Promise: `usage` and `store` show what the running server has stored and counted up to now,
/// wherever that is, and say so; `stop` ends it.
#[kit::test]
async fn what_is_stored_is_that_of_the_server_with_another_data_directory() {
    let mut server = Shell::server(false).await;
    let address = server.address.to_string();
    let said = format!("From the server on {address}.\n");
    let shell = Shell::new(false);
    for turns in 1..3 {
        let body = json!({"model": "sandbox-1", "input": "go"});
        server.response(&body).await;
        let (out, err) = shell.succeed(&address, "usage --json").await;
        assert_eq!(err, said);
        let usage: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(usage["owners"][0]["turns"], turns, "{out}");
    }
    let folder = server.folder.path().join(".local/share/respondent");
    let (out, _) = shell.succeed(&address, "store stats --json").await;
    let stats: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(stats["data_dir"], folder.display().to_string());
    for line in [
        "store check",
        "store backup copy.sqlite",
        "store export copy.jsonl",
    ] {
        let (_, err) = shell.succeed(&address, line).await;
        assert!(err.ends_with(&said), "{line}: {err}");
    }
    shell.succeed(&address, "store purge --yes").await;
    let (out, _) = shell.succeed(&address, "stop").await;
    assert_eq!(out, format!("Stopped the server on {address}.\n"));
    assert!(server.wait_for_exit().await.success());
    let (code, _, err) = shell.run("127.0.0.1:0", "usage").await;
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("No server runs on 127.0.0.1:0; this is from "),
        "{err}"
    );
    assert!(err.contains("nothing is stored in "), "{err}");
}

/// Promise: Without a server these commands tell what a server of this shell would serve, and say
/// that. `codex status` says when the model of the profile is not served.
#[kit::test]
async fn without_a_server_commands_tell_of_this_shell() {
    let nobody = "127.0.0.1:0";
    let said = "No server runs on 127.0.0.1:0; these are the models of this shell.\n";
    let shell = Shell::new(true);
    let (out, err) = shell.succeed(nobody, "models").await;
    assert!(out.starts_with("moonshot ("), "{out}");
    assert_eq!(err, said);
    let (out, _) = shell.succeed(nobody, "check").await;
    assert!(
        out.ends_with("The configuration is valid. No provider was asked.\n"),
        "{out}"
    );
    let (out, err) = shell.succeed(nobody, SETUP).await;
    assert_eq!(err, said);
    let (model, _) = shell.codex_setup();
    assert!(model.starts_with("kimi"), "{model}");
    assert!(out.contains(" --listen 127.0.0.1:0 start"), "{out}");
    let (out, err) = shell.succeed(nobody, "codex status").await;
    assert!(!out.contains("not served"), "{out}");
    assert_eq!(err, said);

    let server = Shell::server(false).await;
    let (out, _) = shell
        .succeed(&server.address.to_string(), "codex status")
        .await;
    let warning = format!("it is not served. The model '{model}' does not exist,");
    assert!(out.contains(&warning), "{out}");
    assert!(
        out.contains("It lacks models that are served now."),
        "{out}"
    );
}
