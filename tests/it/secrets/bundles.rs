//! Puts canary secrets into every part of turns, and searches bundles, logs and replies for
//! them.
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use adapters::baggage::Baggage;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kit::player::{PlayerWire, ScriptedAnswer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{CODEX, Proxy, Setup};

/// The secrets of the configuration: two keys, the token, a header, a query parameter, and a
/// proxy password.
const CONFIGURED: [&str; 6] = [
    "up-canary/Plain+7f3e9a1b2c4d5e6f",
    "kb-canary-0a1b2c3d4e5f60718",
    "gate-canary-1122334455667788",
    "hdrs-canary-9f8e7d6c5b4a3921",
    "qury-canary-5566778899aabbcc",
    "prxy-canary-ddeeff0011223344",
];

/// The secrets that a client sends in headers.
const CLIENT_HEADERS: [&str; 2] = ["cook-canary-c1c2c3c4c5c6", "xapi-canary-d1d2d3d4d5d6"];

/// The secrets in the conversation, as (text, secret); the `@` in the text stands for the
/// secret.
const CONVERSATION: [(&str, &str); 9] = [
    ("@", "sk-proj-Canary0123456789abcdef"),
    ("@", "AKIACANARY0123456789"),
    (
        "@",
        "eyJhbGciOiJDQU5BUlkxIn0.eyJzdWIiOiJjYW5hcnkifQ.dozjgNryP4J3jVm",
    ),
    (
        "-----BEGIN PRIVATE KEY-----\n@\n-----END PRIVATE KEY-----",
        "MIIECanaryKEY0123456789abcdefABCDEF",
    ),
    ("postgres://me:@@db.example/x", "pgpw-canary-77aa88bb"),
    ("password=@", "line-canary-4711aaBB"),
    (r#"{"api_key":"@"}"#, "json-canary-8812ccDD"),
    ("customer-@", "CanaryCorp4711eeFF"),
    ("Bearer @", "bear-canary-9913ggHH"),
];

fn canaries() -> Vec<&'static str> {
    let conversation = CONVERSATION.iter().map(|(_, secret)| *secret);
    CONFIGURED
        .into_iter()
        .chain(CLIENT_HEADERS)
        .chain(conversation)
        .collect()
}

/// The texts of the conversation with their secrets.
fn conversation() -> String {
    let texts = CONVERSATION.map(|(text, secret)| text.replacen('@', secret, 1));
    texts.join(" \n ")
}

/// A text in which a provider quotes its request: each configured secret in another encoding,
/// and the conversation.
fn echo() -> String {
    let [plain, base64, token, header, query, proxy] = CONFIGURED;
    [
        plain.to_owned(),
        STANDARD.encode(format!("user:{base64}!")),
        utf8_percent_encode(token, NON_ALPHANUMERIC).to_string(),
        URL_SAFE_NO_PAD.encode(header),
        hex(query, ""),
        utf8_percent_encode(proxy, NON_ALPHANUMERIC)
            .to_string()
            .to_lowercase(),
        conversation(),
    ]
    .join(" ; ")
}

/// The bytes of a text in hexadecimal, with `before` in front of each.
fn hex(text: &str, before: &str) -> String {
    let pairs: Vec<String> = text
        .bytes()
        .map(|byte| format!("{before}{byte:02x}"))
        .collect();
    pairs.concat()
}

/// The forms in which a secret could leak: plain, in part, and encoded.
fn forms(secret: &str) -> Vec<String> {
    let percent = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    let each = hex(secret, "%");
    let mut forms = vec![
        secret.to_owned(),
        secret[..16].to_owned(),
        hex(secret, ""),
        hex(secret, "").to_uppercase(),
        secret.replace('/', "\\/"),
        percent.to_lowercase(),
        percent,
        each.to_uppercase(),
        each,
    ];
    for lead in 0..3 {
        let text = format!("{}{secret}", "~".repeat(lead));
        for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            // The characters at both ends depend on the bytes around the secret.
            forms.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    forms
}

/// Everything that can be read in a text: the text itself, each string in its JSON, the
/// strings at the same place of all its events joined together, and the contents of our
/// sealed blobs.
fn readings(text: &str) -> Vec<String> {
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut all = Vec::new();
    for document in text
        .lines()
        .map(|line| line.strip_prefix("data:").unwrap_or(line))
        .chain([text])
    {
        if let Ok(json) = serde_json::from_str::<Value>(document) {
            let kind = json["type"].as_str().unwrap_or_default().to_owned();
            strings(&json, &kind, &mut places, &mut all);
        }
    }
    for blob in text.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))) {
        if let Some(baggage) = Baggage::open(blob) {
            let states = baggage.states.into_iter().map(|(_, blob)| blob);
            for text in states.chain([baggage.reasoning]) {
                all.extend(readings(&text));
            }
        }
    }
    all.extend(places.into_values());
    all.push(text.to_owned());
    all
}

