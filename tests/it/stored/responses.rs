//! Responses that are stored: read, continued, deleted.

use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{asks, get, id, killed, messages, ok, provider, restarted};
use crate::faults::{answer, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

#[kit::test]
async fn a_stored_history_is_compacted_like_the_same_items_in_the_request() {
    let summary = "The user is Ada and likes tea. Nothing is to be done; go on from here.";
    let player = provider(&["Hello Ada.", "Noted.", summary, summary]).await;
    let proxy = Proxy::start(&player).await;
    let first = proxy.response(&asks("I am Ada.", json!({}))).await;
    let more = json!({"previous_response_id": id(&first)});
    let second = proxy.response(&asks("I like tea.", more)).await;
    let stored = asks("Go on.", json!({"previous_response_id": id(&second)}));
    let user = |text: &str| json!({"type": "message", "role": "user", "content": text});
    let input = json!([
        user("I am Ada."),
        first["output"][0],
        user("I like tea."),
        second["output"][0],
        user("Go on."),
    ]);
    let mut outputs = Vec::new();
    for body in [stored, asks(input, json!({}))] {
        let path = "/v1/responses/compact";
        let compacted = ok(&proxy.post_to(path, &body, &[]).await);
        let output = compacted["output"].as_array().unwrap().iter();
        let shown = output.map(|item| (item["type"].clone(), item["content"][0]["text"].clone()));
        outputs.push(shown.collect::<Vec<_>>());
    }
    let message = |text: &str| (json!("message"), json!(text));
    let expected = [
        message("I am Ada."),
        message("I like tea."),
        message("Go on."),
        (json!("compaction"), Value::Null),
    ];
    assert_eq!(outputs, [&expected, &expected]);
    assert_eq!(messages(&player, 2), messages(&player, 3));
    assert_eq!(player.requests().len(), 4);
}

/// Promise: A stored response has each item of its own input and its output once.
#[kit::test]
async fn a_response_is_stored_with_its_items() {
    let player = provider(&["Hello Ada.", "You are Ada."]).await;
    let proxy = Proxy::start(&player).await;
    let first = proxy
        .response(&asks("I am Ada.", json!({"metadata": {"topic": "names"}})))
        .await;
    assert_eq!(first["store"], true);
    let path = format!("/v1/responses/{}", id(&first));
    assert_eq!(get(&proxy, &path).await, first);
    let body = asks("Who am I?", json!({"previous_response_id": id(&first)}));
    let second = proxy.stream(&body).await.response;
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(
        messages(&player, 1),
        [
            "user: I am Ada.",
            "assistant: Hello Ada.",
            "user: Who am I?"
        ]
    );
    // The estimate counts the history that a request continues.
    let mut counted = Vec::new();
    for body in [asks("Who am I?", json!({})), body] {
        let path = "/v1/responses/input_tokens";
        let count = ok(&proxy.post_to(path, &body, &[]).await);
        counted.push(count["input_tokens"].as_u64().unwrap());
    }
    assert!(counted[1] > counted[0], "{counted:?}");
    let items = get(
        &proxy,
        &format!("/v1/responses/{}/input_items", id(&second)),
    )
    .await;
    assert_eq!(items["data"].as_array().unwrap().len(), 1);
    let item = &items["data"][0];
    assert_eq!(item["content"][0]["text"], "Who am I?");
    assert_eq!(
        (&items["first_id"], &items["last_id"]),
        (&item["id"], &item["id"])
    );
}

/// Promise: Instructions are sent with their own request only, and are not stored as items.
#[kit::test]
async fn instructions_are_not_carried_over() {
    let player = provider(&["a", "b"]).await;
    let proxy = Proxy::start(&player).await;
    let first = proxy
        .response(&asks("one", json!({"instructions": "Be brief."})))
        .await;
    let more = json!({"previous_response_id": id(&first)});
    proxy.response(&asks("two", more)).await;
    assert_eq!(messages(&player, 0)[0], "system: Be brief.");
    assert_eq!(
        messages(&player, 1),
        ["user: one", "assistant: a", "user: two"]
    );
    let items = get(&proxy, &format!("/v1/responses/{}/input_items", id(&first))).await;
    assert!(!items.to_string().contains("Be brief."));
}

/// Promise: A response that continues another one sends its calls with their results, under the
/// same ids.
#[kit::test]
async fn a_call_and_its_result_are_in_the_next_request_with_their_ids() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([
        {"call": {"id": "call_7", "name": "read", "arguments": "{\"file\":\"a\"}"}}
    ])));
    player.push(answer(json!([{"text": "done"}])));
    let proxy = Proxy::start(&player).await;
    let tools = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let first = proxy
        .response(&asks("read a", json!({"tools": tools})))
        .await;
    let result = json!([{"type": "function_call_output", "call_id": "call_7", "output": "it"}]);
    let more = json!({"tools": tools, "previous_response_id": id(&first)});
    proxy.response(&asks(result, more)).await;
    let request = player.requests()[1].json();
    assert_eq!(request["messages"][1]["tool_calls"][0]["id"], "call_7");
    assert_eq!(request["messages"][2]["tool_call_id"], "call_7");
    assert_eq!(request["messages"][2]["content"], "it");
}

