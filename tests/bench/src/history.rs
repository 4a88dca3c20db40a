//! A long agent session as a request body: many rounds of reasoning, call, output and message.

use serde_json::{Value, json};

/// The number of rounds. Each has four items, so that the session has about 850 items.
const ROUNDS: usize = 212;
const QUESTION: &str =
    "The parser loses the last line of a file without a final newline. Find out why and mend it.";
const MESSAGE: &str = "The reader splits at every newline and drops what follows the last one; I look at the caller next.";
const LINE: &str =
    "    let name = parts.next().ok_or(\"no name\")?; // \u{00fc}ber \\d+\t{\"key\": [1, 2]}\n";

/// The session as a Responses request, as Codex sends it.
pub(crate) fn responses(model: &str, size: usize) -> Value {
    fill_to_size(size, |output| {
        let mut input = vec![json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": QUESTION}]})];
        for round in 0..ROUNDS {
            let call = format!("call_{round:024}");
            input.push(json!({"type": "reasoning", "id": format!("rs_{round:024}"),
                "summary": [{"type": "summary_text", "text": MESSAGE}],
                "content": null, "encrypted_content": "gAAAAABo".repeat(128)}));
            input.push(
                json!({"type": "function_call", "name": "shell", "call_id": call,
                "arguments": arguments(round)}),
            );
            input.push(json!({"type": "function_call_output", "call_id": call, "output": with_round_number(round, output)}));
            input.push(json!({"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": MESSAGE}]}));
        }
        let tool = json!({"type": "function", "name": "shell", "description": "Runs a command.",
            "strict": false, "parameters": parameters()});
        json!({"model": model, "instructions": instructions(), "input": input, "tools": [tool],
            "tool_choice": "auto", "parallel_tool_calls": false, "store": false, "stream": true,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "bench"})
    })
}

/// The same session as a Chat Completions request. It carries no reasoning, so its outputs are
/// longer.
pub(crate) fn chat(model: &str, size: usize) -> Value {
    fill_to_size(size, |output| {
        let mut messages = vec![
            json!({"role": "system", "content": instructions()}),
            json!({"role": "user", "content": QUESTION}),
        ];
        for round in 0..ROUNDS {
            let call = format!("call_{round:024}");
            messages.push(
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": call,
                "type": "function",
                "function": {"name": "shell", "arguments": arguments(round)}}]}),
            );
            messages.push(
                json!({"role": "tool", "tool_call_id": call, "content": with_round_number(round, output)}),
            );
            messages.push(json!({"role": "assistant", "content": MESSAGE}));
        }
        let tool = json!({"type": "function", "function": {"name": "shell",
            "description": "Runs a command.", "parameters": parameters()}});
        json!({"model": model, "messages": messages, "tools": [tool], "stream": true})
    })
}

/// A Responses request with a single call and this output.
pub(crate) fn responses_output(model: &str, output: &str) -> Value {
    json!({"model": model, "stream": true, "store": false, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "function_call", "name": "shell", "call_id": "call_0", "arguments": arguments(0)},
        {"type": "function_call_output", "call_id": "call_0", "output": output}]})
}

/// A Chat Completions request with a single call and this output.
pub(crate) fn chat_output(model: &str, output: &str) -> Value {
    json!({"model": model, "stream": true, "messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "call_0", "type": "function",
            "function": {"name": "shell", "arguments": arguments(0)}}]},
        {"role": "tool", "tool_call_id": "call_0", "content": output}]})
}

/// Lines of about `size` bytes when encoded as JSON.
pub(crate) fn output(size: usize) -> String {
    let line = json!(LINE).to_string().len() - 2;
    LINE.repeat(size / line)
}

/// The body with outputs of one length, chosen so that the body has about `size` bytes.
fn fill_to_size(size: usize, body: impl Fn(&str) -> Value) -> Value {
    let empty = body("").to_string().len();
    let line = json!(LINE).to_string().len() - 2;
    let lines = size.saturating_sub(empty) / (ROUNDS * line);
    let spare = size.saturating_sub(empty) / ROUNDS - lines * line;
    body(&(LINE.repeat(lines) + &"x".repeat(spare)))
}

/// Makes every output different, because a proxy might store equal outputs only once.
fn with_round_number(round: usize, output: &str) -> String {
    format!("{round:04}\n{output}")
}

fn arguments(round: usize) -> String {
    json!({"command": ["bash", "-lc", format!("sed -n '{round},+40p' src/reader.rs")],
        "workdir": "/home/user/project"})
    .to_string()
}

fn parameters() -> Value {
    json!({"type": "object", "required": ["command"], "properties": {
        "command": {"type": "array", "items": {"type": "string"}},
        "workdir": {"type": "string"}}})
}

fn instructions() -> String {
    "You are a coding agent. Read before you write, and run the tests.\n".repeat(120)
}
