//! Sub-agents of Codex: the models that they get, and that each is a session of its own. The
//! settings that Codex gets of them are tested in `codex_setup` and `run`, and with the real Codex
//! in `tests/clients`. The headers and bodies are shaped like those of Codex 0.171.
use kit::player::{Player, PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::relay::{extend, tools};

/// What Codex says of a turn of the user's own thread.
const ROOT: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("session-id", "thread-0"),
    ("thread-id", "thread-0"),
    (
        "x-codex-turn-metadata",
        r#"{"session_id":"thread-0","thread_id":"thread-0","agent_name":"/root","request_kind":"turn","thread_source":"user","model":"large"}"#,
    ),
];

/// What Codex says of a turn of a sub-agent.
const SCOUT: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("session-id", "thread-0"),
    ("thread-id", "thread-1"),
    ("x-codex-parent-thread-id", "thread-0"),
    ("x-openai-subagent", "collab_spawn"),
    (
        "x-codex-turn-metadata",
        r#"{"session_id":"thread-0","thread_id":"thread-1","agent_name":"/root/scout","request_kind":"turn","parent_thread_id":"thread-0","subagent_kind":"thread_spawn","thread_source":"subagent"}"#,
    ),
];

/// The turns in a log of JSON lines.
fn turns(log: &str) -> Vec<Value> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &Value| line["outcome"].is_string())
        .collect()
}

/// Promise: A sub-agent of Codex on another model than its parent's is a session of its own: its
/// prefix, its bill and its line in the log, which names it, are told apart, and the parent's
/// encrypted reasoning, which a fork of the history has, does not go to its provider.
#[kit::test]
async fn a_sub_agent_on_another_model_is_a_session_of_its_own() {
    let large = player(PlayerWire::Responses).await;
    let small = player(PlayerWire::Responses).await;
    let model = |provider: &str, id: &str, price: &str| {
        format!(
            "[[providers.{provider}.models]]\nid = \"{id}\"\nwindow = 200000\n\
             price = {{ input = {price}, output = {price} }}"
        )
    };
    let setup = Setup::new()
        .server("log_format = \"json\"")
        .wire_of(&large)
        .other("cheap", &small, &model("cheap", "small", "0.0"))
        .tables(&model("up", "large", "10.0"));
    let proxy = Proxy::start_with(&large, setup).await;
    let ask = async |model: &str, items: &[Value], headers: &[(&str, &str)]| {
        // All agents of a session have the cache key of its first thread.
        let body = json!({
            "model": model, "input": items, "tools": tools(), "prompt_cache_key": "thread-0",
            "include": ["reasoning.encrypted_content"], "store": false,
        });
        let reply = proxy.post_with(&streaming(&body), headers).await;
        let stream = reply.stream_for_codex();
        assert_eq!(stream.terminal, "response.completed", "{model}");
        stream.response
    };
    let thinks = |id: &str| {
        let call = json!({"id": id, "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"});
        answer(json!([{"reasoning": "hm"}, {"call": call}]))
    };
    for (player, id) in [(&large, "a"), (&small, "b")] {
        player.push(thinks(id));
        player.push(answer(json!([{"text": "Done."}])));
    }

    let mut root = vec![json!({"role": "user", "content": "go"})];
    let answered = ask("large", &root, ROOT).await;
    extend(&mut root, &answered);
    let mut scout = root.clone();
    scout.push(json!({
        "type": "agent_message", "author": "/root", "recipient": "/root/scout",
        "content": [{"type": "input_text", "text": "Look."}],
    }));
    let answered = ask("small", &scout, SCOUT).await;
    extend(&mut scout, &answered);
    ask("large", &root, ROOT).await;
    ask("small", &scout, SCOUT).await;

    let sealed = |request: &Value| request.to_string().matches("gAAAA-scripted-").count();
    let bodies = |player: &Player| -> Vec<Value> {
        player
            .requests()
            .iter()
            .map(RecordedRequest::json)
            .collect()
    };
    let (of_large, of_small) = (bodies(&large), bodies(&small));
    assert_eq!([sealed(&of_large[0]), sealed(&of_large[1])], [0, 1]);
    // Its own reasoning comes back to it, that of its parent stays with its parent's provider.
    assert_eq!([sealed(&of_small[0]), sealed(&of_small[1])], [0, 1]);
    for [earlier, later] in [of_large, of_small].map(|all| [all[0].clone(), all[1].clone()]) {
        assert!(!later.to_string().contains("rse1."));
        let input = |request: &Value| request["input"].as_array().unwrap().clone();
        assert!(input(&later).starts_with(&input(&earlier)));
    }
    let turns = turns(&proxy.wait_for_log_times("\"outcome\"", 4).await);
    let told: Vec<_> = turns
        .iter()
        .map(|turn| {
            let costs = turn["cost"].as_f64().unwrap() > 0.0;
            let agent = turn["agent"].as_str();
            (
                turn["route"].as_str().unwrap(),
                turn["session"].as_str().unwrap(),
                agent,
                costs,
            )
        })
        .collect();
    let of_root = ("up/large", "thread-0", None, true);
    let of_scout = ("cheap/small", "thread-1", Some("/root/scout"), false);
    assert_eq!(told, [of_root, of_scout, of_root, of_scout]);
    for turn in &turns[2..] {
        assert_eq!(turn["shared_percent"], "100.0", "{turn}");
    }
}

