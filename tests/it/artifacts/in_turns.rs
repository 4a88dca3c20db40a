//! Models read artifacts within a turn, for clients without the MCP server that has these tools.
use adapters::plan::output::artifact_id;
use kit::player::{Player, PlayerWire, RecordedRequest, ScriptedAnswer};
use serde_json::{Value, json};

use crate::bundles::run;
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::history;
use crate::stored::background::ended;
use crate::stored::{client, says, send};
use crate::web_search::server::{engine, setup};
use crate::web_search::web::{call, without_hosted_tools};

const READ: &str = "artifact_read";
const SEARCH: &str = "artifact_search";
const LIST: &str = "artifact_list";

/// An output that is too long for any request. `topic` tells it from others.
fn log_of(topic: &str) -> String {
    let lines = (0..9_000).map(|number| format!("{topic} line {number}\n"));
    lines.collect()
}

/// The history of a session whose tool has returned this.
fn items(output: &str) -> Vec<Value> {
    vec![
        json!({"role": "user", "content": "What does the log say?"}),
        json!({"type": "function_call", "call_id": "c0", "name": "shell", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c0", "output": output}),
    ]
}

fn shell() -> Value {
    json!({"type": "function", "name": "shell", "parameters": {"type": "object"}})
}

/// A request of a client with the tool `shell` alone.
fn request(items: &[Value]) -> Value {
    json!({
        "model": "up/m", "input": items, "prompt_cache_key": "s", "tools": [shell()],
    })
}

async fn proxy(player: &Player) -> Proxy {
    Proxy::start_with(player, Setup::new()).await
}

/// The names of the functions that a request offers.
fn offered(sent: &RecordedRequest) -> Vec<String> {
    let sent = sent.json();
    let tools = sent["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| {
        tool["function"]["name"]
            .as_str()
            .or(tool["name"].as_str())
            .map(str::to_owned)
    };
    tools.filter_map(name).collect()
}

/// The result of the call with this id, as the model gets it.
fn result(sent: &RecordedRequest, id: &str) -> String {
    let history = history(sent);
    let items = history.as_array().unwrap().iter();
    let mut results = items.filter_map(|item| {
        let is_it = item["tool_call_id"] == id
            || (item["call_id"] == id && item["type"] == "function_call_output");
        let text = item["content"].as_str().or(item["output"].as_str());
        text.filter(|_| is_it).map(str::to_owned)
    });
    results.next().unwrap_or_default()
}

/// Promise: A model that sees an excerpt can read the artifact within the turn, with tools that the
/// server runs. The client need not know them: it gets an `mcp_call` item and the answer.
#[kit::test(on_each_wire)]
async fn a_model_reads_an_artifact_in_its_turn(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    let log = log_of("disk");
    let id = artifact_id(&log);
    let part = json!({"id": id, "from_line": 5_001, "lines": 2});
    player.push(answer(
        json!([{"text": "I look."}, call("c1", READ, &part)]),
    ));
    player.push(answer(json!([{"text": "Line 5000 is there."}])));
    let stream = proxy.stream(&request(&items(&log))).await;
    let output = stream.response["output"].as_array().unwrap().clone();
    let kinds: Vec<&str> = output
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["message", "mcp_call", "message"], "{output:?}");
    let shown = &output[1];
    assert_eq!(shown["server_label"], "respondent", "{shown}");
    assert_eq!(
        [&shown["name"], &shown["status"]],
        [READ, "completed"],
        "{shown}"
    );
    assert_eq!(output[2]["content"][0]["text"], "Line 5000 is there.");
    let sent = player.requests();
    assert_eq!(sent.len(), 2);
    assert!(sent[0].body.contains(&format!("artifact: {id}")));
    for sent in &sent {
        assert_eq!(offered(sent), ["shell", READ, SEARCH, LIST]);
    }
    let read = result(&sent[1], "c1");
    let (heading, text) = read.split_once('\n').unwrap();
    assert!(heading.starts_with(&format!("[artifact {id} lines 5001-5002 of 9000, ")));
    let more = "[There is more: read on with from_line 5003.]";
    assert_eq!(text, format!("disk line 5000\ndisk line 5001\n{more}"));
    assert_eq!(shown["output"], read, "{shown}");
}

/// Promise: A request that names no artifact is sent as if there were no tools to read them, byte
/// for byte, and so is any request with `artifacts = false` in `[tools]`.
#[kit::test(on_each_wire)]
async fn nothing_is_offered_without_an_artifact(wire: PlayerWire) {
    let off = Setup::new().tables("[tools]\nartifacts = false");
    let short = items("nothing");
    let long = items(&log_of("disk"));
    let mut sent = Vec::new();
    for (setup, items) in [(Setup::new(), &short), (off.clone(), &short), (off, &long)] {
        let player = player(wire).await;
        let proxy = Proxy::start_with(&player, setup).await;
        // A call of a tool that was not offered is the client's, as it was.
        player.push(answer(json!([call("c1", READ, &json!({"id": "art_1"}))])));
        let response = proxy.stream(&request(items)).await.response;
        let output = &response["output"][0];
        assert_eq!([&output["type"], &output["name"]], ["function_call", READ]);
        sent.push(player.requests().remove(0));
    }
    assert_eq!(sent[0].body, sent[1].body);
    assert!(sent[2].body.contains("artifact: art_"));
    assert_eq!(offered(&sent[2]), ["shell"]);
}

/// Promise: A client that has tools to read artifacts itself, such as those of the server's own MCP
/// server, keeps them: the server offers none. Nor does it if the client forbids calls.
#[kit::test(on_each_wire)]
async fn the_tools_of_the_client_win(wire: PlayerWire) {
    let function =
        |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let namespace = json!({
        "type": "namespace", "name": "mcp__respondent", "description": "Artifacts.",
        "tools": [function(SEARCH)],
    });
    let log = log_of("disk");
    for (tools, choice, expected) in [
        (json!([shell(), function(READ)]), "auto", true),
        (
            json!([shell(), function("mcp__respondent__artifact_list")]),
            "auto",
            true,
        ),
        (json!([shell(), namespace]), "auto", true),
        (json!([shell()]), "none", true),
        // No server of the client.
        (
            json!([shell(), function("my_artifact_read")]),
            "auto",
            false,
        ),
    ] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
        player.push(says("Done."));
        let mut asked = request(&items(&log));
        asked["tools"] = tools;
        asked["tool_choice"] = json!(choice);
        proxy.response(&asked).await;
        let sent = player.requests().remove(0);
        let all = sent.json()["tools"].to_string();
        let ours = [READ, SEARCH, LIST].map(|name| format!("\"name\":\"{name}\""));
        let count = ours
            .iter()
            .map(|ours| all.matches(ours).count())
            .sum::<usize>();
        let own = asked["tools"].to_string();
        let of_client = ours.iter().filter(|ours| own.contains(*ours)).count();
        let is_chat_namespace = wire == PlayerWire::Chat && own.contains("namespace");
        let of_client = of_client - usize::from(is_chat_namespace);
        assert_eq!(count == of_client, expected, "{own}, {choice}: {all}");
    }
}

