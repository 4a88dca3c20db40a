//! The server: everything that runs while it listens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::app::{AppState, routes};
use crate::artifacts::Artifacts;
use crate::clock::{Clock, System};
use crate::config::clients::Client;
use crate::config::watch::POLL_INTERVAL;
use crate::config::{ArtifactMode, Config, ConfigWatcher, Inputs, LoadPurpose, ResponseMode};
use crate::diagnostics::bundle::BundleFolder;
use crate::diagnostics::capture::TurnCapture;
use crate::jobs::JobQueue;
use crate::log;
use crate::metrics::Metrics;
use crate::metrics::usage::UsageLog;
use crate::net::fairness::FairPlaces;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::responses::ResponseStore;
use crate::sandbox::Sandbox;
use crate::secrets::Token;
use crate::serve::{
    self, BodyLimits, ClientToken, Edge, EdgeSettings, GuardSettings, ListenLimits, Shutdown,
};
use crate::store::{DataDir, OpenError, Store, SweepResult, UnusableStore};
use crate::tools::artifact_tools::ArtifactTools;
use crate::tools::combined::CombinedTools;
use crate::tools::live::LiveWebTools;
use crate::tools::mcp_servers::McpServers;
use crate::tools::tool_search::ToolSearch;
use crate::tools::web_search::WebSearchTool;
use crate::tools::workflow_agent::WorkflowAgent;
use crate::turn::{RunningTurns, Service};
use crate::upstream::discovery::keeper::DiscoveryKeeper;

/// Why a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A user started it. It needs its data directory for itself.
    Permanent,
    /// For a program, with which it ends. It keeps artifacts in memory if another server uses the
    /// data directory.
    Temporary,
}

/// A server that has its address. Made by a command that serves; [`run`](Self::run) answers
/// requests until [`shutdown`](Self::shutdown) is complete.
pub struct Server {
    listener: TcpListener,
    watch: ConfigWatcher,
    settings: Arc<ArcSwap<EdgeSettings>>,
    app: AppState,
    artifacts: Artifacts,
    shutdown: Shutdown,
    /// Dropping it ends the offline model.
    _sandbox: Option<Sandbox>,
}

impl Server {
    /// Opens what the server needs, such as its store. `config` was loaded from `inputs` for
    /// `purpose`.
    pub async fn new(
        listener: TcpListener,
        inputs: Inputs,
        purpose: LoadPurpose,
        mut config: Config,
        kind: ServerKind,
    ) -> anyhow::Result<Self> {
        let sandbox = if config.sandbox {
            Some(start_sandbox(&mut config).await?)
        } else {
            None
        };
        let memory = ProcessMemory::new(config.memory_limit());
        memory.sharing().set(!config.clients.is_empty());
        let store = open_store(&mut config, kind, &memory)?;
        // Watches the files from here on, so that every edit after the banner takes effect.
        let watch = ConfigWatcher::new(inputs, purpose, config);
        let live = watch.live();
        let config = live.load_full();
        let connections = FairPlaces::new(config.server.max_connections, memory.sharing().clone());
        let settings = edge_settings(&config, &memory, Some(connections))?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let metrics = Arc::new(Metrics::new());
        let opened = store
            .as_ref()
            .and_then(|store| store.as_ref().ok())
            .cloned();
        let usage = UsageLog::new(metrics.usage(), metrics.spent().clone(), opened.clone());
        usage.restore_spent().await;
        let responses = response_store(&config, store.as_ref());
        let artifacts = open_artifacts(&config, store, &metrics, &memory);
        let shutdown = Shutdown::new(config.server.grace);
        let capture = TurnCapture::default();
        let discovery = Arc::new(DiscoveryKeeper::new(Arc::clone(&live)));
        let web = LiveWebTools::new(Arc::clone(&live), &metrics);
        let web = Arc::new(web);
        let search = WebSearchTool::new(Arc::clone(&web), artifacts.clone());
        let reading = ArtifactTools::new(artifacts.clone(), Arc::clone(&live));
        let servers = Arc::new(McpServers::new(Arc::clone(&live)));
        servers.count_memory(&memory);
        let agent = Arc::new(WorkflowAgent::default());
        let tools = CombinedTools::new(vec![
            Arc::new(search),
            Arc::new(reading),
            Arc::clone(&servers) as _,
            Arc::new(ToolSearch::default()),
            Arc::clone(&agent) as _,
        ]);
        capture.set_tools(Arc::new(tools));
        let service = Service::new(
            live,
            metrics,
            shutdown.ending.clone(),
            Arc::new(capture.clone()),
            artifacts.clone(),
            responses,
        );
        if let Some(store) = &opened {
            service.keep_prompts(store);
            service.keep_image_texts(store);
            service.keep_whole_sessions(store).await;
            service.keep_learned(store).await;
            service.keep_token_ratios(store).await;
            service.keep_hidden_rounds(store).await;
            web.references.keep_in(store);
            servers.keep_in(store);
            memory.add_store(MemoryKind::Memories, store.cache_bytes());
        }
        service.count_memory(&memory);
        web.count_memory(&memory);
        capture.count_memory(&memory);
        let discovered = Arc::clone(&config.registry.discovered);
        memory.add_store(MemoryKind::Memories, move || discovered.bytes());
        service.apply_limits(&config);
        let service = Arc::new(service);
        agent.run_in(&service, &memory);
        let app = AppState {
            jobs: job_queue(&service, &memory, &shutdown),
            service,
            capture,
            started_ms: now_ms(),
            memory,
            usage,
            discovery,
            temporary: kind == ServerKind::Temporary,
            web,
        };
        Ok(Self {
            listener,
            watch,
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            app,
            artifacts,
            shutdown,
            _sandbox: sandbox,
        })
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.watch.live().load_full()
    }

