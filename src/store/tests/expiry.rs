//! What is deleted with time, and what stays.

use rusqlite::Connection;

use super::{OWNER, after, conversation, item, items, left, noise, plan, put_all, response};
use crate::store::expiry::{
    self, ResponseLimits, SELECT_OLDEST, SELECT_OLDEST_OF_OWNER, SELECT_SIZE,
};
use crate::store::jobs::SELECT_EVENTS;
use crate::store::owner_sizes::{
    self, SELECT_CONVERSATIONS_SIZE, SELECT_NEXT_OWNER, SELECT_SIZE_OF_OWNER,
};
use crate::store::reading::StoreRead;
use crate::store::response_list::select_ids;
use crate::store::responses::SELECT_ROW;
use crate::store::schema::tests::in_memory;
use crate::store::sweep::{self, SweepLimits};
use crate::store::threads::SELECT_NEWEST;
use crate::store::{NewItem, NewResponse, StoredOrigin, conversations};

/// Sweeps until nothing is left to do, and returns how many responses were deleted.
fn expire(connection: &mut Connection, used_since: u64, max_bytes: u64) -> u64 {
    expire_to(connection, limits(used_since, max_bytes))
}

fn limits(used_since: u64, max_bytes: u64) -> ResponseLimits {
    ResponseLimits {
        used_since,
        max_bytes,
        max_owner_bytes: None,
    }
}

fn expire_to(connection: &mut Connection, limits: ResponseLimits) -> u64 {
    let mut deleted = 0;
    loop {
        let step = expiry::step(connection, limits).unwrap();
        deleted += step.unused + step.over_limit.values().sum::<u64>();
        if !step.more {
            return deleted;
        }
    }
}

/// A response that was used last at this time.
fn used(id: &str, origin: StoredOrigin, now: u64) -> NewResponse {
    NewResponse {
        now,
        ..response(id, origin, &[&format!("in {id}")], &[&format!("out {id}")])
    }
}

#[test]
fn what_was_not_used_since_then_is_deleted() {
    let mut connection = in_memory();
    put_all(
        &connection,
        &[
            used("old", StoredOrigin::Nothing, 10),
            used("new", after("old"), 20),
            used("alone", StoredOrigin::Nothing, 19),
        ],
    );
    assert_eq!(expire(&mut connection, 10, u64::MAX), 0);
    assert_eq!(expire(&mut connection, 20, u64::MAX), 2);
    assert_eq!(left(&connection), ["new"]);
    // The history of what continues a response outlives it.
    let history = super::super::responses::history(
        &StoreRead::without_budget(&connection),
        OWNER,
        &after("new"),
    );
    let history = history.unwrap().unwrap().items.list;
    for id in ["in old", "out old", "in new", "out new"] {
        assert!(history.contains(id), "{id} in {history}");
    }
}

#[test]
fn many_old_responses_are_deleted_in_steps() {
    let mut connection = in_memory();
    for number in 0..100 {
        put_all(
            &connection,
            &[used(&format!("r{number}"), StoredOrigin::Nothing, 0)],
        );
    }
    let step = expiry::step(&mut connection, limits(1, u64::MAX)).unwrap();
    assert!(step.more && step.unused < 50, "{step:?}");
    assert_eq!(step.unused + expire(&mut connection, 1, u64::MAX), 100);
}

#[test]
fn beyond_the_limit_the_least_recently_used_go_first() {
    let mut connection = in_memory();
    for (number, now) in [(0, 30), (1, 10), (2, 20), (3, 40)] {
        put_all(
            &connection,
            &[used(&format!("r{number}"), StoredOrigin::Nothing, now)],
        );
    }
    let before = expiry::size(&connection).unwrap();
    assert_eq!(expire(&mut connection, 0, before), 0);
    assert_eq!(expire(&mut connection, 0, before - 1), 1);
    assert_eq!(left(&connection), ["r0", "r2", "r3"]);
    assert!(expiry::size(&connection).unwrap() < before);
    assert_eq!(expire(&mut connection, 0, 0), 3);
    assert_eq!(expiry::size(&connection).unwrap(), 0);
}