/// Promise: A response is acknowledged when it is on the disk, and reads back as it was sent, also
/// after the program was killed.
#[kit::test]
async fn what_was_acknowledged_reads_back_also_after_a_kill() {
    let player = provider(&["one", "two", "three"]).await;
    let setup = Setup::new().wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let first = proxy.response(&asks("1", json!({}))).await;
    let second = proxy
        .stream(&asks("2", json!({"previous_response_id": id(&first)})))
        .await
        .response;
    let proxy = killed(proxy, &setup).await;
    for response in [&first, &second] {
        let path = format!("/v1/responses/{}", id(response));
        assert_eq!(get(&proxy, &path).await, *response);
    }
    proxy
        .response(&asks("3", json!({"previous_response_id": id(&second)})))
        .await;
    assert_eq!(
        messages(&player, 2),
        [
            "user: 1",
            "assistant: one",
            "user: 2",
            "assistant: two",
            "user: 3"
        ]
    );
    let proxy = restarted(proxy, &setup).await;
    get(&proxy, &format!("/v1/responses/{}", id(&first))).await;
}

#[kit::test]
async fn stored_responses_branch() {
    let player = provider(&["root", "left", "right", "left again"]).await;
    let proxy = Proxy::start(&player).await;
    let continues = |of: &Value| json!({"previous_response_id": id(of)});
    let root = proxy.response(&asks("0", json!({}))).await;
    let left = proxy.response(&asks("l", continues(&root))).await;
    let right = proxy.response(&asks("r", continues(&root))).await;
    // The root goes, and what follows it keeps its history.
    let path = format!("/v1/responses/{}", id(&root));
    assert_eq!(ok(&proxy.delete(&path).await)["deleted"], true);
    proxy.get(&path).await.error(404);
    proxy.delete(&path).await.error(404);
    proxy.response(&asks("l2", continues(&left))).await;
    assert_eq!(
        messages(&player, 3),
        [
            "user: 0",
            "assistant: root",
            "user: l",
            "assistant: left",
            "user: l2"
        ]
    );
    let path = format!("/v1/responses/{}", id(&right));
    assert_eq!(get(&proxy, &path).await, right);
}

/// Promise: An id that cannot exist is refused like one that does not exist.
#[kit::test]
async fn ids_that_cannot_exist_or_do_not_exist_are_not_found() {
    let player = provider(&[]).await;
    let proxy = Proxy::start(&player).await;
    let long = format!("resp_{}", "a".repeat(1_000_000));
    for unknown in ["resp_1", "resp_%", "conv_1", &long] {
        let body = asks("x", json!({"previous_response_id": unknown}));
        let error = proxy.post(&body).await.error(400);
        assert_eq!(error["code"], "previous_response_not_found");
        assert!(error["message"].as_str().unwrap().len() < 300);
    }
    let long = format!("conv_{}", "a".repeat(1_000_000));
    for unknown in ["conv_1", "resp_1", &long] {
        let body = asks("x", json!({"conversation": unknown}));
        let error = proxy.post(&body).await.error(404);
        assert!(error["message"].as_str().unwrap().len() < 300);
    }
    for path in ["resp_1", "nothing", "resp_..%2f..%2fetc"] {
        let path = format!("/v1/responses/{path}");
        proxy.get(&path).await.error(404);
        proxy.delete(&path).await.error(404);
        proxy.get(&format!("{path}/input_items")).await.error(404);
    }
    let body = asks(
        "x",
        json!({"previous_response_id": "resp_1", "conversation": "conv_1"}),
    );
    let error = proxy.post(&body).await.error(400);
    assert_eq!(error["code"], "mutually_exclusive_parameters");
    assert!(player.requests().is_empty());
}

