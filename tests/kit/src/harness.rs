//! What tests need beside the standard harness: a time limit for those that are async, tables whose
//! rows are tests, and a word from those that cannot run.
use std::io::{self, Write as _};
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle, available_parallelism};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::player::PlayerWire;

// `kit::test(on_each_wire)` names each of them.
const _: () = assert!(PlayerWire::ALL.len() == 2);

/// The variable that chooses rows by a part of their name.
const ROW_VARIABLE: &str = "ROW";

/// Runs a test on a runtime of its own.
///
/// # Panics
/// If the test is not over after so many minutes.
pub fn run(minutes: u64, test: impl Future<Output = ()>) {
    let limit = Duration::from_mins(minutes);
    #[expect(clippy::expect_used, reason = "a test without a runtime has failed")]
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(async { timeout(limit, test).await });
    runtime.shutdown_background();
    assert!(outcome.is_ok(), "still running after {limit:?}");
}

/// Runs a test for each row of a table, as many at a time as there are processors, and names those
/// that failed. A row may take three minutes. `ROW=TEXT cargo test NAME` runs only the rows whose
/// name contains the text.
///
/// # Panics
/// If a row fails.
pub fn rows<N, R, F>(table: impl IntoIterator<Item = (N, R)>, test: impl Fn(R) -> F + Sync)
where
    N: ToString,
    R: Send,
    F: Future<Output = ()>,
{
    let chosen = std::env::var(ROW_VARIABLE).unwrap_or_default();
    let mut rows: Vec<(String, R)> = table
        .into_iter()
        .map(|(name, row)| (name.to_string(), row))
        .filter(|(name, _)| name.contains(&chosen))
        .collect();
    rows.reverse();
    let (rows, failed) = (Mutex::new(rows), Mutex::new(Vec::new()));
    let next = || lock(&rows).pop();
    let (next, test, fails) = (&next, &test, |name| lock(&failed).push(name));
    let fails = &fails;
    thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(move || {
                while let Some((name, row)) = next() {
                    // A panic tells the name of its thread.
                    let thread = thread::Builder::new().name(name.clone());
                    let run = thread.spawn_scoped(scope, move || run(3, test(row)));
                    if !matches!(run.map(ScopedJoinHandle::join), Ok(Ok(()))) {
                        fails(name);
                    }
                }
            });
        }
    });
    let failed = lock(&failed);
    assert!(failed.is_empty(), "failed: {:#?}", *failed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says why the test of this thread cannot run here. The harness shows nothing that is printed by a
/// test that passes, so this goes past it; `.ci/run` counts these lines.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {reason}");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::rows;

    #[test]
    fn every_row_runs_although_one_fails_and_that_one_is_named() {
        let ran = &AtomicUsize::new(0);
        let failure = catch_unwind(|| {
            rows([("one", 1), ("two", 2), ("three", 3)], |row| async move {
                ran.fetch_add(1, Ordering::Relaxed);
                assert!(row != 2);
            });
        });
        let message = failure.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "failed: [\n    \"two\",\n]");
        assert_eq!(ran.load(Ordering::Relaxed), 3);
    }
}
