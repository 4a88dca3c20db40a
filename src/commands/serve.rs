//! `respondent serve`: starts the server with a configuration, and ends when all its turns have
//! ended.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::print_text;
use crate::app::{AppState, models, routes};
use crate::artifacts::Artifacts;
use crate::clock::{Clock, System};
use crate::config::{ArtifactMode, Config, ConfigWatcher, Flags, Inputs, address};
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
use crate::turn::Service;

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
    let codex_print = codex_print_command(program, &inputs.flags, &config, address);
    // Watches the files before the greeting, so that every edit after it takes effect.
    let watch = ConfigWatcher::new(inputs, config);
    let live = watch.live();
    let config = live.load_full();
    let memory = ProcessMemory::new(config.memory_limit());
    let settings = edge_settings(&config, address, &memory)?;
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
    print_text(&greeting(&config, address, &codex_print))?;

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
        match edge_settings(config, address, &memory) {
            Ok(new) => settings.store(Arc::new(new)),
            Err(error) => tracing::error!("the guard keeps its settings: {error:#}"),
        }
    };
    tokio::spawn(watch.run(crate::config::watch::POLL_INTERVAL, applied));
    tokio::spawn(drain_on_signal(shutdown.drain.clone())?);
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

fn edge_settings(
    config: &Config,
    address: SocketAddr,
    memory: &ProcessMemory,
) -> anyhow::Result<EdgeSettings> {
    let server = &config.server;
    let token = match &server.token {
        Some(secret) => Some(Token::new(secret.expose())?),
        None => None,
    };
    let mut hosts = server.allowed_hosts.clone();
    if !address.ip().is_unspecified() {
        hosts.push(address.to_string());
    }
    Ok(EdgeSettings {
        guard: GuardSettings {
            hosts,
            port: address.port(),
            origins: server.allowed_origins.clone(),
            token,
        },
        body: BodyLimits {
            max: server.body_limit,
            idle: server.body_timeout,
            memory: memory.clone(),
            ..BodyLimits::default()
        },
    })
}

/// The text that is printed at the start: the models that are served, and how to use them.
fn greeting(config: &Config, address: SocketAddr, codex_print: &str) -> String {
    let mut lines = vec![format!(
        "Respondent {} serves the Responses API on http://{address}/v1",
        env!("CARGO_PKG_VERSION")
    )];
    for provider in &config.registry.providers {
        let mut models: Vec<String> = provider
            .models
            .iter()
            .map(|model| config.registry.public_name(provider, model))
            .collect();
        let listed = models.len();
        models.truncate(4);
        if listed > models.len() {
            models.push(format!("and {} more", listed - models.len()));
        }
        if provider.passthrough {
            models.push(format!("{} (any name)", provider.prefixed_name("...")));
        }
        lines.push(format!("  {}: {}", provider.id, models.join(", ")));
    }
    if config.sandbox {
        lines.push("The sandbox is a scripted offline model. For a real one set its key, such as OPENAI_API_KEY, or write a proxy-config.toml (see proxy-config.example.toml).".to_owned());
    }
    if address::accepts_remote_clients(address) {
        lines
            .push("Other machines reach this server: whoever has the token may use it.".to_owned());
    }
    let base = format!("http://{}/v1", address::local_client_address(address));
    let model = models::first_model(config);
    lines.push(format!(
        "Codex: its config.toml is printed by: {codex_print}"
    ));
    lines.push(format!("SDKs:  base_url {base}, model {model}"));
    lines.push(String::new());
    lines.join("\n")
}

/// The command that prints Codex's configuration for this server, with the flags
/// that this one was started with.
fn codex_print_command(
    program: &str,
    flags: &Flags,
    config: &Config,
    address: SocketAddr,
) -> String {
    let file = match &flags.config {
        Some(file) => format!(" --config {}", file.display()),
        None => String::new(),
    };
    let listen = if flags.listen.is_some() || address != config.server.listen {
        format!(" --listen {address}")
    } else {
        String::new()
    };
    format!("{program}{file}{listen} codex print")
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

/// Cancels the token at the first SIGTERM or SIGINT.
fn drain_on_signal(drain: CancellationToken) -> io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: running turns may finish, new ones are not taken");
        drain.cancel();
    })
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::{self, UserDirs};

    fn default_config(flags: &Flags) -> Config {
        let folder = tempfile::tempdir().unwrap();
        config::load(&Inputs {
            flags: flags.clone(),
            environment: Box::new(HashMap::<String, String>::new()),
            dirs: UserDirs::under(folder.path()),
        })
        .unwrap()
    }

    #[test]
    fn the_greeting_says_what_is_served_and_how_to_use_it() {
        let config = default_config(&Flags::default());
        let text = greeting(&config, config.server.listen, "respondent codex print");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(" serves the Responses API on http://127.0.0.1:8787/v1"));
        assert_eq!(lines[1], "  sandbox: sandbox-1");
        assert_eq!(
            lines[lines.len() - 2..],
            [
                "Codex: its config.toml is printed by: respondent codex print",
                "SDKs:  base_url http://127.0.0.1:8787/v1, model sandbox-1",
            ]
        );
    }

    #[test]
    fn an_open_server_is_used_through_loopback() {
        let config = default_config(&Flags::default());
        let text = greeting(&config, "0.0.0.0:9".parse().unwrap(), "");
        assert!(text.contains("whoever has the token may use it"), "{text}");
        assert!(text.contains("base_url http://127.0.0.1:9/v1"), "{text}");
    }

    #[test]
    fn the_command_for_codex_finds_this_server() {
        let command = |listen: Option<&str>, address: &str| {
            let flags = Flags {
                listen: listen.map(str::to_owned),
                ..Flags::default()
            };
            let config = default_config(&flags);
            codex_print_command("respondent", &flags, &config, address.parse().unwrap())
        };
        assert_eq!(command(None, "127.0.0.1:8787"), "respondent codex print");
        assert_eq!(
            command(Some("127.0.0.1:0"), "127.0.0.1:40000"),
            "respondent --listen 127.0.0.1:40000 codex print"
        );
    }
}
