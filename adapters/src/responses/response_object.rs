//! The response object: the 31 keys that every lifecycle event (`response.created`,
//! `response.completed` and so on) and a non-streamed answer contain. Open Responses requires
//! all of them and says which may be null.

use std::fmt::Display;

use bytes::Bytes;
use registry::{EnumSet, RelayToolKind};
use serde_json::json;
use strum::IntoStaticStr;

use super::echo;
use super::event_buffer::EventBuffer;
use super::prompt_cache::{PromptCacheDiagnostics, RemovedReasoning};
use crate::event::Usage;
use crate::json;
use crate::turn::{Continuation, Turn};

/// A response of the Responses API, as data.
///
/// Made with an answer, from the request whose parameters it repeats. The assembler owns it and
/// changes the fields from `status` to `usage`; after the terminal event it is final.
#[derive(Clone, Debug)]
pub struct ResponseObject {
    /// The response id: `resp_` and a token.
    pub id: String,
    /// Creation time in Unix seconds.
    pub created_at: u64,
    /// The final status; `None` while the answer is in progress.
    pub status: Option<ResponseStatus>,
    /// The time of completion in Unix seconds; `None` unless the status is `completed`.
    pub completed_at: Option<u64>,
    /// Why the response failed.
    pub error: Option<ResponseError>,
    /// Why the response is incomplete.
    pub incomplete_details: Option<IncompleteReason>,
    /// The finished items.
    pub output: OutputItems,
    /// The token counts, once the answer has ended.
    pub usage: Option<Usage>,
    /// How the prompt compares with that of the response that the client named.
    pub cache_diagnostics: Option<PromptCacheDiagnostics>,
    /// The reasoning that the model did not get.
    pub removed_reasoning: Vec<RemovedReasoning>,
    /// Whether it is stored.
    pub store: bool,
    /// Whether it waits for its turn in the background.
    pub is_queued: bool,
    /// What became of the nodes of its workflow, if it runs one, as JSON.
    pub workflow_state: Option<Box<str>>,
    background: bool,
    continues: Option<Continuation>,
    /// The prompt template that was filled in, as JSON.
    prompt: Option<Box<str>>,
    /// The members from `instructions` to `metadata`, which repeat the request, in three pieces of
    /// JSON behind a comma.
    parameters: [Vec<u8>; 3],
}

/// The final status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ResponseStatus {
    /// The answer is complete: `response.completed`.
    Completed,
    /// The output limit or a content filter ended it: `response.incomplete`.
    Incomplete,
    /// The answer broke off: `response.failed`.
    Failed,
    /// The client cancelled the answer, which ran in the background: `response.incomplete`. The
    /// API has no event for it.
    Cancelled,
}

/// Why a response failed: its `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseError {
    /// The error code, which clients compare.
    pub code: &'static str,
    /// The message for the user.
    pub message: String,
}

/// Why a response is incomplete: the `reason` in its `incomplete_details`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum IncompleteReason {
    /// `max_output_tokens`: the output limit was reached.
    MaxOutputTokens,
    /// `content_filter`: the provider cut the answer off.
    ContentFilter,
}

/// The JSON of a response without the items of its output, see [`ResponseObject::pieces`].
#[derive(Clone, Debug)]
pub struct ResponsePieces {
    /// Ends with the bracket that begins the output.
    pub head: Vec<u8>,
    /// The pieces about this response; the first begins with the bracket that ends the output.
    pub own: [Vec<u8>; 3],
    /// The pieces that repeat the request.
    pub repeated: [Vec<u8>; 3],
}

/// The finished items of a response, as they were sent.
#[derive(Clone, Debug, Default)]
pub struct OutputItems(Vec<(String, Bytes)>);

