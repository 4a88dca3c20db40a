//! The text that the server prints when it starts: what is served, and how to use it.

use std::path::Path;

use registry::Provider;

use crate::app::models::preferred_model;
use crate::commands::invocation::Invocation;
use crate::config::{CaptureMode, Config, KeyOrigin, address};
use crate::log::{TERMINAL_WIDTH, labelled};

/// The width of the column with the labels, in characters.
const LABEL_WIDTH: usize = 9;
/// The models of one provider that are named; of the others only the number.
const MAX_MODELS: usize = 3;

/// The banner. The first line ends with the address, and no line is longer than a terminal is wide,
/// unless a path is. A server with a log file is in the background of its terminal.
pub(super) fn banner(invocation: &Invocation<'_>, log_file: Option<&Path>) -> String {
    let Invocation {
        config, address, ..
    } = *invocation;
    let origin = format!("http://{}", address::local_client_address(address));
    let mut rows = Vec::new();
    for (index, provider) in config.registry.providers.iter().enumerate() {
        let label = if index == 0 { "Models" } else { "" };
        rows.push((label, provider_text(config, provider)));
    }
    rows.push(("Codex", codex_text(&invocation.command("codex setup"))));
    let api_key = match config.server.token {
        Some(_) => "TOKEN",
        None => "local",
    };
    let model = preferred_model(config);
    let model = model.map_or_else(String::new, |model| format!("  model={model}"));
    rows.push((
        "SDKs",
        format!("base_url={origin}/v1  api_key={api_key}{model}"),
    ));
    if address::accepts_remote_clients(address) {
        let text = "other machines can reach this server; its token lets them in";
        rows.push(("Network", text.to_owned()));
    }
    if let Some(turns) = kept_turns(config.capture.mode) {
        let text = format!("{turns}, with prompts; mode = \"off\" in [capture] stops it");
        rows.push(("Recorded", text));
    }
    let status = invocation.command("status");
    if let Some(file) = log_file {
        rows.push(("Log", file.display().to_string()));
        rows.push(("Status", status));
        rows.push(("Stop", invocation.command("stop")));
    } else {
        rows.push(("Status", format!("{status}      Ctrl-C to stop")));
    }
    format!(
        "Respondent {} is listening on http://{address}\n\n{}\n",
        env!("CARGO_PKG_VERSION"),
        labelled(LABEL_WIDTH, rows.into_iter())
    )
}

/// The models of a provider, and what turned it on.
fn provider_text(config: &Config, provider: &Provider) -> String {
    let mut models: Vec<String> = provider
        .models
        .iter()
        .take(MAX_MODELS)
        .map(|model| config.registry.public_name(provider, model))
        .collect();
    let others = provider.models.len() - models.len();
    if others > 0 {
        models.push(format!("{others} more"));
    }
    if provider.passthrough {
        models.push(format!("{} (any name)", provider.prefixed_name("...")));
    }
    let models = models.join(", ");
    if config.sandbox && provider.id == registry::SANDBOX {
        return format!("{models} (offline demo; set a key, such as OPENAI_API_KEY)");
    }
    let key = match config.key_origins.get(&provider.id) {
        Some(KeyOrigin::Environment(names)) => names.join(", "),
        Some(KeyOrigin::File(_)) => "key from a file".to_owned(),
        Some(KeyOrigin::Command) => "key from a command".to_owned(),
        Some(KeyOrigin::Literal) => "key in the configuration".to_owned(),
        None => "no key".to_owned(),
    };
    format!("{} ({key}): {models}", provider.id)
}

/// The command that sets up Codex and the one that uses it, on one line if they fit.
fn codex_text(setup: &str) -> String {
    let room = usize::from(TERMINAL_WIDTH) - LABEL_WIDTH - 4;
    let line = format!("{setup}     then: codex -p respondent");
    if line.chars().count() <= room {
        line
    } else {
        format!("{setup}\nthen: codex -p respondent")
    }
}

/// Which turns are written to disk; `None` if none are.
fn kept_turns(mode: CaptureMode) -> Option<&'static str> {
    match mode {
        CaptureMode::Off => None,
        CaptureMode::Failures => Some("failing turns"),
        CaptureMode::All => Some("all turns"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::config::{self, Flags, Inputs, LoadPurpose, UserDirs};

    fn config_of(toml: &str, variables: &[(&str, &str)], flags: &Flags) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, toml).unwrap();
        let variables = variables.iter();
        let environment: HashMap<String, String> = variables
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let inputs = Inputs {
            flags: Flags {
                config: Some(file),
                ..flags.clone()
            },
            environment: Arc::new(environment),
            dirs: UserDirs::under(folder.path()),
        };
        config::load(&inputs, LoadPurpose::Serve).unwrap()
    }

    fn banner_of(toml: &str, variables: &[(&str, &str)], address: &str) -> String {
        let mut config = config_of(toml, variables, &Flags::default());
        config.server.listen = address.parse().unwrap();
        let invocation = Invocation {
            program: "respondent",
            flags: &Flags::default(),
            config: &config,
            address: config.server.listen,
        };
        let text = banner(&invocation, None);
        let (_, text) = text.split_once(" is listening on ").unwrap();
        assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
        text.to_owned()
    }

    #[test]
    fn without_a_key_the_banner_shows_the_offline_demo() {
        assert_eq!(
            banner_of("", &[], "127.0.0.1:9"),
            "\
http://127.0.0.1:9

  Models     sandbox-1 (offline demo; set a key, such as OPENAI_API_KEY)
  Codex      respondent codex setup     then: codex -p respondent
  SDKs       base_url=http://127.0.0.1:9/v1  api_key=local  model=sandbox-1
  Recorded   failing turns, with prompts; mode = \"off\" in [capture] stops it
  Status     respondent status      Ctrl-C to stop

"
        );
    }

    #[test]
    fn the_banner_names_what_turned_each_provider_on() {
        let toml = "[capture]\nmode = \"off\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:1\"\n\
            [[providers.mine.models]]\nid = \"m-1\"";
        let text = banner_of(toml, &[("OPENAI_API_KEY", "sk-canary-1")], "127.0.0.1:9");
        assert!(text.contains("(OPENAI_API_KEY): "), "{text}");
        assert!(text.contains(" more"), "{text}");
        assert!(
            text.contains("mine (no key): m-1, mine/... (any name)\n"),
            "{text}"
        );
        assert!(
            !text.contains("sk-canary") && !text.contains("Recorded"),
            "{text}"
        );
    }

    #[test]
    fn an_open_server_is_used_through_loopback() {
        let token = "[server]\ntoken_env = \"GATE\"";
        let text = banner_of(token, &[("GATE", "open-sesame")], "0.0.0.0:9");
        assert!(text.contains("its token lets them in"), "{text}");
        assert!(text.contains("base_url=http://127.0.0.1:9/v1"), "{text}");
        assert!(text.contains("api_key=TOKEN "), "{text}");
    }

    #[test]
    fn a_placeholder_is_no_model() {
        let mine = "[providers.mine]\nbase_url = \"http://127.0.0.1:1\"";
        let text = banner_of(mine, &[], "127.0.0.1:9");
        assert!(
            text.contains("api_key=local\n") && !text.contains("MODEL"),
            "{text}"
        );
    }

    #[test]
    fn a_long_command_has_a_line_of_its_own() {
        let long = "/some/where/respondent --listen 127.0.0.1:40000 codex setup";
        assert_eq!(
            codex_text(long),
            format!("{long}\nthen: codex -p respondent")
        );
    }
}
