//! The members of a JSON object, unread and in their order, for documents that are passed
//! on with a few members changed.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json;

/// The members of one JSON object. Borrows the document; made where a document is read or
/// rewritten, and dropped with it. Of a key that occurs twice the last value counts, as in
/// most parsers.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads the members of an object; `None` if the text is not one JSON object.
    pub(crate) fn read(document: &'a str) -> Option<Self> {
        serde_json::from_str(document).ok()
    }

    /// The value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut members = self.0.iter();
        members
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
    }

    /// The value of a key that is not null.
    pub(crate) fn present(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|value| value.get() != "null")
    }

    /// The text of a key whose value is a string.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        json::string_value(self.get(name))
    }

    /// A number that fits 32 bits, such as an index.
    pub(crate) fn index(&self, name: &str) -> Option<u32> {
        self.get(name)?.get().parse().ok()
    }

    /// All members in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), *value))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((MemberKey(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                keep_last(&mut members);
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A key that borrows if it has no escapes.
#[derive(Deserialize)]
struct MemberKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Objects of up to this many members are searched for repeated keys by comparing each with
/// each, which needs no memory.
const FEW: usize = 32;

/// Removes all but the last value of each key.
fn keep_last(members: &mut Vec<(Cow<'_, str>, &RawValue)>) {
    let is_repeated: Vec<bool> = if members.len() <= FEW {
        let repeats = |(at, (key, _)): (usize, &(Cow<'_, str>, _))| {
            members.iter().skip(at + 1).any(|(later, _)| later == key)
        };
        if !members.iter().enumerate().any(repeats) {
            return;
        }
        members.iter().enumerate().map(repeats).collect()
    } else {
        let mut seen = HashSet::with_capacity(members.len());
        let mut repeated: Vec<bool> = members
            .iter()
            .rev()
            .map(|(key, _)| !seen.insert(key.clone()))
            .collect();
        repeated.reverse();
        repeated
    };
    let mut is_repeated = is_repeated.into_iter();
    members.retain(|_| !is_repeated.next().unwrap_or(false));
}

/// The quotes of a name, the colon and the comma.
const ENTRY_BYTES: usize = 4;

/// Appends `{…}`: the members in their order and with their bytes, except those that
/// `changes` names. Those get the new JSON, or are left out if that is `None`; new members
/// follow the others.
pub(crate) fn rewrite(
    out: &mut Vec<u8>,
    members: &Members<'_>,
    changes: &[(&str, Option<String>)],
) {
    // A document of some megabytes is not copied as it grows, and takes no more than it has.
    let is_kept = |name: &str| changes.iter().all(|(changed, _)| *changed != name);
    let kept = members
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| name.len() + value.get().len());
    let changed = changes
        .iter()
        .filter_map(|(name, json)| Some(name.len() + json.as_ref()?.len()));
    let sizes = kept.chain(changed).map(|size| size + ENTRY_BYTES);
    out.reserve(sizes.sum::<usize>() + 2);
    out.push(b'{');
    let mut first = true;
    let mut write = |out: &mut Vec<u8>, name: &str, json: &str| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        json::push(out, name);
        out.push(b':');
        json::push_one_line(out, json);
    };
    for (name, value) in members.iter() {
        match changes.iter().find(|(changed, _)| *changed == name) {
            None => write(out, name, value.get()),
            Some((_, Some(json))) => write(out, name, json),
            Some((_, None)) => {}
        }
    }
    for (name, value) in changes {
        if let Some(json) = value
            && members.get(name).is_none()
        {
            write(out, name, json);
        }
    }
    out.push(b'}');
}

/// A JSON object that is written again with some members changed; it keeps the order and the
/// bytes of the others.
pub(crate) struct EditedObject<'a> {
    members: Members<'a>,
    changes: Vec<(&'static str, Option<String>)>,
}

impl<'a> EditedObject<'a> {
    /// Reads an object; `None` if the text is something else.
    pub(crate) fn read(document: &'a str) -> Option<Self> {
        Some(Self {
            members: Members::read(document)?,
            changes: Vec::new(),
        })
    }

    /// The JSON of a value, unless it is missing or null.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let changed = self.changes.iter().find(|(key, _)| *key == name);
        let json = match changed {
            Some((_, json)) => json.as_deref(),
            None => self.members.get(name).map(RawValue::get),
        };
        json.filter(|json| *json != "null")
    }

    /// Whether the value is this string, which needs no escapes.
    pub(crate) fn is(&self, name: &str, text: &str) -> bool {
        self.get(name).and_then(json::unquote) == Some(text)
    }

    /// Replaces a value, or adds one at the end.
    pub(crate) fn set(&mut self, name: &'static str, json: String) {
        self.changes.retain(|(key, _)| *key != name);
        self.changes.push((name, Some(json)));
    }

    /// Sets a value that is missing or null to this JSON. False if that changes nothing.
    pub(crate) fn set_default(&mut self, name: &'static str, json: &str) -> bool {
        let has_null = json == "null" && self.members.get(name).is_some();
        if has_null || self.get(name).is_some() {
            return false;
        }
        self.set(name, json.to_owned());
        true
    }

    /// The object as JSON on one line.
    pub(crate) fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.push_json(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the object as JSON on one line.
    pub(crate) fn push_json(&self, out: &mut Vec<u8>) {
        rewrite(out, &self.members, &self.changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(document: &str, changes: &[(&str, Option<String>)]) -> String {
        let mut out = Vec::new();
        rewrite(&mut out, &Members::read(document).unwrap(), changes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn other_members_keep_their_order_and_bytes() {
        let document = r#"{"b": [1, 2.50], "id":"x","\u0061": "\u00e9","n":null}"#;
        let changes = [
            ("id", Some("\"y\"".to_owned())),
            ("n", None),
            ("new", Some("1".to_owned())),
            ("gone", None),
        ];
        assert_eq!(
            rewritten(document, &changes),
            r#"{"b":[1, 2.50],"id":"y","a":"\u00e9","new":1}"#
        );
        assert_eq!(rewritten("{}", &[]), "{}");
        assert_eq!(rewritten("{\"a\":[1,\r\n2]}", &[]), "{\"a\":[1,  2]}");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let members = Members::read(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(members.index("a"), Some(3));
        assert_eq!(rewritten(r#"{"a":1,"b":2,"a":3}"#, &[]), r#"{"b":2,"a":3}"#);
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for text in ["", "[]", "1", "{", r#"{"a":}"#, r#"{"a":1} x"#] {
            assert!(Members::read(text).is_none(), "{text}");
        }
    }
}
