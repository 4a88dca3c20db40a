//! Reads that get no memory, and those that nobody waits for any more.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::{OWNER, conversation, noise, put_all, response, text};
use crate::net::memory::{MemoryFull, MemoryKind, ProcessMemory, SharedMemory};
use crate::store::conversations::{items_by_id, list_items};
use crate::store::reading::StoreRead;
use crate::store::responses::{history, read};
use crate::store::schema::tests::in_memory;
use crate::store::{
    DataDir, EventBatch, ItemListOf, ListPage, NewItem, NewJob, NewResponse, ResponseText, Store,
    StoreError, StoredOrigin,
};

const ALL: ListPage = ListPage {
    after: None,
    limit: 100,
    newest_first: false,
};

#[test]
fn a_read_stops_between_its_items() {
    let connection = in_memory();
    let stored = response("r", StoredOrigin::Nothing, &["a", "b"], &["c"]);
    put_all(&connection, &[stored]);
    let memory = SharedMemory::new(ProcessMemory::unlimited().share(MemoryKind::Requests));
    let ids = BTreeSet::from(["a", "b"].map(str::to_owned));
    let input = ItemListOf::Input("r".to_owned());
    let origin = StoredOrigin::Response("r".to_owned());
    for is_stopped in [false, true] {
        let stop = AtomicBool::new(is_stopped);
        let reading = StoreRead::new(&connection, &memory, &stop);
        for (what, result) in [
            ("references", items_by_id(&reading, OWNER, &ids).map(drop)),
            (
                "unknown references",
                items_by_id(&reading, "bob", &ids).map(drop),
            ),
            ("a history", history(&reading, OWNER, &origin).map(drop)),
            ("a response", read(&reading, OWNER, "r").map(drop)),
            (
                "a page",
                list_items(&reading, OWNER, &input, &ALL, 1_000).map(drop),
            ),
        ] {
            let has_stopped = matches!(result, Err(StoreError::Stopped));
            assert_eq!(has_stopped, is_stopped, "{what}: {result:?}");
        }
    }
}

/// What is refused is there, and the database is not read as a whole at the next start.
#[tokio::test]
async fn a_read_without_memory_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let memory = ProcessMemory::new(1 << 20);
    let store = Store::open_within(&data_dir, 0, &memory).unwrap();
    let large = NewItem {
        id: "large".to_owned(),
        json: format!("\"{}\"", noise(2 << 20)),
    };
    let tail = format!("],\"a\":\"{}\"", noise(2 << 20));
    let stored = NewResponse {
        output: vec![large.clone()],
        text: ResponseText { tail, ..text() },
        ..response("r", StoredOrigin::Nothing, &["in"], &[])
    };
    store.put_response(stored).await.unwrap();
    let made = store.create_conversation(OWNER, conversation("c"), vec![large]);
    made.await.unwrap();
    let job = NewJob {
        id: "job".to_owned(),
        owner: OWNER.to_owned(),
        text: text(),
        created: 0,
        request: noise(2 << 20),
        headers: "{}".to_owned(),
        events: EventBatch::new(0, [noise(2 << 20).as_bytes()]),
        now_ms: 0,
    };
    store.create_job(job).await.unwrap();
    let origin = StoredOrigin::Response("r".to_owned());
    let list = ItemListOf::Conversation("c".to_owned());
    let ids = BTreeSet::from(["large".to_owned()]);
    for (what, result) in [
        ("a response", store.response(OWNER, "r").await.map(drop)),
        (
            "responses",
            store.list_responses(OWNER, None, &ALL).await.map(drop),
        ),
        ("a history", store.history(OWNER, &origin).await.map(drop)),
        (
            "a page",
            store.list_items(OWNER, &list, &ALL).await.map(drop),
        ),
        ("an item", store.item(OWNER, &list, "large").await.map(drop)),
        ("references", store.items_by_id(OWNER, ids).await.map(drop)),
        (
            "a request",
            store.unfinished_job(OWNER, "job").await.map(drop),
        ),
        (
            "events",
            store.events_after(OWNER, "job", None).await.map(drop),
        ),
    ] {
        let too_large = matches!(
            result,
            Err(StoreError::NoMemory {
                full: MemoryFull::TooLarge { .. },
                ..
            })
        );
        assert!(too_large, "{what}: {result:?}");
        assert!(!data_dir.damage_marker().exists(), "{what}");
    }
    assert_eq!(memory.used(), 0);
    memory.set_limit(usize::MAX);
    store.response(OWNER, "r").await.unwrap().unwrap();
}