/// Stores ten responses of alice with large items and a large conversation, and one small response
/// of bob that is older.
fn two_owners() -> Connection {
    let connection = in_memory();
    let large = |id: &str| NewItem {
        json: format!("\"{id}{}\"", noise(40_000)),
        ..item(id)
    };
    for number in 0..10 {
        let id = format!("a{number}");
        let new = NewResponse {
            owner: "alice".into(),
            input: vec![large(&id)],
            ..used(&id, StoredOrigin::Nothing, 10 + number)
        };
        put_all(&connection, &[new]);
    }
    let first = [large("c")];
    conversations::create(&connection, "alice", &conversation("c1"), &first).unwrap();
    let mut new = used("b", StoredOrigin::Nothing, 1);
    new.owner = "bob".into();
    put_all(&connection, &[new]);
    connection
}

#[test]
fn what_one_owner_stores_deletes_nothing_of_another() {
    let total = expiry::size(&two_owners()).unwrap();
    let alice = owner_sizes::size(&two_owners(), "alice").unwrap();
    for (max_bytes, max_owner_bytes, left_of_alice) in [
        (total, None, 10),
        (total - 1, None, 9),
        (total / 2, None, 4),
        // The conversation alone is more than an equal part.
        (1_500, None, 0),
        (u64::MAX, Some(alice), 10),
        (u64::MAX, Some(alice - 1), 9),
        (u64::MAX, Some(1_000), 0),
    ] {
        let mut connection = two_owners();
        let limits = ResponseLimits {
            used_since: 0,
            max_bytes,
            max_owner_bytes,
        };
        expire_to(&mut connection, limits);
        let left = left(&connection);
        assert!(left.contains(&"b".to_owned()), "{limits:?}: {left:?}");
        assert_eq!(left.len() - 1, left_of_alice, "{limits:?}: {left:?}");
        // The newest ones are left.
        assert!(left.len() == 1 || left.contains(&"a9".to_owned()));
    }
}

#[test]
fn conversations_grow_up_to_the_part_of_their_owner() {
    let connection = two_owners();
    let total = expiry::size(&connection).unwrap();
    for (owner, max_bytes, max_owner_bytes, added, limit) in [
        ("alice", total, None, 0, None),
        ("alice", total, None, total, Some(total / 2)),
        ("alice", 2_000, None, 0, Some(1_000)),
        ("alice", u64::MAX, Some(2_000), 0, Some(2_000)),
        // Nobody is refused for what others have.
        ("bob", 2_000, None, 900, None),
        ("carol", 3_000, None, 900, None),
        ("carol", 3_000, None, 1_100, Some(1_000)),
        ("bob", u64::MAX, Some(2_000), 0, None),
    ] {
        let limits = ResponseLimits {
            used_since: 0,
            max_bytes,
            max_owner_bytes,
        };
        let found = owner_sizes::exceeded_limit(&connection, owner, added, limits).unwrap();
        assert_eq!(found, limit, "{owner}, {added} bytes, {limits:?}");
    }
}

#[test]
fn artifacts_of_one_owner_delete_none_of_another() {
    let mut connection = in_memory();
    connection
        .execute_batch(
            "INSERT INTO blobs VALUES (1, 'art_1', 0, 0, 0, 100), (2, 'art_2', 0, 0, 0, 9000),
                 (3, 'art_3', 0, 0, 0, 9000);
             INSERT INTO refs (blob, owner, session, call, kind, created, accessed) VALUES
                 (1, 'bob', 's', 'of bob', 'json', 0, 0),
                 (1, 'alice', 's', 'shared', 'json', 0, 1),
                 (2, 'alice', 's', 'older', 'json', 0, 2),
                 (3, 'alice', 's', 'newer', 'json', 0, 3);",
        )
        .unwrap();
    for (max_bytes, left) in [(12_000, vec!["newer", "of bob"]), (5_000, vec!["of bob"])] {
        assert_eq!(artifacts_after_sweep(&mut connection, 0, max_bytes), left);
    }
}

/// Promise: A response that was not used for `keep_days` is deleted, and beyond `keep_size` those
/// unused for the longest time of owners who have more than an equal part; conversations and jobs
/// that go on stay.
#[test]
fn conversations_and_unfinished_jobs_stay() {
    let mut connection = in_memory();
    conversations::create(&connection, OWNER, &conversation("c1"), &items(&["a"])).unwrap();
    put_all(
        &connection,
        &[
            used("running", StoredOrigin::Nothing, 0),
            used("ended", StoredOrigin::Nothing, 0),
            used("in c1", StoredOrigin::Conversation("c1".into()), 0),
        ],
    );
    connection
        .execute_batch(
            "INSERT INTO jobs (response, owner, state, queued)
             SELECT number, owner, id, 0 FROM responses WHERE id IN ('running', 'ended')",
        )
        .unwrap();
    assert_eq!(expire(&mut connection, 1, 0), 2);
    assert_eq!(left(&connection), ["running"]);
    let origin = StoredOrigin::Conversation("c1".into());
    let history =
        super::super::responses::history(&StoreRead::without_budget(&connection), OWNER, &origin);
    assert_eq!(history.unwrap().unwrap().items.ranges.len(), 3);
}

