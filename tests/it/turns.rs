//! Turns as data: what the upstream sends and what the client gets, streamed and
//! not, for Codex and for others.
use kit::strict;
use libtest_mimic::Trial;
use respondent::sandbox::{Answer, Player, Script, Step};
use serde_json::{Map, Value, json};

use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("turns of text, reasoning and refusals", || play(words())),
        case("turns with function calls", || play(functions())),
        case("R5 calls that come in odd forms", || play(odd_calls())),
        case("turns with tools of other types", || play(typed())),
        case("apply_patch is mended where that is certain", || {
            play(patches())
        }),
        case("turns that end early", || play(early())),
        case("usage is the provider's or an estimate", usage),
        case("log probabilities are passed on", logprobs),
        case("R2 the framing of the upstream does not matter", framing),
        case(
            "R3 an answer is complete with its finish reason",
            finish_reason,
        ),
        case("an upstream that answers with JSON is read too", plain_json),
        case("call ids are new in the conversation", known_ids),
        case("notes and the route stand in the headers", headers),
    ]
}

/// One turn.
struct Row {
    name: &'static str,
    /// What the request has besides model and input.
    request: Value,
    /// What the upstream plays.
    steps: Value,
    /// The output in short, see [`brief`].
    output: Value,
    /// The same for Codex, where it differs.
    codex: Option<Value>,
}

fn row(name: &'static str, request: Value, steps: Value, output: Value) -> Row {
    Row {
        name,
        request,
        steps,
        output,
        codex: None,
    }
}

impl Row {
    fn codex(mut self, output: Value) -> Self {
        self.codex = Some(output);
        self
    }
}

pub fn steps(json: Value) -> Vec<Step> {
    serde_json::from_value(json).unwrap()
}

