//! The way to a provider: silent, gone, full, asked again, stood in for; and the end
//! of the program.
use std::fmt::Write as _;

use adapters::fault::Kind;
use respondent::sandbox::{Answer, Player};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};

use super::keeper::{Keeper, WAYS};
use super::turns::Turns;
use super::{Group, group};
use crate::faults::{always, answer, body, player};
use crate::proxy::{Setup, streaming};

pub fn groups() -> Vec<Group> {
    vec![
        group("silence", &[Kind::Timeout], silent),
        group(
            "providers that are not there",
            &[Kind::Unreachable, Kind::Cut],
            gone,
        ),
        group("no place in time", &[Kind::Overloaded], full),
        group(
            "turns that are tried again",
            &[Kind::Overloaded, Kind::RateLimit, Kind::Cut, Kind::Authentication],
            again,
        ),
        group(
            "turns that go elsewhere",
            &[
                Kind::Unavailable,
                Kind::Overloaded,
                Kind::Authentication,
                Kind::RateLimit,
                Kind::Quota,
                Kind::Cut,
                Kind::BadReply,
                Kind::ModelNotFound,
            ],
            elsewhere,
        ),
        group("the end of the program", &[Kind::Draining], draining),
    ]
}

/// A model of the provider with this id.
fn of(provider: &str) -> Value {
    json!({"model": format!("{provider}/m"), "input": "go"})
}

/// A provider's table.
fn table(id: &str, base_url: &str, more: &str) -> String {
    format!("[providers.{id}]\nwire = \"chat\"\nbase_url = \"{base_url}\"\nkey_required = false\nmax_retries = 0\n{more}\n")
}

async fn silent() -> Turns {
    let late = always(Answer {
        head_delay_ms: 60_000,
        ..Answer::default()
    })
    .await;
    let stops = always(answer(json!([{"reasoning": "so far"}, {"text": "so good"}, {"stall": true}]))).await;
    let never = always(answer(json!([{"raw": ": connected\n\n"}, {"stall": true}]))).await;
    let said_all = always(answer(json!([{"text": "all"}, {"finish": "stop"}, {"stall": true}]))).await;
    let slow = always(answer(json!([{"delay_ms": 150}, {"text": "a"}, {"delay_ms": 150}, {"text": "b"}]))).await;
    let times = "timeouts = { connect = \"100ms\", first_byte = \"300ms\", idle = \"400ms\" }";
    let mut setup = Setup::new().server("heartbeat = \"50ms\"\ncommit_after = \"100ms\"");
    let providers = [
        ("late", &late),
        ("stops", &stops),
        ("never", &never),
        ("said_all", &said_all),
        ("slow", &slow),
    ];
    for (id, player) in providers {
        setup = setup.tables(&table(id, &player.base_url(), times));
    }
    let keeper = Keeper::at("http://127.0.0.1:9/v1", setup).await;
    for (id, _) in providers {
        keeper.each_way_at_once(&of(id)).await;
    }
    keeper.replays("silence").await
}

/// Takes connections, reads a little, and drops them: with a reset or in order.
async fn rude(reset: bool) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(16).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.readable().await;
            if reset {
                let _ = stream.set_zero_linger();
            } else {
                // What was not read would reset the connection.
                while stream.try_read(&mut [0; 4096]).is_ok() {}
            }
        }
    });
    format!("http://{address}/v1")
}

async fn gone() -> Turns {
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connect = "timeouts = { connect = \"500ms\" }";
    let setup = Setup::new()
        .tables(&table("refuses", &format!("http://{address}/v1"), connect))
        .tables(&table("nameless", "https://nobody.invalid/v1", connect))
        .tables(&table("resets", &rude(true).await, connect))
        .tables(&table("closes", &rude(false).await, connect));
    let keeper = Keeper::at("http://127.0.0.1:9/v1", setup).await;
    for id in ["refuses", "nameless", "resets", "closes"] {
        keeper.each_way(&of(id), || ()).await;
    }
    keeper.replays("gone").await
}

