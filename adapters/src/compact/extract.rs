//! Extracts a text from a history that is used as its summary when no model can write
//! one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::activity;
use crate::compaction_blob::CompactionBlob;
use crate::fair_share::fair_share;
use crate::item_text;
use crate::plan::{Plan, output};
use crate::shorten::{EscapeDepth, shorten};
use crate::turn::{Item, ItemKind, Turn};

const HEADING: &str =
    "No model could summarise this session; these are extracts of it, put together by a program.";

/// How many of each the extract shows at most.
const MAX_MESSAGES: usize = 24;
const MAX_COMMANDS: usize = 12;
const MAX_FILES: usize = 40;
const MAX_ERRORS: usize = 8;

struct ExtractSection {
    title: &'static str,
    text: String,
    /// How many times the room of a section of weight 1 it may take.
    weight: usize,
}

/// Makes a text of at most `max_chars` characters (a smaller limit than 400 is raised to
/// 400) from the messages, files, commands and errors of a session. It is never empty,
/// and always the same for the same session.
pub fn extract(turn: &Turn<'_>, plan: &Plan, max_chars: usize) -> String {
    let max_chars = max_chars.max(400);
    let sections = sections(turn, plan);
    let titles = sections
        .iter()
        .map(|section| section.title.chars().count() + 3);
    let titles: usize = HEADING.chars().count() + titles.sum::<usize>();
    let needs = sections.iter().map(|section| {
        let chars = section.text.chars().count();
        chars.div_ceil(section.weight)
    });
    let needs: Vec<usize> = needs.collect();
    let weights: usize = sections.iter().map(|section| section.weight).sum();
    let room = max_chars.saturating_sub(titles);
    // A section of weight n counts as n equal sections.
    let weighted = sections
        .iter()
        .zip(&needs)
        .flat_map(|(section, need)| std::iter::repeat_n(*need, section.weight));
    let share = fair_share(&weighted, room.saturating_sub(weights));
    let mut extract = HEADING.to_owned();
    for section in &sections {
        let chars = share.saturating_mul(section.weight);
        let text = shorten(&section.text, usize::MAX, chars, EscapeDepth::Once);
        extract.push_str("\n\n");
        extract.push_str(section.title);
        extract.push('\n');
        extract.push_str(&text);
    }
    extract.chars().take(max_chars).collect()
}

fn sections(turn: &Turn<'_>, plan: &Plan) -> Vec<ExtractSection> {
    let items = history(turn);
    let users = user_messages(items);
    let mut sections = Vec::new();
    let mut add = |title, text: String, weight| {
        if !text.is_empty() {
            sections.push(ExtractSection {
                title,
                text,
                weight,
            });
        }
    };
    add("Summary of what came before:", earlier_summary(items), 3);
    let (first, rest) = match users.split_first() {
        Some((first, rest)) => (first.trim(), rest),
        None => ("", &[][..]),
    };
    let (newest, others) = match rest.split_last() {
        Some((newest, others)) => (newest.trim(), others),
        None => ("", &[][..]),
    };
    add("First message of the user:", first.to_owned(), 3);
    add(
        "Other messages of the user, shortened:",
        message_lines(others),
        2,
    );
    add("Newest message of the user:", newest.to_owned(), 4);
    add("Last message of the assistant:", last_answer(items), 2);
    add("Plan:", last_plan(items), 1);
    let (files, commands) = files_and_commands(items);
    add("Files:", files, 1);
    add("Last commands:", commands, 2);
    add("Errors:", last_errors(items, plan), 1);
    sections
}

/// The items without the prompt for the summary.
fn history<'t, 'a>(turn: &'t Turn<'a>) -> &'t [Item<'a>] {
    let items = turn.items.as_slice();
    match (turn.purpose.summary_mode(), items.split_last()) {
        (Some(_), Some((_, history))) => history,
        _ => items,
    }
}

/// The texts of the user messages, without the context that Codex adds to every session.
fn user_messages<'a>(items: &[Item<'a>]) -> Vec<Cow<'a, str>> {
    let users = items.iter().filter(|item| match item.kind {
        ItemKind::Message => item.role() == "user",
        ItemKind::AgentMessage => true,
        _ => false,
    });
    let texts = users.map(item_text::message_text).filter(|text| {
        let text = text.trim_start();
        let is_context =
            text.starts_with("<environment_context>") || item_text::is_project_instructions(text);
        !text.is_empty() && !is_context
    });
    texts.collect()
}

