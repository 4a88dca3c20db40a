//! Providers that search the web themselves.
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use adapters::tools::ProxyTool;
use adapters::wire::{self, EncodeOptions};
use kit::player::PlayerWire;
use registry::{Model, Provider};
use respondent::config::search::SearchMode;
use respondent::tools::live::CallLimits;
use respondent::turn::ToolRunner as _;
use serde_json::{Value, json};
use toml::Table;

use super::web::{TestWeb, WEATHER, call, question, request};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer, history};

const SERVER_TOOL: &str = "quirks = { web_search = \"server_tool\" }";
const ECHOED_CALL: &str = "quirks = { web_search = \"echoed_call\" }";
const CLIENTS: [RoundClient; 3] = [
    RoundClient::Streaming,
    RoundClient::Codex,
    RoundClient::Whole,
];

/// The names and types of the tools of a request.
fn offered(sent: &Value) -> Vec<String> {
    let tools = sent["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| {
        let named = [&tool["function"]["name"], &tool["name"], &tool["type"]];
        let named = named.into_iter().find_map(Value::as_str);
        named.unwrap().to_owned()
    });
    names.collect()
}

fn types(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().unwrap().iter();
    items.map(|item| item["type"].as_str().unwrap()).collect()
}

/// A chunk with a page that the provider has found.
fn page(url: &str, title: &str) -> Value {
    let citation = json!({"url": url, "title": title, "start_index": 0, "end_index": 0});
    let annotation = json!({"type": "url_citation", "url_citation": citation});
    let delta = json!({"role": "assistant", "content": "", "annotations": [annotation]});
    json!({"chunk": {"choices": [{"index": 0, "delta": delta}]}})
}

/// An answer for which the provider has searched.
fn searched(text: &str) -> Value {
    json!([
        page(WEATHER, "Weather in Ulm"),
        page("https://other.example/", ""),
        {"text": text},
        {"usage": {
            "prompt_tokens": 2317, "completion_tokens": 53,
            "server_tool_use_details": {"web_search_requests": 1},
        }},
    ])
}

/// Promise: A provider whose own search gives no less than that of the proxy gets the client's
/// `web_search` in its own form, beside the client's functions. Its pages are the sources of a
/// `web_search_call`, the text's links to them are `url_citation` annotations with the offsets of
/// characters, and its token counts are passed on.
#[kit::test]
async fn a_provider_searches_itself() {
    for client in CLIENTS {
        let player = player(PlayerWire::Chat).await;
        let text = format!("例え🦀: [21 degrees]({WEATHER}).");
        player.push(answer(searched(&text)));
        let web = TestWeb::new();
        let server =
            RoundServer::with_tools(&[&player], web.tool(CallLimits::default()), SERVER_TOOL);
        let mut asked = request(&question());
        asked["include"] = json!(["web_search_call.action.sources"]);
        let response = server.answer(&asked, client).await;
        let sent = player.requests()[0].json();
        assert_eq!(offered(&sent), ["shell", "openrouter:web_search"]);
        assert_eq!(types(&response), ["web_search_call", "message"]);
        let search = &response["output"][0];
        let sources = [WEATHER, "https://other.example/"];
        let sources = sources.map(|url| json!({"type": "url", "url": url}));
        assert_eq!(search["action"]["sources"], json!(sources));
        assert_eq!(search["status"], "completed");
        let part = &response["output"][1]["content"][0];
        let annotations = part["annotations"].as_array().unwrap();
        assert_eq!(annotations.len(), 1, "{annotations:?}");
        let chars: Vec<char> = part["text"].as_str().unwrap().chars().collect();
        let index = |name: &str| usize::try_from(annotations[0][name].as_u64().unwrap()).unwrap();
        let span = &chars[index("start_index")..index("end_index")];
        let span: String = span.iter().collect();
        assert_eq!(span, format!("[21 degrees]({WEATHER})"));
        assert_eq!(annotations[0]["title"], "Weather in Ulm");
        assert_eq!(response["usage"]["input_tokens"], 2317);
        assert_eq!(response["tools"][0], json!({"type": "web_search"}));
        assert!(web.take_asked().is_empty());
        server.check_replay();
    }
}

