//! A turn for tests: the first attempt is refused, the response to the second breaks
//! off.

use std::time::Duration;

use adapters::event::Usage;
use adapters::fault::{Fault, Kind, Retry};
use registry::{Dialect, Model, RegistrySnapshot, RouteSnapshot, Timeouts, Window, Wire};

use crate::config::KeyOrigin;
use crate::diagnostics::bundle::{
    BodyChunk, Bundle, BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead,
    BundleTurn, RerunReport,
};
use crate::turn::Outcome;
use crate::turn::{ProviderState, TurnState};

/// A bundle with this many turns.
pub(crate) fn bundle(turns: usize) -> Bundle {
    Bundle {
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        images: false,
        encrypted: true,
        turns: (1..=turns).map(turn).collect(),
    }
}

/// A turn whose request id ends in `number`. It began that many seconds after
/// 2026-08-07 06:05:04 UTC.
pub(crate) fn turn(number: usize) -> BundleTurn {
    let (answer, pieces) = cut(&[
        "event: response.created\ndata: {\"type\":\"response.created\"}\n\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\"}\n\n",
    ]);
    BundleTurn {
        owner: "local".to_owned(),
        request_id: format!("req_{number:032x}"),
        version: "0.1.0".into(),
        config_digest: "00112233aabbccdd".into(),
        began_ms: 1_786_082_704_007 + 1000 * number as u64,
        took_us: 2_500_000,
        outcome: Some(Outcome::Failed),
        fault: Some(Fault::new(Kind::Cut, "The answer broke off.").caused_by("unexpected end")),
        notes: vec![("dropped_tool".into(), "web_search, \"quoted\"\n".into())],
        usage: Some(Usage {
            input: 30,
            output: 2,
            ..Usage::default()
        }),
        ending_us: None,
        request: BundleRequest {
            path: "/v1/responses".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: br#"{"model":"lab/one","input":"hello","stream":true}"#.to_vec(),
        },
        answer: BundleResponse {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            pieces,
            body: answer,
        },
        attempts: vec![refused(), broken_off()],
        settings: RegistrySnapshot {
            asked: "lab/one".into(),
            routes: vec![route()],
            ..RegistrySnapshot::default()
        },
        heartbeat_ms: 15_000,
        commit_after_ms: 10_000,
        turn_timeout_ms: Some(3_600_000),
        heartbeats_between_attempts: vec![1],
        state_before: TurnState {
            items: [("msg_1".to_owned(), "{\"type\":\"message\"}".to_owned())].into(),
            providers: vec![ProviderState {
                provider: "lab".into(),
                keys_rest_ms: vec![0, 1200],
                down_ms: 0,
                answered_lately: true,
                key_origin: Some(KeyOrigin::File("/home/me/lab.key".into())),
            }],
            failed_requests: 4,
            ..TurnState::default()
        },
        clock: vec![(0, 1_786_082_704), (3, 1_786_082_705)],
        random: vec!["00112233445566778899aabbccddeeff".into(); 2],
        omitted: Vec::new(),
        rerun: RerunReport::default(),
        plan: b"{\n  \"items\": []\n}".to_vec(),
    }
}

/// An attempt that the provider refuses with status 429.
fn refused() -> BundleAttempt {
    let (answer, pieces) = cut(&["{\"error\":{\"message\":\"slow down\"}}"]);
    BundleAttempt {
        at_us: 100,
        end_us: 90_000,
        head: Some(BundleResponseHead {
            at_us: 80_000,
            status: 429,
            headers: vec![("retry-after".into(), "1".into())],
        }),
        pieces,
        ended: true,
        fault: Some(Fault {
            retry: Retry::After(Duration::from_secs(1)),
            upstream_status: Some(429),
            ..Fault::new(Kind::RateLimit, "slow down")
        }),
        answer,
        ..attempt()
    }
}

/// An attempt whose stream ends in the middle of a line.
fn broken_off() -> BundleAttempt {
    let (answer, pieces) = cut(&[
        "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n",
        "",
        "\ndata: {\"choi",
    ]);
    BundleAttempt {
        at_us: 1_200_000,
        end_us: 2_400_000,
        key: Some(1),
        head: Some(BundleResponseHead {
            at_us: 1_300_000,
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
        }),
        pieces,
        fault: Some(Fault::new(Kind::Cut, "The answer broke off.")),
        answer,
        ..attempt()
    }
}

fn attempt() -> BundleAttempt {
    BundleAttempt {
        route: "lab/one".into(),
        url: "https://lab.example/v1/chat/completions".into(),
        headers: vec![("accept".into(), "text/event-stream".into())],
        key: Some(0),
        window: Some(Window::assumed()),
        bytes_per_token: 2.7,
        estimated_input: 19,
        body: br#"{"model":"one","messages":[],"stream":true}"#.to_vec(),
        ..BundleAttempt::default()
    }
}

fn route() -> RouteSnapshot {
    RouteSnapshot {
        provider: "lab".into(),
        name: "Lab".into(),
        wire: Wire::default(),
        base_url: "https://lab.example/v1".into(),
        upstream_model: "one".into(),
        // A stored model does not tell that it is unlisted; its route does.
        model: Model {
            unlisted: false,
            ..Model::unlisted("one")
        },
        unlisted: true,
        reported: true,
        dialect: Dialect::default(),
        key_required: true,
        key_header: None,
        key_scheme: None,
        key_query: None,
        key_weights: vec![1, 2],
        headers: Vec::new(),
        query: Vec::new(),
        timeouts: Timeouts::default(),
        max_retries: 3,
    }
}

/// A body of these chunks, which arrive every 50 ms from 1.4 s on.
fn cut(pieces: &[&str]) -> (Vec<u8>, Vec<BodyChunk>) {
    let pieces_at = pieces.iter().zip(0_u64..).map(|(piece, index)| BodyChunk {
        at_us: 1_400_000 + 50_000 * index,
        length: piece.len(),
    });
    (pieces.concat().into_bytes(), pieces_at.collect())
}
