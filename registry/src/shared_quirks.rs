//! The values of quirks that several wires have, and of the patches that every wire applies to its
//! own quirks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The role of system and developer messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`
    #[default]
    System,
    /// `developer`
    Developer,
    /// `user`, for models without a system role; the text is labelled.
    User,
}

/// The strictest `response_format` that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// `json_schema` and `json_object`.
    #[default]
    JsonSchema,
    /// `json_object`, which requires the word JSON in the prompt.
    JsonObject,
    /// `response_format` is not accepted.
    None,
}

/// A value of `tool_choice` other than `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceMode {
    /// `"none"`
    None,
    /// `"required"`
    Required,
    /// `{"type": "function", …}`
    Named,
}

/// A rule for the JSON schema of a tool's parameters. The rules are applied in this order: each
/// leaves what the later ones can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRule {
    /// `$ref` is replaced by the schema it refers to.
    InlineRefs,
    /// A schema with `$ref` has no other keys.
    LoneRefs,
    /// No `$schema`, `$id`, `$comment` and other metadata.
    NoMetaKeys,
    /// `oneOf` becomes `anyOf`.
    AnyOfOnly,
    /// `items` is one schema, and every array has it.
    OneItemSchema,
    /// Every property has a `type`.
    TypedProperties,
    /// `const` becomes an `enum` with one value.
    NoConst,
    /// The values of `enum` are non-empty strings and `type` is `string`; `enum` is removed
    /// from other schemas.
    StringEnums,
    /// `type` is a string: a list becomes `anyOf`, or `nullable`.
    SingleType,
    /// `type` moves from beside `anyOf` into its branches.
    TypeInBranches,
    /// No `additionalProperties`.
    NoAdditionalProperties,
    /// `required` names only existing properties.
    KnownRequired,
    /// No `pattern`, which the grammar compiler of a server may not support.
    NoPatterns,
    /// No bounds such as `minLength`, `maxItems` and `minimum`.
    NoBounds,
}
