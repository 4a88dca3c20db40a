//! The client of a session: it keeps the history, and replaces it by a summary, as Codex does.

use serde_json::{Value, json};

use super::random::SeededRandom;
use super::{SessionShape, SessionTurn, text};

/// A client and its history.
#[derive(Clone, Debug)]
pub struct Agent {
    instructions: String,
    tools: String,
    /// The items of the history, each as JSON.
    pub items: Vec<String>,
    /// How often the history was compacted.
    pub compactions: usize,
}

impl Agent {
    /// A client whose user has just sent the first message.
    pub fn new(shape: SessionShape) -> Self {
        let mut random = SeededRandom::new(1);
        let rules = text::prose(&mut random, shape.instructions);
        let about = text::prose(&mut random, shape.instructions / 4);
        let tool = |name: &str| {
            json!({
                "type": "function", "name": name, "description": about, "strict": false,
                "parameters": {
                    "type": "object",
                    "properties": {"cmd": {"type": "string"}, "query": {"type": "string"}},
                },
            })
        };
        let script = json!({"type": "custom", "name": "script", "description": about});
        let tools = json!([tool("exec_command"), tool("mcp__docs__fetch"), script]);
        Self {
            instructions: rules,
            tools: tools.to_string(),
            items: vec![user("Find out why the build fails, and mend it.").to_string()],
            compactions: 0,
        }
    }

    /// The body of the next request.
    pub fn request(&self, model: &str) -> String {
        format!(
            r#"{{"model":{},"instructions":{},"input":[{}],"tools":{},"tool_choice":"auto","parallel_tool_calls":true,"store":false,"stream":true,"include":["reasoning.encrypted_content"]}}"#,
            json!(model),
            json!(self.instructions),
            self.items.join(","),
            self.tools
        )
    }

    /// Appends an answer, and the outputs of its calls or the next message of the user.
    pub fn continue_with(&mut self, turn: &SessionTurn, answer: Vec<String>) {
        self.items.extend(answer);
        self.items.extend(turn.reply());
    }

    /// Replaces the history by a summary.
    pub fn compact(&mut self, summary: &str) {
        self.items = vec![
            user("Find out why the build fails, and mend it.").to_string(),
            user(&format!(
                "Another language model started to solve this problem and produced a summary of its thinking process:\n{summary}"
            ))
            .to_string(),
        ];
        self.compactions += 1;
    }
}

pub(super) fn user(text: &str) -> Value {
    json!({
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}],
    })
}
