use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::config::{Flags, Inputs, UserDirs, load};
use crate::metrics::Outcome;
use crate::tap::{Seen, Tap};

fn config(capture: &str) -> Arc<Config> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[capture]\n{capture}\n");
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    let inputs = Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        dirs: UserDirs::under(folder.path()),
    };
    Arc::new(load(&inputs).unwrap())
}

/// A turn whose answer has these pieces.
fn run(capture: &Capture, config: &Arc<Config>, id: &str, pieces: &[&[u8]]) {
    ask(capture, config, id, r#"{"model":"nowhere"}"#, pieces);
}

fn ask(capture: &Capture, config: &Arc<Config>, id: &str, body: &str, pieces: &[&[u8]]) {
    let surrounding = capture.of(&id.into(), config);
    let tap: Arc<dyn Tap> = surrounding.tap.unwrap();
    let head = http::Request::post("/v1/responses").body(()).unwrap();
    let head = head.into_parts().0;
    let body = Arc::new(body.to_owned());
    tap.saw(Seen::ClientRequest {
        head: &head,
        body: &body,
    });
    surrounding.clock.unix();
    for piece in pieces {
        tap.saw(Seen::ClientAnswer(piece));
    }
    let notes = adapters::notes::Notes::default();
    tap.saw(Seen::Ended {
        outcome: Outcome::Completed,
        notes: &notes,
        usage: None,
        fault: None,
    });
}

fn ids(capture: &Capture) -> Vec<String> {
    let turns = capture.recent();
    turns.iter().map(|raw| raw.turn().request_id).collect()
}

#[test]
fn a_turn_is_there_when_it_is_over() {
    let (capture, config) = (Capture::default(), config(""));
    run(&capture, &config, "req_1", &[b"one", b"", b"three"]);
    let turn = capture.recent()[0].turn();
    assert_eq!(turn.request.path, "/v1/responses");
    assert_eq!(turn.request.body, br#"{"model":"nowhere"}"#);
    assert_eq!(turn.answer.body, b"onethree");
    let lengths: Vec<usize> = turn.answer.pieces.iter().map(|p| p.length).collect();
    assert_eq!(lengths, [3, 0, 5]);
    assert_eq!(turn.clock.len(), 1);
    assert_eq!(turn.outcome, Some(Outcome::Completed));
    assert!(turn.is_whole());
}

#[test]
fn nothing_is_taken_down_when_it_is_off() {
    let capture = Capture::default();
    let surrounding = capture.of(&"req_1".into(), &config("mode = \"off\""));
    assert!(surrounding.tap.is_none());
    drop(surrounding);
    assert!(capture.recent().is_empty());
}

#[test]
fn the_oldest_turns_make_room() {
    let capture = Capture::default();
    let few = config("recent = 2");
    for id in ["a", "b", "c"] {
        run(&capture, &few, id, &[b"x"]);
    }
    assert_eq!(ids(&capture), ["c", "b"]);
    let small = config("memory = 2000");
    for id in ["d", "e", "f", "g", "h"] {
        run(&capture, &small, id, &[&[b'x'; 400]]);
    }
    assert_eq!(ids(&capture), ["h", "g", "f", "e"]);
}

#[test]
fn what_is_switched_off_is_forgotten() {
    let (capture, config_before) = (Capture::default(), config(""));
    for id in ["a", "b", "c"] {
        run(&capture, &config_before, id, &[b"x"]);
    }
    capture.limit(&config("recent = 2"));
    assert_eq!(ids(&capture), ["c", "b"]);
    capture.limit(&config("mode = \"off\""));
    assert!(capture.recent().is_empty());
}

/// What does not fit is counted, and nothing that is kept has a gap.
#[test]
fn a_turn_that_is_too_large_says_so() {
    let (capture, config) = (Capture::default(), config("memory = 2000"));
    run(
        &capture,
        &config,
        "large",
        &[&[b'a'; 300], &[b'b'; 300], &[b'c'; 10]],
    );
    let turn = capture.recent()[0].turn();
    assert_eq!(turn.answer.body, [b'a'; 300]);
    let [omitted] = turn.omitted.as_slice() else {
        panic!("nothing is told of what was left out");
    };
    assert_eq!(
        (omitted.what.as_str(), omitted.total, omitted.kept),
        ("answer", 610, 300)
    );
    // What it took is free again.
    run(&capture, &config, "next", &[&[b'a'; 450]]);
    assert!(capture.recent()[0].turn().is_whole());
}

/// It would stand beside the next one, which is as large.
#[test]
fn a_huge_request_that_went_well_is_not_kept_in_memory() {
    let (capture, config) = (Capture::default(), config("memory = 20000"));
    for (id, length) in [("small", 9_000), ("huge", 11_000)] {
        ask(&capture, &config, id, &"x".repeat(length), &[]);
    }
    assert_eq!(ids(&capture), ["small"]);
}

/// What somebody still holds, such as the writer, takes room until it is let go.
#[test]
fn turns_that_wait_to_be_written_take_room() {
    let (capture, config) = (Capture::default(), config("memory = 2000"));
    run(&capture, &config, "waits", &[&[b'x'; 400]]);
    let waits: Vec<_> = (0..4)
        .flat_map(|_| {
            run(&capture, &config, "waits", &[&[b'x'; 400]]);
            capture.recent()
        })
        .collect();
    run(&capture, &config, "next", &[&[b'x'; 400]]);
    assert!(!capture.recent()[0].turn().is_whole());
    drop(waits);
    run(&capture, &config, "next", &[&[b'x'; 400]]);
    assert!(capture.recent()[0].turn().is_whole());
}
