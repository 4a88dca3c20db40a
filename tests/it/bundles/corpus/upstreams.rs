//! Providers that are silent, unreachable or saturated; retries, failover, and shutdown.
use std::fmt::Write as _;

use adapters::fault::Kind;
use futures_util::future::join_all;
use kit::address::ReservedAddress;
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::bundle_files::BundleFiles;
use super::recording::{CALLERS, RecordingProxy};
use super::{assert_kinds, bundle_name};
use crate::faults::{answer, body, player, repeating_player};
use crate::proxy::{Setup, streaming};

pub const SILENT: &[Kind] = &[Kind::Timeout];

#[kit::test(on_each_wire)]
async fn providers_that_are_silent(wire: PlayerWire) {
    assert_kinds(&silent(wire).await, SILENT);
}

pub const UNREACHABLE_PROVIDERS: &[Kind] = &[Kind::Unreachable, Kind::Cut];

#[kit::test(on_each_wire)]
async fn providers_that_are_not_there(wire: PlayerWire) {
    assert_kinds(&unreachable_providers(wire).await, UNREACHABLE_PROVIDERS);
}

pub const LONGEST_TURNS: &[Kind] = &[Kind::TurnTimeout];

#[kit::test(on_each_wire)]
async fn turns_that_take_too_long(wire: PlayerWire) {
    assert_kinds(&longest_turns(wire).await, LONGEST_TURNS);
}

pub const SATURATED: &[Kind] = &[Kind::Overloaded];

#[kit::test(on_each_wire)]
async fn no_place_in_time(wire: PlayerWire) {
    assert_kinds(&saturated(wire).await, SATURATED);
}

pub const RETRIED: &[Kind] = &[
    Kind::Overloaded,
    Kind::RateLimit,
    Kind::Cut,
    Kind::Authentication,
];

#[kit::test(on_each_wire)]
async fn turns_that_are_tried_again(wire: PlayerWire) {
    assert_kinds(&retried(wire).await, RETRIED);
}

pub const FAILED_OVER: &[Kind] = &[
    Kind::Unavailable,
    Kind::Overloaded,
    Kind::Authentication,
    Kind::RateLimit,
    Kind::Quota,
    Kind::Cut,
    Kind::BadReply,
    Kind::ModelNotFound,
];

#[kit::test(on_each_wire)]
async fn turns_that_go_elsewhere(wire: PlayerWire) {
    assert_kinds(&failed_over(wire).await, FAILED_OVER);
}

pub const SHUTDOWN: &[Kind] = &[Kind::Draining];

#[kit::test(on_each_wire)]
async fn the_end_of_the_program(wire: PlayerWire) {
    assert_kinds(&shutdown(wire).await, SHUTDOWN);
}

/// A request to a model of the provider with this id.
fn request_to(provider: &str) -> Value {
    json!({"model": format!("{provider}/m"), "input": "go", "prompt_cache_key": provider})
}

/// The table of a provider in the configuration.
fn provider_table(wire: PlayerWire, id: &str, base_url: &str, more: &str) -> String {
    let wire = wire.name();
    format!(
        "[providers.{id}]\nwire = \"{wire}\"\nbase_url = \"{base_url}\"\nkey_required = false\nmax_retries = 0\n{more}\n"
    )
}

async fn silent(wire: PlayerWire) -> BundleFiles {
    let late = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 60_000,
            ..ScriptedAnswer::default()
        },
    )
    .await;
    let stops = repeating_player(
        wire,
        answer(json!([{"reasoning": "so far"}, {"text": "so good"}, {"stall": true}])),
    )
    .await;
    let never = repeating_player(
        wire,
        answer(json!([{"raw": ": connected\n\n"}, {"stall": true}])),
    )
    .await;
    let no_usage = repeating_player(
        wire,
        answer(json!([{"text": "all"}, {"finish": "stop"}, {"stall": true}])),
    )
    .await;
    let slow = repeating_player(
        wire,
        answer(json!([{"delay_ms": 150}, {"text": "a"}, {"delay_ms": 150}, {"text": "b"}])),
    )
    .await;
    let times = "timeouts = { connect = \"100ms\", first_byte = \"300ms\", idle = \"400ms\" }";
    let mut setup = Setup::new().server("heartbeat = \"50ms\"\ncommit_after = \"100ms\"");
    let providers = [
        ("late", &late),
        ("stops", &stops),
        ("never", &never),
        ("no_usage", &no_usage),
        ("slow", &slow),
    ];
    for (id, player) in providers {
        setup = setup.tables(&provider_table(wire, id, &player.base_url(), times));
    }
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    for (id, _) in providers {
        recording.each_caller_at_once(&request_to(id)).await;
    }
    recording
        .assert_replays(&bundle_name(wire, "silence"))
        .await
}

