//! A long session of a coding agent: what the model says turn by turn, what its
//! calls give, and the client that keeps the history. Everything follows from a
//! seed, so that an upstream and a client can each play their part of the same
//! session.

mod agent;
mod output;
mod random;
mod text;

pub use agent::Agent;
pub use output::{Output, Sort};
pub use random::Random;

use serde_json::{Value, json};

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the instructions, and about as many of tools.
    pub head: usize,
    /// Bytes of reasoning, text and arguments that an answer has, from and to.
    pub said: (usize, usize),
    /// Bytes of an output, from and to; the logarithm is evenly spread.
    pub output: (usize, usize),
    /// One output in so many was cut by Codex itself; 0 for none.
    pub cut_one_in: usize,
}

impl Shape {
    /// Outputs of 2 KB to 1 MB, as a stock client on a large window has them.
    pub const LARGE: Self = Self {
        head: 16_000,
        said: (2_000, 3_000),
        output: (2_000, 1_000_000),
        cut_one_in: 16,
    };

    /// The same in proportion to a window of so many bytes.
    pub fn of_window(bytes: usize) -> Self {
        let large = Self::LARGE;
        let scaled = |size: usize| size.min((size * (bytes / 1_000) / 700).max(120));
        Self {
            head: scaled(large.head),
            said: (scaled(large.said.0), scaled(large.said.1)),
            ..large
        }
    }
}

/// What the model says in one turn, and what its calls give.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its number, from 0.
    pub number: usize,
    /// Its thoughts.
    pub reasoning: String,
    /// Its words; not empty where there are no calls.
    pub text: String,
    /// What it calls.
    pub calls: Vec<Call>,
    /// What the user says then, where there are no calls.
    pub user: Option<String>,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The form of its items.
    pub form: Form,
    /// The tool's name.
    pub name: &'static str,
    /// A JSON object; free text for a custom tool.
    pub arguments: String,
    /// What it gives.
    pub output: Output,
}

/// The forms of call items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `function_call`, the output a string.
    Function,
    /// `function_call`, the output a list of one text.
    Parts,
    /// `custom_tool_call`.
    Custom,
}

/// The session from its beginning; it never ends.
#[derive(Clone, Debug)]
pub struct Script {
    shape: Shape,
    random: Random,
    turns: usize,
    outputs: usize,
}

impl Script {
    /// The session of this seed.
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self {
            shape,
            random: Random::new(seed),
            turns: 0,
            outputs: 0,
        }
    }

    fn call(&mut self, place: usize) -> Call {
        let (from, to) = self.shape.output;
        // Evenly spread also in a short session.
        self.outputs += 1;
        let bytes = self.random.spread(self.outputs, from, to);
        let is_cut = self.shape.cut_one_in != 0 && self.outputs % self.shape.cut_one_in == 7;
        let sort = Sort::ALL
            .get(self.outputs % Sort::ALL.len())
            .copied()
            .unwrap_or(Sort::Build);
        let output = if is_cut {
            Output::cut(&mut self.random, sort)
        } else {
            Output::new(&mut self.random, sort, bytes)
        };
        let form = match self.outputs % 7 {
            2 => Form::Parts,
            5 => Form::Custom,
            _ => Form::Function,
        };
        let said = self.random.within(self.shape.said) / 4;
        let words = text::prose(&mut self.random, said);
        Call {
            id: format!("call_{}_{place}", self.turns),
            form,
            name: match form {
                Form::Function => "exec_command",
                Form::Parts => "mcp__docs__fetch",
                Form::Custom => "script",
            },
            arguments: match form {
                Form::Function => json!({"cmd": words, "workdir": "/home/me/project"}).to_string(),
                Form::Parts => json!({"query": words}).to_string(),
                Form::Custom => words,
            },
            output,
        }
    }
}

impl Iterator for Script {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        let number = self.turns;
        // One turn in nine answers the user, one in six calls several tools.
        let calls = match number % 18 {
            8 | 17 => 0,
            3 | 12 => 2,
            6 => 3,
            _ => 1,
        };
        let calls: Vec<Call> = (0..calls).map(|place| self.call(place)).collect();
        let said = self.random.within(self.shape.said);
        let reasoning = text::prose(&mut self.random, said / 2);
        let text = text::prose(&mut self.random, said / 4);
        let user = calls
            .is_empty()
            .then(|| text::prose(&mut self.random, self.shape.said.0 / 4));
        self.turns += 1;
        Some(Turn {
            number,
            reasoning,
            text,
            calls,
            user,
        })
    }
}

impl Turn {
    /// The answer as a client keeps it; `seal` makes of thoughts the
    /// `encrypted_content` of a reasoning item.
    pub fn answer(&self, seal: impl Fn(&str) -> String) -> Vec<String> {
        let reasoning = json!({
            "type": "reasoning", "summary": [], "encrypted_content": seal(&self.reasoning),
        });
        let text = json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": self.text}],
        });
        let calls = self.calls.iter().map(Call::item);
        let items = [reasoning, text].into_iter().chain(calls);
        items.map(|item| item.to_string()).collect()
    }

    /// What the client adds to it: the outputs, and what the user says.
    pub fn reply(&self) -> Vec<String> {
        let outputs = self.calls.iter().map(Call::output_item);
        let user = self.user.as_deref().map(agent::user);
        outputs.chain(user).map(|item| item.to_string()).collect()
    }
}

impl Call {
    fn item(&self) -> Value {
        match self.form {
            Form::Function | Form::Parts => json!({
                "type": "function_call", "call_id": self.id, "name": self.name,
                "arguments": self.arguments,
            }),
            Form::Custom => json!({
                "type": "custom_tool_call", "call_id": self.id, "name": self.name,
                "input": self.arguments,
            }),
        }
    }

    fn output_item(&self) -> Value {
        let text = &self.output.text;
        match self.form {
            Form::Function => json!({
                "type": "function_call_output", "call_id": self.id, "output": text,
            }),
            Form::Parts => json!({
                "type": "function_call_output", "call_id": self.id,
                "output": [{"type": "input_text", "text": text}],
            }),
            Form::Custom => json!({
                "type": "custom_tool_call_output", "call_id": self.id, "output": text,
            }),
        }
    }
}
