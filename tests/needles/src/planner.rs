//! What the upstream gets of a case.

use adapters::{
    plan::{Bounds, OutputPolicy, Retention, plan},
    responses::request::TurnSource,
    wire::{EncodeOptions, encode},
};
use anyhow::Context;
use registry::{Dialect, Model};
use serde_json::{Value, json};

use crate::case::Case;

/// Plans and encodes cases as the proxy does for a model that is not listed.
pub(crate) struct Planner {
    model: Model,
    dialect: Dialect,
    bounds: Bounds,
}

impl Planner {
    /// A planner for a model with a window of this many tokens.
    pub(crate) fn new(window: u64) -> Self {
        let model = Model {
            window: Some(window),
            ..Model::unlisted("m")
        };
        let dialect = Dialect::default();
        let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk)
            .for_dialect(&dialect);
        Self {
            model,
            dialect,
            bounds,
        }
    }

    /// The text of the case's output in the upstream request.
    pub(crate) fn shown(&self, case: &Case) -> anyhow::Result<String> {
        let source = TurnSource::new(request(case).to_string());
        let turn = source.turn()?;
        let options = EncodeOptions::new(&self.dialect, &self.model, "m");
        let request = encode(&turn, &plan(&turn, &self.bounds), &options)?;
        tool_output(&request.encoded.body)
    }
}

/// The turn of an agent that has just run the command of the case.
fn request(case: &Case) -> Value {
    let arguments =
        json!({"command": ["bash", "-lc", case.command], "workdir": "/home/user/project"});
    json!({"model": "m", "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": case.question}]},
        {"type": "function_call", "name": "shell", "call_id": "call_0", "arguments": arguments.to_string()},
        {"type": "function_call_output", "call_id": "call_0", "output": case.output}]})
}

/// The text of the tool output in an upstream request.
fn tool_output(body: &[u8]) -> anyhow::Result<String> {
    let body: Value = serde_json::from_slice(body)?;
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.context("a request without messages")?;
    let result = messages
        .iter()
        .find(|message| message.get("role").and_then(Value::as_str) == Some("tool"));
    let content = result.and_then(|message| message.get("content"));
    let text = content.and_then(Value::as_str);
    Ok(text.context("a request without a tool output")?.to_owned())
}