/// Promise: `GET /v1/responses` lists the stored responses of the caller alone, each once, in pages
/// that are limited in number and bytes. A WebSocket at the same path is still one.
#[kit::test]
async fn a_client_lists_its_stored_responses_in_pages() {
    let player = provider(&["one", "two", "three"]).await;
    let proxy = Proxy::start(&player).await;
    let empty =
        json!({"object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false});
    assert_eq!(get(&proxy, "/v1/responses").await, empty);
    let first = proxy.response(&asks("1", json!({}))).await;
    proxy
        .response(&asks("not kept", json!({"store": false})))
        .await;
    let more = json!({"background": true, "previous_response_id": id(&first)});
    let job = ok(&proxy.post(&asks("3", more)).await);
    let job = id(&job);
    let path = format!("/v1/responses/{job}?stream=true");
    let second = proxy.get(&path).await.stream().response;
    let page = |data: &[&Value], has_more: bool| {
        let id = |at: Option<&&Value>| at.map(|it| it["id"].clone());
        json!({"object": "list", "data": data, "first_id": id(data.first()),
            "last_id": id(data.last()), "has_more": has_more})
    };
    for (query, expected) in [
        ("", page(&[&second, &first], false)),
        ("?limit=1", page(&[&second], true)),
        (&format!("?limit=1&after={job}"), page(&[&first], false)),
        ("?order=asc", page(&[&first, &second], false)),
        ("?order=asc&limit=1", page(&[&first], true)),
        (&format!("?order=asc&after={job}"), empty.clone()),
        ("?status=completed&limit=1", page(&[&second], true)),
        ("?status=failed", empty.clone()),
    ] {
        assert_eq!(
            get(&proxy, &format!("/v1/responses{query}")).await,
            expected,
            "{query}"
        );
    }
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("order=up", "order"),
        ("status=good", "status"),
        ("after=resp_1", "after"),
    ] {
        let error = proxy
            .get(&format!("/v1/responses?{query}"))
            .await
            .error(400);
        assert_eq!(
            (&error["param"], &error["code"]),
            (&json!(param), &json!("invalid_value"))
        );
    }
    ok(&proxy.delete(&format!("/v1/responses/{job}")).await);
    assert_eq!(get(&proxy, "/v1/responses").await, page(&[&first], false));
}

#[kit::test]
async fn what_codex_sends_is_not_stored() {
    let player = provider(&["a"]).await;
    let proxy = Proxy::start(&player).await;
    let body = streaming(&asks("x", json!({"store": false})));
    let reply = proxy.post_with(&body, CODEX).await;
    let response = reply.stream_for_codex().response;
    assert_eq!(response["store"], false);
    let path = format!("/v1/responses/{}", id(&response));
    proxy.get(&path).await.error(404);
}

#[kit::test]
async fn without_a_store_responses_say_so() {
    let player = provider(&["a"]).await;
    let setup = Setup::new().tables("[responses]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let response = proxy.response(&asks("x", json!({}))).await;
    assert_eq!(response["store"], false);
    let path = format!("/v1/responses/{}", id(&response));
    proxy.get(&path).await.error(404);
    proxy.get("/v1/conversations/conv_1").await.error(404);
    let error = proxy.get("/v1/responses").await.error(404);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("stores no responses")
    );
    let more = json!({"previous_response_id": id(&response)});
    let error = proxy.post(&asks("y", more)).await.error(400);
    assert_eq!(error["code"], "previous_response_not_found");
    let error = proxy
        .post(&asks("y", json!({"background": true})))
        .await
        .error(400);
    assert_eq!(error["param"], "background");
}

#[kit::test]
async fn an_item_is_found_by_its_id_after_a_restart() {
    let player = provider(&["the answer", "b"]).await;
    let setup = Setup::new().wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let first = proxy.response(&asks("x", json!({}))).await;
    let proxy = restarted(proxy, &setup).await;
    let input = json!([
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"role": "user", "content": "y"},
    ]);
    proxy.response(&asks(input, json!({}))).await;
    assert_eq!(messages(&player, 1), ["assistant: the answer", "user: y"]);
}

/// Promise: The log says how many responses were deleted because they were not used for long, and
/// how many are kept.
#[kit::test]
async fn the_log_says_what_was_deleted_and_what_is_kept() {
    let player = provider(&["a", "b", "c"]).await;
    let setup = Setup::new().server("data_dir = \"data\"").wire_of(&player);
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    for input in ["x", "y", "z"] {
        proxy.response(&asks(input, json!({}))).await;
    }
    proxy.kill().await;
    proxy.wait_for_exit().await;
    let database = proxy.folder.path().join("data/artifacts/artifacts.db");
    let connection = rusqlite::Connection::open(database).unwrap();
    let aged = "UPDATE responses SET accessed = 1 WHERE number < 3";
    assert_eq!(connection.execute(aged, []).unwrap(), 2);
    drop(connection);
    let proxy = Proxy::start_in_folder(proxy.folder, &setup).await;
    proxy
        .wait_for_log("deleted 2 responses that were not used for 30 days; 1 kept")
        .await;
}

/// Promise: A long text is stored as it was streamed, byte for byte.
#[kit::test]
async fn a_long_text_is_stored_as_it_was_streamed() {
    let player = player(PlayerWire::Chat).await;
    let pieces: Vec<String> = (0..64)
        .map(|n| format!("{n} «é🦀» \"\\\n\u{1}").repeat(1_000))
        .collect();
    let steps = pieces.iter().map(|piece| json!({"text": piece}));
    player.push(answer(steps.collect()));
    let proxy = Proxy::start(&player).await;
    let stream = proxy.stream(&asks("x", json!({}))).await;
    let text = pieces.concat();
    assert!(text.len() > 1 << 20);
    assert!(stream.text() == text, "the stream differs");
    let path = format!("/v1/responses/{}", id(&stream.response));
    let stored = get(&proxy, &path).await;
    let stored = stored["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(stored == text, "what is stored differs");
}
