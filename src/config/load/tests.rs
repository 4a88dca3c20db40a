use std::collections::HashMap;
use std::sync::Arc;

use registry::builtin;

use super::*;
use crate::config::KeyOrigin;
use crate::config::{ConfigErrors, Flags, UserDirs};
use crate::secrets::Secret;

mod mistakes;
mod prompts;
mod search;
mod trust;
mod webhooks;
mod workflows;

/// The inputs of one test: a temporary directory, variables and flags.
struct TestInputs {
    dir: tempfile::TempDir,
    environment: HashMap<String, String>,
    flags: Flags,
}

impl TestInputs {
    fn new(config: &str) -> Self {
        let mut inputs = Self::found(config);
        if !config.is_empty() {
            inputs.flags.config = Some(inputs.dir.path().join("here/proxy-config.toml"));
        }
        inputs
    }

    /// With a configuration file in the working directory that is not named.
    fn found(config: &str) -> Self {
        let inputs = Self {
            dir: tempfile::tempdir().unwrap(),
            environment: HashMap::new(),
            flags: Flags::default(),
        };
        if !config.is_empty() {
            inputs.write("here/proxy-config.toml", config);
        }
        inputs
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        self.load_for(LoadPurpose::Serve)
    }

    fn load_for(&self, purpose: LoadPurpose) -> Result<Config, ConfigErrors> {
        let root = self.dir.path();
        let inputs = Inputs {
            flags: self.flags.clone(),
            environment: Arc::new(self.environment.clone()),
            dirs: UserDirs {
                working: root.join("here"),
                home: root.to_owned(),
                config: root.join("config/respondent"),
                data: root.join("data/respondent"),
            },
        };
        load(&inputs, purpose)
    }

    fn config(&self) -> Config {
        self.load().unwrap()
    }

    /// The error message without the name of the temporary directory.
    fn error(&self) -> String {
        let text = self.load().unwrap_err().to_string();
        text.replace(&format!("{}/here/", self.dir.path().display()), "")
    }
}

fn error(config: &str) -> String {
    TestInputs::new(config).error()
}

fn enabled(config: &Config) -> Vec<&str> {
    config
        .registry
        .providers
        .iter()
        .map(|provider| provider.id.as_str())
        .collect()
}

#[test]
fn without_any_configuration_the_sandbox_is_enabled() {
    let mut config = TestInputs::new("").config();
    assert_eq!(enabled(&config), [registry::SANDBOX]);
    assert!(config.sandbox && config.source_files.is_empty() && config.warnings.is_empty());
    assert_eq!(config.server.listen, "127.0.0.1:9797".parse().unwrap());
    assert!(config.server.data_dir.ends_with("data/respondent"));
    config.set_sandbox_address("127.0.0.1:4321".parse().unwrap());
    let route = config.registry.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:4321/v1");
}

#[test]
fn a_default_key_variable_enables_its_provider() {
    let config = TestInputs::new("").set("OPENAI_API_KEY", "sk-1").config();
    assert!(!config.sandbox);
    let id = enabled(&config).join(" ");
    assert!(builtin::ids().any(|builtin| builtin == id), "{id}");
    assert_eq!(config.keys[&id][0].expose(), "sk-1");
    let origin = KeyOrigin::Environment(vec!["OPENAI_API_KEY".into()]);
    assert_eq!(config.key_origins[&id], origin);
}

#[test]
fn a_variable_that_two_providers_share_enables_one() {
    let key = |config: &str| TestInputs::new(config).set("DASHSCOPE_API_KEY", "k");
    assert_eq!(enabled(&key("").config()), ["qwen"]);
    assert_eq!(enabled(&key("[providers.qwen-cn]").config()), ["qwen-cn"]);
    let both = key("[providers.qwen-cn]\n[providers.qwen]").config();
    assert_eq!(enabled(&both), ["qwen-cn", "qwen"]);
    let off = key("[providers.qwen]\nenabled = false").config();
    assert_eq!(enabled(&off), ["sandbox"]);
    // A provider of the user's own that reads the same variable does not use it up.
    let own =
        "[providers.mine]\nbase_url = \"https://x.example\"\napi_key_env = \"DASHSCOPE_API_KEY\"";
    assert_eq!(enabled(&key(own).config()), ["mine", "qwen"]);
}

