//! What is compared of a turn, in the order in which it is reported.

use std::fmt::Display;

use adapters::fault::Fault;
use serde::Serialize;
use serde_json::Value;

use super::values::ValueMatcher;
use super::{Difference, Scope, bodies, excerpt};
use crate::diagnostics::bundle::{BundleAttempt, BundleTurn};

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

/// One thing that is compared. What a turn lacks is not in its list.
pub(super) enum Fact<'t> {
    /// Shown as it is.
    Text(String),
    /// Compared field by field.
    Data(Value),
    /// The plan, whose formatting does not count.
    Plan(&'t [u8]),
    /// A body, and the prefix for the names of its events.
    Body(&'t [u8], String),
}

/// The facts of one of two turns that are compared, with their names.
pub(super) struct Facts<'t> {
    scope: Scope,
    pub(super) list: Vec<(String, Fact<'t>)>,
}

impl<'t> Facts<'t> {
    /// The facts of `turn`, with as many attempts as `other` has as well.
    pub(super) fn of(turn: &'t BundleTurn, other: &BundleTurn, scope: Scope) -> Self {
        let list = Vec::new();
        let mut facts = Self { scope, list };
        if scope == Scope::Diff {
            facts.environment(turn);
        }
        if !turn.plan.is_empty() {
            facts.add("plan", Fact::Plan(&turn.plan));
        }
        let both = turn.attempts.iter().zip(&other.attempts).zip(1..);
        for ((attempt, _), number) in both {
            facts.attempt(&format!("attempt {number}"), attempt);
        }
        if turn.attempts.len() != other.attempts.len() {
            let last = turn.attempts.last().map(|last| &last.route);
            let last = last.map_or_else(String::new, |route| format!(", the last to {route}"));
            facts.text(
                "number of attempts",
                format!("{}{last}", turn.attempts.len()),
            );
        }
        match scope {
            Scope::Replay => {
                facts.answer(turn);
                facts.end(turn);
            }
            Scope::Diff => {
                facts.end(turn);
                facts.answer(turn);
            }
        }
        facts
    }

    /// The program, its configuration, its state before the turn, and the client's request.
    fn environment(&mut self, turn: &'t BundleTurn) {
        self.text("program", &turn.version);
        self.text("configuration", &turn.config_digest);
        self.data("settings", &turn.settings);
        self.text("settings: heartbeat_ms", turn.heartbeat_ms);
        self.text("settings: commit_after_ms", turn.commit_after_ms);
        self.data("given", &turn.state_before);
        if turn.ending_us.is_some() {
            self.text("ending", "ended by the program's stop");
        }
        self.data("omitted", &turn.omitted);
        self.data("rerun", &turn.rerun);
        self.text("client request: path", &turn.request.path);
        self.headers("client request", &turn.request.headers, is_chosen);
        self.body("client request", "client request: ", &turn.request.body);
    }

    fn attempt(&mut self, name: &str, attempt: &'t BundleAttempt) {
        let request = format!("{name} request");
        let answer = format!("{name} answer");
        self.text(format!("{name}: route"), &attempt.route);
        match self.scope {
            Scope::Replay => self.text(format!("{request}: url path"), url_path(&attempt.url)),
            Scope::Diff => {
                self.text(format!("{request}: url"), &attempt.url);
                self.headers(&request, &attempt.headers, is_chosen);
                if let Some(key) = attempt.key {
                    self.text(format!("{name}: key"), key);
                }
                self.data(format!("{name}: window"), &attempt.window);
                let ratio = attempt.bytes_per_token;
                self.text(format!("{name}: bytes_per_token"), ratio);
                let input = attempt.estimated_input;
                self.text(format!("{name}: estimated_input"), input);
            }
        }
        self.body(&request, "", &attempt.body);
        if let Some(head) = &attempt.head {
            self.text(format!("{answer}: status"), head.status);
            if self.scope == Scope::Diff {
                self.headers(&answer, &head.headers, is_effective);
            }
        }
        if self.scope == Scope::Diff {
            self.body(&answer, &format!("{answer}: "), &attempt.answer);
        }
        let end = if attempt.ended { "whole" } else { "broken off" };
        self.text(format!("{answer}: end"), end);
        self.fault(format!("{name}: fault"), attempt.fault.as_ref());
    }

    /// How the turn ended.
    fn end(&mut self, turn: &BundleTurn) {
        let notes = turn.notes.iter();
        let notes: Vec<String> = notes
            .map(|(code, detail)| format!("{code}: {detail}"))
            .collect();
        self.data("notes", &notes);
        if let Some(outcome) = turn.outcome {
            self.text("outcome", outcome.label());
        }
        self.fault("fault".to_owned(), turn.fault.as_ref());
        self.data("usage", &turn.usage);
    }

    fn answer(&mut self, turn: &'t BundleTurn) {
        self.text("answer: status", turn.answer.status);
        self.headers("answer", &turn.answer.headers, is_effective);
        self.body("answer", "", &turn.answer.body);
    }

    /// A fault without its cause, which quotes the transport.
    fn fault(&mut self, name: String, fault: Option<&Fault>) {
        let fault = fault.map(|fault| Fault {
            cause: None,
            ..fault.clone()
        });
        self.data(name, &fault);
    }

    fn headers(&mut self, name: &str, headers: &[(String, String)], counts: fn(&str) -> bool) {
        let first = self.list.len();
        for (header, value) in headers.iter().filter(|(header, _)| counts(header)) {
            let name = format!("{name}: header {header}");
            let mut known = self.list.iter_mut().skip(first);
            match known.find(|(other, _)| *other == name) {
                Some((_, Fact::Text(values))) => *values = format!("{values}, {value}"),
                _ => self.text(name, value),
            }
        }
    }

    fn body(&mut self, name: &str, events: &str, body: &'t [u8]) {
        if !body.is_empty() {
            self.add(name, Fact::Body(body, events.to_owned()));
        }
    }

    fn data(&mut self, name: impl Into<String>, value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        if !value.is_null() {
            self.add(name, Fact::Data(value));
        }
    }

    fn text(&mut self, name: impl Into<String>, value: impl Display) {
        self.add(name, Fact::Text(value.to_string()));
    }

    fn add(&mut self, name: impl Into<String>, fact: Fact<'t>) {
        self.list.push((name.into(), fact));
    }
}

impl Fact<'_> {
    /// Where two facts of the same name differ.
    pub(super) fn differences(
        &self,
        other: &Self,
        name: &str,
        matcher: &mut ValueMatcher,
    ) -> Vec<Difference> {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) if left != right => {
                vec![Difference::new(name, excerpt::texts(left, right))]
            }
            (Self::Data(left), Self::Data(right)) => {
                matcher.differences(&format!("{name}: "), left, right)
            }
            (Self::Plan(left), Self::Plan(right)) => {
                let mut found = bodies::document(matcher, name, (left, right));
                for difference in &mut found {
                    difference.location = plan_location(&difference.location);
                }
                // A step that differs in several fields is listed once.
                found.dedup_by(|next, before| next.location == before.location);
                found
            }
            (Self::Body(left, events), Self::Body(right, _)) => {
                bodies::compare(matcher, name, events, (left, right))
            }
            // Facts of one name are of one kind.
            (Self::Text(_) | Self::Data(_) | Self::Plan(_) | Self::Body(..), _) => Vec::new(),
        }
    }

    /// The beginning of a fact that only one turn has.
    pub(super) fn excerpt(&self) -> String {
        match self {
            Self::Text(text) => excerpt::text(text),
            Self::Data(value) => excerpt::value(value),
            Self::Plan(body) | Self::Body(body, _) => excerpt::text(&String::from_utf8_lossy(body)),
        }
    }
}

