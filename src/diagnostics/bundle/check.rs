//! Checks the metadata of a turn from an untrusted bundle, so that its users can rely
//! on bounded lists and times, valid numbers, and bodies of the stated length.

use std::time::Duration;

use adapters::fault::{Fault, Retry};

use super::timestamp::MAX_SECOND;
use super::{BodyChunk, BundleAttempt, BundleError, BundleTurn, MAX_ATTEMPTS};

/// Maximum number of chunks of one body, and of readings of clock or randomness.
const MAX_READINGS: usize = 1 << 20;
/// Maximum length of other lists: headers, notes, routes, learned patches and the like.
const MAX_LIST_LENGTH: usize = 10_000;
/// 48 hours.
const MAX_TURN_US: u64 = 48 * 3600 * 1_000_000;
/// 100 years: for configured times, and pauses that a provider asked for.
const MAX_SETTING_MS: u64 = 36_500 * 24 * 3600 * 1000;
const MAX_TOKENS: u64 = 1 << 50;

/// Rejects turns whose lists, times or numbers exceed the caps. Needs no bodies.
pub(super) fn check_metadata(turn: &BundleTurn, number: usize) -> Result<(), BundleError> {
    let checks = [
        (lists_are_bounded(turn), "a list in it is too long"),
        (times_are_bounded(turn), "a time in it is too long"),
        (
            turn.heartbeat_ms > 0,
            "it has signs of life without a pause",
        ),
        (statuses_are_valid(turn), "a status in it is none"),
        (random_is_hex(turn), "a reading of its randomness is none"),
        (tokens_are_bounded(turn), "a count of tokens is too large"),
        (ratios_are_bounded(turn), "its bytes a token are no number"),
    ];
    for (holds, what) in checks {
        if !holds {
            return Err(BundleError::Inconsistent { turn: number, what });
        }
    }
    Ok(())
}

/// Rejects turns whose bodies do not have the lengths that their metadata states.
pub(super) fn check_bodies(turn: &BundleTurn, number: usize) -> Result<(), BundleError> {
    let wrong = |what| Err(BundleError::Inconsistent { turn: number, what });
    let answers = turn.attempts.iter().map(|it| (&it.pieces, &it.answer));
    for (pieces, body) in answers.chain([(&turn.answer.pieces, &turn.answer.body)]) {
        if total_length(pieces) != Some(body.len()) {
            return wrong("the pieces of an answer are not as long as the answer");
        }
    }
    for omitted in &turn.omitted {
        let Some(kept) = turn.named_body(&omitted.what) else {
            return wrong("it lacks a part that no turn has");
        };
        if omitted.kept != kept.len() as u64 || omitted.total < omitted.kept {
            return wrong("what is told of a part that is not whole is not so");
        }
    }
    Ok(())
}

fn lists_are_bounded(turn: &BundleTurn) -> bool {
    let settings = &turn.settings;
    let state = &turn.state_before;
    let readings = [
        turn.clock.len(),
        turn.random.len(),
        turn.answer.pieces.len(),
    ];
    let listed = [
        turn.notes.len(),
        turn.omitted.len(),
        turn.request.headers.len(),
        turn.answer.headers.len(),
        settings.routes.len(),
        state.model_patches.len(),
        state.providers.len(),
    ];
    let of_attempts = |it: &BundleAttempt| {
        let head = it.head.as_ref().map_or(0, |head| head.headers.len());
        let listed = [it.headers.len(), head, it.key.unwrap_or(0)];
        it.pieces.len() <= MAX_READINGS && listed.iter().all(|count| *count <= MAX_LIST_LENGTH)
    };
    let mut keys = settings.routes.iter().map(|it| it.key_weights.len());
    let mut rests = state.providers.iter().map(|it| it.keys_rest_ms.len());
    readings.iter().all(|count| *count <= MAX_READINGS)
        && listed.iter().all(|count| *count <= MAX_LIST_LENGTH)
        && turn.attempts.len() <= MAX_ATTEMPTS
        && turn.attempts.iter().all(of_attempts)
        && keys.all(|count| count <= MAX_LIST_LENGTH)
        && rests.all(|count| count <= MAX_LIST_LENGTH)
}

