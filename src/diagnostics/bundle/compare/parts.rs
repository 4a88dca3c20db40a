//! Compares the parts of two turns one after another and collects the differences.

use adapters::fault::Fault;
use serde::Serialize;
use serde_json::Value;

use super::body;
use super::excerpt;
use super::json::Eye;
use super::{Difference, MOST, Scope};
use crate::diagnostics::bundle::{BundleAttempt, BundleResponseHead, BundleTurn};
use crate::turn::Outcome;

/// Maximum number of differences that are listed for a provider's response: the
/// response to the client shows the rest.
const MOST_UPSTREAM: usize = 3;

/// Response headers that clients act on.
const HEADERS: [&str; 2] = ["content-type", "retry-after"];
const OUR_HEADERS: &str = "x-respondent-";

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

/// Collects the differences of two turns.
pub(super) struct Parts {
    scope: Scope,
    eye: Eye,
    found: Vec<Difference>,
}

impl Parts {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            eye: Eye::new(scope),
            found: Vec::new(),
        }
    }

    pub(super) fn all(self) -> Vec<Difference> {
        self.found
    }

    /// Reports bodies that were not kept whole.
    pub(super) fn omitted(&mut self, turn: &BundleTurn) {
        if turn.is_complete() {
            return;
        }
        let lacks: Vec<String> = turn
            .omitted
            .iter()
            .map(|part| format!("{} has {} of {} bytes", part.what, part.kept, part.total))
            .collect();
        let location = format!("not replayable: {}", lacks.join(", "));
        self.found.push(Difference::remark(location));
    }

    /// Compares the program, its configuration and its state before the turn.
    pub(super) fn environments(&mut self, left: &BundleTurn, right: &BundleTurn) {
        self.shown("program", &left.version, &right.version);
        let (left_digest, right_digest) = (&left.config_digest, &right.config_digest);
        self.shown("configuration", left_digest, right_digest);
        self.data("settings", &left.settings, &right.settings);
        let beat = (left.heartbeat_ms, right.heartbeat_ms);
        self.shown("settings: heartbeat_ms", beat.0, beat.1);
        let commit = (left.commit_after_ms, right.commit_after_ms);
        self.shown("settings: commit_after_ms", commit.0, commit.1);
        self.data("given", &left.state_before, &right.state_before);
        let ending = |turn: &BundleTurn| turn.ending_us.map(|_| "ended by the program's stop");
        self.maybe("ending", ending(left), ending(right));
        self.data("omitted", &left.omitted, &right.omitted);
        self.data("rerun", &left.rerun, &right.rerun);
    }

    pub(super) fn request(&mut self, left: &BundleTurn, right: &BundleTurn) {
        let (left, right) = (&left.request, &right.request);
        self.shown("client request: path", &left.path, &right.path);
        self.headers("client request", &left.headers, &right.headers, by_choice);
        let found = body::json(&self.eye, "client request", &left.body, &right.body);
        self.add("client request", MOST, found);
    }

    pub(super) fn plan(&mut self, left: &BundleTurn, right: &BundleTurn) {
        let mut found = body::document(&self.eye, "plan", &left.plan, &right.plan);
        for difference in &mut found {
            difference.location = plan_location(&difference.location);
        }
        // A step that differs in several fields is listed once.
        found.dedup_by(|next, before| next.location == before.location);
        self.add("plan", MOST, found);
    }

    pub(super) fn attempts(&mut self, left: &BundleTurn, right: &BundleTurn) {
        for (index, (left, right)) in left.attempts.iter().zip(&right.attempts).enumerate() {
            self.attempt(&format!("attempt {}", index + 1), left, right);
        }
        let attempts_text = |turn: &BundleTurn| match turn.attempts.last() {
            Some(last) => format!("{}, the last to {}", turn.attempts.len(), last.route),
            None => "0".to_owned(),
        };
        if left.attempts.len() != right.attempts.len() {
            let counts = (attempts_text(left), attempts_text(right));
            self.found
                .push(Difference::new("number of attempts", counts));
        }
    }

    fn attempt(&mut self, name: &str, left: &BundleAttempt, right: &BundleAttempt) {
        self.shown(&format!("{name}: route"), &left.route, &right.route);
        let request = format!("{name} request");
        match self.scope {
            Scope::Replay => {
                let url = format!("{request}: url path");
                self.shown(&url, url_path(&left.url), url_path(&right.url));
            }
            Scope::Diff => {
                self.shown(&format!("{request}: url"), &left.url, &right.url);
                self.headers(&request, &left.headers, &right.headers, by_choice);
                let key = |attempt: &BundleAttempt| attempt.key.map(|key| key.to_string());
                self.maybe(&format!("{name}: key"), key(left), key(right));
                self.data(&format!("{name}: window"), &left.window, &right.window);
                let ratio = (left.bytes_per_token, right.bytes_per_token);
                self.shown(&format!("{name}: bytes_per_token"), ratio.0, ratio.1);
                let input = (left.estimated_input, right.estimated_input);
                self.shown(&format!("{name}: estimated_input"), input.0, input.1);
            }
        }
        let found = body::json(&self.eye, &request, &left.body, &right.body);
        self.add(&request, MOST, found);
        let status =
            |head: &Option<BundleResponseHead>| head.as_ref().map(|head| head.status.to_string());
        let statuses = (status(&left.head), status(&right.head));
        self.maybe(&format!("{name} answer: status"), statuses.0, statuses.1);
        if self.scope == Scope::Diff {
            self.upstream_answer(&format!("{name} answer"), left, right);
        }
        let ended = |attempt: &BundleAttempt| if attempt.ended { "whole" } else { "broken off" };
        let end = format!("{name} answer: end");
        self.shown(&end, ended(left), ended(right));
        self.fault(
            &format!("{name}: fault"),
            left.fault.as_ref(),
            right.fault.as_ref(),
        );
    }

    fn upstream_answer(&mut self, name: &str, left: &BundleAttempt, right: &BundleAttempt) {
        if let (Some(left), Some(right)) = (&left.head, &right.head) {
            self.headers(name, &left.headers, &right.headers, by_weight);
        }
        let before = format!("{name}: ");
        let found = body::answer(&self.eye, name, &before, &left.answer, &right.answer);
        self.add(name, MOST_UPSTREAM, found);
    }

    pub(super) fn answer(&mut self, left: &BundleTurn, right: &BundleTurn) {
        let (left, right) = (&left.answer, &right.answer);
        self.shown("answer: status", left.status, right.status);
        self.headers("answer", &left.headers, &right.headers, by_weight);
        let found = body::answer(&self.eye, "answer", "", &left.body, &right.body);
        self.add("answer", MOST, found);
    }

    /// Compares notes, outcome, fault and token counts.
    pub(super) fn end(&mut self, left: &BundleTurn, right: &BundleTurn) {
        let notes = |turn: &BundleTurn| -> Vec<String> {
            let lines = turn.notes.iter();
            lines
                .map(|(code, detail)| format!("{code}: {detail}"))
                .collect()
        };
        self.data("notes", &notes(left), &notes(right));
        let outcome = |turn: &BundleTurn| turn.outcome.map(Outcome::label);
        self.maybe("outcome", outcome(left), outcome(right));
        self.fault("fault", left.fault.as_ref(), right.fault.as_ref());
        self.data("usage", &left.usage, &right.usage);
    }

    /// Compares two faults without their causes, which quote the transport.
    fn fault(&mut self, location: &str, left: Option<&Fault>, right: Option<&Fault>) {
        let without_cause = |fault: Option<&Fault>| {
            fault.cloned().map(|fault| Fault {
                cause: None,
                ..fault
            })
        };
        self.data(location, &without_cause(left), &without_cause(right));
    }

    fn headers(
        &mut self,
        location: &str,
        left: &[(String, String)],
        right: &[(String, String)],
        counts: fn(&str) -> bool,
    ) {
        let values = |headers: &[(String, String)], name: &str| {
            let values: Vec<&str> = headers
                .iter()
                .filter(|(other, _)| other == name)
                .map(|(_, value)| value.as_str())
                .collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let mut seen: Vec<&str> = Vec::new();
        for (name, _) in left.iter().chain(right) {
            if counts(name) && !seen.contains(&name.as_str()) {
                seen.push(name);
                let location = format!("{location}: header {name}");
                self.maybe(&location, values(left, name), values(right, name));
            }
        }
    }

    /// Compares serializable values field by field.
    fn data<T: Serialize + PartialEq>(&mut self, location: &str, left: &T, right: &T) {
        if left == right {
            return;
        }
        let value = |of: &T| serde_json::to_value(of).unwrap_or_default();
        let (left, right) = (value(left), value(right));
        let found = match (&left, &right) {
            (Value::Null, value) => vec![Difference::right(location, excerpt::value(value))],
            (value, Value::Null) => vec![Difference::left(location, excerpt::value(value))],
            (left, right) => {
                self.eye
                    .differences(&format!("{location}: "), left, right)
                    .0
            }
        };
        self.add(location, MOST, found);
    }

    fn shown<T: ToString + PartialEq>(&mut self, location: &str, left: T, right: T) {
        self.maybe(location, Some(left), Some(right));
    }

    fn maybe<T: ToString + PartialEq>(
        &mut self,
        location: &str,
        left: Option<T>,
        right: Option<T>,
    ) {
        if left == right {
            return;
        }
        let difference = match (left, right) {
            (Some(left), Some(right)) => {
                let texts = excerpt::texts(&left.to_string(), &right.to_string());
                Difference::new(location, texts)
            }
            (Some(left), None) => Difference::left(location, excerpt::text(&left.to_string())),
            (None, Some(right)) => Difference::right(location, excerpt::text(&right.to_string())),
            (None, None) => return,
        };
        self.found.push(difference);
    }

    fn add(&mut self, part: &str, most: usize, mut found: Vec<Difference>) {
        let more = found.len().saturating_sub(most);
        found.truncate(most);
        self.found.append(&mut found);
        if more > 0 {
            let location = format!("{part}: and {more} more");
            self.found.push(Difference::remark(location));
        }
    }
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

fn by_weight(name: &str) -> bool {
    HEADERS.contains(&name) || name.starts_with(OUR_HEADERS)
}

fn by_choice(name: &str) -> bool {
    !OTHER_EACH_TIME.contains(&name)
}
