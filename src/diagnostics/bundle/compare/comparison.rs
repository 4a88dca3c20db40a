//! What is compared of two turns, in the order in which it is reported.

use std::fmt::Display;

use adapters::fault::Fault;
use hashlink::LinkedHashMap;
use serde::Serialize;

use super::values::ValueMatcher;
use super::{Difference, Differences, Scope, bodies, excerpt};
use crate::diagnostics::bundle::{BundleAttempt, BundleTurn};
use crate::turn::Outcome;

/// Request headers that are different in every request, or follow from the body.
const OTHER_EACH_TIME: [&str; 7] = [
    "content-length",
    "date",
    "x-request-id",
    "x-client-request-id",
    "traceparent",
    "tracestate",
    "idempotency-key",
];

/// Maximum number of differences that are listed for one part of a turn.
const MOST: usize = 20;
/// Likewise for a provider's response: the response to the client shows the rest.
const MOST_UPSTREAM: usize = 3;

/// The same part of the left and of the right turn.
type Pair<T> = [T; 2];

/// Compares two turns part by part. A part that only one of them has is a difference as well.
pub(super) struct Comparison {
    scope: Scope,
    matcher: ValueMatcher,
    /// The differences so far.
    pub(super) found: Vec<Difference>,
}

impl Comparison {
    /// A comparison that has found some differences already.
    pub(super) fn new(scope: Scope, found: Vec<Difference>) -> Self {
        Self {
            scope,
            matcher: ValueMatcher::new(scope),
            found,
        }
    }

    pub(super) fn turns(&mut self, turns: Pair<&BundleTurn>) {
        if self.scope == Scope::Diff {
            self.environment(turns);
        }
        self.plan(turns.map(|turn| &*turn.plan));
        let [left, right] = turns.map(|turn| &turn.attempts);
        for ((left, right), number) in left.iter().zip(right).zip(1..) {
            self.attempt(&format!("attempt {number}"), [left, right]);
        }
        if left.len() != right.len() {
            let counts = [left, right].map(|attempts| {
                let last = attempts.last().map(|last| &last.route);
                let last = last.map_or_else(String::new, |route| format!(", the last to {route}"));
                format!("{}{last}", attempts.len())
            });
            self.text("number of attempts", counts);
        }
        match self.scope {
            Scope::Replay => {
                self.answer(turns);
                self.end(turns);
            }
            Scope::Diff => {
                self.end(turns);
                self.answer(turns);
            }
        }
    }

    /// The program, its configuration, its state before the turn, and the client's request.
    fn environment(&mut self, turns: Pair<&BundleTurn>) {
        self.text("program", turns.map(|turn| &turn.version));
        self.text("configuration", turns.map(|turn| &turn.config_digest));
        self.data("settings", turns.map(|turn| &turn.settings));
        let heartbeats = turns.map(|turn| turn.heartbeat_ms);
        self.text("settings: heartbeat_ms", heartbeats);
        let pauses = turns.map(|turn| turn.commit_after_ms);
        self.text("settings: commit_after_ms", pauses);
        self.data("state_before", turns.map(|turn| &turn.state_before));
        let stop = |turn: &BundleTurn| turn.ending_us.map(|_| "ended by the program's stop");
        self.optional_text("ending", turns.map(stop));
        self.data("omitted", turns.map(|turn| &turn.omitted));
        self.data("rerun", turns.map(|turn| &turn.rerun));
        let requests = turns.map(|turn| &turn.request);
        self.text("client request: path", requests.map(|it| &it.path));
        let headers = requests.map(|it| &*it.headers);
        self.headers("client request", headers, is_chosen);
        let bodies = requests.map(|it| &*it.body);
        self.body("client request", "client request: ", bodies);
    }

