//! The turns: the request, the answer of the upstream, and the output that the client receives.
use serde_json::{Value, json};

use super::{TurnCase, turn_case};

pub fn text_turns() -> Vec<TurnCase> {
    let none = json!({});
    vec![
        turn_case(
            "text",
            none.clone(),
            json!([{"text": "Hel"}, {"text": "lo"}]),
            json!([["message", "final_answer", "Hello"]]),
        ),
        turn_case("an empty answer", none.clone(), json!([]), json!([])),
        turn_case(
            "special characters",
            none.clone(),
            json!([{"text": "\"quoted\" \\ \u{1F600} \u{6f22}"}, {"text": "\u{0}\u{1b}[31m\r\n\t\u{2028}"}]),
            json!([[
                "message",
                "final_answer",
                "\"quoted\" \\ \u{1F600} \u{6f22}\u{0}\u{1b}[31m\r\n\t\u{2028}"
            ]]),
        ),
        turn_case(
            "reasoning before text",
            none.clone(),
            json!([{"reasoning": "Let me"}, {"reasoning": " think"}, {"text": "42"}]),
            json!([
                ["reasoning", "Let me think"],
                ["message", "final_answer", "42"]
            ]),
        ),
        turn_case(
            "white space between reasoning and text belongs to the text",
            none.clone(),
            json!([{"reasoning": "hm"}, {"text": "\n\n"}, {"text": "yes"}]),
            json!([["reasoning", "hm"], ["message", "final_answer", "\n\nyes"]]),
        ),
        turn_case(
            "white space alone is no message",
            none.clone(),
            json!([{"reasoning": "hm"}, {"text": "\n\n"}]),
            json!([["reasoning", "hm"]]),
        ),
        turn_case(
            "reasoning between texts",
            none.clone(),
            json!([{"text": "a"}, {"reasoning": "b"}, {"text": "c"}]),
            json!([["message", "final_answer", "ac"], ["reasoning", "b"]]),
        )
        .native(json!([
            ["message", "commentary", "a"],
            ["reasoning", "b"],
            ["message", "final_answer", "c"]
        ])),
        turn_case(
            "a refusal",
            none.clone(),
            json!([{"refusal": "I "}, {"refusal": "won't"}]),
            json!([["message", "final_answer", {"refusal": "I won't"}]]),
        )
        .codex(json!([["message", "final_answer", "I won't"]])),
    ]
}

pub fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}})
}

pub fn function_calls() -> Vec<TurnCase> {
    let tools = json!({"tools": [tool("look"), tool("take")]});
    vec![
        turn_case(
            "a call in pieces",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{\"at\": \"\u{e4}\\\"\"}", "pieces": 5}}]),
            json!([["function_call", "c1", "look", "{\"at\": \"\u{e4}\\\"\"}"]]),
        ),
        turn_case(
            "text before a call is commentary",
            tools.clone(),
            json!([{"text": "I look."}, {"call": {"id": "c1", "name": "look", "arguments": "{}"}}]),
            json!([
                ["message", "commentary", "I look."],
                ["function_call", "c1", "look", "{}"]
            ]),
        ),
        turn_case(
            "reasoning and white space before a call",
            tools.clone(),
            json!([{"reasoning": "so"}, {"text": "\n\n"}, {"call": {"id": "c1", "name": "look", "arguments": "{}"}}, {"text": "\n"}]),
            json!([["reasoning", "so"], ["function_call", "c1", "look", "{}"]]),
        ),
        turn_case(
            "text after a call",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{}"}}, {"text": "done"}]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["message", "final_answer", "done"]
            ]),
        ),
        turn_case(
            "parallel calls",
            tools.clone(),
            json!([
                {"call": {"id": "c1", "name": "look", "arguments": "{\"n\":1}", "pieces": 3}},
                {"call": {"id": "c2", "name": "take", "arguments": "{\"n\":2}", "pieces": 3}},
                {"call": {"id": "c3", "name": "look", "arguments": "{\"n\":3}"}}
            ]),
            json!([
                ["function_call", "c1", "look", "{\"n\":1}"],
                ["function_call", "c2", "take", "{\"n\":2}"],
                ["function_call", "c3", "look", "{\"n\":3}"]
            ]),
        ),
    ]
}

pub fn odd_calls() -> Vec<TurnCase> {
    let tools = json!({"tools": [tool("look")]});
    vec![
        turn_case(
            "empty arguments become an empty object",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": ""}}]),
            json!([["function_call", "c1", "look", "{}"]]),
        ),
        turn_case(
            "a tool that was not offered",
            tools,
            json!([{"call": {"id": "c1", "name": "fly", "arguments": "{}"}}]),
            json!([["function_call", "c1", "fly", "{}"]]),
        ),
    ]
}

