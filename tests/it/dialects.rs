//! Whatever dialect an upstream speaks, the client gets a strict stream that says what was said:
//! every switch of the player alone, and all of them at random.
//!
//! `PROPTEST_CASES` sets how many answers are tried; 256 without it.
mod answer;
mod read;
mod switches;

use std::fmt::Debug;

pub use kit::drive;
use kit::player::ChatDialect;
use kit::player::PlayerRequest;
use kit::player::dialect::{
    ArgumentsForm, CallIdPlacement, FinishReasonForm, ReasoningPlacement, StreamErrorForm,
    UsagePlacement,
};
use libtest_mimic::Trial;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use self::answer::{Said, SaidCall};
use self::read::{Reading, read};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("R5 dialects: each switch alone", || async { alone() }),
        case("R5 dialects: any switches with any answer", || async {
            at_random();
        }),
        case("R3 dialects: errors in a stream", || async { errors() }),
    ]
}

fn alone() {
    let mut wrong = Vec::new();
    for dialect in switches::alone() {
        for said in answer::plain() {
            let said = said.fit_for(&dialect);
            for sizes in [&[1_000_000][..], &[1], &[7, 3]] {
                wrong.extend(caught(|| told(&dialect, &said, sizes)).err());
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// Runs something and gives the words of its panic.
fn caught(what: impl FnOnce()) -> Result<(), String> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(_) => "it panicked".to_owned(),
    })
}

fn at_random() {
    let answers = (
        switches::some(),
        answer::some(),
        proptest::collection::vec(1_usize..200, 1..8),
    );
    run(answers, |(dialect, said, sizes)| {
        let said = said.fit_for(&dialect);
        told(&dialect, &said, &sizes);
    });
}

/// Tries a property and shows the smallest example that breaks it.
fn run<S>(examples: S, property: impl Fn(S::Value))
where
    S: Strategy,
    S::Value: Debug,
{
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 5_000,
        ..Config::default()
    };
    let property = |example| caught(|| property(example)).map_err(TestCaseError::fail);
    if let Err(error) = TestRunner::new(config).run(&examples, property) {
        panic!("{error}");
    }
}

/// The request that a player gets.
fn request(stream: bool) -> PlayerRequest {
    let mut body = json!({"model": "m", "messages": []});
    if stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
    }
    PlayerRequest::from_body(&body.to_string())
}

/// Checks what comes out of this answer, streamed by the upstream and not.
fn told(dialect: &ChatDialect, said: &Said, sizes: &[usize]) {
    let answer = said.answer(dialect);
    let outputs = [true, false].map(|stream| {
        let bytes = answer.body_for(&request(stream));
        // Counts behind all content: nobody counts an answer before it is whole.
        let counted = dialect.usage == UsagePlacement::Apart && bytes.contains("\"usage\":{");
        let counted = counted && bytes.contains("[DONE]");
        let is_over = counted || bytes.starts_with('{');
        let is_over = is_over && said.is_whole();
        let outputs = [true, false].map(|codex| {
            let reading = read(bytes.as_bytes(), sizes, &quirks(dialect), codex);
            if let Err(wrong) = says(&reading, dialect, said, codex, is_over) {
                panic!("{wrong}\n{dialect:?}\n{said:?}\ncodex {codex}, upstream:\n{bytes}\n");
            }
            reading
        });
        (bytes, outputs)
    });
    if dialect.finish == FinishReasonForm::Missing {
        return;
    }
    let [(_, streamed), (_, document)] = &outputs;
    for (one, other) in streamed.iter().zip(document) {
        if let (Reading::Answer(one), Reading::Answer(other)) = (one, other)
            && let Err(wrong) = same_words(&one.response, &other.response)
        {
            panic!("{wrong}\n{dialect:?}\n{said:?}\n{outputs:?}");
        }
    }
}

fn quirks(dialect: &ChatDialect) -> registry::Quirks {
    let think_tags = match dialect.reasoning {
        ReasoningPlacement::ThinkTags => registry::ThinkTags::On,
        ReasoningPlacement::UnopenedThink => registry::ThinkTags::Unopened,
        _ => registry::ThinkTags::Off,
    };
    registry::Quirks {
        think_tags,
        reasoning_replay: registry::ReasoningReplay::ReasoningDetails,
        ..registry::Quirks::default()
    }
}