    /// The handle that ends the server.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// The turns that are running.
    pub fn running_turns(&self) -> Arc<RunningTurns> {
        Arc::clone(&self.app.service.running)
    }

    /// Answers requests. Returns when the shutdown is complete and all turns have ended.
    pub async fn run(self) {
        let Self {
            listener,
            watch,
            settings,
            app,
            artifacts,
            shutdown,
            _sandbox,
        } = self;
        let config = watch.live().load_full();
        let limits = ListenLimits {
            header_timeout: config.server.header_timeout,
            connections: config.server.max_connections,
            ..ListenLimits::default()
        };
        if let Some(jobs) = &app.jobs {
            jobs.recover().await;
        }
        let _tasks = spawn_tasks(watch, artifacts, &app, &settings);
        let edge = Edge::new(routes(&app), settings, app.clone());
        let (ending, drain) = (shutdown.ending.clone(), shutdown.drain.clone());
        let grace = shutdown.grace;
        let grace_period = spawn(async move {
            drain.cancelled().await;
            tokio::time::sleep(grace).await;
        });
        serve::serve(listener, edge, limits, shutdown).await;
        if let Some(jobs) = &app.jobs {
            jobs.finish(ending, grace_period).await;
        }
        app.usage.flush().await;
        let capture = app.capture.clone();
        tokio::task::spawn_blocking(move || capture.flush_at_end())
            .await
            .ok();
    }
}

/// Why no server can listen on an address. The messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program listens there.
    #[error(
        "{0} is in use by another program, which may be a Respondent that runs already; stop it, or \
         choose another address with --listen"
    )]
    InUse(SocketAddr),
    /// Anything else, such as an address of another machine.
    #[error("cannot listen on {address}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// Listens on an address.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(address),
        _ => BindError::Other { address, source },
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

/// Opens the store if the configuration keeps artifacts or responses on disk. A store that cannot
/// be used is returned as an error, which the caller reports. If another server uses the data
/// directory, a permanent server does not start, and a temporary one keeps artifacts in memory.
fn open_store(
    config: &mut Config,
    kind: ServerKind,
    memory: &ProcessMemory,
) -> anyhow::Result<Option<Result<Arc<Store>, UnusableStore>>> {
    let needs_store = config.artifacts.mode == ArtifactMode::Disk || config.stores_responses();
    if !needs_store {
        return Ok(None);
    }
    let data_dir = DataDir::new(&config.server.data_dir);
    match Store::open_within(&data_dir, System.unix(), memory) {
        Ok(store) => Ok(Some(Ok(Arc::new(store)))),
        Err(OpenError::Unusable(error)) => Ok(Some(Err(error))),
        Err(OpenError::InUse(in_use)) => match kind {
            ServerKind::Temporary => {
                tracing::warn!(
                    "{in_use}; shortened tool outputs are kept in memory, and responses are not stored"
                );
                if config.artifacts.mode == ArtifactMode::Disk {
                    config.artifacts.mode = ArtifactMode::Memory;
                }
                config.responses.mode = Some(ResponseMode::Off);
                Ok(None)
            }
            ServerKind::Permanent => anyhow::bail!(
                "{in_use}; stop it, or give this one a directory of its own with --data-dir (or data_dir in [server]), or let it keep nothing there with mode = \"memory\" in [artifacts] and mode = \"off\" in [responses]"
            ),
        },
    }
}

/// Where responses are stored, if the configuration stores them.
fn response_store(
    config: &Config,
    store: Option<&Result<Arc<Store>, UnusableStore>>,
) -> ResponseStore {
    if !config.stores_responses() {
        return ResponseStore::new(None);
    }
    match store {
        Some(Err(error)) => {
            tracing::warn!("responses are not stored: {error}");
            ResponseStore::unusable(&error.to_string())
        }
        Some(Ok(store)) => ResponseStore::new(Some(Arc::clone(store))),
        None => ResponseStore::new(None),
    }
}

/// The artifacts of the server, in the store if the configuration keeps them on disk.
fn open_artifacts(
    config: &Config,
    store: Option<Result<Arc<Store>, UnusableStore>>,
    metrics: &Metrics,
    memory: &ProcessMemory,
) -> Artifacts {
    Artifacts::open(
        &config.artifacts,
        store.filter(|_| config.artifacts.mode == ArtifactMode::Disk),
        Arc::new(System),
        metrics.artifacts(),
        memory.sharing(),
    )
}

