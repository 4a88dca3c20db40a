//! The turns that are running now. A turn that takes long is reported while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::clock::milliseconds;
use crate::log;
use crate::log::SafeText;
use crate::metrics::spent::Spending;
use crate::net::local_owner;

/// How long a turn runs before it is reported for the first time.
const FIRST_REPORT: Duration = Duration::from_secs(10);
/// The time between two reports of one turn.
const REPORT_PERIOD: Duration = Duration::from_secs(30);

/// The turns that are running now. Lives as long as the service; connections are limited, and with
/// them the number of turns.
#[derive(Debug, Default)]
pub struct RunningTurns {
    /// The turns by number, the oldest first.
    turns: Mutex<BTreeMap<u64, RunningEntry>>,
    started: AtomicU64,
}

/// A turn that is running, as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RunningTurnReport {
    /// The id of the HTTP request.
    pub request_id: String,
    /// The owner.
    #[serde(default = "local_owner")]
    pub owner: String,
    /// `provider/model` of the last attempt, without secrets; `None` before the first one.
    pub route: Option<String>,
    /// How long it has been running, in milliseconds.
    pub running_ms: u64,
    /// Bytes that the provider has sent.
    pub received_bytes: u64,
}

/// What is reported of one turn.
#[derive(Debug)]
struct RunningEntry {
    request_id: Arc<str>,
    owner: Arc<str>,
    /// What it is known to have used or to be about to use.
    spending: Spending,
    /// `provider/model` of the last attempt, without secrets; empty before the first one.
    route: String,
    /// The model and the tag of the session, as the log names them.
    names: (String, String),
    began: Instant,
    next_report: Instant,
    received: Arc<AtomicU64>,
}

/// One running turn. Made when the turn begins, dropped when it ends.
#[derive(Debug)]
pub(super) struct RunningTurn {
    all: Arc<RunningTurns>,
    number: u64,
    received: Arc<AtomicU64>,
}

impl RunningTurns {
    /// The number of turns that are running.
    pub fn count(&self) -> usize {
        self.turns.lock().len()
    }

    /// The turns that are running, the oldest first.
    pub fn list(&self) -> Vec<RunningTurnReport> {
        let now = Instant::now();
        let turns = self.turns.lock();
        let report = |turn: &RunningEntry| RunningTurnReport {
            request_id: turn.request_id.to_string(),
            owner: turn.owner.to_string(),
            route: Some(turn.route.clone()).filter(|route| !route.is_empty()),
            running_ms: milliseconds(now.duration_since(turn.began)),
            received_bytes: turn.received.load(Relaxed),
        };
        turns.values().map(report).collect()
    }

    /// Logs the turns that run for 10 s or more, each one every 30 s. Never returns.
    pub async fn report_long_turns(&self) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            self.report(Instant::now());
        }
    }

    fn report(&self, now: Instant) {
        for turn in self.turns.lock().values_mut() {
            if now < turn.next_report {
                continue;
            }
            turn.next_report = now + REPORT_PERIOD;
            tracing::info!(
                target: log::TURN_TARGET,
                request = %turn.request_id,
                route = %SafeText::new(&turn.route),
                model = %SafeText::new(&turn.names.0),
                tag = %SafeText::new(&turn.names.1),
                running_s = now.duration_since(turn.began).as_secs(),
                received = turn.received.load(Relaxed),
            );
        }
    }

    /// What the running turns of an owner are known to use.
    pub(super) fn spending(&self, owner: &str) -> Spending {
        let turns = self.turns.lock();
        let own = turns.values().filter(|turn| &*turn.owner == owner);
        own.fold(Spending::default(), |sum, turn| sum.and(turn.spending))
    }

    pub(super) fn begin(self: &Arc<Self>, request_id: &Arc<str>, owner: &Arc<str>) -> RunningTurn {
        let began = Instant::now();
        let number = self.started.fetch_add(1, Relaxed);
        let received = Arc::<AtomicU64>::default();
        let entry = RunningEntry {
            request_id: Arc::clone(request_id),
            owner: Arc::clone(owner),
            spending: Spending::default(),
            route: String::new(),
            names: Default::default(),
            began,
            next_report: began + FIRST_REPORT,
            received: Arc::clone(&received),
        };
        self.turns.lock().insert(number, entry);
        RunningTurn {
            all: Arc::clone(self),
            number,
            received,
        }
    }
}

