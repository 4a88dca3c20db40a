//! Token counts, in every form in which providers report them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::scalar;
use crate::event::Usage;

#[derive(Deserialize)]
struct UsageFields<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    completion_tokens: Option<&'a RawValue>,
    total_tokens: Option<&'a RawValue>,
    prompt_tokens_details: Option<UsageDetails<'a>>,
    completion_tokens_details: Option<UsageDetails<'a>>,
    /// The names of Responses, which some gateways keep.
    input_tokens: Option<&'a RawValue>,
    output_tokens: Option<&'a RawValue>,
    input_tokens_details: Option<UsageDetails<'a>>,
    output_tokens_details: Option<UsageDetails<'a>>,
    /// Anthropic's fields for cached tokens, which `input_tokens` does not include.
    cache_read_input_tokens: Option<&'a RawValue>,
    cache_creation_input_tokens: Option<&'a RawValue>,
    /// `DeepSeek`'s field for cached tokens.
    prompt_cache_hit_tokens: Option<&'a RawValue>,
    /// Kimi's field for cached tokens.
    cached_tokens: Option<&'a RawValue>,
    /// Mistral's field for cached tokens.
    num_cached_tokens: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct UsageDetails<'a> {
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    cache_write_tokens: Option<&'a RawValue>,
    reasoning_tokens: Option<&'a RawValue>,
}

/// Reads a `usage` object. Also returns how impossible counts were corrected.
/// `None` if there are no counts. `apart` is the quirk `usage_apart`: reasoning is
/// not part of `completion_tokens`.
pub(super) fn read(raw: &RawValue, apart: bool) -> Option<(Usage, Option<String>)> {
    let counts: UsageFields<'_> = serde_json::from_str(raw.get()).ok()?;
    let named = |chat, responses| match count(chat) {
        known @ (None | Some(0)) => count(responses).or(known),
        known => known,
    };
    let mut input = named(counts.prompt_tokens, counts.input_tokens)?;
    let output = named(counts.completion_tokens, counts.output_tokens).unwrap_or(0);
    if input == 0 && output == 0 {
        return None;
    }
    let prompt = counts.prompt_tokens_details.or(counts.input_tokens_details);
    let prompt = prompt.unwrap_or_default();
    let completion = counts
        .completion_tokens_details
        .or(counts.output_tokens_details);
    let completion = completion.unwrap_or_default();
    let cache_read = count(counts.cache_read_input_tokens);
    let cache_write = count(counts.cache_creation_input_tokens);
    if count(counts.prompt_tokens).unwrap_or(0) == 0 {
        input = [cache_read, cache_write]
            .into_iter()
            .flatten()
            .fold(input, u64::saturating_add);
    }
    let cached = [
        prompt.cached_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cached_tokens,
        counts.num_cached_tokens,
    ];
    let mut usage = Usage {
        input,
        cached: (cached.into_iter().filter_map(count).chain(cache_read).max()).unwrap_or(0),
        cache_write: (count(prompt.cache_write_tokens).or(cache_write)).unwrap_or(0),
        output,
        reasoning: count(completion.reasoning_tokens).unwrap_or(0),
    };
    add_separate_counts(&mut usage, count(counts.total_tokens), apart);
    let corrections = clamp(&mut usage);
    Some((usage, corrections))
}

/// Whether the provider says that it has searched the web itself.
pub(super) fn has_searches(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct SearchCounts<'a> {
        /// `OpenRouter`'s counts of its own tools.
        #[serde(borrow)]
        server_tool_use_details: Option<ServerToolCounts<'a>>,
    }
    #[derive(Deserialize)]
    struct ServerToolCounts<'a> {
        #[serde(borrow)]
        web_search_requests: Option<&'a RawValue>,
    }
    let fields = serde_json::from_str::<SearchCounts<'_>>(raw.get()).ok();
    let counts = fields.and_then(|fields| fields.server_tool_use_details);
    counts.is_some_and(|counts| count(counts.web_search_requests).is_some_and(|count| count > 0))
}

/// Adds tokens that the provider counted outside input and output.
///
/// Gateways pass such counts on, and the numbers show it: more cached tokens than
/// prompt tokens are counted beside the prompt, and reasoning tokens that equal the
/// rest of the total are counted beside the output. With `apart`, an unnamed rest
/// of the total is reasoning, too.
fn add_separate_counts(usage: &mut Usage, total: Option<u64>, apart: bool) {
    let sum = usage.input.saturating_add(usage.output);
    let rest = total.map(|total| total.saturating_sub(sum));
    let cached_beside = usage.cached > usage.input;
    if cached_beside {
        usage.input = usage.input.saturating_add(usage.cached);
    }
    let reasoning = match rest {
        // The rest of the total is the cached tokens.
        Some(rest) if cached_beside && rest == usage.cached => 0,
        Some(rest) if rest == usage.reasoning || apart => rest,
        None if apart => usage.reasoning,
        Some(_) | None => 0,
    };
    usage.output = usage.output.saturating_add(reasoning);
    usage.reasoning = usage.reasoning.max(reasoning);
}

