use std::collections::HashMap;

use registry::builtin;

use super::*;
use crate::config::{Flags, UserDirs};

/// A home for one test: files, variables and flags that no other test sees.
struct Desk {
    folder: tempfile::TempDir,
    environment: HashMap<String, String>,
    flags: Flags,
}

impl Desk {
    fn new(config: &str) -> Self {
        let desk = Self {
            folder: tempfile::tempdir().unwrap(),
            environment: HashMap::new(),
            flags: Flags::default(),
        };
        if !config.is_empty() {
            desk.write("here/proxy-config.toml", config);
        }
        desk
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn load(&self) -> Result<Config, ConfigError> {
        let root = self.folder.path();
        load(&Inputs {
            flags: self.flags.clone(),
            environment: Box::new(self.environment.clone()),
            dirs: UserDirs {
                working: root.join("here"),
                home: root.to_owned(),
                config: root.join("config/respondent"),
                data: root.join("data/respondent"),
            },
        })
    }

    fn config(&self) -> Config {
        self.load().unwrap()
    }

    /// The refusal with the folder's name taken out.
    fn refusal(&self) -> String {
        let text = self.load().unwrap_err().to_string();
        text.replace(&format!("{}/here/", self.folder.path().display()), "")
    }
}

fn refusal(config: &str) -> String {
    Desk::new(config).refusal()
}

fn on(config: &Config) -> Vec<&str> {
    config
        .registry
        .providers
        .iter()
        .map(|provider| provider.id.as_str())
        .collect()
}

#[test]
fn with_nothing_at_all_the_sandbox_is_on() {
    let mut config = Desk::new("").config();
    assert_eq!(on(&config), [registry::SANDBOX]);
    assert!(config.sandbox && config.source_files.is_empty() && config.warnings.is_empty());
    assert_eq!(config.server.listen, "127.0.0.1:8787".parse().unwrap());
    assert!(config.server.data_dir.ends_with("data/respondent"));
    config.set_sandbox_address("127.0.0.1:4321".parse().unwrap());
    let route = config.registry.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:4321/v1");
}

#[test]
fn a_usual_key_variable_turns_its_provider_on() {
    let config = Desk::new("").set("OPENAI_API_KEY", "sk-1").config();
    assert!(!config.sandbox);
    let on = on(&config).join(" ");
    assert!(builtin::ids().any(|id| id == on), "{on}");
    assert_eq!(config.keys[&on][0].expose(), "sk-1");
    let origin = KeyOrigin::Environment(vec!["OPENAI_API_KEY".into()]);
    assert_eq!(config.key_origins[&on], origin);
}

#[test]
fn a_variable_of_two_providers_turns_one_on() {
    let key = |config: &str| Desk::new(config).set("DASHSCOPE_API_KEY", "k");
    assert_eq!(on(&key("").config()), ["qwen"]);
    assert_eq!(on(&key("[providers.qwen-cn]").config()), ["qwen-cn"]);
    let both = key("[providers.qwen-cn]\n[providers.qwen]").config();
    assert_eq!(on(&both), ["qwen-cn", "qwen"]);
    let off = key("[providers.qwen]\nenabled = false").config();
    assert_eq!(on(&off), ["sandbox"]);
    // The same variable for a server of one's own says nothing about the site.
    let own =
        "[providers.mine]\nbase_url = \"https://x.example\"\napi_key_env = \"DASHSCOPE_API_KEY\"";
    assert_eq!(on(&key(own).config()), ["mine", "qwen"]);
}

#[test]
fn an_address_of_the_users_own_must_be_given() {
    let form = "write base_url = \"https://{resource}.openai.azure.com/openai/v1\"";
    let desk = Desk::new("").set("AZURE_OPENAI_API_KEY", "k");
    let config = desk.config();
    assert_eq!(on(&config), ["sandbox"]);
    assert!(config.warnings[0].contains(form), "{:?}", config.warnings);
    let said = refusal("[providers.azure-openai]\napi_key = \"k\"");
    assert!(said.contains(form), "{said}");
    let given = "[providers.azure-openai]\nbase_url = \"https://r.openai.azure.com/openai/v1\"";
    let config = Desk::new(given).set("AZURE_OPENAI_API_KEY", "k").config();
    assert_eq!(on(&config), ["azure-openai"]);
    let key_header = config.registry.providers[0].key_header.as_deref();
    assert_eq!(key_header, Some("api-key"));
}

#[test]
fn providers_keep_the_order_of_the_file_then_the_folder_then_the_environment() {
    let desk = Desk::new(
        "[providers.zeta]\nbase_url = \"https://z.example/v1\"\n[providers.llamacpp]\n[providers.sandbox]",
    )
    .set("OPENAI_API_KEY", "sk-1");
    desk.write(
        "here/providers/b.toml",
        "base_url = \"https://b.example/v1\"",
    );
    desk.write(
        "here/providers/a.toml",
        "base_url = \"https://a.example/v1\"",
    );
    desk.write("here/providers/readme.txt", "not a provider");
    let config = desk.config();
    assert_eq!(on(&config).join(" "), "zeta llamacpp sandbox a b openai");
    assert!(config.sandbox);
    assert_eq!(config.source_files.len(), 3);
}

#[test]
fn a_provider_can_be_turned_off() {
    let desk = Desk::new("[providers.openai]\nenabled = false").set("OPENAI_API_KEY", "sk-1");
    assert_eq!(on(&desk.config()), [registry::SANDBOX]);
    assert!(refusal("[providers.sandbox]\nenabled = false").contains("no provider is on"));
}

#[test]
fn a_builtin_needs_only_its_key() {
    let config = Desk::new("[providers.openai]\napi_key = [\"k1\", \"k2\"]").config();
    let keys: Vec<&str> = config.keys.values().flatten().map(Secret::expose).collect();
    assert_eq!(keys, ["k1", "k2"]);
    assert_eq!(
        refusal("\n[providers.openai]"),
        "proxy-config.toml:2: provider `openai`: it needs a key: set OPENAI_API_KEY, or give \
         api_key_env, api_key_file, api_key_command or api_key"
    );
}

#[test]
fn flags_beat_the_environment_and_that_beats_the_file() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\nlog = \"warn\"\ndata_dir = \"~/d\"";
    let mut desk = Desk::new(file);
    let config = desk.config();
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.server.data_dir, desk.folder.path().join("d"));
    for (name, value) in [
        ("LISTEN", "127.0.0.1:2"),
        ("LOG", "debug"),
        ("DATA_DIR", "/env"),
    ] {
        desk = desk.set(&format!("RESPONDENT_{name}"), value);
    }
    let server = desk.config().server;
    assert_eq!((server.listen.port(), server.log.as_str()), (2, "debug"));
    assert_eq!(server.data_dir, Path::new("/env"));
    desk.flags.listen = Some("127.0.0.1:3".into());
    desk.flags.log = Some("trace".into());
    desk.flags.data_dir = Some("/flag".into());
    let server = desk.config().server;
    assert_eq!((server.listen.port(), server.log.as_str()), (3, "trace"));
    assert_eq!(server.data_dir, Path::new("/flag"));
}

