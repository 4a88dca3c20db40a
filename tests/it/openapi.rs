//! `GET /openapi.json`, compared with the router and with what the routes answer.

use std::collections::{BTreeMap, BTreeSet};

use kit::player::{Player, PlayerWire, RequestCondition, ScriptedAnswer};
use kit::request_docs::{self, DocumentedPart};
use serde_json::{Value, json};

use crate::faults::{answer, player, player_with, repeating_player};
use crate::proxy::{Proxy, Reply, Setup};
use crate::stored::{asks, client, routes, send, unknown};

/// What the provider says, which may also be a summary.
const SUMMARY: &str = "The user is Ada and likes tea. Nothing is to be done; go on from here.";

/// The document of a server.
struct Document(Value);

impl Document {
    async fn of(proxy: &Proxy) -> Self {
        let reply = send(proxy, "local", "GET /openapi.json", &json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        Self(serde_json::from_str(&reply.body).unwrap())
    }

    /// Method and path of each operation, with it.
    fn operations(&self) -> BTreeMap<String, &Value> {
        let mut operations = BTreeMap::new();
        for (path, methods) in self.0["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let route = format!("{} {path}", method.to_uppercase());
                operations.insert(route, operation);
            }
        }
        operations
    }

    /// What a value refers to, or itself.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            None => value,
            Some(reference) => {
                let pointer = reference.strip_prefix('#').unwrap();
                let target = self.0.pointer(pointer);
                target.unwrap_or_else(|| panic!("nothing is at {reference}"))
            }
        }
    }

    /// The parameters of an operation: place and name.
    fn parameters(&self, operation: &Value) -> BTreeSet<(String, String)> {
        let list = operation["parameters"].as_array();
        let list = list.into_iter().flatten().map(|it| self.resolved(it));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        list.map(|it| (text(&it["in"]), text(&it["name"])))
            .collect()
    }

    /// Checks that a value has what its schema requires.
    fn check(&self, schema: &Value, value: &Value, place: &str) {
        let schema = self.resolved(schema);
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        assert!(
            types.is_empty() || types.iter().any(|it| is_of_type(value, it)),
            "{place} is no {types:?}: {value}"
        );
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.check(part, value, place);
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            assert!(value.get(name).is_some(), "{place} has no {name}: {value}");
        }
        if let Some(expected) = schema.get("const") {
            assert_eq!(value, expected, "{place}");
        }
        if let Some(known) = schema["enum"].as_array() {
            assert!(known.contains(value), "{place}: {value}");
        }
        let properties = schema["properties"].as_object();
        for (name, schema) in properties.into_iter().flatten() {
            if let Some(value) = value.get(name) {
                self.check(schema, value, &format!("{place}.{name}"));
            }
        }
        if let Some(items) = schema.get("items") {
            for value in value.as_array().unwrap() {
                self.check(items, value, &format!("{place}[]"));
            }
        }
    }

    /// Checks that an answer has a documented form.
    fn check_reply(&self, route: &str, reply: &Reply) {
        let responses = &self.operations()[route]["responses"];
        let status = reply.status.to_string();
        let response = responses.get(&status);
        let response = response.unwrap_or_else(|| panic!("{route}: {status}: {}", reply.body));
        let Some(content) = self.resolved(response)["content"].as_object() else {
            assert!(reply.header("content-type").is_none(), "{route}: {status}");
            return;
        };
        let kind = reply.header("content-type").unwrap();
        let kind = kind.split(';').next().unwrap();
        let form = content.get(kind);
        let form = form.unwrap_or_else(|| panic!("{route}: {status}: {kind}"));
        let place = format!("{route} {status}");
        if kind == "application/json" {
            let body = serde_json::from_str(&reply.body).unwrap();
            self.check(&form["schema"], &body, &place);
        } else if kind == "text/event-stream" {
            for frame in reply.body.split_terminator("\n\n") {
                let fields = frame.lines().filter_map(|line| line.split_once(": "));
                let event: BTreeMap<&str, &str> = fields.collect();
                self.check(&form["schema"], &json!(event), &place);
            }
        }
    }
}

