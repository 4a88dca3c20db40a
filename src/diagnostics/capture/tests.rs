use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use adapters::stop_flag::StopReason;

use super::*;
use crate::config::{Inputs, LoadPurpose, load};
use crate::diagnostics::bundle::BundleError;
use crate::diagnostics::selection::BundleQuery;
use crate::net::Owner;
use crate::net::memory::MemoryFull;
use crate::turn::{Outcome, TurnEvent, TurnObserver, TurnRequest};

fn config(capture: &str) -> Arc<Config> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[capture]\n{capture}\n");
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    let inputs = Inputs::under(folder.path());
    Arc::new(load(&inputs, LoadPurpose::Serve).unwrap())
}

/// Records a turn whose request has this many bytes, which hardly can be compressed, and waits
/// until it is compressed.
fn run(capture: &TurnCapture, config: &Arc<Config>, id: &str, length: usize) {
    let mut state = 1_u32;
    let body: String = (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(33 + (state >> 24) as u8 % 94)
        })
        .collect();
    ask(capture, config, id, &body, &[]);
    flush(capture);
}

fn ask(capture: &TurnCapture, config: &Arc<Config>, id: &str, body: &str, pieces: &[&[u8]]) {
    let environment = capture.create(&id.into(), config);
    let observer: Arc<dyn TurnObserver> = environment.observer.unwrap();
    let body = Arc::new(body.to_owned());
    observer.on_event(TurnEvent::ClientRequest {
        request: &TurnRequest::default(),
        body: &body,
    });
    environment.clock.unix();
    for piece in pieces {
        observer.on_event(TurnEvent::ClientBody(piece));
    }
    let notes = adapters::notes::Notes::default();
    observer.on_event(TurnEvent::Ended {
        outcome: Outcome::Completed,
        notes: &notes,
        usage: None,
        fault: None,
    });
}

/// Waits until the writer has done all that was queued.
fn flush(capture: &TurnCapture) {
    let limit = Duration::from_mins(1);
    assert_eq!(capture.0.writer.flush(limit, &StopFlag::default()), 0);
}

fn ids(capture: &TurnCapture) -> Vec<String> {
    let turns = capture.recent();
    turns
        .iter()
        .map(|turn| turn.listed.request_id.clone())
        .collect()
}

