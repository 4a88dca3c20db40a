//! Whatever dialect an upstream speaks, the client receives a valid stream with the content of
//! the answer. Every switch of the player's dialect is tried alone, and random combinations are
//! tried with random answers.
//!
//! `PROPTEST_CASES` sets the number of random answers; the default is 256.
mod answer;
mod client;
mod switches;

use std::fmt::Debug;

use kit::player::ChatDialect;
use kit::player::PlayerRequest;
use kit::player::dialect::{
    ArgumentsForm, CallIdPlacement, FinishReasonForm, ReasoningPlacement, StreamErrorForm,
    UsagePlacement,
};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use self::answer::{ModelAnswer, ModelCall};
use self::client::{ClientResult, read_as_client};

#[test]
fn each_switch_alone() {
    let mut wrong = Vec::new();
    for dialect in switches::single_switches() {
        for answer in answer::examples() {
            let answer = answer.adapted_to(&dialect);
            for sizes in [&[1_000_000][..], &[1], &[7, 3]] {
                wrong.extend(catch_panic(|| check_answer(&dialect, &answer, sizes)).err());
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} answers are wrong:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// Runs a closure and returns the message of its panic as an error.
fn catch_panic(run: impl FnOnce()) -> Result<(), String> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(_) => "it panicked".to_owned(),
    })
}

#[test]
fn random_switches_with_random_answers() {
    let answers = (
        switches::any_dialect(),
        answer::any_answer(),
        proptest::collection::vec(1_usize..200, 1..8),
    );
    check_property(answers, |(dialect, answer, sizes)| {
        let answer = answer.adapted_to(&dialect);
        check_answer(&dialect, &answer, &sizes);
    });
}

/// Checks a property and panics with the smallest example that violates it.
fn check_property<S>(examples: S, property: impl Fn(S::Value))
where
    S: Strategy,
    S::Value: Debug,
{
    let config = Config {
        max_shrink_iters: 5_000,
        ..Config::default()
    };
    let property = |example| catch_panic(|| property(example)).map_err(TestCaseError::fail);
    if let Err(error) = TestRunner::new(config).run(&examples, property) {
        panic!("{error}");
    }
}

/// The upstream request that the player answers.
fn request(stream: bool) -> PlayerRequest {
    let mut body = json!({"model": "m", "messages": []});
    if stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
    }
    PlayerRequest::from_body(&body.to_string())
}

/// Checks what the client receives of this answer, streamed by the upstream or as one document.
fn check_answer(dialect: &ChatDialect, expected: &ModelAnswer, sizes: &[usize]) {
    let scripted = expected.scripted(dialect);
    let outputs = [true, false].map(|stream| {
        let bytes = scripted.body_for(&request(stream));
        // Token counts after all content mean that the answer is complete: a provider does not
        // count an answer before it has ended.
        let has_counts = dialect.usage == UsagePlacement::Apart && bytes.contains("\"usage\":{");
        let has_counts = has_counts && bytes.contains("[DONE]");
        let is_complete = has_counts || bytes.starts_with('{');
        let is_complete = is_complete && expected.is_whole();
        let outputs = [true, false].map(|codex| {
            let result = read_as_client(bytes.as_bytes(), sizes, &quirks(dialect), codex);
            if let Err(wrong) = compare(&result, dialect, expected, codex, is_complete) {
                panic!("{wrong}\n{dialect:?}\n{expected:?}\ncodex {codex}, upstream:\n{bytes}\n");
            }
            result
        });
        (bytes, outputs)
    });
    if dialect.finish == FinishReasonForm::Missing {
        return;
    }
    let [(_, streamed), (_, document)] = &outputs;
    for (one, other) in streamed.iter().zip(document) {
        if let (ClientResult::Answer(one), ClientResult::Answer(other)) = (one, other)
            && let Err(wrong) = expect_same_output(&one.response, &other.response)
        {
            panic!("{wrong}\n{dialect:?}\n{expected:?}\n{outputs:?}");
        }
    }
}

fn quirks(dialect: &ChatDialect) -> registry::WireQuirks {
    let think_tags = match dialect.reasoning {
        ReasoningPlacement::ThinkTags => registry::ThinkTags::On,
        ReasoningPlacement::UnopenedThink => registry::ThinkTags::Unopened,
        _ => registry::ThinkTags::Off,
    };
    registry::ChatQuirks {
        think_tags,
        reasoning_replay: registry::ReasoningReplay::ReasoningDetails,
        ..registry::ChatQuirks::default()
    }
    .into()
}

