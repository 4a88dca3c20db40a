//! Compares two JSON values and names the fields that differ.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use adapters::baggage::Baggage;
use serde_json::{Map, Value, json};
use similar::{Algorithm, capture_diff_slices_deadline};

use super::{Difference, Scope, excerpt};

/// Fields with generated ids, which are different in every turn.
const IDS: [&str; 6] = [
    "id",
    "item_id",
    "call_id",
    "tool_call_id",
    "response_id",
    "previous_response_id",
];
/// Fields with seconds since 1970.
const TIMES: [&str; 3] = ["created", "created_at", "completed_at"];
/// How long to search for the best alignment of two lists before taking any.
const ALIGNMENT_TIME: Duration = Duration::from_secs(2);

/// Compares JSON values of two turns. One comparison uses one matcher, because it remembers which
/// id of the left turn corresponds to which of the right.
pub(super) struct ValueMatcher {
    pub(super) scope: Scope,
    to_right: HashMap<String, String>,
    to_left: HashMap<String, String>,
}

impl ValueMatcher {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            to_right: HashMap::new(),
            to_left: HashMap::new(),
        }
    }

    /// Every field that differs, with `path` in front of its name.
    pub(super) fn differences(
        &mut self,
        path: &str,
        left: &Value,
        right: &Value,
    ) -> Vec<Difference> {
        let mut found = Vec::new();
        self.walk(path, "", left, right, &mut found);
        found
    }

    fn walk(
        &mut self,
        path: &str,
        key: &str,
        left: &Value,
        right: &Value,
        found: &mut Vec<Difference>,
    ) {
        // A diff visits equal values as well, to record which ids correspond.
        if left == right && self.scope == Scope::Replay {
            return;
        }
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => self.objects(path, left, right, found),
            (Value::Array(left), Value::Array(right)) => self.arrays(path, left, right, found),
            (Value::String(left), Value::String(right))
                if self.is_id(key) && self.correspond(left, right) => {}
            (Value::Number(_), Value::Number(_)) if self.is_time(key) => {}
            (left, right) if left == right => {}
            (left, right) => match (opened(left), opened(right)) {
                (Some(left), Some(right)) => {
                    self.walk(&format!("{path}: "), "", &left, &right, found);
                }
                _ => found.push(Difference::new(path, excerpt::values(left, right))),
            },
        }
    }

    fn objects(
        &mut self,
        path: &str,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
        found: &mut Vec<Difference>,
    ) {
        for (key, value) in left {
            let path = below(path, key);
            match right.get(key) {
                Some(other) => self.walk(&path, key, value, other, found),
                None => found.push(Difference::left(path, excerpt::value(value))),
            }
        }
        let new = right.iter().filter(|(key, _)| !left.contains_key(*key));
        found.extend(
            new.map(|(key, value)| Difference::right(below(path, key), excerpt::value(value))),
        );
    }

    fn arrays(&mut self, path: &str, left: &[Value], right: &[Value], found: &mut Vec<Difference>) {
        let keys = |values: &[Value]| -> Vec<String> {
            let masked = values.iter().map(|value| self.masked("", value));
            masked.map(|value| value.to_string()).collect()
        };
        for (l, r) in align(&keys(left), &keys(right)) {
            let place = |index: usize| format!("{path}[{index}]");
            match (at(left, l), at(right, r)) {
                (Some((l, left)), Some((_, right))) => self.walk(&place(l), "", left, right, found),
                (Some((l, left)), None) => {
                    found.push(Difference::left(place(l), excerpt::value(left)));
                }
                (None, Some((r, right))) => {
                    found.push(Difference::right(place(r), excerpt::value(right)));
                }
                (None, None) => {}
            }
        }
    }

    /// A value without what may differ, to find the elements of two lists that correspond.
    pub(super) fn masked(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter();
                fields
                    .map(|(key, value)| (key.clone(), self.masked(key, value)))
                    .collect()
            }
            Value::Array(values) => values.iter().map(|value| self.masked("", value)).collect(),
            Value::String(_) if self.is_id(key) => Value::Null,
            Value::Number(_) if self.is_time(key) || key == "sequence_number" => Value::Null,
            value => opened(value).unwrap_or_else(|| value.clone()),
        }
    }

    /// Whether two ids can correspond: neither corresponds to another id yet.
    fn correspond(&mut self, left: &str, right: &str) -> bool {
        if left.is_empty() || right.is_empty() {
            return false;
        }
        let pairs = [
            (&mut self.to_right, left, right),
            (&mut self.to_left, right, left),
        ];
        let mut pairs = pairs.into_iter();
        pairs.all(|(known, id, other)| {
            let known = known.entry(id.to_owned());
            known.or_insert_with(|| other.to_owned()) == other
        })
    }

    fn is_id(&self, key: &str) -> bool {
        self.scope == Scope::Diff && IDS.contains(&key)
    }

    fn is_time(&self, key: &str) -> bool {
        self.scope == Scope::Diff && TIMES.contains(&key)
    }
}

/// Aligns two lists, so that an inserted element does not make all following ones differ: pairs of
/// indices, without the left or the right one where the other list has nothing that corresponds.
pub(super) fn align(left: &[String], right: &[String]) -> Vec<(Option<usize>, Option<usize>)> {
    let deadline = Some(Instant::now() + ALIGNMENT_TIME);
    let steps = capture_diff_slices_deadline(Algorithm::Myers, left, right, deadline);
    let pairs = steps.into_iter().flat_map(|step| {
        let (_, mut left, mut right) = step.as_tag_tuple();
        std::iter::from_fn(move || match (left.next(), right.next()) {
            (None, None) => None,
            pair => Some(pair),
        })
    });
    pairs.collect()
}

/// The element at an index, with the index.
pub(super) fn at<T>(list: &[T], index: Option<usize>) -> Option<(usize, &T)> {
    let index = index?;
    Some((index, list.get(index)?))
}

/// The fields of a sealed blob that are not empty.
fn opened(value: &Value) -> Option<Value> {
    let blob = Baggage::open(value.as_str()?)?;
    let mut fields = json!({
        "reasoning": blob.reasoning,
        "origin": blob.origin,
        "details": blob.reasoning_details,
        "call_extra": blob.extra_content,
    });
    fields.as_object_mut()?.retain(|_, text| text != "");
    Some(fields)
}

/// Joins `messages[0]` and `content` to `messages[0].content`; unusual keys are
/// quoted.
fn below(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if key.is_empty() || !key.chars().all(plain) {
        let key = excerpt::value(&Value::from(key));
        format!("{path}[{key}]")
    } else if path.is_empty() || path.ends_with(' ') {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}