/// Whether a value has a type of JSON Schema.
fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type is named {other}"),
    }
}

/// Promise: `GET /openapi.json` describes in OpenAPI 3.1 exactly the routes that are served; each
/// parameter in it is read, each status occurs, and the answers have the form that it gives them.
#[kit::test]
async fn the_openapi_document_has_every_route_and_no_other() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let document = Document::of(&proxy).await;
    let served: BTreeSet<String> = routes(&proxy).await.into_iter().collect();
    let documented: BTreeSet<String> = document.operations().into_keys().collect();
    assert_eq!(documented, served);
}

/// Promise: The tables of what becomes of a request are made of the list that the parser uses. It
/// has every parameter that is read, and the OpenAPI document has the same ones.
#[kit::test]
async fn the_openapi_document_has_the_parameters_that_are_read() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let document = Document::of(&proxy).await;
    let documented = &document.0["components"]["schemas"]["CreateResponse"]["properties"];
    let documented: BTreeSet<&str> = documented
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let parts = request_docs::parameters();
    let read = parts.iter().filter(|part| part.fate != "refused");
    let read: BTreeSet<&str> = read.flat_map(DocumentedPart::names).collect();
    assert_eq!(documented, read);
}

/// Every reference in a value.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|it| references(it, found)),
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.insert(reference);
            }
            fields.values().for_each(|it| references(it, found));
        }
        _ => {}
    }
}

#[kit::test]
async fn the_openapi_document_is_sound() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let document = Document::of(&proxy).await;
    assert_eq!(document.0["openapi"], "3.1.0");
    // What is referred to is there, and what is there is referred to.
    let mut used = BTreeSet::new();
    references(&document.0, &mut used);
    let used: BTreeSet<String> = used.into_iter().map(str::to_owned).collect();
    let mut defined = BTreeSet::new();
    for kind in ["parameters", "responses", "schemas"] {
        let names = document.0["components"][kind].as_object().unwrap().keys();
        defined.extend(names.map(|name| format!("#/components/{kind}/{name}")));
    }
    assert_eq!(used, defined);
    let mut ids = BTreeSet::new();
    for (route, operation) in document.operations() {
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap()),
            "{route}"
        );
        assert!(operation["summary"].is_string(), "{route}");
        assert!(operation["responses"]["default"].is_object(), "{route}");
        let of_path = route.split('{').skip(1);
        let of_path: BTreeSet<&str> = of_path.map(|it| it.split_once('}').unwrap().0).collect();
        let parameters = document.parameters(operation);
        let of_path_documented = parameters.iter().filter(|(place, _)| place == "path");
        let documented: BTreeSet<&str> =
            of_path_documented.map(|(_, name)| name.as_str()).collect();
        assert_eq!(documented, of_path, "{route}");
    }
}

/// A server that keeps everything, with a provider that always answers.
async fn full_server(player: &Player) -> Proxy {
    let setup = Setup::new()
        .env("RESPONDENT_TOKEN", "local-token-1")
        .tables("[capture]\nmode = \"all\"\n[search]\norder = []")
        .tables(&client("alice", "max_tokens_per_day = 1"))
        // With one provider alone, every name would be a model of it.
        .other("second", player, "")
        .wire_of(player);
    Proxy::start_with(player, setup).await
}

/// The things whose ids are in paths.
struct Things {
    response: String,
    job: String,
    conversation: String,
    item: String,
    artifact: String,
}