/// The request with model and input.
fn request(more: &Value) -> Value {
    let mut body = json!({"model": "m", "input": "go"});
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The output as a list of lists: type, then what matters, then the status if it is
/// not `completed`.
pub fn brief(response: &Value) -> Value {
    let items = response["output"].as_array().unwrap();
    items.iter().map(brief_item).collect()
}

fn brief_item(item: &Value) -> Value {
    let text = |list: &str, key: &str| -> String {
        let parts = item[list].as_array().into_iter().flatten();
        parts.filter_map(|part| part[key].as_str()).collect()
    };
    let mut brief = match item["type"].as_str().unwrap() {
        "message" => {
            let refusal = text("content", "refusal");
            let mut said = vec![json!(text("content", "text"))];
            if !refusal.is_empty() {
                said = vec![json!({ "refusal": refusal })];
            }
            [vec![json!("message"), item["phase"].clone()], said].concat()
        }
        "reasoning" => vec![json!("reasoning"), json!(text("summary", "text"))],
        _ => {
            let mut call = vec![item["type"].clone(), item["call_id"].clone()];
            let parts = ["namespace", "name", "arguments", "input", "operation"];
            call.extend(parts.iter().filter_map(|key| item.get(*key)).cloned());
            if let Some(action) = item["action"].as_object() {
                let known: Map<String, Value> = action
                    .iter()
                    .filter(|(_, value)| !value.is_null() && *value != &json!({}))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                call.push(Value::Object(known));
            }
            call
        }
    };
    match item["status"].as_str() {
        None | Some("completed") => {}
        Some(other) => brief.push(other.into()),
    }
    Value::Array(brief)
}

/// Plays every row in four ways: streamed and not, for Codex and for others.
async fn play(rows: Vec<Row>) {
    let player = Player::start(Script::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for row in rows {
        let body = request(&row.request);
        for headers in [&[], CODEX] {
            let expected = match &row.codex {
                Some(output) if !headers.is_empty() => output,
                _ => &row.output,
            };
            for _ in 0..2 {
                player.push(Answer::steps(steps(row.steps.clone())));
            }
            let reply = proxy.post_with(&streaming(&body), headers).await;
            let stream = match headers {
                [] => reply.stream(),
                _ => reply.stream_for_codex(),
            };
            let found = brief(&stream.response);
            assert_eq!(&found, expected, "{}", row.name);
            let reply = proxy.post_with(&body, headers).await;
            assert_eq!(reply.status, 200, "{}: {reply:?}", row.name);
            let whole = strict::check_response_or_panic(&reply.body);
            strict::same_output(&stream.response, &whole).unwrap();
            strict::same_settings(&body, &whole).unwrap();
            assert_eq!(stream.response["status"], whole["status"], "{}", row.name);
        }
    }
    assert!(!proxy.log().contains("panicked"));
}

fn words() -> Vec<Row> {
    let none = json!({});
    vec![
        row(
            "text",
            none.clone(),
            json!([{"text": "Hel"}, {"text": "lo"}]),
            json!([["message", "final_answer", "Hello"]]),
        ),
        row("nothing at all", none.clone(), json!([]), json!([])),
        row(
            "characters of all sorts",
            none.clone(),
            json!([{"text": "\"quoted\" \\ \u{1F600} \u{6f22}"}, {"text": "\u{0}\u{1b}[31m\r\n\t\u{2028}"}]),
            json!([[
                "message",
                "final_answer",
                "\"quoted\" \\ \u{1F600} \u{6f22}\u{0}\u{1b}[31m\r\n\t\u{2028}"
            ]]),
        ),
        row(
            "a character in two chunks",
            none.clone(),
            json!([
                {"raw": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\n"},
                {"raw": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ude00b\"}}]}\n\n"},
                {"finish": "stop"}, {"done": true}
            ]),
            json!([["message", "final_answer", "a\u{1F600}b"]]),
        ),
        row(
            "reasoning before text",
            none.clone(),
            json!([{"reasoning": "Let me"}, {"reasoning": " think"}, {"text": "42"}]),
            json!([
                ["reasoning", "Let me think"],
                ["message", "final_answer", "42"]
            ]),
        ),
        row(
            "white space between reasoning and text belongs to the text",
            none.clone(),
            json!([{"reasoning": "hm"}, {"text": "\n\n"}, {"text": "yes"}]),
            json!([["reasoning", "hm"], ["message", "final_answer", "\n\nyes"]]),
        ),
        row(
            "white space alone is no message",
            none.clone(),
            json!([{"reasoning": "hm"}, {"text": "\n\n"}]),
            json!([["reasoning", "hm"]]),
        ),
        row(
            "reasoning between texts",
            none.clone(),
            json!([{"text": "a"}, {"reasoning": "b"}, {"text": "c"}]),
            json!([
                ["message", "commentary", "a"],
                ["reasoning", "b"],
                ["message", "final_answer", "c"]
            ]),
        ),
        row(
            "a refusal",
            none.clone(),
            json!([{"refusal": "I "}, {"refusal": "won't"}]),
            json!([["message", "final_answer", {"refusal": "I won't"}]]),
        )
        .codex(json!([["message", "final_answer", "I won't"]])),
        row(
            "other choices are left out",
            none.clone(),
            json!([
                {"chunk": {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": null}]}},
                {"text": "mine"}
            ]),
            json!([["message", "final_answer", "mine"]]),
        ),
        row(
            "keys that are null or unknown",
            none,
            json!([
                {"chunk": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": null, "reasoning_content": null, "x": [1]}, "finish_reason": null, "logprobs": null}], "usage": null, "y": {}}},
                {"chunk": {"choices": null}},
                {"chunk": {"choices": []}},
                {"chunk": {"choices": [{"index": 0, "delta": {"content": "ok"}}]}}
            ]),
            json!([["message", "final_answer", "ok"]]),
        ),
    ]
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}})
}

fn functions() -> Vec<Row> {
    let tools = json!({"tools": [tool("look"), tool("take")]});
    vec![
        row(
            "a call in pieces",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{\"at\": \"\u{e4}\\\"\"}", "pieces": 5}}]),
            json!([["function_call", "c1", "look", "{\"at\": \"\u{e4}\\\"\"}"]]),
        ),
        row(
            "text before a call is commentary",
            tools.clone(),
            json!([{"text": "I look."}, {"call": {"id": "c1", "name": "look", "arguments": "{}"}}]),
            json!([
                ["message", "commentary", "I look."],
                ["function_call", "c1", "look", "{}"]
            ]),
        ),
        row(
            "reasoning and white space before a call",
            tools.clone(),
            json!([{"reasoning": "so"}, {"text": "\n\n"}, {"call": {"id": "c1", "name": "look", "arguments": "{}"}}, {"text": "\n"}]),
            json!([["reasoning", "so"], ["function_call", "c1", "look", "{}"]]),
        ),
        row(
            "text behind a call",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{}"}}, {"text": "done"}]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["message", "final_answer", "done"]
            ]),
        ),
        row(
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
        row(
            "interleaved calls",
            tools.clone(),
            json!([
                {"call": {"index": 0, "id": "c1", "name": "look"}},
                {"call": {"index": 1, "id": "c2", "name": "take"}},
                {"args": {"index": 1, "text": "{\"b\""}},
                {"args": {"index": 0, "text": "{\"a\""}},
                {"args": {"index": 1, "text": ":2}"}},
                {"args": {"index": 0, "text": ":1}"}}
            ]),
            json!([
                ["function_call", "c1", "look", "{\"a\":1}"],
                ["function_call", "c2", "take", "{\"b\":2}"]
            ]),
        ),
        row(
            "text while calls are interleaved",
            tools,
            json!([
                {"call": {"index": 0, "id": "c1", "name": "look"}},
                {"text": "meanwhile"},
                {"call": {"index": 1, "id": "c2", "name": "take", "arguments": "{}"}},
                {"args": {"index": 0, "text": "{}"}}
            ]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["function_call", "c2", "take", "{}"],
                ["message", "final_answer", "meanwhile"]
            ]),
        ),
    ]
}