#[test]
fn a_base_url_with_a_placeholder_must_be_configured() {
    let advice = "write base_url = \"https://{resource}.openai.azure.com/openai/v1\"";
    let inputs = TestInputs::new("").set("AZURE_OPENAI_API_KEY", "k");
    let config = inputs.config();
    assert_eq!(enabled(&config), ["sandbox"]);
    assert!(config.warnings[0].contains(advice), "{:?}", config.warnings);
    let why = error("[providers.azure-openai]\napi_key = \"k\"");
    assert!(why.contains(advice), "{why}");
    let table = "[providers.azure-openai]\nbase_url = \"https://r.openai.azure.com/openai/v1\"";
    let config = TestInputs::new(table)
        .set("AZURE_OPENAI_API_KEY", "k")
        .config();
    assert_eq!(enabled(&config), ["azure-openai"]);
    let key_header = config.registry.providers[0].key_header.as_deref();
    assert_eq!(key_header, Some("api-key"));
}

#[test]
fn providers_keep_the_order_of_the_file_then_the_directory_then_the_environment() {
    let inputs = TestInputs::new(
        "[providers.zeta]\nbase_url = \"https://z.example/v1\"\n[providers.llamacpp]\n[providers.sandbox]",
    )
    .set("OPENAI_API_KEY", "sk-1");
    inputs.write(
        "here/providers/b.toml",
        "base_url = \"https://b.example/v1\"",
    );
    inputs.write(
        "here/providers/a.toml",
        "base_url = \"https://a.example/v1\"",
    );
    inputs.write("here/providers/readme.txt", "not a provider");
    let config = inputs.config();
    assert_eq!(
        enabled(&config).join(" "),
        "zeta llamacpp sandbox a b openai"
    );
    assert!(config.sandbox);
    assert_eq!(config.source_files.len(), 3);
}

#[test]
fn a_provider_can_be_disabled() {
    let inputs =
        TestInputs::new("[providers.openai]\nenabled = false").set("OPENAI_API_KEY", "sk-1");
    assert_eq!(enabled(&inputs.config()), [registry::SANDBOX]);
    assert!(error("[providers.sandbox]\nenabled = false").contains("no provider is on"));
}

#[test]
fn a_builtin_needs_only_its_key() {
    let config = TestInputs::new("[providers.openai]\napi_key = [\"k1\", \"k2\"]").config();
    let keys: Vec<&str> = config.keys.values().flatten().map(Secret::expose).collect();
    assert_eq!(keys, ["k1", "k2"]);
    let off = TestInputs::new("[providers.openai]").config();
    assert_eq!(enabled(&off), [registry::SANDBOX]);
    assert_eq!(
        off.warnings,
        [
            "provider `openai` is off: it needs a key: set OPENAI_API_KEY, or give api_key_env, \
             api_key_file, api_key_command or api_key"
        ]
    );
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\nlog = \"warn\"\ndata_dir = \"~/d\"";
    let mut inputs = TestInputs::new(file);
    let config = inputs.config();
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.server.data_dir, inputs.dir.path().join("d"));
    for (name, value) in [
        ("LISTEN", "127.0.0.1:2"),
        ("LOG", "debug"),
        ("DATA_DIR", "/env"),
    ] {
        inputs = inputs.set(&format!("RESPONDENT_{name}"), value);
    }
    let server = inputs.config().server;
    assert_eq!((server.listen.port(), server.log.as_str()), (2, "debug"));
    assert_eq!(server.data_dir, Path::new("/env"));
    inputs.flags.listen = Some("127.0.0.1:3".into());
    inputs.flags.log = Some("trace".into());
    inputs.flags.data_dir = Some("/flag".into());
    let server = inputs.config().server;
    assert_eq!((server.listen.port(), server.log.as_str()), (3, "trace"));
    assert_eq!(server.data_dir, Path::new("/flag"));
}

#[test]
fn the_configuration_file_is_searched_for_in_order() {
    let listen = |port: u16| format!("[server]\nlisten = \"127.0.0.1:{port}\"");
    let port = |inputs: &TestInputs| inputs.config().server.listen.port();
    let mut inputs = TestInputs::new("");
    inputs.write("config/respondent/proxy-config.toml", &listen(1));
    assert_eq!(port(&inputs), 1);
    inputs.write("here/proxy-config.toml", &listen(2));
    assert_eq!(port(&inputs), 2);
    let path = inputs.write("env.toml", &listen(3));
    inputs = inputs.set("RESPONDENT_CONFIG", path.to_str().unwrap());
    assert_eq!(port(&inputs), 3);
    inputs.flags.config = Some(inputs.write("flag.toml", &listen(4)));
    assert_eq!(port(&inputs), 4);
    inputs.flags.config = Some(inputs.dir.path().join("absent.toml"));
    assert!(inputs.error().contains("absent.toml"));
}

