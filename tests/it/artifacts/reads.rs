//! What models read within turns: how much, of whose artifacts, and what becomes of it afterwards.
use adapters::plan::output::artifact_id;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::in_turns::{LIST, READ, SEARCH, items, log_of, offered, proxy, request, result, shell};
use crate::bundles::run;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::history::shape;
use crate::rounds::server::history;
use crate::rounds::table::types;
use crate::stored::background::{ended, path_of};
use crate::stored::{client, says, send};
use crate::web_search::server::{engine, setup};
use crate::web_search::web::{call, without_hosted_tools};
use crate::websocket::client::Socket;

/// Promise: An answer reads at most about 48,000 characters of artifacts, or as many as
/// `max_artifact_chars` in `[tools]` says, however it asks for them. Then the model is told so, and
/// goes on.
#[kit::test(on_each_wire)]
async fn an_answer_reads_only_so_much(wire: PlayerWire) {
    let log = log_of("a disk with a long name in the second rack");
    let id = artifact_id(&log);
    // Reads of 20,000 characters, and searches of more than 10,000.
    for (name, calls, most) in [(READ, 5, 48_000), (SEARCH, 6, 48_000), (READ, 3, 20_000)] {
        let player = player(wire).await;
        let setup = Setup::new().provider(without_hosted_tools(wire));
        let setup = setup.tables(&format!("[tools]\nmax_artifact_chars = {most}"));
        let proxy = Proxy::start_with(&player, setup).await;
        let arguments = |number: usize| match name {
            READ => json!({"id": id, "from_line": 1 + number * 100}),
            _ => {
                json!({"id": id, "query": format!("line {}", 1 + number % 9), "limit": 200, "context": 5 - number / 9})
            }
        };
        for number in 0..calls {
            let step = call(&format!("r{number}"), name, &arguments(number));
            player.push(answer(json!([step])));
        }
        player.push(says("Enough."));
        let stream = proxy.stream(&request(&items(&log))).await;
        assert_eq!(stream.response["status"], "completed");
        let output = stream.response["output"].as_array().unwrap();
        assert_eq!(output.len(), calls + 1);
        assert_eq!(output[0]["status"], "completed", "{}", output[0]);
        let last = &output[calls - 1];
        assert_eq!(last["status"], "failed", "{last}");
        assert!(last["output"].is_null());
        let why = last["error"]["content"][0]["text"].as_str().unwrap();
        assert!(
            why.contains(&format!("the limit of {most} characters")),
            "{why}"
        );
        let sent = player.requests().pop().unwrap();
        let results = (0..calls).map(|number| result(&sent, &format!("r{number}")));
        let results: Vec<String> = results.collect();
        assert_eq!(results[calls - 1], why);
        let all: usize = results.iter().map(|text| text.chars().count()).sum();
        assert!((most - 3_000..most + 3_000).contains(&all), "{name}: {all}");
    }
}

/// Promise: The model cannot read an artifact of another client, and is told nothing of it: it is
/// as one that does not exist.
#[kit::test(on_each_wire)]
async fn artifacts_of_others_are_not_there(wire: PlayerWire) {
    for way in ["whole", "stream", "background", "websocket"] {
        assert_are_not_there(wire, way).await;
    }
}

async fn assert_are_not_there(wire: PlayerWire, way: &str) {
    let player = player(wire).await;
    let setup = Setup::new()
        .provider(without_hosted_tools(wire))
        .tables(&client("alice", ""))
        .tables(&client("bob", ""));
    let proxy = Proxy::start_with(&player, setup).await;
    let (secret, own) = (log_of("secret"), log_of("disk"));
    player.push(says("Kept."));
    let asked = request(&items(&secret));
    send(&proxy, "alice", "POST /v1/responses", &asked).await;
    let foreign = artifact_id(&secret);
    let unknown = artifact_id("nothing");
    player.push(answer(json!([
        call("r1", READ, &json!({"id": foreign})),
        call("r2", READ, &json!({"id": unknown})),
        call("r3", SEARCH, &json!({"id": foreign, "query": "secret"})),
        call("r4", SEARCH, &json!({"query": "secret"})),
        call("r5", LIST, &json!({})),
        call("r6", READ, &json!({"id": "art_1"})),
    ])));
    player.push(says("None."));
    let mut asked = request(&items(&own));
    let route = "POST /v1/responses";
    let response = match way {
        "whole" => send(&proxy, "bob", route, &asked).await.body,
        "stream" => {
            asked["stream"] = json!(true);
            let stream = send(&proxy, "bob", route, &asked).await.stream();
            stream.response.to_string()
        }
        "background" => {
            asked["background"] = json!(true);
            let queued = send(&proxy, "bob", route, &asked).await;
            let queued: Value = serde_json::from_str(&queued.body).unwrap();
            let events = format!("GET {}?stream=true", path_of(&queued));
            let stream = send(&proxy, "bob", &events, &json!({})).await.stream();
            stream.response.to_string()
        }
        _ => {
            let bearer = "authorization: Bearer bob-token-1\r\n";
            let mut socket = Socket::open_with(&proxy, bearer).await;
            socket.turn(&asked).await.response.to_string()
        }
    };
    let response: Value = serde_json::from_str(&response).unwrap();
    assert_eq!(response["status"], "completed", "{response}");
    let sent = &player.requests()[2];
    let told = ["r1", "r2", "r3", "r4", "r5", "r6"].map(|id| result(sent, id));
    assert!(told[0].contains("There is no artifact"), "{}", told[0]);
    assert_eq!(told[0].replace(&foreign, &unknown), told[1]);
    assert_eq!(told[2], told[0]);
    assert!(told[3].contains("no artifact has"), "{}", told[3]);
    assert!(told[4].contains(&artifact_id(&own)), "{}", told[4]);
    assert!(
        told[5].contains("Copy the id from the excerpt"),
        "{}",
        told[5]
    );
    assert!(!told[3..].concat().contains(&foreign));
    assert!(!response.to_string().contains("secret line"), "{response}");
}

