//! Starts and stops the measured processes: upstream, pass-through and proxy.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{conn::Conn, report::Arm, request::Target, scan::ClientApi};

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts the servers of all arms. Dropping it deletes their configuration, logs and data.
pub(crate) struct Launcher {
    /// The folder of the configuration, logs and data.
    dir: TempDir,
    own_binary: PathBuf,
    proxy: Option<PathBuf>,
    /// The data folder of the proxy, if it is not a new one.
    data_dir: Option<PathBuf>,
    /// Further tables of its configuration.
    tables: String,
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    pub(crate) target: Target,
    pub(crate) pid: u32,
    /// The time from the start of the process to its first response with status 200.
    pub(crate) cold_start: Duration,
    child: Child,
}

impl Launcher {
    /// `proxy` is the binary of the proxy. Without it only the upstream and the pass-through can
    /// start.
    pub(crate) fn new(proxy: Option<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            dir: TempDir::with_prefix("respondent-bench")?,
            own_binary: std::env::current_exe()?,
            proxy,
            data_dir: None,
            tables: String::new(),
        })
    }

    /// Gives the proxy this data folder. Only one can run at a time.
    pub(crate) fn with_data_dir(self, data_dir: PathBuf) -> Self {
        Self {
            data_dir: Some(data_dir),
            ..self
        }
    }

    /// Gives the proxy further tables of its configuration.
    pub(crate) fn with_tables(self, tables: String) -> Self {
        Self { tables, ..self }
    }

    /// Starts a server and waits for its first response with status 200. `upstream` is the upstream
    /// of a proxy or a pass-through.
    pub(crate) async fn start(&self, arm: Arm, upstream: SocketAddr) -> anyhow::Result<Server> {
        let addr = free_addr()?;
        let mut command = Command::new(&self.own_binary);
        let wire = match arm {
            Arm::Direct => {
                command.args(["upstream", "--listen", &addr.to_string()]);
                ClientApi::Chat
            }
            Arm::Pass => {
                command.args(["pass", "--listen", &addr.to_string()]);
                command.args(["--upstream", &upstream.to_string()]);
                ClientApi::Chat
            }
            Arm::Ours | Arm::Off | Arm::All | Arm::Unkept | Arm::Jobs => {
                command = Command::new(self.proxy.as_ref().context("no proxy to start")?);
                let config = self.write_config(arm, addr, upstream)?;
                command.args(["serve", "--config"]).arg(config);
                ClientApi::Responses
            }
        };
        // A provider key in the environment would enable a provider.
        command
            .env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .kill_on_drop(true);
        let log = self.dir.path().join(format!("{}.log", addr.port()));
        let file = File::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let started = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {arm:?}"))?;
        let pid = child.id().context("the process ended at once")?;
        let target = Target { addr, wire };
        while let Err(error) = check_health(target).await {
            let output = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = child.try_wait()? {
                anyhow::bail!("{arm:?} ended with {status}:\n{}", output());
            }
            ensure!(
                started.elapsed() < START_TIMEOUT,
                "{arm:?} does not answer ({error:#}):\n{}",
                output()
            );
            sleep(Duration::from_millis(1)).await;
        }
        Ok(Server {
            target,
            pid,
            cold_start: started.elapsed(),
            child,
        })
    }

    /// Writes the configuration of a proxy. Each proxy has its own data folder, so that one that
    /// captures does not find the files of another.
    fn write_config(
        &self,
        arm: Arm,
        addr: SocketAddr,
        upstream: SocketAddr,
    ) -> anyhow::Result<PathBuf> {
        let port = addr.port();
        let path = self.dir.path().join(format!("{port}.toml"));
        let capture = arm.config();
        let data_dir = match &self.data_dir {
            Some(data_dir) => data_dir.clone(),
            None => format!("data-{port}").into(),
        };
        let data_dir = data_dir.display();
        let text = format!(
            "[server]\nlisten = \"{addr}\"\ndata_dir = \"{data_dir}\"\n\n{capture}\n\
             [providers.bench]\nwire = \"chat\"\nbase_url = \"http://{upstream}/v1\"\napi_key = \"bench\"\n{}",
            self.tables
        );
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Server {
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot stop a server")
    }
}

/// A loopback address with a port that was free when it was probed.
pub(crate) fn free_addr() -> anyhow::Result<SocketAddr> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(probe.local_addr()?)
}

async fn check_health(target: Target) -> anyhow::Result<()> {
    let mut conn = Conn::open(target.addr).await?;
    let reply = conn.send(&target.health_request()).await?;
    ensure!(reply.status == 200, "status {}", reply.status);
    Ok(())
}
