//! What a model says in one answer, as data.
use std::ops::Range;

use kit::player::dialect::{CallIdPlacement, ReasoningPlacement};
use kit::player::{ChatDialect, ScriptStep, ScriptedAnswer, ScriptedCall};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Thinking, text, a refusal and calls, in this order, each in its pieces.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub reasoning: Vec<String>,
    pub text: Vec<String>,
    pub refusal: Vec<String>,
    pub calls: Vec<SaidCall>,
    /// Input, cached, written to the cache, output, reasoning.
    pub usage: Option<[u64; 5]>,
}

#[derive(Debug, Clone)]
pub struct SaidCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub pieces: usize,
}

impl Said {
    /// The same, with what the dialect cannot do without or cannot say.
    pub fn fit_for(&self, dialect: &ChatDialect) -> Self {
        let mut said = self.clone();
        // Without an opening tag only the closing one tells that there were thoughts.
        if dialect.reasoning == ReasoningPlacement::UnopenedThink && said.reasoning.is_empty() {
            said.reasoning.push("So".to_owned());
        }
        // Where a name alone begins a call, the one before it has to be whole; calls of a document
        // have no index.
        if matches!(
            dialect.ids,
            CallIdPlacement::Missing | CallIdPlacement::Empty | CallIdPlacement::Late
        ) {
            for call in &mut said.calls {
                if !is_json(&call.arguments) {
                    "{\"k\": 1}".clone_into(&mut call.arguments);
                }
            }
        }
        said
    }

    /// Whether something was said aloud, and all calls have arguments that make sense.
    pub fn is_whole(&self) -> bool {
        let words = [&self.text, &self.refusal];
        let calls = &self.calls;
        (words.iter().any(|words| !words.is_empty()) || !calls.is_empty())
            && calls.iter().all(|call| {
                call.arguments.is_empty() || serde_json::from_str::<Value>(&call.arguments).is_ok()
            })
    }

    /// What the player plays.
    pub fn answer(&self, dialect: &ChatDialect) -> ScriptedAnswer {
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
        let words = [
            (
                &self.reasoning,
                ScriptStep::Reasoning as fn(String) -> ScriptStep,
            ),
            (&self.text, ScriptStep::Text),
            (&self.refusal, ScriptStep::Refusal),
        ];
        let words = words
            .into_iter()
            .flat_map(|(pieces, step)| pieces.iter().cloned().map(step));
        ScriptedAnswer {
            dialect: Some(dialect.clone()),
            ..ScriptedAnswer::steps(words.chain(calls).chain(usage).collect::<Vec<_>>())
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// A few answers of every kind.
pub fn plain() -> Vec<Said> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let call = |id: &str, name: &str, arguments: &str, pieces| SaidCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        pieces,
    };
    let usage = Some([90, 30, 0, 20, 8]);
    vec![
        Said::default(),
        Said {
            text: words(&["Hel", "lo, \u{e4}\u{1F600}", "\n\nend"]),
            usage,
            ..Said::default()
        },
        Said {
            reasoning: words(&["Let me", " think"]),
            text: words(&["42"]),
            usage,
            ..Said::default()
        },
        Said {
            refusal: words(&["I ", "won't"]),
            ..Said::default()
        },
        Said {
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
            ..Said::default()
        },
        Said {
            reasoning: words(&["Nothing to say"]),
            calls: vec![
                call("call_a", "look", "", 1),
                call("call_b", "take", "{\"half\": ", 2),
            ],
            usage,
            ..Said::default()
        },
    ]
}

/// Any answer.
pub fn some() -> impl Strategy<Value = Said> {
    let usage = prop::option::of([0_u64..9000, 0..9000, 0..90, 0..9000, 0..9000])
        .prop_map(|counts| counts.map(|[a, b, c, d, e]| [a + b + c, b, c, d + e, e]));
    let refusal = prop_oneof![4 => Just(Vec::new()), 1 => pieces(1..4)];
    (pieces(0..6), pieces(0..6), refusal, calls(), usage).prop_map(
        |(reasoning, text, refusal, calls, usage)| Said {
            reasoning,
            text,
            refusal,
            calls,
            usage,
        },
    )
}

/// Words that neither begin nor end with white space, cut into pieces.
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

fn calls() -> impl Strategy<Value = Vec<SaidCall>> {
    let arguments = prop_oneof![
        1 => Just(String::new()),
        1 => Just("{\"half\": \"a".to_owned()),
        4 => pieces(0..4).prop_map(|words| json!({"k": words.concat(), "n": [1, 2.5, null]}).to_string()),
    ];
    let name = prop::sample::select(vec!["look", "take", "never_offered"]);
    vec((name, arguments, 1_usize..6), 0..4).prop_map(|calls| {
        let calls = calls.into_iter().enumerate();
        calls
            .map(|(number, (name, arguments, pieces))| SaidCall {
                id: format!("call_{number}"),
                name: name.to_owned(),
                arguments,
                pieces,
            })
            .collect()
    })
}