async fn full() -> Turns {
    let player = player().await;
    let setup = Setup::new().provider(
        "max_retries = 0\nmax_concurrent = 1\ntimeouts = { first_byte = \"200ms\" }",
    );
    let keeper = Keeper::of(&player, setup).await;
    for (stream, headers) in WAYS {
        let ask = if stream { streaming(&body()) } else { body() };
        player.push(answer(json!([{"text": "first"}, {"delay_ms": 900}, {"text": " and last"}])));
        let before = player.requests().len();
        let first = keeper.turn(&ask, headers);
        let second = async {
            player.wait_requests(before + 1).await;
            keeper.turn(&ask, headers).await
        };
        tokio::join!(first, second);
        assert_eq!(player.requests().len(), before + 1);
    }
    keeper.replays("places").await
}

async fn again() -> Turns {
    let player = player().await;
    let setup = Setup::new()
        .provider("max_retries = 1\napi_key = [\"key-number-one\", \"key-number-two\"]");
    let keeper = Keeper::of(&player, setup).await;
    let says = || answer(json!([{"text": "there"}]));
    let mut busy = Answer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "1".into());
    let full = Answer::error(503, "full");
    let cut = answer(json!([{"chunk": {"choices": []}}, {"cut": "fin"}]));
    let unknown = Answer::error(401, "who?");
    for two in [
        [full.clone(), says()],
        [full.clone(), full],
        [cut.clone(), says()],
        [cut.clone(), cut],
        [busy.clone(), says()],
        [busy.clone(), busy],
        [unknown.clone(), says()],
        [unknown.clone(), unknown],
    ] {
        keeper
            .each_way(&body(), || two.iter().cloned().for_each(|one| player.push(one)))
            .await;
    }
    keeper.replays("again").await
}

async fn elsewhere() -> Turns {
    let quota = || Answer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..Answer::error(429, "")
    };
    let mut busy = Answer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "20".into());
    let fails = [
        Answer::error(500, "broken"),
        Answer::error(503, "full"),
        Answer::error(401, "who?"),
        busy,
        quota(),
        answer(json!([{"cut": "rst"}])),
        answer(json!([{"raw": "data: what\n\n"}])),
    ];
    let good = || answer(json!([{"text": "there"}]));
    let missing = Answer::error(404, "The model `m` does not exist");
    // First choice, what stands in for it, and what stands in for that.
    let mut chains: Vec<Vec<Answer>> = fails.iter().map(|first| vec![first.clone(), good()]).collect();
    chains.push(vec![quota(), missing, good()]);
    chains.push(vec![quota(), Answer::error(500, "broken too")]);
    let mut players: Vec<Player> = Vec::new();
    let mut setup = Setup::new();
    let mut fallbacks = "[routing.fallbacks]\n".to_owned();
    for (chain, answers) in chains.iter().enumerate() {
        let mut names = Vec::new();
        for (place, one) in answers.iter().enumerate() {
            let player = always(one.clone()).await;
            let id = format!("c{chain}p{place}");
            setup = setup.tables(&table(&id, &player.base_url(), ""));
            names.push(format!("\"{id}/m\""));
            players.push(player);
        }
        let (first, rest) = names.split_first().unwrap();
        let _ = writeln!(fallbacks, "{first} = [{}]", rest.join(", "));
    }
    let keeper = Keeper::at("http://127.0.0.1:9/v1", setup.tables(&fallbacks)).await;
    for chain in 0..chains.len() {
        let mut body = of(&format!("c{chain}p0"));
        // The second round finds a session that moved and a provider that rests.
        body["prompt_cache_key"] = json!(format!("session of {chain}"));
        for _ in 0..2 {
            keeper.each_way(&body, || ()).await;
        }
    }
    keeper.replays("elsewhere").await
}

async fn draining() -> Turns {
    let begun = always(answer(json!([{"text": "begun"}, {"stall": true}]))).await;
    let silent = always(Answer {
        head_delay_ms: 60_000,
        ..Answer::default()
    })
    .await;
    let setup = Setup::new()
        .server("grace = \"300ms\"")
        .tables(&table("begun", &begun.base_url(), ""))
        .tables(&table("silent", &silent.base_url(), ""));
    let mut keeper = Keeper::at("http://127.0.0.1:9/v1", setup).await;
    let (first, second) = (of("begun"), of("silent"));
    let turns = async { tokio::join!(keeper.each_way_at_once(&first), keeper.each_way_at_once(&second)) };
    let ends = async {
        begun.wait_requests(WAYS.len()).await;
        silent.wait_requests(WAYS.len()).await;
        keeper.proxy.terminate().await;
    };
    tokio::join!(turns, ends);
    assert_eq!(keeper.proxy.ended().await.code(), Some(0));
    keeper.replays("draining").await
}
