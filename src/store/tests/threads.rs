//! Histories that part from each other, and what deleting leaves of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;
use rusqlite::Connection;

use super::{OWNER, after, conversation, item, items, number, put_all, response, text};
use crate::store::conversations::{self, list_items};
use crate::store::reading::StoreRead;
use crate::store::responses::{delete, find, history, put, read};
use crate::store::schema::tests::in_memory;
use crate::store::{ItemListOf, ListPage, NewItem, NewResponse, StoredOrigin};

/// Something that is stored, and the JSON of the items that it must have.
#[derive(Clone, Debug)]
struct Expected {
    owner: &'static str,
    id: String,
    kind: Kind,
    history: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Conversation,
    /// Where its own input and its output begin, and whether its client sends whole histories.
    Response(usize, usize, bool),
}

/// What is stored next: by whom, what it does with what was stored before, and how many items of
/// input and output it has.
#[derive(Clone, Debug)]
struct Step {
    owner: usize,
    action: u8,
    of: usize,
    input: usize,
    output: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..2usize, 0..6u8, 0..1000usize, 0..4usize, 0..3usize);
    let step = step.prop_map(|(owner, action, of, input, output)| Step {
        owner,
        action,
        of,
        input,
        output,
    });
    prop::collection::vec(step, 1..24)
}

#[derive(Default)]
struct Model {
    expected: Vec<Expected>,
    /// How many items were made.
    made: usize,
}

impl Model {
    /// New items. Some are so large that they are stored as contents, which several share.
    fn items(&mut self, count: usize) -> Vec<NewItem> {
        let mut items = Vec::new();
        for _ in 0..count {
            self.made += 1;
            let mut new = item(&format!("item_{}", self.made));
            if self.made.is_multiple_of(3) {
                let letter = ["a", "b", "c"][self.made / 3 % 3];
                new.json = format!("{{\"text\":\"{}\"}}", letter.repeat(20_000));
            }
            items.push(new);
        }
        items
    }

    fn pick(&self, owner: &str, of: usize, fits: impl Fn(&Kind) -> bool) -> Option<Expected> {
        let all = self.expected.iter();
        let fitting: Vec<&Expected> = all
            .filter(|it| it.owner == owner && fits(&it.kind))
            .collect();
        fitting
            .get(of.checked_rem(fitting.len())?)
            .copied()
            .cloned()
    }

    fn step(&mut self, connection: &Connection, step: &Step) {
        let owner = ["a", "b"][step.owner];
        let is_response = |kind: &Kind| matches!(kind, Kind::Response(..));
        let is_whole = |kind: &Kind| matches!(kind, Kind::Response(_, _, true));
        let is_conversation = |kind: &Kind| *kind == Kind::Conversation;
        let mut input = self.items(step.input);
        let before = match step.action {
            0 => None,
            1 | 2 => self.pick(owner, step.of, is_response),
            3 => self.pick(owner, step.of, is_whole),
            _ => self.pick(owner, step.of, is_conversation),
        };
        let id = format!("resp_{}", self.expected.len());
        let (origin, earlier, is_whole) = match (step.action, &before) {
            (1 | 2, Some(before)) => (after(&before.id), before.history.clone(), false),
            (3, Some(before)) => {
                // The client repeats everything, and adds its new items.
                let repeated = before.history.iter().enumerate().map(|(at, json)| NewItem {
                    id: format!("{id}_{at}"),
                    json: json.clone(),
                });
                input = repeated.chain(input).collect();
                (StoredOrigin::Nothing, Vec::new(), true)
            }
            (4, Some(before)) => {
                let origin = StoredOrigin::Conversation(before.id.clone());
                (origin, before.history.clone(), false)
            }
            (5, Some(before)) => {
                let origin = StoredOrigin::BesideConversation(before.id.clone());
                (origin, before.history.clone(), false)
            }
            (4 | 5, None) => {
                let id = format!("conv_{}", self.expected.len());
                conversations::create(connection, owner, &conversation(&id), &input).unwrap();
                self.expected.push(Expected {
                    owner,
                    id,
                    kind: Kind::Conversation,
                    history: input.into_iter().map(|item| item.json).collect(),
                });
                return;
            }
            _ => (StoredOrigin::Nothing, Vec::new(), true),
        };
        let own = earlier.len();
        let mut history = earlier;
        let mut hasher = DefaultHasher::new();
        let mut prefixes = Vec::new();
        for item in &input {
            item.json.hash(&mut hasher);
            prefixes.push(hasher.finish().cast_signed());
            history.push(item.json.clone());
        }
        let begins = history.len();
        let output = self.items(step.output);
        history.extend(output.iter().map(|item| item.json.clone()));
        let new = NewResponse {
            owner: owner.to_owned(),
            input,
            prefixes,
            output,
            ..response(&id, origin, &[], &[])
        };
        put(connection, &new).unwrap();
        if let (4, Some(before)) = (step.action, before) {
            let all = &mut self.expected;
            let joined = all.iter_mut().find(|it| it.id == before.id).unwrap();
            joined.history.clone_from(&history);
        }
        self.expected.push(Expected {
            owner,
            id,
            kind: Kind::Response(own, begins, is_whole),
            history,
        });
    }

