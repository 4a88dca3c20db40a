//! Responses and conversations that move to another store.

use std::path::{Path, PathBuf};

use super::{OWNER, after, conversation, items, response};
use crate::store::{
    DataDir, ImportCounts, NewItem, NewResponse, Store, StoreReading, StoredOrigin, TransferError,
};

struct Place {
    store: Store,
    data_dir: DataDir,
}

impl Place {
    fn new(folder: &Path, name: &str) -> Self {
        let data_dir = DataDir::new(folder.join(name));
        Self {
            store: Store::open(&data_dir, 0).unwrap(),
            data_dir,
        }
    }

    fn export(&self, file: &Path) -> ImportCounts {
        self.reading().export(OWNER, file).unwrap()
    }

    fn reading(&self) -> StoreReading {
        StoreReading::open(&self.data_dir).unwrap().unwrap()
    }

    async fn import(&self, file: &Path) -> ImportCounts {
        let file = PathBuf::from(file);
        self.store.import(OWNER, file).await.unwrap()
    }
}

/// Forks, a conversation with a deleted item, a response beside it, and a large item.
async fn fill(store: &Store) {
    let large = NewItem {
        id: "large".into(),
        json: format!("{{\"text\":\"{}\\n\"}}", "large ".repeat(5_000)),
    };
    let in_conversation = StoredOrigin::Conversation("conv_c1".into());
    let beside = StoredOrigin::BesideConversation("conv_c1".into());
    let first = items(&["c_a", "c_b"]);
    store
        .create_conversation(OWNER, conversation("conv_c1"), first)
        .await
        .unwrap();
    for new in [
        response("resp_r1", StoredOrigin::Nothing, &["a"], &["b"]),
        response("resp_r2", after("resp_r1"), &["c"], &["d"]),
        NewResponse {
            input: vec![large],
            ..response("resp_r3", after("resp_r1"), &[], &["e"])
        },
        response("resp_r4", in_conversation, &["f"], &["g"]),
        response("resp_r5", beside, &["h"], &[]),
    ] {
        store.put_response(new).await.unwrap();
    }
    let deleted = store
        .delete_conversation_item(OWNER, "conv_c1", "c_a")
        .await;
    assert!(deleted.unwrap());
    store
        .put_response(NewResponse {
            owner: "another".into(),
            ..response("resp_another", StoredOrigin::Nothing, &["x"], &[])
        })
        .await
        .unwrap();
}

async fn assert_equal(one: &Store, other: &Store) {
    for id in ["resp_r1", "resp_r2", "resp_r3", "resp_r4", "resp_r5"] {
        let found = one.response(OWNER, id).await.unwrap();
        assert!(found.is_some(), "{id}");
        assert_eq!(found, other.response(OWNER, id).await.unwrap(), "{id}");
        let history = one.history(OWNER, &after(id)).await.unwrap();
        assert_eq!(
            history,
            other.history(OWNER, &after(id)).await.unwrap(),
            "{id}"
        );
    }
    let origin = StoredOrigin::Conversation("conv_c1".into());
    let history = one.history(OWNER, &origin).await.unwrap();
    assert_eq!(history, other.history(OWNER, &origin).await.unwrap());
    assert_eq!(
        one.conversation(OWNER, "conv_c1").await.unwrap(),
        other.conversation(OWNER, "conv_c1").await.unwrap()
    );
}

#[tokio::test]
async fn what_is_exported_comes_back_in_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let from = Place::new(folder.path(), "from");
    fill(&from.store).await;
    let file = folder.path().join("all.jsonl");
    let all = ImportCounts {
        responses: 5,
        conversations: 1,
        skipped: 0,
    };
    assert_eq!(from.export(&file), all);
    let to = Place::new(folder.path(), "to");
    assert_eq!(to.import(&file).await, all);
    assert_equal(&from.store, &to.store).await;
    assert_eq!(
        to.store.response("another", "resp_another").await.unwrap(),
        None
    );
    assert_eq!(to.reading().faults().unwrap(), Vec::<String>::new());
    // A conversation goes on.
    let origin = StoredOrigin::Conversation("conv_c1".into());
    let next = response("resp_r6", origin, &["i"], &[]);
    to.store.put_response(next).await.unwrap();
}

#[tokio::test]
async fn what_exists_is_skipped_and_leaves_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let from = Place::new(folder.path(), "from");
    fill(&from.store).await;
    let file = folder.path().join("all.jsonl");
    from.export(&file);
    let copy = Place::new(folder.path(), "copy");
    copy.import(&file).await;
    let before = from.reading().contents().unwrap();
    let skipped = ImportCounts {
        skipped: 6,
        ..ImportCounts::default()
    };
    assert_eq!(from.import(&file).await, skipped);
    let after_import = from.reading().contents().unwrap();
    assert_eq!(before.owners, after_import.owners);
    assert_eq!(from.reading().faults().unwrap(), Vec::<String>::new());
    assert!(from.store.delete_response(OWNER, "resp_r2").await.unwrap());
    assert_eq!(from.import(&file).await.responses, 1);
    assert_equal(&copy.store, &from.store).await;
    assert_eq!(from.reading().faults().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_damaged_export_imports_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let from = Place::new(folder.path(), "from");
    fill(&from.store).await;
    let file = folder.path().join("all.jsonl");
    from.export(&file);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let broken = folder.path().join("broken.jsonl");
    let without_header = lines[1..].join("\n");
    let cut = text.get(..text.len() - 5).unwrap();
    let outside = text.replacen("\"position\":0", "\"position\":900", 1);
    let no_json = text.replacen("\"json\":\"{", "\"json\":\"", 1);
    let longer = text.replacen("\"ends\":2,\"status\"", "\"ends\":99,\"status\"", 1);
    for damaged in ["", &without_header, cut, &outside, &no_json, &longer] {
        std::fs::write(&broken, damaged).unwrap();
        let to = Place::new(folder.path(), "to");
        let imported = to.store.import(OWNER, broken.clone()).await;
        assert!(
            matches!(imported, Err(TransferError::Line(..))),
            "{imported:?}"
        );
        assert!(to.reading().contents().unwrap().owners.is_empty());
    }
}