/// A fact of the left turn and of the right one.
type FactPair<'f, 't> = (&'f str, Option<&'f Fact<'t>>, Option<&'f Fact<'t>>);

/// Pairs the facts of two turns by name, in their order.
pub(super) fn pairs<'f, 't>(
    left: &'f [(String, Fact<'t>)],
    right: &'f [(String, Fact<'t>)],
) -> Vec<FactPair<'f, 't>> {
    let mut pairs: Vec<FactPair<'f, 't>> = Vec::new();
    pairs.extend(
        left.iter()
            .map(|(name, fact)| (name.as_str(), Some(fact), None)),
    );
    let mut next = 0;
    for (name, fact) in right {
        let same = pairs.iter_mut().enumerate().skip(next);
        let mut same = same.filter(|(_, pair)| pair.0 == name);
        if let Some((index, pair)) = same.next() {
            pair.2 = Some(fact);
            next = index + 1;
        } else {
            pairs.insert(next, (name, None, Some(fact)));
            next += 1;
        }
    }
    pairs
}

/// Shortens `plan: steps[7].repair[0]` to `plan: step 7`, and `plan: sequence[3]` to
/// `plan: place 3`.
fn plan_location(path: &str) -> String {
    for (list, name) in [("plan: steps[", "step"), ("plan: sequence[", "place")] {
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