    /// Everything that is left must be as it was stored, and nobody else may see it.
    fn check(&self, connection: &Connection) {
        for it in &self.expected {
            let origin = match it.kind {
                Kind::Conversation => StoredOrigin::Conversation(it.id.clone()),
                Kind::Response(..) => after(&it.id),
            };
            let found = history(&StoreRead::without_budget(connection), it.owner, &origin)
                .unwrap()
                .unwrap();
            assert_eq!(found.items.list, format!("[{}]", it.history.join(",")));
            let ranges = found.items.ranges.iter();
            let each: Vec<&str> = ranges
                .map(|at| found.items.list.get(at.clone()).unwrap())
                .collect();
            assert_eq!(each, it.history);
            let other = if it.owner == "a" { "b" } else { "a" };
            assert_eq!(
                history(&StoreRead::without_budget(connection), other, &origin).unwrap(),
                None
            );
            let Kind::Response(own, begins, _) = it.kind else {
                continue;
            };
            let whole = read(&StoreRead::without_budget(connection), it.owner, &it.id)
                .unwrap()
                .unwrap();
            let output = it.history[begins..].join(",");
            let text = text();
            let expected = [&*text.head, &output, &text.rest()].concat();
            assert_eq!(whole.json, expected);
            assert_eq!(
                read(&StoreRead::without_budget(connection), other, &it.id).unwrap(),
                None
            );
            let page = ListPage {
                after: None,
                limit: 1000,
                newest_first: false,
            };
            let list = ItemListOf::Input(it.id.clone());
            let listed = list_items(
                &StoreRead::without_budget(connection),
                it.owner,
                &list,
                &page,
                usize::MAX,
            )
            .unwrap();
            let listed = listed.unwrap().items.into_iter();
            let listed: Vec<String> = listed.map(|item| item.json).collect();
            assert_eq!(listed, it.history[own..begins]);
        }
        assert_eq!(number(connection, MISCOUNTED_CONTENTS), 0);
        assert_eq!(number(connection, MISCOUNTED_THREADS), 0);
    }

    fn delete(&mut self, connection: &Connection, which: usize) {
        let it = self.expected.swap_remove(which % self.expected.len());
        match it.kind {
            Kind::Conversation => {
                assert!(conversations::delete(connection, it.owner, &it.id).unwrap());
            }
            Kind::Response(..) => {
                let row = find(connection, it.owner, &it.id).unwrap().unwrap();
                delete(connection, row.number, row.thread).unwrap();
            }
        }
    }
}

/// The contents that count other users than they have.
const MISCOUNTED_CONTENTS: &str = "SELECT count(*) FROM contents WHERE uses <>
    (SELECT count(*) FROM items WHERE content = contents.number)
    + (SELECT count(*) FROM responses WHERE parameters = contents.number)";

/// The threads that count other bytes than their items have.
const MISCOUNTED_THREADS: &str = "SELECT count(*) FROM threads WHERE bytes <>
    (SELECT coalesce(sum(96 + octet_length(id) + coalesce(octet_length(json), 0)), 0)
     FROM items WHERE items.number >> 24 = threads.number)";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Promise: The history of a stored response is each item once, whoever else continues it, in a
    /// thread that only grows. Whatever is deleted, the history of the rest keeps its bytes, and
    /// what nobody refers to any more is gone.
    #[test]
    fn whatever_is_deleted_the_rest_keeps_its_history_and_nothing_else_stays(
        steps in steps(), deletions in prop::collection::vec(0..1000usize, 24),
    ) {
        let connection = in_memory();
        let mut model = Model::default();
        for step in &steps {
            model.step(&connection, step);
        }
        model.check(&connection);
        for which in deletions {
            if model.expected.is_empty() {
                break;
            }
            model.delete(&connection, which);
            model.check(&connection);
        }
        for table in ["items", "contents", "threads", "responses", "conversations"] {
            let rows = number(&connection, &format!("SELECT count(*) FROM {table}"));
            prop_assert_eq!(rows, 0, "{}", table);
        }
    }
}

