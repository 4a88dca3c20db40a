//! Configuration files, variables, flags and reloading, tested with the real program.
use kit::player::PlayerWire;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::faults::{answer, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, write};

/// A base URL at which nothing listens.
const UNUSED_URL: &str = "http://127.0.0.1:9/v1";

#[kit::test]
async fn an_invalid_configuration_ends_with_64_before_the_port_is_bound() {
    // The port is in use: if the program bound it before reading the file, it would end with 1.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let base = Setup::new().arg("--listen").arg(&listen);
    for (name, setup, expected) in [
        ("invalid TOML", base.clone().server("]["), "proxy-config.toml:3: "),
        (
            "an unknown key",
            base.clone().server("heartbeet = \"1s\""),
            "heartbeat",
        ),
        (
            "an unknown table",
            base.clone().tables("[rooting]"),
            "routing",
        ),
        (
            "a wrong type",
            base.clone().server("body_limit = \"large\""),
            "proxy-config.toml:3: ",
        ),
        (
            "an invalid duration",
            base.clone().server("grace = \"soon\""),
            "proxy-config.toml:3: ",
        ),
        (
            "an unknown wire",
            base.clone().tables("[providers.x]\nwire = \"telex\"\nbase_url = \"http://127.0.0.1:1\""),
            "chat",
        ),
        (
            "a provider without an address",
            base.clone().tables("[providers.x]\nkey_required = false"),
            "base_url",
        ),
        (
            "an alias to an unknown provider",
            base.clone().tables("[routing.aliases]\na = \"nobody/x\"\n[providers.y]\nbase_url = \"http://127.0.0.1:1\"\nkey_required = false"),
            "alias `a`: there is no provider `nobody`",
        ),
        (
            "a bad file in providers/",
            base.clone().file("providers/x.toml", "base_url = 7"),
            "x.toml:1: ",
        ),
        (
            "an open address without a token",
            Setup::new().arg("--listen=0.0.0.0:0"),
            "token",
        ),
        (
            "a missing file",
            base.clone().arg("--config=absent.toml"),
            "absent.toml",
        ),
        ("an unknown flag", base.clone().arg("--lisen=1"), "--listen"),
    ] {
        let folder = setup.folder(UNUSED_URL);
        let (code, out, err) = setup.run(folder.path()).await;
        assert_eq!(code, 2, "{name}: {out}{err}");
        assert!(err.contains(expected), "{name}: {err}");
        assert_eq!(out, "", "{name}");
    }
}

/// Promise: A second server on the same port or data directory exits at once and reports why.
#[kit::test]
async fn a_second_server_on_the_port_reports_the_conflict() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let first = Proxy::start(&player).await;
    let address = first.address.to_string();
    let setup = Setup::new().arg("--listen").arg(&address);
    let folder = setup.folder(&player.base_url());
    let (code, _, err) = setup.run(folder.path()).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains(&format!("{address} is in use")), "{err}");
    assert_eq!(first.get("/healthz").await.status, 200);
}

/// The status of a turn for this model, and the route that it took.
async fn status_and_route(proxy: &Proxy, model: &str) -> String {
    let body = json!({"model": model, "input": "go"});
    let reply = proxy.post(&body).await;
    let route = reply.header("x-respondent-route").unwrap_or_default();
    format!("{} {route}", reply.status)
}

#[kit::test]
async fn a_valid_edit_is_applied() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    assert_eq!(status_and_route(&proxy, "quick").await, "200 up/quick");
    let new = Setup::new().tables("[routing.aliases]\nquick = \"up/small\"");
    let text = new.config(&player.base_url());
    write(proxy.folder.path(), "proxy-config.toml", &text);
    proxy
        .wait_for_log("configuration reloaded: aliases changed")
        .await;
    assert_eq!(status_and_route(&proxy, "quick").await, "200 up/small");
}

