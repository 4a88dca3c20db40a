//! The arguments of a call of a tool that runs in the proxy, held against the schema of the tool.

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};

/// The most bytes of the arguments of a call.
const MAX_BYTES: usize = 64 << 10;
/// The most mistakes that the model is told.
const MAX_MISTAKES: usize = 3;

/// Checks arguments against a JSON schema without references to other documents. An error tells the
/// model what is wrong.
pub(super) fn check(schema: &str, arguments: &str) -> Result<(), String> {
    if arguments.len() > MAX_BYTES {
        return Err(format!(
            "The arguments of the call are longer than {MAX_BYTES} bytes."
        ));
    }
    let parsed = parse(arguments);
    let parsed: Value = parsed.map_err(|_| "The arguments of the call are not a JSON object.")?;
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    // A schema that cannot be used allows everything: the tool reads its arguments itself.
    let Ok(validator) = jsonschema::validator_for(&schema) else {
        return Ok(());
    };
    let mistakes: Vec<String> = validator
        .iter_errors(&parsed)
        .take(MAX_MISTAKES)
        .map(|mistake| {
            let place = mistake.instance_path().to_string();
            let place = place.trim_start_matches('/').replace('/', ".");
            if place.is_empty() {
                mistake.to_string()
            } else {
                format!("{place}: {mistake}")
            }
        })
        .collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "The arguments of the call do not fit the tool: {}.",
        mistakes.join("; ")
    ))
}

/// The arguments of a call, which are a JSON object.
pub fn parse<A: DeserializeOwned>(arguments: &str) -> serde_json::Result<A> {
    from_object(serde_json::from_str(arguments)?)
}

/// The arguments of a call. Strict schemas make models write null for an argument that they leave
/// out.
pub fn from_object<A: DeserializeOwned>(arguments: Map<String, Value>) -> serde_json::Result<A> {
    let given = arguments.into_iter().filter(|(_, value)| !value.is_null());
    serde_json::from_value(Value::Object(given.collect()))
}

/// A whole number, which some models write as `7.0`.
pub fn whole_number<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    let number = number.as_f64().unwrap_or_default();
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(de::Error::custom(
            "a whole number from 0 to 4294967295 is expected",
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in range"
    )]
    Ok(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The arguments of a call are checked before a tool runs, and the model is told which
    /// argument is missing or wrong.
    #[test]
    fn mistakes_name_the_argument() {
        let schema = r#"{"type":"object","properties":{"query":{"type":"string"},"n":{"type":"integer","minimum":1}},"required":["query"],"additionalProperties":false}"#;
        let long = format!(r#"{{"query":"{}"}}"#, "a".repeat(MAX_BYTES));
        for (arguments, expected) in [
            (r#"{"query":"a"}"#, ""),
            (r#"{"query":"a","n":2}"#, ""),
            (r#"{"query":"a","n":null}"#, ""),
            (
                r#"{"query":null}"#,
                "The arguments of the call do not fit the tool: \"query\" is a required property.",
            ),
            ("{}", "query"),
            (r#"{"query":1}"#, "query: "),
            (r#"{"query":"a","n":0}"#, "n: 0 is less than"),
            (r#"{"query":"a","other":1}"#, "other"),
            ("[1]", "not a JSON object"),
            ("", "not a JSON object"),
            (&long, "longer than 65536 bytes"),
        ] {
            let mistake = check(schema, arguments).err().unwrap_or_default();
            assert!(mistake.contains(expected), "{arguments:.80}: {mistake}");
            assert_eq!(mistake.is_empty(), expected.is_empty(), "{mistake}");
        }
    }
}
