//! Finds the strings of a JSON document or of an event stream, and which of them are
//! fragments of the same text.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use memchr::{memchr, memchr2};
use serde::de::IgnoredAny;

use super::opaque::may_be_opaque;

/// JSON members that identify the text that a fragment belongs to.
const INDICES: [&[u8]; 6] = [
    b"index",
    b"item_id",
    b"output_index",
    b"content_index",
    b"summary_index",
    b"type",
];

/// Members of a fragment that are whole in each fragment, besides [`INDICES`].
const WHOLE: [&[u8]; 5] = [b"id", b"name", b"role", b"format", b"call_id"];

/// The strings of deeper objects and lists are found, but neither what they are nor what they
/// belong to.
const MAX_DEPTH: usize = 64;

/// The strings of a body, as byte ranges.
#[derive(Default)]
pub(super) struct BodyStrings {
    /// What can be replaced without breaking the syntax: the contents of strings and member
    /// names, and everything that is not JSON. Sorted.
    pub(super) free: Vec<Range<usize>>,
    /// The values that may be opaque, and all fragments.
    values: Vec<StringValue>,
    /// Whether the body is a stream of events.
    events: bool,
}

/// A string that is a JSON value.
pub(super) struct StringValue {
    /// Its contents, between the quotes.
    pub(super) part: Range<usize>,
    /// The name of its member.
    pub(super) name: Range<usize>,
    /// If it is a fragment: a hash that is the same for all fragments of one text.
    text: Option<u64>,
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
        let start = body.trim_ascii_start();
        strings.events = [&b":"[..], b"data:", b"event:", b"id:", b"retry:"]
            .iter()
            .any(|field| start.starts_with(field));
        if !strings.events {
            strings.free.push(0..body.len());
            return strings;
        }
        let mut at = 0;
        while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
            let end = at + memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let data = at + b"data:".len()..end;
            match body
                .get(at..end)
                .and_then(|line| line.strip_prefix(b"data:"))
            {
                Some(json) if is_json(json) => strings.document(body, data),
                Some(_) => strings.free.push(data),
                None => strings.free.push(at..end),
            }
            at = end;
        }
        strings
    }

    /// The values that may be opaque: one, or the fragments of one.
    pub(super) fn values(&self) -> impl Iterator<Item = Vec<&StringValue>> {
        let whole = self.values.iter().filter(|value| value.text.is_none());
        whole.map(|value| vec![value]).chain(self.fragments())
    }

    /// The fragments of each text that comes in fragments, in order.
    pub(super) fn fragments(&self) -> Vec<Vec<&StringValue>> {
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut texts: Vec<Vec<&StringValue>> = Vec::new();
        for value in &self.values {
            let Some(text) = value.text else { continue };
            let place = *places.entry(text).or_insert(texts.len());
            match texts.get_mut(place) {
                Some(text) => text.push(value),
                None => texts.push(vec![value]),
            }
        }
        texts
    }

    /// Scans one JSON document, which may be cut off.
    fn document(&mut self, body: &[u8], part: Range<usize>) {
        let mut open = vec![JsonNode {
            first_value: self.values.len(),
            ..JsonNode::default()
        }];
        let mut too_deep = 0_usize;
        let mut at = part.start;
        while at < part.end {
            let depth = open.len();
            let (Some(byte), Some(node)) = (body.get(at), open.last_mut()) else {
                break;
            };
            match byte {
                b'{' | b'[' if too_deep > 0 || depth > MAX_DEPTH => too_deep += 1,
                b'{' | b'[' => {
                    let inner = node.inner(body, *byte == b'{', self.values.len());
                    open.push(inner);
                }
                b'}' | b']' if too_deep > 0 => too_deep -= 1,
                b'}' | b']' if depth > 1 => self.close(open.pop()),
                b',' if too_deep == 0 => node.next(),
                b'"' => {
                    let end = end_of_string(body, at + 1, part.end);
                    let content = at + 1..end;
                    at = end;
                    self.free.push(content.clone());
                    if too_deep == 0 && node.wants_name {
                        node.wants_name = false;
                        if self.events {
                            node.name_hash = hash(&body.get(content.clone()));
                        }
                        node.name = content;
                    } else if too_deep == 0 {
                        node.index(body, &content);
                        self.value(body, node, content);
                    }
                }
                b'0'..=b'9' => {
                    let rest = body.get(at..part.end).unwrap_or_default();
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    node.index(body, &(at..at + digits));
                    at += digits - 1;
                }
                _ => {}
            }
            at += 1;
        }
        while let Some(node) = open.pop() {
            self.close(Some(node));
        }
    }

    fn value(&mut self, body: &[u8], node: &JsonNode, part: Range<usize>) {
        let name = body.get(node.name.clone()).unwrap_or_default();
        let is_fragment = self.events
            && (node.is_delta || name == b"delta")
            && !INDICES.contains(&name)
            && !WHOLE.contains(&name);
        if is_fragment || may_be_opaque(name) {
            self.values.push(StringValue {
                part,
                name: node.name.clone(),
                text: is_fragment.then_some(node.name_hash),
            });
        }
    }

    /// An object or list is complete. Only then its members are known that identify it, because
    /// they can come after its other contents.
    fn close(&mut self, node: Option<JsonNode>) {
        let Some(node) = node else { return };
        let place = if node.tells == 0 { node.place } else { 0 };
        for value in self.values.iter_mut().skip(node.first_value) {
            if let Some(text) = &mut value.text {
                *text = hash(&(*text, node.under_hash, node.is_object, node.tells, place));
            }
        }
    }
}