/// Promise: A search that a provider makes once it gets the arguments of its call back is a round
/// of the answer with an item, and never a call of a function. The call goes back as it came, in
/// this round and in the next turn.
#[kit::test]
async fn an_echoed_search_is_a_round() {
    let arguments = json!({"search_result": {"search_id": "s"}, "usage": {"total_tokens": 13_046}});
    for client in CLIENTS {
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!([call("c1", "$web_search", &arguments)])));
        player.push(answer(json!([
            {"text": "21 degrees."},
            {"usage": {"prompt_tokens": 13_212, "completion_tokens": 295}},
        ])));
        player.push(answer(json!([{"text": "Rain."}])));
        let web = TestWeb::new();
        let tool = web.tool_in_mode(CallLimits::default(), SearchMode::Native);
        let server = RoundServer::with_tools(&[&player], tool, ECHOED_CALL);
        let response = server.answer(&request(&question()), client).await;
        assert_eq!(types(&response), ["web_search_call", "message"]);
        assert_eq!(response["output"][0]["action"]["type"], "search");
        assert_eq!(response["usage"]["input_tokens"], 13_212);
        let sent = player.requests();
        let search = json!({"type": "builtin_function", "function": {"name": "$web_search"}});
        assert_eq!(sent[0].json()["tools"][1], search);
        let messages = history(&sent[1]);
        let [.., called, echoed] = messages.as_array().unwrap().as_slice() else {
            panic!("{messages}")
        };
        let function = json!({"name": "$web_search", "arguments": arguments.to_string()});
        let id = &called["tool_calls"][0]["id"];
        assert_eq!(
            called["tool_calls"],
            json!([{"id": id, "type": "builtin_function", "function": function}])
        );
        assert_eq!(echoed["content"], arguments.to_string());
        server.check_replay();

        let mut items = question();
        let list = items.as_array_mut().unwrap();
        list.extend(response["output"].as_array().unwrap().iter().cloned());
        list.push(json!({"role": "user", "content": "And tomorrow?"}));
        server.answer(&request(&items), client).await;
        let next = history(&player.requests()[2]);
        let both = messages.as_array().unwrap().len();
        assert_eq!(
            next.as_array().unwrap()[..both],
            messages.as_array().unwrap()[..]
        );
        assert!(web.take_asked().is_empty());
    }
}

/// Promise: A failover between a provider that searches itself and one for which the proxy searches
/// gives each what it needs.
#[kit::test]
async fn a_failover_changes_who_searches() {
    let failing = || json!({"status": 500, "json": {"error": {"message": "down"}}, "repeat": true});
    for provider_first in [true, false] {
        let (acme, brand) = (
            player(PlayerWire::Chat).await,
            player(PlayerWire::Chat).await,
        );
        acme.push(serde_json::from_value(failing()).unwrap());
        let settings = if provider_first { SERVER_TOOL } else { "" };
        if provider_first {
            brand.push(answer(json!([call(
                "c1",
                "web_search",
                &json!({"query": "ulm"})
            )])));
            brand.push(answer(json!([{"text": format!("See {WEATHER}.")}])));
        } else {
            brand.push(answer(searched(&format!("See {WEATHER}."))));
        }
        let web = TestWeb::new();
        let tool = web.tool(CallLimits::default());
        let others = if provider_first { "" } else { SERVER_TOOL };
        let settings = format!("max_retries = 1\n{settings}");
        let server = RoundServer::with_settings(&[(&acme, &settings), (&brand, others)], tool);
        let response = server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        assert_eq!(types(&response), ["web_search_call", "message"]);
        let annotations = &response["output"][1]["content"][0]["annotations"];
        assert_eq!(annotations.as_array().unwrap().len(), 1, "{annotations}");
        let functions = vec!["shell", "web_search", "open_page", "find_in_page"];
        let own = vec!["shell", "openrouter:web_search"];
        let (first, second) = if provider_first {
            (own, functions)
        } else {
            (functions, own)
        };
        assert_eq!(offered(&acme.requests()[0].json()), first);
        assert_eq!(offered(&brand.requests()[0].json()), second);
        assert_eq!(web.take_asked().len(), usize::from(provider_first));
        server.check_replay();
    }
}

/// Promise: `mode` in `[search]` decides who searches: with `proxy` the provider never, with
/// `native` nobody else. Where then nobody can, model and client are told.
#[kit::test(on_each_wire)]
async fn the_mode_decides_who_searches(wire: PlayerWire) {
    let own = match wire {
        PlayerWire::Chat => SERVER_TOOL,
        PlayerWire::Responses => "",
    };
    let none = super::web::without_hosted_tools(wire);
    let functions = ["shell", "web_search", "open_page", "find_in_page"];
    for (mode, settings, searches) in [
        (SearchMode::Auto, own, "provider"),
        (SearchMode::Native, own, "provider"),
        (SearchMode::Proxy, own, "proxy"),
        (SearchMode::Auto, none, "proxy"),
        (SearchMode::Proxy, none, "proxy"),
        (SearchMode::Native, none, "nobody"),
        (SearchMode::Off, none, "nobody"),
    ] {
        let player = player(wire).await;
        player.push(answer(json!([{"text": "Done."}])));
        let tool = TestWeb::new().tool_in_mode(CallLimits::default(), mode);
        let server = RoundServer::with_tools(&[&player], tool, settings);
        let opened = server
            .open(&request(&question()), RoundClient::Streaming)
            .await;
        let notes = opened.headers().get("x-respondent-notes").cloned();
        let notes = notes.map(|notes| notes.to_str().unwrap().to_owned());
        let sent = player.requests()[0].json();
        let mut names = offered(&sent);
        names.sort();
        let mut expected: Vec<&str> = match (searches, wire) {
            ("proxy", _) => functions.into(),
            ("provider", PlayerWire::Chat) => vec!["shell", "openrouter:web_search"],
            ("provider", PlayerWire::Responses) => vec!["shell", "web_search"],
            _ => vec!["shell"],
        };
        expected.sort_unstable();
        let case = format!("{mode:?} {settings} {notes:?} {sent}");
        assert_eq!(names, expected, "{case}");
        let is_told = sent
            .to_string()
            .contains("Web search is not available here");
        assert_eq!(is_told, searches == "nobody", "{case}");
        let is_noted = notes.is_some_and(|notes| notes.contains("tool_dropped"));
        assert_eq!(is_noted, searches == "nobody", "{case}");
    }
}