fn odd_calls() -> Vec<Row> {
    let tools = json!({"tools": [tool("look")]});
    let chunk = |call: Value| json!({"chunk": {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}});
    vec![
        row(
            "no arguments are an empty object",
            tools.clone(),
            json!([{"call": {"id": "c1", "name": "look", "arguments": ""}}]),
            json!([["function_call", "c1", "look", "{}"]]),
        ),
        row(
            "arguments that are an object",
            tools.clone(),
            json!([chunk(
                json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": {"a": [1, "x"]}}})
            )]),
            json!([["function_call", "c1", "look", "{\"a\":[1,\"x\"]}"]]),
        ),
        row(
            "a whole call in one chunk, without type",
            tools.clone(),
            json!([chunk(
                json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{\"a\":1}"}})
            )]),
            json!([["function_call", "c1", "look", "{\"a\":1}"]]),
        ),
        row(
            "calls without an index",
            tools.clone(),
            json!([
                chunk(json!({"id": "c1", "function": {"name": "look", "arguments": "{\"a\""}})),
                chunk(json!({"function": {"arguments": ":1}"}})),
                chunk(json!({"id": "c2", "function": {"name": "look", "arguments": "{}"}}))
            ]),
            json!([
                ["function_call", "c1", "look", "{\"a\":1}"],
                ["function_call", "c2", "look", "{}"]
            ]),
        ),
        row(
            "the id and the index in every chunk",
            tools.clone(),
            json!([
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{\"a\""}})
                ),
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": null, "arguments": ":1}"}})
                )
            ]),
            json!([["function_call", "c1", "look", "{\"a\":1}"]]),
        ),
        row(
            "every call at index 0",
            tools.clone(),
            json!([
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}})
                ),
                chunk(
                    json!({"index": 0, "id": "c2", "function": {"name": "look", "arguments": "{\"b\":2}"}})
                )
            ]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["function_call", "c2", "look", "{\"b\":2}"]
            ]),
        ),
        row(
            "a tool that was not offered",
            tools,
            json!([{"call": {"id": "c1", "name": "fly", "arguments": "{}"}}]),
            json!([["function_call", "c1", "fly", "{}"]]),
        ),
    ]
}

