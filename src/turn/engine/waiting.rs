//! The pauses between the requests of a round, and what the user of Codex sees of them.

use std::time::Duration;

use adapters::fault::{Fault, FaultClass, Patience};
use tokio::time::sleep;

use super::Answer;
use super::round::Round;
use crate::turn::caller::TurnKind;
use crate::upstream::{SHORT_COOLDOWN, failure_reason};

impl Answer<'_> {
    /// Waits before the request is sent again. The user of Codex sees why, if it takes a while.
    pub(super) async fn pause(
        &mut self,
        round: &Round,
        fault: &Fault,
        pause: Duration,
    ) -> Result<(), Fault> {
        let provider = &round.attempt.upstream.provider().id;
        let line = waiting_line(fault, pause, provider);
        let caller = &self.ctx.caller;
        let is_seen = caller.codex && caller.kind != TurnKind::Compaction;
        if is_seen
            && self.streams()
            && round.hidden.is_none()
            && let Some(line) = line
        {
            self.begin();
            self.assembler.show_wait(&line, &mut self.events);
            self.send().await;
        }
        self.wait_with_heartbeat(sleep(pause)).await?;
        if fault.patience != Patience::UntilReady {
            self.end_wait().await;
        }
        Ok(())
    }

    /// Tells the user of Codex that a wait is over, if they saw one.
    pub(super) async fn end_wait(&mut self) {
        if self.assembler.end_wait(&mut self.events) {
            self.send().await;
        }
    }
}

/// What the user of Codex sees of the pause before the next request to this provider; `None` if the
/// pause is short. The wait for a model that is loading has many short ones.
fn waiting_line(fault: &Fault, pause: Duration, provider: &str) -> Option<String> {
    let seconds = pause.as_millis().div_ceil(1000);
    match fault.kind.class() {
        _ if fault.patience == Patience::UntilReady => {
            Some(format!("Waiting for {provider} to load its model"))
        }
        _ if pause <= SHORT_COOLDOWN => None,
        FaultClass::RateLimit => Some(format!(
            "Waiting {seconds} s for the rate limit of {provider}"
        )),
        _ => {
            let reason = failure_reason(fault)?;
            Some(format!("Trying {provider} again in {seconds} s: {reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use adapters::fault::{Kind, Retry};

    use super::*;

    #[test]
    fn a_long_pause_has_a_line_that_says_why() {
        let limit = Fault {
            retry: Retry::After(Duration::from_secs(20)),
            ..Fault::new(Kind::RateLimit, "slow down")
        };
        let unavailable = Fault {
            upstream_status: Some(500),
            ..Fault::new(Kind::Unavailable, "x")
        };
        let loading = Fault {
            patience: Patience::UntilReady,
            ..Fault::new(Kind::Overloaded, "x")
        };
        for (fault, pause, line) in [
            (&limit, 20_000, "Waiting 20 s for the rate limit of lab"),
            (&limit, 2_000, ""),
            (
                &unavailable,
                7_300,
                "Trying lab again in 8 s: it answered with status 500",
            ),
            (&loading, 2_000, "Waiting for lab to load its model"),
            (&Fault::new(Kind::Draining, "x"), 9_000, ""),
        ] {
            let pause = Duration::from_millis(pause);
            let shown = waiting_line(fault, pause, "lab").unwrap_or_default();
            assert_eq!(shown, line, "{fault:?}");
        }
    }
}