fn strings(json: &Value, at: &str, places: &mut BTreeMap<String, String>, all: &mut Vec<String>) {
    match json {
        Value::String(text) => {
            places.entry(at.to_owned()).or_default().push_str(text);
            all.push(text.clone());
            if text.starts_with(['{', '[']) {
                all.extend(readings(text));
            }
        }
        Value::Array(list) => {
            for (index, json) in list.iter().enumerate() {
                strings(json, &format!("{at}/{index}"), places, all);
            }
        }
        Value::Object(members) => {
            for (name, json) in members {
                strings(json, &format!("{at}/{name}"), places, all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Asserts that a text contains no canary in any form. `what` names the text.
#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let readings = readings(text);
    for secret in canaries() {
        for form in forms(secret) {
            for text in &readings {
                if let Some(at) = text.find(&form) {
                    let from = text.floor_char_boundary(at.saturating_sub(200));
                    panic!(
                        "{what} shows {form}: {}",
                        text[from..].chars().take(400).collect::<String>()
                    );
                }
            }
        }
    }
}

/// The entries of a bundle, as (name, text).
fn entries(path: &Path) -> Vec<(String, String)> {
    let file = std::fs::File::open(path).unwrap();
    let mut tar = tar::Archive::new(zstd::Decoder::new(file).unwrap());
    let mut all = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        all.push((name, text));
    }
    all
}

/// Asserts that the files below a directory contain no canary, bundles unpacked. Returns the
/// number of bundles.
fn assert_clean_files(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        assert_clean("a name", &name);
        if path.is_dir() {
            files += assert_clean_files(&path);
        } else if name.ends_with(".tar.zst") {
            files += 1;
            for (entry, text) in entries(&path) {
                assert_clean(&format!("{name} {entry}"), &text);
            }
        } else {
            assert_clean(
                &name,
                &String::from_utf8_lossy(&std::fs::read(&path).unwrap()),
            );
        }
    }
    files
}

/// The steps of an answer that sends a text in pieces of five characters.
fn fragments(text: &str, step: fn(String) -> Value) -> Vec<Value> {
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(5)
        .map(|part| step(part.iter().collect()))
        .collect()
}

/// Promise: A bundle contains no secrets, whatever the turn contained; its turns replay as they
/// ran; its contents are documented.
#[kit::test]
async fn canaries_are_in_no_bundle() {
    let player = player(PlayerWire::Chat).await;
    let [one, two, token, header, query, proxy_password] = CONFIGURED;
    let setup = Setup::new()
        .server("token_file = \"gate.key\"\nlog = \"debug\"\ndata_dir = \"data\"")
        .provider(&format!(
            "api_key = [\"{one}\", \"{two}\"]\nmax_retries = 0\n\
             headers = {{ X-Team-Token = \"{header}\" }}\nquery = {{ key = \"{query}\" }}"
        ))
        .tables(&format!(
            "[providers.other]\nbase_url = \"http://127.0.0.1:9/v1\"\nkey_required = false\n\
             proxy = \"http://me:{proxy_password}@127.0.0.1:1\"\n\
             [responses]\nmode = \"off\"\n\
             [capture]\nmode = \"all\"\npatterns = [\"customer-(\\\\w+)\"]"
        ))
        .file("gate.key", token);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let gate = format!("Bearer {token}");
    let cookie = format!("session={}", CLIENT_HEADERS[0]);
    let mut headers = vec![
        ("authorization", gate.as_str()),
        ("cookie", cookie.as_str()),
        ("x-api-key", CLIENT_HEADERS[1]),
    ];
    headers.extend(CODEX);
    let echo = echo();
    let output = json!({"output": conversation(), "metadata": {"exit_code": 0}}).to_string();
    let mut input = vec![json!({"role": "user", "content": conversation()})];

    // The answer has the secrets in its text, its reasoning and a call, in many pieces.
    let mut steps = fragments(&echo, |text| json!({"reasoning": text}));
    steps.extend(fragments(&echo, |text| json!({"text": text})));
    let arguments = json!({"command": echo}).to_string();
    steps.push(json!({"call": {"id": "c1", "name": "shell", "arguments": ""}}));
    steps.extend(fragments(
        &arguments,
        |text| json!({"args": {"index": 0, "text": text}}),
    ));
    player.push(answer(steps.into()));
    let tools = json!([{"type": "function", "name": "shell", "parameters": {}}]);
    let request = |input: &[Value], stream: bool| json!({"model": "up/m", "input": input, "tools": tools, "stream": stream, "include": ["reasoning.encrypted_content"]});
    let reply = proxy.post_with(&request(&input, true), &headers).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let last = reply
        .body
        .lines()
        .find_map(|line| line.strip_prefix("data: {\"type\":\"response.completed\""))
        .map(|rest| serde_json::from_str::<Value>(&format!("{{\"type\":\"\"{rest}")).unwrap());
    let items = last.unwrap()["response"]["output"].clone();
    assert!(items.to_string().contains("rsp1."), "nothing was sealed");
    input.extend(items.as_array().unwrap().clone());
    input.push(json!({"type": "function_call_output", "call_id": "c1", "output": output}));

    // The next requests send all of it back, and the provider quotes it in errors.
    let error = json!({"message": echo, "code": echo, "type": echo, "param": echo});
    let mut turns = 1;
    for (fault, stream) in [
        (answer(json!([{"text": "a"}, {"error": error}])), true),
        (
            ScriptedAnswer {
                status: 401,
                json: Some(json!({"error": error})),
                ..ScriptedAnswer::default()
            },
            true,
        ),
        (
            ScriptedAnswer {
                status: 400,
                body: Some(format!("<p>{echo}</p>")),
                ..ScriptedAnswer::default()
            },
            false,
        ),
        (
            answer(
                json!([{"text": "a"}, {"raw": format!("data: {}\n\n", echo.replace('\n', " "))}]),
            ),
            true,
        ),
    ] {
        player.push(fault);
        let reply = proxy.post_with(&request(&input, stream), &headers).await;
        turns += 1;
        assert_clean("a reply", &reply.body);
        assert_clean("a reply's head", &format!("{:?}", reply.headers));
    }
    let mut refused = request(&input, false);
    refused["previous_response_id"] = CONVERSATION[0].1.into();
    assert_clean("a refusal", &proxy.post_with(&refused, &headers).await.body);
    turns += 1;

    let captured_turns = || proxy.log().matches("turn kept: ").count();
    while captured_turns() < turns {
        tokio::task::yield_now().await;
    }
    assert_clean("the log", &proxy.log());
    for path in ["/metrics", "/diagnostics/turns", "/v1/models"] {
        assert_clean(path, &proxy.get(path).await.body);
    }
    let folder = proxy.folder.path();
    assert_eq!(assert_clean_files(&folder.join("data")), turns);
    let address = proxy.address.to_string();
    let run = async |args: &str| {
        let setup = Setup::new().arg("--listen").arg(&address);
        let setup = args.split(' ').fold(setup, Setup::arg);
        let (code, out, err) = setup.run(folder).await;
        assert_clean(args, &out);
        assert_clean(args, &err);
        (code, out + &err)
    };
    let (code, output) =
        run("bundle create --since 1h --images --encrypted --output all.tar.zst").await;
    assert_eq!(code, 0, "{output}");
    for (entry, text) in entries(&folder.join("all.tar.zst")) {
        assert_clean(&entry, &text);
    }
    run("bundle show all.tar.zst").await;
    run("bundle diff all.tar.zst all.tar.zst").await;
    let (code, output) = run("replay all.tar.zst --events").await;
    assert_eq!(code, 0, "{output}");
}

/// Promise: A key in the query of a request is in no bundle, log, message or report.
#[kit::test]
async fn a_key_in_the_query_stays_inside() {
    let key = CONFIGURED[0];
    let player = player(PlayerWire::Chat).await;
    let provider = format!("api_key = \"{key}\"\nkey_query = \"key\"\nmax_retries = 0");
    let setup = Setup::new()
        .server("log = \"trace\"\ndata_dir = \"data\"")
        .provider(&provider)
        .tables("[capture]\nmode = \"all\"")
        .discovering();
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let encoded = utf8_percent_encode(key, NON_ALPHANUMERIC).to_string();
    let mut redirect = ScriptedAnswer::error(302, "elsewhere");
    let location = format!("/v2/chat/completions?key={encoded}");
    redirect.headers.insert("location".into(), location);
    let faults = [
        answer(json!([{"text": "a"}])),
        answer(json!([{"text": "a"}, {"finish": "cut"}])),
        ScriptedAnswer::error(401, &format!("no such key: ?key={encoded}")),
        ScriptedAnswer::error(500, &format!("{key} in ?key={encoded}")),
        redirect,
    ];
    let turns = faults.len();
    for fault in faults {
        player.push(fault);
        let reply = proxy.post(&json!({"model": "up/m", "input": "go"})).await;
        assert_clean("a reply", &reply.body);
        assert_clean("a reply's head", &format!("{:?}", reply.headers));
    }
    while proxy.log().matches("turn kept: ").count() < turns {
        tokio::task::yield_now().await;
    }
    assert_eq!(assert_clean_files(&proxy.folder.path().join("data")), turns);
    for path in [
        "/diagnostics/turns",
        "/diagnostics/status",
        "/diagnostics/models",
        "/metrics",
        "/v1/models",
    ] {
        assert_clean(path, &proxy.get(path).await.body);
    }
    for args in [
        &["check"][..],
        &["status"],
        &["models", "--provider", "up"],
        &["doctor", "--provider", "up", "--model", "m"],
    ] {
        let (_, out, err) = proxy.run_command(&setup, args).await;
        assert!(!out.is_empty(), "{args:?} {err}");
        assert_clean("a command", &(out + &err));
    }
    assert_clean("the log", &proxy.whole_log().await);
    // The requests had it.
    for request in player.requests() {
        let line = request.head.lines().next().unwrap();
        assert!(line.contains("?key=up-canary"), "{line}");
        assert!(!request.head.contains("authorization"));
    }
    // Nobody is there.
    let proxy = Proxy::start_for_url("http://127.0.0.1:1/v1", setup).await;
    let reply = proxy.post(&json!({"model": "up/m", "input": "go"})).await;
    assert_clean("a reply", &reply.body);
    assert_clean("the log", &proxy.whole_log().await);
}
