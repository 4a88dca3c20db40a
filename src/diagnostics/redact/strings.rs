//! Finds the strings of a JSON document or of an event stream, and which of them are
//! fragments of the same text.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use memchr::{memchr, memchr2};
use serde::de::IgnoredAny;

/// JSON members that identify the text that a fragment belongs to.
const INDICES: [&[u8]; 6] = [
    b"index",
    b"item_id",
    b"output_index",
    b"content_index",
    b"summary_index",
    b"type",
];

/// The strings of a body, as byte ranges.
#[derive(Default)]
pub(super) struct BodyStrings {
    /// The ranges that can be overwritten without breaking the syntax: the contents of strings and
    /// member names, and everything that is not JSON.
    pub(super) free: Vec<Range<usize>>,
    /// The values that are strings.
    pub(super) values: Vec<Value>,
    /// Whether the body is a stream of events.
    pub(super) events: bool,
}

/// A string that is a JSON value.
pub(super) struct Value {
    /// Its contents, between the quotes.
    pub(super) part: Range<usize>,
    /// The name of its member.
    pub(super) name: Range<usize>,
    /// A hash that is the same for all fragments of one text.
    pub(super) text: u64,
    /// Whether it is a fragment: it is, or is inside, a member `delta`.
    pub(super) delta: bool,
}

impl BodyStrings {
    /// Scans a body. If it is neither JSON nor server-sent events, it has no strings and
    /// is free as a whole.
    pub(super) fn of(body: &[u8]) -> Self {
        let mut strings = Self::default();
        if is_json(body) {
            strings.document(body, 0..body.len());
            return strings;
        }
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        strings.events = first == Some(&b':')
            || [&b"data:"[..], b"event:", b"id:", b"retry:"]
                .iter()
                .any(|field| body.trim_ascii_start().starts_with(field));
        if !strings.events {
            strings.free.push(0..body.len());
            return strings;
        }
        let mut at = 0;
        while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
            let length = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = rest.get(..length).unwrap_or_default();
            match line.strip_prefix(b"data:") {
                Some(data) if is_json(data) => {
                    strings.document(body, at + 5..at + length);
                }
                Some(_) => strings.free.push(at + 5..at + length),
                None => strings.free.push(at..at + length),
            }
            at += length;
        }
        strings
    }

    /// Scans one JSON document, which may be cut off.
    fn document(&mut self, body: &[u8], part: Range<usize>) {
        let mut nodes = vec![JsonNode::default()];
        let mut open: Vec<usize> = vec![0];
        let first = self.values.len();
        let mut owners: Vec<usize> = Vec::new();
        let mut at = part.start;
        while at < part.end {
            let Some(byte) = body.get(at) else { break };
            let here = open.last().copied().unwrap_or(0);
            match byte {
                b'{' | b'[' => {
                    let node = JsonNode::within(&nodes, here, *byte == b'{');
                    open.push(nodes.len());
                    nodes.push(node);
                }
                b'}' | b']' if open.len() > 1 => {
                    open.pop();
                }
                b',' => {
                    if let Some(node) = nodes.get_mut(here) {
                        node.position += 1;
                        node.wants_name = node.object;
                    }
                }
                b'"' => {
                    let end = end_of_string(body, at + 1, part.end);
                    let content = at + 1..end;
                    self.free.push(content.clone());
                    if let Some(node) = nodes.get_mut(here) {
                        if node.wants_name {
                            node.wants_name = false;
                            node.name = content;
                        } else {
                            node.index(body, &content);
                            owners.push(here);
                            self.values.push(Value {
                                part: content,
                                name: node.name.clone(),
                                text: 0,
                                delta: false,
                            });
                        }
                    }
                    at = end;
                }
                b'0'..=b'9' => {
                    let rest = body.get(at..part.end).unwrap_or_default();
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    if let Some(node) = nodes.get_mut(here) {
                        node.index(body, &(at..at + digits));
                    }
                    at += digits - 1;
                }
                _ => {}
            }
            at += 1;
        }
        // Done after scanning, because the members that identify an object can come after
        // its other contents. Parents come before their children.
        let mut known: Vec<(u64, bool)> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let (above, delta) = known.get(node.parent).copied().unwrap_or((0, false));
            let name = body.get(node.under.clone()).unwrap_or_default();
            let mut hasher = DefaultHasher::new();
            (above, name, node.object, node.tells).hash(&mut hasher);
            if node.tells == 0 {
                node.place.hash(&mut hasher);
            }
            known.push((hasher.finish(), delta || name == b"delta"));
        }
        for (value, owner) in self.values.iter_mut().skip(first).zip(owners) {
            let (above, delta) = known.get(owner).copied().unwrap_or((0, false));
            let name = body.get(value.name.clone()).unwrap_or_default();
            let mut hasher = DefaultHasher::new();
            (above, name).hash(&mut hasher);
            value.text = hasher.finish();
            value.delta = delta || name == b"delta";
        }
    }

    /// The values grouped by the text that they belong to, in order.
    pub(super) fn texts(&self) -> Vec<Vec<&Value>> {
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut texts: Vec<Vec<&Value>> = Vec::new();
        for value in &self.values {
            let place = *places.entry(value.text).or_insert(texts.len());
            match texts.get_mut(place) {
                Some(text) => text.push(value),
                None => texts.push(vec![value]),
            }
        }
        texts
    }
}