#[test]
fn the_users_providers_directory_is_read_without_a_file() {
    let inputs = TestInputs::new("");
    inputs.write(
        "config/respondent/providers/lab.toml",
        "base_url = \"https://lab.example/v1\"",
    );
    assert_eq!(enabled(&inputs.config()), ["lab"]);
}

#[test]
fn an_error_shows_no_part_of_a_string() {
    let lab = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\n";
    for line in [
        "api_key = \"sk-live==\" oops",
        "api_key = 'sk-live==' oops",
        "headers = { Authorization = \"sk-live=\", X = oops }",
        "api_key = \"\"\"\nsk-live=\u{1}\"\"\"",
        "api_key = \"sk-live=\u{1}\"",
    ] {
        let error = TestInputs::new(&format!("{lab}{line}\n"));
        let error = error.load().unwrap_err().to_string();
        assert!(!error.contains("sk-live"), "{error:?}");
    }
    let error = TestInputs::new("[server]\n\"\\u001b[31mred\" = 1\n");
    let error = error.load().unwrap_err().to_string();
    assert!(
        error.contains("[31mred") && !error.contains('\u{1b}'),
        "{error:?}"
    );
}

#[test]
fn the_error_for_an_unknown_key_names_its_line_and_a_similar_key() {
    for (config, expected) in [
        (
            "[server]\nlisen = 1",
            "proxy-config.toml:2: unknown key `lisen`; did you mean `listen`?",
        ),
        (
            "[sever]\n",
            "proxy-config.toml:1: unknown key `sever`; did you mean `server`?",
        ),
        (
            "[providers.lab]\nbase-url = \"x\"",
            "proxy-config.toml:2: unknown key `base-url`; did you mean `base_url`?",
        ),
        (
            "[providers.lab]\nbase_url = \"https://x/v1\"\nquirks = { file = true }",
            "proxy-config.toml:3: unknown key `file`; did you mean `files`?",
        ),
        (
            "[codex]\nprompt = 1",
            "proxy-config.toml:2: unknown key `prompt`; known are instructions_file, tool_search, agents",
        ),
    ] {
        assert_eq!(error(config), expected);
    }
}

#[test]
fn a_quirk_of_another_wire_is_refused_at_its_table() {
    let message = error(
        "[providers.lab]\nbase_url = \"https://x/v1\"\nwire = \"responses\"\nquirks = { tool_names = true }",
    );
    let begin = "proxy-config.toml:4: provider `lab`: the wire `responses` has no quirk `tool_names`; known are ";
    assert!(message.starts_with(begin), "{message}");
}

#[test]
fn the_error_for_a_wrong_type_names_line_key_and_expected_type() {
    for (config, expected) in [
        (
            "[server]\nbody_limit = \"64 MiB\"",
            "proxy-config.toml:2: `body_limit`: expected a whole number, found string",
        ),
        (
            "[server]\n\ngrace = 20",
            "proxy-config.toml:3: `grace`: expected a duration such as \"10s\", \"500ms\" or \
             \"5m\", found integer",
        ),
        (
            "[server]\ngrace = \"20\"",
            "proxy-config.toml:2: `grace`: expected a duration such as \"10s\", \"500ms\" or \
             \"5m\"",
        ),
        (
            "[providers.lab]\napi_key = 5",
            "proxy-config.toml:2: `api_key`: expected a string or a list of strings, found integer",
        ),
        (
            "[providers.lab]\nwire = \"carrier-pigeon\"",
            "proxy-config.toml:2: `wire`: expected `chat` or `responses`",
        ),
        (
            "[providers.lab.quirks]\nfiles = true\nmerge_user = 5",
            "proxy-config.toml:3: `merge_user`: expected a boolean, found integer",
        ),
        (
            "[providers.lab.quirks]\nsystem_role = \"boss\"",
            "proxy-config.toml:2: `system_role`: expected one of `system`, `developer`, `user`",
        ),
        (
            "[providers.lab]\nmodels = [\"sk-canary\"]",
            "proxy-config.toml:2: `models`: expected tables such as { id = \"MODEL\" }, found string",
        ),
        (
            "[providers]\nopenai = \"sk-canary\"",
            "proxy-config.toml:2: `openai`: expected a table, found string",
        ),
    ] {
        assert_eq!(error(config), expected);
    }
    assert!(error("[server\n").starts_with("proxy-config.toml:1: "));
}