/// Limits each part to its whole. Returns a description of what was corrected.
fn clamp(usage: &mut Usage) -> Option<String> {
    let mut corrections = Vec::new();
    let mut at_most = |name: &str, part: &mut u64, whole: u64| {
        if *part > whole {
            corrections.push(format!("{name} {part} of {whole}"));
            *part = whole;
        }
    };
    at_most("cached", &mut usage.cached, usage.input);
    at_most("cache_write", &mut usage.cache_write, usage.input);
    at_most("reasoning", &mut usage.reasoning, usage.output);
    (!corrections.is_empty()).then(|| corrections.join(", "))
}

/// A count. Some gateways write it as a string or with a decimal point.
fn count(raw: Option<&RawValue>) -> Option<u64> {
    let word = scalar(raw);
    let whole = word.split_once('.').map_or(&*word, |(whole, _)| whole);
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `input/cached/cache_write/output/reasoning`, and the correction.
    fn usage_of(json: &str, apart: bool) -> String {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let Some((u, corrections)) = read(raw, apart) else {
            return "nothing".into();
        };
        let corrections = corrections
            .map(|corrections| format!(" {corrections}"))
            .unwrap_or_default();
        format!(
            "{}/{}/{}/{}/{}{corrections}",
            u.input, u.cached, u.cache_write, u.output, u.reasoning
        )
    }

    #[test]
    fn every_form_of_counts_is_read() {
        for (json, usage) in [
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}"#,
                "9/4/2/5/3",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_tokens_details":{"cached_tokens":0}}"#,
                "9/4/0/5/0",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"cached_tokens":4,"completion_tokens_details":null}"#,
                "9/4/0/5/0",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"num_cached_tokens":4,"prompt_tokens_details":{}}"#,
                "9/4/0/5/0",
            ),
            (
                r#"{"prompt_tokens":"9","completion_tokens":5.0,"total_tokens":null}"#,
                "9/0/0/5/0",
            ),
            (r#"{"prompt_tokens":9}"#, "9/0/0/0/0"),
            (
                r#"{"input_tokens":9,"output_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":3}}"#,
                "9/4/0/5/3",
            ),
            (
                r#"{"prompt_tokens":0,"completion_tokens":0,"input_tokens":9,"output_tokens":5,"total_tokens":14}"#,
                "9/0/0/5/0",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"input_tokens":1,"output_tokens":1}"#,
                "9/0/0/5/0",
            ),
            (
                r#"{"input_tokens":2,"output_tokens":5,"cache_read_input_tokens":6,"cache_creation_input_tokens":1}"#,
                "9/6/1/5/0",
            ),
            (
                r#"{"prompt_tokens":0,"input_tokens":2,"output_tokens":5,"cache_read_input_tokens":6,"cache_creation_input_tokens":1}"#,
                "9/6/1/5/0",
            ),
            (r#"{"prompt_tokens":0,"completion_tokens":0}"#, "nothing"),
            ("{}", "nothing"),
            ("null", "nothing"),
            (r#""none""#, "nothing"),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":6}}"#,
                "9/0/0/5/5 reasoning 6 of 5",
            ),
            // The numbers themselves show that something is counted separately.
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"cached_tokens":10}"#,
                "19/10/0/5/0",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":34,"completion_tokens_details":{"reasoning_tokens":20}}"#,
                "9/0/0/25/20",
            ),
        ] {
            assert_eq!(usage_of(json, false), usage, "{json}");
        }
    }

    #[test]
    fn separate_counts_are_added_once() {
        for (json, usage) in [
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":34,"completion_tokens_details":{"reasoning_tokens":20}}"#,
                "9/0/0/25/20",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":25,"total_tokens":34,"completion_tokens_details":{"reasoning_tokens":20}}"#,
                "9/0/0/25/20",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":20}}"#,
                "9/0/0/25/20",
            ),
            (
                r#"{"prompt_tokens":35,"completion_tokens":12,"total_tokens":109}"#,
                "35/0/0/74/62",
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"cached_tokens":40}"#,
                "49/40/0/5/0",
            ),
        ] {
            assert_eq!(usage_of(json, true), usage, "{json}");
        }
    }
}
