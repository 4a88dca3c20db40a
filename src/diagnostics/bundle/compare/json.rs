//! Compares two JSON values and names the fields that differ.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use adapters::baggage::Baggage;
use serde_json::{Map, Value};

use super::align::{AlignStep, align};
use super::excerpt::{self, ABSENT};
use super::{Difference, Scope};

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

/// Compares JSON values of two turns. One comparison uses one `Eye`, because it
/// remembers which id of the left turn corresponds to which of the right.
pub(super) struct Eye {
    scope: Scope,
    to_right: RefCell<HashMap<String, String>>,
    to_left: RefCell<HashMap<String, String>>,
    /// Whether values were accepted as equal that are not identical.
    lenient: Cell<bool>,
}

impl Eye {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            to_right: RefCell::default(),
            to_left: RefCell::default(),
            lenient: Cell::new(false),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Every field that differs, with `path` in front of its name; and whether a
    /// difference was tolerated.
    pub(super) fn differences(
        &self,
        path: &str,
        left: &Value,
        right: &Value,
    ) -> (Vec<Difference>, bool) {
        self.lenient.set(false);
        let mut found = Vec::new();
        self.walk(path, "", left, right, &mut found);
        (found, self.lenient.get())
    }

    /// Whether two values are equal apart from tolerated differences. A `sequence_number`
    /// may be higher by `shift` on the right.
    pub(super) fn same(&self, left: &Value, right: &Value, shift: i64) -> bool {
        self.alike("", left, right, shift)
    }

    fn alike(&self, key: &str, left: &Value, right: &Value, shift: i64) -> bool {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, left)| {
                        right
                            .get(key)
                            .is_some_and(|right| self.alike(key, left, right, shift))
                    })
            }
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| self.alike("", left, right, shift))
            }
            (Value::String(left), Value::String(right)) => {
                left == right
                    || (self.is_id(key) && left.is_empty() == right.is_empty())
                    || same_blob(left, right)
            }
            (Value::Number(left), Value::Number(right)) if key == "sequence_number" => {
                let numbers = left.as_i64().zip(right.as_i64());
                left == right || numbers.is_some_and(|(left, right)| left + shift == right)
            }
            (Value::Number(left), Value::Number(right)) => left == right || self.is_time(key),
            (left, right) => left == right,
        }
    }

    fn walk(
        &self,
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
            (Value::String(left), Value::String(right)) => {
                self.strings(path, key, left, right, found);
            }
            (Value::Number(_), Value::Number(_)) if left != right && self.is_time(key) => {
                self.lenient.set(true);
            }
            (left, right) if left != right => {
                found.push(Difference::new(path, excerpt::values(left, right)));
            }
            _ => {}
        }
    }

    fn objects(
        &self,
        path: &str,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
        found: &mut Vec<Difference>,
    ) {
        let parent = path;
        for (key, value) in left {
            let path = below(parent, key);
            match right.get(key) {
                Some(other) => self.walk(&path, key, value, other, found),
                None if value.is_null() && is_tool(parent) => self.lenient.set(true),
                None => found.push(Difference::left(path, excerpt::value(value))),
            }
        }
        for (key, value) in right {
            if left.contains_key(key) {
                continue;
            }
            if value.is_null() && is_tool(parent) {
                self.lenient.set(true);
                continue;
            }
            found.push(Difference::right(below(parent, key), excerpt::value(value)));
        }
    }

    fn arrays(&self, path: &str, left: &[Value], right: &[Value], found: &mut Vec<Difference>) {
        let at = |values: &[Value], n: usize| values.get(n).cloned().unwrap_or_default();
        let same = |l: usize, r: usize| match (left.get(l), right.get(r)) {
            (Some(left), Some(right)) => self.same(left, right, 0),
            (None, _) | (_, None) => false,
        };
        for step in align(left.len(), right.len(), &same) {
            match step {
                AlignStep::Same(l, r) | AlignStep::Changed(l, r) => {
                    let path = format!("{path}[{l}]");
                    self.walk(&path, "", &at(left, l), &at(right, r), found);
                }
                AlignStep::Left(range, _) => found.extend(range.map(|l| {
                    Difference::left(format!("{path}[{l}]"), excerpt::value(&at(left, l)))
                })),
                AlignStep::Right(_, range) => found.extend(range.map(|r| {
                    Difference::right(format!("{path}[{r}]"), excerpt::value(&at(right, r)))
                })),
            }
        }
    }

    fn strings(&self, path: &str, key: &str, left: &str, right: &str, found: &mut Vec<Difference>) {
        if self.is_id(key) && self.are_one(left, right) {
            self.lenient.set(self.lenient.get() || left != right);
            return;
        }
        if left == right {
            return;
        }
        if let (Some(left), Some(right)) = (Baggage::open(left), Baggage::open(right)) {
            self.lenient.set(true);
            for (field, left, right) in fields(&left, &right) {
                if left != right {
                    let (left, right) = excerpt::texts(left, right);
                    found.push(Difference {
                        location: format!("{path}: {field}"),
                        left: or_absent(left),
                        right: or_absent(right),
                    });
                }
            }
        } else {
            let (left, right) = (Value::from(left), Value::from(right));
            found.push(Difference::new(path, excerpt::values(&left, &right)));
        }
    }

    /// Whether two ids can correspond: neither corresponds to another id yet.
    fn are_one(&self, left: &str, right: &str) -> bool {
        if left.is_empty() || right.is_empty() {
            return false;
        }
        let mut to_right = self.to_right.borrow_mut();
        let mut to_left = self.to_left.borrow_mut();
        to_right
            .entry(left.to_owned())
            .or_insert_with(|| right.to_owned())
            == right
            && to_left
                .entry(right.to_owned())
                .or_insert_with(|| left.to_owned())
                == left
    }

    fn is_id(&self, key: &str) -> bool {
        self.scope == Scope::Diff && IDS.contains(&key)
    }

    fn is_time(&self, key: &str) -> bool {
        self.scope == Scope::Diff && TIMES.contains(&key)
    }
}

/// The fields of two blobs with their names.
fn fields<'b>(left: &'b Baggage, right: &'b Baggage) -> [(&'static str, &'b str, &'b str); 4] {
    [
        ("reasoning", &left.reasoning, &right.reasoning),
        ("origin", &left.origin, &right.origin),
        ("details", &left.reasoning_details, &right.reasoning_details),
        ("call_extra", &left.extra_content, &right.extra_content),
    ]
}

fn same_blob(left: &str, right: &str) -> bool {
    Baggage::open(left).is_some_and(|left| Some(left) == Baggage::open(right))
}

fn or_absent(text: String) -> String {
    if text.is_empty() {
        ABSENT.to_owned()
    } else {
        text
    }
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

/// Whether a path is that of a tool in a list. A response says null for what the client left out
/// of a tool, and bundles of earlier versions hold responses that leave it out as well.
fn is_tool(path: &str) -> bool {
    let name = path.rsplit(['.', ' ']).next().unwrap_or_default();
    name.starts_with("tools[") && name.ends_with(']')
}