#[test]
fn the_error_for_a_broken_file_quotes_no_values() {
    for config in [
        "[providers.lab]\napi_key = sk-canary",
        "[providers.lab]\napi_key = \"sk-canary",
        "[providers.lab]\napi_key = \"sk-canary\"\napi_key = \"sk-canary\"",
        "[providers.lab]\napi_key = { key = \"sk-canary\" }",
        "[providers.lab]\nmodels = [\"sk-canary\"]",
        "[providers.lab.timeouts]\nidle = \"sk-canary\"",
    ] {
        let why = error(config);
        assert!(why.starts_with("proxy-config.toml:"), "{why}");
        assert!(!why.contains("canary"), "{why}");
    }
}

#[test]
fn errors_in_provider_files_name_the_file() {
    let inputs = TestInputs::new("");
    inputs.write(
        "config/respondent/providers/lab.toml",
        "base_url = \"https://x/v1\"\nmodel = 1",
    );
    let errors = inputs.load().unwrap_err();
    let error = &errors.all()[0];
    assert!(error.file.as_ref().unwrap().ends_with("providers/lab.toml"));
    assert_eq!(error.line, Some(2));
}

#[test]
fn unsafe_addresses_are_refused_unless_allowed() {
    let lab = |rest: &str| format!("[providers.lab]\n{rest}");
    for url in [
        "http://10.0.0.7/v1",
        "file:///etc/passwd",
        "https://me:pw-canary@x.example/v1",
    ] {
        let why = error(&lab(&format!("base_url = \"{url}\"")));
        assert!(
            why.starts_with("proxy-config.toml:2: provider `lab`: base_url"),
            "{why}"
        );
        assert!(!why.contains("canary"), "{why}");
    }
    let allowed = lab("base_url = \"http://10.0.0.7/v1\"\nallow_http = true");
    assert_eq!(enabled(&TestInputs::new(&allowed).config()), ["lab"]);
    assert!(error(&lab("")).contains("needs base_url"));
}

/// Promise: The server does not listen on an address that other machines can reach unless a token
/// is configured.
#[test]
fn an_open_address_needs_a_token() {
    let open = "[server]\nlisten = \"0.0.0.0:9797\"\n";
    let why = error(open);
    assert!(
        why.starts_with("proxy-config.toml:2: ") && why.contains("token_env"),
        "{why}"
    );
    let with = format!("{open}token_env = \"T\"");
    assert!(error(&with).contains("the environment has no T"));
    let config = TestInputs::new(&with).set("T", "token-1").config();
    assert!(config.server.token.unwrap().matches(b"token-1"));
    let mut flag = TestInputs::new("");
    flag.flags.listen = Some("[::]:80".into());
    assert!(flag.error().contains("lets other machines in"));
    flag.flags.listen = Some("nowhere".into());
    assert_eq!(
        flag.error(),
        "--listen (RESPONDENT_LISTEN): expected ADDRESS:PORT such as 127.0.0.1:9797, found \
         \"nowhere\""
    );
}

#[test]
fn a_token_file_is_relative_to_the_configuration() {
    let inputs = TestInputs::new("[server]\ntoken_file = \"token\"");
    assert!(inputs.error().contains("token"));
    inputs.write("here/token", "token-2\n");
    assert!(inputs.config().server.token.unwrap().matches(b"token-2"));
}

