//! The wires (protocols) of providers, and the quirks of each. The registry reads the quirks of
//! the wire that a provider or a model family names; what they mean is decided by the wire.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use toml::{Table, Value};

use crate::chat_quirks::{
    ChatQuirks, ReasoningControl, ReasoningReplay, ReasoningRequired, SystemPlace,
};
use crate::enum_set::EnumSet;
use crate::relay_quirks::RelayQuirks;
use crate::serde_names::serde_names;
use crate::shared_quirks::{SchemaRule, SystemRole, ToolChoiceMode};

/// The protocol of an API.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Deserialize,
    JsonSchema,
    Serialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Wire {
    /// OpenAI Chat Completions: `POST {base_url}/chat/completions`.
    #[default]
    Chat,
    /// OpenAI Responses: `POST {base_url}/responses`.
    Responses,
}

impl Wire {
    /// The name in TOML.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The schema of `[quirks]` for this wire.
    fn quirks_schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::Chat => generator.subschema_for::<ChatQuirks>(),
            Self::Responses => generator.subschema_for::<RelayQuirks>(),
        }
    }

    /// The keys of `[quirks]` for this wire.
    pub fn quirk_names(self) -> &'static [&'static str] {
        match self {
            Self::Chat => serde_names::<ChatQuirks>(),
            Self::Responses => serde_names::<RelayQuirks>(),
        }
    }
}

/// A wire with its quirks: how a provider or a model family differs from the plain protocol. Stored
/// quirks do not name their wire: it stands beside them, and [`Self::from_json`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum WireQuirks {
    /// Chat Completions.
    Chat(ChatQuirks),
    /// Responses.
    Responses(RelayQuirks),
}

impl WireQuirks {
    /// Reads quirks of this wire from what `Serialize` wrote. Those of another wire are an error.
    pub fn from_json(wire: Wire, json: serde_json::Value) -> serde_json::Result<Self> {
        match wire {
            Wire::Chat => serde_json::from_value(json).map(Self::Chat),
            Wire::Responses => serde_json::from_value(json).map(Self::Responses),
        }
    }

    /// The wire without its quirks.
    pub fn wire(&self) -> Wire {
        match self {
            Self::Chat(_) => Wire::Chat,
            Self::Responses(_) => Wire::Responses,
        }
    }

    /// Whether a later request needs more of an answer than its items contain, such as thought
    /// signatures, so that it is kept as baggage.
    pub fn wants_baggage(&self) -> bool {
        match self {
            Self::Chat(quirks) => quirks.wants_baggage(),
            Self::Responses(quirks) => quirks.wants_baggage(),
        }
    }

    /// Whether a reasoning level can be requested.
    pub fn controls_reasoning(&self) -> bool {
        match self {
            Self::Chat(quirks) => quirks.reasoning_control != ReasoningControl::None,
            Self::Responses(_) => true,
        }
    }

    /// Whether the provider refuses earlier answers without their reasoning.
    pub fn requires_reasoning(&self) -> bool {
        match self {
            Self::Chat(quirks) => quirks.requires_reasoning(),
            Self::Responses(_) => false,
        }
    }

    /// Whether the reasoning of earlier answers is sent back, and so takes room in the window.
    pub fn replays_reasoning(&self) -> bool {
        match self {
            Self::Chat(quirks) => quirks.replays_reasoning(),
            Self::Responses(quirks) => quirks.replays_reasoning(),
        }
    }

    /// Whether log probabilities have a parameter of their own. In Responses they are asked for
    /// with `include`, which may be refused because of the reasoning that it asks for too.
    pub fn has_logprobs_parameter(&self) -> bool {
        match self {
            Self::Chat(_) => true,
            Self::Responses(_) => false,
        }
    }

    /// The values of `tool_choice` that are accepted.
    pub fn tool_choice(&self) -> EnumSet<ToolChoiceMode> {
        match self {
            Self::Chat(quirks) => quirks.tool_choice,
            Self::Responses(quirks) => quirks.tool_choice,
        }
    }

    /// The rules that the schema of a tool's parameters must follow.
    pub fn schema(&self) -> EnumSet<SchemaRule> {
        match self {
            Self::Chat(quirks) => quirks.schema,
            Self::Responses(quirks) => quirks.schema,
        }
    }

    /// The role of system and developer messages; `None` for a wire that has a field for
    /// instructions.
    pub fn system_role(&self) -> Option<SystemRole> {
        match self {
            Self::Chat(quirks) => Some(quirks.system_role),
            Self::Responses(_) => None,
        }
    }

    /// Where system messages are allowed; `None` for a wire that allows them anywhere.
    pub fn system_place_mut(&mut self) -> Option<&mut SystemPlace> {
        match self {
            Self::Chat(quirks) => Some(&mut quirks.system_place),
            Self::Responses(_) => None,
        }
    }

    /// How reasoning is sent back, and where it is required; `None` for a wire whose items carry
    /// it.
    pub fn reasoning_form(&self) -> Option<(ReasoningReplay, ReasoningRequired)> {
        match self {
            Self::Chat(quirks) => Some((quirks.reasoning_replay, quirks.reasoning_required)),
            Self::Responses(_) => None,
        }
    }