/// Promise: A list and a search of all have the artifacts of the session alone. An artifact whose
/// id the model knows can be read in every session of the client, such as in a fork.
#[kit::test]
async fn lists_are_of_the_session() {
    let player = player(PlayerWire::Chat).await;
    let proxy = proxy(&player).await;
    let (first, second) = (log_of("disk"), log_of("mail"));
    player.push(says("Kept."));
    proxy.response(&request(&items(&first))).await;
    player.push(answer(json!([
        call("r1", LIST, &json!({})),
        call("r2", SEARCH, &json!({"query": "line 8999"})),
        call(
            "r3",
            READ,
            &json!({"id": artifact_id(&first), "from_line": 9_000})
        ),
        call("r4", LIST, &json!({"session": "s"})),
    ])));
    player.push(says("Done."));
    let mut fork = request(&items(&second));
    fork["prompt_cache_key"] = json!("fork");
    proxy.stream(&fork).await;
    let sent = &player.requests()[2];
    let told = ["r1", "r2", "r3", "r4"].map(|id| result(sent, id));
    for found in &told[..2] {
        assert!(found.contains(&artifact_id(&second)), "{found}");
        assert!(!found.contains(&artifact_id(&first)), "{found}");
    }
    assert!(told[2].ends_with("]\ndisk line 8999\n"), "{}", told[2]);
    assert!(told[3].contains("do not fit"), "{}", told[3]);
}

/// Promise: What the model reads in one round shares the room of a round, also in scripts whose
/// characters take several bytes. It is never kept as an artifact of its own, in this turn or in
/// later ones.
#[kit::test(on_each_wire)]
async fn what_was_read_is_not_kept_again(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    let texts = ["记录磁盘的状态", "メールの記録です"].map(log_of);
    let mut history = items(&texts[0]);
    history.push(
        json!({"type": "function_call", "call_id": "c9", "name": "shell", "arguments": "{}"}),
    );
    history.push(json!({"type": "function_call_output", "call_id": "c9", "output": texts[1]}));
    let ids = [0, 1].map(|at| artifact_id(&texts[at]));
    player.push(answer(json!([
        call("r1", READ, &json!({"id": ids[0]})),
        call("r2", READ, &json!({"id": ids[1]})),
        call("r3", READ, &json!({"id": ids[0]})),
    ])));
    player.push(says("Read."));
    let first = proxy.stream(&request(&history)).await.response;
    let sent = player.requests().remove(1);
    let read = ["r1", "r2"].map(|id| result(&sent, id));
    let all: usize = read.iter().map(String::len).sum();
    assert!((40_000..=50 << 10).contains(&all), "{all}");
    for (at, read) in read.iter().enumerate() {
        let (heading, page) = read.split_once('\n').unwrap();
        assert!(
            heading.starts_with(&format!("[artifact {} lines 1-", ids[at])),
            "{heading}"
        );
        let (page, note) = page.rsplit_once('\n').unwrap();
        assert!(texts[at].starts_with(page), "{page}");
        assert!(
            note.contains("read on from there with artifact_read"),
            "{note}"
        );
    }
    let again = result(&sent, "r3");
    assert!(again.contains("The same call was made before"), "{again}");
    history.extend(first["output"].as_array().unwrap().iter().cloned());
    history.push(json!({"role": "user", "content": "And then?"}));
    player.push(says("Nothing."));
    proxy.stream(&request(&history)).await;
    let kept: Value = serde_json::from_str(&proxy.get("/v1/artifacts").await.body).unwrap();
    let kept = kept["data"].as_array().unwrap().iter();
    let mut kept: Vec<&str> = kept.map(|it| it["id"].as_str().unwrap()).collect();
    kept.sort_unstable();
    let mut expected = ids.each_ref().map(String::as_str);
    expected.sort_unstable();
    assert_eq!(kept, expected);
}

