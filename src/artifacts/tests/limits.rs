//! When artifacts are deleted.

use std::task::{Context, Waker};

use adapters::responses::request::TurnSource;

use super::*;

/// Promise: Artifacts are stored in SQLite files that only their owner can read, and are deleted 30
/// days after the last access; those of a session that a stored response or conversation continues
/// stay as long as it.
#[tokio::test]
async fn an_artifact_is_deleted_thirty_days_after_its_last_access() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    let left = keep(&artifacts, "me", "1", "left alone").await;
    let read = keep(&artifacts, "me", "2", "read").await;
    let shown = keep(&artifacts, "me", "3", "shown").await;
    dir.days_pass(20);
    assert!(whole(&artifacts, "me", &read).await.is_some());
    assert!(artifacts.is_kept("me", "s", "3", &shown));
    assert_eq!(artifacts.sweep().await.unwrap().artifacts, 0);
    dir.days_pass(11);
    let swept = artifacts.sweep().await.unwrap();
    assert_eq!(swept.artifacts, 1);
    assert!(swept.bytes > 0);
    assert_eq!(whole(&artifacts, "me", &left).await, None);
    assert!(!artifacts.is_kept("me", "s", "1", &left));
    let mut entries = ids(&artifacts, "me", ArtifactFilter::default()).await;
    entries.sort();
    let mut expected = [read, shown];
    expected.sort();
    assert_eq!(entries, expected);
    dir.days_pass(31);
    assert_eq!(artifacts.sweep().await.unwrap().artifacts, 2);
    assert_eq!(store::count_rows(&dir.data_dir(), "chunks"), 0);
    assert_eq!(store::count_rows(&dir.data_dir(), "blobs"), 0);
}

#[tokio::test]
async fn a_text_stays_while_another_owner_refers_to_it() {
    let dir = TestDir::new();
    let artifacts = dir.open();
    let id = keep(&artifacts, "me", "1", "text").await;
    keep(&artifacts, "you", "1", "text").await;
    dir.days_pass(20);
    whole(&artifacts, "you", &id).await.unwrap();
    dir.days_pass(11);
    assert_eq!(artifacts.sweep().await.unwrap().artifacts, 0);
    assert_eq!(whole(&artifacts, "me", &id).await, None);
    assert!(!artifacts.is_kept("me", "s", "1", &id));
    assert!(whole(&artifacts, "you", &id).await.is_some());
}

#[tokio::test]
async fn beyond_the_quota_the_least_recently_used_are_deleted_and_the_disk_is_freed() {
    let mut dir = TestDir::new();
    dir.settings.keep_size = 600_000;
    let artifacts = dir.open();
    let mut kept = Vec::new();
    for seed in 0..50 {
        kept.push(keep(&artifacts, "me", "call", &noise(seed, 100_000)).await);
        dir.now.fetch_add(1, Ordering::Relaxed);
    }
    whole(&artifacts, "me", &kept[7]).await.unwrap();
    let database = dir.data_dir().database_path();
    artifacts.sweep().await.unwrap();
    let left = ids(&artifacts, "me", ArtifactFilter::default()).await;
    assert!(left.contains(&kept[7]));
    let newest: Vec<&String> = kept.iter().rev().take(left.len() - 1).collect();
    assert!(newest.iter().all(|id| left.contains(id)), "{left:?}");
    assert!((5..30).contains(&left.len()), "{}", left.len());
    for id in &left {
        assert!(whole(&artifacts, "me", id).await.is_some());
    }
    let bytes = database.metadata().unwrap().len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
    assert_eq!(artifacts.sweep().await.unwrap(), SweepResult::default());
}

#[tokio::test]
async fn names_count_against_the_quota_and_are_deleted_with_their_text() {
    let mut dir = TestDir::new();
    dir.settings.keep_size = 1_000_000;
    let artifacts = dir.open();
    let name = |seed: usize| format!("{seed}-{}", "n".repeat(200_000));
    for seed in 0..10 {
        let artifact = new(&name(seed), &noise(seed as u64, 100));
        artifacts
            .keep("me", &name(seed), vec![artifact], BTreeSet::new())
            .wait()
            .await;
        dir.now.fetch_add(1, Ordering::Relaxed);
    }
    let swept = artifacts.sweep().await.unwrap();
    assert_eq!(swept.artifacts, 9);
    assert!(swept.bytes > 9 * 800_000, "{}", swept.bytes);
    assert_eq!(store::count_rows(&dir.data_dir(), "refs"), 1);
    let bytes = dir.data_dir().database_path().metadata().unwrap().len();
    assert!(bytes < 1_200_000, "{bytes} bytes");
    assert_eq!(artifacts.sweep().await.unwrap(), SweepResult::default());
}