fn typed() -> Vec<Row> {
    let with = |tool: Value| json!({"tools": [tool]});
    let call = |name: &str, arguments: Value| json!([{"call": {"id": "c1", "name": name, "arguments": arguments.to_string(), "pieces": 4}}]);
    let demo =
        with(json!({"type": "namespace", "name": "mcp__demo", "tools": [tool("echo"), tool("x")]}));
    vec![
        row(
            "a custom tool",
            with(json!({"type": "custom", "name": "note"})),
            call("note", json!({"input": "say \"hi\"\n\u{1F600}"})),
            json!([["custom_tool_call", "c1", "note", "say \"hi\"\n\u{1F600}"]]),
        ),
        row(
            "a custom tool that is given bare text",
            with(json!({"type": "custom", "name": "note"})),
            json!([{"call": {"id": "c1", "name": "note", "arguments": "bare text", "pieces": 2}}]),
            json!([["custom_tool_call", "c1", "note", "bare text"]]),
        ),
        row(
            "a namespace",
            demo.clone(),
            call("mcp__demo__echo", json!({"a": 1})),
            json!([["function_call", "c1", "mcp__demo", "echo", "{\"a\":1}"]]),
        ),
        row(
            "a namespace, called by the bare name",
            demo,
            call("echo", json!({})),
            json!([["function_call", "c1", "mcp__demo", "echo", "{}"]]),
        ),
        row(
            "tool_search",
            with(json!({"type": "tool_search", "execution": "client"})),
            call("tool_search", json!({"query": "mail", "limit": 3})),
            json!([["tool_search_call", "c1", {"query": "mail", "limit": 3}]]),
        ),
        row(
            "local_shell",
            with(json!({"type": "local_shell"})),
            call(
                "local_shell",
                json!({"command": ["ls", "-l"], "timeout_ms": 5}),
            ),
            json!([["local_shell_call", "c1", {"type": "exec", "command": ["ls", "-l"], "timeout_ms": 5}]]),
        ),
        row(
            "shell",
            with(json!({"type": "shell"})),
            call("shell", json!({"commands": ["ls", "pwd"]})),
            json!([["shell_call", "c1", {"commands": ["ls", "pwd"]}]]),
        ),
        row(
            "the hosted form of apply_patch",
            with(json!({"type": "apply_patch"})),
            call(
                "apply_patch",
                json!({"type": "create_file", "path": "a", "diff": "+x"}),
            ),
            json!([["apply_patch_call", "c1", {"type": "create_file", "path": "a", "diff": "+x"}]]),
        ),
        row(
            "hosted tools are left out",
            json!({"tools": [{"type": "web_search"}, tool("look")]}),
            call("look", json!({})),
            json!([["function_call", "c1", "look", "{}"]]),
        ),
    ]
}

const PATCH: &str = "*** Begin Patch\n*** Update File: a.rs\n@@ fn main() {\n-    old();\n+    new();\n }\n*** End Patch\n";

fn patches() -> Vec<Row> {
    let tools = json!({"tools": [{"type": "custom", "name": "apply_patch", "description": "Edits",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}}]});
    let given = |input: &str| {
        let arguments = json!({"input": input}).to_string();
        json!([{"call": {"id": "c1", "name": "apply_patch", "arguments": arguments, "pieces": 7}}])
    };
    let got = |input: &str| json!([["custom_tool_call", "c1", "apply_patch", input]]);
    vec![
        row("as it should be", tools.clone(), given(PATCH), got(PATCH)),
        row(
            "in a fence",
            tools.clone(),
            given(&format!("```diff\n{PATCH}```\n")),
            got(PATCH),
        ),
        row(
            "without its end",
            tools.clone(),
            given(&PATCH.replace("*** End Patch\n", "")),
            got(PATCH),
        ),
        row(
            "no patch at all",
            tools,
            given("please edit a.rs"),
            got("please edit a.rs"),
        ),
    ]
}

fn early() -> Vec<Row> {
    let tools = json!({"tools": [tool("look")]});
    vec![
        row(
            "at the length, in a text",
            json!({}),
            json!([{"text": "half a"}, {"finish": "length"}, {"done": true}]),
            json!([["message", "final_answer", "half a", "incomplete"]]),
        ),
        row(
            "at the length, in reasoning",
            json!({}),
            json!([{"reasoning": "half a"}, {"finish": "length"}, {"done": true}]),
            json!([["reasoning", "half a", "incomplete"]]),
        ),
        row(
            "at the length, in a call: Codex would run it",
            tools,
            json!([{"call": {"id": "c1", "name": "look", "arguments": "{\"a\": "}}, {"finish": "length"}, {"done": true}]),
            json!([["function_call", "c1", "look", "{\"a\": ", "incomplete"]]),
        )
        .codex(json!([])),
        row(
            "by a filter",
            json!({}),
            json!([{"text": "I will"}, {"finish": "content_filter"}, {"done": true}]),
            json!([["message", "final_answer", "I will", "incomplete"]]),
        )
        .codex(json!([])),
    ]
}

