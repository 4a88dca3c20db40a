//! Artifacts in memory and on disk behave the same; the disk adds restarts.

mod failures;
mod limits;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use adapters::plan::output::OutputKind;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::owner::OwnerArtifacts;
use super::*;
use crate::store::{self, DataDir, DataDirInUse, OpenError};

/// The time at which the tests begin, in seconds since 1970.
const START: u64 = 1_700_000_000;

/// A clock that the test sets.
struct TestClock(Arc<AtomicU64>);

impl Clock for TestClock {
    fn unix(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A data directory with the settings to open it.
struct TestDir {
    folder: TempDir,
    settings: ArtifactConfig,
    now: Arc<AtomicU64>,
    counts: ArtifactCounts,
}

impl TestDir {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings: ArtifactConfig {
                mode: ArtifactMode::Disk,
                keep_days: 30,
                keep_size: 1 << 30,
                memory: 1 << 20,
            },
            now: Arc::new(AtomicU64::new(START)),
            counts: ArtifactCounts::default(),
        }
    }

    fn data_dir(&self) -> DataDir {
        DataDir::new(self.folder.path().join("data"))
    }

    fn open(&self) -> Artifacts {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Artifacts, DataDirInUse> {
        let clock = TestClock(Arc::clone(&self.now));
        let store = match self.settings.mode {
            ArtifactMode::Off | ArtifactMode::Memory => None,
            ArtifactMode::Disk => match Store::open(&self.data_dir(), clock.unix()) {
                Ok(store) => Some(Ok(Arc::new(store))),
                Err(OpenError::Unusable(error)) => Some(Err(error)),
                Err(OpenError::InUse(error)) => return Err(error),
            },
        };
        Ok(Artifacts::open(
            &self.settings,
            store,
            Arc::new(clock),
            self.counts.clone(),
            &Sharing::default(),
        ))
    }

    fn days_pass(&self, days: u64) {
        self.now.fetch_add(days * DAY, Ordering::Relaxed);
    }
}

fn id(text: &str) -> String {
    let mut id = "art_".to_owned();
    for byte in Sha256::digest(text).iter().take(16) {
        write!(id, "{byte:02x}").unwrap();
    }
    id
}

fn new(call_id: &str, text: &str) -> NewArtifact {
    NewArtifact {
        id: id(text),
        call_id: call_id.to_owned(),
        kind: OutputKind::Json,
        chars: text.chars().count(),
        lines: text.lines().count(),
        text: text.to_owned(),
    }
}

/// Keeps a text for an owner and returns its id.
async fn keep(artifacts: &Artifacts, owner: &str, call_id: &str, text: &str) -> String {
    artifacts
        .keep(owner, "s", vec![new(call_id, text)], BTreeSet::new())
        .wait()
        .await;
    id(text)
}

async fn whole(artifacts: &Artifacts, owner: &str, id: &str) -> Option<String> {
    let piece = artifacts
        .read(owner, id, &ArtifactRange::Whole)
        .await
        .unwrap();
    piece.map(|piece| piece.text.to_string())
}

async fn ids(artifacts: &Artifacts, owner: &str, filter: ArtifactFilter) -> Vec<String> {
    let entries = artifacts.list(owner, &filter).await.unwrap();
    entries.into_iter().map(|entry| entry.id).collect()
}

/// A text that does not compress well.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::new();
    while text.len() < bytes {
        writeln!(text, "{:016x}", next()).unwrap();
    }
    text.truncate(bytes);
    text
}

#[tokio::test]
async fn what_is_kept_reads_back_byte_for_byte() {
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(8 << 20)] {
        for text in [
            "",
            "\r\n漢字 no end",
            "\n\n",
            &noise(1, 1_000_000),
            &"é漢😀\r\n".repeat(100_000),
        ] {
            let id = keep(&artifacts, "me", "call", text).await;
            let read = whole(&artifacts, "me", &id).await;
            assert!(read.as_deref() == Some(text), "{} bytes", text.len());
            let middle = text.len() as u64 / 2;
            let part = ArtifactRange::Bytes(middle..middle + 300_000);
            let piece = artifacts.read("me", &id, &part).await.unwrap().unwrap();
            let position = store::text_range::locate(text, &part);
            assert!(Some(piece.text.as_str()) == text.get(position.bytes.clone()));
            assert_eq!(piece.first_line, position.first_line);
            assert_eq!(piece.bytes.start, position.bytes.start as u64);
        }
    }
}

#[tokio::test]
async fn an_entry_describes_what_was_kept() {
    let dir = TestDir::new();
    for (artifacts, persistent) in [(dir.open(), true), (Artifacts::memory(1 << 20), false)] {
        let text = "{\n}\n漢";
        let id = keep(&artifacts, "me", "call", text).await;
        let [entry] = &artifacts
            .list("me", &ArtifactFilter::default())
            .await
            .unwrap()[..]
        else {
            panic!("not one entry");
        };
        let expected = ArtifactEntry {
            id,
            session: "s".to_owned(),
            call_id: "call".to_owned(),
            kind: OutputKind::Json,
            chars: 5,
            lines: 3,
            bytes: 7,
            created: entry.created,
            accessed: entry.created,
            persistent,
        };
        assert_eq!(*entry, expected);
    }
}

