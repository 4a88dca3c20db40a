//! Each recorded answer comes out as what it says, however its bytes arrive.

use adapters::fault::Fault;
use kit::strict::{self, CheckedStream};
use registry::Quirks;
use serde_json::Value;

use super::body::{Answer, Recording};
use super::oracle::{self, Call, End, Said, Usage};
use super::replay::{Client, play};
use super::{fail_with, known, refusals};
use crate::dialects::drive::DrivenAnswer;

/// Longer bodies are not read byte by byte: that takes long and shows nothing new.
const SHORT: usize = 20_000;

pub fn check(folder: &str, recordings: &[Recording]) {
    let provider = known::provider(folder);
    let mut wrong = Vec::new();
    for recording in recordings {
        let model = recording.request.as_ref().and_then(|r| r["model"].as_str());
        let quirks = known::model(&provider, model.unwrap_or_default()).0.quirks;
        let chunks = match recording.answer() {
            Answer::Stream(chunks) => chunks,
            Answer::Document(document) => vec![document],
            Answer::Refusal(status) => {
                refusals::check(status, recording, &mut |problem| {
                    wrong.push(format!("{folder}/{}: {problem}", recording.name));
                });
                continue;
            }
            Answer::Other => continue,
        };
        let said = oracle::said(&chunks, &quirks);
        replay(recording, &quirks, &said, &mut |problem| {
            wrong.push(format!("{folder}/{}: {problem}", recording.name));
        });
    }
    fail_with(&wrong);
}

fn replay(recording: &Recording, quirks: &Quirks, said: &Said, tell: &mut dyn FnMut(String)) {
    let body = recording.body.as_slice();
    let any = play(quirks, Client::Any, [body]);
    let codex = play(quirks, Client::Codex, [body]);
    let whole = play(quirks, Client::Unstreamed, [body]);
    for (cut, sizes) in cuts(body) {
        let cut_any = play(quirks, Client::Any, reads(body, &sizes));
        if cut_any.body != any.body {
            tell(format!("differs when it is read {cut}"));
        }
    }
    let stream = match strict::check(&text(&any)) {
        Ok(stream) => stream,
        Err(broken) => return tell(format!("the stream breaks rules: {broken:?}")),
    };
    match strict::check_for_codex(&text(&codex)) {
        Ok(for_codex) => same_for_codex(&stream, &for_codex, tell),
        Err(broken) => tell(format!("the stream for Codex breaks rules: {broken:?}")),
    }
    if any.fault.is_none() {
        match strict::check_response(&text(&whole)) {
            Ok(response) if response["output"] == stream.response["output"] => {}
            Ok(response) => tell(format!("is not the same without streaming: {response}")),
            Err(broken) => tell(format!("the response breaks rules: {broken:?}")),
        }
    }
    same(said, &stream, any.fault.as_ref(), tell);
}

fn text(played: &DrivenAnswer) -> String {
    String::from_utf8(played.body.clone()).unwrap()
}

/// Codex gets refusals as text, and nothing that is not whole.
fn same_for_codex(stream: &CheckedStream, codex: &CheckedStream, tell: &mut dyn FnMut(String)) {
    if stream.terminal != codex.terminal {
        tell(format!("ends in {} for Codex", codex.terminal));
    }
    if stream.terminal == "response.completed"
        && (stream.text() + &stream.refusal(), stream.calls()) != (codex.text(), codex.calls())
    {
        tell("says something else to Codex".to_owned());
    }
}

fn same(said: &Said, stream: &CheckedStream, fault: Option<&Fault>, tell: &mut dyn FnMut(String)) {
    let mut equal = |what: &str, recorded: &str, ours: &str| {
        if recorded != ours {
            let (recorded, ours) = different(recorded, ours);
            tell(format!("{what} is {recorded:?} and came as {ours:?}"));
        }
    };
    equal(
        "the text",
        visible(&said.text, &stream.text()),
        &stream.text(),
    );
    let thought = stream.reasoning();
    equal(
        "the reasoning",
        visible(&said.reasoning, &thought),
        &thought,
    );
    equal("the refusal", &said.refusal, &stream.refusal());
    let end = match &said.end {
        End::Stop => "response.completed",
        End::Length | End::Filter => "response.incomplete",
        End::Error(_) | End::Cut => "response.failed",
    };
    equal("the end", end, &stream.terminal);
    let cited = said.citations.join(" ");
    equal(
        "the list of citations",
        &cited,
        &citations(&stream.response).join(" "),
    );
    if !matches!(said.end, End::Error(_) | End::Cut) {
        equal(
            "the usage",
            &usage(said),
            &given_usage(&stream.response["usage"]),
        );
    }
    same_calls(&said.calls, stream, tell);
    if let End::Error(error) = &said.end {
        match fault {
            Some(fault) => refusals::check_inside(error, fault, tell),
            None => tell(format!("no fault comes of {error}")),
        }
    }
}

/// White space at the end of a text says nothing: it may be left out.
fn visible<'s>(said: &'s str, ours: &'s str) -> &'s str {
    match said.strip_prefix(ours) {
        Some(rest) if rest.trim().is_empty() => ours,
        _ => said,
    }
}

/// From a little before the first difference on, and not too much.
fn different(recorded: &str, ours: &str) -> (String, String) {
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

fn usage(said: &Said) -> String {
    let told = |usage: Usage| {
        format!(
            "input {} cached {} output {} reasoning {}",
            usage.input, usage.cached, usage.output, usage.reasoning
        )
    };
    said.usage.map_or_else(String::new, told)
}

/// Without counts of the provider ours are an estimate.
fn given_usage(usage: &Value) -> String {
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

fn same_calls(said: &[Call], stream: &CheckedStream, tell: &mut dyn FnMut(String)) {
    let calls = stream.calls();
    if said.len() != calls.len() {
        return tell(format!("{} calls came as {}", said.len(), calls.len()));
    }
    for (place, (said, call)) in said.iter().zip(&calls).enumerate() {
        let is_free = !(1..=64).contains(&said.id.len());
        let is_new = stream
            .calls()
            .iter()
            .take(place)
            .all(|before| before.call_id != said.id);
        if !is_free && is_new && said.id != call.call_id {
            tell(format!("call id {} became {}", said.id, call.call_id));
        }
        if said.name != call.name {
            tell(format!("call {:?} became {:?}", said.name, call.name));
        }
        if !same_arguments(&said.arguments, &call.arguments) {
            tell(format!(
                "arguments of {} are {:?} and came as {:?}",
                said.name, said.arguments, call.arguments
            ));
        }
    }
}

/// No arguments are an empty object.
fn same_arguments(said: &str, ours: &str) -> bool {
    let said = if said.is_empty() { "{}" } else { said };
    match (
        serde_json::from_str::<Value>(said),
        serde_json::from_str::<Value>(ours),
    ) {
        (Ok(said), Ok(ours)) => said == ours,
        _ => said == ours,
    }
}

/// Ways to cut a body into reads, as sizes that repeat.
fn cuts(body: &[u8]) -> Vec<(&'static str, Vec<usize>)> {
    // Any sizes do; these follow from the body, so that a failure comes again.
    let mut state = body.len() as u64 | 1;
    let random = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % 997 + 1
    });
    let mut cuts = vec![
        ("by seven", vec![7]),
        ("at random", random.take(64).collect()),
    ];
    if body.len() < SHORT {
        cuts.push(("byte by byte", vec![1]));
    }
    cuts
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
