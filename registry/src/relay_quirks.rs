//! Quirks of the `responses` wire: how an upstream that speaks the Responses API itself differs
//! from OpenAI's.

use serde::{Deserialize, Serialize};

use crate::enum_set::{EnumSet, EnumSetValue};

/// The quirks of a provider or a model family that speaks the Responses API. The default is
/// what OpenAI's own endpoint accepts. The fields are the keys of `[quirks]` in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RelayQuirks {
    /// The kinds of tools that are accepted as the client declares them; the others are
    /// lowered to functions.
    pub tools: EnumSet<RelayToolKind>,
    /// The provider compacts a history itself.
    pub compaction: bool,
    /// Reasoning comes with `encrypted_content` that the provider wants back.
    pub encrypted_reasoning: bool,
}

impl RelayQuirks {
    /// See [`crate::WireQuirks::wants_baggage`].
    pub fn wants_baggage(&self) -> bool {
        false
    }

    /// See [`crate::WireQuirks::replays_reasoning`].
    pub fn replays_reasoning(&self) -> bool {
        self.encrypted_reasoning
    }
}

impl Default for RelayQuirks {
    fn default() -> Self {
        Self {
            tools: EnumSet::all(),
            compaction: true,
            encrypted_reasoning: true,
        }
    }
}

/// A kind of tool of the Responses API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayToolKind {
    /// `function`
    Function,
    /// `custom`, with or without a grammar.
    Custom,
    /// `namespace`, a group of functions.
    Namespace,
    /// `web_search`, which the provider runs.
    WebSearch,
}

impl EnumSetValue for RelayToolKind {
    const ALL: &'static [Self] = &[
        Self::Function,
        Self::Custom,
        Self::Namespace,
        Self::WebSearch,
    ];

    fn index(self) -> u8 {
        self as u8
    }
}