impl Things {
    async fn make(proxy: &Proxy) -> Self {
        let made = |route: &'static str, body: Value| async move {
            let reply = send(proxy, "local", route, &body).await;
            assert_eq!(reply.status, 200, "{route}: {}", reply.body);
            serde_json::from_str::<Value>(&reply.body).unwrap()
        };
        let log = "a line of a log\n".repeat(5_000);
        let input = json!([
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": log},
            {"type": "web_search_call", "id": "ws_1", "status": "completed",
                "action": {"type": "open_page", "url": "https://a.example/"}},
        ]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let response = made("POST /v1/responses", asks(input, json!({}))).await;
        let job = made("POST /v1/responses", asks("x", json!({"background": true}))).await;
        let items = json!({"items": [{"type": "message", "role": "user", "content": "x"}]});
        let conversation = made("POST /v1/conversations", items).await;
        let conversation = text(&conversation["id"]);
        let path = format!("GET /v1/conversations/{conversation}/items");
        let items = send(proxy, "local", &path, &json!({})).await;
        let items: Value = serde_json::from_str(&items.body).unwrap();
        let artifacts = made("GET /v1/artifacts", json!({})).await;
        Self {
            response: text(&response["id"]),
            job: text(&job["id"]),
            item: text(&items["data"][0]["id"]),
            artifact: text(&artifacts["data"][0]["id"]),
            conversation,
        }
    }

    /// The request for a route with ids of things that exist, or with ids that nothing has.
    fn request(&self, route: &str, exist: bool) -> String {
        let id = if route.contains("/responses/") {
            &self.response
        } else if route.contains("/conversations/") {
            &self.conversation
        } else if route.contains("/artifacts/") {
            &self.artifact
        } else {
            "up/m"
        };
        let request = if route.ends_with("/search") {
            format!("{route}?q=log")
        } else {
            route.to_owned()
        };
        if exist {
            return request
                .replace("{id}", id)
                .replace("{item}", &self.item)
                .replace("{source}", "1");
        }
        let id = if id == "up/m" {
            "none/x".to_owned()
        } else {
            unknown(id)
        };
        request
            .replace("{id}", &id)
            .replace("{item}", &unknown(&self.item))
            .replace("{source}", "1")
    }
}

/// A request with a value that no parameter may have.
fn with_bad_parameter(request: &str, name: &str) -> String {
    let separator = if request.contains('?') { '&' } else { '?' };
    format!("{request}{separator}{name}=%FF")
}

#[kit::test]
async fn each_parameter_of_the_openapi_document_is_read() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": SUMMARY}]))).await;
    let proxy = full_server(&player).await;
    let document = Document::of(&proxy).await;
    let things = Things::make(&proxy).await;
    let mut count = 0;
    for (route, operation) in document.operations() {
        for (place, name) in document.parameters(operation) {
            if place != "query" {
                continue;
            }
            count += 1;
            let request = with_bad_parameter(&things.request(&route, true), &name);
            let error = send(&proxy, "local", &request, &json!({})).await.error(400);
            assert_eq!(error["param"], name.as_str(), "{request}: {error}");
        }
    }
    assert!(count > 20, "{count}");
}

/// Requests that have other answers than 200 for a reason of their own. `{response}` and so on are
/// the ids of what exists.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("POST /v1/responses", "POST /v1/responses", r#"{"model":7}"#),
    (
        "POST /v1/responses",
        "POST /v1/responses",
        r#"{"model":"none/x","input":"x"}"#,
    ),
    (
        "POST /v1/responses/compact",
        "POST /v1/responses/compact",
        "{}",
    ),
    (
        "POST /v1/responses/compact",
        "POST /v1/responses/compact",
        r#"{"model":"none/x","input":"x"}"#,
    ),
    (
        "POST /v1/responses/input_tokens",
        "POST /v1/responses/input_tokens",
        "{}",
    ),
    (
        "POST /v1/responses/input_tokens",
        "POST /v1/responses/input_tokens",
        r#"{"model":"up/m","input":"x","conversation":"conv_0"}"#,
    ),
    (
        "GET /v1/responses/{id}",
        "GET /v1/responses/{response}?stream=maybe",
        "{}",
    ),
    (
        "POST /v1/responses/{id}/cancel",
        "POST /v1/responses/{response}/cancel",
        "{}",
    ),
    ("POST /v1/alpha/search", "POST /v1/alpha/search", "{}"),
    ("POST /v1/conversations", "POST /v1/conversations", "[]"),
    (
        "POST /v1/conversations/{id}",
        "POST /v1/conversations/{conversation}",
        "{}",
    ),
    (
        "POST /v1/conversations/{id}/items",
        "POST /v1/conversations/{conversation}/items",
        r#"{"items":7}"#,
    ),
    ("POST /v1/search", "POST /v1/search", "{}"),
    ("POST /v1/scrape", "POST /v1/scrape", "[]"),
    ("POST /mcp", "POST /mcp", "[7]"),
    (
        "POST /mcp",
        "POST /mcp",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ),
    (
        "DELETE /v1/artifacts/{id}",
        "DELETE /v1/artifacts/{artifact}?x=1",
        "{}",
    ),
    (
        "DELETE /v1/artifacts/expired",
        "DELETE /v1/artifacts/expired?x=1",
        "{}",
    ),
    (
        "GET /diagnostics/bundle",
        "GET /diagnostics/bundle?select=response:resp_00000000000000000000000000000000",
        "{}",
    ),
    (
        "GET /diagnostics/bundle",
        "GET /diagnostics/bundle?select=last",
        "{}",
    ),
];