/// The queue of background responses, if responses are stored.
fn job_queue(
    service: &Arc<Service>,
    memory: &ProcessMemory,
    shutdown: &Shutdown,
) -> Option<Arc<JobQueue>> {
    let store = service.responses().store().cloned()?;
    let drain = shutdown.drain.clone();
    let jobs = Arc::new(JobQueue::new(Arc::clone(service), store, memory, drain));
    service.run_background_in(Arc::downgrade(&jobs) as _);
    Some(jobs)
}

fn client_token((name, client): (&Arc<str>, &Client)) -> ClientToken {
    ClientToken {
        name: Arc::clone(name),
        hash: client.token,
    }
}

fn edge_settings(
    config: &Config,
    memory: &ProcessMemory,
    connections: Option<Arc<FairPlaces>>,
) -> anyhow::Result<EdgeSettings> {
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
            clients: config.clients.iter().map(client_token).collect(),
            config_file: config.paths.shown.clone(),
        },
        body: BodyLimits {
            max: server.body_limit,
            idle: server.body_timeout,
            memory: memory.clone(),
            ..BodyLimits::default()
        },
        connections,
    })
}

/// Passes a configuration that was reloaded to the parts of the server that keep settings of it.
fn apply_config(config: &Config, app: &AppState, settings: &ArcSwap<EdgeSettings>) {
    app.discovery.config_changed();
    if let Some(jobs) = &app.jobs {
        jobs.webhooks_changed();
    }
    app.capture.apply_limits(config);
    app.memory.set_limit(config.memory_limit());
    app.memory.sharing().set(!config.clients.is_empty());
    app.service.apply_limits(config);
    app.service.slots().limits_changed();
    let connections = settings.load().connections.clone();
    match edge_settings(config, &app.memory, connections) {
        Ok(new) => settings.store(Arc::new(new)),
        Err(error) => tracing::error!("the guard keeps its settings: {error:#}"),
    }
}

/// Starts what a server does beside answering requests. It ends when the handles are dropped.
fn spawn_tasks(
    watch: ConfigWatcher,
    artifacts: Artifacts,
    app: &AppState,
    settings: &Arc<ArcSwap<EdgeSettings>>,
) -> [AbortOnDropHandle<()>; 6] {
    let responses = app.service.responses().clone();
    let clean_up = clean_up(watch.live(), artifacts, responses, app.usage.clone());
    let running = Arc::clone(&app.service.running);
    let (reloaded, settings) = (app.clone(), Arc::clone(settings));
    let watch = watch.run(POLL_INTERVAL, move |config| {
        apply_config(config, &reloaded, &settings);
    });
    let app = app.clone();
    [
        spawn(watch),
        spawn(clean_up),
        spawn(async move {
            if let Some(jobs) = app.jobs {
                jobs.deliver_to_webhooks().await;
            }
        }),
        spawn(async move { app.discovery.run().await }),
        spawn(async move { app.usage.keep_spent().await }),
        spawn(async move { running.report_long_turns().await }),
    ]
}

/// Starts a task that ends when the handle is dropped.
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// Deletes old recorded turns, responses and artifacts, and what is beyond the size limits: every
/// hour, and at once when artifacts exceed theirs by much. Every minute it stores the usage of
/// turns and retries writes that failed.
async fn clean_up(
    live: Arc<ArcSwap<Config>>,
    artifacts: Artifacts,
    responses: ResponseStore,
    usage: UsageLog,
) {
    let store = responses.store().or(artifacts.store()).cloned();
    let mut hours = tokio::time::interval(Duration::from_hours(1));
    let mut minutes = tokio::time::interval(Duration::from_mins(1));
    loop {
        tokio::select! {
            _ = hours.tick() => {}
            () = artifacts.over_quota() => {}
            _ = minutes.tick() => {
                artifacts.flush_to_disk().await;
                usage.flush().await;
                continue;
            }
        }
        let now = System.unix();
        if let Some(store) = &store
            && let Err(error) = store.learn_time(now).await
        {
            tracing::warn!("old things are deleted by the clock of the system: {error}");
        }
        let folder = BundleFolder::from_config(&live.load());
        let lag = store
            .as_ref()
            .map_or(0, |store| now - store.time_in_use(now));
        let time = SystemTime::now() - Duration::from_secs(lag);
        let pruned = tokio::task::spawn_blocking(move || folder.prune(time)).await;
        if let Ok(Err(error)) = pruned {
            tracing::warn!(target: log::CAPTURE_TARGET, "old turns cannot be deleted: {error}");
        }
        // Before the artifacts, which are kept as long as the responses of their session.
        let settings = live.load().responses;
        responses.expire(settings, now).await;
        // `sweep` has already reported a failure.
        if let Ok(swept) = artifacts.sweep().await
            && swept.artifacts > 0
        {
            let SweepResult { artifacts, bytes } = swept;
            tracing::info!("deleted {artifacts} artifacts of {bytes} bytes");
        }
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
