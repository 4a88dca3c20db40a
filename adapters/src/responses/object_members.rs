//! A JSON object whose keys keep their order, for objects that are repeated with a few keys
//! added.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json;

/// The keys of a JSON object and their values as JSON, in their order. Made to write the object
/// again; borrows what is not changed.
pub(super) struct ObjectMembers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> ObjectMembers<'a> {
    /// Reads an object; `None` if the JSON is something else.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The JSON of a value, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let mut members = self.0.iter();
        members
            .find_map(|(name, value)| (name == key).then_some(value.as_ref()))
            .filter(|value| *value != "null")
    }

    /// Whether the value is this string, which needs no escapes.
    pub(super) fn is(&self, key: &str, text: &str) -> bool {
        self.get(key).and_then(json::unquote) == Some(text)
    }

    /// Replaces a value, or adds one at the end.
    pub(super) fn set(&mut self, key: &'static str, json: String) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, value)) => *value = json.into(),
            None => self.0.push((key.into(), json.into())),
        }
    }

    /// Sets a value that is missing or null to this JSON. False if that changes nothing.
    pub(super) fn set_default(&mut self, key: &'static str, json: &str) -> bool {
        let has_null = json == "null" && self.0.iter().any(|(name, _)| name == key);
        if has_null || self.get(key).is_some() {
            return false;
        }
        self.set(key, json.to_owned());
        true
    }

    /// About how long the JSON is, in bytes.
    pub(super) fn json_len(&self) -> usize {
        // Two quotes, a colon and a comma, or a brace.
        let members = self.0.iter();
        members
            .map(|(key, value)| key.len() + value.len() + 4)
            .sum::<usize>()
            + 1
    }

    /// The object as JSON on one line.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::with_capacity(self.json_len());
        out.push('{');
        for (key, value) in &self.0 {
            if out.len() > 1 {
                out.push(',');
            }
            out.push('"');
            out.push_str(&json::escape(key));
            out.push_str("\":");
            out.push_str(&one_line(value));
        }
        out.push('}');
        out
    }
}

/// JSON with spaces in place of line ends, which JSON allows only between tokens.
pub(super) fn one_line(json: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none() {
        return json.into();
    }
    json.replace(['\n', '\r'], " ").into()
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A key that borrows unless it has escapes.
        #[derive(Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<_, &'de RawValue>()? {
                    members.push((key, Cow::Borrowed(value.get())));
                }
                Ok(ObjectMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
