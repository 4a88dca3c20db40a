//! Token counts, wherever and however they are told.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::word;
use crate::event::Usage;

#[derive(Deserialize)]
struct Counts<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    total_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_tokens_details: Option<Details<'a>>,
    #[serde(borrow)]
    completion_tokens_details: Option<Details<'a>>,
    /// `DeepSeek`.
    #[serde(borrow)]
    prompt_cache_hit_tokens: Option<&'a RawValue>,
    /// Kimi.
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    /// Mistral.
    #[serde(borrow)]
    num_cached_tokens: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Details<'a> {
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_write_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_tokens: Option<&'a RawValue>,
}

/// The counts of a `usage` object, and what of them could not be true. `None`
/// when it tells nothing. `apart` is the quirk `usage_apart`.
pub(super) fn read(raw: &RawValue, apart: bool) -> Option<(Usage, Option<String>)> {
    let counts: Counts<'_> = serde_json::from_str(raw.get()).ok()?;
    let input = number(counts.prompt_tokens)?;
    let output = number(counts.completion_tokens).unwrap_or(0);
    if input == 0 && output == 0 {
        return None;
    }
    let prompt = counts.prompt_tokens_details.unwrap_or_default();
    let completion = counts.completion_tokens_details.unwrap_or_default();
    let cached = [
        prompt.cached_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cached_tokens,
        counts.num_cached_tokens,
    ];
    let mut usage = Usage {
        input,
        cached: cached.into_iter().filter_map(number).max().unwrap_or(0),
        cache_write: number(prompt.cache_write_tokens).unwrap_or(0),
        output,
        reasoning: number(completion.reasoning_tokens).unwrap_or(0),
    };
    if apart {
        join(&mut usage, number(counts.total_tokens));
    }
    let wrong = clamp(&mut usage);
    Some((usage, wrong))
}

/// Adds what the provider counts apart: reasoning that is in the total but in
/// neither part, and cached tokens beside a smaller prompt.
fn join(usage: &mut Usage, total: Option<u64>) {
    let apart = |input: u64, output: u64| {
        total.map(|total| total.saturating_sub(input.saturating_add(output)))
    };
    let unnamed = apart(usage.input, usage.output).unwrap_or(usage.reasoning);
    if usage.cached > usage.input {
        usage.input = usage.input.saturating_add(usage.cached);
    }
    if usage.reasoning == 0 {
        // The rest of the total is all that tells of it.
        usage.reasoning = apart(usage.input, usage.output).unwrap_or(0);
        usage.output = usage.output.saturating_add(usage.reasoning);
    } else if unnamed >= usage.reasoning {
        usage.output = usage.output.saturating_add(usage.reasoning);
    }
}

/// Makes no part larger than its whole; says what was.
fn clamp(usage: &mut Usage) -> Option<String> {
    let mut wrong = Vec::new();
    let mut at_most = |name: &str, part: &mut u64, whole: u64| {
        if *part > whole {
            wrong.push(format!("{name} {part} of {whole}"));
            *part = whole;
        }
    };
    at_most("cached", &mut usage.cached, usage.input);
    at_most("cache_write", &mut usage.cache_write, usage.input);
    at_most("reasoning", &mut usage.reasoning, usage.output);
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// A count; some gateways write it as a string or with a point.
fn number(raw: Option<&RawValue>) -> Option<u64> {
    let word = word(raw);
    let whole = word.split_once('.').map_or(&*word, |(whole, _)| whole);
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `input/cached/cache_write/output/reasoning`, and what was wrong.
    fn told(json: &str, apart: bool) -> String {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let Some((u, wrong)) = read(raw, apart) else {
            return "nothing".into();
        };
        let wrong = wrong.map(|wrong| format!(" {wrong}")).unwrap_or_default();
        format!(
            "{}/{}/{}/{}/{}{wrong}",
            u.input, u.cached, u.cache_write, u.output, u.reasoning
        )
    }

    #[test]
    fn every_spelling_counts() {
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
            (r#"{"prompt_tokens":0,"completion_tokens":0}"#, "nothing"),
            ("{}", "nothing"),
            ("null", "nothing"),
            (r#""none""#, "nothing"),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"cached_tokens":10,"completion_tokens_details":{"reasoning_tokens":6}}"#,
                "9/9/0/5/5 cached 10 of 9, reasoning 6 of 5",
            ),
        ] {
            assert_eq!(told(json, false), usage, "{json}");
        }
    }

    #[test]
    fn what_is_counted_apart_is_added_once() {
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
            assert_eq!(told(json, true), usage, "{json}");
        }
    }
}