/// Promise: Stored responses, jobs and events are found by indexes, and every table of stored
/// responses has an index for its ids.
#[test]
fn what_is_looked_for_is_found_by_indexes() {
    let connection = in_memory();
    for (select, index) in [
        (SELECT_OLDEST, "responses_by_access"),
        (SELECT_SIZE, "COVERING INDEX threads_by_bytes"),
        (SELECT_SIZE, "COVERING INDEX contents_by_stored"),
        (SELECT_SIZE, "COVERING INDEX responses_by_access"),
        (
            SELECT_OLDEST_OF_OWNER,
            "SEARCH responses USING INDEX responses_by_use",
        ),
        (
            SELECT_SIZE_OF_OWNER,
            "COVERING INDEX responses_by_use (owner=?)",
        ),
        (
            SELECT_SIZE_OF_OWNER,
            "COVERING INDEX threads_by_bytes (owner=?)",
        ),
        (
            SELECT_SIZE_OF_OWNER,
            "COVERING INDEX contents_by_number (number=?)",
        ),
        (SELECT_SIZE_OF_OWNER, "COVERING INDEX items_with_content"),
        (
            SELECT_CONVERSATIONS_SIZE,
            "COVERING INDEX conversations_by_size (owner=?)",
        ),
        (SELECT_NEXT_OWNER, "SEARCH threads USING COVERING INDEX"),
        (SELECT_ROW, "SEARCH responses USING INDEX sqlite_autoindex"),
        (
            "SELECT number FROM conversations WHERE id = ?1 AND owner = ?2",
            "SEARCH conversations USING INDEX sqlite_autoindex",
        ),
        (
            SELECT_NEWEST,
            "SEARCH items USING COVERING INDEX items_by_owner",
        ),
        (SELECT_EVENTS, "SEARCH events USING PRIMARY KEY"),
        (
            &select_ids(true),
            "SEARCH responses USING INDEX responses_by_owner",
        ),
        (
            &select_ids(false),
            "SEARCH responses USING INDEX responses_by_owner",
        ),
    ] {
        let plan = plan(&connection, select);
        assert!(plan.contains(index), "{select}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{select}: {plan}");
    }
}

/// The calls of the artifacts that a sweep leaves.
fn artifacts_after_sweep(
    connection: &mut Connection,
    accessed_since: u64,
    max_bytes: u64,
) -> Vec<String> {
    let limits = SweepLimits {
        accessed_since,
        max_bytes,
    };
    while sweep::step(connection, limits).unwrap().more {}
    let mut select = connection
        .prepare("SELECT call FROM refs ORDER BY call")
        .unwrap();
    let calls = select.query_map([], |row| row.get(0)).unwrap();
    calls.collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_artifacts_of_a_stored_session_live_as_long_as_it() {
    let mut connection = in_memory();
    put_all(&connection, &[used("r1", StoredOrigin::Nothing, 50)]);
    connection
        .execute_batch(
            "INSERT INTO blobs VALUES (1, 'art_1', 0, 0, 0, 500), (2, 'art_2', 0, 0, 0, 500);
             INSERT INTO refs (blob, owner, session, call, kind, created, accessed) VALUES
                 (1, 'me', 'session of r1', 'kept', 'json', 0, 0),
                 (1, 'another', 'session of r1', 'of another', 'json', 0, 0),
                 (2, 'me', 'another session', 'alone', 'json', 0, 0);",
        )
        .unwrap();
    assert_eq!(
        artifacts_after_sweep(&mut connection, 0, 0),
        ["kept", "of another"]
    );
    assert_eq!(artifacts_after_sweep(&mut connection, 10, 0), ["kept"]);
    assert_eq!(expire(&mut connection, 100, u64::MAX), 1);
    assert!(artifacts_after_sweep(&mut connection, 10, u64::MAX).is_empty());
}
