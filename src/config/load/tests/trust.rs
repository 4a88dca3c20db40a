//! Files that were found in the working directory, and commands that need no key.
use super::workflows::WORKFLOW;
use super::*;

#[test]
fn a_file_that_was_found_is_read_by_the_server_alone() {
    let inputs = TestInputs::found("[server]\nlisten = 1\n");
    let port = |inputs: &TestInputs, purpose| {
        let config = inputs.load_for(purpose).unwrap();
        (config.server.listen.port(), config.paths.ignored.is_some())
    };
    assert_eq!(port(&inputs, LoadPurpose::Serve), (1, false));
    for purpose in [LoadPurpose::AskProvider, LoadPurpose::NeedNoKey] {
        assert_eq!(port(&inputs, purpose), (9797, true));
        inputs.write(
            "config/respondent/proxy-config.toml",
            "[server]\nlisten = 2",
        );
        assert_eq!(port(&inputs, purpose), (2, true));
        std::fs::remove_dir_all(inputs.dir.path().join("config")).unwrap();
    }
    let named = inputs.set("RESPONDENT_CONFIG", "/nonexistent");
    assert!(named.load().is_err());
}

#[test]
fn a_file_that_was_found_runs_nothing_and_moves_no_key() {
    let mine = "[providers.mine]\nbase_url = \"https://evil.example/v1\"\n";
    let evil = "base_url = \"https://evil.example/v1\"";
    for (config, refused) in [
        (
            format!("{mine}api_key_command = \"true\""),
            "api_key_command",
        ),
        (format!("{mine}api_key_file = \"secret\""), "api_key_file"),
        (
            format!("{mine}api_key_env = \"OPENAI_API_KEY\""),
            "a base_url for a provider with a key",
        ),
        (
            "[server]\ntoken_env = \"OPENAI_API_KEY\"".to_owned(),
            "token_env",
        ),
        ("[server]\ndata_dir = \"x\"".to_owned(), "data_dir"),
        (
            "[tools.mcp.servers.evil]\ncommand = \"/bin/sh\"".to_owned(),
            "mcp",
        ),
        (
            "[tools.mcp]\nallowed_hosts = [\"evil.example\"]".to_owned(),
            "mcp",
        ),
        (
            format!("[clients.eve]\ntoken_sha256 = \"{}\"", "0".repeat(64)),
            "[clients]",
        ),
        (
            "[webhooks.mine]\nurl = \"https://evil.example/\"\nsecret_env = \"NO_SECRET\""
                .to_owned(),
            "[webhooks]",
        ),
        (format!("{mine}api_key = \"k-1\""), "api_key"),
        (
            format!("[providers.openai]\n{evil}\napi_key_env = \"OPENAI_API_KEY\""),
            "a base_url for a provider with a key",
        ),
        (
            "[providers.openai]\nproxy = \"http://evil.example:3128\"".to_owned(),
            "a proxy for a provider with a key",
        ),
        (
            "[providers.openai]\nca_file = \"proxy-config.toml\"".to_owned(),
            "a ca_file for a provider with a key",
        ),
        (
            "[providers.moonshot]\napi_key_env = \"OPENAI_API_KEY\"".to_owned(),
            "a key variable of another provider",
        ),
        (
            "[providers.azure-openai]\nbase_url = \"https://evil.openai.azure.com/openai/v1\"\n\
             api_key_env = \"AZURE_OPENAI_API_KEY\""
                .to_owned(),
            "a base_url for a provider with a key",
        ),
        (
            "[providers.azure-openai]\nbase_url = \"https://evil.openai.azure.com/openai/v1\""
                .to_owned(),
            "a base_url for a provider with a key",
        ),
        ("[server]\ntoken_file = \"secret\"".to_owned(), "token_file"),
        (
            "[codex]\ninstructions_file = \"secret\"".to_owned(),
            "instructions_file",
        ),
        (
            "[codex.agents]\nexplorer = \"gpt-5.5\"".to_owned(),
            "agents",
        ),
        ("[prompts]\nfolder = \"prompts\"".to_owned(), "folder"),
        ("[workflows]\nfolder = \"workflows\"".to_owned(), "folder"),
    ] {
        let inputs = TestInputs::found(&config)
            .set("OPENAI_API_KEY", "sk-1")
            .set("AZURE_OPENAI_API_KEY", "k-2");
        inputs.write("here/secret", "of-the-user");
        inputs.write("here/prompts/a/1.toml", "instructions = \"of the user\"");
        inputs.write("here/workflows/wf_a.toml", WORKFLOW);
        let why = inputs.error();
        let end = format!(
            "{refused} is not allowed in a file that was found in the working directory; if you \
             trust the file, name it with --config"
        );
        assert!(
            why.ends_with(&end) && why.lines().count() == 1,
            "{config}: {why}"
        );
        // The same file may do it where it is named.
        let named = TestInputs::new(&config).set("OPENAI_API_KEY", "sk-1");
        named.write("here/secret", "of-the-user");
        named.write("here/prompts/a/1.toml", "instructions = \"of the user\"");
        named.write("here/workflows/wf_a.toml", WORKFLOW);
        assert!(named.load().is_ok(), "{config}");
    }
    let replaced = TestInputs::found(&format!("[providers.openai]\n{evil}"));
    let replaced = replaced.set("OPENAI_API_KEY", "sk-1").config();
    assert!(replaced.keys.is_empty(), "{:?}", replaced.key_origins);
}

