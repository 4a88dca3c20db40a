//! Makes what follows from the inputs of a redacted turn: the plan, the requests to providers and
//! the response to the client. Redacting these themselves would not do: an excerpt can cut a
//! secret in half, an id is a hash of what was redacted.

use adapters::fault::{Fault, Kind};
use adapters::stop_flag::StopFlag;

use super::replay_hiding;
use crate::diagnostics::bundle::{BodyChunk, BundleTurn, OmittedPart};
use crate::secrets::Redactor;
use crate::turn::Outcome;

/// Makes the results of a redacted turn by running it again. `original` is the same turn before
/// that redaction: if the redacted turn takes another course, or cannot be run, it has no results,
/// and its [`RerunReport`](crate::diagnostics::bundle::RerunReport) says why. Of no use if `stop`
/// is raised meanwhile.
pub(crate) fn remake(redacted: &BundleTurn, original: &BundleTurn, stop: &StopFlag) -> BundleTurn {
    let made = match replay_hiding(redacted, &Redactor::default(), stop) {
        Ok(made) => made,
        Err(error) => return redacted.without_results(&error.to_string()),
    };
    if Course::of(&made) != Course::of(original) {
        return redacted.without_results("without its secrets the turn takes another course");
    }
    let mut turn = redacted.with_results(&made);
    // A recording whose replay takes another course keeps the end that the client saw.
    if Course::of(redacted) == Course::of(&made) {
        turn.fault = made.fault;
        turn.notes = made.notes;
        turn.usage = made.usage;
        turn.answer.headers = made.answer.headers;
        for (attempt, made) in turn.attempts.iter_mut().zip(made.attempts) {
            attempt.fault = made.fault;
        }
    }
    turn
}

/// What happened in a turn, without any text.
#[derive(PartialEq)]
struct Course {
    /// For each attempt, the first one with its route, and how it failed.
    attempts: Vec<(Option<usize>, Option<Kind>)>,
    status: u16,
    outcome: Option<Outcome>,
    fault: Option<Kind>,
}

impl Course {
    fn of(turn: &BundleTurn) -> Self {
        let kind = |fault: &Option<Fault>| fault.as_ref().map(|fault| fault.kind);
        let attempts = &turn.attempts;
        let first = |route: &str| attempts.iter().position(|other| other.route == route);
        Self {
            attempts: attempts
                .iter()
                .map(|attempt| (first(&attempt.route), kind(&attempt.fault)))
                .collect(),
            status: turn.answer.status,
            outcome: turn.outcome,
            fault: kind(&turn.fault),
        }
    }
}

impl BundleTurn {
    /// This turn with what `made`, a replay of it, sent: the plan, the requests to providers, and
    /// the response to the client.
    pub(crate) fn with_results(&self, made: &Self) -> Self {
        let mut turn = self.clone();
        turn.plan.clone_from(&made.plan);
        turn.answer.body.clone_from(&made.answer.body);
        turn.answer.pieces = with_times(&self.answer.pieces, &made.answer.pieces);
        for (attempt, made) in turn.attempts.iter_mut().zip(&made.attempts) {
            attempt.body.clone_from(&made.body);
            attempt.estimated_input = made.estimated_input;
        }
        let mut omitted = std::mem::take(&mut turn.omitted);
        omitted.retain(|part| {
            let body = turn.named_body(&part.what);
            part.is_input() || body.is_some_and(Vec::is_empty)
        });
        turn.omitted = omitted;
        turn
    }

    /// This turn with its results omitted, because it cannot be run again.
    pub(crate) fn without_results(&self, why: &str) -> Self {
        let mut turn = self.clone();
        turn.rerun.failed = Some(why.to_owned());
        let mut omit = |what: String, body: &mut Vec<u8>| {
            let total = std::mem::take(body).len() as u64;
            if total > 0 {
                turn.omitted.push(OmittedPart {
                    what,
                    total,
                    kept: 0,
                });
            }
        };
        for (attempt, number) in turn.attempts.iter_mut().zip(1..) {
            omit(OmittedPart::request(number), &mut attempt.body);
        }
        omit(OmittedPart::ANSWER.to_owned(), &mut turn.answer.body);
        turn.answer.pieces.clear();
        turn.plan.clear();
        turn
    }
}

/// The chunks of a replayed response at the recorded times, if there are as many of them.
fn with_times(recorded: &[BodyChunk], made: &[BodyChunk]) -> Vec<BodyChunk> {
    if recorded.len() != made.len() {
        return made.to_vec();
    }
    let pairs = recorded.iter().zip(made);
    pairs
        .map(|(recorded, made)| BodyChunk {
            at_us: recorded.at_us,
            length: made.length,
        })
        .collect()
}