/// A player with one answer that repeats, and the program in front of it.
async fn repeating(answer: Answer) -> (Player, Proxy) {
    let answers = vec![Answer {
        repeat: true,
        ..answer
    }];
    let player = Player::start(Script {
        answers,
        ..Script::default()
    })
    .await
    .unwrap();
    let proxy = Proxy::start(&player).await;
    (player, proxy)
}

async fn usage() {
    let counted = json!([{"text": "hi"}, {"usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5}
    }}]);
    let (_player, proxy) = repeating(Answer::steps(steps(counted))).await;
    let stream = proxy.stream(&request(&json!({}))).await;
    let whole = proxy.whole(&request(&json!({}))).await;
    assert_eq!(stream.response["usage"], whole["usage"]);
    let expected = json!({
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120
    });
    assert_eq!(whole["usage"], expected);
    for (kind, count) in [
        ("input", 200.0),
        ("cached", 120.0),
        ("output", 40.0),
        ("reasoning", 10.0),
    ] {
        let labels = format!("kind=\"{kind}\"");
        proxy.until("respondent_tokens_total", &labels, count).await;
    }

    let silent = json!([{"text": "a long enough text"}, {"finish": "stop"}, {"done": true}]);
    let (_player, proxy) = repeating(Answer::steps(steps(silent))).await;
    let usage = &proxy.whole(&request(&json!({}))).await["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert!(usage["output_tokens"].as_u64().unwrap() > 0);
    proxy.logged("usage_estimated").await;
}

async fn logprobs() {
    let probability = |token: &str| json!({"token": token, "logprob": -0.5, "bytes": [104], "top_logprobs": [{"token": "x", "logprob": -2.0, "bytes": null}]});
    let chunk = |token: &str| {
        json!({"chunk": {"choices": [{"index": 0, "delta": {"content": token},
        "logprobs": {"content": [probability(token)]}, "finish_reason": null}]}})
    };
    let answer = Answer::steps(steps(json!([chunk("h"), chunk("i")])));
    let (player, proxy) = repeating(answer).await;
    let body = request(&json!({"include": ["message.output_text.logprobs"], "top_logprobs": 1}));
    let stream = proxy.stream(&body).await;
    let whole = proxy.whole(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    let tokens = &whole["output"][0]["content"][0]["logprobs"];
    assert_eq!(tokens[0]["token"], "h");
    assert_eq!(tokens[1]["logprob"], -0.5);
    assert_eq!(tokens[1]["top_logprobs"][0]["token"], "x");
    let sent = player.requests()[0].json();
    assert_eq!(
        (&sent["logprobs"], &sent["top_logprobs"]),
        (&json!(true), &json!(1))
    );
}

async fn framing() {
    let text = |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}");
    let end = "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let (a, b) = (text("a\u{e4}"), text("b"));
    let framings = [
        ("LF", format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\n")),
        (
            "CRLF",
            format!("data: {a}\r\n\r\ndata: {b}\r\n\r\ndata: {end}\r\n\r\n"),
        ),
        (
            "CR",
            format!("data: {a}\r\rdata: {b}\r\rdata: {end}\r\rdata: [DONE]\r\r"),
        ),
        (
            "mixed",
            format!("data: {a}\n\r\ndata: {b}\r\n\rdata: {end}\r\r"),
        ),
        (
            "a byte order mark",
            format!("\u{feff}data: {a}\n\ndata: {b}\n\ndata: {end}\n\n"),
        ),
        (
            "no blank behind the colon",
            format!("data:{a}\n\ndata:{b}\n\ndata:{end}\n\n"),
        ),
        (
            "several lines",
            format!(
                "data: {}\n\ndata: {b}\n\ndata: {end}\n\n",
                a.replace(':', ":\ndata: ")
            ),
        ),
        (
            "comments and other fields",
            format!(
                ": hello\n\nevent: x\nid: 7\nretry: 1\nno colon\ndata: {a}\n\n:\n\ndata: {b}\n\ndata: {end}\n\n"
            ),
        ),
        (
            "no blank line at the end",
            format!("data: {a}\n\ndata: {b}\n\ndata: {end}"),
        ),
        (
            "something behind the end",
            format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]\n\ndata: {a}\n\n"),
        ),
    ];
    let player = Player::start(Script::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for (name, raw) in framings {
        for split in [0, 1, 7] {
            player.push(Answer {
                split,
                ..Answer::steps(vec![Step::Raw(raw.clone())])
            });
            let stream = proxy.stream(&request(&json!({}))).await;
            assert_eq!(stream.terminal, "response.completed", "{name}, {split}");
            assert_eq!(stream.text(), "a\u{e4}b", "{name}, {split}");
        }
    }
}

async fn finish_reason() {
    let player = Player::start(Script::default()).await.unwrap();
    let proxy = Proxy::start(&player).await;
    for (steps_of, terminal) in [
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"done": true}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "rst"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"raw": "data: {\"choices\":[],\"us"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "something_new"}, {"done": true}]),
            "response.completed",
        ),
        (json!([{"text": "a"}, {"done": true}]), "response.failed"),
        (json!([{"text": "a"}, {"raw": ""}]), "response.failed"),
        (json!([{"text": "a"}, {"cut": "fin"}]), "response.failed"),
    ] {
        player.push(Answer::steps(steps(steps_of.clone())));
        let stream = proxy.stream(&request(&json!({}))).await;
        assert_eq!(stream.terminal, terminal, "{steps_of}");
        assert_eq!(stream.text(), "a");
    }
}

