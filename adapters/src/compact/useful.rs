//! Whether what a model wrote is a summary.

use serde_json::value::RawValue;

use super::PROMPT;

/// What of a model's answer is the summary: without thoughts before it, and without
/// the tags or the fence that wrap it.
pub fn tidy(answer: &str) -> &str {
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

/// Letters and digits that say something: fewer are a stub such as "Done." or "OK".
const LEAST: usize = 16;

/// A refusal is short.
const REFUSAL: usize = 400;

/// Whether one can go on from it. A short honest summary of a short session is
/// useful; what is blank, a refusal, a call written as text or our own prompt is
/// not.
pub fn is_useful(summary: &str) -> bool {
    let summary = tidy(summary);
    let own = summary.lines().map(bare).filter(|line| !is_prompt(line));
    let said: usize = own.map(weight).sum();
    said >= LEAST && !is_refusal(summary) && !is_call(summary)
}

/// A line without the marks of a list or a heading.
fn bare(line: &str) -> &str {
    line.trim_matches(|char: char| char.is_whitespace() || "-*#>:.".contains(char))
}

/// Whether the prompt has this line, or begins one of its lines so.
fn is_prompt(line: &str) -> bool {
    PROMPT.lines().map(bare).any(|asked| {
        let heading = asked.split_once(':').map_or(asked, |(heading, _)| heading);
        asked == line || heading == line
    })
}

/// Letters of scripts that write a word in one or two count for several.
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
    let start: String = summary.chars().take(REFUSAL + 1).collect();
    let start = start.to_lowercase().replace('\u{2019}', "'");
    start.chars().count() <= REFUSAL && BEGINNINGS.iter().any(|words| start.starts_with(words))
}

/// Whether it is a tool call that a model wrote as text.
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
    struct Call<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        function: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
        #[serde(borrow)]
        parameters: Option<&'a RawValue>,
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    let is_one = |call: &Call<'_>| {
        let filled = call.arguments.or(call.parameters).or(call.input);
        call.tool_calls.is_some() || call.name.or(call.function).is_some() && filled.is_some()
    };
    BEGINNINGS.iter().any(|tag| summary.starts_with(tag))
        || serde_json::from_str::<Call<'_>>(summary).is_ok_and(|call| is_one(&call))
        || serde_json::from_str::<Vec<Call<'_>>>(summary)
            .is_ok_and(|calls| calls.iter().any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    // No least length is asked for.
    #[test]
    fn a_short_honest_summary_is_useful() {
        for summary in [
            "The user said hello; nothing was done yet.",
            "用户想修复登录错误，尚未开始。",
            "<think>Hm.</think>\n<summary>Fix src/a.rs; the test fails at line 3.</summary>",
            "## Handover\n- What was asked: a port of the parser to Rust.",
            r#"{"summary": "The parser was ported.", "next": "run the tests"}"#,
            "```\nThe user wants a port; read src/lib.rs first.\n```",
        ] {
            assert!(is_useful(summary), "{summary}");
        }
    }

    #[test]
    fn what_nobody_can_go_on_from_is_useless() {
        let echo = format!("{PROMPT}\n");
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
            assert!(!is_useful(summary), "{summary}");
        }
    }
}
