//! The parts of a chat request that the offline model reads.

use serde_json::Value;

/// The body of a Chat Completions request.
#[derive(Debug)]
pub(super) struct ChatRequest {
    /// The body as JSON; null if it is none.
    pub(super) json: Value,
    /// Length of the body in bytes.
    pub(super) length: usize,
}

impl ChatRequest {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self {
            json: serde_json::from_slice(body).unwrap_or_default(),
            length: body.len(),
        }
    }

    /// The messages; empty if there are none.
    pub(super) fn messages(&self) -> &[Value] {
        let messages = self.json.get("messages").and_then(Value::as_array);
        messages.map_or(&[], Vec::as_slice)
    }

    /// The offered functions, in order.
    pub(super) fn functions(&self) -> impl Iterator<Item = &Value> {
        let tools = self.json.get("tools").and_then(Value::as_array);
        tools
            .into_iter()
            .flatten()
            .filter_map(|tool| tool.get("function"))
    }

    /// The offered function of this name.
    pub(super) fn function(&self, name: &str) -> Option<&Value> {
        self.functions()
            .find(|function| function.get("name").and_then(Value::as_str) == Some(name))
    }
}

/// All text of a message, whether its content is a string or a list of parts.
pub(super) fn message_text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => String::new(),
    }
}
