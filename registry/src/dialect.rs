//! The dialect of a model: its wire, and how requests to it differ from the plain protocol. A
//! provider has one dialect for most of its models, and others for families of models.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::lists::Pairs;
use crate::wire::{QuirksTable, Wire, WireQuirks, quirks_by_wire};

/// How requests to a model are written and its answers are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dialect {
    /// The wire, and the differences from the plain protocol.
    pub quirks: WireQuirks,
    /// Extra fields of every request body, as (name, JSON text).
    pub body: Vec<(String, String)>,
}

impl Dialect {
    /// Reads a dialect of this wire from what `Serialize` wrote.
    pub(crate) fn from_json(wire: Wire, json: serde_json::Value) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct StoredDialect {
            quirks: serde_json::Value,
            body: Vec<(String, String)>,
        }
        let stored: StoredDialect = serde_json::from_value(json)?;
        Ok(Self {
            quirks: WireQuirks::from_json(wire, stored.quirks)?,
            body: stored.body,
        })
    }
}

/// Models of a provider with a dialect of their own; a table of `[[families]]` in TOML. Its
/// quirks override those of the provider, unless it names another wire. If several families
/// match a model, the first one applies.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(transform = quirks_by_wire)]
pub struct ModelFamily {
    /// The ids of the models.
    #[serde(rename = "match")]
    pub patterns: ModelPatterns,
    /// The wire of these models; the provider's wire if absent.
    pub wire: Option<Wire>,
    /// How requests to them differ from the plain protocol. What is not set here is as in the
    /// quirks of the provider.
    // `build` has merged those in.
    #[serde(default)]
    pub quirks: QuirksTable,
    /// Extra fields of every request body, besides those of the provider.
    #[serde(default)]
    pub body: BodyFields,
}

/// Patterns of model ids; `*` matches any characters, case is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelPatterns(pub Vec<String>);

impl ModelPatterns {
    /// Whether the id of the model matches one of the patterns.
    pub fn matches(&self, model: &str) -> bool {
        self.0.iter().any(|pattern| matches_pattern(pattern, model))
    }

    /// Whether a pattern that says something about the id matches it, and the id goes on with a new
    /// word behind the pattern: `kimi-k33` is a mistyped name rather than one of `kimi-k3*`.
    pub(crate) fn has_member(&self, model: &str) -> bool {
        let mut telling = self.0.iter().filter(|it| it.chars().any(|c| c != '*'));
        telling.any(|pattern| matches_pattern(pattern, model) && ends_at_a_word(pattern, model))
    }
}

/// Extra fields of a request body, as (name, JSON text): a TOML table whose values are
/// converted to JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyFields(pub Vec<(String, String)>);

impl JsonSchema for BodyFields {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BodyFields".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

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

/// Whether a text that matches a pattern with an open end goes on with a new word there.
fn ends_at_a_word(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    let Some(last) = pattern
        .strip_suffix('*')
        .and_then(|rest| rest.rsplit('*').next())
    else {
        return true;
    };
    let goes_on = text
        .rsplit_once(last)
        .and_then(|(_, rest)| rest.chars().next());
    !last.ends_with(|c: char| c.is_ascii_alphanumeric())
        || !goes_on.is_some_and(|c| c.is_ascii_alphanumeric())
}

/// Whether `text` matches `pattern`, in which `*` matches any characters.
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
    fn a_star_matches_any_characters() {
        for (pattern, text, expected) in [
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
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
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
