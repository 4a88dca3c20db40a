//! A long session of a coding agent as data: the answers of the model, the outputs of its calls,
//! and the client that keeps the history. Everything follows from a seed, so that an upstream and
//! a client can each play their part of the same session.

mod agent;
mod output;
mod random;
mod text;

pub use agent::Agent;
pub use output::{ToolOutput, ToolOutputKind};
pub use random::SeededRandom;

use serde_json::{Value, json};

/// The sizes of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionShape {
    /// Bytes of the instructions, and about as many of the tools.
    pub instructions: usize,
    /// Bytes of reasoning, text and arguments of an answer, from and to.
    pub said: (usize, usize),
    /// Bytes of an output, from and to; their logarithms are evenly distributed.
    pub output: (usize, usize),
    /// One output in this many was truncated by Codex itself; 0 for none.
    pub cut_one_in: usize,
}

impl SessionShape {
    /// Outputs of 2 KB to 1 MB, as an unmodified client has them on a large window.
    pub const LARGE: Self = Self {
        instructions: 16_000,
        said: (2_000, 3_000),
        output: (2_000, 1_000_000),
        cut_one_in: 16,
    };

    /// [`Self::LARGE`], scaled to a window of this many bytes.
    pub fn for_window(bytes: usize) -> Self {
        let large = Self::LARGE;
        let scaled = |size: usize| size.min((size * (bytes / 1_000) / 700).max(120));
        Self {
            instructions: scaled(large.instructions),
            said: (scaled(large.said.0), scaled(large.said.1)),
            ..large
        }
    }
}

/// The answer of one turn, and what follows it.
#[derive(Clone, Debug)]
pub struct SessionTurn {
    /// The number of the turn, from 0.
    pub number: usize,
    /// The reasoning.
    pub reasoning: String,
    /// The text; not empty if there are no calls.
    pub text: String,
    /// The calls.
    pub calls: Vec<SessionCall>,
    /// The next message of the user, if there are no calls.
    pub user: Option<String>,
}

/// A call and its output.
#[derive(Clone, Debug)]
pub struct SessionCall {
    /// The call's id.
    pub id: String,
    /// The form of the call item and its output item.
    pub form: CallItemForm,
    /// The tool's name.
    pub name: &'static str,
    /// A JSON object; free text for a custom tool.
    pub arguments: String,
    /// The output.
    pub output: ToolOutput,
}

/// The form of a call item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallItemForm {
    /// `function_call` with a string as output.
    Function,
    /// `function_call` with a list of one text part as output.
    Parts,
    /// `custom_tool_call`.
    Custom,
}

/// The turns of a session, without end.
#[derive(Clone, Debug)]
pub struct SessionScript {
    shape: SessionShape,
    random: SeededRandom,
    turns: usize,
    outputs: usize,
}

impl SessionScript {
    /// The session of this seed.
    pub fn new(seed: u64, shape: SessionShape) -> Self {
        Self {
            shape,
            random: SeededRandom::new(seed),
            turns: 0,
            outputs: 0,
        }
    }

    fn call(&mut self, place: usize) -> SessionCall {
        let (from, to) = self.shape.output;
        // Counted over all outputs, so that sizes are evenly distributed in a short session, too.
        self.outputs += 1;
        let bytes = self.random.spread(self.outputs, from, to);
        let is_cut = self.shape.cut_one_in != 0 && self.outputs % self.shape.cut_one_in == 7;
        let sort = ToolOutputKind::ALL
            .get(self.outputs % ToolOutputKind::ALL.len())
            .copied()
            .unwrap_or(ToolOutputKind::Build);
        let output = if is_cut {
            ToolOutput::truncated_by_codex(&mut self.random, sort)
        } else {
            ToolOutput::new(&mut self.random, sort, bytes)
        };
        let form = match self.outputs % 7 {
            2 => CallItemForm::Parts,
            5 => CallItemForm::Custom,
            _ => CallItemForm::Function,
        };
        let bytes = self.random.within(self.shape.said) / 4;
        let words = text::prose(&mut self.random, bytes);
        SessionCall {
            id: format!("call_{}_{place}", self.turns),
            form,
            name: match form {
                CallItemForm::Function => "exec_command",
                CallItemForm::Parts => "mcp__docs__fetch",
                CallItemForm::Custom => "script",
            },
            arguments: match form {
                CallItemForm::Function => {
                    json!({"cmd": words, "workdir": "/home/me/project"}).to_string()
                }
                CallItemForm::Parts => json!({"query": words}).to_string(),
                CallItemForm::Custom => words,
            },
            output,
        }
    }
}

impl Iterator for SessionScript {
    type Item = SessionTurn;

    fn next(&mut self) -> Option<SessionTurn> {
        let number = self.turns;
        // One turn in nine answers the user without a call; one in six has several calls.
        let calls = match number % 18 {
            8 | 17 => 0,
            3 | 12 => 2,
            6 => 3,
            _ => 1,
        };
        let calls: Vec<SessionCall> = (0..calls).map(|place| self.call(place)).collect();
        let bytes = self.random.within(self.shape.said);
        let reasoning = text::prose(&mut self.random, bytes / 2);
        let text = text::prose(&mut self.random, bytes / 4);
        let user = calls
            .is_empty()
            .then(|| text::prose(&mut self.random, self.shape.said.0 / 4));
        self.turns += 1;
        Some(SessionTurn {
            number,
            reasoning,
            text,
            calls,
            user,
        })
    }
}

impl SessionTurn {
    /// The items of the answer as a client keeps them; `seal` makes the `encrypted_content` of a
    /// reasoning item from its text.
    pub fn answer(&self, seal: impl Fn(&str) -> String) -> Vec<String> {
        let reasoning = json!({
            "type": "reasoning", "summary": [], "encrypted_content": seal(&self.reasoning),
        });
        let text = json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": self.text}],
        });
        let calls = self.calls.iter().map(SessionCall::item);
        let items = [reasoning, text].into_iter().chain(calls);
        items.map(|item| item.to_string()).collect()
    }

    /// The items that the client adds: the outputs, or the message of the user.
    pub fn reply(&self) -> Vec<String> {
        let outputs = self.calls.iter().map(SessionCall::output_item);
        let user = self.user.as_deref().map(agent::user);
        outputs.chain(user).map(|item| item.to_string()).collect()
    }
}

impl SessionCall {
    fn item(&self) -> Value {
        match self.form {
            CallItemForm::Function | CallItemForm::Parts => json!({
                "type": "function_call", "call_id": self.id, "name": self.name,
                "arguments": self.arguments,
            }),
            CallItemForm::Custom => json!({
                "type": "custom_tool_call", "call_id": self.id, "name": self.name,
                "input": self.arguments,
            }),
        }
    }

    fn output_item(&self) -> Value {
        let text = &self.output.text;
        match self.form {
            CallItemForm::Function => json!({
                "type": "function_call_output", "call_id": self.id, "output": text,
            }),
            CallItemForm::Parts => json!({
                "type": "function_call_output", "call_id": self.id,
                "output": [{"type": "input_text", "text": text}],
            }),
            CallItemForm::Custom => json!({
                "type": "custom_tool_call_output", "call_id": self.id, "output": text,
            }),
        }
    }
}
