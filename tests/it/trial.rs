//! How a test becomes a trial.
use std::time::Duration;

use libtest_mimic::{Completion, Trial};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Nothing here takes this long unless it hangs.
const HANGS: Duration = Duration::from_mins(1);

/// A trial on a runtime of its own. A panic is its failure.
pub fn case<F>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    case_if(name, || Ok(()), move |()| test())
}

/// A trial that is reported as ignored, with the reason, where `need` says what is
/// absent; else it gets what `need` found.
pub fn case_if<N, F>(
    name: &str,
    need: impl FnOnce() -> Result<N, String> + Send + 'static,
    test: impl FnOnce(N) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    Trial::ignorable_test(name, move || {
        let found = match need() {
            Ok(found) => found,
            Err(absent) => return Ok(Completion::ignored_with(absent)),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let done = runtime.block_on(async { timeout(HANGS, test(found)).await });
        runtime.shutdown_background();
        match done {
            Ok(()) => Ok(Completion::Completed),
            Err(_) => Err(format!("still running after {HANGS:?}").into()),
        }
    })
}