    fn attempt(&mut self, name: &str, attempts: Pair<&BundleAttempt>) {
        let request = format!("{name} request");
        let answer = format!("{name} answer");
        self.text(&format!("{name}: route"), attempts.map(|it| &it.route));
        match self.scope {
            Scope::Replay => {
                let paths = attempts.map(|it| url_path(&it.url));
                self.text(&format!("{request}: url path"), paths);
            }
            Scope::Diff => {
                self.text(&format!("{request}: url"), attempts.map(|it| &it.url));
                let headers = attempts.map(|it| &*it.headers);
                self.headers(&request, headers, is_chosen);
                self.optional_text(&format!("{name}: key"), attempts.map(|it| it.key));
                self.data(&format!("{name}: window"), attempts.map(|it| it.window));
                let ratios = attempts.map(|it| it.bytes_per_token);
                self.text(&format!("{name}: bytes_per_token"), ratios);
                let inputs = attempts.map(|it| it.estimated_input);
                self.text(&format!("{name}: estimated_input"), inputs);
            }
        }
        self.body(&request, "", attempts.map(|it| &*it.body));
        let heads = attempts.map(|it| it.head.as_ref());
        let statuses = heads.map(|head| head.map(|head| head.status));
        self.optional_text(&format!("{answer}: status"), statuses);
        if self.scope == Scope::Diff {
            let headers = heads.map(|head| head.map_or(&[][..], |head| &head.headers));
            self.headers(&answer, headers, is_effective);
            let bodies = attempts.map(|it| &*it.answer);
            self.body(&answer, &format!("{answer}: "), bodies);
        }
        let end = |it: &BundleAttempt| if it.ended { "whole" } else { "broken off" };
        self.text(&format!("{answer}: end"), attempts.map(end));
        self.fault(&format!("{name}: fault"), attempts.map(|it| &it.fault));
    }

    /// How the turns ended.
    fn end(&mut self, turns: Pair<&BundleTurn>) {
        let note = |(code, detail): &(String, String)| format!("{code}: {detail}");
        let notes = turns.map(|turn| turn.notes.iter().map(note).collect::<Vec<String>>());
        self.data("notes", notes);
        let outcomes = turns.map(|turn| turn.outcome.map(Outcome::label));
        self.optional_text("outcome", outcomes);
        self.fault("fault", turns.map(|turn| &turn.fault));
        self.data("usage", turns.map(|turn| turn.usage));
    }

    fn answer(&mut self, turns: Pair<&BundleTurn>) {
        let answers = turns.map(|turn| &turn.answer);
        self.text("answer: status", answers.map(|it| it.status));
        self.headers("answer", answers.map(|it| &*it.headers), is_effective);
        self.body("answer", "", answers.map(|it| &*it.body));
    }

    /// Faults without their causes, which quote the transport.
    fn fault(&mut self, name: &str, faults: Pair<&Option<Fault>>) {
        let without_cause = |fault: &Fault| Fault {
            cause: None,
            ..fault.clone()
        };
        self.data(name, faults.map(|fault| fault.as_ref().map(without_cause)));
    }

    fn headers(
        &mut self,
        name: &str,
        headers: Pair<&[(String, String)]>,
        counts: fn(&str) -> bool,
    ) {
        let mut values: LinkedHashMap<&str, Pair<Option<String>>> = LinkedHashMap::new();
        for (side, headers) in headers.into_iter().enumerate() {
            for (header, value) in headers.iter().filter(|(header, _)| counts(header)) {
                let sides = values.entry(header).or_insert_with(Pair::default);
                if let Some(known) = sides.get_mut(side) {
                    match known {
                        Some(values) => {
                            values.push_str(", ");
                            values.push_str(value);
                        }
                        None => *known = Some(value.clone()),
                    }
                }
            }
        }
        for (header, values) in values {
            self.optional_text(&format!("{name}: header {header}"), values);
        }
    }

