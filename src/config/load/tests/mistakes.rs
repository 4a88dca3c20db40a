//! What is forgiven, and what is told of the mistakes that are not.
use super::*;
use crate::secrets::TokenHash;

#[test]
fn a_listen_address_may_be_a_port_alone() {
    for (listen, expected) in [
        ("\"localhost:1\"", "127.0.0.1:1"),
        ("\"2\"", "127.0.0.1:2"),
        ("\":3\"", "127.0.0.1:3"),
        ("4", "127.0.0.1:4"),
    ] {
        let config = TestInputs::new(&format!("[server]\nlisten = {listen}")).config();
        assert_eq!(config.server.listen.to_string(), expected, "{listen}");
    }
    for bad in ["\"localhost\"", "\"http://localhost:1\"", "123456"] {
        assert_eq!(
            error(&format!("[server]\nlisten = {bad}")),
            "proxy-config.toml:2: `listen`: expected ADDRESS:PORT such as 127.0.0.1:9797",
            "{bad}"
        );
    }
}

#[test]
fn an_endpoint_at_the_end_of_a_base_url_is_cut() {
    for end in ["/chat/completions", "/responses", "/responses/"] {
        let table = format!("[providers.lab]\nbase_url = \"https://x.example/v1{end}\"");
        let config = TestInputs::new(&table).config();
        let provider = config.registry.provider("lab").unwrap();
        assert_eq!(provider.base_url, "https://x.example/v1");
        let warning = &config.warnings[0];
        let end = end.trim_end_matches('/');
        assert!(
            warning.starts_with(&format!("provider `lab`: base_url ends in {end}, ")),
            "{warning}"
        );
    }
}

#[test]
fn misspelt_providers_are_told_with_the_nearest_name() {
    assert_eq!(
        error("[providers.opanai]"),
        "proxy-config.toml:1: provider `opanai`: it is not built in and needs base_url; did you \
         mean `openai`?"
    );
    let mine = "[providers.mine]\nbase_url = \"https://x/v1\"\n";
    let config = TestInputs::new(&format!("{mine}[routing.aliases]\nfast = \"minee/foo\""));
    assert_eq!(
        config.config().warnings,
        [
            "`minee/foo` is passed on as the name of a model, because there is no provider \
             `minee`; did you mean `mine`?"
        ]
    );
    let closed = format!("{mine}passthrough = false\n[routing]\n");
    for (line, begin) in [
        ("aliases = { fast = \"minee/foo\" }", "alias `fast`: "),
        ("default_model = \"minee/foo\"", "default_model: "),
        (
            "fallbacks = { \"*\" = \"minee/foo\" }",
            "fallbacks of `*`: ",
        ),
    ] {
        assert_eq!(
            error(&format!("{closed}{line}")),
            format!(
                "proxy-config.toml:5: {begin}there is no provider `minee`; did you mean `mine`?"
            )
        );
    }
}

#[test]
fn hosts_and_origins_are_normalised_or_refused() {
    let server = |line: &str| TestInputs::new(&format!("[server]\n{line}"));
    let config = server(
        "allowed_hosts = [\"http://Foo.lan/\"]\nallowed_origins = [\"http://localhost:3000/\"]",
    );
    let config = config.config();
    assert_eq!(config.server.allowed_hosts, ["foo.lan"]);
    assert_eq!(config.server.allowed_origins, ["http://localhost:3000"]);
    for (line, expected) in [
        ("allowed_hosts = [\"*\"]", "only if clients need a token"),
        (
            "allowed_hosts = [\"*.lan\"]",
            "\"*.lan\" is not a host name",
        ),
        ("allowed_origins = [\"*\"]", "write each origin"),
        (
            "allowed_origins = [\"localhost:3000\"]",
            "its scheme is missing",
        ),
    ] {
        let why = server(line).error();
        assert!(
            why.starts_with("proxy-config.toml:2: ") && why.contains(expected),
            "{why}"
        );
    }
    let any = server("allowed_hosts = [\"*\"]").set("RESPONDENT_TOKEN", "t");
    assert_eq!(any.config().server.allowed_hosts, ["*"]);
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let inputs = TestInputs::new(
        "[server]\nlisen = 1\nbody_limit = \"much\"\n[sever]\nx = 1\n[capture]\npatterns = [\"(\"]\n\
         [providers.a]\n[providers.b]\nbase_url = \"https://x/v1\"\nmax_concurrent = 0\n\
         key_header = \"a b\"\n[providers.c]\nbase_url = 5\n",
    );
    inputs.write("here/providers/d.toml", "base_url = 5\nmodel = 1");
    let errors = inputs.load().unwrap_err();
    let lines: Vec<_> = errors
        .all()
        .iter()
        .map(|error| error.line.unwrap())
        .collect();
    assert_eq!(lines, [2, 3, 4, 7, 8, 11, 12, 14, 1, 2], "{errors}");
    let text = inputs.error();
    assert!(
        text.starts_with(
            "proxy-config.toml:2: unknown key `lisen`; did you mean `listen`?\n\
             proxy-config.toml:3: `body_limit`: expected a whole number, found string\n"
        ),
        "{text}"
    );
}