impl ResponseObject {
    /// The response to `turn` at its beginning, with the defaults of the API for parameters that
    /// the client did not send. `created_at` is in Unix seconds.
    /// The tools of the kinds `relayed` run at the upstream.
    pub fn new(
        turn: &Turn<'_>,
        id: &str,
        created_at: u64,
        relayed: EnumSet<RelayToolKind>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            created_at,
            status: None,
            completed_at: None,
            error: None,
            incomplete_details: None,
            output: OutputItems::default(),
            usage: None,
            cache_diagnostics: None,
            removed_reasoning: Vec::new(),
            store: false,
            is_queued: false,
            workflow_state: None,
            background: turn.background,
            continues: turn.continues.clone(),
            prompt: turn.echo.prompt.map(|prompt| prompt.get().into()),
            parameters: echo::parameters(turn, relayed),
        }
    }

    /// The response to a request that could not be read, with the defaults of the API for all
    /// parameters.
    pub(super) fn without_request(id: &str, created_at: u64) -> Self {
        let turn = Turn {
            model: "unknown".into(),
            ..Turn::default()
        };
        Self::new(&turn, id, created_at, EnumSet::empty())
    }

    /// Appends the response object as JSON on one line.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        self.push_head(out);
        for (at, (_, item)) in self.output.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item);
        }
        self.push_rest(out);
    }

    /// Appends the response object to the event that was begun last. Large items are not copied.
    pub(super) fn push_to(&self, events: &mut EventBuffer) {
        self.push_head(events.open_bytes());
        for (at, (_, item)) in self.output.0.iter().enumerate() {
            if at > 0 {
                events.open_bytes().push(b',');
            }
            events.push_shared(item);
        }
        self.push_rest(events.open_bytes());
    }

    /// Appends what follows the items.
    fn push_rest(&self, out: &mut Vec<u8>) {
        for (own, repeated) in self.own_pieces().iter().zip(&self.parameters) {
            out.extend_from_slice(own);
            out.extend_from_slice(repeated);
        }
        out.push(b'}');
    }

    /// The JSON of the response without the items of its output: what is before them, then by
    /// turns a piece about this response and one that repeats the request. The latter are the same
    /// for all requests with the same parameters. A brace ends the whole.
    pub fn pieces(&self) -> ResponsePieces {
        let mut head = Vec::new();
        self.push_head(&mut head);
        ResponsePieces {
            head,
            own: self.own_pieces(),
            repeated: self.parameters.clone(),
        }
    }

    /// What follows the items of the output and is about this response.
    fn own_pieces(&self) -> [Vec<u8>; 3] {
        let mut pieces = [Vec::new(), Vec::new(), Vec::new()];
        let [usage, origin, keeping] = &mut pieces;
        self.push_usage_piece(usage);
        let previous = match &self.continues {
            Some(Continuation::Response(id)) => Some(id),
            Some(Continuation::Conversation(_)) | None => None,
        };
        json::field(origin, "previous_response_id", &previous);
        if let Some(Continuation::Conversation(id)) = &self.continues {
            json::field(origin, "conversation", &json!({"id": id}));
        }
        if let Some(prompt) = &self.prompt {
            json::raw_field(origin, "prompt", prompt);
        }
        if let Some(state) = &self.workflow_state {
            json::raw_field(origin, "workflow_state", state);
        }
        json::field(keeping, "store", &self.store);
        json::field(keeping, "background", &self.background);
        pieces
    }

    /// Appends everything up to the bracket that begins the output.
    fn push_head(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        json::field(out, "id", &self.id);
        json::field(out, "object", "response");
        json::field(out, "created_at", &self.created_at);
        let status = match self.status {
            Some(status) => status.name(),
            None if self.is_queued => "queued",
            None => "in_progress",
        };
        json::field(out, "status", status);
        json::field(out, "completed_at", &self.completed_at);
        json::key(out, "error");
        match &self.error {
            None => out.extend_from_slice(b"null"),
            Some(error) => {
                json::push(out, &json!({"code": error.code, "message": error.message}));
            }
        }
        json::key(out, "incomplete_details");
        match self.incomplete_details {
            None => out.extend_from_slice(b"null"),
            Some(reason) => json::push(out, &json!({"reason": <&str>::from(reason)})),
        }
        json::key(out, "output");
        out.push(b'[');
    }

    /// Appends the end of the output and the token counts.
    fn push_usage_piece(&self, out: &mut Vec<u8>) {
        out.push(b']');
        json::key(out, "usage");
        match self.usage {
            None => out.extend_from_slice(b"null"),
            Some(usage) => push_usage(out, usage),
        }
        if let Some(diagnostics) = &self.cache_diagnostics {
            json::field(out, "prompt_cache_diagnostics", diagnostics);
        }
        if !self.removed_reasoning.is_empty() {
            json::field(out, "input_transformations", &self.removed_reasoning);
        }
    }

    /// The id of an item of this response: a prefix for its type (`msg`, `rs`, `fc` and so on),
    /// the token of the response id and the item's index.
    pub(super) fn item_id(&self, prefix: &str, index: u32) -> String {
        item_id(prefix, &self.id, format_args!("{index:02x}"))
    }
}

impl ResponseStatus {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The name of the event with which a response ends in this status.
    pub(super) fn event_name(self) -> &'static str {
        match self {
            Self::Completed => "response.completed",
            Self::Incomplete | Self::Cancelled => "response.incomplete",
            Self::Failed => "response.failed",
        }
    }
}

impl OutputItems {
    /// Adds a finished item.
    pub(super) fn push(&mut self, id: &str, item: Bytes) {
        self.0.push((id.to_owned(), item));
    }

    /// How many items are finished.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the first `items` items only.
    pub(super) fn truncate(&mut self, items: usize) {
        self.0.truncate(items);
    }

    /// The items: id and JSON.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(id, item)| (id.as_str(), &**item))
    }
}

/// The id of an item of the response with this id. As at OpenAI it has only hexadecimal digits
/// behind its prefix, if `index` and the response id have no others.
pub(crate) fn item_id(prefix: &str, response_id: &str, index: impl Display) -> String {
    let parts = response_id.split_once('_');
    let token = parts.map_or(response_id, |(_, token)| token);
    format!("{prefix}_{token}{index}")
}