/// The body of a request for a route that is answered with 200.
fn good_body(route: &str) -> Value {
    match route {
        "POST /v1/search" => json!({"query": "x"}),
        // Why a page was not read is an answer.
        "POST /v1/scrape" => json!({"url": "nowhere"}),
        "POST /mcp" => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        "POST /v1/conversations/{id}/items" => {
            json!({"items": [{"type": "message", "role": "user", "content": "x"}]})
        }
        "POST /v1/conversations" | "POST /v1/conversations/{id}" => json!({"metadata": {}}),
        "POST /v1/alpha/search" => json!({"id": "s", "commands": {"search_query": [{"q": "x"}]}}),
        _ => asks("x", json!({})),
    }
}

#[kit::test]
async fn each_status_of_the_openapi_document_occurs() {
    let endless = ScriptedAnswer {
        when: RequestCondition {
            last_contains: Some("for ever".to_owned()),
            ..RequestCondition::default()
        },
        ..answer(json!([{"text": "a"}, {"stall": true}]))
    };
    let usual = ScriptedAnswer {
        repeat: true,
        ..answer(json!([{"text": SUMMARY}]))
    };
    let player = player_with(PlayerWire::Chat, vec![endless, usual]).await;
    let proxy = full_server(&player).await;
    let document = Document::of(&proxy).await;
    let things = Things::make(&proxy).await;
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut note = |route: &str, reply: &Reply| {
        document.check_reply(route, reply);
        seen.insert((route.to_owned(), reply.status.to_string()));
    };
    let operations = document.operations();
    let is_open = |route: &str| operations[route]["security"] == json!([]);
    // What deletes comes last, and what deletes the parts of a thing before what deletes it.
    let mut routes: Vec<&String> = operations.keys().collect();
    routes.sort_by_key(|route| {
        let deletes = route.starts_with("DELETE");
        (
            deletes,
            *route == "DELETE /diagnostics/store",
            std::cmp::Reverse(route.len()),
        )
    });
    for (route, request, body) in REQUESTS {
        let request = request
            .replace("{response}", &things.response)
            .replace("{job}", &things.job)
            .replace("{conversation}", &things.conversation)
            .replace("{artifact}", &things.artifact);
        let body = serde_json::from_str(body).unwrap();
        note(route, &send(&proxy, "local", &request, &body).await);
    }
    let endless = asks("for ever", json!({"background": true}));
    let job = send(&proxy, "local", "POST /v1/responses", &endless).await;
    let job: Value = serde_json::from_str(&job.body).unwrap();
    let cancel = format!("POST /v1/responses/{}/cancel", job["id"].as_str().unwrap());
    let cancelled = send(&proxy, "local", &cancel, &json!({})).await;
    note("POST /v1/responses/{id}/cancel", &cancelled);
    let asked = asks("x", json!({"stream": true}));
    let events = format!("GET /v1/responses/{}?stream=true", things.job);
    for (route, request) in [
        ("POST /v1/responses", "POST /v1/responses"),
        ("GET /v1/responses/{id}", &events),
    ] {
        let reply = send(&proxy, "local", request, &asked).await;
        let kind = reply.header("content-type").unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        note(route, &reply);
    }
    let headers = [("authorization", "Bearer local-token-1"), ("accept", "*/*")];
    let route = "POST /mcp";
    note(
        route,
        &proxy.post_to("/mcp", &good_body(route), &headers).await,
    );
    for (headers, status) in [("bytes=0-9", 206), ("bytes=9999999-", 416)] {
        let route = "GET /v1/artifacts/{id}";
        let path = format!("/v1/artifacts/{}", things.artifact);
        let headers = [
            ("authorization", "Bearer local-token-1"),
            ("range", headers),
        ];
        let reply = proxy.get_with(&path, &headers).await;
        assert_eq!(reply.status, status);
        note(route, &reply);
    }
    for (route, operation) in &operations {
        for (place, name) in document.parameters(operation) {
            if place == "query" {
                let request = with_bad_parameter(&things.request(route, true), &name);
                note(route, &send(&proxy, "local", &request, &json!({})).await);
            }
        }
        if !is_open(route) {
            note(route, &send(&proxy, "stranger", route, &json!({})).await);
        }
    }
    // A client that has used all that it may; the first turn counts when it has ended.
    for route in [
        "POST /v1/responses",
        "POST /v1/responses",
        "POST /v1/responses/compact",
    ] {
        note(
            route,
            &send(&proxy, "alice", route, &good_body(route)).await,
        );
    }
    for route in &routes {
        if !is_open(route) {
            let (_, path) = route.split_once(' ').unwrap();
            let headers = [
                ("authorization", "Bearer local-token-1"),
                ("origin", "http://evil.example"),
            ];
            let reply = match route.split_once(' ').unwrap().0 {
                "GET" => proxy.get_with(path, &headers).await,
                "POST" => proxy.post_to(path, &json!({}), &headers).await,
                _ => proxy.delete_with(path, &headers).await,
            };
            assert_eq!(reply.status, 403, "{route}");
            note(route, &reply);
        }
        if route.contains('{') {
            let request = things.request(route, false);
            let reply = send(&proxy, "local", &request, &good_body(route)).await;
            assert_eq!(reply.status, 404, "{request}");
            note(route, &reply);
        }
        // Only a job is cancelled.
        if *route != "POST /v1/responses/{id}/cancel" {
            let request = things.request(route, true);
            let reply = send(&proxy, "local", &request, &good_body(route)).await;
            assert!(
                [200, 404].contains(&reply.status),
                "{request}: {}",
                reply.body
            );
            note(route, &reply);
        }
    }
    let (route, reply) = locked().await;
    note(route, &reply);
    for (route, reply) in without_store().await {
        note(route, &reply);
    }
    let mut documented = BTreeSet::new();
    for (route, operation) in &operations {
        let statuses = operation["responses"].as_object().unwrap().keys();
        let statuses = statuses.filter(|status| *status != "default");
        documented.extend(statuses.map(|status| (route.clone(), status.clone())));
    }
    let missing: Vec<_> = documented.difference(&seen).collect();
    assert!(missing.is_empty(), "nobody has seen {missing:?}");
}

/// The answer to a turn in a conversation that has another one.
async fn locked() -> (&'static str, Reply) {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let proxy = Proxy::start(&player).await;
    let route = "POST /v1/conversations";
    let made = send(&proxy, "local", route, &json!({})).await;
    let made: Value = serde_json::from_str(&made.body).unwrap();
    let body = asks("x", json!({"conversation": made["id"], "stream": true}));
    let mut open = proxy.open(body.to_string(), &[]).await;
    open.read_until("begun").await;
    let reply = proxy
        .post(&asks("y", json!({"conversation": made["id"]})))
        .await;
    assert_eq!(reply.status, 409, "{}", reply.body);
    ("POST /v1/responses", reply)
}

/// The answers of a server that stores nothing.
async fn without_store() -> Vec<(&'static str, Reply)> {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables("[responses]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut replies = Vec::new();
    for route in ["GET /v1/responses", "POST /v1/conversations"] {
        replies.push((route, send(&proxy, "local", route, &json!({})).await));
    }
    replies
}