    /// The plan, whose formatting does not count.
    fn plan(&mut self, plans: Pair<&[u8]>) {
        self.part("plan", plans.map(whole), excerpt::body, |matcher, pair| {
            let mut found = bodies::document(matcher, "plan", pair);
            for difference in &mut found.kept {
                difference.location = plan_location(&difference.location);
            }
            // A step that differs in several fields is listed once.
            let locations = &mut found.kept;
            locations.dedup_by(|next, before| next.location == before.location);
            found
        });
    }

    /// Bodies, and the prefix for the names of their events.
    fn body(&mut self, name: &str, events: &str, bodies: Pair<&[u8]>) {
        let compare = |matcher: &mut _, pair| bodies::compare(matcher, name, events, pair);
        self.part(name, bodies.map(whole), excerpt::body, compare);
    }

    /// What is compared field by field.
    fn data(&mut self, name: &str, values: Pair<impl Serialize>) {
        let values = values.map(|value| serde_json::to_value(value).unwrap_or_default());
        let values = values
            .each_ref()
            .map(|value| Some(value).filter(|it| !it.is_null()));
        self.part(name, values, excerpt::value, |matcher, (left, right)| {
            let mut found = Differences::default();
            matcher.differences(&format!("{name}: "), left, right, &mut found);
            found
        });
    }

    /// What is shown as it is.
    fn text(&mut self, name: &str, values: Pair<impl Display>) {
        self.optional_text(name, values.map(Some));
    }

    fn optional_text(&mut self, name: &str, values: Pair<Option<impl Display>>) {
        let values = values.map(|value| value.map(|value| value.to_string()));
        let values = values.each_ref().map(Option::as_deref);
        self.part(name, values, excerpt::text, |_, (left, right)| {
            let differs = left != right;
            let mut found = Differences::default();
            if differs {
                found.add(|| Difference::new(name, excerpt::texts(left, right)));
            }
            found
        });
    }

    /// Compares a part that both turns have, or quotes it if only one of them has it.
    fn part<'p, T: ?Sized>(
        &mut self,
        name: &str,
        [left, right]: Pair<Option<&'p T>>,
        quote: fn(&T) -> String,
        compare: impl FnOnce(&mut ValueMatcher, (&'p T, &'p T)) -> Differences,
    ) {
        let mut differing = match (left, right) {
            (Some(left), Some(right)) => compare(&mut self.matcher, (left, right)),
            (Some(left), None) => Difference::left(name, quote(left)).into(),
            (None, Some(right)) => Difference::right(name, quote(right)).into(),
            (None, None) => return,
        };
        let is_upstream = name.starts_with("attempt ") && name.ends_with(" answer");
        let most = if is_upstream { MOST_UPSTREAM } else { MOST };
        let more = differing.more + differing.kept.len().saturating_sub(most);
        differing.kept.truncate(most);
        self.found.append(&mut differing.kept);
        if more > 0 {
            let remark = format!("{name}: and {more} more");
            self.found.push(Difference::remark(remark));
        }
    }
}

/// An empty body counts as none.
fn whole(body: &[u8]) -> Option<&[u8]> {
    Some(body).filter(|body| !body.is_empty())
}

/// Shortens `plan: actions[7].repair[0]` to `plan: action 7`, and `plan: sequence[3]` to
/// `plan: place 3`.
fn plan_location(path: &str) -> String {
    for (list, name) in [("plan: actions[", "action"), ("plan: sequence[", "place")] {
        if let Some((index, _)) = path
            .strip_prefix(list)
            .and_then(|rest| rest.split_once(']'))
        {
            return format!("plan: {name} {index}");
        }
    }
    path.to_owned()
}

/// The path of a URL, without its query.
fn url_path(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.find('/').unwrap_or(rest.len());
    let path = rest.get(host..).unwrap_or_default();
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// Whether clients act on a response header.
fn is_effective(name: &str) -> bool {
    matches!(name, "content-type" | "retry-after") || name.starts_with("x-respondent-")
}

/// Whether a request header is the same in equal requests.
fn is_chosen(name: &str) -> bool {
    !OTHER_EACH_TIME.contains(&name)
}