/// An object or list of a document that is being scanned.
#[derive(Default)]
struct JsonNode {
    is_object: bool,
    /// Whether it is, or is inside, a member `delta`.
    is_delta: bool,
    /// A hash of the name of the member that it is the value of. Names can be long, and every
    /// string in the member needs this one.
    under_hash: u64,
    /// Its index in the list around it.
    place: usize,
    /// The name of the member that is being scanned. The elements of a list have the name of
    /// the list.
    name: Range<usize>,
    /// A hash of that name, in a stream of events.
    name_hash: u64,
    wants_name: bool,
    /// The index of the member or element that is being scanned.
    position: usize,
    /// The index of the first string in it.
    first_value: usize,
    /// A hash of the members that identify it; 0 if it has none.
    tells: u64,
}

impl JsonNode {
    fn inner(&self, body: &[u8], is_object: bool, first_value: usize) -> Self {
        let under = self.name.clone();
        Self {
            is_object,
            is_delta: self.is_delta || body.get(under.clone()) == Some(b"delta"),
            name: if is_object { 0..0 } else { under },
            name_hash: self.name_hash,
            under_hash: self.name_hash,
            place: if self.is_object { 0 } else { self.position },
            wants_name: is_object,
            position: 0,
            first_value,
            tells: 0,
        }
    }

    fn next(&mut self) {
        self.position += 1;
        self.wants_name = self.is_object;
    }

    fn index(&mut self, body: &[u8], value: &Range<usize>) {
        let name = body.get(self.name.clone()).unwrap_or_default();
        if self.is_object && INDICES.contains(&name) {
            // A sum, so that the order of the members does not matter.
            let value = hash(&(name, body.get(value.clone())));
            self.tells = self.tells.wrapping_add(value | 1);
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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

data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"x"}

data: {"delta":"y","item_id":"msg_1","type":"response.output_text.delta"}

data: {"delta":"z","item_id":"msg_2","type":"response.output_text.delta"}

data: [DONE]
"#;
        let strings = BodyStrings::of(body);
        let fragments = strings.fragments();
        let texts = fragments.iter().map(|text| {
            let parts = text.iter().map(|value| &body[value.part.clone()]);
            String::from_utf8(parts.collect::<Vec<_>>().concat()).unwrap()
        });
        let texts: Vec<String> = texts.collect();
        assert_eq!(texts, ["ab", r#"1\"3"#, "2", "c", "xy", "z"]);
    }
}
