//! `chunks` and `relay`: the body of a provider's answer, on each wire. What the client gets passes
//! the strict checker, and does not depend on how the bytes are split into reads.

use adapters::responses::request::TurnSource;
use kit::drive;
use kit::strict::{self, RuleViolation, StreamRule};
use registry::{ChatQuirks, RelayQuirks, WireQuirks};
use serde_json::{Value, json};

pub(super) fn run_chat(input: &[u8]) {
    check(input, &ChatQuirks::default().into(), lacks_only_a_command);
}

pub(super) fn run_relay(input: &[u8]) {
    check(input, &RelayQuirks::default().into(), is_of_the_upstream);
}

/// A request that offers a tool of each kind that is handled differently.
pub(crate) fn tools_request() -> TurnSource {
    let body = json!({
        "model": "m", "stream": true, "input": "go",
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "tools": [
            {"type": "function", "name": "read", "parameters": {"type": "object"}},
            {"type": "custom", "name": "script"},
            {"type": "custom", "name": "edit", "description": "Patches files.", "format": {
                "type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}},
            {"type": "namespace", "name": "mcp__demo", "description": "d", "tools": [
                {"type": "function", "name": "echo", "parameters": {"type": "object"}}]},
            {"type": "tool_search", "execution": "client", "description": "d"},
            {"type": "local_shell"},
            {"type": "shell"},
            {"type": "apply_patch"},
        ],
    });
    TurnSource::new(body.to_string())
}

fn check(input: &[u8], quirks: &WireQuirks, is_allowed: fn(&RuleViolation) -> bool) {
    let source = tools_request();
    let turn = source.turn().unwrap();
    for codex in [false, true] {
        let settings = || drive::settings(&turn, codex, true);
        let stream = |reads: &[&[u8]]| {
            drive::stream(settings(), quirks, reads.iter().copied())
                .map_err(|fault| fault.to_string())
        };
        let streamed = stream(&[input]);
        let whole = drive::whole(settings(), quirks, [input]);
        let checked = streamed.as_ref().ok().map(|stream| {
            let result = if codex {
                strict::check_for_codex(stream)
            } else {
                strict::check(stream)
            };
            judged(result.map(|stream| stream.response), is_allowed, stream)
        });
        if let Ok(whole) = whole {
            let judged = judged(strict::check_response(&whole), is_allowed, &whole);
            let streamed = checked.expect("a whole answer and no stream");
            if let (Some(whole), Some(streamed)) = (judged, streamed) {
                assert_eq!(whole, streamed);
            }
        }
        let (half, third) = (input.len() / 2, input.len() / 3);
        for cut in [half, third, input.len().saturating_sub(1)] {
            let (first, rest) = input.split_at(cut);
            assert_eq!(stream(&[first, rest]), streamed, "cut at {cut}");
        }
    }
}

/// The response that was checked; `None` if no rule was broken that counts.
fn judged(
    result: Result<Value, Vec<RuleViolation>>,
    is_allowed: fn(&RuleViolation) -> bool,
    shown: &str,
) -> Option<Value> {
    let found = match result {
        Ok(response) => return Some(response),
        Err(found) => found,
    };
    if let Some(first) = found.iter().find(|found| !is_allowed(found)) {
        panic!("{first:?} in\n{shown}");
    }
    None
}

/// Whether a model called a shell without a command. It gets the complaint of the client, and can
/// try again.
fn lacks_only_a_command(found: &RuleViolation) -> bool {
    let is_empty = |key: &str| found.what.contains(&format!("\"{key}\":[]"));
    found.rule == StreamRule::ItemShape && (is_empty("command") || is_empty("commands"))
}

/// Whether it concerns what only a Responses upstream can make. Items of its own tools are passed
/// on with its bytes, and so are types that an SDK may not know yet.
fn is_of_the_upstream(found: &RuleViolation) -> bool {
    match found.rule {
        StreamRule::ForeignTypes => true,
        StreamRule::ItemShape | StreamRule::ItemStatus => !BUILT_HERE
            .iter()
            .any(|kind| found.what.starts_with(&format!("{kind} "))),
        _ => false,
    }
}

/// What is put together from its pieces on every wire: types of items, and their parts.
const BUILT_HERE: [&str; 5] = [
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "part",
];
