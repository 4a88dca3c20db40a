//! One client asks for much of what is stored: the program stays within its memory, and another
//! client is answered meanwhile.

use futures_util::future::join_all;
use kit::player::{PlayerWire, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::{asks, client, id, says, send};
use crate::faults::player;
use crate::proxy::{OpenReply, Proxy, Setup};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    DOORS
        .iter()
        .flat_map(|door| {
            [
                case(
                    &format!("R32 {}: the memory and another client", door.name),
                    move || through(door, false),
                ),
                case(
                    &format!("R32 {}: what is counted is what lives", door.name),
                    move || through(door, true),
                ),
            ]
        })
        .collect()
}

/// The least budget that the configuration takes, in KiB.
const BUDGET: u64 = 128 * 1024;
/// What the program may take besides, in KiB.
const BESIDES: u64 = 30 * 1024;
/// The bytes of a large text.
const LARGE: usize = 11 << 20;

/// A way to have much in memory at once.
struct Door {
    name: &'static str,
    /// How many requests are sent at once. Nobody reads the answers.
    times: usize,
    request: fn(&Stored) -> (&'static str, String, Value),
    /// The statuses of the answers, of which the first is that of at least one.
    statuses: &'static [u16],
}

/// What alice has stored.
struct Stored {
    conversation: String,
    item: String,
    /// A response that continues another one; both have a large output of a tool.
    response: String,
    /// A background response that waits, with a large input.
    queued: String,
}

const DOORS: &[Door] = &[
    Door {
        name: "many references to one item",
        times: 1,
        request: |stored| {
            let reference = json!({"type": "item_reference", "id": stored.item});
            post("/v1/responses", asks(vec![reference; 100], json!({})))
        },
        statuses: &[400],
    },
    Door {
        name: "an estimate of many references",
        times: 8,
        request: |stored| {
            let reference = json!({"type": "item_reference", "id": stored.item});
            post(
                "/v1/responses/input_tokens",
                asks(vec![reference; 100], json!({})),
            )
        },
        statuses: &[400, 503],
    },
    Door {
        name: "one reference in many requests",
        times: 20,
        request: |stored| {
            let reference = json!({"type": "item_reference", "id": stored.item});
            post(
                "/v1/responses/input_tokens",
                asks(vec![reference], json!({})),
            )
        },
        statuses: &[200, 503],
    },
    Door {
        name: "a page of large items",
        times: 12,
        request: |stored| {
            get(format!(
                "/v1/conversations/{}/items?limit=100",
                stored.conversation
            ))
        },
        statuses: &[200, 503],
    },
    Door {
        name: "a large item",
        times: 20,
        request: |stored| {
            let (conversation, item) = (&stored.conversation, &stored.item);
            get(format!("/v1/conversations/{conversation}/items/{item}"))
        },
        statuses: &[200, 503],
    },
    Door {
        name: "turns that continue a long history",
        times: 20,
        request: |stored| {
            let more = json!({"previous_response_id": stored.response});
            post("/v1/responses", asks("go on", more))
        },
        statuses: &[200, 503],
    },
    Door {
        name: "the input of a run that waits",
        times: 20,
        request: |stored| get(format!("/v1/responses/{}/input_items", stored.queued)),
        statuses: &[200, 503],
    },
    Door {
        name: "the input of a response",
        times: 20,
        request: |stored| get(format!("/v1/responses/{}/input_items", stored.response)),
        statuses: &[200, 503],
    },
];

fn post(path: &str, body: Value) -> (&'static str, String, Value) {
    ("POST", path.to_owned(), body)
}

fn get(path: String) -> (&'static str, String, Value) {
    ("GET", path, Value::Null)
}

fn large() -> String {
    "word ".repeat(LARGE / 5)
}

async fn through(door: &Door, counted: bool) {
    let player = player(PlayerWire::Chat).await;
    // Two turns, a run that does not end, and all others.
    let hangs = ScriptedAnswer {
        head_delay_ms: 600_000,
        ..says("never")
    };
    let repeats = ScriptedAnswer {
        repeat: true,
        ..says("done")
    };
    for answer in [says("one"), says("two"), hangs, repeats] {
        player.push(answer);
    }
    let mut setup = Setup::new()
        .wire_of(&player)
        .server(&format!("memory = {}", BUDGET * 1024));
    for name in ["alice", "bob"] {
        setup = setup.tables(&client(name, ""));
    }
    let setup = setup.tables("[jobs]\nrunning = 1\n[capture]\nmode = \"off\"");
    let setup = setup.env("RESPONDENT_TOKEN", "operator-token-1");
    let setup = match std::env::var("MC") {
        Ok(mc) => setup.env("MALLOC_CONF", &mc),
        Err(_) => setup,
    };
    let setup = if counted { setup.counted() } else { setup };
    let proxy = Proxy::start_with(&player, setup).await;
    let stored = store(&proxy, counted).await;
    println!("stored: peak rss {} MiB", proxy.memory().peak / 1024);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    show(&proxy, counted).await;
    let (method, path, body) = (door.request)(&stored);
    let opened = (0..door.times).map(|_| open(&proxy, method, &path, &body));
    let bob = async {
        let reply = send(&proxy, "bob", "POST /v1/responses", &asks("hi", json!({}))).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    let (opened, ()) = tokio::join!(join_all(opened), bob);
    show(&proxy, counted).await;
    let statuses: Vec<u16> = opened.iter().map(|reply| reply.status).collect();
    assert!(statuses.contains(&door.statuses[0]), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| door.statuses.contains(status)),
        "{statuses:?}"
    );
    let reply = send(&proxy, "bob", "POST /v1/responses", &asks("hi", json!({}))).await;
    assert_eq!(reply.status, 200, "while answers wait: {}", reply.body);
    let peak = proxy.memory().peak;
    assert!(peak < BUDGET + BESIDES, "{} MiB, {statuses:?}", peak / 1024);
}

async fn open(proxy: &Proxy, method: &str, path: &str, body: &Value) -> OpenReply {
    let headers = [("authorization", "Bearer alice-token-1")];
    match method {
        "GET" => proxy.open_get(path, &headers).await,
        _ => proxy.open_at(path, body.to_string(), &headers).await,
    }
}

async fn store(proxy: &Proxy, counted: bool) -> Stored {
    show(proxy, counted).await;
    let alice = async |route: &str, body: &Value| {
        let reply = send(proxy, "alice", route, body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        print!("{route} ");
        show(proxy, counted).await;
        serde_json::from_str::<Value>(&reply.body).unwrap()
    };
    let conversation = id(&alice("POST /v1/conversations", &json!({})).await);
    let items = format!("POST /v1/conversations/{conversation}/items");
    let mut item = String::new();
    for _ in 0..4 {
        let large = json!({"items": [{"role": "user", "content": large()}]});
        item = id(&alice(&items, &large).await["data"][0]);
    }
    let mut before = json!({});
    for _ in 0..2 {
        let output = json!([
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": large()},
        ]);
        let response = alice("POST /v1/responses", &asks(output, before)).await;
        before = json!({"previous_response_id": response["id"]});
    }
    let runs = asks("hi", json!({"background": true}));
    let running = id(&alice("POST /v1/responses", &runs).await);
    while alice(&format!("GET /v1/responses/{running}"), &Value::Null).await["status"] == "queued" {
        tokio::task::yield_now().await;
    }
    let background = asks(large(), json!({"background": true}));
    let queued = id(&alice("POST /v1/responses", &background).await);
    Stored {
        conversation,
        item,
        response: before["previous_response_id"].as_str().unwrap().to_owned(),
        queued,
    }
}

async fn show(proxy: &Proxy, counted: bool) {
    for kind in ["requests", "answers", "recordings", "memories"] {
        let reply = proxy
            .get_with("/metrics", &[("authorization", "Bearer operator-token-1")])
            .await;
        let line = reply
            .body
            .lines()
            .find(|l| l.starts_with("respondent_memory_bytes") && l.contains(kind))
            .unwrap_or_else(|| panic!("{}", reply.body));
        print!(
            "{kind} {} ",
            line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap() / 1024
        );
    }
    if counted {
        let live = proxy.live_bytes();
        print!("live {} peak {}", live.now / 1024, live.peak / 1024);
    }
    println!();
}
