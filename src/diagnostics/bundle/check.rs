//! What is told of a turn is held against what a turn can be, so that nobody
//! who uses it has to expect more.

use std::time::Duration;

use adapters::fault::{Fault, Retry};

use super::stamp::LAST_SECOND;
use super::{Attempt, BundleError, MOST_ATTEMPTS, Piece, Turn};

/// Pieces of one body, readings of clock or randomness.
const MOST_READINGS: usize = 1 << 20;
/// Headers, notes, routes, lessons and the like.
const MOST_LISTED: usize = 10_000;
/// 48 hours.
const LONGEST_US: u64 = 48 * 3600 * 1_000_000;
/// 100 years: a pause or a limit that somebody asked for.
const LONGEST_MS: u64 = 36_500 * 24 * 3600 * 1000;
const MOST_TOKENS: u64 = 1 << 50;

/// Says no to lists and times that are out of all proportion. It needs no body.
pub(super) fn check_numbers(turn: &Turn, number: usize) -> Result<(), BundleError> {
    let checks = [
        (lists(turn), "a list in it is too long"),
        (times(turn), "a time in it is too long"),
        (
            turn.heartbeat_ms > 0,
            "it has signs of life without a pause",
        ),
        (statuses(turn), "a status in it is none"),
        (random(turn), "a reading of its randomness is none"),
        (tokens(turn), "a count of tokens is too large"),
        (ratios(turn), "its bytes a token are no number"),
    ];
    for (holds, what) in checks {
        if !holds {
            return Err(BundleError::Wrong { turn: number, what });
        }
    }
    Ok(())
}

/// The bodies are as long as is told of them.
pub(super) fn check_sizes(turn: &Turn, number: usize) -> Result<(), BundleError> {
    let wrong = |what| Err(BundleError::Wrong { turn: number, what });
    let answers = turn.attempts.iter().map(|it| (&it.pieces, &it.answer));
    for (pieces, body) in answers.chain([(&turn.answer.pieces, &turn.answer.body)]) {
        if sum(pieces) != Some(body.len()) {
            return wrong("the pieces of an answer are not as long as the answer");
        }
    }
    for omitted in &turn.omitted {
        let Some(kept) = part(turn, &omitted.what) else {
            return wrong("it lacks a part that no turn has");
        };
        if omitted.kept != kept.len() as u64 || omitted.total < omitted.kept {
            return wrong("what is told of a part that is not whole is not so");
        }
    }
    Ok(())
}

fn lists(turn: &Turn) -> bool {
    let settings = &turn.settings;
    let given = &turn.given;
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
        given.model_patches.len(),
        given.providers.len(),
    ];
    let of_attempts = |it: &Attempt| {
        let head = it.head.as_ref().map_or(0, |head| head.headers.len());
        let listed = [it.headers.len(), head, it.key.unwrap_or(0)];
        it.pieces.len() <= MOST_READINGS && listed.iter().all(|count| *count <= MOST_LISTED)
    };
    let mut keys = settings.routes.iter().map(|it| it.key_weights.len());
    let mut rests = given.providers.iter().map(|it| it.keys_rest_ms.len());
    readings.iter().all(|count| *count <= MOST_READINGS)
        && listed.iter().all(|count| *count <= MOST_LISTED)
        && turn.attempts.len() <= MOST_ATTEMPTS
        && turn.attempts.iter().all(of_attempts)
        && keys.all(|count| count <= MOST_LISTED)
        && rests.all(|count| count <= MOST_LISTED)
}

fn times(turn: &Turn) -> bool {
    let pieces = |pieces: &[Piece]| pieces.iter().all(|piece| piece.at_us <= LONGEST_US);
    let attempt = |it: &Attempt| {
        let head = it.head.as_ref().map_or(0, |head| head.at_us);
        [it.at_us, it.end_us, head]
            .iter()
            .all(|time| *time <= LONGEST_US)
            && pieces(&it.pieces)
    };
    let timeouts = turn.settings.routes.iter().flat_map(|route| {
        let timeouts = route.timeouts;
        [timeouts.connect, timeouts.first_byte, timeouts.idle]
    });
    let faults = turn.attempts.iter().filter_map(|it| it.fault.as_ref());
    let pauses = faults.chain(&turn.fault).filter_map(pause);
    let rests = turn.given.providers.iter();
    turn.took_us <= LONGEST_US
        && turn.ending_us.is_none_or(|time| time <= LONGEST_US)
        && turn.began_ms / 1000 <= LAST_SECOND
        && turn.clock.iter().all(|(_, unix)| *unix <= LAST_SECOND)
        && turn.heartbeat_ms <= LONGEST_MS
        && turn.commit_after_ms <= LONGEST_MS
        && pieces(&turn.answer.pieces)
        && turn.attempts.iter().all(attempt)
        && timeouts
            .chain(pauses)
            .all(|time| time.as_millis() <= u128::from(LONGEST_MS))
        && rests
            .flat_map(|state| state.keys_rest_ms.iter().chain([&state.down_ms]))
            .all(|rest| *rest <= LONGEST_MS)
}

fn pause(fault: &Fault) -> Option<Duration> {
    match fault.retry {
        Retry::After(pause) => Some(pause),
        Retry::Never | Retry::Soon => None,
    }
}

fn statuses(turn: &Turn) -> bool {
    let heads = turn.attempts.iter().filter_map(|it| it.head.as_ref());
    (turn.answer.status == 0 || is_status(turn.answer.status))
        && heads.into_iter().all(|head| is_status(head.status))
}

fn is_status(status: u16) -> bool {
    (100..1000).contains(&status)
}

fn random(turn: &Turn) -> bool {
    turn.random.iter().all(|bits| {
        bits.len() == 32
            && bits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn tokens(turn: &Turn) -> bool {
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
        .all(|count| count <= MOST_TOKENS)
}

fn ratios(turn: &Turn) -> bool {
    let attempts = &turn.attempts;
    attempts
        .iter()
        .all(|it| (0.0..=1e6).contains(&it.bytes_per_token))
}

/// None where it is more than there can be.
fn sum(pieces: &[Piece]) -> Option<usize> {
    pieces
        .iter()
        .try_fold(0_usize, |sum, piece| sum.checked_add(piece.length))
}

/// The part of a turn that [`Omitted::what`] names.
fn part<'a>(turn: &'a Turn, what: &str) -> Option<&'a Vec<u8>> {
    match what {
        "request" => return Some(&turn.request.body),
        "answer" => return Some(&turn.answer.body),
        _ => {}
    }
    let (number, part) = what.strip_prefix("attempt ")?.split_once(' ')?;
    let number: usize = number.parse().ok()?;
    let attempt = turn.attempts.get(number.checked_sub(1)?)?;
    match part {
        "request" => Some(&attempt.body),
        "answer" => Some(&attempt.answer),
        _ => None,
    }
}