/// A client's own tool is called although the server has one of its name.
#[kit::test(on_each_wire)]
async fn a_tool_of_the_client_with_the_same_name_is_the_clients(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    player.push(answer(json!([call("c1", READ, &json!({"id": "x"}))])));
    let mut asked = request(&items(&log_of("disk")));
    asked["tools"] = json!([{"type": "function", "name": READ, "parameters": {"type": "object"}}]);
    let response = proxy.stream(&asked).await.response;
    assert_eq!(response["output"][0]["type"], "function_call", "{response}");
    assert_eq!(player.requests().len(), 1);
}

/// Promise: A call that the client demands (`tool_choice`) is demanded until the model has made it:
/// reading an artifact does not count. Where the client allows some tools only, the model cannot
/// read.
#[kit::test(on_each_wire)]
async fn the_choice_of_the_client_holds(wire: PlayerWire) {
    let log = log_of("disk");
    let named = json!({"type": "function", "name": "shell"});
    for choice in [json!("required"), named] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
        let part = json!({"id": artifact_id(&log), "lines": 2});
        player.push(answer(json!([call("c1", READ, &part)])));
        player.push(answer(json!([call("c2", "shell", &json!({}))])));
        let mut asked = request(&items(&log));
        asked["tool_choice"] = choice.clone();
        let response = proxy.stream(&asked).await.response;
        let output = response["output"].as_array().unwrap();
        let kinds: Vec<&str> = output
            .iter()
            .map(|it| it["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["mcp_call", "function_call"], "{choice}");
        let sent = player.requests();
        let choices: Vec<Value> = sent
            .iter()
            .map(|it| it.json()["tool_choice"].clone())
            .collect();
        assert!(!choices[0].is_null(), "{choice}");
        assert_eq!(choices[0], choices[1], "{choice}");
    }
    let player = player(wire).await;
    let proxy = proxy(&player).await;
    player.push(says("Done."));
    let mut asked = request(&items(&log));
    asked["tool_choice"] = json!({
        "type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "function", "name": "shell"}],
    });
    proxy.response(&asked).await;
    let sent = player.requests().remove(0);
    match wire {
        PlayerWire::Chat => assert_eq!(offered(&sent), ["shell"]),
        // The list stays as it is for the cache, and the choice says what may be called.
        PlayerWire::Responses => assert_eq!(sent.json()["tool_choice"], asked["tool_choice"]),
    }
}

/// Promise: An answer reads at most about 48,000 characters of artifacts, however it asks for them.
/// Then the model is told so, and goes on.
#[kit::test(on_each_wire)]
async fn an_answer_reads_only_so_much(wire: PlayerWire) {
    let log = log_of("a disk with a long name in the second rack");
    let id = artifact_id(&log);
    // Reads of 20,000 characters, and searches of more than 10,000.
    for (name, calls) in [(READ, 5), (SEARCH, 6)] {
        let player = player(wire).await;
        let proxy = proxy(&player).await;
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
        assert!(why.contains("the limit of 48000 characters"), "{why}");
        let sent = player.requests().pop().unwrap();
        let results = (0..calls).map(|number| result(&sent, &format!("r{number}")));
        let results: Vec<String> = results.collect();
        assert_eq!(results[calls - 1], why);
        let all: usize = results.iter().map(|text| text.chars().count()).sum();
        assert!((45_000..51_000).contains(&all), "{name}: {all}");
    }
}

/// Promise: The model cannot read an artifact of another client, and is told nothing of it: it is
/// as one that does not exist.
#[kit::test]
async fn artifacts_of_others_are_not_there() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new()
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
    let asked = request(&items(&own));
    let reply = send(&proxy, "bob", "POST /v1/responses", &asked).await;
    let response: Value = serde_json::from_str(&reply.body).unwrap();
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
    assert!(!reply.body.contains("secret line"), "{}", reply.body);
}

/// Promise: A list and a search of all have the artifacts of the session alone. An artifact whose id
/// the model knows can be read in every session of the client, such as in a fork.
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
    let output = stream.response["output"].as_array().unwrap();
    let kinds: Vec<&str> = output
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["mcp_call", "mcp_call", "message"], "{output:?}");
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
    let output = ended["output"].as_array().unwrap().iter();
    let kinds: Vec<&str> = output.map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["mcp_call", "message"], "{ended}");
}

/// Promise: A model may search the web and read artifacts in one round. Each call is answered by its
/// tool, and shown as its item.
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
    let output = stream.response["output"].as_array().unwrap();
    let kinds = output.iter().map(|it| it["type"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    assert_eq!(kinds, ["web_search_call", "mcp_call", "message"]);
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
