//! The disk fails, and turns go on.

use std::io::{self, Write};
use std::sync::Mutex;

use tracing::subscriber::DefaultGuard;

use super::*;

/// The log of this thread.
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
        let warnings = text.lines().filter(|line| line.contains(" WARN "));
        let id = |line: &str| {
            let id = line
                .split(' ')
                .find(|word| word.starts_with("ARTIFACT_STORE_"));
            id.unwrap().trim_end_matches(':').to_owned()
        };
        warnings.map(id).collect()
    }
}

async fn works(artifacts: &Artifacts, persistent: bool) {
    let id = keep(artifacts, "me", "works", "it works").await;
    let piece = artifacts.read("me", &id, &Part::Whole).await.unwrap();
    let piece = piece.unwrap();
    assert_eq!(piece.text, "it works");
    assert_eq!(piece.entry.persistent, persistent);
}

// S2-De
#[tokio::test]
async fn a_store_that_cannot_be_opened_is_told_once_and_memory_stands_in() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    fs::write(home.folder.path().join("data"), "a file").unwrap();
    let artifacts = home.open();
    assert_eq!(artifacts.keeping(), Retention::Memory);
    works(&artifacts, false).await;
    works(&artifacts, false).await;
    artifacts.sweep().await.unwrap();
    assert_eq!(log.warnings(), [OPEN_FAILED]);
}

// S2-De
#[tokio::test]
async fn a_write_that_fails_is_told_once_and_memory_stands_in() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    let artifacts = home.open();
    let before = keep(&artifacts, "me", "1", "before").await;
    store::meddle(
        &home.place(),
        "ALTER TABLE blobs RENAME COLUMN stored TO gone",
    );
    let during = keep(&artifacts, "me", "2", "during").await;
    works(&artifacts, false).await;
    // What excerpts say stays the same, or their bytes would change.
    assert_eq!(artifacts.keeping(), Retention::Disk);
    assert!(artifacts.knows("me", "s", "2", &during));
    assert_eq!(
        whole(&artifacts, "me", &before).await.as_deref(),
        Some("before")
    );
    assert_eq!(log.warnings(), [WRITE_FAILED]);
    let entries = artifacts.list("me", &Filter::default()).await.unwrap();
    let persistent: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.persistent)
        .map(|entry| entry.call_id.as_str())
        .collect();
    assert_eq!((entries.len(), persistent), (3, vec!["1"]));

    store::meddle(
        &home.place(),
        "ALTER TABLE blobs RENAME COLUMN gone TO stored",
    );
    let after = keep(&artifacts, "me", "3", "after").await;
    let piece = artifacts.read("me", &after, &Part::Whole).await.unwrap();
    assert!(piece.unwrap().entry.persistent);
}

// S2-De
#[tokio::test]
async fn memory_goes_to_the_disk_when_that_works_again() {
    let home = Home::new();
    let artifacts = home.open();
    store::meddle(
        &home.place(),
        "ALTER TABLE blobs RENAME COLUMN stored TO gone",
    );
    let mut kept = Vec::new();
    for (owner, call_id, text) in [("me", "1", "one"), ("me", "2", "two"), ("you", "3", "two")] {
        kept.push((owner, keep(&artifacts, owner, call_id, text).await, text));
    }
    artifacts.settle().await;
    for (owner, id, text) in &kept {
        assert_eq!(whole(&artifacts, owner, id).await.as_deref(), Some(*text));
    }
    store::meddle(
        &home.place(),
        "ALTER TABLE blobs RENAME COLUMN gone TO stored",
    );
    artifacts.settle().await;
    assert!(artifacts.knows("me", "s", "1", &kept[0].1));
    assert!(!artifacts.knows("me", "s", "3", &kept[2].1));
    assert_eq!(store::count(&home.place(), "refs"), 3);
    drop(artifacts);
    let artifacts = home.open();
    for (owner, id, text) in &kept {
        assert_eq!(whole(&artifacts, owner, id).await.as_deref(), Some(*text));
    }
}

// S2-De
#[tokio::test]
async fn what_cannot_be_read_or_swept_is_told_once() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    let artifacts = home.open();
    let id = keep(&artifacts, "me", "1", "text").await;
    store::meddle(
        &home.place(),
        "ALTER TABLE refs RENAME COLUMN accessed TO gone",
    );
    for _ in 0..2 {
        let error = artifacts.read("me", &id, &Part::Whole).await.unwrap_err();
        assert_eq!(error.warning, READ_FAILED);
        let error = artifacts.sweep().await.unwrap_err();
        assert_eq!(error.warning, SWEEP_FAILED);
    }
    assert_eq!(log.warnings(), [READ_FAILED, SWEEP_FAILED]);
}

/// The files beside the database, and what the damaged one says.
fn set_aside(home: &Home) -> Vec<Vec<u8>> {
    let folder = home.place().database();
    let entries = fs::read_dir(folder.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("damaged"))
        .map(|path| fs::read(path).unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_moved_aside_and_a_new_one_begun() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    for count in 1..3 {
        let database = home.place().database();
        fs::create_dir_all(database.parent().unwrap()).unwrap();
        let garbage = format!("garbage {count} ").repeat(1000);
        fs::write(&database, &garbage).unwrap();
        let artifacts = home.open();
        assert_eq!(artifacts.keeping(), Retention::Disk);
        works(&artifacts, true).await;
        drop(artifacts);
        let aside = set_aside(&home);
        assert_eq!(aside.len(), count);
        assert!(aside.contains(&garbage.into_bytes()));
    }
    assert_eq!(log.warnings(), [MOVED_ASIDE, MOVED_ASIDE]);
}

#[tokio::test]
async fn damage_that_is_found_later_is_dealt_with_at_the_next_start() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    let artifacts = home.open();
    let mut kept = Vec::new();
    for seed in 0..20 {
        kept.push(keep(&artifacts, "me", "call", &noise(seed, 20_000)).await);
    }
    drop(artifacts);
    let database = home.place().database();
    let mut bytes = fs::read(&database).unwrap();
    // The schema stays as it is, so that opening goes well.
    bytes[16384..].fill(0xff);
    fs::write(&database, &bytes).unwrap();

    let artifacts = home.open();
    let mut failed = 0;
    for id in &kept {
        failed += u64::from(artifacts.read("me", id, &Part::Whole).await.is_err());
    }
    assert!(failed > 0);
    drop(artifacts);
    let artifacts = home.open();
    works(&artifacts, true).await;
    assert_eq!(set_aside(&home).len(), 1);
    drop(artifacts);
    works(&home.open(), true).await;
    assert_eq!(log.warnings(), [READ_FAILED, MOVED_ASIDE]);
}

#[tokio::test]
async fn the_store_of_a_newer_version_is_left_alone() {
    let (log, _guard) = Log::start();
    let home = Home::new();
    let id = keep(&home.open(), "me", "call", "text").await;
    store::meddle(&home.place(), "PRAGMA user_version = 9");
    let artifacts = home.open();
    assert_eq!(artifacts.keeping(), Retention::Memory);
    assert_eq!(whole(&artifacts, "me", &id).await, None);
    works(&artifacts, false).await;
    drop(artifacts);
    assert_eq!(log.warnings(), [OPEN_FAILED]);
    assert!(set_aside(&home).is_empty());
}
