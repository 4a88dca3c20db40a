use std::sync::Arc;

use adapters::chat::encode::{Options, encode};
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use registry::{Dialect, Model};
use serde_json::{Value, json};

use super::{Place, Print, Reason, Situation, Telling, Watch};

/// A request of a session, and what is known of it beside its bytes.
#[derive(Clone)]
struct Sent {
    body: Value,
    situation: Situation,
    cache_control: bool,
}

fn sent(items: impl Into<Value>) -> Sent {
    let items = items.into();
    Sent {
        body: json!({
            "model": "m", "instructions": "Be brief.", "input": items,
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "max_output_tokens": 1000,
        }),
        situation: Situation {
            route: "acme/m".into(),
            ..Situation::default()
        },
        cache_control: false,
    }
}

impl Sent {
    fn with(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    fn behind(mut self, change: impl FnOnce(&mut Situation)) -> Self {
        change(&mut self.situation);
        self
    }

    fn print(&self) -> Arc<Print> {
        let mut dialect = Dialect::default();
        dialect.quirks.cache_control = self.cache_control;
        let source = TurnSource::new(self.body.to_string());
        let turn = source.turn().unwrap();
        let model = Model::unlisted("m");
        let options = Options::new(&dialect, &model, "m");
        let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap();
        Arc::new(Print::new(&encoded, self.situation.clone()))
    }
}

/// What is told of the last of these requests of one session.
fn told(requests: &[Sent]) -> Telling {
    let watch = Watch::default();
    let owner: Arc<str> = "local".into();
    let (last, before) = requests.split_last().unwrap();
    for request in before {
        watch.put(&owner, "s", &request.print());
    }
    watch.tell(&owner, "s", &last.print())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

fn first() -> Value {
    json!([user("go"), call("c1"), output("c1", "seen \"it}]\"")])
}

fn second() -> Value {
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]});
    let mut items = first();
    items.as_array_mut().unwrap().extend([said, user("on")]);
    items
}

fn why(requests: &[Sent]) -> (Reason, Option<Place>) {
    let telling = told(requests);
    (telling.reason, telling.place)
}

#[test]
fn a_history_that_grows_shares_all_of_the_last_request() {
    assert_eq!(why(&[sent(first())]), (Reason::First, None));
    for cache_control in [false, true] {
        let steps = |count: usize| {
            let items = second().as_array().unwrap()[..count].to_vec();
            Sent {
                cache_control,
                ..sent(Value::Array(items))
            }
        };
        // The output limit stands at the end of the body and is no difference.
        for (before, after) in [(1, 3), (3, 5), (3, 4), (4, 5), (5, 5)] {
            let telling = told(&[steps(before), steps(after)]);
            assert_eq!(telling.reason, Reason::NewTurn, "{before} {after}");
            assert_eq!(telling.shared, telling.last);
            assert_eq!(telling.to_string(), "shared=100.0%; reason=new_turn");
            assert!(telling.sent >= telling.last);
        }
    }
}