#[test]
fn a_turn_is_listed_when_it_is_over() {
    let (capture, config) = (TurnCapture::default(), config(""));
    let body = r#"{"model":"nowhere"}"#;
    ask(&capture, &config, "req_1", body, &[b"one", b"", b"three"]);
    let turn = capture.recent()[0].open().0;
    assert_eq!(turn.request.path, "/v1/responses");
    assert_eq!(turn.request.body, br#"{"model":"nowhere"}"#);
    let lengths: Vec<usize> = turn.answer.pieces.iter().map(|p| p.length).collect();
    assert_eq!(lengths, [3, 0, 5]);
    assert_eq!(turn.clock.len(), 1);
    assert_eq!(turn.outcome, Some(Outcome::Completed));
    // Of the response there are only hashes.
    assert!(turn.answer.body.is_empty());
    let [omitted] = turn.omitted.as_slice() else {
        panic!("the response is not missing");
    };
    assert_eq!((omitted.what.as_str(), omitted.total), ("answer", 8));
}

#[test]
fn nothing_is_recorded_when_capture_is_off() {
    let capture = TurnCapture::default();
    let environment = capture.create(&"req_1".into(), &config("mode = \"off\""));
    assert!(environment.observer.is_none());
    drop(environment);
    assert!(capture.recent().is_empty());
}

#[test]
fn the_oldest_turns_are_evicted() {
    let capture = TurnCapture::default();
    let few = config("recent = 2");
    for id in ["a", "b", "c"] {
        run(&capture, &few, id, 1);
    }
    assert_eq!(ids(&capture), ["c", "b"]);
    let small = config("memory = 200_000");
    for id in ["d", "e", "f", "g", "h"] {
        run(&capture, &small, id, 50_000);
    }
    assert_eq!(ids(&capture), ["h", "g", "f", "e"]);
}

#[test]
fn a_new_configuration_evicts_what_it_does_not_allow() {
    let (capture, config_before) = (TurnCapture::default(), config(""));
    for id in ["a", "b", "c"] {
        run(&capture, &config_before, id, 1);
    }
    capture.apply_limits(&config("recent = 2"));
    assert_eq!(ids(&capture), ["c", "b"]);
    capture.apply_limits(&config("mode = \"off\""));
    assert!(capture.recent().is_empty());
}

/// It would fill the memory together with the next request, which is as large.
#[test]
fn a_huge_successful_request_is_not_kept_in_memory() {
    let (capture, config) = (TurnCapture::default(), config("memory = 20000"));
    for (id, length) in [("small", 9_000), ("huge", 11_000)] {
        ask(&capture, &config, id, &"x".repeat(length), &[]);
    }
    assert_eq!(ids(&capture), ["small"]);
}

#[test]
fn finished_turns_wait_compressed() {
    let (capture, config) = (TurnCapture::default(), config(""));
    ask(&capture, &config, "req_1", &"x".repeat(100_000), &[b"{}"]);
    let turn = Arc::clone(&capture.recent()[0]);
    flush(&capture);
    let used = capture.0.budget.used();
    assert!((1..10_000).contains(&used), "{used}");
    let (opened, sent) = turn.open();
    assert_eq!(opened.request_id, "req_1");
    assert_eq!(opened.request.body, "x".repeat(100_000).into_bytes());
    assert_eq!(opened.answer.pieces.len(), 1);
    assert_eq!(sent.answer.differing_events(b"{}"), [0; 0]);
    drop(turn);
    capture.apply_limits(&self::config("mode = \"off\""));
    flush(&capture);
    assert_eq!(capture.0.budget.used(), 0);
}

/// A turn that somebody still holds, such as the writer, counts until it is dropped.
#[test]
fn turns_that_wait_to_be_written_count_towards_the_budget() {
    let (capture, config) = (TurnCapture::default(), config("memory = 200_000"));
    let waits: Vec<_> = (0..4)
        .flat_map(|_| {
            run(&capture, &config, "waits", 50_000);
            capture.recent()
        })
        .collect();
    run(&capture, &config, "next", 50_000);
    assert_eq!(ids(&capture), [""; 0]);
    drop(waits);
    run(&capture, &config, "next", 50_000);
    assert_eq!(ids(&capture), ["next"]);
}

/// The work of a client that left ends before the next turn.
#[test]
fn stopped_work_makes_no_bundle_and_reads_no_file() {
    let (capture, config) = (TurnCapture::default(), config(""));
    ask(&capture, &config, "req_1", r#"{"model":"nowhere"}"#, &[]);
    let every = BundleQuery::from_query("select=since:86400").unwrap();
    let bundled = |stop: &StopFlag| {
        let mut work = CaptureWork::default();
        work.stop = stop.clone();
        capture.bundle(&config, &Owner::local(), &every, &mut work)
    };
    let stop = StopFlag::new();
    assert!(bundled(&stop).unwrap().is_some());
    stop.raise(StopReason::ClientLeft);
    assert!(matches!(bundled(&stop), Err(BundleError::Stopped)));
}

/// Promise: The end of the server waits ten seconds at most for recordings that are not on disk.
///
/// The end of the server does not wait for a turn that cannot be written.
#[test]
fn the_end_of_the_server_waits_ten_seconds_for_recordings() {
    let (capture, config) = (TurnCapture::default(), config("mode = \"all\""));
    ask(&capture, &config, "req_1", r#"{"model":"nowhere"}"#, &[]);
    let turn = Arc::clone(&capture.recent()[0]);
    let (release, held) = turn.hold();
    held.recv().unwrap();
    let (ended, has_ended) = channel();
    let ending = capture.clone();
    std::thread::spawn(move || {
        ending.flush_at_end();
        ended.send(()).unwrap();
    });
    let is_ended = has_ended.recv_timeout(Duration::from_secs(30));
    drop(release);
    is_ended.expect("the server does not end");
}

/// Work on recordings needs memory, and two never run at once.
#[tokio::test(start_paused = true)]
async fn work_on_recordings_has_one_place_and_a_share_of_the_memory() {
    let capture = TurnCapture::default();
    let full = ProcessMemory::new(2 << 20);
    let mut others = full.share(MemoryKind::Answers);
    others.set(2 << 20);
    let refused = capture.run_work(&full, |_, _| ()).await;
    assert_eq!(
        refused,
        Err(CaptureWorkError::MemoryFull(MemoryFull::InUse))
    );
    let memory = ProcessMemory::unlimited();
    let counted = memory.clone();
    let used = capture.run_work(&memory, move |_, work| {
        work.begin_turn(1 << 20);
        let copies = counted.used_for(MemoryKind::Recordings);
        work.keep_turn(1 << 20);
        (copies, counted.used_for(MemoryKind::Recordings))
    });
    let (copies, kept) = used.await.unwrap();
    assert!(copies > 4 << 20, "{copies}");
    assert_eq!(kept, 1 << 20);
    assert_eq!(memory.used(), 0);
    let permit = capture.0.permit().await;
    let waits = capture.run_work(&memory, |_, _| ());
    // The clock goes on only while nothing runs.
    let waits = tokio::time::timeout(Duration::from_hours(1), waits).await;
    assert!(waits.is_err(), "two run at once");
    drop(permit);
    assert_eq!(capture.run_work(&memory, |_, _| ()).await, Ok(()));
}
