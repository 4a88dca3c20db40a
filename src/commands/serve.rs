//! `respondent serve`: starts the server with a configuration, and ends when all its turns have
//! ended.

mod banner;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::print_text;
use crate::app::{AppState, routes};
use crate::artifacts::Artifacts;
use crate::clock::{Clock, System};
use crate::config::{ArtifactMode, Config, ConfigWatcher, Inputs, report};
use crate::diagnostics::bundle::BundleFolder;
use crate::diagnostics::capture::TurnCapture;
use crate::log;
use crate::metrics::Metrics;
use crate::net::memory::ProcessMemory;
use crate::sandbox::Sandbox;
use crate::serve::{
    self, BodyLimits, Edge, EdgeSettings, GuardSettings, ListenLimits, Shutdown, Token,
};
use crate::store::{DataDir, OpenError, Store, SweepResult, UnusableStore};
use crate::turn::{RunningTurns, Service};

/// Starts the server and runs it until SIGTERM or SIGINT. Returns when all turns have ended.
pub async fn run_server(inputs: Inputs, mut config: Config) -> anyhow::Result<()> {
    let listener = bind(config.server.listen).await?;
    let address = listener.local_addr()?;
    let _sandbox = if config.sandbox {
        Some(start_sandbox(&mut config).await?)
    } else {
        None
    };
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("respondent");
    let codex_setup = banner::codex_setup_command(program, &inputs.flags, &config, address);
    // Watches the files before the banner, so that every edit after it takes effect.
    let watch = ConfigWatcher::new(inputs, config);
    let live = watch.live();
    let config = live.load_full();
    let memory = ProcessMemory::new(config.memory_limit());
    let settings = edge_settings(&config, &memory)?;
    let settings = Arc::new(ArcSwap::from_pointee(settings));
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let metrics = Arc::new(Metrics::new());
    let store = open_store(&config)?;
    let artifacts = Artifacts::open(
        &config.artifacts,
        store,
        Arc::new(System),
        metrics.artifacts(),
    );
    print_text(&report::found_file_notice(&config).unwrap_or_default())?;
    print_text(&banner::banner(&config, address, &codex_setup))?;

    let limits = ListenLimits {
        header_timeout: config.server.header_timeout,
        connections: config.server.max_connections,
        ..ListenLimits::default()
    };
    let shutdown = Shutdown::new(config.server.grace);
    let capture = TurnCapture::default();
    let (flushed, limited) = (capture.clone(), capture.clone());
    tokio::spawn(clean_up(Arc::clone(&live), artifacts.clone()));
    let service = Service::new(
        live,
        metrics,
        shutdown.ending.clone(),
        Arc::new(capture.clone()),
        artifacts,
    );
    let running = Arc::clone(&service.running);
    service.count_memory(&memory);
    capture.count_memory(&memory);
    let app = AppState {
        service: Arc::new(service),
        capture,
        started_ms: now_ms(),
        memory: memory.clone(),
    };
    let edge = Edge::new(routes(&app), Arc::clone(&settings), app);
    let applied = move |config: &Config| {
        limited.apply_limits(config);
        memory.set_limit(config.memory_limit());
        match edge_settings(config, &memory) {
            Ok(new) => settings.store(Arc::new(new)),
            Err(error) => tracing::error!("the guard keeps its settings: {error:#}"),
        }
    };
    tokio::spawn(watch.run(crate::config::watch::POLL_INTERVAL, applied));
    let reported = Arc::clone(&running);
    tokio::spawn(async move { reported.report_long_turns().await });
    tokio::spawn(stop_on_signals(shutdown.clone(), running)?);
    serve::serve(listener, edge, limits, shutdown).await;
    tokio::task::spawn_blocking(move || flushed.flush())
        .await
        .ok();
    tracing::info!("stopped");
    Ok(())
}

async fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!("{listen} is in use, perhaps by another respondent; stop that one or choose another address with --listen"),
        _ => anyhow::anyhow!("cannot listen on {listen}: {error}"),
    })
}

/// Starts the offline model on a free port.
async fn start_sandbox(config: &mut Config) -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::start()
        .await
        .context("cannot start the offline model")?;
    config.set_sandbox_address(sandbox.address());
    Ok(sandbox)
}

/// Opens the store if the configuration keeps artifacts on disk. A store that cannot be used is
/// returned as an error for [`Artifacts`], which logs a warning; a data directory that another
/// server uses is an error of the start.
fn open_store(config: &Config) -> anyhow::Result<Option<Result<Arc<Store>, UnusableStore>>> {
    match config.artifacts.mode {
        ArtifactMode::Off | ArtifactMode::Memory => return Ok(None),
        ArtifactMode::Disk => {}
    }
    let data_dir = DataDir::new(&config.server.data_dir);
    match Store::open(&data_dir, System.unix()) {
        Ok(store) => Ok(Some(Ok(Arc::new(store)))),
        Err(OpenError::Unusable(error)) => Ok(Some(Err(error))),
        Err(OpenError::InUse(in_use)) => anyhow::bail!(
            "{in_use}; stop that one, or give this one another data_dir in [server], or let it keep nothing there with mode = \"memory\" in [artifacts]"
        ),
    }
}

fn edge_settings(config: &Config, memory: &ProcessMemory) -> anyhow::Result<EdgeSettings> {
    let server = &config.server;
    let token = match &server.token {
        Some(secret) => Some(Token::new(secret.expose())?),
        None => None,
    };
    Ok(EdgeSettings {
        guard: GuardSettings {
            redactor: config.redactor().clone(),
            hosts: server.allowed_hosts.clone(),
            origins: server.allowed_origins.clone(),
            token,
            config_file: config.paths.shown.clone(),
        },
        body: BodyLimits {
            max: server.body_limit,
            idle: server.body_timeout,
            memory: memory.clone(),
            ..BodyLimits::default()
        },
    })
}

/// Deletes old recorded turns and artifacts, and artifacts beyond the size limit: every hour, and
/// at once when artifacts exceed the limit by much. Every minute it retries writes that failed.
async fn clean_up(live: Arc<ArcSwap<Config>>, artifacts: Artifacts) {
    let mut hours = tokio::time::interval(Duration::from_hours(1));
    let mut minutes = tokio::time::interval(Duration::from_mins(1));
    loop {
        tokio::select! {
            _ = hours.tick() => {}
            () = artifacts.over_quota() => {}
            _ = minutes.tick() => {
                artifacts.flush_to_disk().await;
                continue;
            }
        }
        let folder = BundleFolder::from_config(&live.load());
        let pruned = tokio::task::spawn_blocking(move || folder.prune(SystemTime::now())).await;
        if let Ok(Err(error)) = pruned {
            tracing::warn!(target: log::CAPTURE_TARGET, "old turns cannot be deleted: {error}");
        }
        // `sweep` has already reported a failure.
        if let Ok(swept) = artifacts.sweep().await
            && swept.artifacts > 0
        {
            let SweepResult { artifacts, bytes } = swept;
            tracing::info!("deleted {artifacts} artifacts of {bytes} bytes");
        }
    }
}

/// Begins the shutdown at the first SIGTERM or SIGINT. The second one does not wait for the running
/// turns any longer.
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
    Ok(async move {
        either_signal(&mut terminate, &mut interrupt).await;
        tracing::info!("{}", stopping_sentence(running.count(), grace));
        drain.cancel();
        either_signal(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping now");
        ending.cancel();
    })
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

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
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