#[test]
fn the_file_is_looked_for_in_order() {
    let listen = |port: u16| format!("[server]\nlisten = \"127.0.0.1:{port}\"");
    let port = |desk: &Desk| desk.config().server.listen.port();
    let mut desk = Desk::new("");
    desk.write("config/respondent/proxy-config.toml", &listen(1));
    assert_eq!(port(&desk), 1);
    desk.write("here/proxy-config.toml", &listen(2));
    assert_eq!(port(&desk), 2);
    let path = desk.write("env.toml", &listen(3));
    desk = desk.set("RESPONDENT_CONFIG", path.to_str().unwrap());
    assert_eq!(port(&desk), 3);
    desk.flags.config = Some(desk.write("flag.toml", &listen(4)));
    assert_eq!(port(&desk), 4);
    desk.flags.config = Some(desk.folder.path().join("absent.toml"));
    assert!(desk.refusal().contains("absent.toml"));
}

#[test]
fn the_users_folder_of_providers_counts_without_a_file() {
    let desk = Desk::new("");
    desk.write(
        "config/respondent/providers/lab.toml",
        "base_url = \"https://lab.example/v1\"",
    );
    assert_eq!(on(&desk.config()), ["lab"]);
}

#[test]
fn unknown_keys_name_line_and_nearest_key() {
    for (config, wanted) in [
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
            "proxy-config.toml:2: unknown key `prompt`; known are instructions_file",
        ),
    ] {
        assert_eq!(refusal(config), wanted);
    }
}

