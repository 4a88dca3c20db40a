//! Background responses and their events.

use tempfile::TempDir;

use super::{OWNER, number, response, text};
use crate::net::Owner;
use crate::store::responses::text_bytes;
use crate::store::{
    DataDir, EndedJob, EventBatch, JobState, NewDelivery, NewJob, NewResponse, ResponseText, Store,
    StoreError, StoredOrigin, ToolChanges, count_rows,
};

struct TestStore {
    store: Store,
    data_dir: DataDir,
    _folder: TempDir,
}

impl TestStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        Self {
            store: Store::open(&data_dir, 0).unwrap(),
            data_dir,
            _folder: folder,
        }
    }

    async fn accept(&self, id: &str) {
        let job = NewJob {
            id: id.into(),
            owner: OWNER.into(),
            text: text(),
            created: 1,
            request: format!("the request of {id}"),
            headers: "{}".into(),
            events: events(0..2),
            now_ms: 1_000,
        };
        self.store.create_job(job).await.unwrap();
    }

    async fn claim(&self, id: &str) -> bool {
        self.store
            .claim_job(OWNER, id, text(), 2_000)
            .await
            .unwrap()
    }

    async fn finish(&self, id: &str, last: EventBatch) {
        let ended = response(id, StoredOrigin::Nothing, &["in"], &["out"]);
        let refused = self.store.finish_job(EndedJob {
            deliveries: vec![NewDelivery {
                webhook: "hook".to_owned(),
                event: "evt_1".to_owned(),
                body: "{}".to_owned(),
            }],
            ..end_of(ended, last)
        });
        assert!(refused.await.unwrap().is_empty());
    }

    async fn state(&self, id: &str) -> Option<JobState> {
        let job = self.store.job(OWNER, id).await.unwrap();
        job.map(|job| job.state)
    }
}

/// The end of a job that ran to its end.
fn end_of(response: NewResponse, events: EventBatch) -> EndedJob {
    EndedJob {
        response: response.into(),
        events,
        was_interrupted: false,
        deliveries: Vec::new(),
        now_ms: 3_000,
    }
}

#[tokio::test]
async fn only_a_run_that_was_interrupted_counts_as_such() {
    let test = TestStore::new();
    for (id, was_interrupted) in [("r1", true), ("r2", false)] {
        test.accept(id).await;
        test.claim(id).await;
        assert!(!test.store.was_interrupted(OWNER, id).await.unwrap());
        let ended = response(id, StoredOrigin::Nothing, &["in"], &["out"]);
        let end = EndedJob {
            was_interrupted,
            ..end_of(ended, events(2..3))
        };
        test.store.finish_job(end).await.unwrap();
        let found = test.store.was_interrupted(OWNER, id).await.unwrap();
        assert_eq!(found, was_interrupted);
        assert!(!test.store.was_interrupted("another", id).await.unwrap());
    }
}

#[tokio::test]
async fn the_size_of_a_response_is_that_of_what_it_is_now() {
    let test = TestStore::new();
    test.accept("r1").await;
    let longer = ResponseText {
        head: text().head + &" ".repeat(1_000),
        ..text()
    };
    assert!(
        test.store
            .claim_job(OWNER, "r1", longer, 2_000)
            .await
            .unwrap()
    );
    test.finish("r1", events(2..4)).await;
    let connection = rusqlite::Connection::open(test.data_dir.database_path()).unwrap();
    let size = number(&connection, "SELECT bytes FROM responses");
    let events = events(0..2).documents.len() + events(2..4).documents.len();
    let size = u64::try_from(size).unwrap() - events as u64;
    assert_eq!(size, text_bytes(&text().head, &text().tail));
}

/// Events with these numbers.
fn events(numbers: std::ops::Range<u64>) -> EventBatch {
    EventBatch {
        first: numbers.start,
        last: numbers.end - 1,
        documents: numbers
            .map(|number| format!("{{\"n\":{number}}}\n"))
            .collect::<Vec<_>>()
            .concat()
            .into(),
    }
}

