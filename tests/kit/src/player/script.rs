//! The script of a player: answers that are chosen by the request, each a list of steps.
//!
//! It is read from JSON by the program of the kit and by many tests; the names of fields and
//! variants are its keys.

use super::dialect::ChatDialect;
use super::http::PlayerRequest;
use super::refusal::ScriptedRefusal;
use super::reply;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A script: answers in order. Each is used once unless it repeats.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlayerScript {
    /// The only wire that is spoken; both if absent. One that speaks Responses alone also refuses
    /// what OpenAI refuses.
    pub wire: Option<PlayerWire>,
    /// The models that `GET /v1/models` lists; `scripted` alone if empty.
    pub models: Vec<String>,
    /// The answer of `GET /v1/models` instead.
    pub model_list: Option<Value>,
    /// Its further pages, by a text that only the address of the page has.
    pub model_pages: BTreeMap<String, Value>,
    /// The path below which everything is, such as `/api/v1`; anything else is answered with 404.
    /// Any path if absent.
    pub base_path: Option<String>,
    /// The header, in small letters, without which every request is refused, and its value.
    pub key: Option<(String, String)>,
    /// Whether the models are listed without the key.
    pub public_list: bool,
    /// The first unused or repeating answer whose condition matches is played.
    pub answers: Vec<ScriptedAnswer>,
    /// The dialect of every answer that has none of its own.
    pub dialect: ChatDialect,
    /// Requests that are refused before an answer is chosen.
    pub refuse: Vec<ScriptedRefusal>,
}

/// A wire that a player speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlayerWire {
    /// Chat Completions
    Chat,
    /// The Responses API
    Responses,
}

impl PlayerWire {
    /// Every wire.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Responses];

    /// The name of the wire in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// Whether a request is one of this wire.
    pub(super) fn is_of(self, request: &PlayerRequest) -> bool {
        request.is_responses() == (self == Self::Responses)
    }
}

/// One reply: a plain body, or steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedAnswer {
    /// The requests that get this answer.
    pub when: RequestCondition,
    /// Whether the answer stays available after use.
    pub repeat: bool,
    /// Status of the reply.
    pub status: u16,
    /// Headers of the reply. A `content-length` replaces the true one, and the connection is closed
    /// after the reply.
    pub headers: BTreeMap<String, String>,
    /// A plain text body.
    pub body: Option<String>,
    /// A JSON body.
    pub json: Option<Value>,
    /// Whether the head waits at the gate.
    pub gated: bool,
    /// Milliseconds to wait before the head.
    pub head_delay_ms: u64,
    /// Size in bytes of the writes of a streamed body; with 0 each step is one write.
    pub split: usize,
    /// Milliseconds to wait between two steps.
    pub gap_ms: u64,
    /// The streamed body; composed into one completion if the request does not ask for a stream.
    pub steps: Vec<ScriptStep>,
    /// The dialect of the steps; that of the script if absent.
    pub dialect: Option<ChatDialect>,
}

impl Default for ScriptedAnswer {
    fn default() -> Self {
        Self {
            when: RequestCondition::default(),
            repeat: false,
            status: 200,
            headers: BTreeMap::new(),
            body: None,
            json: None,
            gated: false,
            head_delay_ms: 0,
            split: 0,
            gap_ms: 0,
            steps: Vec::new(),
            dialect: None,
        }
    }
}

impl ScriptedAnswer {
    /// An answer of these steps, with status 200.
    pub fn steps(steps: impl Into<Vec<ScriptStep>>) -> Self {
        Self {
            steps: steps.into(),
            ..Self::default()
        }
    }

    /// An error with this status and a body in OpenAI's form.
    pub fn error(status: u16, message: &str) -> Self {
        let json = serde_json::json!({"error": {
            "message": message, "type": "server_error", "param": null, "code": null,
        }});
        Self {
            status,
            json: Some(json),
            ..Self::default()
        }
    }

    /// Leaves out reasoning, and what counts it.
    pub(super) fn leave_out_reasoning(&mut self) {
        self.steps
            .retain(|step| !matches!(step, ScriptStep::Reasoning(_)));
        for step in &mut self.steps {
            if let ScriptStep::Usage(counts) = step {
                counts.remove("completion_tokens_details");
                counts.remove("total_tokens");
            }
        }
    }

    /// Whether the reply has so many steps that no client waits for its end.
    pub(super) fn is_endless(&self) -> bool {
        reply::has_more_steps_than(self, 100_000)
    }

    /// The body of the reply to this request, up to a stall or a cut.
    pub fn body_for(&self, request: &PlayerRequest) -> String {
        reply::render_body(self, request)
    }
}