#[test]
fn errors_in_model_names_point_at_their_line() {
    let lab = "[providers.lab]\nbase_url = \"https://x/v1\"\npassthrough = false\n\
               models = [{ id = \"big\" }]\n[routing]\n";
    let why = error(&format!("{lab}default_model = \"bug\""));
    assert!(
        why.ends_with(":6: default_model: there is no model `bug`; did you mean `big`?"),
        "{why}"
    );
    let why = error(&format!("{lab}aliases = {{ a = \"b\", b = \"big\" }}"));
    assert!(
        why.starts_with("proxy-config.toml:6: ") && why.contains("one level"),
        "{why}"
    );
    let why = error(&format!(
        "{lab}fallbacks = {{ \"lab/big\" = [\"big\", \"bug\"] }}"
    ));
    assert!(
        why.ends_with(":6: fallbacks of `lab/big`: there is no model `bug`; did you mean `big`?"),
        "{why}"
    );
    let config = TestInputs::new(&format!(
        "{lab}default_model = \"a\"\naliases = {{ a = \"big\" }}"
    ));
    assert!(config.config().registry.resolve("gpt-x", true).is_ok());
}

#[test]
fn invalid_values_are_refused() {
    for config in [
        "[server]\nmax_connections = 0",
        "[tools]\nmax_rounds = 0",
        "[tools]\nmax_artifact_chars = 0",
        "[tools]\nmax_unusable_rounds = 0",
        "[tools]\nmax_calls = 0",
        "[tools]\nmax_rounds = -1",
        "[tools]\nmax_calls = 5000000000",
        "[tools]\ncall_timeout = \"0s\"",
        "[server]\nheartbeat = \"0s\"",
        "[server]\nlog = \"re=s=p\"",
        "[codex]\ninstructions_file = \"absent.md\"",
        "[providers.\"a/b\"]\nbase_url = \"https://x/v1\"",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nproxy = \"nowhere\"",
        "[providers.vllm]\nkey_header = \"a b\"",
        "[providers.vllm]\nkey_scheme = \"a b\"",
        "[providers.vllm]\nkey_scheme = \"\"",
        "[providers.vllm]\nkey_query = \"\"",
        "[providers.vllm]\nkey_query = \"key\"\nkey_header = \"api-key\"",
        "[providers.vllm]\nkey_query = \"key\"\nkey_scheme = \"Token\"",
        "[providers.vllm]\nmax_concurrent = 0",
        "[providers.vllm]\nkey_weights = [1]",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nca_file = \"absent.pem\"",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nheaders = { \"a b\" = \"c\" }",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nmodels = [{ id = \"a\" }, { id = \"a\" }]",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nmodels = [{ id = \"a\", default_reasoning = \"high\" }]",
    ] {
        assert!(TestInputs::new(config).load().is_err(), "{config}");
    }
    let inputs = TestInputs::new("[providers.lab]\nbase_url = \"https://x/v1\"");
    inputs.write("here/providers/lab.toml", "base_url = \"https://x/v1\"");
    assert!(inputs.error().contains("twice"));
}

#[test]
fn reasoning_levels_that_are_never_sent_are_a_warning() {
    let warnings = |more: &str| {
        let lab = "[providers.lab]\nbase_url = \"https://x/v1\"\nkey_required = false\n";
        TestInputs::new(&format!("{lab}{more}")).config().warnings
    };
    let levels = "models = [{ id = \"a\" }, { id = \"b\", reasoning = [\"low\"] }]\n";
    let warned = warnings(levels);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("the reasoning levels of b change nothing"));
    for more in [
        format!("{levels}quirks = {{ reasoning_control = \"effort\" }}"),
        format!("{levels}wire = \"responses\""),
        "models = [{ id = \"a\" }]".to_owned(),
    ] {
        let warned = warnings(&more);
        assert!(warned.is_empty(), "{more}: {warned:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_secret_file_that_others_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let inputs = TestInputs::new("[providers.openai]\napi_key = \"sk-1\"");
    let path = inputs.dir.path().join("here/proxy-config.toml");
    let with = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        inputs.config().warnings
    };
    assert!(with(0o600).is_empty());
    for mode in [0o640, 0o604] {
        assert!(with(mode)[0].contains("chmod 600"), "{mode:o}");
    }
}

#[test]
fn the_instructions_file_is_read() {
    let inputs = TestInputs::new("[codex]\ninstructions_file = \"prompt.md\"");
    inputs.write("here/prompt.md", "Be brief.");
    let before = inputs.config();
    assert_eq!(before.codex.instructions.as_deref(), Some("Be brief."));
    inputs.write("here/prompt.md", "Be bold.");
    assert_ne!(before.digest, inputs.config().digest);
}

#[test]
fn no_secret_is_printed_or_left_after_redaction() {
    let inputs = TestInputs::new(
        "[server]\ntoken_env = \"T\"\n[providers.openai]\n[providers.lab]\n\
         base_url = \"https://x/v1\"\napi_key = \"lab-canary-1\"\n\
         proxy = \"http://me:proxy-canary-2@127.0.0.1:1\"\n\
         headers = { Authorization = \"Basic header-canary-3\" }\nquery = { key = \"query-canary-44\" }",
    )
    .set("T", "token-canary-5")
    .set("OPENAI_API_KEY", "sk-canary-6");
    let config = inputs.config();
    for text in [
        format!("{config:?}"),
        crate::config::report::report(&config),
    ] {
        assert!(!text.contains("canary"), "{text}");
    }
    let all =
        "lab-canary-1 proxy-canary-2 header-canary-3 query-canary-44 token-canary-5 sk-canary-6";
    let clean = config.redactor().redact(all).into_owned();
    assert!(!clean.contains("canary"), "{clean}");
}

#[test]
fn the_report_lists_what_would_run() {
    let inputs = TestInputs::new(
        "[routing.aliases]\nbest = \"gpt-5\"\n\
         [routing.fallbacks]\nbest = [\"vllm/a\", \"vllm/b\"]\n\"*\" = \"vllm/c\"\n\
         [providers.vllm]\napi_key = [\"k1\", \"k2\"]\nkey_weights = [3, 1]\nmax_concurrent = 4",
    )
    .set("OPENAI_API_KEY", "sk-1");
    let report = crate::config::report::report(&inputs.config());
    for line in [
        "listen     http://127.0.0.1:9797",
        "proxy-config.toml",
        "  address    http://127.0.0.1:8000/v1",
        "  key        environment OPENAI_API_KEY",
        "  model      gpt-5 (272000 tokens)",
        "  model      vllm/... (any other name)",
        "  keys       2 from configuration file",
        "  weights    3, 1",
        "  limit      4 at once",
        "The configuration is valid. No provider was asked.",
        "alias      best = gpt-5",
        "fallback   best -> vllm/a, vllm/b",
        "fallback   any model -> vllm/c",
    ] {
        assert!(report.contains(line), "{line} is not in\n{report}");
    }
}

#[test]
fn the_memory_must_hold_what_the_other_limits_allow() {
    assert_eq!(TestInputs::new("").config().memory_limit(), 512 << 20);
    let large = "[server]\nbody_limit = 1073741824";
    assert_eq!(
        TestInputs::new(large).config().memory_limit(),
        (248 + 3 * 1024) << 20
    );
    // What is not set shrinks with the budget.
    let least: usize = 128 << 20;
    let config = TestInputs::new(&format!("[server]\nmemory = {least}")).config();
    let limits = (
        config.memory_limit(),
        config.server.body_limit,
        config.capture.memory,
        config.artifacts.memory,
        config.session_memory(),
    );
    assert_eq!(limits, (least, 16 << 20, 16 << 20, 16 << 20, 20 << 20));
    for (text, needed) in [
        (format!("memory = {}", least - 1), least),
        (
            format!("memory = {least}\nbody_limit = {}", 32 << 20),
            (3 * 32 + 16 + 16 + 32) << 20,
        ),
    ] {
        let message = error(&format!("[server]\n{text}"));
        let begin = format!("proxy-config.toml:2: `memory` must be at least {needed}: ");
        assert!(message.starts_with(&begin), "{message}");
    }
}

#[test]
fn a_token_needs_no_file() {
    let inputs = TestInputs::new("").set("RESPONDENT_TOKEN", "of-the-variable");
    let token = |inputs: &TestInputs| inputs.config().server.token.unwrap().expose().to_owned();
    assert_eq!(token(&inputs), "of-the-variable");
    let path = inputs.write("variable", "of-the-other-variable\n");
    let mut inputs = inputs.set("RESPONDENT_TOKEN_FILE", path.to_str().unwrap());
    assert_eq!(token(&inputs), "of-the-other-variable");
    inputs.write("here/flag", "of-the-flag\n");
    inputs.flags.token_file = Some("flag".into());
    assert_eq!(token(&inputs), "of-the-flag");
    inputs.flags.listen = Some("0.0.0.0:1".into());
    assert_eq!(token(&inputs), "of-the-flag");
    inputs.flags.token_file = Some("absent".into());
    assert!(
        inputs
            .error()
            .starts_with("--token-file (RESPONDENT_TOKEN_FILE): ")
    );
}
