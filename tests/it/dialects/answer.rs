//! The content of a model's answer as data, independent of the dialect that transports it.
use std::ops::Range;

use kit::player::dialect::{CallIdPlacement, ReasoningPlacement};
use kit::player::{ChatDialect, ScriptStep, ScriptedAnswer, ScriptedCall};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Reasoning, text, a refusal and calls, in this order; each is split into the pieces in which it
/// is sent.
#[derive(Debug, Clone, Default)]
pub struct ModelAnswer {
    pub reasoning: Vec<String>,
    pub text: Vec<String>,
    pub refusal: Vec<String>,
    pub calls: Vec<ModelCall>,
    /// Tokens: input, cached input, input written to the cache, output, reasoning.
    pub usage: Option<[u64; 5]>,
}

#[derive(Debug, Clone)]
pub struct ModelCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub pieces: usize,
}

impl ModelAnswer {
    /// The same answer, changed where the dialect needs some content or cannot express it.
    pub fn adapted_to(&self, dialect: &ChatDialect) -> Self {
        let mut answer = self.clone();
        // Without an opening tag, only the closing tag shows that there was reasoning.
        if dialect.reasoning == ReasoningPlacement::UnopenedThink && answer.reasoning.is_empty() {
            answer.reasoning.push("So".to_owned());
        }
        // Where only a name marks the beginning of a call, the call before it has to be complete.
        // Calls in a document have no index.
        if matches!(
            dialect.ids,
            CallIdPlacement::Missing | CallIdPlacement::Empty | CallIdPlacement::Late
        ) {
            for call in &mut answer.calls {
                if !is_json(&call.arguments) {
                    "{\"k\": 1}".clone_into(&mut call.arguments);
                }
            }
        }
        answer
    }

    /// Whether there is text, a refusal or a call, and all calls have valid arguments.
    pub fn is_whole(&self) -> bool {
        let texts = [&self.text, &self.refusal];
        let calls = &self.calls;
        (texts.iter().any(|pieces| !pieces.is_empty()) || !calls.is_empty())
            && calls.iter().all(|call| {
                call.arguments.is_empty() || serde_json::from_str::<Value>(&call.arguments).is_ok()
            })
    }

    /// The answer as the player's script.
    pub fn scripted(&self, dialect: &ChatDialect) -> ScriptedAnswer {
        let usage = self.usage.map(|[input, cached, write, output, reasoning]| {
            let usage = json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
                "completion_tokens_details": {"reasoning_tokens": reasoning},
            });
            ScriptStep::Usage(usage.as_object().cloned().unwrap_or_else(Map::new))
        });
        let calls = self.calls.iter().map(|call| {
            ScriptStep::Call(ScriptedCall {
                index: None,
                id: Some(call.id.clone()),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                pieces: call.pieces,
                extra_content: None,
            })
        });
        let texts = [
            (
                &self.reasoning,
                ScriptStep::Reasoning as fn(String) -> ScriptStep,
            ),
            (&self.text, ScriptStep::Text),
            (&self.refusal, ScriptStep::Refusal),
        ];
        let texts = texts
            .into_iter()
            .flat_map(|(pieces, step)| pieces.iter().cloned().map(step));
        ScriptedAnswer {
            dialect: Some(dialect.clone()),
            ..ScriptedAnswer::steps(texts.chain(calls).chain(usage).collect::<Vec<_>>())
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// A few answers of each kind.
pub fn examples() -> Vec<ModelAnswer> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let call = |id: &str, name: &str, arguments: &str, pieces| ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        pieces,
    };
    let usage = Some([90, 30, 0, 20, 8]);
    vec![
        ModelAnswer::default(),
        ModelAnswer {
            text: words(&["Hel", "lo, \u{e4}\u{1F600}", "\n\nend"]),
            usage,
            ..ModelAnswer::default()
        },
        ModelAnswer {
            reasoning: words(&["Let me", " think"]),
            text: words(&["42"]),
            usage,
            ..ModelAnswer::default()
        },
        ModelAnswer {
            refusal: words(&["I ", "won't"]),
            ..ModelAnswer::default()
        },
        ModelAnswer {
            reasoning: words(&["Look ", "first"]),
            text: words(&["I look."]),
            calls: vec![
                call(
                    "call_a",
                    "look",
                    "{\"at\": \"\u{6f22}\", \"n\": [1, 2.5]}",
                    3,
                ),
                call("call_b", "take", "{}", 1),
                call("call_c", "look", "{\"at\":\"b\"}", 5),
            ],
            usage,
            ..ModelAnswer::default()
        },
        ModelAnswer {
            reasoning: words(&["Nothing to say"]),
            calls: vec![
                call("call_a", "look", "", 1),
                call("call_b", "take", "{\"half\": }", 2),
            ],
            usage,
            ..ModelAnswer::default()
        },
    ]
}

/// A random answer.
pub fn any_answer() -> impl Strategy<Value = ModelAnswer> {
    let usage = prop::option::of([0_u64..9000, 0..9000, 0..90, 0..9000, 0..9000])
        .prop_map(|counts| counts.map(|[a, b, c, d, e]| [a + b + c, b, c, d + e, e]));
    let refusal = prop_oneof![4 => Just(Vec::new()), 1 => pieces(1..4)];
    (pieces(0..6), pieces(0..6), refusal, calls(), usage).prop_map(
        |(reasoning, text, refusal, calls, usage)| ModelAnswer {
            reasoning,
            text,
            refusal,
            calls,
            usage,
        },
    )
}

/// A text that neither begins nor ends with white space, split into pieces.
fn pieces(count: Range<usize>) -> impl Strategy<Value = Vec<String>> {
    const WORDS: [&str; 14] = [
        "a",
        "Zebra",
        " ",
        "\n",
        "\"",
        "\\",
        "\u{6f22}",
        "\u{e9}",
        "\u{1F600}",
        "<",
        "</",
        "</b>",
        "\t",
        "\u{200b}",
    ];
    let piece = vec(prop::sample::select(WORDS.to_vec()), 1..6).prop_map(|words| words.concat());
    vec(piece, count).prop_map(|mut pieces| {
        if let Some(first) = pieces.first_mut() {
            first.insert(0, 'B');
        }
        if let Some(last) = pieces.last_mut() {
            last.push('E');
        }
        pieces
    })
}

fn calls() -> impl Strategy<Value = Vec<ModelCall>> {
    let arguments = prop_oneof![
        1 => Just(String::new()),
        1 => Just("{\"half\": a}".to_owned()),
        4 => pieces(0..4).prop_map(|words| json!({"k": words.concat(), "n": [1, 2.5, null]}).to_string()),
    ];
    let name = prop::sample::select(vec!["look", "take", "never_offered"]);
    vec((name, arguments, 1_usize..6), 0..4).prop_map(|calls| {
        let calls = calls.into_iter().enumerate();
        calls
            .map(|(number, (name, arguments, pieces))| ModelCall {
                id: format!("call_{number}"),
                name: name.to_owned(),
                arguments,
                pieces,
            })
            .collect()
    })
}
