//! A session of Codex, and its compaction at each door.
use std::fmt::Write as _;

use adapters::compaction_blob::CompactionBlob;
use kit::player::{
    Player, PlayerScript, RecordedRequest, RefusalRule, ScriptedAnswer, ScriptedRefusal,
};
use kit::strict;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::faults::answer;
use crate::proxy::{Proxy, Reply, streaming};

/// A good summary.
pub const SUMMARY: &str = "The user wants the parser fixed. Read src/parse.rs (done), found that line 40 loses the last byte. Next: mend it, then run the tests.";

/// What Codex puts before a summary of its own.
const CODEX_PREFIX: &str = "Another language model started to solve this problem and produced a summary of its thinking process.";

const CODEX_PROMPT: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task.";

const TURN: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("thread-id", "thread-1"),
    ("x-codex-turn-metadata", r#"{"request_kind":"turn"}"#),
];

const COMPACTION: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("thread-id", "thread-1"),
    ("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#),
];

/// Where a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Endpoint,
    Trigger,
    /// Without events.
    WholeTrigger,
    Local,
}

pub const DOORS: [Door; 4] = [
    Door::Endpoint,
    Door::Trigger,
    Door::WholeTrigger,
    Door::Local,
];

/// A session: everything that was said so far.
#[derive(Clone)]
pub struct Session {
    pub items: Vec<Value>,
}

/// What came of a compaction.
pub struct Compacted {
    pub reply: Reply,
    /// What the client puts in the place of its history.
    pub items: Vec<Value>,
    /// What the summary says.
    pub summary: String,
    pub usage: Value,
}

impl Session {
    /// Rounds of calls with outputs of so many bytes.
    pub fn of(rounds: usize, bytes: usize) -> Self {
        let mut items = vec![
            json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are a coding agent."}]}),
            user("Fix the parser."),
        ];
        for round in 0..rounds {
            let id = format!("call_{round}");
            items.push(json!({"type": "function_call", "call_id": id, "name": "exec_command", "arguments": "{\"cmd\":\"cat src/parse.rs\"}"}));
            items.push(json!({"type": "function_call_output", "call_id": id, "output": output(round, bytes)}));
        }
        Self { items }
    }

    /// An ordinary turn of it.
    pub async fn turn(&self, proxy: &Proxy) -> Value {
        let body = streaming(&request(&self.items));
        let stream = proxy.post_with(&body, TURN).await.stream_for_codex();
        assert_eq!(stream.terminal, "response.completed");
        stream.response
    }

    /// Asks for a compaction, as Codex does at this door.
    pub async fn compact(&self, proxy: &Proxy, door: Door) -> Compacted {
        let body = request(&self.items);
        match door {
            Door::Endpoint => {
                let mut body = body;
                for absent in ["store", "tool_choice", "reasoning"] {
                    body.as_object_mut().unwrap().remove(absent);
                }
                let reply = proxy
                    .post_at("/v1/responses/compact", &body, COMPACTION)
                    .await;
                assert_eq!(reply.status, 200, "{reply:?}");
                let answer: Value = serde_json::from_str(&reply.body).unwrap();
                assert_eq!(answer["object"], "response.compaction");
                assert!(answer["id"].as_str().unwrap().starts_with("resp_"));
                let items = answer["output"].as_array().unwrap().clone();
                let (item, users) = items.split_last().unwrap();
                assert!(users == self.users(), "all user messages come back");
                Compacted {
                    summary: summary(item),
                    usage: answer["usage"].clone(),
                    items,
                    reply,
                }
            }
            Door::Trigger | Door::WholeTrigger => {
                let mut items = self.items.clone();
                items.push(json!({"type": "compaction_trigger"}));
                let body = request(&items);
                let (reply, response) = if door == Door::Trigger {
                    let reply = proxy.post_with(&streaming(&body), COMPACTION).await;
                    let stream = reply.stream_for_codex();
                    assert_eq!(stream.terminal, "response.completed");
                    (reply, stream.response)
                } else {
                    let reply = proxy.post_with(&body, COMPACTION).await;
                    let response = strict::check_response_or_panic(&reply.body);
                    (reply, response)
                };
                let output = response["output"].as_array().unwrap();
                assert_eq!(output.len(), 1, "exactly one item: {response}");
                let mut items = self.users();
                items.push(output[0].clone());
                Compacted {
                    summary: summary(&output[0]),
                    usage: response["usage"].clone(),
                    items,
                    reply,
                }
            }
            Door::Local => {
                let mut items = self.items.clone();
                items.push(user(CODEX_PROMPT));
                let mut body = streaming(&request(&items));
                body["tools"] = json!([]);
                let reply = proxy.post_with(&body, COMPACTION).await;
                let stream = reply.stream_for_codex();
                assert_eq!(stream.terminal, "response.completed");
                let output = stream.response["output"].as_array().unwrap();
                assert_eq!(output.len(), 1, "one message: {}", stream.response);
                let text = stream.text();
                let mut items = self.users();
                items.push(user(&format!("{CODEX_PREFIX}\n{text}")));
                // The outputs that can be read again stand behind it.
                let summary = text.split_once("\n\nTool outputs of that part");
                let summary = summary.map_or(text.as_str(), |(summary, _)| summary);
                let summary = summary.to_owned();
                Compacted {
                    usage: stream.response["usage"].clone(),
                    summary,
                    items,
                    reply,
                }
            }
        }
    }

    /// The session behind a compaction, with a new wish.
    pub fn behind(compacted: &Compacted) -> Self {
        let mut items = compacted.items.clone();
        items.push(user("Now the tests."));
        Self { items }
    }

    fn users(&self) -> Vec<Value> {
        let users = self.items.iter().filter(|item| item["role"] == "user");
        users.cloned().collect()
    }
}

pub fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// A request as Codex makes it.
pub fn request(items: &[Value]) -> Value {
    let command = json!({"type": "function", "name": "exec_command", "description": "Runs a command.", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}});
    json!({
        "model": "m", "input": items, "tools": [command], "tool_choice": "auto",
        "reasoning": {"effort": "high", "summary": "auto"}, "store": false, "prompt_cache_key": "thread-1",
    })
}

/// Text of so many bytes that is different in each round.
fn output(round: usize, bytes: usize) -> String {
    let mut text = String::new();
    let mut line = 0;
    while text.len() < bytes {
        let _ = writeln!(text, "{round}:{line} let byte = input.next(); // parse.rs");
        line += 1;
    }
    text.truncate(bytes);
    text
}

/// What a compaction item of ours says.
fn summary(item: &Value) -> String {
    assert_eq!(item["type"], "compaction");
    assert!(item["id"].as_str().unwrap().starts_with("cmp_"));
    let blob = item["encrypted_content"].as_str().unwrap();
    CompactionBlob::open(blob).unwrap().summary
}

/// The messages of an upstream request, as their bytes.
pub fn messages(sent: &RecordedRequest) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let body: Body<'_> = serde_json::from_str(&sent.body).unwrap();
    body.messages
        .iter()
        .map(|message| message.get().to_owned())
        .collect()
}

/// Refuses what has more tokens than the window, at 2.7 bytes a token.
pub async fn counting(window: u64) -> Player {
    let refuse = vec![ScriptedRefusal {
        rule: RefusalRule::DenseWindow(window),
        status: None,
        message: None,
        json: None,
    }];
    let answers = vec![ScriptedAnswer {
        repeat: true,
        ..answer(json!([{"text": SUMMARY}]))
    }];
    Player::start(PlayerScript {
        refuse,
        answers,
        ..PlayerScript::default()
    })
    .await
    .unwrap()
}
