//! Background responses that are cut off while a tool with effects runs: what is on record of the
//! call, and what the client and the model get afterwards.
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{allowing, defined, kinds, request, start};
use crate::artifacts::in_turns::result;
use crate::faults::{answer, player};
use crate::proxy::Proxy;
use crate::rounds::server::history;
use crate::stored::background::{begin_body, ended, path_of};
use crate::stored::{killed, says};
use crate::web_search::web::{call, without_hosted_tools};

const UNKNOWN: &str = "not known whether it took effect";

/// A server whose tool `change` never answers the argument `hang`.
async fn server() -> McpPlayer {
    let tools = vec![tool("look", true), tool("change", false)];
    let server = McpPlayer::start(tools, |name, arguments| match &arguments["q"] {
        hang if hang == "hang" => McpAnswer::Silence,
        q => McpAnswer::text(&format!("{name} {q}: done")),
    });
    server.await.unwrap()
}

fn made(id: &str, name: &str, q: &str) -> Value {
    call(id, &format!("db__{name}"), &json!({"q": q}))
}

/// Waits until the server was called this often.
async fn wait_for_calls(server: &McpPlayer, count: usize) {
    let called = async {
        while server.calls().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let called = tokio::time::timeout(Duration::from_mins(1), called);
    called.await.expect("the server is called");
}

fn database(proxy: &Proxy) -> PathBuf {
    let data = proxy.folder.path().join(".local/share/respondent");
    data.join("artifacts/artifacts.db")
}

/// The calls that are on record: each with its round and what became of it.
fn runs(proxy: &Proxy) -> Vec<String> {
    let connection = Connection::open(database(proxy)).unwrap();
    let select = "SELECT round || ' ' || call_id || ' ' || name || ' ' || status
            || coalesce(' ' || error, '')
         FROM tool_runs WHERE ended >= started ORDER BY response, place";
    let mut select = connection.prepare(select).unwrap();
    let runs = select.query_map([], |row| row.get(0)).unwrap();
    runs.map(Result::unwrap).collect()
}

fn interrupted(run: &str) -> String {
    format!("{run} interrupted The call was interrupted, and it is {UNKNOWN}.")
}

/// Promise: After a kill while a background response calls a tool with effects, each call that was
/// made is on record, the one that ran as interrupted, and the `mcp_call` says that it is not known
/// whether it took effect. Who goes on from the failed response sends the model the bytes of its
/// finished rounds, and tells it of the call that was interrupted. No call is made again.
#[kit::test(on_each_wire)]
async fn what_tools_did_is_known_after_a_kill(wire: PlayerWire) {
    for has_key in [true, false] {
        let server = server().await;
        let player = player(wire).await;
        let setup = allowing(&[&server])
            .provider(without_hosted_tools(wire))
            .wire_of(&player);
        let proxy = Proxy::start_with(&player, setup.clone()).await;
        player.push(answer(
            json!([{"text": "I look."}, made("c1", "look", "x")]),
        ));
        player.push(answer(json!([made("c2", "change", "y")])));
        player.push(answer(json!([
            {"text": "And now two."}, made("c3", "change", "z"), made("c4", "change", "hang"),
            made("c5", "change", "never")
        ])));
        let mut asked = request("Change it.", &[defined("db", &server)]);
        if !has_key {
            asked.as_object_mut().unwrap().remove("prompt_cache_key");
        }
        let job = begin_body(&proxy, asked.clone()).await;
        wait_for_calls(&server, 4).await;
        let proxy = killed(proxy, &setup).await;

        let failed = ended(&proxy, &job).await;
        assert_eq!(failed["status"], "failed");
        let expected = [
            "mcp_list_tools",
            "message",
            "mcp_call",
            "mcp_call",
            "message",
            "mcp_call",
            "mcp_call",
        ];
        assert_eq!(kinds(&failed), expected, "{failed}");
        let output = &failed["output"];
        assert_eq!(output[5]["output"], "change \"z\": done");
        let error = output[6]["error"]["message"].as_str().unwrap();
        assert!(error.contains(UNKNOWN), "{failed}");
        let expected = [
            "1 c1 db__look completed".to_owned(),
            "2 c2 db__change completed".to_owned(),
            "3 c3 db__change completed".to_owned(),
            interrupted("3 c4 db__change"),
        ];
        assert_eq!(runs(&proxy), expected);

        player.push(says("I see."));
        asked["input"] = json!("What happened?");
        asked["previous_response_id"] = failed["id"].clone();
        proxy.response(&asked).await;
        let sent = player.requests();
        let (before, after) = (history(&sent[2]), history(&sent[3]));
        let before = before.as_array().unwrap();
        assert_eq!(&after.as_array().unwrap()[..before.len()], before);
        assert!(
            after.to_string().contains("change \\\"z\\\": done"),
            "{after}"
        );
        assert!(after.to_string().contains(UNKNOWN), "{after}");
        assert_eq!(server.calls().len(), 4);
    }
}

/// Promise: A call with effects that runs when its response is cancelled is on record as
/// interrupted, and so is its item.
#[kit::test(on_each_wire)]
async fn a_call_that_is_cancelled_is_on_record(wire: PlayerWire) {
    let server = server().await;
    let player = player(wire).await;
    let proxy = start(&player, allowing(&[&server])).await;
    player.push(answer(json!([made("c1", "change", "hang")])));
    let job = begin_body(&proxy, request("Change it.", &[defined("db", &server)])).await;
    wait_for_calls(&server, 1).await;
    let cancel = format!("{}/cancel", path_of(&job));
    proxy.post_to(&cancel, &json!({}), &[]).await;
    let cancelled = ended(&proxy, &job).await;
    assert_eq!(cancelled["status"], "cancelled");
    let item = &cancelled["output"][1];
    assert_eq!(item["status"], "failed", "{item}");
    let error = item["error"]["message"].as_str().unwrap();
    assert!(error.contains(UNKNOWN), "{item}");
    assert_eq!(runs(&proxy), [interrupted("1 c1 db__change")]);
}

/// Promise: A background response makes a call with effects only if that is on the disk: else the
/// model is told that it was not run.
#[kit::test]
async fn a_call_that_cannot_be_recorded_is_not_made() {
    let database = Arc::<Mutex<Option<PathBuf>>>::default();
    let changed = Arc::clone(&database);
    let tools = vec![tool("look", true), tool("change", false)];
    let server = McpPlayer::start(tools, move |_, _| {
        // From now on there is no such response of the client.
        let file = changed.lock().unwrap().take().unwrap();
        let connection = Connection::open(file).unwrap();
        let change = "UPDATE responses SET owner = 'nobody'";
        assert_eq!(connection.execute(change, []).unwrap(), 1);
        McpAnswer::text("done")
    });
    let server = server.await.unwrap();
    let player = player(PlayerWire::Chat).await;
    let proxy = start(&player, allowing(&[&server])).await;
    *database.lock().unwrap() = Some(self::database(&proxy));
    player.push(answer(json!([made("c1", "look", "x")])));
    player.push(answer(json!([made("c2", "change", "y")])));
    player.push(says("It could not be changed."));
    begin_body(&proxy, request("Change it.", &[defined("db", &server)])).await;
    player.wait_requests(3).await;
    let told = result(&player.requests()[2], "c2");
    assert!(told.starts_with("Not run"), "{told}");
    assert_eq!(server.calls().len(), 1);
}