#[tokio::test]
async fn another_owner_has_nothing_of_it() {
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(1 << 20)] {
        let id = keep(&artifacts, "me", "call", "mine").await;
        assert!(!artifacts.delete("you", &id).await.unwrap());
        assert_eq!(whole(&artifacts, "you", &id).await, None);
        assert!(
            ids(&artifacts, "you", ArtifactFilter::default())
                .await
                .is_empty()
        );
        assert!(!artifacts.is_kept("you", "s", "call", &id));
        assert_eq!(whole(&artifacts, "me", &id).await.as_deref(), Some("mine"));
    }
}

#[tokio::test]
async fn the_same_text_is_stored_once_and_stays_while_anyone_refers_to_it() {
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(1 << 20)] {
        for (owner, call_id) in [("me", "1"), ("me", "2"), ("you", "3")] {
            keep(&artifacts, owner, call_id, "the same").await;
        }
        let id = id("the same");
        assert!(artifacts.delete("me", &id).await.unwrap());
        assert!(!artifacts.delete("me", &id).await.unwrap());
        assert_eq!(whole(&artifacts, "me", &id).await, None);
        assert_eq!(
            whole(&artifacts, "you", &id).await.as_deref(),
            Some("the same")
        );
    }
    assert_eq!(store::count_rows(&dir.data_dir(), "blobs"), 1);
    assert_eq!(store::count_rows(&dir.data_dir(), "refs"), 1);
}

#[tokio::test]
async fn lists_are_the_newest_first_and_have_pages() {
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(1 << 20)] {
        for (session, text) in [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")] {
            let new = vec![new("call", text)];
            artifacts
                .keep("me", session, new, BTreeSet::new())
                .wait()
                .await;
        }
        let of = |session: Option<&str>, limit, after: Option<&str>| ArtifactFilter {
            session: session.map(str::to_owned),
            limit,
            after: after.map(id),
            id_prefix: None,
        };
        let beginning = |text: &str, length| ArtifactFilter {
            id_prefix: Some(id(text).chars().take(length).collect()),
            ..ArtifactFilter::default()
        };
        for (filter, texts) in [
            (of(None, 0, None), vec!["4", "3", "2", "1"]),
            (of(Some("a"), 0, None), vec!["3", "1"]),
            (of(None, 2, None), vec!["4", "3"]),
            (of(None, 2, Some("3")), vec!["2", "1"]),
            (of(Some("b"), 1, Some("4")), vec!["2"]),
            (of(Some("b"), 1, Some("3")), vec![]),
            (of(None, 0, Some("unknown")), vec![]),
            (beginning("1", "art_".len()), vec!["4", "3", "2", "1"]),
            (beginning("1", "art_01234567".len()), vec!["1"]),
            (beginning("unknown", "art_01234567".len()), vec![]),
        ] {
            let wanted: Vec<String> = texts.into_iter().map(id).collect();
            let found = ids(&artifacts, "me", filter.clone()).await;
            assert_eq!(found, wanted, "{filter:?}");
        }
    }
}

#[tokio::test]
async fn what_was_kept_need_not_be_kept_again() {
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(1 << 20)] {
        let id = id("text");
        assert!(!artifacts.is_kept("me", "s", "1", &id));
        keep(&artifacts, "me", "1", "text").await;
        assert!(artifacts.is_kept("me", "s", "1", &id));
        assert!(!artifacts.is_kept("me", "s", "2", &id));
        assert!(!artifacts.is_kept("me", "t", "1", &id));
        artifacts.delete("me", &id).await.unwrap();
        assert!(!artifacts.is_kept("me", "s", "1", &id));
    }
}

#[tokio::test]
async fn a_full_queue_is_waited_for_by_the_commit() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    let texts: Vec<String> = (0..300).map(|seed| noise(seed, 5000)).collect();
    // Nothing else runs on this thread, so a call that waited here would wait forever.
    let commits: Vec<ArtifactCommit> = texts
        .iter()
        .map(|text| artifacts.keep("me", "s", vec![new("call", text)], BTreeSet::new()))
        .collect();
    for commit in commits {
        commit.wait().await;
    }
    for text in &texts {
        let read = whole(&artifacts, "me", &id(text)).await;
        assert!(read.as_ref() == Some(text));
    }
    let entries = artifacts
        .list("me", &ArtifactFilter::default())
        .await
        .unwrap();
    assert!(entries.len() == 300 && entries.iter().all(|entry| entry.persistent));
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    keep(&artifacts, "me", "call", "text").await;
    let mut seen = Vec::new();
    let mut look = |path: &Path| {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        seen.push((name, format!("{mode:o}")));
    };
    let data = dir.folder.path().join("data");
    look(&data);
    for folder in [data.clone(), data.join("artifacts")] {
        for entry in fs::read_dir(folder).unwrap() {
            look(&entry.unwrap().path());
        }
    }
    seen.sort();
    let expected = [
        ("artifacts", "700"),
        ("artifacts.db", "600"),
        ("artifacts.db-shm", "600"),
        ("artifacts.db-wal", "600"),
        ("data", "700"),
        ("respondent.lock", "600"),
    ];
    assert_eq!(
        seen,
        expected.map(|(name, mode)| (name.to_owned(), mode.to_owned()))
    );
}