#[test]
fn the_number_of_mistakes_that_are_told_is_limited() {
    let tables: Vec<String> = (0..100)
        .map(|n| format!("[providers.p{n}]\nx = 1"))
        .collect();
    let inputs = TestInputs::new(&tables.join("\n"));
    assert_eq!(inputs.load().unwrap_err().all().len(), MAX_ERRORS);
}

/// Promise: A model of `[codex.agents]` that no provider has is a mistake that names one that is
/// near; one whose provider is off is left out with a warning.
#[test]
fn the_models_of_sub_agents_are_checked() {
    let lab = "[providers.lab]\nbase_url = \"https://x/v1\"\nkey_required = false\n\
        passthrough = false\nmodels = [{ id = \"small\" }]\n\
        [providers.mine]\nbase_url = \"https://x/v1\"\napi_key_env = \"UNSET\"\n[codex.agents]\n";
    for (line, why) in [
        (
            "explorer = \"smal\"",
            "proxy-config.toml:10: `explorer` of [codex.agents]: there is no model `smal`; did you \
             mean `small`?",
        ),
        (
            "default = \"lba/small\"",
            "`default` of [codex.agents]: there is no model `lba/small`; did you mean `lab/small`?",
        ),
        ("\"a/b\" = \"small\"", "`a/b` cannot be the name of a role"),
        (
            "max_depth = \"small\"",
            "`max_depth` cannot be the name of a role",
        ),
        ("worker = 1", "proxy-config.toml:10: "),
    ] {
        let error = TestInputs::new(&format!("{lab}{line}")).error();
        assert!(error.contains(why), "{line}: {error}");
    }
    let agents = "default = \"small\"\nexplorer = \"mine/x\"\nworker = \"lab/small\"";
    let config = TestInputs::new(&format!("{lab}{agents}")).config();
    let roles: Vec<_> = config.codex.roles().collect();
    assert_eq!(roles, [("worker", "lab/small")]);
    assert_eq!(config.codex.default_agent(), Some("small"));
    let warning = config.warnings.last().unwrap();
    assert_eq!(
        warning,
        "`explorer` of [codex.agents]: the provider `mine` of `mine/x` is off, so it is left out"
    );
}

#[test]
fn a_provider_without_its_key_is_off_and_the_others_are_on() {
    for (key, why) in [
        ("api_key_env = \"UNSET\"", "the environment has no UNSET"),
        (
            "api_key_file = \"/nonexistent\"",
            "api_key_file: /nonexistent: ",
        ),
        (
            "api_key_command = \"exit 3\"",
            "api_key_command ended with ",
        ),
        (
            "api_key_command = \"true\"",
            "api_key_command printed no key",
        ),
        ("key_required = true", "it needs a key: give api_key_env, "),
    ] {
        let inputs = TestInputs::new(&format!(
            "[providers.mine]\nbase_url = \"https://x/v1\"\n{key}\n[providers.vllm]\n\
             [routing]\ndefault_model = \"mine/a\"\naliases = {{ fast = \"mine/a\", own = \"vllm/a\" }}\n\
             fallbacks = {{ \"*\" = [\"mine/b\", \"vllm/b\"] }}"
        ));
        let config = inputs.config();
        assert_eq!(enabled(&config), ["vllm"], "{key}");
        let [off, alias, default, fallback] = config.warnings.as_slice() else {
            panic!("{:?}", config.warnings);
        };
        let begin = format!("provider `mine` is off: {why}");
        assert!(off.starts_with(&begin), "{off}");
        let target = "the provider `mine` of `mine/a` is off, so it is left out";
        assert_eq!(*alias, format!("alias `fast`: {target}"));
        assert_eq!(*default, format!("default_model: {target}"));
        assert!(fallback.starts_with("fallbacks of `*`: "), "{fallback}");
        assert_eq!(config.registry.aliases.len(), 1);
        assert_eq!(config.registry.fallbacks[0].1, ["vllm/b"]);
    }
    assert_eq!(
        error("[providers.mine]\nbase_url = \"https://x/v1\"\napi_key = \"\""),
        "proxy-config.toml:3: provider `mine`: api_key is empty"
    );
}

#[test]
fn a_usual_key_goes_to_the_usual_address_unless_the_file_says_otherwise() {
    let with = |more: &str| {
        let table = format!("[providers.openai]\nbase_url = \"https://gate.example/v1\"\n{more}");
        TestInputs::new(&table)
            .set("OPENAI_API_KEY", "sk-1")
            .config()
    };
    let config = with("");
    assert_eq!(enabled(&config), [registry::SANDBOX]);
    assert!(config.keys.is_empty());
    let warning = &config.warnings[0];
    assert!(
        warning.contains(
            "not sent to another base_url unless you write api_key_env = \"OPENAI_API_KEY\""
        ),
        "{warning}"
    );
    assert!(with("key_required = false").keys.is_empty());
    let config = with("api_key_env = \"OPENAI_API_KEY\"");
    assert_eq!(config.keys["openai"][0].expose(), "sk-1");
    let same = "[providers.openai]\nbase_url = \"https://api.openai.com/v1/\"";
    let same = TestInputs::new(same).set("OPENAI_API_KEY", "sk-1").config();
    assert_eq!(same.keys["openai"][0].expose(), "sk-1");
}

