//! The offline model: what is served when no provider has a key.
//!
//! A pure function from a chat request to an answer. It says what it is, shows one harmless
//! tool call when a shell is offered, and on a plain word shows what else a model may do.

mod fill;
mod tools;

use super::http::{self, Request};
use super::script::{Answer, Call, Step};
use serde_json::{Value, json};

/// What it says of itself.
const GREETING: &str = "Hello! I am the scripted offline model that comes with Respondent: I follow a small \
script and need no key and no network. To talk to a real model, give Respondent the API key of a provider \
(in its environment variable or in the configuration file) and choose one of that provider's models; \
`respondent --help` tells how. Until then you can ask me for reasoning, parallel calls, a long answer, \
a patch or an error, to see how your client shows them.";

/// A longer message than this is pasted matter, in which a word is no wish.
const PLAIN_WORDS: usize = 1000;

/// The file its patch creates.
const PATCHED: &str = "respondent-offline.txt";

/// Answers any chat request, always the same way.
pub fn answer(request: &Request) -> Answer {
    let messages = request.messages();
    let results: Vec<String> = messages
        .iter()
        .rev()
        .take_while(|message| matches!(role(message), Some("tool" | "function")))
        .map(http::text)
        .collect();
    if !results.is_empty() {
        return Answer::steps(say(&from_results(results.iter().rev())));
    }
    let wish = messages
        .iter()
        .rev()
        .find(|message| role(message) == Some("user"));
    let wish = wish.map(http::text).unwrap_or_default();
    // The client's own compaction: a summary is wanted, not a turn.
    if wish.contains("CONTEXT CHECKPOINT COMPACTION") {
        return Answer::steps(say(&summary(messages)));
    }
    let wants = Wants::of(&wish);
    if wants.error && !wants.broken_stream {
        let error = json!({"error": {
            "message": "You asked for an error: this one is scripted, nothing is wrong.",
            "type": "invalid_request_error", "param": null, "code": "scripted_error",
        }});
        return Answer {
            status: 400,
            json: Some(error),
            ..Answer::default()
        };
    }
    let mut steps = Vec::new();
    if wants.reasoning {
        let thought = "The user wants to see reasoning. I have none of my own, so this is a scripted thought: \
            first look at the wish, then at the offered tools, then answer.";
        steps.extend(pieces(thought).map(Step::Reasoning));
    }
    if wants.error {
        steps.extend(say("This answer will break off: "));
        steps.push(Step::Error(
            json!({"message": "You asked for an error in the stream.", "code": 502}),
        ));
        return Answer::steps(steps);
    }
    let calls = calls(request, &wish, &wants);
    if calls.is_empty() {
        steps.extend(say(&text(request, &wants)));
    } else {
        steps.extend(say("I will use a tool to show that it works."));
        steps.extend(calls.into_iter().map(Step::Call));
    }
    Answer::steps(steps)
}

/// What the words of the last user message ask for.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent wish"
)]
struct Wants {
    reasoning: bool,
    parallel: bool,
    long: bool,
    patch: bool,
    error: bool,
    broken_stream: bool,
}

impl Wants {
    fn of(wish: &str) -> Self {
        if wish.len() > PLAIN_WORDS {
            return Self::default();
        }
        let wish = wish.to_lowercase();
        let word = |stems: &[&str]| {
            wish.split(|letter: char| !letter.is_alphanumeric())
                .any(|word| stems.iter().any(|stem| word.starts_with(stem)))
        };
        Self {
            reasoning: word(&["reason", "think"]),
            parallel: word(&["parallel"]),
            long: wish.contains("long answer") || wish.contains("long text"),
            patch: word(&["patch"]),
            error: word(&["error"]),
            broken_stream: word(&["stream"]),
        }
    }
}

/// The calls to make, none if no tool fits.
fn calls(request: &Request, wish: &str, wants: &Wants) -> Vec<Call> {
    let choice = request.json.get("tool_choice");
    if choice.and_then(Value::as_str) == Some("none") || wants.long {
        return Vec::new();
    }
    let forced = choice
        .and_then(|choice| choice.pointer("/function/name"))
        .and_then(Value::as_str);
    let turn = request.messages().len();
    let call = |index: u64, function: &Value, arguments: &Value| Call {
        index: Some(index),
        // New in its history, since each turn adds messages.
        id: Some(format!("call_{turn}_{index}")),
        name: tools::name(function).to_owned(),
        arguments: arguments.to_string(),
        pieces: 3,
        extra_content: None,
    };
    if let Some(function) = forced.and_then(|name| request.tool(name)) {
        return vec![call(
            0,
            function,
            &tools::arguments(function, &["echo", "offline"]),
        )];
    }
    if wants.patch
        && let Some(function) = request.tools().find(|tool| tools::patches(tool))
    {
        return vec![call(0, function, &tools::patch(function, PATCHED))];
    }
    if let Some(shell) = request.tools().find(|tool| tools::is_shell(tool)) {
        let first = call(
            0,
            shell,
            &tools::arguments(shell, &["echo", "Hello from the offline model"]),
        );
        if !wants.parallel {
            return vec![first];
        }
        return vec![first, call(1, shell, &tools::arguments(shell, &["pwd"]))];
    }
    let required = choice.and_then(Value::as_str) == Some("required");
    let named: Vec<&Value> = request
        .tools()
        .filter(|tool| required || tools::named_in(tool, wish))
        .collect();
    let count = if wants.parallel { 2 } else { 1 };
    (0..)
        .zip(named.into_iter().take(count))
        .map(|(at, tool)| call(at, tool, &tools::arguments(tool, &["pwd"])))
        .collect()
}

/// The answer when no tool is called.
fn text(request: &Request, wants: &Wants) -> String {
    match request
        .json
        .pointer("/response_format/type")
        .and_then(Value::as_str)
    {
        Some("json_schema") => {
            let schema = request.json.pointer("/response_format/json_schema/schema");
            return fill::value(schema.unwrap_or(&Value::Null)).to_string();
        }
        Some("json_object") => return json!({"answer": "offline"}).to_string(),
        _ => {}
    }
    if wants.long {
        let line = |n: u32| {
            format!("{n}. A line of a long answer, so that there is something to scroll through.\n")
        };
        return "Here is a long answer.\n\n".to_owned()
            + &(1..=200).map(line).collect::<Vec<_>>().concat();
    }
    if wants.parallel || wants.patch {
        return format!("No tool for that is offered. {GREETING}");
    }
    GREETING.to_owned()
}

fn from_results<'a>(results: impl Iterator<Item = &'a String>) -> String {
    let quotes: Vec<String> = results.map(|result| quote(result)).collect();
    format!(
        "The tool works. It answered:\n\n{}\n\nThat is all my script has for this turn. For real work, give \
         Respondent the API key of a provider and choose one of its models.",
        quotes.join("\n\n")
    )
}

/// The first lines of a tool's output, as a quotation.
fn quote(result: &str) -> String {
    // Some shells put facts about the run before the output.
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

fn say(text: &str) -> Vec<Step> {
    pieces(text).map(Step::Text).collect()
}

/// A few words each, as models stream them.
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