async fn plain_json() {
    let answer = Answer {
        json: Some(
            json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "whole", "reasoning_content": "why",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}),
        ),
        ..Answer::default()
    };
    let (_player, proxy) = repeating(answer).await;
    let body = request(&json!({"tools": [tool("look")]}));
    let stream = proxy.stream(&body).await;
    let expected = json!([
        ["reasoning", "why"],
        ["message", "commentary", "whole"],
        ["function_call", "c1", "look", "{}"]
    ]);
    assert_eq!(brief(&stream.response), expected);
    let whole = proxy.whole(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    assert_eq!(whole["usage"]["total_tokens"], 7);
}

async fn known_ids() {
    let long = "x".repeat(65);
    let calls = json!([
        {"call": {"id": "old", "name": "look", "arguments": "{}"}},
        {"call": {"id": "", "name": "look", "arguments": "{}"}},
        {"call": {"name": "look", "arguments": "{}"}},
        {"call": {"id": long, "name": "look", "arguments": "{}"}},
        {"call": {"id": "new", "name": "look", "arguments": "{}"}},
    ]);
    let (_player, proxy) = repeating(Answer::steps(steps(calls))).await;
    let body = json!({"model": "m", "tools": [tool("look")], "input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "old", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "old", "output": "nothing"}
    ]});
    let stream = proxy.stream(&body).await;
    let ids: Vec<String> = stream
        .calls()
        .into_iter()
        .map(|call| call.call_id)
        .collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[4], "new");
    for id in &ids[..4] {
        assert!((1..=64).contains(&id.len()) && id != "old", "{id}");
    }
    let again = proxy.stream(&body).await;
    let same: Vec<String> = again.calls().into_iter().map(|call| call.call_id).collect();
    assert_eq!(ids, same, "the same answer gets the same ids");
    let whole = proxy.whole(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
}

async fn headers() {
    let setup = Setup::new().tables("[routing.aliases]\nfast = \"up/large\"");
    let answers = vec![Answer {
        repeat: true,
        ..Answer::steps(steps(json!([{"text": "a"}])))
    }];
    let player = Player::start(Script {
        answers,
        ..Script::default()
    })
    .await
    .unwrap();
    let proxy = Proxy::with(&player, setup).await;
    let body = json!({"model": "fast", "input": "x", "tools": [{"type": "web_search"}], "context_management": []});
    let reply = proxy.post(&body).await;
    assert_eq!(reply.header("x-respondent-route"), Some("up/large"));
    let notes = reply.header("x-respondent-notes").unwrap();
    assert!(
        notes.contains("tool_dropped") && notes.contains("parameter_ignored"),
        "{notes}"
    );
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(player.requests()[0].json()["model"], "large");
    proxy.logged("up/large completed").await;
    proxy
        .until("respondent_turns_total", "model=\"large\"", 1.0)
        .await;
}
