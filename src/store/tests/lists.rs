//! Lists of items, page by page.

use proptest::prelude::*;
use rusqlite::Connection;

use super::{OWNER, after, conversation, items, put_all, response};
use crate::store::conversations::{self, list_items};
use crate::store::reading::StoreRead;
use crate::store::response_list::list_responses;
use crate::store::schema::tests::in_memory;
use crate::store::{ItemListOf, ListPage, ListedResponses, NewResponse, StoredOrigin};

/// The ids of a whole list, read in pages of this size.
fn in_pages(
    connection: &Connection,
    list: &ItemListOf,
    limit: usize,
    newest_first: bool,
) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let page = ListPage {
            after: ids.last().cloned(),
            limit,
            newest_first,
        };
        let listed = list_items(
            &StoreRead::without_budget(connection),
            OWNER,
            list,
            &page,
            usize::MAX,
        )
        .unwrap()
        .unwrap();
        assert!(listed.items.len() <= limit);
        ids.extend(listed.items.into_iter().map(|item| item.id));
        if !listed.has_more {
            return ids;
        }
    }
}

/// Responses whose input is in four threads, because others part from each: the client sends whole
/// histories.
fn forked(connection: &Connection) -> Vec<String> {
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    let prefixes: Vec<i64> = (1..=7).collect();
    for (count, output) in [(1, "x"), (3, "y"), (5, "z"), (7, "w")] {
        let id = format!("r{count}");
        let new = NewResponse {
            prefixes: prefixes[..count].to_vec(),
            ..response(&id, StoredOrigin::Nothing, &all[..count], &[output])
        };
        put_all(connection, &[new]);
    }
    all.map(str::to_owned).to_vec()
}

proptest! {
    #[test]
    fn the_pages_of_a_list_are_the_list(limit in 1..9usize, newest_first: bool) {
        let connection = in_memory();
        let mut all = forked(&connection);
        if newest_first {
            all.reverse();
        }
        let list = ItemListOf::Input("r7".into());
        prop_assert_eq!(in_pages(&connection, &list, limit, newest_first), all);
    }

    #[test]
    fn the_pages_of_a_conversation_are_its_items(limit in 1..7usize, newest_first: bool) {
        let connection = in_memory();
        let mut all = vec!["a", "b", "c", "d", "e"];
        conversations::create(&connection, OWNER, &conversation("c1"), &items(&all)).unwrap();
        let beside = StoredOrigin::BesideConversation("c1".into());
        put_all(&connection, &[response("r1", beside, &["x"], &["y"])]);
        if newest_first {
            all.reverse();
        }
        let list = ItemListOf::Conversation("c1".into());
        prop_assert_eq!(in_pages(&connection, &list, limit, newest_first), all);
    }
}

/// The ids of all responses with a status, read in pages of this size.
fn responses_in_pages(
    connection: &Connection,
    status: Option<&str>,
    (limit, max_bytes): (usize, usize),
    newest_first: bool,
) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let page = ListPage {
            after: ids.last().cloned(),
            limit,
            newest_first,
        };
        let listed = list_responses(
            &StoreRead::without_budget(connection),
            OWNER,
            status,
            &page,
            max_bytes,
        );
        let listed = listed.unwrap().unwrap();
        assert!(listed.responses.len() <= limit);
        assert!(!listed.has_more || !listed.responses.is_empty());
        for (id, json) in listed.responses {
            assert!(json.contains(&format!("out {id}")), "{json}");
            ids.push(id);
        }
        if !listed.has_more {
            return ids;
        }
    }
}

proptest! {
    #[test]
    fn the_pages_of_responses_are_all_of_them_once(
        statuses in prop::collection::vec(prop::sample::select(vec!["completed", "failed"]), 0..9),
        limit in 1..9usize,
        max_bytes in 1..400usize,
        newest_first: bool,
    ) {
        let connection = in_memory();
        for (number, status) in statuses.iter().enumerate() {
            let id = format!("r{number}");
            let new = NewResponse {
                status,
                ..response(&id, StoredOrigin::Nothing, &["a"], &[&format!("out {id}")])
            };
            let foreign = NewResponse {
                owner: "another".to_owned(),
                id: format!("of another {number}"),
                ..new.clone()
            };
            put_all(&connection, &[new, foreign]);
        }
        for status in [None, Some("completed"), Some("failed"), Some("queued")] {
            let fits = |of: &str| status.is_none_or(|status| status == of);
            let all = statuses.iter().enumerate().filter(|(_, of)| fits(of));
            let mut all: Vec<String> = all.map(|(number, _)| format!("r{number}")).collect();
            if newest_first {
                all.reverse();
            }
            let size = (limit, max_bytes);
            prop_assert_eq!(responses_in_pages(&connection, status, size, newest_first), all);
        }
    }
}