#[tokio::test]
async fn exceeding_the_quota_by_a_tenth_is_reported_at_once() {
    let mut dir = TestDir::new();
    dir.settings.keep_size = 600_000;
    let artifacts = dir.open();
    let is_over_quota = || {
        let soon = std::pin::pin!(artifacts.over_quota());
        soon.poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    };
    // Hexadecimal noise compresses to slightly more than half of its size.
    let mut stored = 0;
    let mut seed = 0;
    while !is_over_quota() {
        keep(&artifacts, "me", "call", &noise(seed, 100_000)).await;
        seed += 1;
        stored += 50_000;
        assert!(stored < 800_000, "{seed} texts, and nothing is reported");
    }
    assert!(seed > 5, "reported after {seed} texts");
    artifacts.sweep().await.unwrap();
    assert!(!is_over_quota());
    keep(&artifacts, "me", "call", "little").await;
    assert!(!is_over_quota());
}

#[test]
fn a_long_call_id_is_hashed() {
    let call = "c".repeat(5_000_000);
    let output =
        serde_json::json!({"type": "function_call_output", "call_id": call, "output": "o"});
    let body = serde_json::json!({"model": "m", "input": [output]});
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    let artifact = Artifact {
        id: id("o"),
        kind: OutputKind::Json,
        chars: 1,
        lines: 1,
        bytes: 1,
    };
    let missing = Artifacts::memory(35_000)
        .missing_artifact(("me", "s"), &turn.items[0], &artifact)
        .unwrap();
    assert!(missing.call_id.len() <= 256);
    assert!(missing.call_id.starts_with("ccc"));
}

#[tokio::test]
async fn memory_drops_nothing_that_the_same_request_names() {
    let artifacts = Artifacts::memory(35_000);
    let old = keep(&artifacts, "me", "0", &noise(0, 10_000)).await;
    let named = keep(&artifacts, "me", "1", &noise(1, 10_000)).await;
    let other = keep(&artifacts, "me", "2", &noise(2, 10_000)).await;
    let batch: Vec<NewArtifact> = (3..6)
        .map(|seed| new(&seed.to_string(), &noise(seed, 10_000)))
        .collect();
    let ids: Vec<String> = batch.iter().map(|new| new.id.clone()).collect();
    let request = BTreeSet::from([named.clone()]);
    let unkept = artifacts.keep("me", "s", batch, request).wait().await;
    assert_eq!(unkept, BTreeSet::from([ids[2].clone()]));
    for (id, is_here) in [
        (&old, false),
        (&named, true),
        (&other, false),
        (&ids[0], true),
        (&ids[1], true),
        (&ids[2], false),
    ] {
        assert_eq!(whole(&artifacts, "me", id).await.is_some(), is_here);
    }
}

#[tokio::test]
async fn what_neither_disk_nor_memory_takes_is_reported_to_the_turn() {
    let mut dir = TestDir::new();
    dir.settings.memory = 25_000;
    let artifacts = dir.open();
    store::execute(
        &dir.data_dir(),
        "ALTER TABLE blobs RENAME COLUMN stored TO gone",
    );
    let batch: Vec<NewArtifact> = (0..3)
        .map(|seed| new(&seed.to_string(), &noise(seed, 10_000)))
        .collect();
    let ids: Vec<String> = batch.iter().map(|new| new.id.clone()).collect();
    let mut commit = artifacts.keep("me", "s", batch, BTreeSet::new());
    assert!(commit.take_unkept().is_empty());
    assert_eq!(commit.wait().await, BTreeSet::from([ids[2].clone()]));
    assert!(whole(&artifacts, "me", &ids[1]).await.is_some());
}

#[tokio::test]
async fn memory_is_bounded_and_drops_the_least_recently_used() {
    let artifacts = Artifacts::memory(35_000);
    let mut kept = Vec::new();
    for seed in 0..5 {
        kept.push(keep(&artifacts, "me", "call", &noise(seed, 10_000)).await);
        whole(&artifacts, "me", &kept[0]).await.unwrap();
    }
    let left = ids(&artifacts, "me", ArtifactFilter::default()).await;
    assert_eq!(left, [kept[4].clone(), kept[3].clone(), kept[0].clone()]);
    let large = keep(&artifacts, "me", "call", &noise(9, 40_000)).await;
    assert_eq!(whole(&artifacts, "me", &large).await, None);
    assert!(!artifacts.is_kept("me", "s", "call", &large));
}

#[tokio::test]
async fn memory_of_one_owner_drops_nothing_of_another() {
    let artifacts = Artifacts::memory(35_000);
    let of_other = keep(&artifacts, "you", "call", &noise(100, 10_000)).await;
    let mut mine = Vec::new();
    for seed in 0..10 {
        mine.push(keep(&artifacts, "me", "call", &noise(seed, 10_000)).await);
    }
    assert!(whole(&artifacts, "you", &of_other).await.is_some());
    assert!(whole(&artifacts, "me", &mine[0]).await.is_none());
    assert!(whole(&artifacts, "me", &mine[9]).await.is_some());
}