#[test]
fn wrong_types_name_line_key_and_what_is_wanted() {
    for (config, wanted) in [
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
            "proxy-config.toml:2: `wire`: expected `chat`",
        ),
        (
            "[providers]\nopenai = \"sk-canary\"",
            "proxy-config.toml:2: `openai`: expected a table, found string",
        ),
    ] {
        assert_eq!(refusal(config), wanted);
    }
    assert!(refusal("[server\n").starts_with("proxy-config.toml:1: "));
}

#[test]
fn a_broken_file_is_refused_without_its_values() {
    for config in [
        "[providers.lab]\napi_key = sk-canary",
        "[providers.lab]\napi_key = \"sk-canary",
        "[providers.lab]\napi_key = \"sk-canary\"\napi_key = \"sk-canary\"",
        "[providers.lab]\napi_key = { key = \"sk-canary\" }",
        "[providers.lab]\nmodels = [\"sk-canary\"]",
        "[providers.lab.timeouts]\nidle = \"sk-canary\"",
    ] {
        let why = refusal(config);
        assert!(why.starts_with("proxy-config.toml:"), "{why}");
        assert!(!why.contains("canary"), "{why}");
    }
}

#[test]
fn errors_in_the_folder_name_their_file() {
    let desk = Desk::new("");
    desk.write(
        "config/respondent/providers/lab.toml",
        "base_url = \"https://x/v1\"\nmodel = 1",
    );
    let error = desk.load().unwrap_err();
    assert!(error.file.unwrap().ends_with("providers/lab.toml"));
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
        let why = refusal(&lab(&format!("base_url = \"{url}\"")));
        assert!(
            why.starts_with("proxy-config.toml:2: provider `lab`: base_url"),
            "{why}"
        );
        assert!(!why.contains("canary"), "{why}");
    }
    let allowed = lab("base_url = \"http://10.0.0.7/v1\"\nallow_http = true");
    assert_eq!(on(&Desk::new(&allowed).config()), ["lab"]);
    assert!(refusal(&lab("")).contains("needs base_url"));
}

#[test]
fn an_open_address_needs_a_token() {
    let open = "[server]\nlisten = \"0.0.0.0:8787\"\n";
    let why = refusal(open);
    assert!(
        why.starts_with("proxy-config.toml:2: ") && why.contains("token_env"),
        "{why}"
    );
    let with = format!("{open}token_env = \"T\"");
    assert!(refusal(&with).contains("the environment has no T"));
    let config = Desk::new(&with).set("T", "token-1").config();
    assert!(config.server.token.unwrap().matches(b"token-1"));
    let mut flag = Desk::new("");
    flag.flags.listen = Some("[::]:80".into());
    assert!(flag.refusal().contains("lets other machines in"));
    flag.flags.listen = Some("8787".into());
    assert!(flag.refusal().contains("--listen"));
}

#[test]
fn a_token_file_lies_beside_the_configuration() {
    let desk = Desk::new("[server]\ntoken_file = \"token\"");
    assert!(desk.refusal().contains("token"));
    desk.write("here/token", "token-2\n");
    assert!(desk.config().server.token.unwrap().matches(b"token-2"));
}

#[test]
fn names_are_checked_where_they_stand() {
    let lab = "[providers.lab]\nbase_url = \"https://x/v1\"\npassthrough = false\n\
               models = [{ id = \"big\" }]\n[routing]\n";
    let why = refusal(&format!("{lab}default_model = \"bug\""));
    assert!(
        why.starts_with("proxy-config.toml:6: ") && why.contains("Near: big"),
        "{why}"
    );
    let why = refusal(&format!("{lab}aliases = {{ a = \"b\", b = \"big\" }}"));
    assert!(
        why.starts_with("proxy-config.toml:6: ") && why.contains("one level"),
        "{why}"
    );
    let why = refusal(&format!(
        "{lab}fallbacks = {{ \"lab/big\" = [\"big\", \"bug\"] }}"
    ));
    assert!(
        why.starts_with("proxy-config.toml:6: ") && why.contains("'bug' leads nowhere. The model"),
        "{why}"
    );
    let config = Desk::new(&format!(
        "{lab}default_model = \"a\"\naliases = {{ a = \"big\" }}"
    ));
    assert!(config.config().registry.resolve("gpt-x", true).is_ok());
}

