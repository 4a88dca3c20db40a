//! Makes redacted turns for bundles of recordings and of stored bundles.

use adapters::stop_flag::StopFlag;

use super::finished::FinishedTurn;
use super::sent::Sent;
use crate::config::Config;
use crate::diagnostics::bundle::{BundleTurn, OmittedPart, RerunReport, Scope, compare};
use crate::diagnostics::redact::{Keep, Scrubber};
use crate::diagnostics::replay::{remake, replay_hiding};

/// How many events a report lists.
const MOST_EVENTS: usize = 100;

pub(super) fn scrubber(config: &Config, keep: Keep) -> Scrubber {
    Scrubber::new(config.redactor().clone(), keep)
}

/// The turn of a bundle: what was recorded, redacted by each of the scrubbers, and what follows
/// from it. Blocks: the turn is run again twice. Of no use if `stop` is raised meanwhile.
pub(super) fn redacted_turn(
    finished: &FinishedTurn,
    scrubbers: &[&Scrubber],
    stop: &StopFlag,
) -> BundleTurn {
    let (recorded, sent) = finished.open();
    let replayed = replay_hiding(&recorded, finished.config.redactor(), stop);
    let mut original = match replayed {
        Ok(replayed) => replayed,
        Err(error) => {
            return scrubbed(&recorded, scrubbers).without_results(&error.to_string());
        }
    };
    let rerun = sent.rerun_report(&recorded, &original);
    // From here on only its course matters.
    original.clear_bodies();
    let mut redacted = scrubbed(&recorded, scrubbers);
    drop(recorded);
    redacted.rerun = rerun;
    remake(&redacted, &original, stop)
}

/// A turn of a bundle, redacted again: the scrubber may know patterns that are newer than the
/// file. Blocks if that makes a difference: the turn is run again. Of no use if `stop` is raised
/// meanwhile.
pub(super) fn redacted_again(
    stored: BundleTurn,
    scrubber: &Scrubber,
    stop: &StopFlag,
) -> BundleTurn {
    let redacted = scrubber.turn(&stored);
    if redacted == stored {
        return stored;
    }
    remake(&redacted, &stored, stop)
}

fn scrubbed(turn: &BundleTurn, scrubbers: &[&Scrubber]) -> BundleTurn {
    let mut scrubbers = scrubbers.iter();
    let first = scrubbers.next().map(|scrubber| scrubber.turn(turn));
    let first = first.unwrap_or_default();
    scrubbers.fold(first, |turn, scrubber| scrubber.turn(&turn))
}

impl Sent {
    /// What a replay sent that is not this, and what else it did otherwise. Names no text of the
    /// turn.
    fn rerun_report(&self, recorded: &BundleTurn, replayed: &BundleTurn) -> RerunReport {
        let mut events = self.answer.differing_events(&replayed.answer.body);
        events.truncate(MOST_EVENTS);
        let requests = self.requests.iter().zip(&replayed.attempts).zip(1..);
        let differing = requests.filter(|((sent, made), _)| !sent.is_same(&made.body));
        let mut parts: Vec<String> = differing
            .map(|(_, number)| OmittedPart::request(number))
            .collect();
        // What was sent is compared by its hashes, so the replayed bytes can replace it.
        let found = compare(&recorded.with_results(replayed), replayed, Scope::Replay);
        parts.extend(found.into_iter().map(|difference| difference.location));
        RerunReport {
            failed: None,
            events,
            parts,
        }
    }
}
