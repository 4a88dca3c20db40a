use adapters::baggage::Baggage;
use adapters::hidden_rounds::HiddenEntry;

use super::*;

fn owner() -> Arc<str> {
    "me".into()
}

/// The bytes that the memory counts, checked against its parts.
fn bytes(memory: &SessionMemory) -> usize {
    let sessions = memory.0.lock();
    let counted: usize = sessions.by_key.values().map(|session| session.bytes).sum();
    assert_eq!(counted, sessions.bytes);
    assert_eq!(sessions.bytes_of.values().sum::<usize>(), counted);
    sessions.bytes
}

fn keep_item(memory: &SessionMemory, session: &str, id: &str, length: usize) {
    let json = vec![b'x'; length];
    memory.keep_items(&owner(), session, [(id, json.as_slice())].into_iter());
}

fn has_item(memory: &SessionMemory, id: &str) -> bool {
    !memory.items(&owner(), vec![id.to_owned()]).is_empty()
}

fn reasoning(memory: &SessionMemory, session: &str, call: &str) -> Option<String> {
    let calls = || HashSet::from([call.to_owned()]);
    memory.reasoning(&owner(), session, calls).remove(call)
}

#[test]
fn sessions_and_owners_are_separate_and_the_latest_value_counts() {
    let memory = SessionMemory::default();
    for (route, tools) in [("a/m", "[1]"), ("b/m", "[2]")] {
        memory.set_route(&owner(), "s", route.into());
        memory.put_tools(&owner(), "s", tools);
    }
    assert_eq!(memory.moved_to(&owner(), "s").as_deref(), Some("b/m"));
    assert_eq!(memory.tools(&owner(), "s").as_deref(), Some("[2]"));
    for (owner, session) in [("you", "s"), ("me", "t")] {
        assert_eq!(memory.moved_to(&owner.into(), session), None);
        assert_eq!(memory.tools(&owner.into(), session), None);
    }
}

#[test]
fn items_are_found_without_their_session_but_not_by_another_owner() {
    let memory = SessionMemory::default();
    keep_item(&memory, "s", "msg_1", 3);
    keep_item(&memory, "t", "msg_2", 3);
    let ids = || vec!["msg_1".to_owned(), "msg_2".into(), "msg_3".into()];
    assert_eq!(memory.items(&owner(), ids()).len(), 2);
    assert!(memory.items(&"them".into(), ids()).is_empty());
    keep_item(&memory, "s", "msg_3", ITEM_LIMIT + 1);
    assert!(!has_item(&memory, "msg_3"), "an item that is too large");
}

#[test]
fn the_sessions_of_one_owner_make_no_other_owner_forgotten() {
    let memory = SessionMemory::default();
    memory.set_route(&"you".into(), "s", "a/m".into());
    for number in 0..40 {
        keep_item(
            &memory,
            &format!("s{number}"),
            &format!("msg_{number}"),
            ITEM_LIMIT,
        );
    }
    assert!(bytes(&memory) <= LIMIT);
    assert!(!has_item(&memory, "msg_0") && has_item(&memory, "msg_39"));
    assert!(memory.moved_to(&"you".into(), "s").is_some());
}

#[test]
fn the_session_that_was_silent_for_the_longest_time_is_forgotten_first() {
    let memory = SessionMemory::default();
    let sessions = LIMIT / ITEM_LIMIT;
    for n in 0..sessions {
        memory.set_route(&owner(), "busy", "a/m".into());
        keep_item(&memory, &n.to_string(), &format!("msg_{n}"), ITEM_LIMIT);
    }
    assert!(bytes(&memory) <= LIMIT);
    assert!(!has_item(&memory, "msg_0"));
    assert!(has_item(&memory, &format!("msg_{}", sessions - 1)));
    assert_eq!(memory.moved_to(&owner(), "busy").as_deref(), Some("a/m"));
    assert!(memory.0.lock().sessions_of_items.len() < sessions);
}

#[test]
fn a_session_that_fills_the_memory_alone_loses_its_oldest_records_only() {
    let memory = SessionMemory::default();
    memory.set_route(&owner(), "s", "a/m".into());
    for n in 0..=LIMIT / ITEM_LIMIT {
        keep_item(&memory, "s", &format!("msg_{n}"), ITEM_LIMIT);
    }
    assert!(bytes(&memory) <= LIMIT);
    assert!(!has_item(&memory, "msg_0"));
    assert!(has_item(
        &memory,
        &format!("msg_{}", LIMIT / ITEM_LIMIT / 2)
    ));
    assert_eq!(memory.moved_to(&owner(), "s").as_deref(), Some("a/m"));
}

#[test]
fn keys_of_any_length_are_counted() {
    let memory = SessionMemory::default();
    for n in 0..200 {
        let session = format!("{n}{}", "k".repeat(1 << 20));
        memory.set_route(&owner(), &session, "a/m".into());
        let call = format!("{n}{}", "c".repeat(1 << 20));
        let blobs = [(call, "blob".to_owned())];
        memory.put_reasoning(&owner(), "s", blobs.into_iter());
        keep_item(&memory, "s", &format!("{n}{}", "i".repeat(1 << 20)), 1);
    }
    let counted = bytes(&memory);
    assert!((LIMIT / 2..=LIMIT).contains(&counted), "{counted}");
}