/// Promise: A search of the provider that cannot do what the client asks for is not used: one
/// without filters for domains, or any if only known pages may be used.
#[kit::test]
async fn a_search_that_cannot_do_what_is_asked_is_not_used() {
    for (quirks, search, is_used) in [
        (SERVER_TOOL, json!({}), true),
        (
            SERVER_TOOL,
            json!({"filters": {"allowed_domains": ["docs.rs"]}}),
            true,
        ),
        (SERVER_TOOL, json!({"external_web_access": false}), false),
        (ECHOED_CALL, json!({}), true),
        (
            ECHOED_CALL,
            json!({"filters": {"allowed_domains": []}}),
            true,
        ),
        (
            ECHOED_CALL,
            json!({"filters": {"allowed_domains": ["docs.rs"]}}),
            false,
        ),
        (
            ECHOED_CALL,
            json!({"filters": {"blocked_domains": ["x.com"]}}),
            false,
        ),
    ] {
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!([{"text": "Done."}])));
        let tool = TestWeb::new().tool_in_mode(CallLimits::default(), SearchMode::Native);
        let server = RoundServer::with_tools(&[&player], tool, quirks);
        let mut asked = request(&question());
        let definition = asked["tools"][0].as_object_mut().unwrap();
        definition.extend(search.as_object().unwrap().clone());
        server.answer(&asked, RoundClient::Streaming).await;
        let sent = player.requests()[0].json();
        assert_eq!(offered(&sent).len() == 2, is_used, "{search}: {sent}");
        if let Some(allowed) = search.pointer("/filters/allowed_domains")
            && quirks == SERVER_TOOL
        {
            assert_eq!(&sent["tools"][1]["parameters"]["allowed_domains"], allowed);
        }
    }
}

/// Promise: Each provider either searches itself or gets functions of the proxy in place of
/// `web_search`, as the mode says; with `native`, a provider without a search gets nothing.
#[test]
fn providers_search_as_documented() {
    // The provider, its model, and who searches with "auto", "native" and "proxy".
    let rows = [
        ("openai", "gpt-5.6", ["own", "own", "proxy"]),
        (
            "openrouter",
            "deepseek/deepseek-v4",
            ["own", "own", "proxy"],
        ),
        ("moonshot", "kimi-k2.6", ["proxy", "own", "proxy"]),
        ("moonshot", "kimi-k2.7-code", ["proxy", "nobody", "proxy"]),
        ("moonshot", "kimi-k3", ["proxy", "nobody", "proxy"]),
        ("zai", "glm-5.2", ["proxy", "own", "proxy"]),
        ("bigmodel", "glm-5.2", ["proxy", "own", "proxy"]),
        ("qwen", "qwen3-max", ["proxy", "nobody", "proxy"]),
        ("xai", "grok-4.3", ["proxy", "nobody", "proxy"]),
        ("gemini", "gemini-3-flash", ["proxy", "nobody", "proxy"]),
        ("deepseek", "deepseek-v4", ["proxy", "nobody", "proxy"]),
        ("minimax", "MiniMax-M2.5", ["proxy", "nobody", "proxy"]),
        ("groq", "openai/gpt-oss-120b", ["proxy", "nobody", "proxy"]),
        ("mistral", "mistral-large", ["proxy", "nobody", "proxy"]),
        ("llamacpp", "qwen3", ["proxy", "nobody", "proxy"]),
    ];
    let modes = [SearchMode::Auto, SearchMode::Native, SearchMode::Proxy];
    for (provider, model, expected) in rows {
        let spec = registry::build(provider, Table::new()).unwrap();
        let provider = spec.to_provider(provider);
        let found = modes.map(|mode| {
            let tool = TestWeb::new().tool_in_mode(CallLimits::default(), mode);
            who_searches(&provider, model, &tool.fixed())
        });
        assert_eq!(found, expected, "{} {model}", provider.id);
    }
}

/// Who searches for a model that does not think, if it can be told so.
fn who_searches(provider: &Provider, name: &str, tools: &[ProxyTool]) -> &'static str {
    let mut asked = request(&question());
    asked["model"] = name.into();
    asked["reasoning"] = json!({"effort": "none"});
    let source = TurnSource::new(asked.to_string()).with_proxy_tools(tools.to_vec());
    let turn = source.turn().unwrap();
    let unlisted = Model::unlisted(name);
    let model = provider.model(name).map_or(&unlisted, |model| model);
    let options = EncodeOptions::new(provider.dialect_for(name), model, name);
    let encoded = wire::encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap();
    let sent: Value = serde_json::from_slice(&encoded.encoded.body).unwrap();
    let names = offered(&sent);
    match names.len() {
        4 => "proxy",
        2 => "own",
        1 => "nobody",
        _ => panic!("{names:?}"),
    }
}
