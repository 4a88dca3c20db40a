//! `respondent workflows`.
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{TRIP, provider, start};
use crate::proxy::{Proxy, Setup};

/// What a command prints: its standard output, and its standard error.
async fn command(proxy: &Proxy, setup: &Setup, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["workflows"].iter().chain(arguments).copied().collect();
    proxy.run_command(setup, &arguments).await
}

const ASK: &str = r#"
description = "Asks."
[[nodes]]
id = "check"
kind = "approve"
question = "Really {{what}}?"
[[nodes]]
id = "do"
kind = "write"
needs = ["check"]
prompt = "DO {{what}}"
"#;

/// Promise: `respondent workflows` lists and shows workflows, runs one in the running server, and
/// answers the question of one that waits.
#[kit::test]
async fn workflows_are_listed_shown_run_and_answered() {
    let answers = [
        ("PLAN", json!([{"text": "weather"}])),
        ("REPORT", json!([{"text": "Sunny."}])),
        ("DO", json!([{"text": "Did it."}])),
    ];
    let player = provider(PlayerWire::Chat, &answers).await;
    let workflows = [("wf_trip", TRIP), ("wf_ask", ASK)];
    let (proxy, setup, _engine) = start(&player, &workflows).await;
    let (code, listed, _) = command(&proxy, &setup, &["list"]).await;
    assert_eq!(code, 0);
    for expected in ["wf_deep_research", "wf_trip", "Plans a trip."] {
        assert!(listed.contains(expected), "{listed}");
    }
    let (_, shown, _) = command(&proxy, &setup, &["show", "wf_trip"]).await;
    for expected in [
        "place",
        "required",
        "style",
        "default: short",
        "search",
        "look, plan",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let (_, json, _) = command(&proxy, &setup, &["show", "wf_trip", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["nodes"][1]["kind"], "search");
    let (code, _, why) = command(&proxy, &setup, &["show", "wf_none"]).await;
    assert_eq!(code, 1);
    assert!(why.contains("there is no workflow wf_none"), "{why}");
    let arguments = [
        "run",
        "wf_trip",
        "x",
        "--var",
        "place=Ulm",
        "--model",
        "up/m",
    ];
    let (code, answer, nodes) = command(&proxy, &setup, &arguments).await;
    assert_eq!((code, answer.as_str()), (0, "Sunny.\n"), "{nodes}");
    assert!(nodes.contains("[look completed]"), "{nodes}");
    let (code, _, why) = command(&proxy, &setup, &["run", "wf_trip", "--model", "up/m"]).await;
    assert_eq!(code, 1);
    assert!(why.contains("leaves out 'place'"), "{why}");
    let arguments = ["run", "wf_ask", "--var", "what=this", "--model", "up/m"];
    let (code, asked, why) = command(&proxy, &setup, &arguments).await;
    assert_eq!(code, 1, "{why}");
    assert!(
        asked.contains("waits for a person: Really this?"),
        "{asked} {why}"
    );
    let id = asked
        .split_whitespace()
        .find(|word| word.starts_with("resp_"));
    let arguments = ["answer", id.unwrap(), "--approve"];
    let (code, answer, why) = command(&proxy, &setup, &arguments).await;
    assert_eq!((code, answer.as_str()), (0, "Did it.\n"), "{why}");
}