pub fn other_tool_types() -> Vec<TurnCase> {
    let with = |tool: Value| json!({"tools": [tool]});
    let call = |name: &str, arguments: Value| json!([{"call": {"id": "c1", "name": name, "arguments": arguments.to_string(), "pieces": 4}}]);
    let demo =
        with(json!({"type": "namespace", "name": "mcp__demo", "tools": [tool("echo"), tool("x")]}));
    vec![
        turn_case(
            "a custom tool",
            with(json!({"type": "custom", "name": "note"})),
            call("note", json!({"input": "say \"hi\"\n\u{1F600}"})),
            json!([["custom_tool_call", "c1", "note", "say \"hi\"\n\u{1F600}"]]),
        ),
        turn_case(
            "a custom tool called with bare text",
            with(json!({"type": "custom", "name": "note"})),
            json!([{"call": {"id": "c1", "name": "note", "arguments": "bare text", "pieces": 2}}]),
            json!([["custom_tool_call", "c1", "note", "bare text"]]),
        ),
        turn_case(
            "a tool of a namespace",
            demo.clone(),
            call("mcp__demo__echo", json!({"a": 1})),
            json!([["function_call", "c1", "mcp__demo", "echo", "{\"a\":1}"]]),
        ),
        turn_case(
            "a tool of a namespace, called by its bare name",
            demo,
            call("echo", json!({})),
            json!([["function_call", "c1", "mcp__demo", "echo", "{}"]]),
        ),
        turn_case(
            "tool_search",
            with(json!({"type": "tool_search", "execution": "client"})),
            call("tool_search", json!({"query": "mail", "limit": 3})),
            json!([["tool_search_call", "c1", {"query": "mail", "limit": 3}]]),
        ),
        turn_case(
            "local_shell",
            with(json!({"type": "local_shell"})),
            call(
                "local_shell",
                json!({"command": ["ls", "-l"], "timeout_ms": 5}),
            ),
            json!([["local_shell_call", "c1", {"type": "exec", "command": ["ls", "-l"], "timeout_ms": 5}]]),
        ),
        turn_case(
            "shell",
            with(json!({"type": "shell"})),
            call("shell", json!({"commands": ["ls", "pwd"]})),
            json!([["shell_call", "c1", {"commands": ["ls", "pwd"]}]]),
        ),
        turn_case(
            "the hosted form of apply_patch",
            with(json!({"type": "apply_patch"})),
            call(
                "apply_patch",
                json!({"type": "create_file", "path": "a", "diff": "+x"}),
            ),
            json!([["apply_patch_call", "c1", {"type": "create_file", "path": "a", "diff": "+x"}]]),
        ),
        turn_case(
            "hosted tools are left out",
            json!({"tools": [{"type": "web_search"}, tool("look")]}),
            call("look", json!({})),
            json!([["function_call", "c1", "look", "{}"]]),
        ),
    ]
}

const PATCH: &str = "*** Begin Patch\n*** Update File: a.rs\n@@ fn main() {\n-    old();\n+    new();\n }\n*** End Patch\n";

pub fn patch_calls() -> Vec<TurnCase> {
    let tools = json!({"tools": [{"type": "custom", "name": "apply_patch", "description": "Edits",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}}]});
    let upstream = |input: &str| {
        let arguments = json!({"input": input}).to_string();
        json!([{"call": {"id": "c1", "name": "apply_patch", "arguments": arguments, "pieces": 7}}])
    };
    let expected = |input: &str| json!([["custom_tool_call", "c1", "apply_patch", input]]);
    vec![
        turn_case(
            "a valid patch",
            tools.clone(),
            upstream(PATCH),
            expected(PATCH),
        ),
        turn_case(
            "a patch in a code fence",
            tools.clone(),
            upstream(&format!("```diff\n{PATCH}```\n")),
            expected(PATCH),
        ),
        turn_case(
            "a patch without its last line",
            tools.clone(),
            upstream(&PATCH.replace("*** End Patch\n", "")),
            expected(PATCH),
        ),
        turn_case(
            "a text that is not a patch",
            tools,
            upstream("please edit a.rs"),
            expected("please edit a.rs"),
        ),
    ]
}

pub fn early_ends() -> Vec<TurnCase> {
    let tools = json!({"tools": [tool("look")]});
    vec![
        turn_case(
            "at the length limit, in a text",
            json!({}),
            json!([{"text": "half a"}, {"finish": "length"}, {"done": true}]),
            json!([["message", "final_answer", "half a", "incomplete"]]),
        ),
        turn_case(
            "at the length limit, in reasoning",
            json!({}),
            json!([{"reasoning": "half a"}, {"finish": "length"}, {"done": true}]),
            json!([["reasoning", "half a"]]),
        )
        .native(json!([["reasoning", "half a", "incomplete"]])),
        turn_case(
            "at the length limit, in a call, which Codex would run",
            tools,
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{\"a\": "}}, {"finish": "length"}, {"done": true}]),
            json!([["function_call", "c1", "look", "{\"a\": ", "incomplete"]]),
        )
        .codex(json!([])),
        turn_case(
            "by a content filter",
            json!({}),
            json!([{"text": "I will"}, {"finish": "content_filter"}, {"done": true}]),
            json!([["message", "final_answer", "I will", "incomplete"]]),
        )
        .codex(json!([])),
    ]
}
