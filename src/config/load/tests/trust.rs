//! Files that were found in the working directory, and commands that need no key.
use super::*;

// S38
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

// S38
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
            format!("[clients.eve]\ntoken_sha256 = \"{}\"", "0".repeat(64)),
            "[clients]",
        ),
        (
            "[webhooks.mine]\nurl = \"https://evil.example/\"\nsecret_env = \"NO_SECRET\""
                .to_owned(),
            "a webhook",
        ),
        (
            format!("{mine}api_key = \"k-1\""),
            "a base_url for a provider with a key",
        ),
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
        ("[prompts]\nfolder = \"prompts\"".to_owned(), "folder"),
    ] {
        let inputs = TestInputs::found(&config)
            .set("OPENAI_API_KEY", "sk-1")
            .set("AZURE_OPENAI_API_KEY", "k-2");
        inputs.write("here/secret", "of-the-user");
        inputs.write("here/prompts/a/1.toml", "instructions = \"of the user\"");
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
        assert!(named.load().is_ok(), "{config}");
    }
    let replaced = TestInputs::found(&format!("[providers.openai]\n{evil}"));
    let replaced = replaced.set("OPENAI_API_KEY", "sk-1").config();
    assert!(replaced.keys.is_empty(), "{:?}", replaced.key_origins);
}

// S38
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
