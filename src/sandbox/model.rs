//! The offline model: a pure function from a chat request to a reply.
//!
//! It introduces itself, makes one harmless tool call when a shell is offered, and demonstrates
//! what else a model can do when a short message asks for it by name.

mod schema_value;
mod tools;

use http::StatusCode;
use serde_json::{Value, json};

use super::reply::{ReplyStep, SandboxCall, SandboxReply};
use super::request::{ChatRequest, message_text};

const GREETING: &str = "Hello! I am the scripted offline model that comes with Respondent: I follow a small \
script and need no key and no network. To talk to a real model, give Respondent the API key of a provider \
(in its environment variable or in the configuration file) and choose one of that provider's models; \
`respondent --help` tells how. Until then you can ask me for reasoning, parallel calls, a long answer, \
a patch or an error, to see how your client shows them.";

/// A message longer than this many bytes is pasted text: its words ask for no demonstration.
const SHORT_MESSAGE: usize = 1000;

/// The file that the demonstrated patch creates.
const PATCHED_FILE: &str = "respondent-offline.txt";

/// Replies to any chat request; equal requests get equal replies.
pub(super) fn reply(request: &ChatRequest) -> SandboxReply {
    let messages = request.messages();
    let results: Vec<String> = messages
        .iter()
        .rev()
        .take_while(|message| matches!(role(message), Some("tool")))
        .map(message_text)
        .collect();
    if !results.is_empty() {
        return SandboxReply::Steps(text_steps(&quoted_results(results.iter().rev())));
    }
    let prompt = messages
        .iter()
        .rev()
        .find(|message| role(message) == Some("user"));
    let prompt = prompt.map(message_text).unwrap_or_default();
    // Codex compacts its history with a request of its own, which asks for a summary.
    if prompt.contains("CONTEXT CHECKPOINT COMPACTION") {
        return SandboxReply::Steps(text_steps(&summary(messages)));
    }
    let demos = RequestedDemos::parse(&prompt);
    if demos.error && !demos.broken_stream {
        let error = json!({"error": {
            "message": "You asked for an error: this one is scripted, nothing is wrong.",
            "type": "invalid_request_error", "param": null, "code": "scripted_error",
        }});
        return SandboxReply::Error(StatusCode::BAD_REQUEST, error);
    }
    let mut steps = Vec::new();
    if demos.reasoning {
        let thought = "The user wants to see reasoning. I have none of my own, so this is a scripted thought: \
            first look at the wish, then at the offered tools, then answer.";
        steps.extend(pieces(thought).map(ReplyStep::Reasoning));
    }
    if demos.error {
        steps.extend(text_steps("This answer will break off: "));
        steps.push(ReplyStep::Error(
            json!({"message": "You asked for an error in the stream.", "code": 502}),
        ));
        return SandboxReply::Steps(steps);
    }
    let calls = calls(request, &prompt, &demos);
    if calls.is_empty() {
        steps.extend(text_steps(&text(request, &demos)));
    } else {
        steps.extend(text_steps("I will use a tool to show that it works."));
        steps.extend(calls.into_iter().map(ReplyStep::Call));
    }
    SandboxReply::Steps(steps)
}

/// The features that the last user message asks the model to demonstrate.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent demonstration"
)]
struct RequestedDemos {
    reasoning: bool,
    parallel: bool,
    long: bool,
    patch: bool,
    error: bool,
    broken_stream: bool,
}

impl RequestedDemos {
    fn parse(prompt: &str) -> Self {
        if prompt.len() > SHORT_MESSAGE {
            return Self::default();
        }
        let prompt = prompt.to_lowercase();
        let has_word = |stems: &[&str]| {
            prompt
                .split(|letter: char| !letter.is_alphanumeric())
                .any(|word| stems.iter().any(|stem| word.starts_with(stem)))
        };
        Self {
            reasoning: has_word(&["reason", "think"]),
            parallel: has_word(&["parallel"]),
            long: prompt.contains("long answer") || prompt.contains("long text"),
            patch: has_word(&["patch"]),
            error: has_word(&["error"]),
            broken_stream: has_word(&["stream"]),
        }
    }
}