/// Promise: Where the window has no room for all that was read, the model gets its beginning. That
/// is no artifact of its own either.
#[kit::test(on_each_wire)]
async fn a_small_window_gets_the_beginning(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().provider("models = [{ id = \"m\", window = 16384 }]");
    let proxy = Proxy::start_with(&player, setup).await;
    let log = log_of("disk");
    let id = artifact_id(&log);
    player.push(answer(json!([call("c1", READ, &json!({"id": id}))])));
    player.push(says("Read."));
    proxy.stream(&request(&items(&log))).await;
    let read = result(&player.requests()[1], "c1");
    assert!(
        read.starts_with(&format!("[artifact {id} lines 1-")),
        "{read}"
    );
    assert!(read.ends_with("in smaller pieces.]"), "{read}");
    let kept: Value = serde_json::from_str(&proxy.get("/v1/artifacts").await.body).unwrap();
    assert_eq!(kept["data"].as_array().unwrap().len(), 1, "{kept}");
}

/// Promise: A further round may go to another provider, which gets what was read.
#[kit::test(on_each_wire)]
async fn another_provider_goes_on_after_a_read(wire: PlayerWire) {
    let (up, other) = (player(wire).await, player(wire).await);
    let setup = Setup::new()
        .provider("max_retries = 0")
        .tables("[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]")
        .other("other", &other, "");
    let proxy = Proxy::start_with(&up, setup).await;
    let log = log_of("disk");
    let part = json!({"id": artifact_id(&log), "from_line": 7, "lines": 2});
    up.push(answer(json!([call("c1", READ, &part)])));
    up.push(ScriptedAnswer::error(500, "broken"));
    let more = json!({"id": artifact_id(&log), "from_line": 9, "lines": 2});
    other.push(answer(json!([call("c2", READ, &more)])));
    other.push(says("Read."));
    let stream = proxy.stream(&request(&items(&log))).await;
    assert_eq!(types(&stream.response), "mcp_call mcp_call message");
    let sent = other.requests();
    assert!(result(&sent[1], "c1").contains("disk line 6\n"));
    assert!(result(&sent[1], "c2").contains("disk line 8\n"));
    assert_eq!(offered(&sent[0]), ["shell", READ, SEARCH, LIST]);
}

/// Promise: The next turn of the session begins with the bytes of the last request, with what was
/// read in it, whether or not the client sends the `mcp_call` items back or names the response
/// before it.
#[kit::test(on_each_wire)]
async fn the_next_turn_continues_what_was_read(wire: PlayerWire) {
    for (keeps_items, by_id) in [(true, false), (false, false), (false, true)] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
        let log = log_of("disk");
        let part = json!({"id": artifact_id(&log), "lines": 2});
        player.push(answer(json!([call("c1", READ, &part)])));
        player.push(says("Read."));
        let first = proxy.stream(&request(&items(&log))).await.response;
        let message = json!({"role": "user", "content": "And then?"});
        let asked = if by_id {
            let mut asked = request(&[message]);
            asked["previous_response_id"] = first["id"].clone();
            asked
        } else {
            let mut history = items(&log);
            let output = first["output"].as_array().unwrap().iter();
            let kept = output.filter(|item| keeps_items || item["type"] != "mcp_call");
            history.extend(kept.cloned());
            history.push(message);
            request(&history)
        };
        player.push(says("Nothing."));
        let reply = proxy.post(&asked).await;
        let prefix = reply.header("x-respondent-prefix").unwrap();
        assert!(prefix.contains("shared=100.0%"), "{prefix}");
        let sent = player.requests();
        assert_eq!(sent[0].json()["tools"], sent[2].json()["tools"]);
        let [before, after] = [1, 2].map(|at| history(&sent[at]).as_array().unwrap().clone());
        assert_eq!(after[..before.len()], before[..], "{keeps_items} {by_id}");
        assert_eq!(after.len(), before.len() + 2, "{keeps_items} {by_id}");
    }
}

