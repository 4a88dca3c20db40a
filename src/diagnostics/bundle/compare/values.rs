//! Compares two JSON values and names the fields that differ.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::ops::Range;

use adapters::baggage::Baggage;
use serde_json::{Map, Value};
use similar::{Algorithm, capture_diff_slices};

use super::{Difference, Differences, Scope, excerpt};

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
/// How many pairs of elements the alignments of one comparison may look at, in sum. Bodies can be
/// made so that a list takes as many as its length squared; lists beyond this are compared element
/// by element.
const MAX_ALIGNED_PAIRS: usize = 1 << 26;

/// How many characters of a member's name a location shows.
const MAX_KEY_CHARS: usize = 100;

/// Pairs of indices of two lists, without the left or the right one where the other list has
/// nothing that corresponds.
type Alignment = Vec<(Option<usize>, Option<usize>)>;

/// Compares JSON values of two turns. One comparison uses one matcher, because it remembers which
/// id of the left turn corresponds to which of the right.
pub(super) struct ValueMatcher {
    pub(super) scope: Scope,
    to_right: HashMap<String, String>,
    to_left: HashMap<String, String>,
    /// How many pairs of elements may still be aligned.
    aligned_pairs_left: usize,
}

impl ValueMatcher {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            to_right: HashMap::new(),
            to_left: HashMap::new(),
            aligned_pairs_left: MAX_ALIGNED_PAIRS,
        }
    }

    /// Every field that differs, with `path` in front of its name.
    pub(super) fn differences(
        &mut self,
        path: &str,
        left: &Value,
        right: &Value,
        found: &mut Differences,
    ) {
        self.walk(&mut path.to_owned(), "", left, right, found);
    }

    /// Compares the values at `path`, which is the same again afterwards.
    fn walk(
        &mut self,
        path: &mut String,
        key: &str,
        left: &Value,
        right: &Value,
        found: &mut Differences,
    ) {
        // A diff visits equal values as well, to record which ids correspond.
        if self.scope == Scope::Replay && left == right {
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
                    let length = path.len();
                    path.push_str(": ");
                    self.walk(path, "", &left, &right, found);
                    path.truncate(length);
                }
                _ => found.add(|| Difference::new(&**path, excerpt::values(left, right))),
            },
        }
    }

    fn objects(
        &mut self,
        path: &mut String,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
        found: &mut Differences,
    ) {
        let length = path.len();
        for (key, value) in left {
            push_key(path, key);
            match right.get(key) {
                Some(other) => self.walk(path, key, value, other, found),
                None => found.add(|| Difference::left(&**path, excerpt::value(value))),
            }
            path.truncate(length);
        }
        for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
            push_key(path, key);
            found.add(|| Difference::right(&**path, excerpt::value(value)));
            path.truncate(length);
        }
    }

    fn arrays(
        &mut self,
        path: &mut String,
        left: &[Value],
        right: &[Value],
        found: &mut Differences,
    ) {
        let keys = |values: &[Value]| -> Vec<u64> {
            values
                .iter()
                .map(|value| self.alignment_key(value))
                .collect()
        };
        let length = path.len();
        for (l, r) in self.align(&keys(left), &keys(right)) {
            if let Some(index) = l.or(r) {
                // Writing to a string does not fail.
                let _ = write!(path, "[{index}]");
            }
            match (at(left, l), at(right, r)) {
                (Some(left), Some(right)) => self.walk(path, "", left, right, found),
                (Some(left), None) => {
                    found.add(|| Difference::left(&**path, excerpt::value(left)));
                }
                (None, Some(right)) => {
                    found.add(|| Difference::right(&**path, excerpt::value(right)));
                }
                (None, None) => {}
            }
            path.truncate(length);
        }
    }

    /// Aligns two lists by the keys of their elements, so that an inserted element does not make
    /// all following ones differ.
    pub(super) fn align(&mut self, left: &[u64], right: &[u64]) -> Alignment {
        let is_same = |(l, r): &(&u64, &u64)| l == r;
        let before = left.iter().zip(right).take_while(is_same).count();
        let rests = left.get(before..).zip(right.get(before..));
        let (left_rest, right_rest) = rests.unwrap_or_default();
        let ends = left_rest.iter().rev().zip(right_rest.iter().rev());
        let after = ends.take_while(is_same).count();
        let (left_count, right_count) = (left_rest.len() - after, right_rest.len() - after);
        let mut aligned: Alignment = (0..before)
            .map(|index| (Some(index), Some(index)))
            .collect();
        let pairs = left_count.saturating_mul(right_count);
        match self.aligned_pairs_left.checked_sub(pairs) {
            Some(left_over) => {
                self.aligned_pairs_left = left_over;
                let middles = left_rest
                    .get(..left_count)
                    .zip(right_rest.get(..right_count));
                let (left, right) = middles.unwrap_or_default();
                for step in capture_diff_slices(Algorithm::Myers, left, right) {
                    let (_, left, right) = step.as_tag_tuple();
                    push_pairs(&mut aligned, before, left, right);
                }
            }
            None => push_pairs(&mut aligned, before, 0..left_count, 0..right_count),
        }
        let ends = (left.len() - after..left.len()).zip(right.len() - after..right.len());
        aligned.extend(ends.map(|(l, r)| (Some(l), Some(r))));
        aligned
    }

    /// A hash of a value without what may differ. Elements of two lists with the same one
    /// correspond.
    pub(super) fn alignment_key(&self, value: &Value) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash("", value, &mut hasher);
        hasher.finish()
    }

    fn hash(&self, key: &str, value: &Value, hasher: &mut DefaultHasher) {
        discriminant(value).hash(hasher);
        match value {
            Value::Object(fields) => {
                fields.len().hash(hasher);
                for (key, value) in fields {
                    key.hash(hasher);
                    self.hash(key, value, hasher);
                }
            }
            Value::Array(values) => {
                values.len().hash(hasher);
                for value in values {
                    self.hash("", value, hasher);
                }
            }
            Value::String(_) if self.is_id(key) => {}
            Value::Number(_) if self.is_time(key) || key == "sequence_number" => {}
            value => match opened(value) {
                Some(fields) => self.hash("", &fields, hasher),
                None => value.hash(hasher),
            },
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

/// Pairs the elements of two ranges one by one, up to the end of the shorter one.
fn push_pairs(aligned: &mut Alignment, offset: usize, left: Range<usize>, right: Range<usize>) {
    let (mut left, mut right) = (left, right);
    loop {
        let pair = (left.next(), right.next());
        if pair == (None, None) {
            return;
        }
        aligned.push((pair.0.map(|l| l + offset), pair.1.map(|r| r + offset)));
    }
}

/// The element at an index.
pub(super) fn at<T>(list: &[T], index: Option<usize>) -> Option<&T> {
    list.get(index?)
}

/// The fields of a sealed blob that are not empty.
fn opened(value: &Value) -> Option<Value> {
    let blob = Baggage::open(value.as_str()?)?;
    let mut fields = Map::new();
    fields.insert("reasoning".to_owned(), blob.reasoning.into());
    fields.insert("origin".to_owned(), blob.origin.into());
    for (form, state) in blob.states {
        fields.insert(format!("state_{}", form.letter()), state.into());
    }
    fields.retain(|_, text| text != "");
    Some(fields.into())
}

/// Appends `content` to `messages[0]`: `messages[0].content`. Unusual keys are quoted, long ones
/// cut.
fn push_key(path: &mut String, key: &str) {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    let is_long = key.chars().nth(MAX_KEY_CHARS).is_some();
    let result = if key.is_empty() || is_long || !key.chars().all(plain) {
        write!(path, "[{}]", excerpt::key(key, MAX_KEY_CHARS))
    } else if path.is_empty() || path.ends_with(' ') {
        write!(path, "{key}")
    } else {
        write!(path, ".{key}")
    };
    // Writing to a string does not fail.
    let _ = result;
}