/// Promise: A sub-agent of Codex that asks for a model that no provider has gets the model of
/// `default` in `[codex.agents]`, with a note. One that asks for a model that there is gets that.
#[kit::test]
async fn a_sub_agent_without_a_model_that_is_served_gets_the_default_one() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let models = "passthrough = false\n[[providers.up.models]]\nid = \"large\"\n\
        [[providers.up.models]]\nid = \"small\"";
    for (table, of_unknown) in [
        ("", "up/large"),
        ("[codex.agents]\ndefault = \"small\"", "up/small"),
        ("[codex.agents]\nexplorer = \"small\"", "up/large"),
    ] {
        let setup = Setup::new().provider(models).tables(table);
        let proxy = Proxy::start_with(&player, setup).await;
        let route = async |model: &str, headers: &[(&str, &str)]| {
            let body = json!({"model": model, "input": "go"});
            let reply = proxy.post_with(&body, headers).await;
            let route = reply.header("x-respondent-route").unwrap_or_default();
            let notes = reply.header("x-respondent-notes").unwrap_or_default();
            (route.to_owned(), notes.contains("default_model"))
        };
        let expected = |route: &str, is_noted| (route.to_owned(), is_noted);
        assert_eq!(route("large", ROOT).await, expected("up/large", false));
        assert_eq!(route("large", SCOUT).await, expected("up/large", false));
        assert_eq!(
            route("gpt-6-mini", SCOUT).await,
            expected(of_unknown, true),
            "{table}"
        );
        let title = [
            ("originator", "codex_exec"),
            ("session-id", "thread-0"),
            (
                "x-codex-turn-metadata",
                r#"{"thread_source":"thread_title"}"#,
            ),
        ];
        assert_eq!(
            route("gpt-6-mini", &title).await,
            expected("up/large", true),
            "{table}"
        );
    }
}

/// Promise: The models that Codex may choose for a sub-agent are told by their window, whether they
/// take images, and their price. Those of `[codex.agents]` are among the first, and have an entry
/// whatever name they have there.
#[kit::test]
async fn the_catalog_tells_what_a_model_is_chosen_by() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let models = "name = \"Up\"\n[[providers.up.models]]\nid = \"large\"\nwindow = 1000000\n\
        images = true\nreasoning = [\"low\", \"high\"]\nprice = { input = 1.25, output = 10.0 }\n\
        [[providers.up.models]]\nid = \"other\"\ndescription = \"Fast.\"\n\
        [[providers.up.models]]\nid = \"small\"\nwindow = 131072\n\
        price = { input = 0.1, output = 0.4 }";
    let listed = async |tables: &str| {
        let setup = Setup::new().provider(models).tables(tables);
        let proxy = Proxy::start_with(&player, setup).await;
        let list: Value = serde_json::from_str(&proxy.get("/v1/models").await.body).unwrap();
        list["models"].as_array().unwrap().clone()
    };
    let infos = listed("").await;
    let described: Vec<_> = infos
        .iter()
        .filter(|info| info["visibility"] == "list")
        .map(|info| {
            let text = |key: &str| info[key].as_str().unwrap().to_owned();
            (text("slug"), text("description"))
        })
        .collect();
    let expected = [
        (
            "large",
            "by Up; 1M tokens; images; $1.25 in, $10 out per million tokens",
        ),
        ("other", "Fast"),
        (
            "small",
            "by Up; 131k tokens; $0.10 in, $0.40 out per million tokens",
        ),
    ];
    assert_eq!(
        described,
        expected.map(|(slug, text)| (slug.to_owned(), text.to_owned()))
    );

    let infos = listed(
        "[routing.aliases]\nquick = \"small\"\n\
         [codex.agents]\ndefault = \"up/small\"\nexplorer = \"quick\"\nworker = \"large\"",
    )
    .await;
    let slugs = infos.iter().map(|info| info["slug"].as_str().unwrap());
    let slugs: Vec<_> = slugs.collect();
    assert_eq!(
        slugs,
        [
            "large", "small", "quick", "other", "up/large", "up/small", "up/other"
        ]
    );
    // Codex begins no sub-agent of a role whose model lacks the effort that it would have.
    let levels = |slug: &str| {
        let info = infos.iter().find(|info| info["slug"] == slug).unwrap();
        info["supported_reasoning_levels"].as_array().unwrap().len()
    };
    assert_eq!(
        ["large", "small", "quick", "other"].map(levels),
        [2, 0, 1, 0]
    );
}
