//! How one model of a provider is spoken to: quirks and fields of its own.
//! A provider has one dialect, and others for families of its models.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::lists::Pairs;
use crate::quirks::Quirks;

/// How a model is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dialect {
    /// Departures from the plain wire.
    pub quirks: Quirks,
    /// Fields that every request body has, as (name, JSON text).
    pub body: Vec<(String, String)>,
}

/// Models of a provider that are spoken to in their own way; in TOML a table of
/// `[[families]]`. Its quirks lie over those of the provider. The first family
/// that matches a model counts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct ModelFamily {
    /// Model ids; `*` stands for any characters, case does not count.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
    /// See [`Dialect::quirks`].
    #[serde(default)]
    pub quirks: Quirks,
    /// See [`Dialect::body`].
    #[serde(default)]
    pub body: BodyFields,
}

impl ModelFamily {
    /// Whether the model belongs to this family.
    pub fn matches(&self, model: &str) -> bool {
        self.patterns
            .iter()
            .any(|pattern| matches_pattern(pattern, model))
    }
}

/// Fields of a request body: a TOML table whose values become JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyFields(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for BodyFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let table = Pairs::<toml::Value>::deserialize(from)?;
        let json = |(name, value): (String, toml::Value)| {
            let text = serde_json::to_string(&value).map_err(D::Error::custom)?;
            Ok((name, text))
        };
        table
            .0
            .into_iter()
            .map(json)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Whether `text` is what `pattern` describes.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match text.split_once(piece) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, is) in [
            ("k3", "k3", true),
            ("k3", "k3.1", false),
            ("kimi-k2*", "Kimi-K2.5", true),
            ("kimi-k2*", "kimi-k3", false),
            ("*/kimi-k3*", "moonshotai/kimi-k3", true),
            ("*glm*flash", "z-ai/glm-5.3-flash", true),
            ("*glm*flash", "z-ai/glm-5.3-flashx", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn fields_become_json() {
        let fields: BodyFields =
            toml::from_str("split = true\nthinking = { keep = \"all\", n = 1.5 }").unwrap();
        assert_eq!(
            fields.0,
            [
                ("split".to_owned(), "true".to_owned()),
                (
                    "thinking".to_owned(),
                    r#"{"keep":"all","n":1.5}"#.to_owned()
                ),
            ]
        );
    }
}
