//! Limits that a refusal names.

use super::super::find::{contains_any, find_word, leading_number, number_after};
use crate::quirk_patch::{ModelPatch, Parameter, SharedPatch};

/// A smaller number is no output limit: no model is served with less.
const MIN_MAX_OUTPUT: u32 = 256;

const FIELDS: [&str; 4] = [
    "max_tokens",
    "max_completion_tokens",
    "maxoutputtokens",
    "max_output_tokens",
];

/// The largest output limit.
///
/// - Qwen: `Range of max_tokens should be [1, 8192]`; DeepSeek: `Invalid
///   max_tokens value, the valid range of max_tokens is [1, 8192]`; GLM 1210 with
///   `[1,131072]`
/// - Groq: `max_tokens must be less than or equal to 16384, the maximum value for
///   max_tokens is less than the context_window for this model`
/// - OpenAI: `max_tokens is too large: 100000. This model supports at most 16384
///   completion tokens`; `Invalid 'max_tokens': integer above maximum value.
///   Expected a value <= 16384, but got 100000 instead.`
/// - Anthropic: `max_tokens: 100000 > 64000, which is the maximum allowed number
///   of output tokens`
/// - Gemini: `has a maxOutputTokens value of 100000 but the supported range is from
///   1 (inclusive) to 65537 (exclusive).`
pub(crate) fn max_output(lower: &str) -> Option<ModelPatch> {
    if !FIELDS.iter().any(|field| find_word(lower, field).is_some())
        || contains_any(lower, &["at least", ">="])
    {
        return None;
    }
    let range = lower.split('[').skip(1).find_map(|rest| {
        let (low, rest) = rest.split_once(',')?;
        let low: u64 = low.trim().parse().ok()?;
        (low <= 1 && rest.contains(']'))
            .then(|| leading_number(rest.trim_start()))
            .flatten()
    });
    let exclusive = || {
        let (before, _) = lower.split_once(" (exclusive)")?;
        let last = before.rsplit(' ').next()?;
        last.parse::<u64>().ok()?.checked_sub(1)
    };
    let limit = range.or_else(exclusive).or_else(|| {
        [
            "less than or equal to",
            "supports at most",
            "<=",
            "cannot exceed",
            "must not exceed",
            "be at most",
        ]
        .into_iter()
        .find_map(|phrase| number_after(lower, phrase))
        .or_else(|| {
            lower
                .contains("maximum allowed number of output tokens")
                .then(|| number_after(lower, ">"))
                .flatten()
        })
    })?;
    u32::try_from(limit)
        .ok()
        .filter(|limit| (MIN_MAX_OUTPUT..=100_000_000).contains(limit))
        .map(ModelPatch::MaxOutput)
}

/// No provider has a smaller limit of tools.
const MIN_MAX_TOOLS: u64 = 8;

/// The largest number of tools.
///
/// - OpenAI, Azure, Copilot: `Invalid 'tools': array too long. Expected an array with maximum
///   length 128, but got an array with length 140 instead.` (zed#42393, opencode#4909)
/// - DeepSeek: `Currently, max 128 functions are supported`; others: `tools: at most 64 allowed`,
///   `too many tools: the limit is 64`
///
/// A list within a tool or a message is another list.
pub(crate) fn max_tools(lower: &str) -> Option<SharedPatch> {
    const PHRASES: [&str; 12] = [
        "maximum length",
        "at most",
        "no more than",
        "up to",
        "less than or equal to",
        "cannot exceed",
        "must not exceed",
        "limit is",
        "limit of",
        "maximum is",
        "maximum of",
        "max ",
    ];
    let names = ["tools", "functions"];
    if !names.iter().any(|name| find_word(lower, name).is_some())
        || contains_any(
            lower,
            &["tools[", "tools.", "tool_calls", "token", "schema"],
        )
    {
        return None;
    }
    let mut found = PHRASES.into_iter();
    let limit = found.find_map(|phrase| number_after(lower, phrase))?;
    let limit = Some(limit).filter(|limit| *limit >= MIN_MAX_TOOLS)?;
    u16::try_from(limit).ok().map(SharedPatch::MaxTools)
}

/// A temperature that cannot be chosen.
///
/// - Kimi: `invalid temperature: only 1 is allowed for this model`
/// - OpenAI, GPT-5: `Unsupported value: 'temperature' does not support 0.5 with
///   this model. Only the default (1) value is supported.`
/// - Anthropic behind a gateway: `` `temperature` may only be set to 1 when
///   thinking is enabled``
pub(crate) fn fixed_temperature(lower: &str) -> Option<SharedPatch> {
    find_word(lower, "temperature")?;
    let fixed = lower.contains("only") && lower.contains("is allowed")
        || contains_any(
            lower,
            &[
                "only the default",
                "does not support temperature",
                "may only be set to 1",
            ],
        );
    fixed.then_some(SharedPatch::OmitParameter(Parameter::Temperature))
}
