//! Each recorded answer reaches the client with its content, however its bytes are split.

use adapters::fault::Fault;
use kit::drive::DrivenAnswer;
use kit::strict::{self, CheckedStream};
use registry::WireQuirks;
use serde_json::Value;

use super::body::{RecordedAnswer, Recording};
use super::oracle::{self, AnswerEnd, ExpectedAnswer, ExpectedCall, ExpectedUsage};
use super::replay::{ReplayClient, replay};
use super::{assert_no_problems, providers, refusals};

/// The length up to which a body is also read byte by byte. For longer bodies that takes too long
/// and shows nothing else.
const MAX_BYTE_BY_BYTE: usize = 20_000;

pub fn check(folder: &str, recordings: &[Recording]) {
    let provider = providers::provider(folder);
    let mut problems = Vec::new();
    for recording in recordings {
        let model = recording.request.as_ref().and_then(|r| r["model"].as_str());
        let quirks = providers::model(&provider, model.unwrap_or_default())
            .0
            .quirks;
        let chunks = match recording.answer() {
            RecordedAnswer::Stream(chunks) => chunks,
            RecordedAnswer::Document(document) => vec![document],
            RecordedAnswer::Refusal(status) => {
                refusals::check(status, recording, &mut |problem| {
                    problems.push(format!("{folder}/{}: {problem}", recording.name));
                });
                continue;
            }
            RecordedAnswer::Other => continue,
        };
        let expected = oracle::expected_answer(&chunks, quirks.as_chat().unwrap());
        check_replay(recording, &quirks, &expected, &mut |problem| {
            problems.push(format!("{folder}/{}: {problem}", recording.name));
        });
    }
    assert_no_problems(&problems);
}

fn check_replay(
    recording: &Recording,
    quirks: &WireQuirks,
    expected: &ExpectedAnswer,
    report: &mut dyn FnMut(String),
) {
    let body = recording.body.as_slice();
    let any = replay(quirks, ReplayClient::Any, [body]);
    let codex = replay(quirks, ReplayClient::Codex, [body]);
    let whole = replay(quirks, ReplayClient::Unstreamed, [body]);
    for (split, sizes) in splits(body) {
        let split_any = replay(quirks, ReplayClient::Any, reads(body, &sizes));
        if split_any.body != any.body {
            report(format!("differs when it is read {split}"));
        }
    }
    let stream = match strict::check(&text(&any)) {
        Ok(stream) => stream,
        Err(broken) => return report(format!("the stream breaks rules: {broken:?}")),
    };
    match strict::check_for_codex(&text(&codex)) {
        Ok(for_codex) => compare_for_codex(&stream, &for_codex, report),
        Err(broken) => report(format!("the stream for Codex breaks rules: {broken:?}")),
    }
    if any.fault.is_none() {
        match strict::check_response(&text(&whole)) {
            Ok(response) if response["output"] == stream.response["output"] => {}
            Ok(response) => report(format!("differs without streaming: {response}")),
            Err(broken) => report(format!("the response breaks rules: {broken:?}")),
        }
    }
    compare(expected, &stream, any.fault.as_ref(), report);
}

fn text(played: &DrivenAnswer) -> String {
    String::from_utf8(played.body.clone()).unwrap()
}

/// Compares the stream for Codex, which gets refusals as text and no incomplete items.
fn compare_for_codex(
    stream: &CheckedStream,
    codex: &CheckedStream,
    report: &mut dyn FnMut(String),
) {
    if stream.terminal != codex.terminal {
        report(format!("ends in {} for Codex", codex.terminal));
    }
    if stream.terminal == "response.completed"
        && (stream.text() + &stream.refusal(), stream.calls()) != (codex.text(), codex.calls())
    {
        report("has other content for Codex".to_owned());
    }
}

/// Compares the stream with the expected answer.
fn compare(
    expected: &ExpectedAnswer,
    stream: &CheckedStream,
    fault: Option<&Fault>,
    report: &mut dyn FnMut(String),
) {
    let mut expect_equal = |what: &str, recorded: &str, ours: &str| {
        if recorded != ours {
            let (recorded, ours) = around_difference(recorded, ours);
            report(format!(
                "{what} is {recorded:?} and was received as {ours:?}"
            ));
        }
    };
    expect_equal(
        "the text",
        without_dropped_white_space(&expected.text, &stream.text()),
        &stream.text(),
    );
    let reasoning = stream.reasoning();
    expect_equal(
        "the reasoning",
        without_dropped_white_space(&expected.reasoning, &reasoning),
        &reasoning,
    );
    expect_equal("the refusal", &expected.refusal, &stream.refusal());
    let end = match &expected.end {
        AnswerEnd::Stop => "response.completed",
        AnswerEnd::Length | AnswerEnd::Filter => "response.incomplete",
        AnswerEnd::Error(_) | AnswerEnd::Cut => "response.failed",
    };
    expect_equal("the end", end, &stream.terminal);
    let cited = expected.citations.join(" ");
    expect_equal(
        "the list of citations",
        &cited,
        &citations(&stream.response).join(" "),
    );
    if !matches!(expected.end, AnswerEnd::Error(_) | AnswerEnd::Cut) {
        expect_equal(
            "the usage",
            &format_expected_usage(expected),
            &format_usage(&stream.response["usage"]),
        );
    }
    compare_calls(&expected.calls, stream, report);
    if let AnswerEnd::Error(error) = &expected.end {
        match fault {
            Some(fault) => refusals::check_stream_error(error, fault, report),
            None => report(format!("there is no fault for {error}")),
        }
    }
}

