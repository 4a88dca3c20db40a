//! The fields of an item, and where its JSON begins and ends.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Declares [`ItemFields`] with a field for each key that an item type has. A derived
/// `Deserialize` could not tell where the item lies in its document.
macro_rules! item_fields {
    ($($name:ident = $key:literal as $variant:ident),* $(,)?) => {
        /// The fields of all item types in one flat struct: a serde enum with a tag would
        /// buffer the whole item and could not borrow raw values. `null` counts as absent.
        #[derive(Debug, Default)]
        pub(crate) struct ItemFields<'a> {
            $(pub(super) $name: Option<&'a RawValue>,)*
            /// The values of the first and the last key. Between them and the braces of the
            /// item there is nothing but the first key and white space.
            ends: Option<(&'a RawValue, &'a RawValue)>,
        }

        /// A key of an item. Read by serde without copying it.
        #[derive(Clone, Copy, Deserialize)]
        #[serde(field_identifier)]
        enum ItemFieldName {
            $(#[serde(rename = $key)] $variant,)*
            #[serde(other)]
            Other,
        }

        impl<'a> ItemFields<'a> {
            /// Sets a field. An error is the name of a key that the item has twice.
            fn set(
                &mut self,
                key: ItemFieldName,
                value: &'a RawValue,
                seen: &mut u32,
            ) -> Result<(), &'static str> {
                let (field, name) = match key {
                    $(ItemFieldName::$variant => (&mut self.$name, $key),)*
                    ItemFieldName::Other => return Ok(()),
                };
                let bit = 1_u32 << (key as u32);
                if *seen & bit != 0 {
                    return Err(name);
                }
                *seen |= bit;
                if value.get() != "null" {
                    *field = Some(value);
                }
                Ok(())
            }
        }
    };
}

item_fields! {
    kind = "type" as Type,
    id = "id" as Id,
    role = "role" as Role,
    content = "content" as Content,
    call_id = "call_id" as CallId,
    name = "name" as Name,
    namespace = "namespace" as Namespace,
    arguments = "arguments" as Arguments,
    input = "input" as Input,
    output = "output" as Output,
    summary = "summary" as Summary,
    encrypted_content = "encrypted_content" as EncryptedContent,
    action = "action" as Action,
    operation = "operation" as Operation,
    status = "status" as Status,
    tools = "tools" as Tools,
    text = "text" as Text,
    reasoning = "reasoning" as Reasoning,
    execution = "execution" as Execution,
    approval_request_id = "approval_request_id" as ApprovalRequestId,
    approve = "approve" as Approve,
    reason = "reason" as Reason,
}

impl<'a> ItemFields<'a> {
    /// The JSON of the item within `document`, from which the fields were read. It is found
    /// from the places of its first and its last value: reading it as one raw value before
    /// its fields would scan every item twice.
    pub(super) fn locate(&self, document: &'a str) -> Option<&'a str> {
        let Some((first, last)) = self.ends else {
            return Some("{}");
        };
        let before = document.get(..offset(document, first)?)?;
        let before = before.trim_end().strip_suffix(':')?.trim_end();
        let start = before_string(before)?.trim_end().strip_suffix('{')?.len();
        let end = offset(document, last)? + last.get().len();
        let rest = document.get(end..)?;
        let blanks = rest.len() - rest.trim_start().len();
        let json = document.get(start..end + blanks + 1)?;
        json.ends_with('}').then_some(json)
    }
}

/// The distance of a value from the beginning of the document that it was read from; `None`
/// for a value from elsewhere.
fn offset(document: &str, value: &RawValue) -> Option<usize> {
    let place = value.get().as_ptr().addr();
    place.checked_sub(document.as_ptr().addr())
}

/// What is before the JSON string at the end of `text`. The quote that begins the string is
/// the last one that no backslash escapes.
fn before_string(text: &str) -> Option<&str> {
    let mut rest = text.strip_suffix('"')?;
    loop {
        rest = rest.get(..rest.rfind('"')?)?;
        let backslashes = rest.len() - rest.trim_end_matches('\\').len();
        if backslashes % 2 == 0 {
            return Some(rest);
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ItemFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemFieldsVisitor;
        impl<'de> Visitor<'de> for ItemFieldsVisitor {
            type Value = ItemFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item, which is an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = ItemFields::default();
                let mut seen = 0;
                while let Some(key) = map.next_key::<ItemFieldName>()? {
                    let value: &'de RawValue = map.next_value()?;
                    fields.ends = match fields.ends {
                        Some((first, _)) => Some((first, value)),
                        None => Some((value, value)),
                    };
                    fields
                        .set(key, value, &mut seen)
                        .map_err(de::Error::duplicate_field)?;
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(ItemFieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_in_its_document_whatever_its_first_key_and_its_spaces() {
        for item in [
            r#"{"type":"message","role":"user","content":"{\"a\":1}"}"#,
            "{ \t\"type\" :\n \"message\" , \"id\" : null\r\n }",
            r#"{"ty\"pe\\":{"a":"}"},"x":[1,2.5e3]}"#,
            r#"{"\\":1}"#,
            r#"{"a\u0022b\\\"":"\\","id":"é"}"#,
            r#"{"n":-1.5}"#,
            r#"{"":""}"#,
        ] {
            let document = format!("[ {item} ,{item}]");
            let all: Vec<ItemFields<'_>> = serde_json::from_str(&document).unwrap();
            for fields in all {
                assert_eq!(fields.locate(&document), Some(item));
            }
        }
        let empty: ItemFields<'_> = serde_json::from_str("{ }").unwrap();
        assert_eq!(empty.locate("{ }"), Some("{}"));
    }

    #[test]
    fn a_key_may_not_come_twice() {
        for twice in [r#"{"id":"a","id":"b"}"#, r#"{"id":null,"id":"b"}"#] {
            let error = serde_json::from_str::<ItemFields<'_>>(twice).unwrap_err();
            assert!(error.to_string().starts_with("duplicate field `id`"));
        }
        assert!(serde_json::from_str::<ItemFields<'_>>(r#"{"x":1,"x":2}"#).is_ok());
    }
}