#[kit::test]
async fn an_invalid_edit_is_reported_and_the_old_configuration_stays() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let setup = Setup::new().tables("[routing.aliases]\nquick = \"up/small\"");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let good = setup.config(&player.base_url());
    let bad = format!("{good}\n[server2]\n");
    write(proxy.folder.path(), "proxy-config.toml", &bad);
    proxy.wait_for_log("configuration not changed").await;
    proxy.wait_for_log("proxy-config.toml:").await;
    assert_eq!(status_and_route(&proxy, "quick").await, "200 up/small");
    // The next valid edit is applied.
    let repaired = good.replace("up/small", "up/large");
    write(proxy.folder.path(), "proxy-config.toml", &repaired);
    proxy.wait_for_log("configuration reloaded: ").await;
    assert_eq!(status_and_route(&proxy, "quick").await, "200 up/large");
}

#[kit::test]
async fn a_refused_host_and_origin_are_logged_once() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start(&player).await;
    let origin = [("origin", "http://evil.example")];
    for _ in 0..3 {
        let reply = proxy.get_with("/v1/models", &origin).await;
        assert_eq!(reply.error(403)["code"], "origin_not_allowed");
    }
    let named = "This server does not answer to the host name \"box.lan:1\". Add \"box.lan\" to \
         allowed_hosts under [server] in ./proxy-config.toml.";
    for port in [1, 1, 2] {
        let mut stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let head =
            format!("GET /v1/models HTTP/1.1\r\nHost: box.lan:{port}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
        if port == 1 {
            assert!(reply.contains(&named.replace('"', "\\\"")), "{reply}");
        }
    }
    let log = proxy.wait_for_log(named).await;
    let origin = "refused: Web pages of the origin \"http://evil.example\" may not call";
    assert_eq!(log.matches(origin).count(), 1, "{log}");
    assert_eq!(
        log.matches("refused: This server does not").count(),
        1,
        "{log}"
    );
}

#[kit::test]
async fn default_model_is_for_codex_only() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let setup = Setup::new()
        .provider("passthrough = false\n[[providers.up.models]]\nid = \"large\"")
        .tables("[routing]\ndefault_model = \"large\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let body = json!({"model": "helper-mini", "input": "go"});
    let plain = proxy.post(&body).await;
    let codex = proxy.post_with(&body, CODEX).await;
    assert_eq!(codex.status, 200, "{codex:?}");
    assert_eq!(codex.header("x-respondent-route"), Some("up/large"));
    assert!(
        codex
            .header("x-respondent-notes")
            .unwrap()
            .contains("default_model")
    );
    assert_eq!(plain.error(404)["code"], "model_not_found");
    assert_eq!(plain.error(404)["param"], "model");
    assert_eq!(player.requests().len(), 1);
}

/// Promise: A helper of Codex that asks for a model that no provider has gets the model of the
/// session that it works for, with a note; any other unknown name is refused with the most similar
/// ones.
#[kit::test]
async fn a_helper_of_codex_gets_the_model_of_its_session() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let models = "passthrough = false\n[[providers.up.models]]\nid = \"large\"\n\
        [[providers.up.models]]\nid = \"small\"";
    let setup = Setup::new().provider(models);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let route = async |proxy: &Proxy, model: &str, headers: &[(&str, &str)]| {
        let headers = [CODEX, headers].concat();
        let reply = proxy
            .post_with(&json!({"model": model, "input": "go"}), &headers)
            .await;
        let named = |name| reply.header(name).unwrap_or_default().to_owned();
        let is_noted = named("x-respondent-notes").contains("default_model");
        (reply.status, named("x-respondent-route"), is_noted)
    };
    let answered = |route: &str, is_noted| (200, route.to_owned(), is_noted);
    let unknown = "gpt-6.1-terra";
    // Memories are made before the first turn.
    let memories = [
        ("x-openai-subagent", "memory_consolidation"),
        ("thread-id", "m"),
    ];
    assert_eq!(
        route(&proxy, unknown, &memories).await,
        answered("up/large", true)
    );
    assert_eq!(
        route(&proxy, "small", &[("thread-id", "t0")]).await,
        answered("up/small", false)
    );
    assert_eq!(
        route(&proxy, "large", &[("thread-id", "t1")]).await,
        answered("up/large", false)
    );
    for parent in [
        ("x-codex-parent-thread-id", "t0"),
        ("x-codex-turn-metadata", r#"{"parent_thread_id":"t0"}"#),
        (
            "x-codex-turn-metadata",
            r#"{"session_id":"t0","thread_source":"thread_title"}"#,
        ),
    ] {
        let helper = [("thread-id", "h"), parent];
        assert_eq!(
            route(&proxy, unknown, &helper).await,
            answered("up/small", true),
            "{parent:?}"
        );
    }
    // It has its own model if that is served.
    let helper = [("x-openai-subagent", "review"), ("session-id", "t0")];
    assert_eq!(
        route(&proxy, "large", &helper).await,
        answered("up/large", false)
    );
    // The user's own turn asks for what there is.
    let asked = proxy
        .post_with(&json!({"model": "smal", "input": "go"}), CODEX)
        .await;
    assert_eq!(asked.error(404)["code"], "model_not_found");
    assert!(asked.body.contains("Did you mean small"), "{asked:?}");

    let setup = setup.tables("[routing]\ndefault_model = \"small\"");
    let proxy = Proxy::start_with(&player, setup).await;
    assert_eq!(
        route(&proxy, "large", &[("thread-id", "t1")]).await,
        answered("up/large", false)
    );
    assert_eq!(
        route(&proxy, unknown, &memories).await,
        answered("up/small", true)
    );
}