/// Conditions on a request. All of them must hold; one that is absent always does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestCondition {
    /// Role of the last message.
    pub last_role: Option<String>,
    /// Text in the last message.
    pub last_contains: Option<String>,
    /// Name of an offered function.
    pub tool_offered: Option<String>,
    /// Text in the raw body.
    pub body_contains: Option<String>,
    /// Whether the request asks for a stream.
    pub stream: Option<bool>,
}

impl RequestCondition {
    /// Whether every condition holds.
    pub fn matches(&self, request: &PlayerRequest) -> bool {
        let is =
            |want: &Option<String>, test: &dyn Fn(&str) -> bool| want.as_deref().is_none_or(test);
        is(&self.last_role, &|role| request.last_role() == Some(role))
            && is(&self.last_contains, &|text| {
                request.last_text().contains(text)
            })
            && is(&self.tool_offered, &|name| request.tool(name).is_some())
            && is(&self.body_contains, &|text| request.body.contains(text))
            && self.stream.is_none_or(|stream| request.streams() == stream)
    }
}

/// One thing to send or do. In JSON an object with one key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptStep {
    /// A content delta.
    Text(String),
    /// A `reasoning_content` delta.
    Reasoning(String),
    /// A refusal delta.
    Refusal(String),
    /// A tool call: its id and name, then its arguments.
    Call(ScriptedCall),
    /// A fragment of arguments without id and name.
    Args(ArgumentFragment),
    /// The usage chunk, sent only if the request asks for it. Without an explicit end of the script
    /// it is sent at the end.
    Usage(Map<String, Value>),
    /// A chunk with this finish_reason.
    Finish(String),
    /// A data event `{"error": …}`.
    Error(Value),
    /// `data: [DONE]`.
    Done(bool),
    /// These bytes. Any raw step, even an empty one, is an explicit end: no finish reason and no
    /// `[DONE]` are added.
    Raw(String),
    /// A data event with this JSON.
    Chunk(Value),
    /// An event that says nothing: a chunk without choices, or `response.in_progress`.
    Nothing(bool),
    /// Waits until a test calls `Player::open_gate`.
    Gate(bool),
    /// A pause.
    DelayMs(u64),
    /// The connection stays open, and nothing more is sent.
    Stall(bool),
    /// The connection is closed in the middle of the body.
    Cut(ConnectionCut),
    /// Steps that are repeated.
    Repeat(RepeatedSteps),
}

/// A tool call of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Index among the calls; the next one if absent.
    #[serde(default)]
    pub index: Option<u64>,
    /// The call's id; without one the key is left out.
    #[serde(default)]
    pub id: Option<String>,
    /// Name of the function.
    pub name: String,
    /// Arguments as text, normally JSON.
    #[serde(default)]
    pub arguments: String,
    /// The number of fragments in which the arguments are sent, split between characters.
    #[serde(default = "one")]
    pub pieces: usize,
    /// Opaque content that the provider wants back with the call, such as a signature.
    #[serde(default)]
    pub extra_content: Option<Value>,
}

fn one() -> usize {
    1
}

/// A fragment of a call's arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentFragment {
    /// Index of the call.
    pub index: u64,
    /// The fragment.
    pub text: String,
}

/// How a connection is closed early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionCut {
    /// With a FIN, before the end of the body.
    Fin,
    /// With a reset.
    Rst,
}

/// Steps that are repeated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatedSteps {
    /// The number of repetitions.
    pub times: u64,
    /// The steps.
    pub steps: Vec<ScriptStep>,
}

/// Whether the steps say how the stream ends; otherwise finish reason, usage and `[DONE]` are
/// added.
pub(super) fn has_explicit_end(steps: &[ScriptStep]) -> bool {
    steps.iter().any(|step| match step {
        ScriptStep::Finish(_)
        | ScriptStep::Error(_)
        | ScriptStep::Done(_)
        | ScriptStep::Raw(_)
        | ScriptStep::Stall(_)
        | ScriptStep::Cut(_) => true,
        ScriptStep::Repeat(repeat) => has_explicit_end(&repeat.steps),
        ScriptStep::Text(_)
        | ScriptStep::Reasoning(_)
        | ScriptStep::Refusal(_)
        | ScriptStep::Call(_)
        | ScriptStep::Args(_)
        | ScriptStep::Usage(_)
        | ScriptStep::Chunk(_)
        | ScriptStep::Nothing(_)
        | ScriptStep::Gate(_)
        | ScriptStep::DelayMs(_) => false,
    })
}