#[tokio::test]
async fn a_run_is_claimed_once() {
    let test = TestStore::new();
    test.accept("r1").await;
    assert_eq!(test.state("r1").await, Some(JobState::Queued));
    assert!(test.claim("r1").await);
    assert!(!test.claim("r1").await);
    assert_eq!(test.state("r1").await, Some(JobState::Running));
    let another = test.store.claim_job("another", "r1", text(), 2_000).await;
    assert!(!another.unwrap());
}

#[tokio::test]
async fn unfinished_runs_are_found_again_in_their_order() {
    let test = TestStore::new();
    for id in ["r1", "r2", "r3"] {
        test.accept(id).await;
    }
    test.claim("r1").await;
    test.finish("r2", events(2..3)).await;
    let left = test.store.unfinished_jobs().await.unwrap();
    let owned = |id: &str| (OWNER.to_owned(), id.to_owned());
    assert_eq!(left, [owned("r1"), owned("r3")]);
    for (id, state) in [("r1", JobState::Running), ("r3", JobState::Queued)] {
        let job = test.store.unfinished_job(OWNER, id).await.unwrap().unwrap();
        let found = (job.id.as_str(), job.state, job.request.as_str());
        assert_eq!(found, (id, state, &*format!("the request of {id}")));
    }
}

#[tokio::test]
async fn the_end_of_a_run_is_stored_with_its_last_events_and_forgets_its_request() {
    let test = TestStore::new();
    test.accept("r1").await;
    test.claim("r1").await;
    test.store
        .checkpoint(OWNER, "r1", events(2..4), ToolChanges::default())
        .await
        .unwrap();
    test.finish("r1", events(4..6)).await;
    assert_eq!(test.state("r1").await, Some(JobState::Ended));
    let found = test.store.response(OWNER, "r1").await.unwrap().unwrap();
    assert!(found.background);
    assert!(found.json.contains("\"id\":\"out\""), "{}", found.json);
    assert_eq!(
        count_rows(&test.data_dir, "jobs WHERE request IS NOT NULL"),
        0
    );
    for (after, first) in [(None, 0), (Some(1), 2), (Some(2), 2), (Some(4), 4)] {
        let batch = test.store.events_after(OWNER, "r1", after).await.unwrap();
        assert_eq!(*batch.unwrap(), events(first..6));
    }
    for (owner, after) in [(OWNER, Some(5)), ("another", None)] {
        let batch = test.store.events_after(owner, "r1", after).await.unwrap();
        assert_eq!(batch, None);
    }
    assert_eq!(test.store.job("another", "r1").await.unwrap(), None);
    assert_eq!(
        test.store.jobs(&Owner("another".into()), 10).await.unwrap(),
        []
    );
}

#[tokio::test]
async fn a_run_and_its_events_go_with_their_response() {
    let test = TestStore::new();
    test.accept("r1").await;
    test.claim("r1").await;
    test.finish("r1", events(2..3)).await;
    assert!(!test.store.delete_response("another", "r1").await.unwrap());
    assert!(test.store.delete_response(OWNER, "r1").await.unwrap());
    for table in [
        "jobs",
        "events",
        "deliveries",
        "items",
        "contents",
        "threads",
        "responses",
    ] {
        assert_eq!(count_rows(&test.data_dir, table), 0, "{table}");
    }
    // A job whose response was deleted has nothing to end.
    let ended = NewResponse {
        ..response("r1", StoredOrigin::Nothing, &["in"], &["out"])
    };
    let finished = test.store.finish_job(end_of(ended, events(3..4)));
    assert!(finished.await.is_err());
    assert_eq!(count_rows(&test.data_dir, "items"), 0);
}

/// How many pages were written since this was asked last.
fn pages_written(store: &TestStore) -> i64 {
    let connection = rusqlite::Connection::open(store.data_dir.database_path()).unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
    connection
        .query_row(checkpoint, [], |row| row.get(1))
        .unwrap()
}