/// The newest texts, one per line.
fn message_lines(texts: &[Cow<'_, str>]) -> String {
    let newest = texts
        .get(texts.len().saturating_sub(MAX_MESSAGES)..)
        .unwrap_or_default()
        .iter();
    let lines: Vec<String> = newest
        .map(|text| format!("- {}", activity::one_line(text, 500)))
        .collect();
    lines.join("\n")
}

/// The newest summary in the history.
fn earlier_summary(items: &[Item<'_>]) -> String {
    let mut summaries = items.iter().rev();
    let found = summaries.find_map(|item| {
        let blob = item.encrypted_content();
        let blob = blob.filter(|_| item.kind == ItemKind::Compaction)?;
        CompactionBlob::open(&blob)
    });
    found.map_or_else(String::new, |blob| blob.summary.trim().to_owned())
}

/// The newest text that the model wrote.
fn last_answer(items: &[Item<'_>]) -> String {
    let answers = items
        .iter()
        .rev()
        .filter(|item| item.kind == ItemKind::Message && item.role() == "assistant");
    let mut texts = answers
        .map(item_text::message_text)
        .filter(|text| !text.trim().is_empty());
    texts
        .next()
        .map_or_else(String::new, |text| text.trim().to_owned())
}

/// The plan or to-do list as the model last wrote it.
fn last_plan(items: &[Item<'_>]) -> String {
    #[derive(Deserialize)]
    struct PlanArguments {
        plan: Vec<PlanEntry>,
    }
    #[derive(Deserialize)]
    struct PlanEntry {
        step: String,
        #[serde(default)]
        status: String,
    }
    let mut calls = items.iter().rev().filter(|item| item.kind.is_call());
    let call = calls.find(|item| {
        let name = item.name().unwrap_or_default().to_lowercase();
        name.contains("update_plan") || name.contains("todo")
    });
    let Some(call) = call else {
        return String::new();
    };
    let arguments = item_text::arguments_json(call);
    match serde_json::from_str::<PlanArguments>(&arguments) {
        Ok(arguments) => {
            let entries = arguments.plan.iter();
            let entries: Vec<String> = entries
                .map(|entry| {
                    format!(
                        "- {}: {}",
                        entry.status,
                        activity::one_line(&entry.step, 200)
                    )
                })
                .collect();
            entries.join("\n")
        }
        Err(_) => activity::one_line(&arguments, 1_000),
    }
}

/// The files that calls name, newest first, and the last commands with their exit codes.
fn files_and_commands(items: &[Item<'_>]) -> (String, String) {
    let outputs: HashMap<Cow<'_, str>, &Item<'_>> = items
        .iter()
        .filter(|item| !item.kind.is_call() && item.output().is_some())
        .filter_map(|item| Some((item.call_id()?, item)))
        .collect();
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    let mut commands = Vec::new();
    for item in items.iter().rev().filter(|item| item.kind.is_call()) {
        let command = item_text::command(item);
        let mut named = activity::patched_files(item);
        if let Some(command) = &command {
            named.extend(activity::paths(command).map(str::to_owned));
        }
        for file in named {
            if files.len() < MAX_FILES && seen.insert(file.clone()) {
                files.push(file);
            }
        }
        if let Some(command) = command.filter(|_| commands.len() < MAX_COMMANDS) {
            let output = item.call_id().and_then(|id| outputs.get(&id).copied());
            let output = output.and_then(output::text);
            let end = output.and_then(|output| activity::exit_code(&output));
            let end = end.map_or_else(String::new, |code| format!(" (exit code {code})"));
            commands.push(format!("- {}{end}", activity::one_line(&command, 300)));
        }
        if files.len() == MAX_FILES && commands.len() == MAX_COMMANDS {
            break;
        }
    }
    commands.reverse();
    (files.join("\n"), commands.join("\n"))
}

/// The last error lines of the outputs, without duplicates.
fn last_errors(items: &[Item<'_>], plan: &Plan) -> String {
    /// How many outputs are searched at most. Of an output with more bytes of JSON only
    /// the replacement is searched, if there is one.
    const MAX_OUTPUTS: usize = 40;
    const MAX_BYTES: usize = 1 << 20;
    let outputs = items
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, item)| output::max_text_len(item) > 0);
    let mut errors: Vec<String> = Vec::new();
    for (index, item) in outputs.take(MAX_OUTPUTS) {
        let found = match plan.replacement_text(index) {
            Some(replacement) if output::max_text_len(item) > MAX_BYTES => {
                activity::error_lines(replacement)
            }
            Some(_) | None => {
                output::text(item).map_or_else(Vec::new, |text| activity::error_lines(&text))
            }
        };
        for line in found.into_iter().rev() {
            if errors.len() < MAX_ERRORS && !errors.contains(&line) {
                errors.push(line);
            }
        }
    }
    errors.reverse();
    errors.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{Bounds, plan};
    use crate::purpose::{Purpose, SummaryMode};
    use crate::responses::request::TurnSource;

    fn extracted(input: &[Value], max_chars: usize) -> String {
        let body = json!({"model": "m", "input": input}).to_string();
        let source = TurnSource::new(body).with_purpose(Purpose::summary(SummaryMode::FitWindow));
        let turn = source.turn().unwrap();
        extract(&turn, &plan(&turn, &Bounds::none()), max_chars)
    }

    fn call(id: usize, name: &str, arguments: &Value, output: &str) -> [Value; 2] {
        let id = format!("call_{id}");
        [
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string()}),
            json!({"type": "function_call_output", "call_id": id, "output": output}),
        ]
    }

    fn session() -> Vec<Value> {
        let user = |text: &str| json!({"role": "user", "content": text});
        let mut input = vec![
            user("<environment_context>here</environment_context>"),
            user("Port the parser to Rust."),
            user("Keep the tests."),
            json!({"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "*** Begin Patch\n*** Add File: src/parser.rs\n+fn a() {}\n*** End Patch"}),
            json!({"type": "custom_tool_call_output", "call_id": "p", "output": "Done!"}),
        ];
        input.extend(call(
            1,
            "update_plan",
            &json!({"plan": [{"step": "Write the lexer", "status": "completed"}, {"step": "Write the parser", "status": "in_progress"}]}),
            "ok",
        ));
        input.extend(call(
            2,
            "exec_command",
            &json!({"cmd": "cargo test --manifest-path crates/parser/Cargo.toml"}),
            "Chunk ID: 1\nWall time: 2.0 seconds\nProcess exited with code 101\nOutput:\nerror[E0308]: mismatched types\n",
        ));
        input.push(json!({"role": "assistant", "content": "The lexer is done."}));
        input.push(user("Now fix the type error."));
        input
    }

    #[test]
    fn an_extract_shows_requests_plan_files_commands_and_errors() {
        let extract = extracted(&session(), 8_000);
        for expected in [
            "First message of the user:\nPort the parser to Rust.",
            "- Keep the tests.",
            "Newest message of the user:\nNow fix the type error.",
            "Last message of the assistant:\nThe lexer is done.",
            "- completed: Write the lexer\n- in_progress: Write the parser",
            "crates/parser/Cargo.toml\nsrc/parser.rs",
            "- cargo test --manifest-path crates/parser/Cargo.toml (exit code 101)",
            "Errors:\nerror[E0308]: mismatched types",
        ] {
            assert!(extract.contains(expected), "{expected}\n{extract}");
        }
        assert!(!extract.contains("environment_context"), "{extract}");
        assert!(!extract.contains("Pause the work here"), "{extract}");
        assert!(super::super::is_usable_summary(&extract));
    }

    #[test]
    fn an_extract_is_never_empty_and_never_too_long() {
        let huge = "漢字 \"x\"\n".repeat(100_000);
        let mut input = session();
        input.push(json!({"role": "user", "content": huge}));
        input.extend(call(3, "run", &json!({ "cmd": huge }), &huge));
        for max_chars in [0, 400, 1_000, 20_000] {
            for input in [&input[..], &[json!({"role": "user", "content": ""})]] {
                let extract = extracted(input, max_chars);
                assert!(extract.chars().count() <= max_chars.max(400));
                assert!(extract.starts_with("No model could summarise"));
            }
        }
        let extract = extracted(&input, 20_000);
        assert!(extract.chars().count() > 15_000);
        assert!(extract.contains("Port the parser to Rust."));
    }
}
