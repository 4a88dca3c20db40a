//! Refused tool schemas.

use registry::{EnumSet, SchemaRule};

use super::super::error::ProviderError;
use super::super::find::contains_any;
use crate::quirk_patch::{Parameter, SharedPatch};

/// Kimi's schema checker (texts from pi#4138, kimi-cli#2061, kimi-code#1610):
/// `tools.function.parameters is not a valid moonshot flavored json schema,
/// details: <At path 'properties.x': type is not defined>`; also `conflicting
/// keywords found after $ref expansion`, `when using anyOf, type should be defined
/// in anyOf items instead of the parent schema`, `required property 'x' is not
/// defined in properties`, `references must start with #/$defs/`.
const MOONSHOT: &[SchemaRule] = &[
    SchemaRule::InlineRefs,
    SchemaRule::LoneRefs,
    SchemaRule::TypedProperties,
    SchemaRule::TypeInBranches,
    SchemaRule::OneItemSchema,
    SchemaRule::KnownRequired,
    SchemaRule::NoMetaKeys,
];

/// Google's subset of OpenAPI 3.0: `Invalid JSON payload received. Unknown name
/// "additionalProperties" at 'tools[0].function_declarations[0].parameters':
/// Cannot find field.`; `GenerateContentRequest.tools[0].function_declarations[0]
/// .parameters.properties[x].enum: only allowed for STRING type`.
const OPENAPI: &[SchemaRule] = &[
    SchemaRule::InlineRefs,
    SchemaRule::TypedProperties,
    SchemaRule::TypeInBranches,
    SchemaRule::SingleType,
    SchemaRule::AnyOfOnly,
    SchemaRule::StringEnums,
    SchemaRule::NoConst,
    SchemaRule::OneItemSchema,
    SchemaRule::NoAdditionalProperties,
    SchemaRule::NoMetaKeys,
    SchemaRule::KnownRequired,
];

/// OpenAI and Azure: `Invalid schema for function 'x': In context=('properties',
/// 'a'), array schema missing items.`, code `invalid_function_parameters`; DeepSeek
/// and Anthropic behind gateways: `JSON schema is invalid. It must match JSON
/// Schema draft 2020-12`.
const STANDARD: &[SchemaRule] = &[
    SchemaRule::OneItemSchema,
    SchemaRule::KnownRequired,
    SchemaRule::NoMetaKeys,
];

/// llama.cpp: `failed to parse grammar`; vLLM: `Grammar error: Unimplemented
/// keys: [...]`, `The provided JSON schema contains features not supported by
/// xgrammar.`
const GRAMMAR: &[SchemaRule] = &[SchemaRule::NoPatterns, SchemaRule::NoBounds];

/// The rules that the refused schema broke or may have broken.
pub(crate) fn refused_schema(error: &ProviderError, lower: &str) -> Option<SharedPatch> {
    if lower.contains("moonshot flavored json schema") {
        return Some(rules(MOONSHOT));
    }
    let googles = lower.contains("function_declarations") && lower.contains("parameters");
    if googles {
        return Some(rules(OPENAPI));
    }
    let function = error.code == "invalid_function_parameters"
        || contains_any(
            lower,
            &[
                "invalid schema for function",
                "must match json schema draft 2020-12",
            ],
        );
    if function {
        let strict = contains_any(
            lower,
            &[
                "'additionalproperties' is required to be supplied and to be false",
                "'required' is required to be supplied and to be an array including every key",
                "is not permitted in strict mode",
            ],
        );
        return Some(if strict {
            SharedPatch::OmitParameter(Parameter::Strict)
        } else {
            rules(STANDARD)
        });
    }
    contains_any(
        lower,
        &[
            "failed to parse grammar",
            "grammar error: unimplemented keys",
            "not supported by xgrammar",
        ],
    )
    .then(|| rules(GRAMMAR))
}

fn rules(rules: &[SchemaRule]) -> SharedPatch {
    SharedPatch::Schema(
        rules
            .iter()
            .fold(EnumSet::empty(), |set, rule| set.with(*rule)),
    )
}
