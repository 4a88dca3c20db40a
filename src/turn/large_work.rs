//! Long computations of a turn: they run without delaying other streams, and end soon when their
//! result is not wanted any more.

use std::time::Duration;

use adapters::stop_flag::{StopFlag, StopReason};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::TurnContext;
use crate::net::ClientConnection;
use crate::net::blocking::{block_in_place_if_large, is_handed_over};

/// How often the watcher checks whether the work is still wanted. Work looks at its stop flag far
/// more often, so this decides how soon it ends.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl TurnContext {
    /// Runs CPU-bound `work` on a body of `bytes` bytes. During work on a large body nothing polls
    /// the connection of the client, so a watcher raises [`Self::stop`] when the client leaves, the
    /// turn is past its limit or the process ends.
    pub(super) fn run_work<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let _watch = is_handed_over(bytes).then(|| {
            let watch = WorkWatch {
                client: self.client.clone(),
                deadline: self.deadline,
                shutdown: self.shutdown.clone(),
                stop: self.stop.clone(),
            };
            AbortOnDropHandle::new(tokio::spawn(watch.run()))
        });
        block_in_place_if_large(bytes, work)
    }
}

/// Watches whether the result of the work is still wanted. Ends with the work.
struct WorkWatch {
    client: Option<ClientConnection>,
    deadline: Instant,
    shutdown: CancellationToken,
    stop: StopFlag,
}

impl WorkWatch {
    async fn run(self) {
        loop {
            if let Some(reason) = self.reason() {
                self.stop.raise(reason);
                return;
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    fn reason(&self) -> Option<StopReason> {
        if self.client.as_ref().is_some_and(ClientConnection::has_left) {
            Some(StopReason::ClientLeft)
        } else if Instant::now() >= self.deadline {
            Some(StopReason::TurnTimeout)
        } else if self.shutdown.is_cancelled() {
            Some(StopReason::ShuttingDown)
        } else {
            None
        }
    }
}
