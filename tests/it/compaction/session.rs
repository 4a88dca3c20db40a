//! A session of Codex and its compaction by each method.
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

/// Codex puts this before a summary that it made with its own prompt.
const CODEX_PREFIX: &str = "Another language model started to solve this problem and produced a summary of its thinking process.";

const CODEX_PROMPT: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task.";

/// The headers of an ordinary turn.
const TURN_HEADERS: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("thread-id", "thread-1"),
    ("x-codex-turn-metadata", r#"{"request_kind":"turn"}"#),
];

/// The headers of a request for a compaction.
const COMPACTION_HEADERS: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("thread-id", "thread-1"),
    ("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#),
];

/// The ways in which a client can ask for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionMethod {
    /// `POST /v1/responses/compact`.
    Endpoint,
    /// A turn that ends with a `compaction_trigger` item.
    TriggerItem,
    /// The same without streaming.
    TriggerItemUnstreamed,
    /// A turn with Codex's own prompt for a summary.
    LocalPrompt,
}

pub const METHODS: [CompactionMethod; 4] = [
    CompactionMethod::Endpoint,
    CompactionMethod::TriggerItem,
    CompactionMethod::TriggerItemUnstreamed,
    CompactionMethod::LocalPrompt,
];

/// A session with its whole history.
#[derive(Clone)]
pub struct Session {
    pub items: Vec<Value>,
}

/// The result of a compaction.
pub struct Compacted {
    pub reply: Reply,
    /// The items with which the client replaces its history.
    pub items: Vec<Value>,
    /// The text of the summary.
    pub summary: String,
    pub usage: Value,
}

impl Session {
    /// A session with this number of tool rounds, each with an output of `bytes` bytes.
    pub fn with_tool_rounds(rounds: usize, bytes: usize) -> Self {
        let mut items = vec![
            json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are a coding agent."}]}),
            user_message("Fix the parser."),
        ];
        for round in 0..rounds {
            let id = format!("call_{round}");
            items.push(json!({"type": "function_call", "call_id": id, "name": "exec_command", "arguments": "{\"cmd\":\"cat src/parse.rs\"}"}));
            items.push(json!({"type": "function_call_output", "call_id": id, "output": tool_output(round, bytes)}));
        }
        Self { items }
    }

    /// Sends an ordinary turn of the session.
    pub async fn turn(&self, proxy: &Proxy) -> Value {
        let body = streaming(&request(&self.items));
        let stream = proxy
            .post_with(&body, TURN_HEADERS)
            .await
            .stream_for_codex();
        assert_eq!(stream.terminal, "response.completed");
        stream.response
    }

    /// Asks for a compaction in the way that Codex does.
    pub async fn compact(&self, proxy: &Proxy, method: CompactionMethod) -> Compacted {
        let body = request(&self.items);
        match method {
            CompactionMethod::Endpoint => {
                let mut body = body;
                for absent in ["store", "tool_choice", "reasoning"] {
                    body.as_object_mut().unwrap().remove(absent);
                }
                let reply = proxy
                    .post_to("/v1/responses/compact", &body, COMPACTION_HEADERS)
                    .await;
                assert_eq!(reply.status, 200, "{reply:?}");
                let answer = strict::check_compaction(&reply.body).unwrap();
                let items = answer["output"].as_array().unwrap().clone();
                let (item, user_messages) = items.split_last().unwrap();
                let contents = |messages: &[Value]| -> Vec<Value> {
                    let contents = messages.iter().map(|message| &message["content"]);
                    contents.cloned().collect()
                };
                assert!(
                    contents(user_messages) == contents(&self.user_messages()),
                    "all user messages are returned"
                );
                Compacted {
                    summary: summary_of_item(item),
                    usage: answer["usage"].clone(),
                    items,
                    reply,
                }
            }
            CompactionMethod::TriggerItem | CompactionMethod::TriggerItemUnstreamed => {
                let mut items = self.items.clone();
                items.push(json!({"type": "compaction_trigger"}));
                let body = request(&items);
                let (reply, response) = if method == CompactionMethod::TriggerItem {
                    let reply = proxy.post_with(&streaming(&body), COMPACTION_HEADERS).await;
                    let stream = reply.stream_for_codex();
                    assert_eq!(stream.terminal, "response.completed");
                    (reply, stream.response)
                } else {
                    let reply = proxy.post_with(&body, COMPACTION_HEADERS).await;
                    let response = strict::check_response_or_panic(&reply.body);
                    (reply, response)
                };
                let output = response["output"].as_array().unwrap();
                assert_eq!(output.len(), 1, "exactly one item: {response}");
                let mut items = self.user_messages();
                items.push(output[0].clone());
                Compacted {
                    summary: summary_of_item(&output[0]),
                    usage: response["usage"].clone(),
                    items,
                    reply,
                }
            }
            CompactionMethod::LocalPrompt => {
                let mut items = self.items.clone();
                items.push(user_message(CODEX_PROMPT));
                let mut body = streaming(&request(&items));
                body["tools"] = json!([]);
                let reply = proxy.post_with(&body, COMPACTION_HEADERS).await;
                let stream = reply.stream_for_codex();
                assert_eq!(stream.terminal, "response.completed");
                let output = stream.response["output"].as_array().unwrap();
                assert_eq!(output.len(), 1, "one message: {}", stream.response);
                let text = stream.text();
                let mut items = self.user_messages();
                items.push(user_message(&format!("{CODEX_PREFIX}\n{text}")));
                // The list of stored outputs follows the summary.
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

    /// The session after a compaction, with a new user message.
    pub fn after_compaction(compacted: &Compacted) -> Self {
        let mut items = compacted.items.clone();
        items.push(user_message("Now the tests."));
        Self { items }
    }

    fn user_messages(&self) -> Vec<Value> {
        let users = self.items.iter().filter(|item| item["role"] == "user");
        users.cloned().collect()
    }
}

pub fn user_message(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// A request in the form that Codex sends.
pub fn request(items: &[Value]) -> Value {
    let command = json!({"type": "function", "name": "exec_command", "description": "Runs a command.", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}});
    json!({
        "model": "m", "input": items, "tools": [command], "tool_choice": "auto",
        "reasoning": {"effort": "high", "summary": "auto"}, "store": false, "prompt_cache_key": "thread-1",
    })
}

/// A text of `bytes` bytes that is different in each round.
fn tool_output(round: usize, bytes: usize) -> String {
    let mut text = String::new();
    let mut line = 0;
    while text.len() < bytes {
        let _ = writeln!(text, "{round}:{line} let byte = input.next(); // parse.rs");
        line += 1;
    }
    text.truncate(bytes);
    text
}

/// The summary in a compaction item that Respondent made.
fn summary_of_item(item: &Value) -> String {
    assert_eq!(item["type"], "compaction");
    assert!(item["id"].as_str().unwrap().starts_with("cmp_"));
    let blob = item["encrypted_content"].as_str().unwrap();
    CompactionBlob::open(blob).unwrap().summary
}

/// The messages of an upstream request as raw JSON.
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

/// A player that refuses requests with more tokens than the window, counting 2.7 bytes a token.
pub async fn player_with_window(window: u64) -> Player {
    let refuse = vec![ScriptedRefusal::new(RefusalRule::DenseWindow(window))];
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