#[test]
fn a_page_of_responses_ends_where_it_is_large() {
    let connection = in_memory();
    for id in ["a", "b", "c"] {
        put_all(
            &connection,
            &[response(id, StoredOrigin::Nothing, &[], &[])],
        );
    }
    let page = ListPage {
        after: None,
        limit: 10,
        newest_first: false,
    };
    let listed = |max_bytes| -> ListedResponses {
        let listed = list_responses(
            &StoreRead::without_budget(&connection),
            OWNER,
            None,
            &page,
            max_bytes,
        );
        listed.unwrap().unwrap()
    };
    let whole = listed(usize::MAX);
    assert_eq!((whole.responses.len(), whole.has_more), (3, false));
    let bytes = whole.responses[0].1.len();
    for (max_bytes, count) in [(1, 1), (bytes, 1), (bytes + 1, 2), (2 * bytes + 1, 3)] {
        let listed = listed(max_bytes);
        assert_eq!(listed.responses[..], whole.responses[..count]);
        assert_eq!(listed.has_more, count < 3, "{max_bytes}");
    }
}

#[test]
fn a_page_of_responses_begins_after_one_of_the_owner_only() {
    let connection = in_memory();
    put_all(
        &connection,
        &[response("r1", StoredOrigin::Nothing, &["a"], &["b"])],
    );
    let page = ListPage {
        after: Some("r1".to_owned()),
        limit: 10,
        newest_first: true,
    };
    let of = |owner| {
        list_responses(
            &StoreRead::without_budget(&connection),
            owner,
            None,
            &page,
            0,
        )
        .unwrap()
    };
    assert_eq!(of(OWNER), Some(ListedResponses::default()));
    assert_eq!(of("another"), None);
}

#[test]
fn a_page_begins_after_an_item_of_the_list_only() {
    let connection = in_memory();
    put_all(
        &connection,
        &[
            response("r1", StoredOrigin::Nothing, &["a"], &["b"]),
            response("r2", after("r1"), &["c"], &["d"]),
        ],
    );
    let list = ItemListOf::Input("r2".into());
    for (id, is_there) in [("c", true), ("a", false), ("d", false), ("nothing", false)] {
        let page = ListPage {
            after: Some(id.into()),
            limit: 10,
            newest_first: false,
        };
        let listed = list_items(
            &StoreRead::without_budget(&connection),
            OWNER,
            &list,
            &page,
            usize::MAX,
        )
        .unwrap();
        assert_eq!(listed.is_some(), is_there, "{id}");
    }
}

#[test]
fn the_pages_of_a_list_end_where_items_share_an_id() {
    let connection = in_memory();
    let all = items(&["x", "a", "b", "a", "c"]);
    conversations::create(&connection, OWNER, &conversation("c1"), &all).unwrap();
    let list = ItemListOf::Conversation("c1".into());
    for newest_first in [false, true] {
        let mut page = ListPage {
            after: None,
            limit: 1,
            newest_first,
        };
        let mut pages = 1;
        loop {
            let listed = list_items(
                &StoreRead::without_budget(&connection),
                OWNER,
                &list,
                &page,
                usize::MAX,
            )
            .unwrap()
            .unwrap();
            if !listed.has_more {
                break;
            }
            page.after = listed.items.last().map(|item| item.id.clone());
            pages += 1;
            assert!(pages <= all.len(), "newest first {newest_first}");
        }
    }
}

#[test]
fn another_owner_has_no_such_list() {
    let connection = in_memory();
    forked(&connection);
    conversations::create(&connection, OWNER, &conversation("c1"), &items(&["a"])).unwrap();
    let page = ListPage {
        after: None,
        limit: 10,
        newest_first: true,
    };
    for list in [
        ItemListOf::Input("r7".into()),
        ItemListOf::Conversation("c1".into()),
    ] {
        let of = |owner| {
            list_items(
                &StoreRead::without_budget(&connection),
                owner,
                &list,
                &page,
                usize::MAX,
            )
            .unwrap()
        };
        assert!(of(OWNER).is_some());
        assert_eq!(of("another"), None);
    }
    assert!(!conversations::add_items(&connection, "another", "c1", &items(&["b"])).unwrap());
    assert!(!conversations::delete(&connection, "another", "c1").unwrap());
}