/// Promise: A bundle of a turn that read an artifact has what was read, and its replay is equal.
#[kit::test(on_each_wire)]
async fn turns_that_read_replay(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().server("data_dir = \"data\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let log = log_of("disk");
    let part = json!({"id": artifact_id(&log), "lines": 2});
    player.push(answer(json!([
        call("c1", READ, &part),
        call("c2", READ, &json!({"id": "art_1"}))
    ])));
    player.push(says("Read."));
    proxy.stream(&request(&items(&log))).await;
    // One without artifacts in the same bundle.
    player.push(says("Nothing."));
    proxy.stream(&request(&items("short"))).await;
    run(&proxy, "bundle create --since 1h --output b.tar.zst")
        .await
        .ok();
    let replayed = run(&proxy, "replay b.tar.zst --events").await.ok();
    // Whoever makes a bundle replays the turn as well, so that equal is not enough.
    let shown = format!("[artifact {} lines 1-2 of 9000, ", artifact_id(&log));
    assert!(replayed.contains(&shown), "{replayed}");
    assert!(
        replayed.contains("equal") && !replayed.contains("differ"),
        "{replayed}"
    );
}

/// Promise: A background response reads artifacts like any other.
#[kit::test]
async fn background_responses_read() {
    let player = player(PlayerWire::Chat).await;
    let proxy = proxy(&player).await;
    let log = log_of("disk");
    let part = json!({"id": artifact_id(&log), "lines": 2});
    player.push(answer(json!([call("c1", READ, &part)])));
    player.push(says("Read."));
    let mut asked = request(&items(&log));
    asked["background"] = json!(true);
    let begun = proxy.post(&asked).await;
    let ended = ended(&proxy, &serde_json::from_str(&begun.body).unwrap()).await;
    assert_eq!(types(&ended), "mcp_call message", "{ended}");
}

/// Promise: A model may search the web and read artifacts in one round. Each call is answered by
/// its tool, and shown as its item.
#[kit::test(on_each_wire)]
async fn searches_and_reads_go_together(wire: PlayerWire) {
    let (player, engine) = (player(wire).await, engine().await);
    let setup = setup(&engine).provider(without_hosted_tools(wire));
    let proxy = Proxy::start_with(&player, setup).await;
    let log = log_of("disk");
    let part = json!({"id": artifact_id(&log), "lines": 2});
    player.push(answer(json!([
        call("c1", "web_search", &json!({"query": "weather in Ulm"})),
        call("c2", READ, &part),
    ])));
    player.push(says("Both."));
    let mut asked = request(&items(&log));
    asked["tools"] = json!([{"type": "web_search"}, shell()]);
    let stream = proxy.stream(&asked).await;
    assert_eq!(types(&stream.response), "web_search_call mcp_call message");
    let sent = player.requests().remove(1);
    assert!(result(&sent, "c1").contains("It is 21 degrees."));
    assert!(result(&sent, "c2").contains("disk line 1\n"));
    let names = [
        "shell",
        "web_search",
        "open_page",
        "find_in_page",
        READ,
        SEARCH,
        LIST,
    ];
    assert_eq!(offered(&sent), names);
    // Without an artifact the turn searches as ever.
    player.push(says("None."));
    asked["input"] = json!(items("short"));
    proxy.stream(&asked).await;
    assert_eq!(offered(&player.requests()[2]), names[..4]);
}

/// Promise: A session may go on with a provider of another wire after an answer with calls of the
/// proxy and of the client: the provider gets both calls as one answer, with their results.
#[kit::test(on_each_wire)]
async fn a_session_goes_on_with_another_wire_after_a_read(wire: PlayerWire) {
    let other_wire = match wire {
        PlayerWire::Chat => PlayerWire::Responses,
        PlayerWire::Responses => PlayerWire::Chat,
    };
    let (up, other) = (player(wire).await, player(other_wire).await);
    let setup = Setup::new()
        .provider(without_hosted_tools(wire))
        .wire_of(&up)
        .other("other", &other, without_hosted_tools(other_wire));
    let proxy = Proxy::start_with(&up, setup).await;
    let log = log_of("disk");
    let part = json!({"id": artifact_id(&log), "from_line": 7, "lines": 2});
    up.push(answer(json!([
        call("c1", READ, &part),
        call("c2", "shell", &json!({})),
    ])));
    let first = proxy.stream(&request(&items(&log))).await.response;
    assert_eq!(types(&first), "mcp_call function_call");
    let mut history = items(&log);
    history.extend(first["output"].as_array().unwrap().iter().cloned());
    history.push(json!({"type": "function_call_output", "call_id": "c2", "output": "done"}));
    let mut asked = request(&history);
    asked["model"] = json!("other/m");
    other.push(says("Read."));
    proxy.stream(&asked).await;
    let sent = other.requests();
    assert_eq!(shape(&sent[0]), "user (c0) c0! (c1 c2) c1! c2!");
    assert!(result(&sent[0], "c1").contains("disk line 6\n"));
    assert_eq!(result(&sent[0], "c2"), "done");
}