#[test]
fn a_value_that_is_replaced_is_counted_once() {
    let memory = SessionMemory::default();
    let put = || {
        memory.put_tools(&owner(), "s", "[1,2,3]");
        memory.set_route(&owner(), "s", "a/m".into());
        keep_item(&memory, "s", "msg_1", 100);
        let blobs = [("c".to_owned(), "blob".to_owned())];
        memory.put_reasoning(&owner(), "s", blobs.into_iter());
        bytes(&memory)
    };
    assert_eq!(put(), put());
}

#[test]
fn no_reasoning_state_of_an_answer_with_calls_is_lost() {
    let memory = SessionMemory::default();
    let items = [
        r#"{"type":"reasoning","encrypted_content":"one"}"#,
        r#"{"type":"message"}"#,
        r#"{"type":"reasoning","encrypted_content":"two"}"#,
        r#"{"type":"function_call","call_id":"a"}"#,
        r#"{"type":"function_call","call_id":"b"}"#,
        r#"{"type":"reasoning","encrypted_content":"three"}"#,
        r#"{"type":"function_call","call_id":"c"}"#,
        r#"{"type":"reasoning","encrypted_content":"four"}"#,
        r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"five"}]}"#,
    ];
    memory.keep_reasoning(
        &owner(),
        "s",
        "acme/m",
        items.iter().map(|item| item.as_bytes()),
    );
    assert_eq!(reasoning(&memory, "s", "a").as_deref(), Some("one two"));
    assert_eq!(reasoning(&memory, "s", "b"), None);
    // A text alone is sealed here.
    let text = Baggage {
        reasoning: "five".to_owned(),
        origin: "acme/m".to_owned(),
        ..Baggage::default()
    };
    let of_c = format!("three four {}", text.seal());
    assert_eq!(reasoning(&memory, "s", "c"), Some(of_c));
    assert_eq!(reasoning(&memory, "another", "a"), None);
}

#[test]
fn hidden_rounds_are_found_by_each_call_and_once_for_all() {
    let memory = SessionMemory::default();
    let rounds = HiddenRounds {
        entries: vec![
            HiddenEntry::Call("a".into()),
            HiddenEntry::Call("b".into()),
            HiddenEntry::Hidden("{}".into()),
        ],
    };
    memory.keep_hidden_rounds(&owner(), "s", &Arc::new(rounds.clone()), true);
    for calls in [&["a", "b"][..], &["b"]] {
        let calls = || calls.iter().map(|&call| call.to_owned()).collect();
        assert_eq!(
            memory.hidden_rounds(&owner(), "s", calls),
            [Arc::new(rounds.clone())]
        );
    }
    let other = || HashSet::from(["c".to_owned()]);
    assert!(memory.hidden_rounds(&owner(), "s", other).is_empty());
}

#[test]
fn hidden_rounds_count_once_whatever_the_number_of_their_anchors() {
    let memory = SessionMemory::default();
    memory.set_limit(2 << 20);
    let anchor = |answer: usize, n: usize| format!("{answer}_{n}");
    for answer in 0..10 {
        let calls = (0..12).map(|n| HiddenEntry::Call(anchor(answer, n)));
        let hidden = HiddenEntry::Hidden("x".repeat(100_000).into());
        let entries = calls.chain([hidden]).collect();
        let rounds = Arc::new(HiddenRounds { entries });
        memory.keep_hidden_rounds(&owner(), "s", &rounds, answer == 0);
    }
    let first = || HashSet::from([anchor(0, 0)]);
    assert_eq!(memory.hidden_rounds(&owner(), "s", first).len(), 1);
    let counted = bytes(&memory);
    assert!((1_000_000..1_200_000).contains(&counted), "{counted}");
    assert!(memory.has_all_hidden_rounds(&owner(), "s"));
}

#[test]
fn what_the_store_has_is_read_again_after_a_session_was_forgotten() {
    let memory = SessionMemory::default();
    let answer = |call: &str, more: usize| {
        let hidden = (0..=more).map(|n| HiddenEntry::Hidden(format!("{n}").into()));
        let entries = hidden.chain([HiddenEntry::Call(call.to_owned())]).collect();
        Arc::new(HiddenRounds { entries })
    };
    let found =
        |call: &str| memory.hidden_rounds(&owner(), "s", || HashSet::from([call.to_owned()]));
    let (first, second) = (answer("a", 0), answer("b", 1));
    memory.keep_hidden_rounds(&owner(), "s", &first, true);
    assert!(memory.has_all_hidden_rounds(&owner(), "s"));
    memory.set_limit(0);
    memory.set_limit(usize::MAX);
    assert!(found("a").is_empty());
    memory.keep_hidden_rounds(&owner(), "s", &second, false);
    assert!(!memory.has_all_hidden_rounds(&owner(), "s"));
    // Of the second answer the store has less.
    memory.load_hidden_rounds(&owner(), "s", &[Arc::clone(&first), answer("b", 0)]);
    assert!(memory.has_all_hidden_rounds(&owner(), "s"));
    assert_eq!((found("a"), found("b")), (vec![first], vec![second]));
}
