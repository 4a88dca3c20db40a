//! Checks the metadata of a turn from an untrusted bundle, so that its users can rely
//! on bounded lists and times, valid numbers, and bodies of the stated length.

use std::time::Duration;

use adapters::fault::{Fault, Retry};
use registry::RouteSnapshot;

use super::timestamp::MAX_SECOND;
use super::{BodyChunk, BundleAttempt, BundleError, BundleTurn, MAX_ATTEMPTS};

/// Maximum number of chunks of one body, and of readings of clock or randomness.
const MAX_READINGS: usize = 1 << 20;
/// Maximum length of other lists: headers, notes, routes, learned patches and the like.
pub(in crate::diagnostics) const MAX_LIST_LENGTH: usize = 10_000;
/// 48 hours.
const MAX_TURN_US: u64 = 48 * 3600 * 1_000_000;
/// 100 years: for configured times, and pauses that a provider asked for.
const MAX_SETTING: Duration = Duration::from_hours(36_500 * 24);
const MAX_TOKENS: u64 = 1 << 50;

/// What is wrong with a turn.
type Check = Result<(), &'static str>;

/// Rejects turns whose lists, times or numbers exceed the caps. Needs no bodies.
pub(super) fn check_metadata(turn: &BundleTurn, number: usize) -> Result<(), BundleError> {
    check_turn(turn).map_err(|what| BundleError::Inconsistent { turn: number, what })
}

/// Rejects turns whose bodies do not have the lengths that their metadata states.
pub(super) fn check_bodies(turn: &BundleTurn, number: usize) -> Result<(), BundleError> {
    let wrong = |what| Err(BundleError::Inconsistent { turn: number, what });
    let answers = turn.attempts.iter().map(|it| (&it.pieces, &it.answer));
    for (pieces, body) in answers.chain([(&turn.answer.pieces, &turn.answer.body)]) {
        if BodyChunk::total(pieces) != body.len() {
            return wrong("the pieces of an answer are not as long as the answer");
        }
    }
    for omitted in &turn.omitted {
        let Some(kept) = turn.named_body(&omitted.what) else {
            return wrong("it lacks a part that no turn has");
        };
        if omitted.kept != kept.len() as u64 || omitted.total < omitted.kept {
            return wrong("what it says about an incomplete part is wrong");
        }
    }
    Ok(())
}

fn check_turn(turn: &BundleTurn) -> Check {
    let state = &turn.state_before;
    for length in [
        turn.notes.len(),
        turn.omitted.len(),
        turn.rerun.events.len(),
        turn.rerun.parts.len(),
        turn.request.headers.len(),
        turn.answer.headers.len(),
        turn.settings.routes.len(),
        turn.heartbeats_between_attempts.len(),
        state.model_patches.len(),
        state.providers.len(),
    ] {
        list(length, MAX_LIST_LENGTH)?;
    }
    list(turn.attempts.len(), MAX_ATTEMPTS)?;
    list(turn.clock.len(), MAX_READINGS)?;
    list(turn.random.len(), MAX_READINGS)?;
    seconds(turn.began_ms / 1000)?;
    for (_, unix) in &turn.clock {
        seconds(*unix)?;
    }
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_random = |bits: &String| bits.len() == 32 && bits.bytes().all(is_hex);
    let what = "a random value in it cannot be read";
    require(turn.random.iter().all(is_random), what)?;
    let what = "its heartbeat has no interval";
    require(turn.heartbeat_ms > 0, what)?;
    setting(Duration::from_millis(turn.heartbeat_ms))?;
    setting(Duration::from_millis(turn.commit_after_ms))?;
    setting(Duration::from_millis(turn.turn_timeout_ms.unwrap_or(0)))?;
    for learned in &state.model_patches {
        list(learned.patches.len(), MAX_LIST_LENGTH)?;
        tokens(learned.answered.input)?;
        tokens(learned.answered.output)?;
    }
    for state in &state.providers {
        list(state.keys_rest_ms.len(), MAX_LIST_LENGTH)?;
        for rest in state.keys_rest_ms.iter().chain([&state.down_ms]) {
            setting(Duration::from_millis(*rest))?;
        }
    }
    turn.settings.routes.iter().try_for_each(check_route)?;
    turn.attempts.iter().try_for_each(check_attempt)?;
    if turn.answer.status != 0 {
        status(turn.answer.status)?;
    }
    chunks(&turn.answer.pieces)?;
    time(turn.took_us)?;
    time(turn.ending_us.unwrap_or(0))?;
    let usage = turn.usage.unwrap_or_default();
    tokens(usage.input)?;
    tokens(usage.cached)?;
    tokens(usage.cache_write)?;
    tokens(usage.output)?;
    tokens(usage.reasoning)?;
    fault(turn.fault.as_ref())
}

fn check_route(route: &RouteSnapshot) -> Check {
    list(route.key_weights.len(), MAX_LIST_LENGTH)?;
    setting(route.timeouts.connect)?;
    setting(route.timeouts.first_byte)?;
    setting(route.timeouts.idle)?;
    tokens(route.model.window.unwrap_or(0))?;
    tokens(route.model.max_output.unwrap_or(0))
}

fn check_attempt(attempt: &BundleAttempt) -> Check {
    list(attempt.headers.len(), MAX_LIST_LENGTH)?;
    list(attempt.key.unwrap_or(0), MAX_LIST_LENGTH)?;
    time(attempt.at_us)?;
    time(attempt.end_us)?;
    if let Some(head) = &attempt.head {
        list(head.headers.len(), MAX_LIST_LENGTH)?;
        time(head.at_us)?;
        status(head.status)?;
    }
    chunks(&attempt.pieces)?;
    tokens(attempt.window.map_or(0, |window| window.tokens))?;
    tokens(attempt.estimated_input)?;
    let is_ratio = (0.0..=1e6).contains(&attempt.bytes_per_token);
    require(is_ratio, "its bytes per token are not a number")?;
    fault(attempt.fault.as_ref())
}

fn chunks(chunks: &[BodyChunk]) -> Check {
    list(chunks.len(), MAX_READINGS)?;
    chunks.iter().try_for_each(|chunk| time(chunk.at_us))
}

fn fault(fault: Option<&Fault>) -> Check {
    match fault.map(|fault| fault.retry) {
        Some(Retry::After(pause)) => setting(pause),
        Some(Retry::Never | Retry::Soon) | None => Ok(()),
    }
}

fn list(length: usize, most: usize) -> Check {
    require(length <= most, "a list in it is too long")
}

fn time(us: u64) -> Check {
    require(us <= MAX_TURN_US, "a time in it is too long")
}

fn setting(time: Duration) -> Check {
    require(time <= MAX_SETTING, "a time in it is too long")
}

fn seconds(unix: u64) -> Check {
    require(unix <= MAX_SECOND, "a time in it is too long")
}

fn tokens(count: u64) -> Check {
    require(count <= MAX_TOKENS, "a count of tokens is too large")
}

/// A status that ends a response. One below 200 announces another head, and its receiver waits for
/// that.
fn status(status: u16) -> Check {
    require(
        (200..1000).contains(&status),
        "a status in it is not a final one",
    )
}

fn require(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}
