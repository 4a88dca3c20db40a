//! Calls that a model writes as tags and its server left in the text:
//!
//! - Qwen3-Coder: `<function=NAME><parameter=KEY>VALUE</parameter></function>`
//! - GLM: `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`

use serde_json::value::RawValue;

use crate::json;

/// Parses the text between the tags of a call into the name and the arguments as
/// JSON.
pub(super) fn parse(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let (name, arguments) = qwen(text).or_else(|| glm(text))?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name.to_owned(), arguments))
}

fn qwen(text: &str) -> Option<(&str, String)> {
    let (name, body) = text.strip_prefix("<function=")?.split_once('>')?;
    let mut rest = body.strip_suffix("</function>").unwrap_or(body).trim();
    let mut arguments = ArgumentsObject::default();
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = after.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        arguments.push(key, value.strip_suffix('\n').unwrap_or(value));
        rest = after.trim_start();
    }
    Some((name, arguments.finish()))
}

fn glm(text: &str) -> Option<(&str, String)> {
    let (name, body) = text.split_once("<arg_key>")?;
    let mut rest = Some(body);
    let mut arguments = ArgumentsObject::default();
    while let Some(body) = rest {
        let (key, after) = body.split_once("</arg_key>")?;
        let (value, after) = after
            .trim_start()
            .strip_prefix("<arg_value>")?
            .split_once("</arg_value>")?;
        arguments.push(key.trim(), value);
        rest = match after.trim_start() {
            "" => None,
            more => Some(more.strip_prefix("<arg_key>")?),
        };
    }
    Some((name, arguments.finish()))
}

/// A JSON object that is being built.
#[derive(Default)]
struct ArgumentsObject(Vec<u8>);

impl ArgumentsObject {
    /// Adds a value. The tags carry no types, so whatever parses as a number,
    /// boolean, null, list or object is taken as one.
    fn push(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        json::push(&mut self.0, key);
        self.0.push(b':');
        let bare = value.trim();
        let is_json = !bare.starts_with('"') && serde_json::from_str::<&RawValue>(bare).is_ok();
        if is_json {
            self.0.extend_from_slice(bare.as_bytes());
        } else {
            json::push(&mut self.0, value);
        }
    }

    fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push(b'{');
        }
        self.0.push(b'}');
        String::from_utf8(self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_a_call() {
        let call = |name: &str, arguments: &str| Some((name.to_owned(), arguments.to_owned()));
        for (text, expected) in [
            (
                "\n<function=f>\n<parameter=cmd>\nls \"a\"\n\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n",
                call("f", r#"{"cmd":"ls \"a\"\n","n":3}"#),
            ),
            ("<function=f></function>", call("f", "{}")),
            (
                "f\n<arg_key>a</arg_key>\n<arg_value>x < y</arg_value>\n<arg_key>b</arg_key><arg_value>[1, {}]</arg_value>\n",
                call("f", r#"{"a":"x < y","b":[1, {}]}"#),
            ),
            (
                "f<arg_key>a</arg_key><arg_value>\"q\"</arg_value>",
                call("f", r#"{"a":"\"q\""}"#),
            ),
            ("f", None),
            ("<function=f>words</function>", None),
            ("<function=f><parameter=a>1", None),
            (
                "some words<arg_key>a</arg_key><arg_value>1</arg_value>",
                None,
            ),
            ("f<arg_key>a</arg_key>", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
