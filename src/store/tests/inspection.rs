//! Statistics, checks, copies, and the deletion of everything.

use std::os::unix::fs::PermissionsExt;

use super::{OWNER, after, conversation, items, response};
use crate::store::{
    AnsweredPrompt, ArtifactBatch, DataDir, NewArtifact, NewItem, NewResponse, Store, StoreReading,
    StoredOrigin, count_rows, execute, schema,
};
use adapters::plan::output::OutputKind;
use rusqlite::Connection;
use tempfile::TempDir;

/// A store with two responses, of which one has a large item, a conversation and an artifact.
async fn filled() -> (Store, DataDir, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let store = Store::open(&data_dir, 0).unwrap();
    let large = NewItem {
        id: "large".into(),
        json: format!("\"{}\"", "large ".repeat(5_000)),
    };
    let second = NewResponse {
        input: vec![large],
        ..response("r2", after("r1"), &[], &["c"])
    };
    for new in [
        response("r1", StoredOrigin::Nothing, &["a"], &["b"]),
        second,
    ] {
        store.put_response(new).await.unwrap();
    }
    let first = items(&["d"]);
    store
        .create_conversation("another", conversation("c1"), first)
        .await
        .unwrap();
    let artifact = NewArtifact {
        id: "art_1".into(),
        call_id: "call".into(),
        kind: OutputKind::Json,
        chars: 4,
        lines: 1,
        text: "text".repeat(1_000),
    };
    let batch = ArtifactBatch {
        owner: OWNER.into(),
        session: "s".into(),
        artifacts: vec![artifact],
        now: 0,
    };
    assert!(store.write(batch).done().await.is_ok());
    (store, data_dir, folder)
}

fn reading(data_dir: &DataDir) -> StoreReading {
    StoreReading::open(data_dir).unwrap().unwrap()
}

#[tokio::test]
async fn what_is_stored_is_counted_by_owner_while_a_server_runs() {
    let (_store, data_dir, _folder) = filled().await;
    let found = reading(&data_dir).contents().unwrap();
    let counts: Vec<_> = found
        .owners
        .iter()
        .map(|it| (&*it.owner, it.artifacts, it.responses, it.conversations))
        .collect();
    assert_eq!(counts, [("another", 0, 0, 1), (OWNER, 1, 2, 0)]);
    assert!(
        found.owners.iter().all(|owner| owner.response_bytes > 50),
        "{found:?}"
    );
    assert!(
        found.owners[1].artifact_bytes > 10 && found.shared_bytes > 10,
        "{found:?}"
    );
    assert!(found.database_bytes > 50_000, "{found:?}");
}

#[tokio::test]
async fn a_whole_store_has_no_faults_and_each_contradiction_is_one() {
    for (damage, fault) in [
        ("SELECT 1", None),
        (
            "UPDATE contents SET uses = uses + 1",
            Some("contents that count"),
        ),
        (
            "UPDATE contents SET body = x'28b52ffd', bytes = 3",
            Some("not what was stored"),
        ),
        (
            "UPDATE threads SET ends = 1",
            Some("items that are in no thread"),
        ),
        (
            "UPDATE responses SET ends = ends + 9",
            Some("items are not in their thread"),
        ),
        ("UPDATE threads SET owner = 'nobody'", Some("another owner")),
        (
            "INSERT INTO deliveries SELECT number, 'hook', 'evt_1', '{}', 0, 0, 0 FROM responses",
            Some("deliveries to webhooks of what has no job"),
        ),
        (
            "UPDATE blobs SET stored = stored + 1",
            Some("text is not complete"),
        ),
        (
            "PRAGMA foreign_keys = off; DELETE FROM threads",
            Some("refers to one that is missing"),
        ),
        (
            "INSERT INTO threads (owner, session, begins, ends, bytes) VALUES ('me', 's', 0, 0, 0)",
            Some("nothing refers to"),
        ),
    ] {
        let (store, data_dir, _folder) = filled().await;
        drop(store);
        if damage != "SELECT 1" {
            execute(&data_dir, damage);
        }
        let faults = reading(&data_dir).faults().unwrap();
        match fault {
            None => assert!(faults.is_empty(), "{faults:?}"),
            Some(fault) => assert!(
                faults.iter().any(|found| found.contains(fault)),
                "{damage}: {faults:?}"
            ),
        }
    }
}

#[tokio::test]
async fn a_backup_is_a_private_file_with_everything_while_a_server_writes() {
    let (store, data_dir, folder) = filled().await;
    let place = folder.path().join("copy");
    let copy = DataDir::new(&place);
    copy.create_files().unwrap();
    std::fs::remove_file(copy.database_path()).unwrap();
    let bytes = reading(&data_dir).back_up(&copy.database_path()).unwrap();
    let metadata = copy.database_path().metadata().unwrap();
    assert_eq!(metadata.len(), bytes);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    store
        .put_response(response("r3", after("r2"), &["e"], &[]))
        .await
        .unwrap();
    let copied = Store::open(&copy, 0).unwrap();
    assert!(copied.moved_aside().is_none());
    assert_eq!(reading(&copy).faults().unwrap(), Vec::<String>::new());
    for (id, is_there) in [("r1", true), ("r2", true), ("r3", false)] {
        let found = copied.response(OWNER, id).await.unwrap();
        assert_eq!(found.is_some(), is_there, "{id}");
        if is_there {
            assert_eq!(found, store.response(OWNER, id).await.unwrap());
        }
    }
    // A file that exists is left alone.
    assert!(reading(&data_dir).back_up(&copy.database_path()).is_err());
    assert!(copy.database_path().exists());
}

