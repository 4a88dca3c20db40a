//! The server that a program runs with: the one that runs already, or one that ends with the program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::commands::print_error;
use crate::commands::serve::{BindError, SecondServer, Server, bind};
use crate::config::{Config, Inputs, LoadPurpose, address};
use crate::control::ControlClient;
use crate::log;
use crate::serve::Shutdown;

/// The name of the log file in the data directory.
const LOG_FILE_NAME: &str = "run.log";

/// A server on this machine.
pub(super) struct LocalServer {
    control: ControlClient,
    config: Arc<Config>,
    own: Option<OwnServer>,
}

/// A server in this process.
struct OwnServer {
    shutdown: Shutdown,
    ended: JoinHandle<()>,
    log: PathBuf,
}

impl LocalServer {
    /// The server on the configured address, or else one in this process: on that address, or on a
    /// free port if another program listens there.
    pub(super) async fn find_or_start(
        mut inputs: Inputs,
        mut config: Config,
    ) -> anyhow::Result<Self> {
        let control = ControlClient::new(&config);
        if control.check_health().await.is_ok() {
            return Ok(Self {
                control,
                config: Arc::new(config),
                own: None,
            });
        }
        let listener = listen(config.server.listen).await?;
        let address = listener.local_addr()?;
        config.server.listen = address;
        inputs.flags.listen = Some(address.to_string());
        let control = ControlClient::new(&config);
        let log = config.server.data_dir.join(LOG_FILE_NAME);
        let server = &config.server;
        if let Err(error) = log::init_in_file(&server.log, server.log_format, &log) {
            print_error(&format!("respondent: nothing is logged: {error}\n"));
        }
        let purpose = LoadPurpose::AskProvider;
        let server = Server::new(listener, inputs, purpose, config, SecondServer::InMemory).await?;
        let (config, shutdown) = (server.config(), server.shutdown());
        let ended = tokio::spawn(server.run());
        Ok(Self {
            control,
            config,
            own: Some(OwnServer {
                shutdown,
                ended,
                log,
            }),
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
        match &self.own {
            None => format!("Respondent: using the server on {address}.\n"),
            Some(own) => format!(
                "Respondent: a server runs on {address} until Codex ends; it logs to {}.\n",
                own.log.display()
            ),
        }
    }

    /// What to do about a server that has nothing but the demo model.
    pub(super) fn no_key_advice(&self, demo: &str) -> String {
        let (what, remedy) = match self.own {
            Some(_) => ("no provider has a key".to_owned(), "set one"),
            None => (
                format!(
                    "the server on {} has no provider's key",
                    self.control.address()
                ),
                "start it with one",
            ),
        };
        format!(
            "{what}: {remedy}, such as OPENAI_API_KEY (`respondent models --all` names them all), \
             or add a provider to {}. To try the offline demo: respondent run codex --model {demo}",
            self.config.paths.shown
        )
    }

    /// Ends the server if it is in this process. Turns of other programs may end within the grace
    /// period; a signal ends it.
    pub(super) async fn stop(self) {
        let Some(OwnServer {
            shutdown, ended, ..
        }) = self.own
        else {
            return;
        };
        shutdown.drain.cancel();
        let ending = shutdown.ending;
        let (Ok(mut interrupt), Ok(mut terminate)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            ending.cancel();
            ended.await.ok();
            return;
        };
        let impatient = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            ending.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = ended => {}
            () = impatient => {}
        }
    }
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
