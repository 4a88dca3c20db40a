//! Turns go on while the disk fails.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use tracing::subscriber::DefaultGuard;

use super::*;

/// Captures the log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || to.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The ids of the warnings so far.
    fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        // A message may have several lines; the id comes after it.
        let ids = text
            .split_whitespace()
            .filter(|word| word.starts_with("[ARTIFACT_STORE_"));
        ids.map(|id| id.trim_matches(['[', ']']).to_owned())
            .collect()
    }
}

async fn assert_keeps(artifacts: &Artifacts, persistent: bool) {
    let id = keep(artifacts, "me", "works", "it works").await;
    let piece = artifacts
        .read("me", &id, &ArtifactRange::Whole)
        .await
        .unwrap();
    let piece = piece.unwrap();
    assert_eq!(*piece.text, "it works");
    assert_eq!(piece.entry.persistent, persistent);
}

/// Promise: If the store cannot be opened, written or read, this is reported once under a stable
/// id; memory is used instead, and artifacts that are not persistent are marked.
#[tokio::test]
async fn a_store_that_cannot_be_opened_is_reported_once_and_replaced_by_memory() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    fs::write(dir.folder.path().join("data"), "a file").unwrap();
    let artifacts = dir.open();
    assert_eq!(artifacts.retention(), Retention::Memory);
    assert_keeps(&artifacts, false).await;
    assert_keeps(&artifacts, false).await;
    artifacts.sweep().await.unwrap();
    assert_eq!(log.warnings(), [OPEN_FAILED]);
}

#[tokio::test]
async fn a_failed_write_is_reported_once_and_replaced_by_memory() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let artifacts = dir.open();
    let before = keep(&artifacts, "me", "1", "before").await;
    store::execute(
        &dir.data_dir(),
        "ALTER TABLE blobs RENAME COLUMN stored TO gone",
    );
    let during = keep(&artifacts, "me", "2", "during").await;
    assert_keeps(&artifacts, false).await;
    // Excerpts keep saying the same, or the prompt prefix would change.
    assert_eq!(artifacts.retention(), Retention::Disk);
    assert!(artifacts.is_kept("me", "s", "2", &during));
    assert_eq!(
        whole(&artifacts, "me", &before).await.as_deref(),
        Some("before")
    );
    assert_eq!(log.warnings(), [WRITE_FAILED]);
    let entries = artifacts
        .list("me", &ArtifactFilter::default())
        .await
        .unwrap();
    let persistent: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.persistent)
        .map(|entry| entry.call_id.as_str())
        .collect();
    assert_eq!((entries.len(), persistent), (3, vec!["1"]));

    store::execute(
        &dir.data_dir(),
        "ALTER TABLE blobs RENAME COLUMN gone TO stored",
    );
    let after = keep(&artifacts, "me", "3", "after").await;
    let piece = artifacts
        .read("me", &after, &ArtifactRange::Whole)
        .await
        .unwrap();
    assert!(piece.unwrap().entry.persistent);
}

#[tokio::test]
async fn memory_is_written_to_the_disk_when_it_works_again() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    store::execute(
        &dir.data_dir(),
        "ALTER TABLE blobs RENAME COLUMN stored TO gone",
    );
    let mut kept = Vec::new();
    for (owner, call_id, text) in [("me", "1", "one"), ("me", "2", "two"), ("you", "3", "two")] {
        kept.push((owner, keep(&artifacts, owner, call_id, text).await, text));
    }
    artifacts.flush_to_disk().await;
    for (owner, id, text) in &kept {
        assert_eq!(whole(&artifacts, owner, id).await.as_deref(), Some(*text));
    }
    store::execute(
        &dir.data_dir(),
        "ALTER TABLE blobs RENAME COLUMN gone TO stored",
    );
    artifacts.flush_to_disk().await;
    assert!(artifacts.is_kept("me", "s", "1", &kept[0].1));
    assert!(!artifacts.is_kept("me", "s", "3", &kept[2].1));
    assert_eq!(store::count_rows(&dir.data_dir(), "refs"), 3);
    drop(artifacts);
    let artifacts = dir.open();
    for (owner, id, text) in &kept {
        assert_eq!(whole(&artifacts, owner, id).await.as_deref(), Some(*text));
    }
}

#[tokio::test]
async fn failed_reads_and_sweeps_are_reported_once() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let artifacts = dir.open();
    let id = keep(&artifacts, "me", "1", "text").await;
    store::execute(
        &dir.data_dir(),
        "ALTER TABLE refs RENAME COLUMN accessed TO gone",
    );
    for _ in 0..2 {
        let error = artifacts
            .read("me", &id, &ArtifactRange::Whole)
            .await
            .unwrap_err();
        assert_eq!(error.warning, READ_FAILED);
        let error = artifacts.sweep().await.unwrap_err();
        assert_eq!(error.warning, SWEEP_FAILED);
    }
    assert_eq!(log.warnings(), [READ_FAILED, SWEEP_FAILED]);
}