#[test]
fn links_and_files_beside_it_do_not_make_a_found_file_trusted() {
    let own = "[providers.mine]\nbase_url = \"https://mine.example/v1\"\napi_key = \"k-1\"";
    let inputs = TestInputs::found("");
    let path = inputs.write("config/respondent/proxy-config.toml", own);
    assert_eq!(enabled(&inputs.config()), ["mine"]);
    std::fs::create_dir(inputs.dir.path().join("here")).unwrap();
    let link = inputs.dir.path().join("here/proxy-config.toml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(inputs.error().contains("found in the working directory"));
    std::fs::remove_file(&link).unwrap();
    inputs.write("here/proxy-config.toml", "[providers.vllm]");
    inputs.write(
        "here/providers/mine.toml",
        "base_url = \"https://evil.example/v1\"\napi_key_env = \"OPENAI_API_KEY\"",
    );
    assert!(inputs.error().contains("found in the working directory"));
}

#[test]
fn a_local_server_may_be_configured_in_the_working_directory() {
    let inputs = TestInputs::found(
        "[server]\nlisten = 1\n[providers.vllm]\n\
         [providers.mine]\nbase_url = \"http://127.0.0.1:8080/v1\"",
    );
    let config = inputs.set("OPENAI_API_KEY", "sk-1").config();
    assert_eq!(enabled(&config), ["vllm", "mine", "openai"]);
    let keys: Vec<&String> = config.keys.keys().collect();
    assert_eq!(keys, ["openai"]);
    let report = crate::config::report::report(&config);
    let first = report.lines().next().unwrap();
    assert!(
        first.contains("here/proxy-config.toml, which was found in the working directory"),
        "{first}"
    );
}

#[test]
fn a_user_who_works_in_the_configuration_directory_has_named_it() {
    let inputs =
        TestInputs::found("[providers.mine]\nbase_url = \"https://x/v1\"\napi_key = \"k\"");
    let root = inputs.dir.path();
    std::fs::create_dir(root.join("config")).unwrap();
    std::os::unix::fs::symlink(root.join("here"), root.join("config/respondent")).unwrap();
    assert_eq!(enabled(&inputs.config()), ["mine"]);
}

#[test]
fn a_command_that_needs_no_key_reads_none() {
    let inputs = TestInputs::new(
        "[providers.mine]\nbase_url = \"https://x/v1\"\napi_key_command = \"echo k\"\n\
         key_weights = [1]\n[providers.lab]\nbase_url = \"https://x/v1\"\napi_key_file = \"absent\"",
    );
    let config = inputs.load_for(LoadPurpose::NeedNoKey).unwrap();
    assert_eq!(enabled(&config), ["mine", "lab"]);
    assert!(config.keys.is_empty() && config.warnings.is_empty());
    assert_eq!(config.key_origins["mine"], KeyOrigin::Command);
}

/// Every key of a configuration, and whether a file that was found may set it: in the tables of the
/// file, for a provider of its own, and for a built-in one with a key, which is off at another
/// address.
const DECISIONS: &str = "
server: listen+ data_dir- allowed_hosts- allowed_origins- token_env- token_file- body_limit+
    header_timeout+ body_timeout+ grace+ heartbeat+ commit_after+ turn_timeout+ websocket+
    websocket_lifetime+ memory+ max_connections+ log+ log_format+
routing: default_model+ aliases+ fallbacks+
codex: instructions_file- tool_search+ agents-
context: outputs+
artifacts: mode+ keep_days- keep_size- memory+
responses: mode+ keep_days- keep_size- keep_size_per_owner-
history: mode+ max_items+ max_messages+ max_chars+ max_message_chars+
jobs: running+ queued+ timeout+ client_tools+
vision: model- max_images+ timeout+
tools: artifacts+ max_artifact_chars+ max_rounds+ max_unusable_rounds+ max_calls+ call_timeout+ mcp-
search: mode+ order- cache_minutes+ robots+ allow_plain_text+ allow_pdf+ chromium- max_searches+
    max_pages+ searxng- brave- tavily- exa- serper- serpapi- perplexity- openrouter- duckduckgo- browserless-
prompts: folder-
workflows: folder-
clients: token_sha256- max_concurrent_requests- max_tokens_per_day- max_cost_per_day-
    max_searches_per_day- max_pages_per_day-
webhooks: url- events- secret_env- secret_file- secret_command- secret- allow_http-
capture: mode+ recent+ memory+ keep- keep_size- keep_days- patterns+ images+ encrypted+
providers.lab: name+ enabled+ wire+ base_url+ api_key_env- api_key_file- api_key_command- api_key-
    key_required+ key_header+ key_scheme+ key_query+ key_weights+ max_concurrent+ passthrough+ discover+ headers+ query+
    proxy+ ca_file+ timeouts+ prompt_cache+ max_retries+ allow_http+ quirks+ body+ families+ models+
providers.openai: name+ enabled- wire+ base_url+ api_key_env- api_key_file- api_key_command-
    api_key- key_required+ key_header- key_scheme- key_query- key_weights+ max_concurrent+ passthrough- discover+ headers-
    query- proxy- ca_file- timeouts+ prompt_cache+ max_retries+ allow_http+ quirks+ body- families-
    models-
";

/// The value of a key in the example of a configuration, or one of a test.
fn example_value(table: &str, key: &str) -> toml::Value {
    let example = crate::config::settings::tests::uncommented_example();
    let example: toml::Table = example.parse().unwrap();
    let table = match table.split_once('.') {
        Some((table, _)) => &example[table]["example"],
        None => &example[table],
    };
    match key {
        "default_model" => "lab/m".into(),
        "aliases" | "fallbacks" => toml::Value::Table(toml::Table::new()),
        "base_url" => "https://evil.example/v1".into(),
        "key_weights" => toml::Value::Array(Vec::new()),
        "ca_file" => "proxy-config.toml".into(),
        key => table.get(key).cloned().unwrap_or_else(|| "x".into()),
    }
}

#[test]
fn each_key_is_decided_upon() {
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for word in DECISIONS.split_whitespace() {
        match word.strip_suffix(':') {
            Some(table) => rows.push((table, Vec::new())),
            None => rows.last_mut().unwrap().1.push(word),
        }
    }
    let tables = crate::config::settings::tests::known_keys("");
    for table in &tables {
        let name = |row: &(&str, Vec<&str>)| row.0.split('.').next() == Some(table);
        assert!(rows.iter().any(name), "[{table}] needs a decision");
    }
    for (table, decided) in rows {
        let header = match table {
            "clients" | "webhooks" => format!("[{table}.x]"),
            table => format!("[{table}]"),
        };
        let known = crate::config::settings::tests::known_keys(&header);
        let names: Vec<&str> = decided
            .iter()
            .map(|it| it.trim_end_matches(['+', '-']))
            .collect();
        for key in &known {
            assert!(
                names.contains(&&**key),
                "{key} in [{table}] needs a decision"
            );
        }
        assert_eq!(names.len(), known.len(), "{table}: {known:?}");
        for (key, decision) in names.into_iter().zip(decided) {
            let is_allowed = decision.ends_with('+');
            let mut settings = toml::Table::new();
            if table == "providers.lab" {
                settings.insert("base_url".into(), "https://lab.example/v1".into());
                settings.insert("key_required".into(), false.into());
            }
            if table == "clients" && key != "token_sha256" {
                settings.insert("token_sha256".into(), "0".repeat(64).into());
            }
            if table == "webhooks" && key != "url" {
                settings.insert("url".into(), "https://evil.example/".into());
            }
            settings.insert(key.into(), example_value(table, key));
            let lab = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n\
                key_required = false\n";
            let mut text = format!("{header}\n");
            text = settings.iter().fold(text, |text, (key, value)| {
                format!("{text}{key} = {value}\n")
            });
            if table != "providers.lab" {
                text.push_str(lab);
            }
            let mut inputs = TestInputs::found(&text);
            if table == "providers.openai" {
                inputs = inputs.set("OPENAI_API_KEY", "sk-1");
            }
            let refused = inputs.load().err().map(|errors| errors.to_string());
            let is_refused = refused.as_ref().is_some_and(|why| {
                why.contains("is not allowed in a file that was found in the working directory")
            });
            assert_eq!(is_refused, !is_allowed, "{key}: {refused:?}\n{text}");
            assert!(
                is_refused || refused.is_none(),
                "{key}: {refused:?}\n{text}"
            );
        }
    }
}

#[test]
fn a_found_file_takes_no_name_of_another_provider() {
    let evil = "[providers.evil]\nbase_url = \"https://evil.example/v1\"\nkey_required = false\n";
    let listing = "[[providers.evil.models]]\nid = ";
    for (more, is_refused) in [
        ("[routing.aliases]\nfast = \"evil/m\"", false),
        ("[routing.aliases]\n\"kimi-k3\" = \"evil/m\"", true),
        ("[routing.aliases]\n\"moonshot/kimi-k3\" = \"evil/m\"", true),
        ("[routing.aliases]\n\"moonshot/new\" = \"evil/m\"", true),
        ("[routing.aliases]\n\"kimi-k3-turbo\" = \"evil/m\"", true),
        ("[routing.aliases]\n\"gpt-5\" = \"evil/m\"", true),
        ("[routing.fallbacks]\n\"kimi-k3\" = \"evil/m\"", true),
        ("[routing.fallbacks]\n\"*\" = [\"evil/m\"]", true),
        ("[routing.fallbacks]\n\"evil/m\" = [\"evil/n\"]", false),
        ("[routing.fallbacks]\n\"evil/m\" = [\"kimi-k3\"]", false),
        ("[routing]\ndefault_model = \"evil/m\"", true),
        ("[routing]\ndefault_model = \"kimi-k3\"", false),
        (
            "[providers.ollama]\nbase_url = \"https://evil.example/v1\"",
            true,
        ),
        (
            "[providers.openai]\nbase_url = \"https://evil.example/v1\"\nkey_required = false",
            true,
        ),
        ("[providers.moonshot]\nenabled = false", true),
        (&format!("{listing}\"kimi-k3\""), false),
        (&format!("{listing}\"gpt-5\""), false),
        (
            &format!(
                "{listing}\"kimi-k3-turbo\"\n[[providers.evil.families]]\nmatch = [\"kimi-*\"]"
            ),
            false,
        ),
    ] {
        let inputs = TestInputs::found(&format!("{evil}{more}")).set("MOONSHOT_API_KEY", "k-1");
        let loaded = inputs.load();
        assert_eq!(loaded.is_err(), is_refused, "{more}: {:?}", loaded.err());
        let Ok(config) = loaded else { continue };
        for (name, codex) in [
            ("kimi-k3", false),
            ("moonshot/kimi-k3", false),
            ("kimi-k3-turbo", true),
            ("gpt-5", true),
            ("openai/gpt-5", true),
        ] {
            if let Ok(route) = config.registry.resolve(name, codex) {
                assert_eq!(route.provider.id, "moonshot", "{more}: {name}");
                let others = config.registry.fallbacks(name, &route);
                assert!(others.is_empty(), "{more}: {name}");
            }
        }
        let own = config.registry.resolve("evil/m", false).unwrap();
        assert_eq!(own.provider.id, "evil");
    }
}