/// Waits for something that waits for the thread that writes: it finds all of it at once.
async fn at_once<F: Future>(test: &TestStore, waiting: F) -> F::Output {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let busy = test.store.write_with(move |_| {
        wait.recv().unwrap();
        Ok(())
    });
    let release = async { go_on.send(()).unwrap() };
    let (_, output, ()) = tokio::join!(busy, waiting, release);
    output
}

/// What is written of a job, one after the other.
#[derive(Clone, Copy, Debug)]
enum JobWrite {
    Accepted,
    Claimed,
    Events,
    End,
}

impl JobWrite {
    async fn write(self, test: &TestStore, id: &str) {
        match self {
            Self::Accepted => test.accept(id).await,
            Self::Claimed => assert!(test.claim(id).await),
            Self::Events => {
                let appended = test
                    .store
                    .checkpoint(OWNER, id, events(2..3), ToolChanges::default())
                    .await;
                appended.unwrap();
            }
            Self::End => test.finish(id, events(3..4)).await,
        }
    }
}

#[tokio::test]
async fn jobs_that_wait_at_the_same_time_are_written_in_one_transaction() {
    const JOBS: usize = 10;
    let test = TestStore::new();
    let ids = |name: &str| (0..JOBS).map(|job| format!("{name}{job}")).collect();
    let (apart, together): (Vec<String>, Vec<String>) = (ids("a"), ids("t"));
    for write in [
        JobWrite::Accepted,
        JobWrite::Claimed,
        JobWrite::Events,
        JobWrite::End,
    ] {
        pages_written(&test);
        for id in &apart {
            write.write(&test, id).await;
        }
        let pages_apart = pages_written(&test);
        // All of them wait for the thread that writes, with one whose response was deleted.
        let writes = together.iter().map(|id| write.write(&test, id));
        let writes = futures_util::future::join_all(writes);
        let gone = test
            .store
            .checkpoint(OWNER, "gone", events(2..3), ToolChanges::default());
        let (_, gone) = at_once(&test, async { tokio::join!(writes, gone) }).await;
        assert!(matches!(gone, Err(StoreError::Gone)));
        let pages = pages_written(&test);
        assert!(
            pages * 3 < pages_apart,
            "{write:?}: {pages} pages, {pages_apart} apart"
        );
    }
    for id in apart.iter().chain(&together) {
        let log = test.store.events_after(OWNER, id, Some(1)).await.unwrap();
        assert_eq!(*log.unwrap(), events(2..4));
        assert_eq!(test.state(id).await, Some(JobState::Ended));
    }
}

#[tokio::test]
async fn a_run_that_several_claim_at_the_same_time_is_claimed_once() {
    let test = TestStore::new();
    test.accept("r1").await;
    let claims = ["r1", "r1", "r1"].map(|id| test.claim(id));
    let claims = at_once(&test, futures_util::future::join_all(claims)).await;
    assert_eq!(claims, [true, false, false]);
}

/// Promise: What several responses are to write at the same time (that they were accepted, claimed
/// or have ended, and their events) is written in one transaction, and what cannot be written fails
/// none of the others.
#[tokio::test]
async fn events_that_cannot_be_written_do_not_fail_those_of_other_jobs() {
    let test = TestStore::new();
    test.accept("good").await;
    test.accept("bad").await;
    let good = test
        .store
        .checkpoint(OWNER, "good", events(2..4), ToolChanges::default());
    // These are there already.
    let bad = test
        .store
        .checkpoint(OWNER, "bad", events(0..2), ToolChanges::default());
    let (good, bad) = at_once(&test, async { tokio::join!(good, bad) }).await;
    good.unwrap();
    assert!(bad.is_err());
    let log = test.store.events_after(OWNER, "good", Some(1)).await;
    assert_eq!(*log.unwrap().unwrap(), events(2..4));
}