fn times_are_bounded(turn: &BundleTurn) -> bool {
    let pieces = |pieces: &[BodyChunk]| pieces.iter().all(|piece| piece.at_us <= MAX_TURN_US);
    let attempt = |it: &BundleAttempt| {
        let head = it.head.as_ref().map_or(0, |head| head.at_us);
        [it.at_us, it.end_us, head]
            .iter()
            .all(|time| *time <= MAX_TURN_US)
            && pieces(&it.pieces)
    };
    let timeouts = turn.settings.routes.iter().flat_map(|route| {
        let timeouts = route.timeouts;
        [timeouts.connect, timeouts.first_byte, timeouts.idle]
    });
    let faults = turn.attempts.iter().filter_map(|it| it.fault.as_ref());
    let pauses = faults.chain(&turn.fault).filter_map(retry_pause);
    let rests = turn.state_before.providers.iter();
    turn.took_us <= MAX_TURN_US
        && turn.ending_us.is_none_or(|time| time <= MAX_TURN_US)
        && turn.began_ms / 1000 <= MAX_SECOND
        && turn.clock.iter().all(|(_, unix)| *unix <= MAX_SECOND)
        && turn.heartbeat_ms <= MAX_SETTING_MS
        && turn.commit_after_ms <= MAX_SETTING_MS
        && pieces(&turn.answer.pieces)
        && turn.attempts.iter().all(attempt)
        && timeouts
            .chain(pauses)
            .all(|time| time.as_millis() <= u128::from(MAX_SETTING_MS))
        && rests
            .flat_map(|state| state.keys_rest_ms.iter().chain([&state.down_ms]))
            .all(|rest| *rest <= MAX_SETTING_MS)
}

fn retry_pause(fault: &Fault) -> Option<Duration> {
    match fault.retry {
        Retry::After(pause) => Some(pause),
        Retry::Never | Retry::Soon => None,
    }
}

fn statuses_are_valid(turn: &BundleTurn) -> bool {
    let heads = turn.attempts.iter().filter_map(|it| it.head.as_ref());
    (turn.answer.status == 0 || is_status(turn.answer.status))
        && heads.into_iter().all(|head| is_status(head.status))
}

fn is_status(status: u16) -> bool {
    (100..1000).contains(&status)
}

fn random_is_hex(turn: &BundleTurn) -> bool {
    turn.random.iter().all(|bits| {
        bits.len() == 32
            && bits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn tokens_are_bounded(turn: &BundleTurn) -> bool {
    let usage = turn.usage.unwrap_or_default();
    let of_turn = [
        usage.input,
        usage.cached,
        usage.cache_write,
        usage.output,
        usage.reasoning,
    ];
    let of_attempts = turn.attempts.iter().flat_map(|it| {
        let window = it.window.map_or(0, |window| window.tokens);
        [window, it.estimated_input]
    });
    let of_models = turn.settings.routes.iter().flat_map(|it| {
        let model = &it.model;
        [model.window.unwrap_or(0), model.max_output.unwrap_or(0)]
    });
    of_attempts
        .chain(of_models)
        .chain(of_turn)
        .all(|count| count <= MAX_TOKENS)
}

fn ratios_are_bounded(turn: &BundleTurn) -> bool {
    let attempts = &turn.attempts;
    attempts
        .iter()
        .all(|it| (0.0..=1e6).contains(&it.bytes_per_token))
}

/// `None` on overflow.
fn total_length(pieces: &[BodyChunk]) -> Option<usize> {
    pieces
        .iter()
        .try_fold(0_usize, |sum, piece| sum.checked_add(piece.length))
}
