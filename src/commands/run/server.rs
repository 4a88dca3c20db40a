//! The server that a program runs with: the one that runs already, or one that ends with the
//! program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::commands::print_error;
use crate::commands::serve::{BindError, Server, ServerKind, bind};
use crate::config::{self, Config, Inputs, LoadPurpose, address};
use crate::control::{ControlClient, ControlError};
use crate::log;

/// The name of the log file in the data directory.
const LOG_FILE_NAME: &str = "run.log";

/// How often a program looks whether the server of another program still runs.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// A server on this machine.
pub(super) struct LocalServer {
    control: ControlClient,
    config: Arc<Config>,
    own: Option<OwnServer>,
    /// The file to which the server of this process logs, as people write it; `None` if it is
    /// another process.
    log: Option<String>,
}

/// A server in this process, or one that will run in it when the server of another program ends.
struct OwnServer {
    stop: CancellationToken,
    /// Cancelled when turns that run are not waited for any longer.
    hurry: CancellationToken,
    ended: JoinHandle<()>,
}

impl LocalServer {
    /// The server on the configured address, or else one in this process: on that address, or on a
    /// free port if another program listens there. The server of another program is succeeded by
    /// one in this process.
    pub(super) async fn find_or_start(
        mut inputs: Inputs,
        mut config: Config,
    ) -> anyhow::Result<Self> {
        let control = ControlClient::new(&config);
        if let Ok(health) = control.check_health().await {
            let own = health.temporary.then(|| {
                let control = control.clone();
                inputs.flags.listen = Some(control.address().to_string());
                OwnServer::spawn(async move { succeed(&control, &inputs).await })
            });
            return Ok(Self {
                control,
                config: Arc::new(config),
                own,
                log: None,
            });
        }
        let listener = listen(config.server.listen).await?;
        let address = listener.local_addr()?;
        config.server.listen = address;
        inputs.flags.listen = Some(address.to_string());
        let control = ControlClient::new(&config);
        let log = inputs.dirs.shorten(&init_log(&config));
        let server = new_server(listener, inputs, config).await?;
        Ok(Self {
            control,
            config: server.config(),
            own: Some(OwnServer::spawn(async { server })),
            log: Some(log),
        })
    }

    /// A client of the server.
    pub(super) fn control(&self) -> &ControlClient {
        &self.control
    }

    /// The configuration of this process.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The server's origin as a client writes it.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.control.address())
    }

    /// The line that says which server is used.
    pub(super) fn notice(&self) -> String {
        let address = self.control.address();
        match &self.log {
            None => format!("Respondent: using the server on {address}.\n"),
            Some(log) => format!(
                "Respondent: a server runs on {address} until Codex ends; it logs to {log}.\n"
            ),
        }
    }

    /// What to do about a server that has nothing but the demo model.
    pub(super) fn no_key_advice(&self, demo: &str) -> String {
        let (what, remedy) = match self.log {
            Some(_) => ("no provider has a key".to_owned(), "set one"),
            None => (
                format!(
                    "the server on {} has no provider's key",
                    self.control.address()
                ),
                "start it with one",
            ),
        };
        let mut advice = format!(
            "{what}: {remedy}, such as OPENAI_API_KEY (`respondent models --all` names them all), \
             or add a provider to {}. To try the offline demo: respondent run codex --model {demo}",
            self.config.paths.shown
        );
        if self.log.is_some() {
            for warning in &self.config.warnings {
                advice.push_str("\nrespondent: ");
                advice.push_str(warning);
            }
        }
        advice
    }

    /// Ends the server if it is in this process. Turns of other programs may end within the grace
    /// period; a signal ends it.
    pub(super) async fn stop(self) {
        let Some(OwnServer {
            stop,
            hurry,
            mut ended,
        }) = self.own
        else {
            return;
        };
        stop.cancel();
        let (Ok(mut interrupt), Ok(mut terminate)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            hurry.cancel();
            ended.await.ok();
            return;
        };
        loop {
            tokio::select! {
                _ = &mut ended => return,
                _ = interrupt.recv() => hurry.cancel(),
                _ = terminate.recv() => hurry.cancel(),
            }
        }
    }
}

impl OwnServer {
    /// Runs a server as soon as there is one.
    fn spawn(server: impl Future<Output = Server> + Send + 'static) -> Self {
        let (stop, hurry) = (CancellationToken::new(), CancellationToken::new());
        let run = {
            let (stop, hurry) = (stop.clone(), hurry.clone());
            async move {
                let Some(server) = stop.run_until_cancelled(server).await else {
                    return;
                };
                let shutdown = server.shutdown();
                let steps = async {
                    stop.cancelled().await;
                    shutdown.drain.cancel();
                    hurry.cancelled().await;
                    shutdown.ending.cancel();
                };
                let mut running = Box::pin(server.run());
                tokio::select! {
                    () = &mut running => return,
                    () = steps => {}
                }
                running.await;
            }
        };
        Self {
            stop,
            hurry,
            ended: tokio::spawn(run),
        }
    }
}

/// Waits until the server of another program has ended, and starts one on its address.
async fn succeed(control: &ControlClient, inputs: &Inputs) -> Server {
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        if !matches!(
            control.check_health().await,
            Err(ControlError::NotRunning(_))
        ) {
            continue;
        }
        // A third program may be quicker; then its server is watched.
        if let Ok(server) = start_at(control.address(), inputs.clone()).await {
            return server;
        }
    }
}

async fn start_at(address: SocketAddr, inputs: Inputs) -> anyhow::Result<Server> {
    let config = config::load(&inputs, LoadPurpose::AskProvider)?;
    let listener = bind(address).await?;
    init_log(&config);
    new_server(listener, inputs, config).await
}

async fn new_server(
    listener: TcpListener,
    inputs: Inputs,
    config: Config,
) -> anyhow::Result<Server> {
    let purpose = LoadPurpose::AskProvider;
    Server::new(listener, inputs, purpose, config, ServerKind::Temporary).await
}

/// Begins the log of this process, and returns its file.
fn init_log(config: &Config) -> PathBuf {
    let log = config.server.data_dir.join(LOG_FILE_NAME);
    let server = &config.server;
    if let Err(error) = log::init_in_file(&server.log, server.log_format, &log) {
        let error = anyhow::Error::new(error);
        print_error(&format!("respondent: nothing is logged: {error:#}\n"));
    }
    log
}

/// Listens on an address, or on a free port of this machine if another program does.
async fn listen(wanted: SocketAddr) -> Result<TcpListener, BindError> {
    match bind(wanted).await {
        Err(BindError::InUse(_)) => {
            let local = address::local_client_address(wanted);
            bind(SocketAddr::new(local.ip(), 0)).await
        }
        bound => bound,
    }
}