/// Promise: The title of a thread is made with the least effort that the model has.
#[kit::test]
async fn the_title_of_a_thread_takes_the_least_effort() {
    let models = "quirks = { reasoning_control = \"effort\" }\n[[providers.up.models]]\nid = \"deep\"\n\
        reasoning = [\"low\", \"high\"]\n[[providers.up.models]]\nid = \"plain\"";
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider(models)).await;
    let title = r#"{"thread_source":"thread_title"}"#;
    let user = r#"{"thread_source":"user"}"#;
    for (model, metadata, asked, sent) in [
        ("deep", title, Some("high"), json!("low")),
        ("deep", title, None, json!("low")),
        ("deep", user, Some("high"), json!("high")),
        ("deep", user, None, json!(null)),
        ("plain", title, Some("high"), json!(null)),
    ] {
        let body = json!({"model": model, "input": "go", "reasoning": {"effort": asked}});
        let headers = [CODEX, &[("x-codex-turn-metadata", metadata)]].concat();
        let reply = proxy.post_with(&body, &headers).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let requests = player.requests();
        assert_eq!(
            requests.last().unwrap().json()["reasoning_effort"],
            sent,
            "{body}"
        );
    }
}

#[kit::test]
async fn the_directory_providers_is_read() {
    let (up, other) = (
        repeating_player(PlayerWire::Chat, answer(json!([{"text": "up"}]))).await,
        repeating_player(PlayerWire::Chat, answer(json!([{"text": "other"}]))).await,
    );
    let file = format!("base_url = \"{}\"\nkey_required = false", other.base_url());
    let setup = Setup::new().file("providers/other.toml", &file);
    let proxy = Proxy::start_with(&up, setup).await;
    assert_eq!(status_and_route(&proxy, "other/m").await, "200 other/m");
    assert_eq!(status_and_route(&proxy, "up/m").await, "200 up/m");
    assert_eq!((up.requests().len(), other.requests().len()), (1, 1));
    // Both providers accept any name, so a name without a provider matches none.
    assert_eq!(status_and_route(&proxy, "m").await, "404 ");
}

/// A provider that is not built in, with quirks, a family and models.
const ACME: &str = r#"
name = "Acme"
key_required = false

[quirks]
max_tokens_field = "max_completion_tokens"
system_role = "developer"
reasoning_control = "effort"
reasoning_replay = "reasoning_content"
parallel_tool_calls = false

[[families]]
match = ["acme-old*"]
quirks = { system_role = "system", reasoning_control = "none" }

[[models]]
id = "acme-2"
window = 100000
max_output = 1000
reasoning = ["low", "high"]
price = { input = 1.0, cached_input = 0.1, output = 4.0 }

[[models]]
id = "acme-old-1"
window = 8000
"#;