/// Compares what an answer says with what was said.
/// Without a finish reason `is_over` tells whether the end was told all the same.
fn says(
    reading: &Reading,
    dialect: &ChatDialect,
    said: &Said,
    codex: bool,
    is_over: bool,
) -> Result<(), String> {
    let answer = match reading {
        Reading::Answer(answer) => answer,
        Reading::Fault(_) if dialect.finish == FinishReasonForm::Missing => return Ok(()),
        Reading::Fault(fault) => return Err(format!("a fault: {fault}")),
    };
    if dialect.finish == FinishReasonForm::Missing && !is_over {
        return same("terminal", answer.terminal.as_str(), "response.failed");
    }
    same("terminal", answer.terminal.as_str(), "response.completed")?;
    same("reasoning", answer.reasoning(), said.reasoning.concat())?;
    let (text, refusal) = (said.text.concat(), said.refusal.concat());
    if codex {
        same("text", answer.text(), text + &refusal)?;
    } else {
        same("text", answer.text(), text)?;
        same("refusal", answer.refusal(), refusal)?;
    }
    let calls = answer.calls();
    same("number of calls", calls.len(), said.calls.len())?;
    let mut ids = std::collections::BTreeSet::new();
    for (call, said) in calls.iter().zip(&said.calls) {
        same("name", call.name.as_str(), said.name.as_str())?;
        same(
            "arguments",
            arguments(&call.arguments),
            arguments(&said.expected()),
        )?;
        if dialect.arguments != ArgumentsForm::Object {
            same("arguments", call.arguments.as_str(), &*said.expected())?;
        }
        same("status", call.status.as_str(), "completed")?;
        if matches!(
            dialect.ids,
            CallIdPlacement::First | CallIdPlacement::EmptyLater | CallIdPlacement::Repeated
        ) {
            same("id", call.call_id.as_str(), said.id.as_str())?;
        }
        if call.call_id.is_empty() || !ids.insert(call.call_id.clone()) {
            return Err(format!("the call id {:?} is not its own", call.call_id));
        }
    }
    // Most counts come with the finish reason.
    let counted =
        dialect.usage != UsagePlacement::Nowhere && dialect.finish != FinishReasonForm::Missing;
    if let (Some([input, cached, write, output, reasoning]), true) = (said.usage, counted) {
        let usage = json!({
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": input + output,
        });
        same("usage", &answer.response["usage"], &usage)?;
    }
    Ok(())
}

/// Two answers with the same words; ids that were made up may differ.
fn same_words(one: &Value, other: &Value) -> Result<(), String> {
    let words = |response: &Value| {
        let mut output = crate::turns::brief(response);
        for item in output.as_array_mut().unwrap() {
            if item[0] == "function_call" {
                item[1] = Value::Null;
            }
        }
        output
    };
    same("output", words(one), words(other))
}

/// Arguments as JSON; as text if they are none.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better")]
fn same<T: PartialEq + Debug>(what: &str, found: T, said: T) -> Result<(), String> {
    if found == said {
        return Ok(());
    }
    Err(format!("{what} is {found:?} instead of {said:?}"))
}

/// An error in any form ends the answer as a failure with the provider's words.
fn errors() {
    let error = json!({"message": "the engine stopped", "code": 502});
    for form in switches::error_forms() {
        for (done, begun) in [(false, false), (false, true), (true, false), (true, true)] {
            let dialect = ChatDialect {
                error: form,
                error_done: done,
                ..ChatDialect::default()
            };
            let mut steps = vec![json!({"error": error})];
            if begun {
                steps.insert(0, json!({"text": "It begins"}));
            }
            let said = kit::player::ScriptedAnswer {
                dialect: Some(dialect),
                ..kit::player::ScriptedAnswer::steps(crate::turns::steps(steps.into()))
            };
            let bytes = said.body_for(&request(true));
            for codex in [true, false] {
                let reading = read(bytes.as_bytes(), &[11], &registry::Quirks::default(), codex);
                let message = match &reading {
                    Reading::Fault(fault) => fault.to_string(),
                    Reading::Answer(answer) => {
                        assert_eq!(answer.terminal, "response.failed", "{bytes}");
                        assert_eq!(answer.text().is_empty(), !begun || codex, "{bytes}");
                        answer.response["error"]["message"].to_string()
                    }
                };
                assert!(!begun || matches!(reading, Reading::Answer(_)), "{bytes}");
                let html = form == StreamErrorForm::Html && !begun;
                assert!(
                    html || message.contains("the engine stopped"),
                    "{message}\n{bytes}"
                );
            }
        }
    }
}

impl SaidCall {
    /// What the client gets.
    fn expected(&self) -> std::borrow::Cow<'_, str> {
        match self.arguments.as_str() {
            "" => "{}".into(),
            text => text.into(),
        }
    }
}
