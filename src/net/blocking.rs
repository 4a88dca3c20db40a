//! Runs work on large bodies without delaying other streams on the same thread.

use std::sync::LazyLock;
use std::thread;

use adapters::stop_flag::{StopFlag, StopReason};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{block_in_place, spawn_blocking};

/// Work on this many bytes or more is handed over. Work on fewer bytes takes about as long
/// as the pause between two events of a stream.
const LARGE_BYTES: usize = 1 << 20;

/// Whether work on a body of `bytes` bytes is handed over on this runtime.
pub(crate) fn is_handed_over(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
        && Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Runs CPU-bound `work` on a body of `bytes` bytes. If the body is large, another thread
/// takes over the other tasks of this one meanwhile, as in
/// [`tokio::task::block_in_place`]. On a single-threaded runtime the work simply runs.
pub(crate) fn block_in_place_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if is_handed_over(bytes) {
        block_in_place(work)
    } else {
        work()
    }
}

/// Runs `work` on a blocking thread. The flag that it gets is raised when this future is dropped:
/// when the client that waits for the result has left, or the server ends. `None` if the work has
/// panicked.
pub(crate) async fn run_stoppable<T: Send + 'static>(
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> Option<T> {
    let stop = StopOnDrop(StopFlag::new());
    let raised = stop.0.clone();
    spawn_blocking(move || work(&raised)).await.ok()
}

/// Runs CPU-bound `work` of milliseconds, such as parsing a page, on a thread of its own with a low
/// priority. Half of the processors, rounded up, run such work at once, so that streams find
/// another one. Work that waits for its turn is dropped with this future; work that runs goes on to
/// its end. `None` if it has panicked, or no thread could be started.
pub(crate) async fn run_at_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let place = LOW_PRIORITY.acquire().await.ok()?;
    let (done, result) = oneshot::channel();
    let run = move || {
        lower_priority();
        done.send(work()).ok();
        drop(place);
    };
    let thread = thread::Builder::new().name("low-priority".to_owned());
    thread.spawn(run).ok()?;
    result.await.ok()
}

static LOW_PRIORITY: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(low_priority_places()));

fn low_priority_places() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.div_ceil(2)
}

/// Where other threads want a whole processor, one of this niceness gets about a tenth of it.
#[cfg(target_os = "linux")]
fn lower_priority() {
    rustix::process::setpriority_process(None, 10).ok();
}

/// Only on Linux is a priority that of a thread.
#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

/// Waits until no such work runs.
#[cfg(test)]
pub(crate) async fn low_priority_work_ended() {
    let all = u32::try_from(low_priority_places()).unwrap();
    drop(LOW_PRIORITY.acquire_many(all).await.unwrap());
}

struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.raise(StopReason::ClientLeft);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    /// Promise: Pages are parsed by threads of a lower priority than those of streams, on half of
    /// the processors at once; a parser that panics ends nothing else.
    #[tokio::test(flavor = "multi_thread")]
    async fn low_priority_work_leaves_processors_to_streams() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let own = priority();
        let lowered = run_at_low_priority(priority).await.unwrap();
        assert_eq!(lowered > own, cfg!(target_os = "linux"), "{lowered}, {own}");
        assert_eq!(priority(), own);
        assert_eq!(
            run_at_low_priority(|| -> u8 { panic!("of a parser") }).await,
            None
        );
        let running = Arc::new(AtomicUsize::new(0));
        let works = (0..4 * low_priority_places()).map(|_| {
            let running = Arc::clone(&running);
            run_at_low_priority(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                now
            })
        });
        let most = futures_util::future::join_all(works).await;
        assert!(
            most.into_iter()
                .flatten()
                .all(|now| now <= low_priority_places())
        );
        low_priority_work_ended().await;
    }

    /// A task that waits for the only worker thread continues during large work.
    #[test]
    fn other_tasks_run_during_large_work() {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (done, other) = channel();
        let work = runtime.spawn(async move {
            tokio::spawn(async move { done.send(()).unwrap() });
            block_in_place_if_large(LARGE_BYTES, || other.recv().unwrap());
        });
        runtime.block_on(work).unwrap();
    }

    #[tokio::test]
    async fn work_whose_result_nobody_waits_for_is_stopped() {
        let (begun, has_begun) = channel();
        let (ended, has_ended) = channel();
        let work = tokio::spawn(run_stoppable(move |stop| {
            begun.send(()).unwrap();
            while !stop.is_raised() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        while has_begun.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        has_ended
            .recv_timeout(std::time::Duration::from_secs(30))
            .expect("the work goes on");
    }

    #[tokio::test]
    async fn the_result_of_stoppable_work_is_returned() {
        assert_eq!(run_stoppable(StopFlag::is_raised).await, Some(false));
    }

    #[test]
    fn small_work_and_single_threaded_work_run_in_place() {
        assert_eq!(block_in_place_if_large(LARGE_BYTES, || 1), 1);
        let single = Builder::new_current_thread().build().unwrap();
        assert_eq!(
            single.block_on(async { block_in_place_if_large(LARGE_BYTES, || 2) }),
            2
        );
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let here = async {
            (
                std::thread::current().id(),
                block_in_place_if_large(1, || std::thread::current().id()),
            )
        };
        let (before, within) = runtime.block_on(runtime.spawn(here)).unwrap();
        assert_eq!(before, within);
    }
}