#[test]
fn a_fallback_of_a_model_that_nobody_lists_is_told() {
    let lab = "[providers.lab]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let fallbacks = "[routing.fallbacks]\n\"big-1l\" = \"big-2\"\nbig-1 = \"big-2\"\n";
    let models =
        "[[providers.lab.models]]\nid = \"big-1\"\n[[providers.lab.models]]\nid = \"big-2\"\n";
    for (models, warnings) in [
        (
            models,
            &[
                "fallbacks of `big-1l`: the provider `lab` does not list this model; did you mean `big-1`?",
            ][..],
        ),
        ("", &[]),
    ] {
        let config = TestInputs::new(&format!("{lab}{models}{fallbacks}"));
        assert_eq!(config.config().warnings, warnings);
    }
}

#[test]
fn the_hash_of_nothing_is_no_token() {
    let client = |hash: &str| format!("[clients.alice]\ntoken_sha256 = \"{hash}\"\n");
    for (text, hash) in [
        // printf '' | sha256sum
        (
            "",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        // echo "" | sha256sum
        (
            "\n",
            "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b",
        ),
        ("undefined", &TokenHash::of(b"undefined").to_string()),
        (
            "null\n",
            &TokenHash::of(b"null\n").to_string().to_uppercase(),
        ),
    ] {
        let why = error(&client(hash));
        let expected = format!("token_sha256 is the hash of {text:?}, which is no token");
        assert!(
            why.contains(&expected) && why.contains("was empty"),
            "{why}"
        );
    }
    let real = TokenHash::of(b"alice-token-1").to_string();
    assert!(TestInputs::new(&client(&real)).load().is_ok());
}

#[test]
fn a_token_that_no_client_can_send_is_a_mistake() {
    for token in ["two words", "é", &"t".repeat(257)] {
        let inputs = TestInputs::new("").set("RESPONDENT_TOKEN", token);
        let why = inputs.load().unwrap_err().to_string();
        assert!(why.contains("ASCII characters without spaces"), "{why}");
    }
}

#[test]
fn mistakes_of_mcp_servers_name_the_server() {
    for label in ["a.b", "a b", "", &"a".repeat(65)] {
        let told = error(&format!("[tools.mcp.servers.\"{label}\"]\ncommand = \"x\""));
        let expected = "a label has 1 to 64 letters, digits, '_' and '-'";
        assert!(told.ends_with(expected), "{label}: {told}");
    }
    for (lines, expected) in [
        ("", "MCP server `a`: it needs `url` or `command`"),
        (
            "url = \"https://x/mcp\"\ncommand = \"x\"",
            "MCP server `a`: it has both `url` and `command`",
        ),
        (
            "url = \"http://x/mcp\"",
            "MCP server `a`: `url` is http to another host; use https or set allow_http = true",
        ),
        (
            "url = \"https://u:p@x/mcp\"",
            "MCP server `a`: `url` contains a user or password; name the variable of a token with token_env",
        ),
        (
            "url = \"https://x/mcp\"\nargs = [\"a\"]",
            "MCP server `a`: `args` and `env` are those of a `command`",
        ),
        (
            "command = \"x\"\ntoken_env = \"T\"",
            "MCP server `a`: a `command` gets its secrets in `env`",
        ),
        (
            "command = \"x\"\ntimeout = \"0s\"",
            "MCP server `a`: `timeout` must be above zero",
        ),
        // A request may say that no call needs an approval. A configuration leaves that to it.
        (
            "command = \"x\"\nrequire_approval = \"never\"",
            "`require_approval`: expected `always` or `request`",
        ),
    ] {
        let told = error(&format!("[tools.mcp.servers.a]\n{lines}"));
        assert!(told.ends_with(expected), "{lines}: {told}");
    }
    let longest = "a".repeat(64);
    let config = TestInputs::new(&format!(
        "[tools.mcp.servers.{longest}]\ncommand = \"x\"\nrequire_approval = \"request\""
    ));
    assert!(!config.config().mcp.servers[&longest].always_asks);
    let host = error("[tools.mcp]\nallowed_hosts = [\"https://x\"]");
    assert!(host.contains("`https://x` is not a host"), "{host}");
    let off = "[tools.mcp.servers.a]\nurl = \"https://x/mcp\"\ntoken_env = \"UNSET\"";
    let config = TestInputs::new(off).config();
    assert_eq!(config.warnings, ["MCP server `a` is off: UNSET is not set"]);
    assert!(config.mcp.servers.is_empty());
}