#[tokio::test]
async fn what_no_store_has_is_no_export() {
    let folder = tempfile::tempdir().unwrap();
    let from = Place::new(folder.path(), "from");
    fill(&from.store).await;
    let file = folder.path().join("all.jsonl");
    from.export(&file);
    let text = std::fs::read_to_string(&file).unwrap();
    for (before, after) in [
        (r#""head":"{"#, r#""head":""#),
        // The place of the items is in a string.
        (
            r#""head":"{\"output\":["#,
            r#""head":"{\"output\":[{\"type\":\"message\"},{\"type\":\"message\"}],\"a\":\"["#,
        ),
        (r#""tail":"],"#, r#""tail":"]],"#),
        (r#""tail":"],"#, r#""tail":"],\n"#),
        (
            r#""parameters":",\"model\":"#,
            r#""parameters":",\"output\":"#,
        ),
        (r#""metadata":"{}""#, r#""metadata":"{\"a\":1}""#),
        (r#""metadata":"{}""#, r#""metadata":"[]""#),
        (r#""metadata":"{}""#, r#""metadata":"no""#),
        (r#""json":"{"#, r#""json":"[],{"#),
        (r#""json":"{\"id\":\"a\"}""#, r#""json":"5""#),
        (r#""json":"{\"id\":\"a\"}""#, r#""json":"[]""#),
        (r#""status":"completed""#, r#""status":"done""#),
        (r#""id":"resp_r1""#, r#""id":"r1""#),
        (r#""id":"resp_r1""#, r#""id":"resp_\"""#),
        (r#""id":"conv_c1""#, r#""id":"resp_c1""#),
        (r#""created":0"#, r#""created":18446744073709551615"#),
        (r#""accessed":0"#, r#""accessed":9223372036854775807"#),
        (r#""begins":2"#, r#""begins":99"#),
        (r#""begins":0"#, r#""begins":1"#),
        (r#""begins":0"#, r#""begins":-1"#),
        (r#""ends":4"#, r#""ends":16777217"#),
        (r#""position":3"#, r#""position":2"#),
        (r#""position":1"#, r#""position":-9223372036854775808"#),
    ] {
        let broken = folder.path().join("broken.jsonl");
        let damaged = text.replacen(before, after, 1);
        assert_ne!(damaged, text, "{before}");
        std::fs::write(&broken, damaged).unwrap();
        let to = Place::new(folder.path(), "to");
        let imported = to.store.import(OWNER, broken).await;
        assert!(
            matches!(imported, Err(TransferError::Line(..))),
            "{after}: {imported:?}"
        );
        assert!(to.reading().contents().unwrap().owners.is_empty());
    }
}

#[tokio::test]
async fn whatever_a_store_has_is_taken_and_can_be_read() {
    for seed in 1..10_u64 {
        let folder = tempfile::tempdir().unwrap();
        let from = Place::new(folder.path(), "from");
        let mut state = seed;
        let mut choose = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % most
        };
        for number in 0..40 {
            let earlier = format!("resp_{}", choose(number + 1));
            let in_conversation = format!("conv_{}", choose(2));
            let ids = [format!("i{number}"), "same".to_owned()];
            let ids = [&*ids[0], &*ids[1]];
            match choose(8) {
                0 => {
                    from.store.delete_response(OWNER, &earlier).await.unwrap();
                }
                1 => {
                    let id = &in_conversation;
                    from.store.delete_conversation(OWNER, id).await.unwrap();
                    let created =
                        from.store
                            .create_conversation(OWNER, conversation(id), items(&ids));
                    created.await.unwrap();
                }
                2 => {
                    let deleted =
                        from.store
                            .delete_conversation_item(OWNER, &in_conversation, "same");
                    deleted.await.unwrap();
                }
                kind => {
                    let origin = match kind {
                        3 => StoredOrigin::Nothing,
                        4 => StoredOrigin::Conversation(in_conversation),
                        _ => after(&earlier),
                    };
                    let input = if kind == 5 { &ids[..0] } else { &ids[..] };
                    let new = response(&format!("resp_{number}"), origin, input, &ids[1..]);
                    // What it continues may be gone.
                    from.store.put_response(new).await.ok();
                }
            }
        }
        let file = folder.path().join("all.jsonl");
        let exported = from.export(&file);
        let to = Place::new(folder.path(), "to");
        assert_eq!(to.import(&file).await, exported, "seed {seed}");
        assert_eq!(to.reading().faults().unwrap(), Vec::<String>::new());
        for number in 0..40 {
            let id = format!("resp_{number}");
            let found = to.store.response(OWNER, &id).await.unwrap();
            assert_eq!(found, from.store.response(OWNER, &id).await.unwrap());
            if let Some(found) = found {
                serde_json::from_str::<serde_json::Value>(&found.json).unwrap();
            }
        }
    }
}
