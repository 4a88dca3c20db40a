//! Hostile bundles: whatever they contain, a replay ends soon and makes no connection
//! outside of its own.
use kit::harness::rows;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::corpus::bundle_files::BundleFiles;
use crate::faults::{answer, body, player};
use crate::proxy::{Proxy, Setup, streaming};

struct Hostile {
    what: &'static str,
    /// Changes `turn.json`; `elsewhere` is an address that must not be contacted.
    change: fn(turn: &mut Value, elsewhere: &str),
    /// The exit codes that the replay may end with.
    codes: &'static [i32],
}

const HOSTILE: &[Hostile] = &[
    Hostile {
        what: "no pause between signs of life",
        change: |turn, _| turn["heartbeat_ms"] = json!(0),
        codes: &[65],
    },
    Hostile {
        what: "a status that announces another head",
        change: |turn, _| turn["attempts"][1]["head"]["status"] = json!(103),
        codes: &[65],
    },
    Hostile {
        what: "a status that switches protocols",
        change: |turn, _| turn["attempts"][1]["head"]["status"] = json!(101),
        codes: &[65],
    },
    Hostile {
        what: "a body where the status allows none",
        change: |turn, _| turn["attempts"][1]["head"]["status"] = json!(204),
        codes: &[1],
    },
    Hostile {
        what: "a body where nothing was modified",
        change: |turn, _| turn["attempts"][1]["head"]["status"] = json!(304),
        codes: &[1],
    },
    Hostile {
        what: "hours of silence full of signs of life",
        change: |turn, _| {
            turn["heartbeat_ms"] = json!(1);
            turn["took_us"] = json!(HOURS_US);
            let attempt = &mut turn["attempts"][1];
            attempt["end_us"] = json!(HOURS_US);
            attempt["ended"] = json!(false);
            attempt["fault"] = Value::Null;
        },
        codes: &[1, 70],
    },
    Hostile {
        what: "repeats without end",
        change: |turn, _| {
            turn["settings"]["routes"][0]["max_retries"] = json!(u32::MAX);
            let attempt = &mut turn["attempts"][1];
            attempt["head"]["status"] = json!(500);
        },
        codes: &[1],
    },
    Hostile {
        what: "addresses of others",
        change: |turn, elsewhere| {
            let route = &mut turn["settings"]["routes"][0];
            route["base_url"] = json!(format!("http://user:pass@{elsewhere}/v1"));
            turn["attempts"][0]["url"] = json!(format!("http://{elsewhere}/"));
            turn["request"]["path"] = json!(format!("http://{elsewhere}/v1/responses"));
            turn["state_before"]["moved_to"] = json!(format!("{elsewhere}/m"));
        },
        codes: &[0, 1],
    },
    Hostile {
        what: "a redirect",
        change: |turn, elsewhere| {
            let head = &mut turn["attempts"][1]["head"];
            head["status"] = json!(307);
            head["headers"] = json!([["location", format!("http://{elsewhere}/")]]);
        },
        codes: &[1],
    },
    Hostile {
        what: "an open provider without an address",
        change: |turn, elsewhere| {
            let settings = &mut turn["settings"];
            settings["unresolved"] = json!(true);
            settings["routes"] = json!([]);
            settings["open"] = json!(["up", elsewhere]);
        },
        codes: &[1],
    },
    Hostile {
        what: "line breaks in headers of the request",
        change: |turn, _| {
            turn["request"]["headers"] = json!([["x-a\r\nhost", "b\r\n\r\nGET / HTTP/1.1"]]);
        },
        codes: &[65],
    },
    Hostile {
        what: "line breaks in headers of the answer and of the route",
        change: |turn, _| {
            let evil = json!([["x-a\r\nhost", "b\r\n\r\nGET / HTTP/1.1"]]);
            turn["attempts"][1]["head"]["headers"] = evil.clone();
            turn["settings"]["routes"][0]["headers"] = evil.clone();
            turn["settings"]["routes"][0]["query"] = evil;
        },
        codes: &[1],
    },
    Hostile {
        what: "keys that rest for a century",
        change: |turn, _| {
            let rest = 100_u64 * 364 * 24 * 3_600_000;
            turn["state_before"]["providers"][0]["keys_rest_ms"] = json!(vec![rest; 10_000]);
            turn["state_before"]["providers"][0]["down_ms"] = json!(rest);
        },
        codes: &[0, 1],
    },
];

const HOURS_US: u64 = 47 * 3600 * 1_000_000;

/// Promise: What a well-formed bundle contains is replayed and compared within limits.
#[test]
fn a_hostile_bundle_ends_soon_and_reaches_nobody() {
    rows(HOSTILE.iter().map(|hostile| (hostile.what, hostile)), ends);
}

async fn ends(hostile: &'static Hostile) {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new()).await;
    player.push(ScriptedAnswer::error(503, "not now"));
    player.push(answer(json!([{"text": "begun"}, {"cut": "fin"}])));
    proxy.post(&streaming(&body())).await;
    let folder = proxy.folder.path();
    let listen = Setup::new().arg("--listen").arg(&proxy.address.to_string());
    let made = ["bundle", "create", "--output", "a.tar.zst"];
    let made = made.into_iter().fold(listen, Setup::arg);
    let (code, _, err) = made.run(folder).await;
    assert_eq!(code, 0, "{err}");

    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap().to_string();
    let mut turns = BundleFiles::read(&folder.join("a.tar.zst"));
    turns.edit_json("turns/1/turn.json", |turn| {
        assert_eq!(turn["attempts"].as_array().unwrap().len(), 2, "{turn}");
        (hostile.change)(turn, &address);
    });
    let empty = tempfile::tempdir().unwrap();
    turns.write(&empty.path().join("b.tar.zst"));
    let replay = ["replay", "b.tar.zst"]
        .into_iter()
        .fold(Setup::new(), Setup::arg);
    let proxied = replay
        .env("HTTP_PROXY", &format!("http://{address}"))
        .env("ALL_PROXY", &format!("http://{address}"));
    let (code, out, err) = proxied.run(empty.path()).await;
    assert!(hostile.codes.contains(&code), "{code}: {out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    let files = std::fs::read_dir(empty.path()).unwrap().count();
    assert_eq!(files, 1, "the replay wrote something");
    tokio::select! {
        biased;
        _ = elsewhere.accept() => panic!("the replay reached somebody"),
        () = std::future::ready(()) => {}
    }
}
