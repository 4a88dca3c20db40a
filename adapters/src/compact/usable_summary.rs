//! Judges whether the text that a model wrote is a summary that one can continue from.

use serde_json::value::RawValue;

use super::SUMMARY_PROMPT;

/// The summary in a model's answer: without the reasoning before it, and without the tags
/// or the code fence that wrap it.
pub fn strip_wrapping(answer: &str) -> &str {
    let mut text = answer.trim();
    if let Some((_, after)) = text.rsplit_once("</think>") {
        text = after.trim();
    }
    if let Some((_, inside)) = text.rsplit_once("<summary>") {
        let inside = inside
            .split_once("</summary>")
            .map_or(inside, |(inside, _)| inside);
        text = inside.trim();
    }
    if let Some(fenced) = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        && !fenced.contains("```")
        && let Some((_, inside)) = fenced.split_once('\n')
    {
        text = inside.trim();
    }
    text
}

/// The smallest [`weight`] of a summary. A text with less is a stub such as "Done." or "OK".
const MIN_WEIGHT: usize = 16;

/// A text with more characters is not taken for a refusal, however it begins.
const MAX_REFUSAL_CHARS: usize = 400;

/// Whether a model can continue from this text. A short honest summary of a short session
/// is usable; a blank text, a refusal, a tool call written as text, and an echo of our
/// own prompt are not.
pub fn is_usable_summary(summary: &str) -> bool {
    let summary = strip_wrapping(summary);
    let lines = summary.lines().map(strip_marks);
    let own_lines = lines.filter(|line| !is_from_prompt(line));
    let weight: usize = own_lines.map(weight).sum();
    weight >= MIN_WEIGHT && !is_refusal(summary) && !is_call(summary)
}

/// A line without list markers and heading marks.
fn strip_marks(line: &str) -> &str {
    line.trim_matches(|char: char| char.is_whitespace() || "-*#>:.".contains(char))
}

/// Whether a line of the prompt, or the part of one before its colon, is this line.
fn is_from_prompt(line: &str) -> bool {
    SUMMARY_PROMPT.lines().map(strip_marks).any(|prompt_line| {
        let heading = prompt_line
            .split_once(':')
            .map_or(prompt_line, |(heading, _)| heading);
        prompt_line == line || heading == line
    })
}

/// The number of UTF-8 bytes of the letters and digits of a line. Bytes are counted, not
/// characters, because scripts such as Chinese write a word in one or two characters.
fn weight(line: &str) -> usize {
    let letters = line.chars().filter(|char| char.is_alphanumeric());
    letters.map(char::len_utf8).sum()
}

fn is_refusal(summary: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "i'm sorry",
        "i am sorry",
        "sorry,",
        "i can't",
        "i cannot",
        "i'm unable",
        "i am unable",
        "i'm not able",
        "as an ai",
    ];
    let start: String = summary.chars().take(MAX_REFUSAL_CHARS + 1).collect();
    let start = start.to_lowercase().replace('\u{2019}', "'");
    start.chars().count() <= MAX_REFUSAL_CHARS
        && BEGINNINGS
            .iter()
            .any(|beginning| start.starts_with(beginning))
}

/// Whether a text is a tool call that a model wrote as text.
fn is_call(summary: &str) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "<tool_call",
        "<|tool_call",
        "<function",
        "<invoke",
        "[TOOL_CALL",
        "<\u{ff5c}tool",
    ];
    #[derive(serde::Deserialize)]
    struct WrittenCall<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        function: Option<&'a RawValue>,
        tool_calls: Option<&'a RawValue>,
        arguments: Option<&'a RawValue>,
        parameters: Option<&'a RawValue>,
        input: Option<&'a RawValue>,
    }
    let is_one = |call: &WrittenCall<'_>| {
        let arguments = call.arguments.or(call.parameters).or(call.input);
        call.tool_calls.is_some() || call.name.or(call.function).is_some() && arguments.is_some()
    };
    BEGINNINGS.iter().any(|tag| summary.starts_with(tag))
        || serde_json::from_str::<WrittenCall<'_>>(summary).is_ok_and(|call| is_one(&call))
        || serde_json::from_str::<Vec<WrittenCall<'_>>>(summary)
            .is_ok_and(|calls| calls.iter().any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    // There is no minimum length beyond a few words.
    #[test]
    fn a_short_honest_summary_is_usable() {
        for summary in [
            "The user said hello; nothing was done yet.",
            "用户想修复登录错误，尚未开始。",
            "<think>Hm.</think>\n<summary>Fix src/a.rs; the test fails at line 3.</summary>",
            "## Handover\n- What was asked: a port of the parser to Rust.",
            r#"{"summary": "The parser was ported.", "next": "run the tests"}"#,
            "```\nThe user wants a port; read src/lib.rs first.\n```",
        ] {
            assert!(is_usable_summary(summary), "{summary}");
        }
    }

    #[test]
    fn stubs_refusals_calls_and_echoes_are_not_usable() {
        let echo = format!("{SUMMARY_PROMPT}\n");
        for summary in [
            "",
            " \n\t",
            "Done.",
            "OK",
            "---\n***",
            "<think>I should summarise the long session now.</think>",
            "<summary></summary>",
            "I'm sorry, but I can't help with that request at all.",
            "I cannot summarize this conversation, it is too long for me.",
            r#"{"name": "exec_command", "arguments": {"cmd": "git status --short"}}"#,
            r#"[{"function": "exec_command", "parameters": {"cmd": "git status"}}]"#,
            "<tool_call>\n{\"name\": \"exec_command\"}\n</tool_call>",
            "- What was asked\n- What was done and decided so far, and why\n- The next step, exactly",
            &echo,
        ] {
            assert!(!is_usable_summary(summary), "{summary}");
        }
    }
}