#[test]
fn what_breaks_a_prefix_is_named_with_its_place() {
    let tools = json!([{"type": "function", "name": "see", "parameters": {"type": "object"}}]);
    let other_output = json!([
        user("go"),
        call("c1"),
        output("c1", "[demoted]"),
        user("on")
    ]);
    let summary = json!([user("a summary")]);
    for (next, reason, place) in [
        (
            sent(second()).with("tools", tools.clone()),
            Reason::ToolsChanged,
            Place::Tools,
        ),
        (
            sent(second()).with("tools", json!([])),
            Reason::ToolsChanged,
            Place::Tools,
        ),
        (
            sent(second()).with("instructions", json!("Be long.")),
            Reason::InstructionsChanged,
            Place::Instructions,
        ),
        (
            sent(second()).with("instructions", Value::Null),
            Reason::InstructionsChanged,
            Place::Instructions,
        ),
        (
            sent(second()).with("temperature", json!(0.5)),
            Reason::ParametersChanged,
            Place::Parameters,
        ),
        (
            sent(other_output.clone()),
            Reason::ClientChangedHistory,
            Place::Item(2),
        ),
        (
            sent(json!([user("go")])),
            Reason::ClientChangedHistory,
            Place::Item(1),
        ),
        (
            sent(other_output).behind(|situation| situation.epochs = 1),
            Reason::Epoch,
            Place::Item(2),
        ),
        (
            sent(summary.clone()).behind(|situation| situation.compacts = true),
            Reason::Compaction,
            Place::Item(0),
        ),
        (
            sent(summary).behind(|situation| situation.summaries = 1),
            Reason::Compaction,
            Place::Item(0),
        ),
        (
            sent(second())
                .with("tools", tools)
                .behind(|situation| situation.compacts = true),
            Reason::Compaction,
            Place::Tools,
        ),
    ] {
        assert_eq!(why(&[sent(first()), next]), (reason, Some(place)));
    }
    let moved = sent(second()).behind(|situation| situation.route = "brand/m".into());
    let telling = told(&[sent(first()), moved]);
    assert_eq!(telling.to_string(), "shared=0.0%; reason=model_changed");
}

/// The request for a summary goes on from the history; what is sent behind it does
/// not.
#[test]
fn the_request_behind_a_summary_is_a_compaction() {
    let asking = sent(second()).behind(|situation| situation.compacts = true);
    let requests = [sent(first()), asking, sent(json!([user("a summary")]))];
    assert_eq!(why(&requests[..2]).0, Reason::NewTurn);
    assert_eq!(why(&requests).0, Reason::Compaction);
}

#[test]
fn the_share_is_of_the_last_requests_bytes() {
    let long = "x".repeat(9_000);
    let history = json!([user(&long), call("c1"), output("c1", &long)]);
    let changed = json!([user(&long), call("c1"), output("c1", "other")]);
    let telling = told(&[sent(history), sent(changed)]);
    assert!(telling.shared > 9_000 && telling.shared < 9_500);
    assert_eq!(
        telling.to_string(),
        format!(
            "shared={}%; reason=client_changed_history; at=item 2",
            telling.percent()
        )
    );
    assert!(("50.0".."51.9").contains(&telling.percent().as_str()));
}

/// Agents of one session take turns: each goes on from its own history.
#[test]
fn parallel_turns_of_a_session_are_told_apart() {
    let line = |name: &str, turns: usize| {
        let items = (0..turns).map(|turn| user(&format!("{name} {turn}")));
        sent(Value::Array(items.collect()))
    };
    let mut requests = Vec::new();
    for turn in 1..6 {
        for name in ["a", "b", "c", "d"] {
            requests.push(line(name, turn));
            if turn > 1 {
                assert_eq!(why(&requests).0, Reason::NewTurn, "{name} {turn}");
            }
        }
    }
}

#[test]
fn memory_is_bounded_and_silent_sessions_go_first() {
    let watch = Watch::default();
    let owner: Arc<str> = "local".into();
    let items = (0..60_000).map(|turn| user(&turn.to_string()));
    let long = sent(Value::Array(items.collect())).print();
    for session in 0..20 {
        watch.put(&owner, &session.to_string(), &long);
        watch.put(&owner, "0", &long);
    }
    let (sessions, parts) = watch.count();
    assert!((5..10).contains(&sessions), "{sessions}");
    assert!(parts <= 512 << 10);
    assert_eq!(watch.tell(&owner, "0", &long).reason, Reason::NewTurn);
    assert_eq!(watch.tell(&owner, "19", &long).reason, Reason::NewTurn);
    assert_eq!(watch.tell(&owner, "1", &long).reason, Reason::First);
    let other: Arc<str> = "other".into();
    assert_eq!(watch.tell(&other, "0", &long).reason, Reason::First);
}