/// Appends the `usage` of a response. No count is so large that the total would not be the sum.
pub(super) fn push_usage(out: &mut Vec<u8>, usage: Usage) {
    let count = |tokens: u64| tokens.min(u64::MAX / 2);
    let usage = json!({
        "input_tokens": count(usage.input),
        "input_tokens_details": {
            "cached_tokens": count(usage.cached),
            "cache_write_tokens": count(usage.cache_write),
        },
        "output_tokens": count(usage.output),
        "output_tokens_details": {"reasoning_tokens": count(usage.reasoning)},
        "total_tokens": count(usage.input) + count(usage.output),
    });
    json::push(out, &usage);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::responses::request::TurnSource;

    fn response(body: &str) -> ResponseObject {
        let source = TurnSource::new(body.to_owned());
        ResponseObject::new(&source.turn().unwrap(), "resp_1", 7, EnumSet::empty())
    }

    fn read(response: &ResponseObject) -> Value {
        let mut out = Vec::new();
        response.push_json(&mut out);
        assert!(!out.contains(&b'\n'), "a document is one line");
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_response_has_every_key_also_without_parameters() {
        let read = read(&response(r#"{"model":"m","input":"hi"}"#));
        assert_eq!(
            read,
            json!({
                "id": "resp_1", "object": "response", "created_at": 7, "status": "in_progress",
                "completed_at": null, "error": null, "incomplete_details": null, "output": [],
                "usage": null, "instructions": null, "max_output_tokens": null,
                "max_tool_calls": null, "model": "m", "parallel_tool_calls": true,
                "previous_response_id": null, "prompt_cache_key": null,
                "reasoning": {"effort": null, "summary": null}, "safety_identifier": null,
                "service_tier": "default", "store": false, "background": false,
                "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
                "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
                "presence_penalty": 0.0, "frequency_penalty": 0.0, "truncation": "disabled",
                "user": null, "metadata": {},
            })
        );
    }

    #[test]
    fn a_response_repeats_what_the_client_sent() {
        let body = "{\"model\":\"m\",\"input\":\"hi\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}],\"instructions\":\"be\\nkind\",\"temperature\":0.5,\"metadata\":{\n\"k\":\"v\"},\"reasoning\":{\"effort\":\"high\"},\"tool_choice\":\"none\",\"truncation\":\"auto\"}";
        let read = read(&response(body));
        assert_eq!(read["instructions"], "be\nkind");
        assert_eq!(read["temperature"], 0.5);
        assert_eq!(read["metadata"], json!({"k": "v"}));
        assert_eq!(
            read["reasoning"],
            json!({"effort": "high", "summary": null})
        );
        assert_eq!(read["tool_choice"], "none");
        assert_eq!(read["truncation"], "auto");
        assert_eq!(
            read["tools"],
            json!([{
                "type": "function", "name": "f", "parameters": {}, "description": null,
                "strict": null,
            }])
        );
    }

    #[test]
    fn a_response_says_how_it_ended() {
        let mut response = response(r#"{"model":"m","input":"hi"}"#);
        response
            .output
            .push("a", Bytes::from_static(br#"{"id":"a"}"#));
        response
            .output
            .push("b", Bytes::from_static(br#"{"id":"b"}"#));
        response.status = Some(ResponseStatus::Incomplete);
        response.incomplete_details = Some(IncompleteReason::ContentFilter);
        let incomplete = read(&response);
        assert_eq!(incomplete["status"], "incomplete");
        assert_eq!(
            incomplete["incomplete_details"],
            json!({"reason": "content_filter"})
        );
        assert_eq!(incomplete["output"], json!([{"id": "a"}, {"id": "b"}]));
        let items: Vec<_> = response.output.iter().collect();
        assert_eq!(items[1], ("b", br#"{"id":"b"}"#.as_slice()));
        response.status = Some(ResponseStatus::Failed);
        response.error = Some(ResponseError {
            code: "server_error",
            message: "a \"b\"".to_owned(),
        });
        assert_eq!(
            read(&response)["error"],
            json!({"code": "server_error", "message": "a \"b\""})
        );
    }

    #[test]
    fn the_total_is_the_sum_of_any_counts() {
        let usage = Usage {
            input: u64::MAX,
            output: u64::MAX,
            reasoning: u64::MAX,
            ..Usage::default()
        };
        let mut out = Vec::new();
        push_usage(&mut out, usage);
        let read: Value = serde_json::from_slice(&out).unwrap();
        let count = |name: &str| read[name].as_u64().unwrap();
        let sum = count("input_tokens").checked_add(count("output_tokens"));
        assert_eq!(sum, Some(count("total_tokens")));
        assert!(read["output_tokens_details"]["reasoning_tokens"] == read["output_tokens"]);
    }
}
