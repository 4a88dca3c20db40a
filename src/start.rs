//! From a configuration to a running server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::{self, Respondent};
use crate::commands::say;
use crate::config::{self, Config, Inputs, Watch, address};
use crate::metrics::Metrics;
use crate::sandbox::{Player, scene};
use crate::serve::{
    self, BodyLimits, Edge, EdgeSettings, GuardSettings, ListenLimits, Shutdown, Token,
};
use crate::turn::Service;

/// Serves until a signal asks to stop, and returns when all turns have ended.
pub async fn serve(inputs: Inputs, mut config: Config) -> anyhow::Result<()> {
    let listener = bind(config.server.listen).await?;
    let address = listener.local_addr()?;
    let _sandbox = if config.sandbox {
        Some(sandbox(&mut config).await?)
    } else {
        None
    };
    // Edits count from here on, before anyone is told that we run.
    let watch = Watch::new(inputs, config);
    let live = watch.live();
    let config = live.load_full();
    let settings = Arc::new(ArcSwap::from_pointee(edge_settings(&config, address)?));
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    say(&greeting(&config, address))?;

    let limits = ListenLimits {
        header_timeout: config.server.header_timeout,
        connections: config.server.max_connections,
        ..ListenLimits::default()
    };
    let shutdown = Shutdown::new(config.server.grace);
    let metrics = Arc::new(Metrics::new());
    let service = Service::new(live, metrics, shutdown.ending.clone());
    let edge = Edge::new(Respondent(Arc::new(service)), Arc::clone(&settings));
    let applied = move |config: &Config| match edge_settings(config, address) {
        Ok(new) => settings.store(Arc::new(new)),
        Err(error) => tracing::error!("the guard keeps its settings: {error:#}"),
    };
    tokio::spawn(watch.run(config::watch::EVERY, applied));
    tokio::spawn(drain_on_signal(shutdown.drain.clone())?);
    serve::serve(listener, edge, limits, shutdown).await;
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
async fn sandbox(config: &mut Config) -> anyhow::Result<Player> {
    let models = config
        .registry
        .provider(registry::SANDBOX)
        .map(|provider| {
            provider
                .models
                .iter()
                .map(|model| model.id.clone())
                .collect()
        })
        .unwrap_or_default();
    let player = Player::serve(models, Box::new(scene::answer))
        .await
        .context("cannot start the offline model")?;
    config.sandbox_at(player.address());
    Ok(player)
}

fn edge_settings(config: &Config, address: SocketAddr) -> anyhow::Result<EdgeSettings> {
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
            ..BodyLimits::default()
        },
    })
}

/// What a user reads first: what is served, and what to do with it.
fn greeting(config: &Config, address: SocketAddr) -> String {
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
            models.push(format!("{} (any name)", provider.prefixed("...")));
        }
        lines.push(format!("  {}: {}", provider.id, models.join(", ")));
    }
    if config.sandbox {
        lines.push("The sandbox is a scripted offline model. For a real one set its key, such as OPENAI_API_KEY, or write a proxy-config.toml (see proxy-config.example.toml).".to_owned());
    }
    if address::is_open(address) {
        lines.push("Anyone who has the token can use this server over the network.".to_owned());
    }
    let model = app::first_model(config);
    let listen = if address.port() == 8787 {
        String::new()
    } else {
        format!(" --listen {address}")
    };
    lines.push(format!("Point Codex at it: respondent codex print{listen}    SDKs: base_url http://{address}/v1, model {model}"));
    lines.push(String::new());
    lines.join("\n")
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