/// The address of a listener that reads each request and closes the connection, with a
/// reset or properly.
async fn dropping_listener(reset: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // The request is short and arrives at once. Unread bytes would turn the close into
            // a reset.
            let _ = stream.read(&mut vec![0; 1 << 16]).await;
            if reset {
                let _ = stream.set_zero_linger();
            }
        }
    });
    format!("http://{address}/v1")
}

async fn unreachable_providers(wire: PlayerWire) -> BundleFiles {
    let address = ReservedAddress::new().unwrap();
    let connect = "timeouts = { connect = \"500ms\" }";
    let setup = Setup::new()
        .tables(&provider_table(
            wire,
            "refuses",
            &format!("http://{address}/v1"),
            connect,
        ))
        .tables(&provider_table(
            wire,
            "nameless",
            "https://nobody.invalid/v1",
            connect,
        ))
        .tables(&provider_table(
            wire,
            "resets",
            &dropping_listener(true).await,
            connect,
        ))
        .tables(&provider_table(
            wire,
            "closes",
            &dropping_listener(false).await,
            connect,
        ));
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    for id in ["refuses", "nameless", "resets", "closes"] {
        recording.each_caller(&request_to(id), || ()).await;
    }
    recording.assert_replays(&bundle_name(wire, "gone")).await
}

async fn saturated(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    let setup = Setup::new()
        .provider("max_retries = 0\nmax_concurrent = 1\ntimeouts = { first_byte = \"200ms\" }");
    let recording = RecordingProxy::start(&player, setup).await;
    for (stream, headers) in CALLERS {
        let ask = if stream { streaming(&body()) } else { body() };
        player.push(answer(
            json!([{"text": "first"}, {"gate": true}, {"text": " and last"}]),
        ));
        let before = player.requests().len();
        let first = recording.turn(&ask, headers);
        let second = async {
            player.wait_requests(before + 1).await;
            recording.turn(&ask, headers).await;
            player.open_gate();
        };
        tokio::join!(first, second);
        assert_eq!(player.requests().len(), before + 1);
    }
    recording.assert_replays(&bundle_name(wire, "places")).await
}

async fn retried(wire: PlayerWire) -> BundleFiles {
    let says = || answer(json!([{"text": "there"}]));
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "1".into());
    let full = ScriptedAnswer::error(503, "full");
    let cut = answer(json!([{"nothing": true}, {"cut": "fin"}]));
    let unknown = ScriptedAnswer::error(401, "who?");
    let one_key = "api_key = \"key-number-one\"";
    let two_keys = "api_key = [\"key-number-one\", \"key-number-two\"]";
    let mut setup = Setup::new();
    let mut players = Vec::new();
    for first in [full, cut, busy, unknown] {
        for second in [says(), first.clone()] {
            for keys in [one_key, two_keys] {
                for _ in CALLERS {
                    let player = player(wire).await;
                    player.push(first.clone());
                    player.push(second.clone());
                    let id = format!("p{}", players.len());
                    setup = setup.tables(&format!(
                        "[providers.{id}]\nwire = \"{}\"\nbase_url = \"{}\"\nmax_retries = 1\n{keys}\n",
                        wire.name(),
                        player.base_url()
                    ));
                    players.push(player);
                }
            }
        }
    }
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    let recording_proxy = &recording;
    // Concurrently: most of the time is spent in pauses.
    let turns = CALLERS.into_iter().cycle().zip(0..players.len());
    join_all(turns.map(|((stream, headers), place)| async move {
        let body = request_to(&format!("p{place}"));
        let body = if stream { streaming(&body) } else { body };
        recording_proxy.turn(&body, headers).await;
    }))
    .await;
    recording.assert_replays(&bundle_name(wire, "again")).await
}

/// A chain of fallbacks: the responses of the first provider and of those after it.
struct Chain {
    answers: Vec<ScriptedAnswer>,
    /// The id of the first provider, for each caller.
    firsts: [Option<String>; CALLERS.len()],
}

