//! What was found and read for responses.

use super::super::reading::StoreRead;
use super::super::schema::tests::in_memory;
use super::super::{
    DataDir, EndedJob, EventBatch, ListPage, NewJob, NewSource, NewToolRun, SourceStatus, Store,
    ToolRecord, ToolRunStatus, count_rows, responses,
};
use super::*;

fn page(after: Option<&str>, limit: usize, newest_first: bool) -> ListPage {
    ListPage {
        after: after.map(str::to_owned),
        limit,
        newest_first,
    }
}

fn record() -> ToolRecord {
    let mut record = ToolRecord::default();
    for n in 1..=5 {
        let url = format!("https://user@A.example:8080/{n}?q");
        record.add(&url, NewSource::new(SourceStatus::Found, &url, "A page"));
    }
    record.put_run(NewToolRun {
        round: 1,
        call_id: "c1".to_owned(),
        name: "web_search".to_owned(),
        status: ToolRunStatus::Completed,
        started_ms: 10,
        ended_ms: 20,
        bytes: 30,
        artifact_id: None,
        error: None,
        attempts: Some("[]".to_owned()),
    });
    record
}

fn searched(id: &str) -> NewResponse {
    NewResponse {
        tools: record().unwritten(),
        ..response(id, StoredOrigin::Nothing, &["a"], &["b"])
    }
}

async fn places(store: &Store, page: &ListPage) -> Option<(Vec<u64>, bool)> {
    let listed = store.list_sources(OWNER, "r1", page).await.unwrap()?;
    let places = listed.sources.iter().map(|source| source.place);
    Some((places.collect(), listed.has_more))
}

/// Promise: The sources of a stored answer are listed in pages to its owner, and are deleted with
/// it, as the calls are that found them.
#[tokio::test]
async fn sources_live_as_long_as_their_response() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let store = Store::open(&data_dir, 0).unwrap();
    store.put_response(searched("r1")).await.unwrap();
    for (after, limit, newest_first, expected) in [
        (None, 10, false, Some((vec![1, 2, 3, 4, 5], false))),
        (None, 2, true, Some((vec![5, 4], true))),
        (Some("4"), 9, true, Some((vec![3, 2, 1], false))),
        (Some("4"), 9, false, Some((vec![5], false))),
        (Some("5"), 9, false, Some((vec![], false))),
        (Some("6"), 9, false, None),
        (Some("x"), 9, false, None),
    ] {
        let page = page(after, limit, newest_first);
        assert_eq!(places(&store, &page).await, expected, "{page:?}");
    }
    let all = page(None, 9, true);
    assert!(
        store
            .list_sources("other", "r1", &all)
            .await
            .unwrap()
            .is_none()
    );
    assert!(store.source("other", "r1", 1).await.unwrap().is_none());
    assert!(store.source(OWNER, "r1", 6).await.unwrap().is_none());
    let source = store.source(OWNER, "r1", 2).await.unwrap().unwrap();
    assert_eq!(source.source.domain, "a.example");
    assert!(store.delete_response(OWNER, "r1").await.unwrap());
    for table in ["sources", "tool_runs"] {
        assert_eq!(count_rows(&data_dir, table), 0, "{table}");
    }
    store.put_response(searched("r2")).await.unwrap();
    assert_eq!(count_rows(&data_dir, "tool_runs"), 1);
    store.purge().await.unwrap();
    assert_eq!(count_rows(&data_dir, "sources"), 0);
}

/// Promise: A response and its sources are stored together or not at all.
#[test]
fn sources_are_in_the_transaction_of_the_response() {
    let mut connection = in_memory();
    let transaction = connection.transaction().unwrap();
    put(&transaction, &searched("r1")).unwrap();
    drop(transaction);
    let count = |connection: &Connection, table: &str| -> i64 {
        let select = format!("SELECT count(*) FROM {table}");
        connection.query_row(&select, [], |row| row.get(0)).unwrap()
    };
    for table in ["responses", "sources", "tool_runs"] {
        assert_eq!(count(&connection, table), 0, "{table}");
    }
    put(&connection, &searched("r1")).unwrap();
    put(
        &connection,
        &response("r2", StoredOrigin::Nothing, &["a"], &["b"]),
    )
    .unwrap();
    assert_eq!(count(&connection, "sources"), 5);
    // They count in the size of the response, and not in the response.
    let bytes = |id: &str| -> i64 {
        let select = "SELECT bytes FROM responses WHERE id = ?1";
        connection
            .query_row(select, [id], |row| row.get(0))
            .unwrap()
    };
    assert!(bytes("r1") > bytes("r2") + 5 * 128);
    let reading = StoreRead::without_budget(&connection);
    let stored = responses::read(&reading, OWNER, "r1").unwrap().unwrap();
    assert!(!stored.json.contains("a.example"));
}