#[tokio::test]
async fn a_short_response_that_is_deleted_leaves_no_text_in_any_file() {
    let (store, data_dir, folder) = filled().await;
    let new = NewResponse {
        input: vec![NewItem {
            id: "secret".into(),
            json: "\"a needle of few words\"".into(),
        }],
        ..response("r9", StoredOrigin::Nothing, &[], &[])
    };
    store.put_response(new).await.unwrap();
    assert!(store.delete_response(OWNER, "r9").await.unwrap());
    for file in std::fs::read_dir(folder.path().join("artifacts")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(8).any(|window| window == b"a needle");
        assert!(!found, "{}", path.display());
    }
    assert_eq!(reading(&data_dir).faults().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_purge_leaves_no_row_and_no_text_in_any_file() {
    let (store, data_dir, folder) = filled().await;
    let needle = "needle ".repeat(100);
    let secret = NewItem {
        id: "secret".into(),
        json: format!("\"{needle}\""),
    };
    // It fills pages of its own, whose content would stay where it is when they are free.
    let long = NewItem {
        id: "long".into(),
        json: format!("{:?}", (0..50_000).collect::<Vec<_>>()),
    };
    let new = NewResponse {
        input: vec![secret, long],
        ..response("r9", StoredOrigin::Nothing, &[], &[])
    };
    store.put_response(new).await.unwrap();
    assert!(store.put_prompt(AnsweredPrompt {
        owner: OWNER.into(),
        session: "s".into(),
        response: "r9".into(),
        continues: None,
        parts: vec![1; 16],
        details: "{}".into(),
        asks_for_summary: false,
        accessed: 10,
    }));
    let aside = data_dir
        .database_path()
        .with_file_name("artifacts.damaged-1.db");
    std::fs::write(&aside, &needle).unwrap();
    assert!(store.purge().await.unwrap());
    let tables = table_names(&data_dir);
    assert!(tables.contains(&"responses".to_owned()), "{tables:?}");
    // That a clock has jumped is kept: it is no data of a user.
    for table in tables.iter().filter(|name| *name != "time_in_use") {
        assert_eq!(count_rows(&data_dir, table), 0, "{table}");
    }
    for file in std::fs::read_dir(folder.path().join("artifacts")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(7).any(|window| window == b"needle ");
        assert!(!found, "{}", path.display());
    }
    let size = data_dir.database_path().metadata().unwrap().len();
    assert!(size < 330_000, "{size} bytes");
    assert_eq!(reading(&data_dir).contents().unwrap().free_bytes, 0);
    // The store goes on.
    let again = response("r1", StoredOrigin::Nothing, &["a"], &["b"]);
    store.put_response(again).await.unwrap();
    assert_eq!(reading(&data_dir).faults().unwrap(), Vec::<String>::new());
}

/// Waits until the write-ahead log is empty.
async fn wait_for_empty_log(data_dir: &DataDir) {
    let log = data_dir.database_path().with_extension("db-wal");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while log.metadata().unwrap().len() > 0 {
        assert!(
            std::time::Instant::now() < limit,
            "the log is never emptied"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_beside_a_reader_leaves_the_log_when_that_has_ended() {
    for purges in [false, true] {
        let (store, data_dir, _folder) = filled().await;
        let mut connection = schema::reader(&data_dir).unwrap();
        let read = connection.transaction().unwrap();
        read.query_row("SELECT count(*) FROM responses", [], |_| Ok(()))
            .unwrap();
        if purges {
            assert!(!store.purge().await.unwrap());
        } else {
            assert!(store.delete_response(OWNER, "r2").await.unwrap());
        }
        let log = data_dir.database_path().with_extension("db-wal");
        assert!(log.metadata().unwrap().len() > 0);
        drop(read);
        wait_for_empty_log(&data_dir).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_metadata_leaves_the_log() {
    let (store, data_dir, _folder) = filled().await;
    for metadata in ["{\"secret\":\"canary\"}", "{}"] {
        let updated = store.update_conversation("another", "c1", metadata.into());
        assert!(updated.await.unwrap());
    }
    let log = data_dir.database_path().with_extension("db-wal");
    assert_eq!(log.metadata().unwrap().len(), 0);
    let stored = std::fs::read(data_dir.database_path()).unwrap();
    assert!(!stored.windows(6).any(|bytes| bytes == b"canary"));
}

fn table_names(data_dir: &DataDir) -> Vec<String> {
    let connection = Connection::open(data_dir.database_path()).unwrap();
    let select = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut select = connection.prepare(select).unwrap();
    let names = select.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}