    /// Whether messages may contain files.
    pub fn files_mut(&mut self) -> &mut bool {
        match self {
            Self::Chat(quirks) => &mut quirks.files,
            Self::Responses(quirks) => &mut quirks.files,
        }
    }

    /// The quirks of Chat Completions; `None` for another wire.
    pub fn as_chat(&self) -> Option<&ChatQuirks> {
        match self {
            Self::Chat(quirks) => Some(quirks),
            Self::Responses(_) => None,
        }
    }

    /// The quirks of Chat Completions, to be changed; `None` for another wire.
    pub fn as_chat_mut(&mut self) -> Option<&mut ChatQuirks> {
        match self {
            Self::Chat(quirks) => Some(quirks),
            Self::Responses(_) => None,
        }
    }
}

impl Default for WireQuirks {
    fn default() -> Self {
        Self::Chat(ChatQuirks::default())
    }
}

impl From<ChatQuirks> for WireQuirks {
    fn from(quirks: ChatQuirks) -> Self {
        Self::Chat(quirks)
    }
}

impl From<RelayQuirks> for WireQuirks {
    fn from(quirks: RelayQuirks) -> Self {
        Self::Responses(quirks)
    }
}

/// `[quirks]` in TOML, where the wire may be named elsewhere: in a file that this one is laid
/// over. Every key is a quirk of some wire, with a value of its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuirksTable {
    keys: Vec<String>,
    chat: ChatQuirks,
    responses: RelayQuirks,
}

impl QuirksTable {
    /// The quirks of this wire. Keys of other wires are ignored; see [`Self::foreign_key`].
    pub fn quirks(&self, wire: Wire) -> WireQuirks {
        match wire {
            Wire::Chat => WireQuirks::Chat(self.chat),
            Wire::Responses => WireQuirks::Responses(self.responses),
        }
    }

    /// A key that is no quirk of this wire.
    pub fn foreign_key(&self, wire: Wire) -> Option<&str> {
        let known = wire.quirk_names();
        let mut keys = self.keys.iter().map(String::as_str);
        keys.find(|key| !known.contains(key))
    }

    /// A key that several wires have must have a valid value for each.
    fn read(table: &Table) -> Result<Self, toml::de::Error> {
        let of = |wire: Wire| {
            let known = wire.quirk_names();
            let own = table
                .iter()
                .filter(|(key, _)| known.contains(&key.as_str()));
            own.map(|(key, value)| (key.clone(), value.clone()))
                .collect::<Table>()
        };
        Ok(Self {
            keys: table.keys().cloned().collect(),
            chat: of(Wire::Chat).try_into()?,
            responses: of(Wire::Responses).try_into()?,
        })
    }
}

/// Keys of one wire. Which one is known only where it is named, see [`quirks_by_wire`].
impl JsonSchema for QuirksTable {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "QuirksTable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let wires = Wire::VARIANTS.iter();
        let of_wires: Vec<Schema> = wires.map(|wire| wire.quirks_schema(generator)).collect();
        json_schema!({"type": "object", "anyOf": of_wires})
    }
}

/// Completes the schema of a table with `wire` and `quirks`: if it names a wire, the quirks are
/// those of this one.
pub(crate) fn quirks_by_wire(schema: &mut Schema) {
    let quirks = schema.pointer("/properties/quirks/anyOf").cloned();
    let Some(serde_json::Value::Array(of_wires)) = quirks else {
        return;
    };
    let rules = Wire::VARIANTS.iter().zip(of_wires).map(|(wire, quirks)| {
        serde_json::json!({
            "if": {"properties": {"wire": {"const": wire.name()}}, "required": ["wire"]},
            "then": {"properties": {"quirks": quirks}},
        })
    });
    schema.insert("allOf".to_owned(), rules.collect());
}

impl<'de> Deserialize<'de> for QuirksTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(QuirksVisitor)
    }
}

/// Reads keys and values one by one, so that an error names the line of the wrong one.
struct QuirksVisitor;

impl<'de> Visitor<'de> for QuirksVisitor {
    type Value = QuirksTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QuirksTable, A::Error> {
        let mut table = Table::new();
        while let Some(key) = map.next_key_seed(QuirkKey)? {
            let value = map.next_value_seed(QuirkValue(&key))?;
            table.insert(key, value);
        }
        QuirksTable::read(&table).map_err(A::Error::custom)
    }
}

/// The name of a quirk of some wire.
struct QuirkKey;

impl<'de> DeserializeSeed<'de> for QuirkKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        let key = String::deserialize(from)?;
        let names = || Wire::VARIANTS.iter().flat_map(|wire| wire.quirk_names());
        if names().any(|name| *name == key) {
            return Ok(key);
        }
        let known: Vec<String> = names().map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format!(
            "unknown field `{key}`, expected one of {}",
            known.join(", ")
        )))
    }
}

/// The value of the quirk with this name.
struct QuirkValue<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for QuirkValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let value = Value::deserialize(from)?;
        let alone = Table::from_iter([(self.0.to_owned(), value.clone())]);
        match QuirksTable::read(&alone) {
            Ok(_) => Ok(value),
            Err(error) => Err(D::Error::custom(error.message())),
        }
    }
}