#[tokio::test]
async fn background_responses_have_sources_when_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let store = Store::open(&data_dir, 0).unwrap();
    let job = NewJob {
        id: "r1".to_owned(),
        owner: OWNER.to_owned(),
        text: text(),
        created: 0,
        request: "{}".to_owned(),
        headers: "{}".to_owned(),
        events: EventBatch::default(),
        now_ms: 0,
    };
    store.create_job(job).await.unwrap();
    let all = page(None, 9, true);
    assert_eq!(places(&store, &all).await, Some((vec![], false)));
    let ended = EndedJob {
        response: std::sync::Arc::new(searched("r1")),
        events: EventBatch::default(),
        was_interrupted: false,
        deliveries: Vec::new(),
        now_ms: 0,
    };
    store.finish_job(ended).await.unwrap();
    assert_eq!(
        places(&store, &all).await,
        Some((vec![5, 4, 3, 2, 1], false))
    );
}

/// A page that is found, read and named again is one source.
#[test]
fn an_address_is_one_source() {
    let mut record = ToolRecord::default();
    let source = |status, url: &str| NewSource::new(status, url, "");
    let found = NewSource {
        relevance: Some(0.5),
        title: "Found".to_owned(),
        ..source(SourceStatus::Found, "https://a.example/")
    };
    assert_eq!(record.add("https://a.example/", found), Some(0));
    record.add_shown(0, "one");
    let read = NewSource {
        body: Some("text".to_owned()),
        ..source(SourceStatus::Read, "https://a.example/last")
    };
    assert_eq!(record.add("https://a.example/", read), Some(0));
    record.add_shown(0, "two");
    let named = source(SourceStatus::Input, "https://a.example/last");
    assert_eq!(record.add("https://a.example/last", named), Some(0));
    let merged = &record.sources[0];
    assert_eq!(
        (
            merged.status,
            &*merged.url,
            &*merged.title,
            merged.relevance
        ),
        (
            SourceStatus::Read,
            "https://a.example/last",
            "Found",
            Some(0.5)
        )
    );
    assert_eq!(merged.shown.as_deref(), Some("one\n\ntwo"));
    // One that leads to another that was found, too.
    let other = "https://a.example/other";
    assert_eq!(
        record.add(other, source(SourceStatus::Found, other)),
        Some(1)
    );
    let last = "https://a.example/last";
    assert_eq!(record.add(other, source(SourceStatus::Read, last)), Some(0));
    let mut addresses: Vec<&str> = record.sources.iter().map(|it| &*it.url).collect();
    addresses.dedup();
    assert_eq!(addresses, [last, other]);
    for n in 0..300 {
        let url = format!("https://b.example/{n}");
        record.add(&url, source(SourceStatus::Found, &url));
    }
    let most = super::super::MAX_SOURCES;
    assert_eq!(record.sources.len(), most);
    // What was only found makes room for what was read.
    let new = "https://c.example/";
    assert_eq!(record.add(new, source(SourceStatus::Found, new)), None);
    assert_eq!(
        record.add(new, source(SourceStatus::Read, new)),
        Some(most - 1)
    );
    assert_eq!(record.sources.len(), most);
}

/// Promise: What is stored of a source is bounded, also where a request names it: an address of
/// more than 2,000 bytes is not kept, and of a title 500 characters are.
#[test]
fn addresses_and_titles_are_bounded() {
    let address = |bytes: usize| format!("https://A.example:8080/{}", "a".repeat(bytes - 23));
    for (bytes, place) in [(2_000, Some(0)), (2_001, None)] {
        let mut record = ToolRecord::default();
        let url = address(bytes);
        assert_eq!(url.len(), bytes);
        let source = NewSource::new(SourceStatus::Input, &url, &"é".repeat(501));
        assert_eq!(source.domain, "a.example");
        assert_eq!(source.title, "é".repeat(500));
        assert_eq!(record.add(&url, source), place);
    }
}