#[test]
fn nonsense_is_refused() {
    for config in [
        "[server]\nmax_connections = 0",
        "[server]\nheartbeat = \"0s\"",
        "[server]\nlog = \"re=s=p\"",
        "[codex]\ninstructions_file = \"absent.md\"",
        "[providers.\"a/b\"]\nbase_url = \"https://x/v1\"",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nproxy = \"nowhere\"",
        "[providers.vllm]\nkey_header = \"a b\"",
        "[providers.vllm]\nmax_concurrent = 0",
        "[providers.vllm]\nkey_weights = [1]",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nca_file = \"absent.pem\"",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nheaders = { \"a b\" = \"c\" }",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nmodels = [{ id = \"a\" }, { id = \"a\" }]",
        "[providers.lab]\nbase_url = \"https://x/v1\"\nmodels = [{ id = \"a\", default_reasoning = \"high\" }]",
    ] {
        assert!(Desk::new(config).load().is_err(), "{config}");
    }
    let desk = Desk::new("[providers.lab]\nbase_url = \"https://x/v1\"");
    desk.write("here/providers/lab.toml", "base_url = \"https://x/v1\"");
    assert!(desk.refusal().contains("twice"));
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new("[providers.openai]\napi_key = \"sk-1\"");
    let path = desk.folder.path().join("here/proxy-config.toml");
    let with = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        desk.config().warnings
    };
    assert!(with(0o600).is_empty());
    for mode in [0o640, 0o604] {
        assert!(with(mode)[0].contains("chmod 600"), "{mode:o}");
    }
}

#[test]
fn the_instructions_of_a_file_are_read() {
    let desk = Desk::new("[codex]\ninstructions_file = \"prompt.md\"");
    desk.write("here/prompt.md", "Be brief.");
    let before = desk.config();
    assert_eq!(before.codex.instructions.as_deref(), Some("Be brief."));
    desk.write("here/prompt.md", "Be bold.");
    assert_ne!(before.digest, desk.config().digest);
}

#[test]
fn no_secret_is_in_what_is_printed() {
    let desk = Desk::new(
        "[server]\ntoken_env = \"T\"\n[providers.openai]\n[providers.lab]\n\
         base_url = \"https://x/v1\"\napi_key = \"lab-canary-1\"\n\
         proxy = \"http://me:proxy-canary-2@127.0.0.1:1\"\n\
         headers = { Authorization = \"Basic header-canary-3\" }\nquery = { key = \"query-canary-44\" }",
    )
    .set("T", "token-canary-5")
    .set("OPENAI_API_KEY", "sk-canary-6");
    let config = desk.config();
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
fn the_report_tells_what_would_run() {
    let desk = Desk::new(
        "[routing.aliases]\nbest = \"gpt-5\"\n\
         [routing.fallbacks]\nbest = [\"vllm/a\", \"vllm/b\"]\n\"*\" = \"vllm/c\"\n\
         [providers.vllm]\napi_key = [\"k1\", \"k2\"]\nkey_weights = [3, 1]\nmax_concurrent = 4",
    )
    .set("OPENAI_API_KEY", "sk-1");
    let report = crate::config::report::report(&desk.config());
    for line in [
        "listen     http://127.0.0.1:8787",
        "proxy-config.toml",
        "  address  http://127.0.0.1:8000/v1",
        "  key      environment OPENAI_API_KEY",
        "  model    gpt-5 (272000 tokens)",
        "  model    vllm/... (any other name)",
        "  keys     2 from configuration file",
        "  weights  3, 1",
        "  limit    4 at once",
        "alias      best = gpt-5",
        "fallback   best -> vllm/a, vllm/b",
        "fallback   any model -> vllm/c",
    ] {
        assert!(report.contains(line), "{line} is not in\n{report}");
    }
}