/// Promise: A disk that fails or is full costs no turn: what it does not take is kept in memory as
/// far as there is room, and no part of an artifact is visible.
#[tokio::test]
async fn a_full_disk_costs_no_artifact() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let store = Arc::new(Store::open(&dir.data_dir(), START).unwrap());
    let artifacts = Artifacts::open(
        &dir.settings,
        Some(Ok(Arc::clone(&store))),
        Arc::new(TestClock(Arc::clone(&dir.now))),
        dir.counts.clone(),
        &Sharing::default(),
    );
    let full = store.limit_pages(96).await;
    let mut kept = Vec::new();
    for seed in 0..10 {
        kept.push(keep(&artifacts, "me", &seed.to_string(), &noise(seed, 60_000)).await);
    }
    let persistent = || async {
        let entries = artifacts.list("me", &ArtifactFilter::default()).await;
        let entries = entries.unwrap();
        assert_eq!(entries.len(), 10);
        entries.iter().filter(|entry| entry.persistent).count()
    };
    let on_disk = persistent().await;
    assert!((1..10).contains(&on_disk), "{on_disk}");
    let count = i64::try_from(on_disk).unwrap();
    assert_eq!(store::count_rows(&dir.data_dir(), "blobs"), count);
    assert_eq!(store::count_rows(&dir.data_dir(), "chunks"), count);
    for (seed, id) in kept.iter().enumerate() {
        let text = whole(&artifacts, "me", id).await.unwrap();
        assert!(text == noise(seed as u64, 60_000), "{seed}");
    }
    assert_eq!(log.warnings(), [WRITE_FAILED]);
    // There is room again.
    store.limit_pages(full).await;
    artifacts.flush_to_disk().await;
    assert_eq!(persistent().await, 10);
}

/// Promise: A database that another program has locked, or that is damaged, unreadable or of a
/// newer version, costs no turn: memory is used instead, one operation waits a second for the lock,
/// and nothing is deleted.
#[tokio::test]
async fn turns_use_memory_while_the_database_is_locked() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let artifacts = dir.open();
    let before = keep(&artifacts, "me", "0", "before").await;
    let lock = store::LockedDatabase::new(&dir.data_dir());
    for call_id in ["1", "2", "3"] {
        let id = keep(&artifacts, "me", call_id, call_id).await;
        assert_eq!(whole(&artifacts, "me", &id).await.as_deref(), Some(call_id));
    }
    // Who only reads is not locked out.
    assert_eq!(
        whole(&artifacts, "me", &before).await.as_deref(),
        Some("before")
    );
    // A busy machine may begin the first write late.
    while log.warnings().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(lock);
    assert_keeps(&artifacts, true).await;
    assert_eq!(log.warnings(), [WRITE_FAILED]);
    artifacts.flush_to_disk().await;
    assert_eq!(store::count_rows(&dir.data_dir(), "refs"), 5);
}

/// The contents of the databases that were moved aside.
fn moved_aside(dir: &TestDir) -> Vec<Vec<u8>> {
    let folder = dir.data_dir().database_path();
    let entries = fs::read_dir(folder.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("damaged"))
        .map(|path| fs::read(path).unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_moved_aside() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    for count in 1..3 {
        let database = dir.data_dir().database_path();
        fs::create_dir_all(database.parent().unwrap()).unwrap();
        let garbage = format!("garbage {count} ").repeat(1000);
        fs::write(&database, &garbage).unwrap();
        let artifacts = dir.open();
        assert_eq!(artifacts.retention(), Retention::Disk);
        assert_keeps(&artifacts, true).await;
        drop(artifacts);
        let aside = moved_aside(&dir);
        assert_eq!(aside.len(), count);
        assert!(aside.contains(&garbage.into_bytes()));
    }
    assert_eq!(log.warnings(), [MOVED_ASIDE, MOVED_ASIDE]);
}

#[tokio::test]
async fn damage_found_later_is_repaired_at_the_next_start() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let artifacts = dir.open();
    let mut kept = Vec::new();
    for seed in 0..60 {
        kept.push(keep(&artifacts, "me", "call", &noise(seed, 20_000)).await);
    }
    drop(artifacts);
    let database = dir.data_dir().database_path();
    let mut bytes = fs::read(&database).unwrap();
    // The schema and the first pages of the tables stay intact, so that opening succeeds.
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    fs::write(&database, &bytes).unwrap();

    let artifacts = dir.open();
    let mut failed = 0;
    for id in &kept {
        failed += u64::from(
            artifacts
                .read("me", id, &ArtifactRange::Whole)
                .await
                .is_err(),
        );
    }
    assert!(failed > 0);
    drop(artifacts);
    let artifacts = dir.open();
    assert_keeps(&artifacts, true).await;
    assert_eq!(moved_aside(&dir).len(), 1);
    drop(artifacts);
    assert_keeps(&dir.open(), true).await;
    assert_eq!(log.warnings(), [READ_FAILED, MOVED_ASIDE]);
}

#[tokio::test]
async fn the_store_of_a_newer_version_is_left_alone() {
    let (log, _guard) = Log::start();
    let dir = TestDir::new();
    let id = keep(&dir.open(), "me", "call", "text").await;
    store::execute(&dir.data_dir(), "PRAGMA user_version = 99");
    let artifacts = dir.open();
    assert_eq!(artifacts.retention(), Retention::Memory);
    // Nobody knows whether it is there.
    let read = artifacts.read("me", &id, &ArtifactRange::Whole).await;
    assert_eq!(read.unwrap_err().warning, OPEN_FAILED);
    assert!(artifacts.delete("me", &id).await.is_err());
    assert_keeps(&artifacts, false).await;
    drop(artifacts);
    assert_eq!(log.warnings(), [OPEN_FAILED]);
    assert!(moved_aside(&dir).is_empty());
}
