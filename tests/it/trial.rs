//! Turns async functions into trials.
use std::time::Duration;

use kit::player::PlayerWire;
use libtest_mimic::{Completion, Trial};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// The time after which a trial fails. Only a trial that hangs takes this long.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A trial that runs on its own runtime and fails if it panics.
pub fn case<F>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    case_if(name, || Ok(()), move |()| test())
}

/// A trial that has so much to do that it may take minutes beside others.
pub fn long_case<F>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    within(TIMEOUT * 5, name, || Ok(()), move |()| test())
}

/// The trials for each wire of an upstream.
pub fn on_each_wire(trials: impl Fn(PlayerWire) -> Vec<Trial>) -> Vec<Trial> {
    PlayerWire::ALL.into_iter().flat_map(trials).collect()
}

/// A trial whose only parameter is the wire of its upstream, which its name ends with unless it is
/// Chat Completions.
pub fn wire_case<F>(
    wire: PlayerWire,
    name: &str,
    test: impl FnOnce(PlayerWire) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    case(&name_on(wire, name), move || test(wire))
}

/// The name of a trial on a wire.
pub fn name_on(wire: PlayerWire, name: &str) -> String {
    match wire {
        PlayerWire::Chat => name.to_owned(),
        PlayerWire::Responses => format!("{name}, over Responses"),
    }
}

/// A trial with a requirement: if `require` returns an error, the trial is reported as ignored with
/// that reason; otherwise the test gets the value that it returns.
pub fn case_if<N, F>(
    name: &str,
    require: impl FnOnce() -> Result<N, String> + Send + 'static,
    test: impl FnOnce(N) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    within(TIMEOUT, name, require, test)
}

fn within<N, F>(
    limit: Duration,
    name: &str,
    require: impl FnOnce() -> Result<N, String> + Send + 'static,
    test: impl FnOnce(N) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    Trial::ignorable_test(name, move || {
        let value = match require() {
            Ok(value) => value,
            Err(reason) => return Ok(Completion::ignored_with(reason)),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let outcome = runtime.block_on(async { timeout(limit, test(value)).await });
        runtime.shutdown_background();
        match outcome {
            Ok(()) => Ok(Completion::Completed),
            Err(_) => Err(format!("still running after {limit:?}").into()),
        }
    })
}
