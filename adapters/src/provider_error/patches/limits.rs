//! Limits that a refusal names.

use registry::MaxTokensField;

use super::super::find::{contains_any, find_word, leading_number, number_after};
use crate::quirk_patch::QuirkPatch;

const FIELDS: [&str; 4] = [
    "max_tokens",
    "max_completion_tokens",
    "maxoutputtokens",
    "max_output_tokens",
];

/// The patch for a refused output limit or temperature.
pub(super) fn find_patch(lower: &str) -> Option<QuirkPatch> {
    other_name(lower)
        .or_else(|| max_output(lower))
        .or_else(|| temperature(lower))
}

/// OpenAI, recorded: `Unsupported parameter: 'max_tokens' is not supported with
/// this model. Use 'max_completion_tokens' instead.`
fn other_name(lower: &str) -> Option<QuirkPatch> {
    let use_instead = |name: &str| {
        ["use '", "use `", "use \"", "use "]
            .into_iter()
            .any(|quote| lower.contains(&format!("{quote}{name}")))
            && lower.contains("instead")
    };
    let field = if use_instead("max_completion_tokens") {
        MaxTokensField::MaxCompletionTokens
    } else if use_instead("max_tokens") {
        MaxTokensField::MaxTokens
    } else {
        return None;
    };
    Some(QuirkPatch::MaxTokensField(field))
}

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
fn max_output(lower: &str) -> Option<QuirkPatch> {
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
        .filter(|limit| (16..=100_000_000).contains(limit))
        .map(QuirkPatch::MaxOutput)
}

/// - Kimi: `invalid temperature: only 1 is allowed for this model`
/// - OpenAI, GPT-5: `Unsupported value: 'temperature' does not support 0.5 with
///   this model. Only the default (1) value is supported.`
/// - Anthropic behind a gateway: `` `temperature` may only be set to 1 when
///   thinking is enabled``
/// - OpenAI, recorded below the minimum: `Invalid 'temperature': decimal above
///   maximum value. Expected a value <= 2, but got 3 instead.`
/// - Anthropic: `temperature: range: 0..1`; GLM and others: `[0, 1]`, `(0, 1]`,
///   `between 0 and 1`
fn temperature(lower: &str) -> Option<QuirkPatch> {
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
    if fixed {
        return Some(QuirkPatch::NoSampling);
    }
    let maximum = |number: &str| {
        let digits = number
            .trim_start()
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        match digits.trim_end_matches('.').parse::<f64>().ok()? {
            value if (0.5..=2.0).contains(&value) => HUNDREDTHS
                .into_iter()
                .find(|step| (f64::from(*step) - value * 100.0).abs() < 0.5),
            _ => None,
        }
    };
    [
        "expected a value <=",
        "less than or equal to",
        "range: 0..",
        "between 0 and ",
        "[0,",
        "(0,",
        "[0.0,",
        "(0.0,",
    ]
    .into_iter()
    .find_map(|phrase| maximum(lower.split_once(phrase)?.1))
    .map(QuirkPatch::MaxTemperature)
}

/// Maximum temperatures that providers use.
const HUNDREDTHS: [u16; 6] = [50, 100, 120, 150, 180, 200];
