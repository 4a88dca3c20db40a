//! Inputs with many elements of one kind.

use serde_json::json;

use super::inputs::{chat_chunks, event, numbered, numbered_many, relay_items, request_of};
use super::work;

/// A number of equal or numbered elements.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) make: fn(usize) -> String,
    pub(super) work: fn(&[u8]),
}

/// All series.
pub(super) const SERIES: &[Series] = &[
    Series {
        name: "tools",
        size: 100,
        make: |count| {
            request_of(
                &json!("x"),
                &numbered(
                    count,
                    |n| json!({"type": "function", "name": format!("t{n}"), "parameters": {"type": "object"}}),
                ),
            )
        },
        work: work::answer,
    },
    Series {
        name: "tools of which all names are cut",
        size: 100,
        make: |count| {
            request_of(
                &json!("x"),
                &numbered(
                    count,
                    |n| json!({"type": "function", "name": format!("{}{n}", "n".repeat(64))}),
                ),
            )
        },
        work: work::answer,
    },
    Series {
        name: "tools in namespaces",
        size: 50,
        make: |count| {
            request_of(
                &json!("x"),
                &numbered(count, |n| {
                    json!({"type": "namespace", "name": format!("s{n}"), "description": "d", "tools": [
            {"type": "function", "name": "a"}, {"type": "function", "name": format!("b{n}")}]})
                }),
            )
        },
        work: work::answer,
    },
    Series {
        name: "tools in the history",
        size: 50,
        make: |count| {
            request_of(
                &numbered(
                    count,
                    |n| json!({"type": "additional_tools", "tools": [{"type": "function", "name": format!("t{n}")}]}),
                ),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "references of a schema",
        size: 50,
        make: |count| {
            let properties: serde_json::Map<_, _> = (0..count)
                .map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/a"})))
                .collect();
            request_of(
                &json!("x"),
                &json!([{"type": "function", "name": "f", "parameters": {"type": "object", "properties": properties,
                "$defs": {"a": {"type": "string", "description": "d".repeat(100)}}}}]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "branches of a schema",
        size: 50,
        make: |count| {
            request_of(
                &json!("x"),
                &json!([{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {
            "anyOf": numbered(count, |n| json!({"type": "object", "properties": {format!("k{n}"): {"type": ["string", "null"], "const": n}}}))}}}}]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "branches in branches of a schema",
        size: 20,
        make: |count| {
            let mut schema = json!({"type": "string"});
            for _ in 0..count.min(60) {
                schema = json!({"anyOf": [schema, {"type": "null"}]});
            }
            let properties: serde_json::Map<_, _> = (0..count)
                .map(|n| (format!("p{n}"), json!({"allOf": [{"type": "string"}]})))
                .collect();
            request_of(
                &json!("x"),
                &json!([{"type": "function", "name": "f", "parameters": {"type": "object", "properties": properties, "anyOf": [schema]}}]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "tags of XML without ends",
        size: 2_000,
        make: |count| {
            let tags = (0..count).fold(String::new(), |tags, n| {
                tags + &format!("<deck{n} a=\"b\">text {n}\n")
            });
            let output = format!("{}{tags}<open a=\"", "<item>x</item>\n".repeat(1_200));
            request_of(
                &json!([
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": output},
                ]),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "calls with their results",
        size: 50,
        make: |count| {
            request_of(
                &numbered_many(count, |n| {
                    vec![
                        json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"}),
                        json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "x"}),
                    ]
                }),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "calls before all results",
        size: 50,
        make: |count| {
            let mut items = numbered_many(count, |n| {
                vec![
                    json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"}),
                ]
            });
            let results = numbered_many(count, |n| {
                vec![
                    json!({"type": "function_call_output", "call_id": format!("c{}", count - n), "output": "x"}),
                ]
            });
            items
                .as_array_mut()
                .unwrap()
                .extend(results.as_array().unwrap().iter().cloned());
            request_of(&items, &json!([]))
        },
        work: work::answer,
    },
    Series {
        name: "calls of one id",
        size: 50,
        make: |count| {
            request_of(
                &numbered_many(count, |_| {
                    vec![
                        json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
                        json!({"type": "function_call_output", "call_id": "c", "output": "x"}),
                    ]
                }),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "results without calls",
        size: 100,
        make: |count| {
            request_of(
                &numbered(
                    count,
                    |n| json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "x"}),
                ),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "results of one call",
        size: 100,
        make: |count| {
            request_of(
                &numbered(
                    count,
                    |n| json!({"type": "function_call_output", "call_id": "c", "output": format!("{n}")}),
                ),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "empty items",
        size: 100,
        make: |count| request_of(&numbered(count, |_| json!({})), &json!([])),
        work: work::answer,
    },
    Series {
        name: "messages",
        size: 100,
        make: |count| {
            request_of(
                &numbered(
                    count,
                    |n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": "a word"}),
                ),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "messages to be summarized",
        size: 100,
        make: |count| {
            request_of(
                &numbered(
                    count,
                    |n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": "a word or more ".repeat(10)}),
                ),
                &json!([]),
            )
        },
        work: work::summary,
    },
    Series {
        name: "calls to be summarized",
        size: 50,
        make: |count| {
            request_of(
                &numbered_many(count, |n| {
                    vec![
                        json!({"type": "function_call", "call_id": format!("c{n}"), "name": "exec_command", "arguments": json!({"cmd": format!("cat src/{n}.rs")}).to_string()}),
                        json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": format!("error: no file {n}\n").repeat(10)}),
                    ]
                }),
                &json!([]),
            )
        },
        work: work::summary,
    },
    Series {
        name: "parts of a message",
        size: 100,
        make: |count| {
            request_of(
                &json!([{"role": "user", "content": numbered(count, |n| json!({"type": "input_text", "text": format!("{n}")}))}]),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "parts of an output",
        size: 100,
        make: |count| {
            request_of(
                &json!([{"type": "function_call_output", "call_id": "c", "output": numbered(count, |n| json!({"type": "input_text", "text": format!("line {n}")}))}]),
                &json!([]),
            )
        },
        work: work::answer,
    },
    Series {
        name: "long outputs",
        size: 10,
        make: |count| {
            request_of(
                &numbered_many(count, |n| {
                    vec![
                        json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"}),
                        json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": format!("{n} line of output\n").repeat(300)}),
                    ]
                }),
                &json!([]),
            )
        },
        work: work::answer_chat,
    },
    Series {
        name: "calls of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "function": {"name": "read", "arguments": "{}"}}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "calls without an index of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"tool_calls": [{"id": format!("c{n}"), "function": {"name": "read", "arguments": "{}"}}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "calls of one id of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"tool_calls": [{"index": n, "id": "c", "function": {"name": "read", "arguments": "{}"}}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "calls in turn with text of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"content": "a", "tool_calls": [{"index": n, "id": format!("c{n}"), "function": {"name": "read", "arguments": "{\"a\":"}}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "text after open arguments of a chat answer",
        size: 50,
        make: |count| {
            let open = format!("[{}", "\"\\n\",".repeat(40 * count));
            let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read", "arguments": open}}]});
            chat_chunks(count, |n| {
                if n == 0 {
                    call.clone()
                } else {
                    json!({"content": "a"})
                }
            })
        },
        work: work::read_chat,
    },
    Series {
        name: "citations of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": format!("https://example.org/{n}"), "title": "t", "start_index": 0, "end_index": 1}}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "reasoning details of a chat answer",
        size: 50,
        make: |count| {
            chat_chunks(
                count,
                |n| json!({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": n, "signature": format!("{n}")}]}),
            )
        },
        work: work::read_chat,
    },
    Series {
        name: "items of a relayed answer",
        size: 20,
        make: |count| relay_items(count),
        work: work::read_relay,
    },
    Series {
        name: "parts of a relayed answer",
        size: 20,
        make: |count| {
            let parts: String = (0..count).map(|n| event(&json!({"type": "response.content_part.added", "output_index": 0, "item_id": "m", "content_index": n,
                "part": {"type": "output_text", "text": "", "annotations": []}})) + &event(&json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "content_index": n, "delta": "a"}))).collect();
            event(
                &json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "message", "role": "assistant", "content": []}}),
            ) + &parts
        },
        work: work::read_relay,
    },
    Series {
        name: "one end of text again and again of a relayed answer",
        size: 20,
        make: |count| {
            let text = "a".repeat(20 * count);
            let end = event(
                &json!({"type": "response.output_text.done", "output_index": 0, "item_id": "m", "content_index": 0, "text": "a"}),
            );
            event(
                &json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "message", "role": "assistant", "content": []}}),
            ) + &event(
                &json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "content_index": 0, "delta": text}),
            ) + &end.repeat(count)
        },
        work: work::read_relay,
    },
    Series {
        name: "keys of a configuration",
        size: 20,
        make: |count| {
            (0..count).fold("[routing.aliases]\n".to_owned(), |text, n| {
                text + &format!("a{n} = \"x/y\"\n")
            })
        },
        work: work::configure,
    },
    Series {
        name: "fields of compared turns",
        size: 50,
        make: |count| {
            json!({"messages": numbered(count, |n| json!({"role": "user", "content": format!("{n}")}))}).to_string()
        },
        work: work::compare_turns,
    },
    Series {
        name: "events of compared turns",
        size: 20,
        make: |count| chat_chunks(count, |n| json!({"content": format!("{n}")})),
        work: work::compare_turns,
    },
    Series {
        name: "paragraphs of a page",
        size: 200,
        make: |count| "<p>Some words, a <a href=/x>link</a>, and an end.</p>".repeat(count),
        work: work::read_page,
    },
    Series {
        name: "paragraphs deep in a page",
        size: 200,
        make: |count| {
            let paragraphs = "<p>Some words, a comma, and an end.</p>".repeat(count);
            format!("{}{paragraphs}", "<div class=content>".repeat(20))
        },
        work: work::read_page,
    },
    Series {
        name: "links of a page",
        size: 400,
        make: |count| format!("<ul>{}", "<li><a href=/x>a link</a>".repeat(count)),
        work: work::read_page,
    },
    Series {
        name: "line breaks of a page",
        size: 400,
        make: |count| "word, word<br><br> word<br>".repeat(count),
        work: work::read_page,
    },
    Series {
        name: "bold text without ends of a page",
        size: 400,
        make: |count| "<p>word, <b>word</p>".repeat(count),
        work: work::read_page,
    },
    Series {
        name: "cells of a page",
        size: 200,
        make: |count| format!("<table>{}", "<tr><td>words<td>more | words".repeat(count)),
        work: work::read_page,
    },
    Series {
        name: "frames of a page",
        size: 200,
        make: |count| {
            let frame = format!("{}frame words", "<aside class=menu>".repeat(8));
            let frame = format!("<div>{frame}{}</div>", "</aside>".repeat(8));
            format!(
                "{}{}",
                frame.repeat(count),
                "<p>content, words</p>".repeat(count)
            )
        },
        work: work::read_page,
    },
    Series {
        name: "one line of a page",
        size: 2_000,
        make: |count| format!("<main>{}", "word".repeat(count)),
        work: work::read_page,
    },
];
