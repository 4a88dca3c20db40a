//! What the player plays: answers picked by the request, each a list of steps.

use super::dialect::ChatDialect;
use super::http::PlayerRequest;
use super::refusal::ScriptedRefusal;
use super::reply;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Answers in order; one is used once unless it repeats.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlayerScript {
    /// What `GET /v1/models` lists; `scripted` if empty.
    pub models: Vec<String>,
    /// The first unused or repeating answer whose `when` holds is played.
    pub answers: Vec<ScriptedAnswer>,
    /// How every answer is said that does not say it itself.
    pub dialect: ChatDialect,
    /// What is refused, whatever the answers are.
    pub refuse: Vec<ScriptedRefusal>,
}

/// One reply: a plain body, or steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedAnswer {
    /// Conditions on the request; all must hold.
    pub when: RequestCondition,
    /// Stays available after use.
    pub repeat: bool,
    /// Status of the reply.
    pub status: u16,
    /// Headers of the reply. A `content-length` replaces the true one, and the connection closes.
    pub headers: BTreeMap<String, String>,
    /// A plain body as it is.
    pub body: Option<String>,
    /// A plain JSON body.
    pub json: Option<Value>,
    /// Milliseconds before the head.
    pub head_delay_ms: u64,
    /// Every so many bytes of a streamed body are one write; 0 writes step by step.
    pub split: usize,
    /// Milliseconds between two steps.
    pub gap_ms: u64,
    /// The streamed body; composed into one completion if the request did not ask for a stream.
    pub steps: Vec<ScriptStep>,
    /// How the steps are said; as the script says if absent.
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
            head_delay_ms: 0,
            split: 0,
            gap_ms: 0,
            steps: Vec::new(),
            dialect: None,
        }
    }
}

impl ScriptedAnswer {
    /// These steps with the default head.
    pub fn steps(steps: impl Into<Vec<ScriptStep>>) -> Self {
        Self {
            steps: steps.into(),
            ..Self::default()
        }
    }

    /// An error reply in OpenAI's form.
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

    /// The body that these steps make for the request, up to a cut.
    pub fn body_for(&self, request: &PlayerRequest) -> String {
        reply::render_body(self, request)
    }
}

/// Conditions on a request; those that are absent hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestCondition {
    /// Role of the last message.
    pub last_role: Option<String>,
    /// Text somewhere in the last message.
    pub last_contains: Option<String>,
    /// Name of a function among the tools.
    pub tool_offered: Option<String>,
    /// Text anywhere in the raw body.
    pub body_contains: Option<String>,
    /// Whether a stream is asked for.
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

/// One thing to send or do. In JSON an object with the one key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptStep {
    /// A content delta.
    Text(String),
    /// A `reasoning_content` delta.
    Reasoning(String),
    /// A refusal delta.
    Refusal(String),
    /// A tool call: its head, then its arguments.
    Call(ScriptedCall),
    /// One bare fragment of arguments.
    Args(ArgumentFragment),
    /// The usage chunk, sent only if the request asked for it. If the end comes by itself, it is
    /// sent there.
    Usage(Map<String, Value>),
    /// A chunk with this finish_reason.
    Finish(String),
    /// A data event `{"error": …}`.
    Error(Value),
    /// `data: [DONE]`.
    Done(bool),
    /// Bytes as they are; an empty one keeps the end from coming by itself.
    Raw(String),
    /// A data event with this JSON.
    Chunk(Value),
    /// A pause.
    DelayMs(u64),
    /// The connection stays open and silent.
    Stall(bool),
    /// The connection ends here.
    Cut(ConnectionCut),
    /// The same steps again and again.
    Repeat(RepeatedSteps),
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Position among the calls; the next one if absent.
    #[serde(default)]
    pub index: Option<u64>,
    /// The call's id; the key is left out if absent.
    #[serde(default)]
    pub id: Option<String>,
    /// Name of the function.
    pub name: String,
    /// Arguments as text, normally JSON.
    #[serde(default)]
    pub arguments: String,
    /// In how many fragments the arguments are sent, cut at character borders.
    #[serde(default = "one")]
    pub pieces: usize,
    /// What the provider wants back with the call, such as a signature.
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
    /// Position of the call.
    pub index: u64,
    /// The fragment.
    pub text: String,
}

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionCut {
    /// Orderly, but without the end of the body.
    Fin,
    /// Reset.
    Rst,
}

/// Steps to be repeated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatedSteps {
    /// How often.
    pub times: u64,
    /// What.
    pub steps: Vec<ScriptStep>,
}

/// Whether the script says itself how the stream ends.
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
        | ScriptStep::DelayMs(_) => false,
    })
}
