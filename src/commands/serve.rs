//! `respondent serve`: runs the server until SIGTERM or SIGINT, and ends when all its turns have
//! ended.

mod banner;
mod server;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::background::process_file::{ProcessFile, RunningServer, ServiceManager};
use super::invocation::{Invocation, typed_program};
use super::{print_labelled, print_text};
use crate::config::{Config, Inputs, LoadPurpose, report};
use crate::log;
use crate::serve::Shutdown;
use crate::turn::RunningTurns;

pub use server::{BindError, Server, ServerKind, bind};

/// Starts the server and runs it until SIGTERM or SIGINT, or until its terminal is closed. Returns
/// when all turns have ended. `config` was loaded from `inputs` for `purpose`.
pub async fn run_server(
    inputs: Inputs,
    purpose: LoadPurpose,
    config: Config,
) -> anyhow::Result<()> {
    let listener = bind(config.server.listen).await?;
    let address = listener.local_addr()?;
    let flags = inputs.flags.clone();
    let server = Server::new(listener, inputs, purpose, config, ServerKind::Permanent).await?;
    let config = server.config();
    // Signals and the file come before the address is printed: who reads it may stop the server.
    tokio::spawn(stop_on_signals(server.shutdown(), server.running_turns())?);
    let running = RunningServer {
        address,
        manager: ServiceManager::of_this_process(),
    };
    // Without a data directory only its terminal stops the server.
    let _process_file = ProcessFile::hold(&config.server.data_dir, &running);
    print_text(&report::found_file_notice(&config).unwrap_or_default())?;
    let invocation = Invocation {
        program: &typed_program(),
        flags: &flags,
        config: &config,
        address,
    };
    print_labelled(&banner::banner(&invocation, log::current_file()))?;
    if log::current_file().is_some() {
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!("Respondent {version} is listening on http://{address}");
    }
    server.run().await;
    tracing::info!("stopped");
    Ok(())
}

/// Begins the shutdown at the first SIGTERM, SIGINT or SIGHUP. The second one does not wait for the
/// running turns any longer.
fn stop_on_signals(
    shutdown: Shutdown,
    running: Arc<RunningTurns>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let Shutdown {
        drain,
        ending,
        grace,
        ..
    } = shutdown;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = if ignores_hangup() {
        None
    } else {
        Some(signal(SignalKind::hangup())?)
    };
    Ok(async move {
        tokio::select! {
            () = either_signal(&mut terminate, &mut interrupt) => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {}
        }
        tracing::info!("{}", stopping_sentence(running.count(), grace));
        drain.cancel();
        either_signal(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping now");
        ending.cancel();
    })
}

/// Whether SIGHUP, which comes when the terminal is closed, is ignored as under `nohup`. True where
/// this cannot be found out.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & 1 == 1)
}

/// Waits for one of two signals.
async fn either_signal(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn stopping_sentence(running: usize, grace: Duration) -> String {
    let turns = match running {
        0 => return "stopping".to_owned(),
        1 => "1 turn is".to_owned(),
        count => format!("{count} turns are"),
    };
    let seconds = grace.as_secs();
    format!(
        "stopping: {turns} still running, waiting up to {seconds} s (press Ctrl-C again to stop now)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_how_many_turns_are_waited_for() {
        let sentence = |running| stopping_sentence(running, Duration::from_secs(20));
        assert_eq!(sentence(0), "stopping");
        assert_eq!(
            sentence(1),
            "stopping: 1 turn is still running, waiting up to 20 s (press Ctrl-C again to stop now)"
        );
        assert!(sentence(2).starts_with("stopping: 2 turns are still running, "));
    }
}