impl RunningTurn {
    /// Sets the `provider/model` that the turn is sent to, and the names of the model and the
    /// session in the log.
    pub(super) fn set_route(&self, route: String, model: String, tag: &str) {
        if let Some(turn) = self.all.turns.lock().get_mut(&self.number) {
            turn.route = route;
            turn.names = (model, tag.to_owned());
        }
    }

    /// Sets what the turn has used or is about to use.
    pub(super) fn set_spending(&self, spending: Spending) {
        if let Some(turn) = self.all.turns.lock().get_mut(&self.number) {
            turn.spending = spending;
        }
    }

    /// Sets what the turn is about to use, if a check of what the other running turns of its owner
    /// use allows it. Turns that ask at the same time are checked one after the other; one that was
    /// allowed is not asked again.
    pub(super) fn reserve<E>(
        &self,
        spending: Spending,
        check: impl FnOnce(Spending) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut turns = self.all.turns.lock();
        let own = turns.get(&self.number);
        let own = own.filter(|own| own.spending == Spending::default());
        let Some(owner) = own.map(|own| Arc::clone(&own.owner)) else {
            return Ok(());
        };
        let others = turns
            .iter()
            .filter(|(number, turn)| **number != self.number && turn.owner == owner);
        check(others.fold(Spending::default(), |sum, (_, turn)| sum.and(turn.spending)))?;
        if let Some(own) = turns.get_mut(&self.number) {
            own.spending = spending;
        }
        Ok(())
    }

    /// Adds bytes that the provider has sent.
    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.all.turns.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{RecordFormat, captured_lines};

    #[tokio::test]
    async fn turns_that_begin_together_are_checked_one_after_the_other() {
        let running = Arc::<RunningTurns>::default();
        let begin = |owner: &str| running.begin(&"req_1".into(), &owner.into());
        let asked = Spending {
            tokens: 7_000,
            ..Spending::default()
        };
        let check = |others: Spending| (others.tokens < 20_000).then_some(()).ok_or(());
        let turns: Vec<_> = (0..30).map(|_| begin("alice")).collect();
        let allowed = turns
            .iter()
            .filter(|turn| turn.reserve(asked, check).is_ok());
        assert_eq!(allowed.count(), 3);
        assert!(begin("bob").reserve(asked, check).is_ok());
        assert_eq!(running.spending("alice").tokens, 21_000);
        drop(turns);
        assert!(begin("alice").reserve(asked, check).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_turn_is_reported_after_10_seconds_and_then_every_30() {
        let running = Arc::<RunningTurns>::default();
        let turn = running.begin(&"req_1".into(), &"local".into());
        let began = Instant::now();
        let reported = |seconds| {
            captured_lines(RecordFormat::Human, || {
                running.report(began + Duration::from_secs(seconds));
            })
        };
        let sentence = |lines: Vec<String>| {
            let [line] = lines.as_slice() else {
                panic!("{lines:?}")
            };
            // The date and the time come first.
            line.splitn(3, ' ').last().unwrap().to_owned()
        };
        assert!(reported(9).is_empty());
        let expected = "has been running for 10 s, nothing received";
        assert_eq!(sentence(reported(10)), expected);
        assert!(reported(39).is_empty());
        turn.set_route("acme/m-1".to_owned(), "m-1".to_owned(), "proj");
        turn.add_received(12_345);
        let expected = "m-1 has been running for 40 s, 12.3 kB received proj";
        assert_eq!(sentence(reported(40)), expected);
        assert_eq!(running.count(), 1);
        drop(turn);
        assert_eq!(running.count(), 0);
        assert!(reported(70).is_empty());
    }
}