/// The pieces of a range, and what is said about it.
async fn pieces(owned: &OwnerArtifacts, id: &str, range: &ArtifactRange) -> (OpenArtifact, String) {
    let opened = owned.open(id, range).await.unwrap();
    let said = owned.open(id, range).await.unwrap();
    let mut text = Vec::new();
    let mut pieces = std::pin::pin!(opened.into_pieces());
    while let Some(piece) = pieces.next().await {
        let piece = piece.unwrap();
        assert!(
            !said.entry.persistent || piece.len() < (256 << 10) + 4,
            "{} bytes",
            piece.len()
        );
        text.extend_from_slice(&piece);
    }
    (said, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn an_artifact_is_read_in_pieces_across_chunks_and_characters() {
    let mut text = String::new();
    for n in 0..60_000 {
        writeln!(text, "{n} 漢字 é😀").unwrap();
    }
    let long_line = "é".repeat(700_000);
    let dir = TestDir::new();
    for artifacts in [dir.open(), Artifacts::memory(16 << 20)] {
        for text in [&text, &long_line] {
            keep(&artifacts, "local", "call", text).await;
            let owned = OwnerArtifacts::local(artifacts.clone(), 30);
            let size = text.len() as u64;
            let chunk = 256 << 10;
            let ranges = (0..4).flat_map(|border| {
                let at = border * chunk;
                (0..5).map(move |near| ArtifactRange::Bytes(at + near..at + 2 * chunk + near + 3))
            });
            let others = [
                ArtifactRange::Whole,
                ArtifactRange::Bytes(0..u64::MAX),
                ArtifactRange::Bytes(size - 2..size + 5),
                ArtifactRange::Bytes(size..size + 5),
                ArtifactRange::Bytes(7..7),
                ArtifactRange::Lines {
                    from: 1,
                    count: u64::MAX,
                },
                ArtifactRange::Lines {
                    from: 30_000,
                    count: 29_000,
                },
                ArtifactRange::Lines {
                    from: 59_990,
                    count: 100,
                },
            ];
            for range in ranges.chain(others) {
                let whole = owned.read(&id(text), &range).await.unwrap();
                let (said, text) = pieces(&owned, &id(text), &range).await;
                assert!(text == *whole.text, "{range:?}: {} bytes", text.len());
                assert_eq!(
                    (said.bytes, said.first_line),
                    (whole.bytes, whole.first_line)
                );
                assert_eq!(said.entry.bytes, whole.entry.bytes);
            }
        }
    }
}

#[tokio::test]
async fn reading_pieces_ends_with_an_error_when_the_artifact_is_deleted() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    let id = keep(&artifacts, "local", "call", &noise(1, 1_000_000)).await;
    let owned = OwnerArtifacts::local(artifacts, 30);
    let opened = owned.open(&id, &ArtifactRange::Whole).await.unwrap();
    owned.delete(&id).await.unwrap();
    let mut pieces = std::pin::pin!(opened.into_pieces());
    assert_eq!(pieces.next().await.unwrap().unwrap().len(), 256 << 10);
    assert!(pieces.next().await.unwrap().is_err());
}

/// Promise: Only the owner can read bundle files and the data directory, whatever the umask and
/// whatever modes existed before.
#[tokio::test]
async fn modes_that_were_there_before_are_narrowed() {
    let dir = TestDir::new();
    let data = dir.folder.path().join("data");
    let lock = data.join("respondent.lock");
    fs::create_dir(&data).unwrap();
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let artifacts = dir.open();
    assert_eq!(artifacts.retention(), Retention::Disk);
    for (path, mode) in [(&data, 0o700), (&lock, 0o600)] {
        let found = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}: {found:o}", path.display());
    }
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_restart() {
    let dir = TestDir::new();
    let id = keep(&dir.open(), "me", "call", "text").await;
    let artifacts = dir.open();
    assert!(!artifacts.is_kept("me", "s", "call", &id));
    assert_eq!(whole(&artifacts, "me", &id).await.as_deref(), Some("text"));
    keep(&artifacts, "me", "call", "text").await;
    assert!(artifacts.is_kept("me", "s", "call", &id));
    assert_eq!(store::count_rows(&dir.data_dir(), "refs"), 1);
}

#[tokio::test]
async fn one_process_uses_a_data_directory() {
    let mut dir = TestDir::new();
    let first = dir.open();
    let refused = dir.try_open().unwrap_err();
    assert_eq!(refused.0, dir.folder.path().join("data"));
    dir.settings.mode = ArtifactMode::Memory;
    assert_eq!(dir.open().retention(), Retention::Memory);
    dir.settings.mode = ArtifactMode::Off;
    assert_eq!(dir.open().retention(), Retention::Nothing);
    dir.settings.mode = ArtifactMode::Disk;
    drop(first);
    assert_eq!(dir.open().retention(), Retention::Disk);
}