/// The expected text without trailing white space that the output leaves out: it carries no
/// meaning.
fn without_dropped_white_space<'s>(expected: &'s str, ours: &'s str) -> &'s str {
    match expected.strip_prefix(ours) {
        Some(rest) if rest.trim().is_empty() => ours,
        _ => expected,
    }
}

/// Short extracts of both texts from slightly before their first difference.
fn around_difference(recorded: &str, ours: &str) -> (String, String) {
    let same = recorded
        .chars()
        .zip(ours.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let near = |text: &str| -> String {
        text.chars()
            .skip(same.saturating_sub(20))
            .take(120)
            .collect()
    };
    (near(recorded), near(ours))
}

fn format_expected_usage(expected: &ExpectedAnswer) -> String {
    let format = |usage: ExpectedUsage| {
        format!(
            "input {} cached {} output {} reasoning {}",
            usage.input, usage.cached, usage.output, usage.reasoning
        )
    };
    expected.usage.map_or_else(String::new, format)
}

/// The usage of the response. It is an estimate if the provider sent no token counts.
fn format_usage(usage: &Value) -> String {
    format!(
        "input {} cached {} output {} reasoning {}",
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"]
    )
}

fn citations(response: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for item in response["output"].as_array().unwrap() {
        for part in item["content"].as_array().into_iter().flatten() {
            for note in part["annotations"].as_array().into_iter().flatten() {
                let url = note["url"].as_str().unwrap_or_default().to_owned();
                if !found.contains(&url) {
                    found.push(url);
                }
            }
        }
    }
    found
}

fn compare_calls(
    expected: &[ExpectedCall],
    stream: &CheckedStream,
    report: &mut dyn FnMut(String),
) {
    let calls = stream.calls();
    if expected.len() != calls.len() {
        return report(format!(
            "{} calls were received as {}",
            expected.len(),
            calls.len()
        ));
    }
    for (place, (expected, call)) in expected.iter().zip(&calls).enumerate() {
        let may_change = !(1..=64).contains(&expected.id.len());
        let is_new = stream
            .calls()
            .iter()
            .take(place)
            .all(|before| before.call_id != expected.id);
        if !may_change && is_new && expected.id != call.call_id {
            report(format!("call id {} became {}", expected.id, call.call_id));
        }
        if expected.name != call.name {
            report(format!("call {:?} became {:?}", expected.name, call.name));
        }
        if !same_arguments(&expected.arguments, &call.arguments) {
            report(format!(
                "arguments of {} are {:?} and were received as {:?}",
                expected.name, expected.arguments, call.arguments
            ));
        }
    }
}

/// Whether the arguments are equal as JSON. Empty arguments count as an empty object.
fn same_arguments(expected: &str, ours: &str) -> bool {
    let expected = if expected.is_empty() { "{}" } else { expected };
    match (
        serde_json::from_str::<Value>(expected),
        serde_json::from_str::<Value>(ours),
    ) {
        (Ok(expected), Ok(ours)) => expected == ours,
        _ => expected == ours,
    }
}

/// Several ways to split a body into reads, as read sizes that repeat.
fn splits(body: &[u8]) -> Vec<(&'static str, Vec<usize>)> {
    // The sizes are arbitrary. They are derived from the body so that a failure is reproducible.
    let mut state = body.len() as u64 | 1;
    let random = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % 997 + 1
    });
    let mut splits = vec![
        ("by seven", vec![7]),
        ("at random", random.take(64).collect()),
    ];
    if body.len() < MAX_BYTE_BY_BYTE {
        splits.push(("byte by byte", vec![1]));
    }
    splits
}

fn reads<'b>(mut body: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut reads = Vec::new();
    for size in sizes.iter().cycle() {
        if body.is_empty() {
            break;
        }
        let (read, rest) = body.split_at((*size).min(body.len()));
        reads.push(read);
        body = rest;
    }
    reads
}
