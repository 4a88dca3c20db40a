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
        json: format!("\"{}\\n\"", "large ".repeat(5_000)),
    };
    let in_conversation = StoredOrigin::Conversation("c1".into());
    let beside = StoredOrigin::BesideConversation("c1".into());
    let first = items(&["c_a", "c_b"]);
    store
        .create_conversation(OWNER, conversation("c1"), first)
        .await
        .unwrap();
    for new in [
        response("r1", StoredOrigin::Nothing, &["a"], &["b"]),
        response("r2", after("r1"), &["c"], &["d"]),
        NewResponse {
            input: vec![large],
            ..response("r3", after("r1"), &[], &["e"])
        },
        response("r4", in_conversation, &["f"], &["g"]),
        response("r5", beside, &["h"], &[]),
    ] {
        store.put_response(new).await.unwrap();
    }
    let deleted = store.delete_conversation_item(OWNER, "c1", "c_a").await;
    assert!(deleted.unwrap());
    store
        .put_response(NewResponse {
            owner: "another".into(),
            ..response("of another", StoredOrigin::Nothing, &["x"], &[])
        })
        .await
        .unwrap();
}

async fn assert_equal(one: &Store, other: &Store) {
    for id in ["r1", "r2", "r3", "r4", "r5"] {
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
    let origin = StoredOrigin::Conversation("c1".into());
    let history = one.history(OWNER, &origin).await.unwrap();
    assert_eq!(history, other.history(OWNER, &origin).await.unwrap());
    assert_eq!(
        one.conversation(OWNER, "c1").await.unwrap(),
        other.conversation(OWNER, "c1").await.unwrap()
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
        to.store.response("another", "of another").await.unwrap(),
        None
    );
    assert_eq!(to.reading().faults().unwrap(), Vec::<String>::new());
    // A conversation goes on.
    let origin = StoredOrigin::Conversation("c1".into());
    let next = response("r6", origin, &["i"], &[]);
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
    assert!(from.store.delete_response(OWNER, "r2").await.unwrap());
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