/// Compares what the client received with the answer of the model.
/// `is_complete`: the answer counts as complete even if the dialect sends no finish reason.
fn compare(
    result: &ClientResult,
    dialect: &ChatDialect,
    expected: &ModelAnswer,
    codex: bool,
    is_complete: bool,
) -> Result<(), String> {
    let answer = match result {
        ClientResult::Answer(answer) => answer,
        ClientResult::Fault(_) if dialect.finish == FinishReasonForm::Missing => return Ok(()),
        ClientResult::Fault(fault) => return Err(format!("a fault: {fault}")),
    };
    if dialect.finish == FinishReasonForm::Missing && !is_complete {
        return expect_equal("terminal", answer.terminal.as_str(), "response.failed");
    }
    expect_equal("terminal", answer.terminal.as_str(), "response.completed")?;
    expect_equal("reasoning", answer.reasoning(), expected.reasoning.concat())?;
    let (text, refusal) = (expected.text.concat(), expected.refusal.concat());
    if codex {
        expect_equal("text", answer.text(), text + &refusal)?;
    } else {
        expect_equal("text", answer.text(), text)?;
        expect_equal("refusal", answer.refusal(), refusal)?;
    }
    let calls = answer.calls();
    expect_equal("number of calls", calls.len(), expected.calls.len())?;
    let mut ids = std::collections::BTreeSet::new();
    for (call, expected) in calls.iter().zip(&expected.calls) {
        expect_equal("name", call.name.as_str(), expected.name.as_str())?;
        expect_equal(
            "arguments",
            arguments(&call.arguments),
            arguments(&expected.client_arguments()),
        )?;
        if dialect.arguments != ArgumentsForm::Object {
            expect_equal(
                "arguments",
                call.arguments.as_str(),
                &*expected.client_arguments(),
            )?;
        }
        expect_equal("status", call.status.as_str(), "completed")?;
        if matches!(
            dialect.ids,
            CallIdPlacement::First | CallIdPlacement::EmptyLater | CallIdPlacement::Repeated
        ) {
            expect_equal("id", call.call_id.as_str(), expected.id.as_str())?;
        }
        if call.call_id.is_empty() || !ids.insert(call.call_id.clone()) {
            return Err(format!(
                "the call id {:?} is empty or not unique",
                call.call_id
            ));
        }
    }
    // Most dialects send the token counts with the finish reason.
    let has_usage =
        dialect.usage != UsagePlacement::Nowhere && dialect.finish != FinishReasonForm::Missing;
    if let (Some([input, cached, write, output, reasoning]), true) = (expected.usage, has_usage) {
        let usage = json!({
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": input + output,
        });
        expect_equal("usage", &answer.response["usage"], &usage)?;
    }
    Ok(())
}

/// Compares the output of two responses. Generated call ids may differ.
fn expect_same_output(one: &Value, other: &Value) -> Result<(), String> {
    let output = |response: &Value| {
        let mut output = crate::turns::summarize_output(response);
        for item in output.as_array_mut().unwrap() {
            if item[0] == "function_call" {
                item[1] = Value::Null;
            }
        }
        output
    };
    expect_equal("output", output(one), output(other))
}

/// Arguments as JSON, or as text if they are not valid JSON.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn expect_equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?} instead of {expected:?}"))
}

/// An error in any form makes the answer fail with the provider's message.
#[test]
fn errors_in_a_stream() {
    let error = json!({"message": "the engine stopped", "code": 502});
    for form in switches::error_forms() {
        for (done, has_text) in [(false, false), (false, true), (true, false), (true, true)] {
            let dialect = ChatDialect {
                error: form,
                error_done: done,
                ..ChatDialect::default()
            };
            let mut steps = vec![json!({"error": error})];
            if has_text {
                steps.insert(0, json!({"text": "It begins"}));
            }
            let scripted = kit::player::ScriptedAnswer {
                dialect: Some(dialect),
                ..kit::player::ScriptedAnswer::steps(crate::turns::parse_steps(steps.into()))
            };
            let bytes = scripted.body_for(&request(true));
            for codex in [true, false] {
                let result = read_as_client(
                    bytes.as_bytes(),
                    &[11],
                    &registry::WireQuirks::default(),
                    codex,
                );
                let message = match &result {
                    ClientResult::Fault(fault) => fault.to_string(),
                    ClientResult::Answer(answer) => {
                        assert_eq!(answer.terminal, "response.failed", "{bytes}");
                        assert_eq!(answer.text().is_empty(), !has_text || codex, "{bytes}");
                        answer.response["error"]["message"].to_string()
                    }
                };
                assert!(
                    !has_text || matches!(result, ClientResult::Answer(_)),
                    "{bytes}"
                );
                let html = form == StreamErrorForm::Html && !has_text;
                assert!(
                    html || message.contains("the engine stopped"),
                    "{message}\n{bytes}"
                );
            }
        }
    }
}

impl ModelCall {
    /// The arguments that the client receives.
    fn client_arguments(&self) -> std::borrow::Cow<'_, str> {
        match self.arguments.as_str() {
            "" => "{}".into(),
            text => text.into(),
        }
    }
}