#[kit::test]
async fn a_new_provider_is_one_file() {
    let up = repeating_player(PlayerWire::Chat, answer(json!([{"text": "here"}]))).await;
    let acme = repeating_player(
        PlayerWire::Chat,
        answer(json!([
            {"reasoning": "A file."},
            {"call": {"id": "c1", "name": "look", "arguments": "{}"}}
        ])),
    )
    .await;
    let file = format!("base_url = \"{}\"\n{ACME}", acme.base_url());
    let proxy = Proxy::start_with(&up, Setup::new().file("providers/acme.toml", &file)).await;
    let turn = |model: &str| {
        json!({
            "model": model, "instructions": "Be brief.", "input": "go",
            "reasoning": {"effort": "xhigh"}, "max_output_tokens": 5000,
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "parallel_tool_calls": true,
        })
    };
    let response = proxy.response(&turn("acme-2")).await;
    assert_eq!(response["output"][0]["type"], "reasoning");
    assert_eq!(response["output"][1]["name"], "look");
    let sent = acme.requests().last().unwrap().json();
    assert_eq!(sent["messages"][0]["role"], "developer");
    assert_eq!(sent["reasoning_effort"], "high");
    assert_eq!(sent["max_completion_tokens"], 1000);
    proxy.response(&turn("acme-old-1")).await;
    let sent = acme.requests().last().unwrap().json();
    assert_eq!(sent["messages"][0]["role"], "system");
    assert_eq!(sent.get("reasoning_effort"), None);
    proxy
        .wait_for_metric("respondent_turns_total", "", 2.0)
        .await;
    let labels = r#"{provider="acme",model="acme-2"}"#;
    let cost = proxy.metric("respondent_cost_dollars_total", labels).await;
    assert!(cost > 0.0 && cost < 0.01, "{cost}");
}

#[kit::test]
async fn models_are_listed_with_their_prices() {
    let file = format!("base_url = \"{UNUSED_URL}\"\n{ACME}");
    let setup = Setup::new().file("providers/acme.toml", &file);
    let folder = setup.folder(UNUSED_URL);
    let run = |args: &[&str]| {
        let setup = args
            .iter()
            .fold(setup.clone().arg("models"), |setup, arg| setup.arg(arg));
        let folder = folder.path().to_owned();
        async move { setup.run(&folder).await }
    };
    let (code, out, _) = run(&["--provider", "acme"]).await;
    assert_eq!(code, 0);
    assert!(out.starts_with("acme (Acme), on\n"), "{out}");
    assert!(out.contains("100k"), "{out}");
    let (_, out, _) = run(&["--json", "--all"]).await;
    let listed: serde_json::Value = serde_json::from_str(&out).unwrap();
    let providers = listed.as_array().unwrap();
    assert!(providers.len() > 25, "{}", providers.len());
    let acme = providers.iter().find(|one| one["id"] == "acme").unwrap();
    assert_eq!(acme["models"][0]["price"]["output"], 4.0);
    let (code, _, err) = run(&["--provider", "acne"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("did you mean acme?"), "{err}");
}

#[kit::test]
async fn flags_override_variables_which_override_the_file() {
    let base = Setup::new().arg("check");
    let file = base.clone();
    let variable = base.env("RESPONDENT_LISTEN", "127.0.0.1:2");
    let flag = variable.clone().arg("--listen=127.0.0.1:3");
    for (setup, port) in [(file, 0), (variable, 2), (flag, 3)] {
        let folder = setup.folder(UNUSED_URL);
        let (code, out, err) = setup.run(folder.path()).await;
        assert_eq!(code, 0, "{err}");
        let line = format!("http://127.0.0.1:{port}\n");
        assert!(out.contains(&line), "{out}");
    }
}

#[kit::test]
async fn the_schemas_of_the_files_are_printed_also_beside_a_file_with_mistakes() {
    let base = Setup::new().server("][").arg("schema");
    for (setup, key) in [
        (base.clone(), "/properties/server"),
        (base.arg("--provider"), "/properties/quirks"),
    ] {
        let folder = setup.folder(UNUSED_URL);
        let (code, out, err) = setup.run(folder.path()).await;
        assert_eq!((code, err.as_str()), (0, ""));
        let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(schema.pointer(key).is_some(), "{out}");
    }
}