/// The calls to make; none if no offered tool fits.
fn calls(request: &ChatRequest, prompt: &str, demos: &RequestedDemos) -> Vec<SandboxCall> {
    let choice = request.json.get("tool_choice");
    if choice.and_then(Value::as_str) == Some("none") || demos.long {
        return Vec::new();
    }
    let forced = choice
        .and_then(|choice| choice.pointer("/function/name"))
        .and_then(Value::as_str);
    let history = request.messages().len();
    let call = |index: u64, function: &Value, arguments: &Value| SandboxCall {
        // The history grows with every turn, so no earlier call has this id.
        id: format!("call_{history}_{index}"),
        name: tools::name(function).to_owned(),
        arguments: arguments.to_string(),
    };
    if let Some(function) = forced.and_then(|name| request.function(name)) {
        return vec![call(
            0,
            function,
            &tools::arguments(function, &["echo", "offline"]),
        )];
    }
    if demos.patch
        && let Some(function) = request.functions().find(|tool| tools::is_patch(tool))
    {
        return vec![call(0, function, &tools::patch(function, PATCHED_FILE))];
    }
    if let Some(shell) = request.functions().find(|tool| tools::is_shell(tool)) {
        let first = call(
            0,
            shell,
            &tools::arguments(shell, &["echo", "Hello from the offline model"]),
        );
        if !demos.parallel {
            return vec![first];
        }
        return vec![first, call(1, shell, &tools::arguments(shell, &["pwd"]))];
    }
    let required = choice.and_then(Value::as_str) == Some("required");
    let named: Vec<&Value> = request
        .functions()
        .filter(|tool| required || tools::is_mentioned(tool, prompt))
        .collect();
    let count = if demos.parallel { 2 } else { 1 };
    (0..)
        .zip(named.into_iter().take(count))
        .map(|(at, tool)| call(at, tool, &tools::arguments(tool, &["pwd"])))
        .collect()
}

/// The answer when no tool is called.
fn text(request: &ChatRequest, demos: &RequestedDemos) -> String {
    match request
        .json
        .pointer("/response_format/type")
        .and_then(Value::as_str)
    {
        Some("json_schema") => {
            let schema = request.json.pointer("/response_format/json_schema/schema");
            return schema_value::example(schema.unwrap_or(&Value::Null)).to_string();
        }
        Some("json_object") => return json!({"answer": "offline"}).to_string(),
        _ => {}
    }
    if demos.long {
        let line = |n: u32| {
            format!("{n}. A line of a long answer, so that there is something to scroll through.\n")
        };
        return "Here is a long answer.\n\n".to_owned()
            + &(1..=200).map(line).collect::<Vec<_>>().concat();
    }
    if demos.parallel || demos.patch {
        return format!("No tool for that is offered. {GREETING}");
    }
    GREETING.to_owned()
}

fn quoted_results<'a>(results: impl Iterator<Item = &'a String>) -> String {
    let quotes: Vec<String> = results.map(|result| quote(result)).collect();
    format!(
        "I ran a command to check that tools work. It printed:\n\n{}\n\nThat is all my script has for this turn. For real work, give \
         Respondent the API key of a provider and choose one of its models.",
        quotes.join("\n\n")
    )
}

/// The first lines of a tool's output, as a Markdown quotation.
fn quote(result: &str) -> String {
    // Codex puts exit code and timing before the output.
    let output = result
        .split_once("Output:\n")
        .map_or(result, |(_, output)| output);
    let line = |line: &str| format!("> {}", line.chars().take(200).collect::<String>());
    let lines: Vec<String> = output.trim_end().lines().take(12).map(line).collect();
    if lines.is_empty() {
        "> (nothing)".to_owned()
    } else {
        lines.join("\n")
    }
}

fn summary(messages: &[Value]) -> String {
    let count = |wanted: &str| {
        messages
            .iter()
            .filter(|message| role(message) == Some(wanted))
            .count()
    };
    format!(
        "Summary by the scripted offline model: {} user messages, {} assistant messages and {} tool results \
         came before. No real work was done.",
        count("user"),
        count("assistant"),
        count("tool")
    )
}

fn role(message: &Value) -> Option<&str> {
    message.get("role").and_then(Value::as_str)
}

fn text_steps(text: &str) -> Vec<ReplyStep> {
    pieces(text).map(ReplyStep::Text).collect()
}

/// Pieces of four words, much as models stream them.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words
        .chunks(4)
        .map(<[&str]>::concat)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests;