#[test]
fn a_response_is_added_to_the_thread_that_it_continues_and_a_second_one_parts_from_it() {
    let connection = in_memory();
    put_all(
        &connection,
        &[
            response("r1", StoredOrigin::Nothing, &["a"], &["b"]),
            response("r2", after("r1"), &["c"], &["d"]),
            response("r3", after("r1"), &["e"], &["f"]),
        ],
    );
    assert_eq!(number(&connection, "SELECT count(*) FROM threads"), 2);
    assert_eq!(number(&connection, "SELECT count(*) FROM items"), 6);
}

#[test]
fn a_client_that_sends_whole_histories_stores_each_item_of_its_input_once() {
    let connection = in_memory();
    let turn = |id: &str, input: &[&str], prefixes: &[i64], output: &[&str]| NewResponse {
        prefixes: prefixes.to_vec(),
        ..response(id, StoredOrigin::Nothing, input, output)
    };
    put_all(
        &connection,
        &[
            turn("r1", &["a", "b"], &[1, 2], &["out"]),
            turn("r2", &["a2", "b2", "out2", "c"], &[1, 2, 3, 4], &["more"]),
            // A retry of the first request is no copy of it either.
            turn("r3", &["a3", "b3"], &[1, 2], &["other"]),
        ],
    );
    // Two of input, and behind them: the first output, three of the second turn, the third output.
    assert_eq!(number(&connection, "SELECT count(*) FROM items"), 7);
}

#[test]
fn what_is_large_is_stored_once() {
    let connection = in_memory();
    let large = |id: &str| NewItem {
        id: id.to_owned(),
        json: format!("[\"{}\"]", "large ".repeat(10_000)),
    };
    for id in ["r1", "r2"] {
        let new = NewResponse {
            input: vec![large(id)],
            ..response(id, StoredOrigin::Nothing, &[], &[])
        };
        put(&connection, &new).unwrap();
    }
    // The item, and the parameters of both responses.
    assert_eq!(number(&connection, "SELECT count(*) FROM contents"), 2);
    assert_eq!(number(&connection, "SELECT min(uses) FROM contents"), 2);
    let row = find(&connection, super::OWNER, "r1").unwrap().unwrap();
    delete(&connection, row.number, row.thread).unwrap();
    assert_eq!(number(&connection, "SELECT count(*) FROM contents"), 2);
    assert_eq!(number(&connection, "SELECT max(uses) FROM contents"), 1);
}

/// A text that grows is copied, and room that nobody needs is memory.
#[test]
fn a_history_is_read_into_a_text_of_about_its_size() {
    let connection = in_memory();
    let of_size = |id: &str, bytes: usize| NewItem {
        id: id.to_owned(),
        json: format!("\"{}\"", "a".repeat(bytes)),
    };
    for (at, large) in [40_000, 5_000].into_iter().enumerate() {
        let (first, second) = (format!("first{at}"), format!("second{at}"));
        let begin = NewResponse {
            output: vec![of_size("large", large)],
            ..response(&first, StoredOrigin::Nothing, &["question"], &[])
        };
        let end = NewResponse {
            output: vec![of_size("more", 300_000), of_size("last", 15_000)],
            ..response(&second, after(&first), &["answer"], &[])
        };
        put_all(&connection, &[begin, end]);
        for id in [&first, &second] {
            let list = history(&StoreRead::without_budget(&connection), OWNER, &after(id))
                .unwrap()
                .unwrap();
            let list = list.items.list;
            let room = list.capacity() - list.len();
            assert!(room < 1_000, "{id}: {room} of {}", list.len());
        }
    }
}

#[test]
fn items_go_on_after_the_end_of_what_was_deleted() {
    let connection = in_memory();
    put_all(
        &connection,
        &[
            response("r1", StoredOrigin::Nothing, &["a"], &["b"]),
            response("r2", after("r1"), &["c"], &["d"]),
        ],
    );
    let row = find(&connection, super::OWNER, "r2").unwrap().unwrap();
    delete(&connection, row.number, row.thread).unwrap();
    put(&connection, &response("r3", after("r1"), &["e"], &[])).unwrap();
    let found = history(
        &StoreRead::without_budget(&connection),
        super::OWNER,
        &after("r3"),
    )
    .unwrap();
    let jsons: Vec<String> = items(&["a", "b", "e"])
        .into_iter()
        .map(|it| it.json)
        .collect();
    assert_eq!(found.unwrap().items.list, format!("[{}]", jsons.join(",")));
    assert_eq!(number(&connection, "SELECT count(*) FROM threads"), 1);
}
