//! The forms in which a hostile text arrives: what it is wrapped in, and what is done with it.

use serde_json::json;

use super::inputs::{
    chat_call, chat_deltas, relay_call, relay_text, with_asked_output, with_messages, with_output,
    with_tools,
};
use super::work;
use crate::targets::pack_entries;

/// How a text becomes an input.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) wrap: fn(&str) -> Vec<u8>,
    pub(super) work: fn(&[u8]),
}

const KB: usize = 1 << 10;

/// All forms.
pub(super) const FORMS: &[Form] = &[
    Form {
        name: "request that is this text",
        size: 2 * KB,
        wrap: |text| text.into(),
        work: work::answer_chat,
    },
    Form {
        name: "tool output",
        size: 8 * KB,
        wrap: |text| with_output(text),
        work: work::answer_chat,
    },
    Form {
        name: "tool output that is a page",
        size: 8 * KB,
        wrap: |text| with_output(&format!("<html><body><p>{text}</p></body></html>")),
        work: work::answer_chat,
    },
    Form {
        name: "tool output that is JSON",
        size: 8 * KB,
        wrap: |text| with_output(&json!({"rows": [{"text": text}], "n": 1}).to_string()),
        work: work::answer_chat,
    },
    Form {
        name: "tool output that is a table",
        size: 8 * KB,
        wrap: |text| with_output(&format!("{}{text}", "a,1,b\n".repeat(6))),
        work: work::answer_chat,
    },
    Form {
        name: "tool output after a message and a call with the same text",
        size: 8 * KB,
        wrap: |text| with_asked_output(text),
        work: work::answer_chat,
    },
    Form {
        name: "tool output of a command",
        size: 8 * KB,
        wrap: |text| {
            with_output(&format!(
                "Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 1\nOutput:\n{text}"
            ))
        },
        work: work::answer_chat,
    },
    Form {
        name: "messages, reasoning and arguments",
        size: 2 * KB,
        wrap: with_messages,
        work: work::answer,
    },
    Form {
        name: "summary of messages and outputs",
        size: 4 * KB,
        wrap: with_messages,
        work: work::summary,
    },
    Form {
        name: "names and descriptions of tools",
        size: 2 * KB,
        wrap: with_tools,
        work: work::answer,
    },
    Form {
        name: "summary that a model wrote",
        size: 4 * KB,
        wrap: |text| format!("<summary>{text}</summary>").into(),
        work: work::judge_summary,
    },
    Form {
        name: "chat answer that is this text",
        size: 4 * KB,
        wrap: |text| text.into(),
        work: work::read_chat,
    },
    Form {
        name: "chat text in small deltas",
        size: 2 * KB,
        wrap: |text| chat_deltas(text, |part| json!({"content": part})),
        work: work::read_chat,
    },
    Form {
        name: "chat reasoning in small deltas",
        size: KB,
        wrap: |text| chat_deltas(text, |part| json!({"reasoning_content": part})),
        work: work::read_chat,
    },
    Form {
        name: "chat arguments in small deltas",
        size: 2 * KB,
        wrap: |text| chat_call(text, "read"),
        work: work::read_chat,
    },
    Form {
        name: "chat arguments of a custom tool in small deltas",
        size: 2 * KB,
        wrap: |text| chat_call(&format!("{{\"input\":\"*** Begin Patch\\n{text}"), "edit"),
        work: work::read_chat,
    },
    Form {
        name: "relayed text in small deltas",
        size: KB,
        wrap: relay_text,
        work: work::read_relay,
    },
    Form {
        name: "relayed arguments in small deltas",
        size: KB,
        wrap: relay_call,
        work: work::read_relay,
    },
    Form {
        name: "server-sent events",
        size: 4 * KB,
        wrap: |text| text.into(),
        work: work::sse,
    },
    Form {
        name: "error that is this text",
        size: 4 * KB,
        wrap: |text| text.into(),
        work: work::provider_error,
    },
    Form {
        name: "message of an error",
        size: 4 * KB,
        wrap: |text| json!({"error": {"message": text}}).to_string().into(),
        work: work::provider_error,
    },
    Form {
        name: "redacted text",
        size: 4 * KB,
        wrap: |text| text.into(),
        work: work::redact,
    },
    Form {
        name: "redacted body",
        size: 2 * KB,
        wrap: |text| text.into(),
        work: work::scrub,
    },
    Form {
        name: "redacted stream",
        size: 2 * KB,
        wrap: |text| chat_deltas(text, |part| json!({"content": part})),
        work: work::scrub,
    },
    Form {
        name: "searched artifact",
        size: 8 * KB,
        wrap: |text| text.into(),
        work: work::search_artifact,
    },
    Form {
        name: "compared turns",
        size: 2 * KB,
        wrap: |text| text.into(),
        work: work::compare_turns,
    },
    Form {
        name: "compared turns with JSON bodies",
        size: 2 * KB,
        wrap: |text| json!({"messages": [{"content": text}]}).to_string().into(),
        work: work::compare_turns,
    },
    Form {
        name: "unpacked bundle",
        size: 8 * KB,
        wrap: |text| pack_entries(&[("bundle.json", MANIFEST), ("turns/1/turn.json", text)]),
        work: work::unpack,
    },
    Form {
        name: "configuration that is this text",
        size: 2 * KB,
        wrap: |text| text.into(),
        work: work::configure,
    },
    Form {
        name: "value of a configuration",
        size: 2 * KB,
        wrap: |text| format!("[routing.aliases]\na = {}\n", json!(text)).into(),
        work: work::configure,
    },
];

/// The manifest of a bundle with one turn.
const MANIFEST: &str = r#"{"format":"respondent-bundle","version":2,"made_by":"0","images":false,"encrypted":false,"turns":1}"#;
