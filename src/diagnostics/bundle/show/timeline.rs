//! The timeline of a turn.

use std::fmt::Write as _;

use adapters::sse::SseDecoder;
use serde_json::Value;

use super::{ReportText, chunks_text, duration_text, fault_text, plural};
use crate::diagnostics::bundle::{BundleAttempt, BundleTurn};
use crate::turn::Outcome;

/// Writes a line for each event of the turn, with the time since the turn began.
pub(super) fn write(page: &mut ReportText, turn: &BundleTurn) {
    let mut lines = Vec::new();
    lines.push((0, request_text(turn)));
    for (index, attempt) in turn.attempts.iter().enumerate() {
        push_attempt(&mut lines, turn, index, attempt);
    }
    if let Some(at) = turn.ending_us {
        lines.push((at, "the program is about to stop".to_owned()));
    }
    push_response(&mut lines, turn);
    lines.push((turn.took_us, "end".to_owned()));
    // The sort is stable: events of the same time keep their order.
    lines.sort_by_key(|(at, _)| *at);
    for (at, text) in lines {
        page.line(format_args!("    {:>9}  {text}", duration_text(at)));
    }
}

fn request_text(turn: &BundleTurn) -> String {
    let request = &turn.request;
    let mut text = format!(
        "client request {}: {}",
        request.path,
        plural(request.body.len(), "byte")
    );
    let body: Option<Value> = serde_json::from_slice(&request.body).ok();
    match body.as_ref().map(|body| body.get("input")) {
        Some(Some(Value::Array(items))) => {
            let _ = write!(text, ", {}", plural(items.len(), "item"));
        }
        Some(Some(Value::String(_))) => text.push_str(", input is a text"),
        Some(_) => text.push_str(", without input"),
        None => text.push_str(", not JSON"),
    }
    if let Some(Value::Array(tools)) = body.as_ref().and_then(|body| body.get("tools")) {
        let _ = write!(text, ", {}", plural(tools.len(), "tool"));
    }
    text
}

fn push_attempt(
    lines: &mut Vec<(u64, String)>,
    turn: &BundleTurn,
    index: usize,
    attempt: &BundleAttempt,
) {
    let number = index + 1;
    let next = turn.attempts.get(number);
    let is_left = next.is_none() && turn.outcome == Some(Outcome::Disconnected);
    let key = attempt
        .key
        .map_or_else(|| "no key".to_owned(), |key| format!("key {}", key + 1));
    lines.push((
        attempt.at_us,
        format!(
            "attempt {number} -> {}: {}, {key}",
            attempt.route,
            plural(attempt.body.len(), "byte")
        ),
    ));
    if let Some(head) = &attempt.head {
        let after = duration_text(head.at_us.saturating_sub(attempt.at_us));
        lines.push((head.at_us, format!("  head {} after {after}", head.status)));
    }
    if let Some(first) = attempt.pieces.first() {
        lines.push((
            first.at_us,
            format!("  answer: {}", chunks_text(&attempt.pieces)),
        ));
    }
    let end = match (&attempt.fault, attempt.ended) {
        (Some(it), _) => format!("failed: {}", fault_text(it)),
        (None, _) if is_left => "left before its end".to_owned(),
        (None, _) => "complete".to_owned(),
    };
    lines.push((attempt.end_us, format!("  attempt {number} {end}")));
    let patch = attempt.fault.as_ref().and_then(|fault| fault.patch);
    if let Some(patch) = patch {
        lines.push((attempt.end_us, format!("  learned: {patch}")));
    }
    if let Some(next) = next {
        let pause = duration_text(next.at_us.saturating_sub(attempt.end_us));
        let what = match patch {
            Some(_) => "tried again, mended",
            None if next.route != attempt.route => "another provider or model",
            None => "tried again",
        };
        lines.push((next.at_us, format!("  {what} after {pause}")));
    }
}

fn push_response(lines: &mut Vec<(u64, String)>, turn: &BundleTurn) {
    let answer = &turn.answer;
    if answer.status == 0 {
        lines.push((turn.took_us, "no answer: the client had left".to_owned()));
        return;
    }
    let at = answer
        .pieces
        .first()
        .map_or(turn.took_us, |piece| piece.at_us);
    let pieces = chunks_text(&answer.pieces);
    lines.push((at, format!("answer {}: {pieces}", answer.status)));
    for (name, number) in count_events(&answer.body) {
        lines.push((at, format!("  {number:>5} {name}")));
    }
}

/// The server-sent events of a body: each name in order of first occurrence, and how
/// often it occurs. Empty for a JSON document.
fn count_events(body: &[u8]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut take = |event: adapters::sse::SseEvent<'_>| {
        let unnamed = if event.data == "[DONE]" {
            "[DONE]"
        } else {
            "without a name"
        };
        let name = event.name.as_deref().unwrap_or(unnamed);
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, number)) => *number += 1,
            None => counts.push((name.to_owned(), 1)),
        }
    };
    let mut decoder = SseDecoder::default();
    if decoder.feed(body, &mut take).is_ok() {
        // An event beyond the size limit only ends the count.
        let _ = decoder.finish(&mut take);
    }
    counts
}
