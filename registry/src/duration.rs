//! Durations in configuration, such as `"250ms"`, `"10s"`, `"5m"` and `"1h"`. The module can
//! be named in `#[serde(with)]`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serializer;
use serde::de::{Deserializer, Error, Visitor};

/// The longest duration: 200 years. A clock can add it to the present time.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 200);

/// The text of a duration, for the schema of a configuration.
pub struct DurationText;

impl JsonSchema for DurationText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DurationText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+\s*(ms|s|m|h)$",
            "examples": ["500ms", "10s", "5m", "1h"],
        })
    }
}

/// Parses a whole number and a unit (`ms`, `s`, `m` or `h`). `None` for anything else, such as
/// a sign or a fraction, and for more than 200 years.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = (text.get(..digits)?, text.get(digits..)?);
    let number: u64 = number.parse().ok()?;
    let duration = match unit.trim_start() {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    };
    duration.filter(|duration| *duration <= LONGEST)
}

/// Deserializes a string that [`parse`] accepts.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    struct DurationVisitor;
    impl Visitor<'_> for DurationVisitor {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as \"10s\", \"500ms\" or \"5m\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }
    from.deserialize_str(DurationVisitor)
}

/// Serializes a duration in milliseconds, such as `"1500ms"`.
pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{}ms", duration.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_the_rest_is_refused() {
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("10 s"), Some(Duration::from_secs(10)));
        assert_eq!(parse("2m"), Some(Duration::from_mins(2)));
        assert_eq!(parse("1h"), Some(Duration::from_hours(1)));
        for bad in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "1d",
            "99999999999999999999s",
            "2000000h",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