async fn failed_over(wire: PlayerWire) -> BundleFiles {
    let quota = || ScriptedAnswer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..ScriptedAnswer::error(429, "")
    };
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "20".into());
    let fails = [
        ScriptedAnswer::error(500, "broken"),
        ScriptedAnswer::error(503, "full"),
        ScriptedAnswer::error(401, "who?"),
        busy,
        quota(),
        answer(json!([{"cut": "rst"}])),
        answer(json!([{"raw": "data: what\n\n"}])),
    ];
    let good = || answer(json!([{"text": "there"}]));
    let missing = ScriptedAnswer::error(404, "The model `m` does not exist");
    let mut chains: Vec<Vec<ScriptedAnswer>> =
        fails.into_iter().map(|first| vec![first, good()]).collect();
    chains.push(vec![quota(), missing, good()]);
    chains.push(vec![quota(), ScriptedAnswer::error(500, "broken too")]);
    let firsts = || [const { None }; CALLERS.len()];
    let mut chains: Vec<Chain> = chains
        .into_iter()
        .map(|answers| Chain {
            answers,
            firsts: firsts(),
        })
        .collect();
    let mut players: Vec<Player> = Vec::new();
    let mut setup = Setup::new();
    let mut fallbacks = "[routing.fallbacks]\n".to_owned();
    for chain in &mut chains {
        // A provider that failed is avoided for a while, so each caller has its own.
        for way in 0..CALLERS.len() {
            let mut names = Vec::new();
            for answer in &chain.answers {
                let player = repeating_player(wire, answer.clone()).await;
                let id = format!("p{}", players.len());
                setup = setup.tables(&provider_table(wire, &id, &player.base_url(), ""));
                names.push(format!("\"{id}/m\""));
                players.push(player);
                chain.firsts[way].get_or_insert(id);
            }
            let (first, rest) = names.split_first().unwrap();
            let _ = writeln!(fallbacks, "{first} = [{}]", rest.join(", "));
        }
    }
    let recording =
        RecordingProxy::start_at("http://127.0.0.1:9/v1", setup.tables(&fallbacks)).await;
    for chain in &chains {
        for (first, (stream, headers)) in chain.firsts.iter().flatten().zip(CALLERS) {
            let body = if stream {
                streaming(&request_to(first))
            } else {
                request_to(first)
            };
            // The second turn finds a session that moved, and a provider that is avoided.
            for _ in 0..2 {
                recording.turn(&body, headers).await;
            }
        }
    }
    recording
        .assert_replays(&bundle_name(wire, "elsewhere"))
        .await
}

async fn longest_turns(wire: PlayerWire) -> BundleFiles {
    let trickle = json!([{"text": "a"}, {"delay_ms": 20}, {"text": "b"}, {"stall": true}]);
    let begun = repeating_player(wire, answer(trickle)).await;
    let silent = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 60_000,
            ..ScriptedAnswer::default()
        },
    )
    .await;
    let setup = Setup::new()
        .server("turn_timeout = \"400ms\"\nheartbeat = \"100ms\"")
        .tables(&provider_table(wire, "begun", &begun.base_url(), ""))
        .tables(&provider_table(wire, "silent", &silent.base_url(), ""));
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    for provider in ["begun", "silent"] {
        recording.each_caller_at_once(&request_to(provider)).await;
    }
    recording
        .assert_replays(&bundle_name(wire, "turn-timeout"))
        .await
}

async fn shutdown(wire: PlayerWire) -> BundleFiles {
    let begun = repeating_player(wire, answer(json!([{"text": "begun"}, {"stall": true}]))).await;
    let silent = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 60_000,
            ..ScriptedAnswer::default()
        },
    )
    .await;
    let setup = Setup::new()
        .server("grace = \"300ms\"")
        .tables(&provider_table(wire, "begun", &begun.base_url(), ""))
        .tables(&provider_table(wire, "silent", &silent.base_url(), ""));
    let mut recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    let (first, second) = (request_to("begun"), request_to("silent"));
    let turns = async {
        tokio::join!(
            recording.each_caller_at_once(&first),
            recording.each_caller_at_once(&second)
        )
    };
    let ends = async {
        begun.wait_requests(CALLERS.len()).await;
        silent.wait_requests(CALLERS.len()).await;
        recording.proxy.terminate();
    };
    tokio::join!(turns, ends);
    recording.stop().await;
    recording
        .assert_replays(&bundle_name(wire, "draining"))
        .await
}