/// An object or array of a document.
#[derive(Default)]
struct JsonNode {
    parent: usize,
    object: bool,
    /// The name of the member that it is the value of.
    under: Range<usize>,
    /// Its index in the array around it.
    place: usize,
    /// The name of the member that is being scanned.
    name: Range<usize>,
    wants_name: bool,
    position: usize,
    /// A hash of the members that identify it; 0 if it has none.
    tells: u64,
}

impl JsonNode {
    fn within(nodes: &[Self], parent: usize, object: bool) -> Self {
        let around = nodes.get(parent);
        let under = around.map_or(0..0, |node| node.name.clone());
        Self {
            parent,
            object,
            // An array element takes the name of the array.
            name: if object { 0..0 } else { under.clone() },
            under,
            place: around
                .filter(|node| !node.object)
                .map_or(0, |node| node.position),
            wants_name: object,
            ..Self::default()
        }
    }

    fn index(&mut self, body: &[u8], value: &Range<usize>) {
        let name = body.get(self.name.clone()).unwrap_or_default();
        if self.object && INDICES.contains(&name) {
            let mut hasher = DefaultHasher::new();
            (name, body.get(value.clone())).hash(&mut hasher);
            // A sum, so that the order of the members does not matter.
            self.tells = self.tells.wrapping_add(hasher.finish() | 1);
        }
    }
}

/// The end of the string that begins at `at`: its closing quote, or the end of the
/// document.
fn end_of_string(body: &[u8], mut at: usize, end: usize) -> usize {
    while let Some(next) = body
        .get(at..end)
        .and_then(|rest| memchr2(b'"', b'\\', rest))
    {
        at += next;
        if body.get(at) == Some(&b'"') {
            return at;
        }
        at += 2;
    }
    end
}

/// Whether the text is a JSON object or array, or the beginning of one.
fn is_json(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
        && serde_json::from_slice::<IgnoredAny>(text).map_or_else(|error| error.is_eof(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_grouped_by_text() {
        let body = br#"data: {"choices":[{"delta":{"content":"a","tool_calls":[{"function":{"arguments":"1"},"index":0}]},"index":0}]}

data: {"choices":[{"index":0,"delta":{"content":"b","tool_calls":[{"index":1,"function":{"arguments":"2"}}]}},{"index":1,"delta":{"content":"c"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"3"}}]}}]}

data: [DONE]
"#;
        let strings = BodyStrings::of(body);
        let texts: Vec<String> = strings
            .texts()
            .iter()
            .map(|text| {
                let parts = text.iter().map(|value| &body[value.part.clone()]);
                String::from_utf8(parts.collect::<Vec<_>>().concat()).unwrap()
            })
            .collect();
        assert_eq!(texts, ["ab", r#"1\"3"#, "2", "c"]);
    }
}
