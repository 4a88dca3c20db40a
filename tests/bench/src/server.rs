//! The processes of a run: upstream, pass-through and proxy, each started, awaited and stopped.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{conn::Conn, report::Arm, request::Target, scan::Wire};

const PATIENCE: Duration = Duration::from_secs(20);

/// What is needed to start a server of any arm.
pub(crate) struct Rig {
    /// Configuration, logs and data of this run.
    dir: TempDir,
    me: PathBuf,
    proxy: Option<PathBuf>,
}

/// A running server; dropping it kills the process.
pub(crate) struct Server {
    pub(crate) target: Target,
    pub(crate) pid: u32,
    /// From the start of the process to its first 200.
    pub(crate) cold: Duration,
    child: Child,
}

impl Rig {
    /// `proxy` is the binary to measure; without one only upstream and pass-through can start.
    pub(crate) fn new(proxy: Option<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            dir: TempDir::with_prefix("respondent-bench")?,
            me: std::env::current_exe()?,
            proxy,
        })
    }

    /// Starts a server and waits for its first 200; `upstream` is what a proxy arm talks to.
    pub(crate) async fn start(&self, arm: Arm, upstream: SocketAddr) -> anyhow::Result<Server> {
        let addr = free_addr()?;
        let mut command = Command::new(&self.me);
        let wire = match arm {
            Arm::Direct => {
                command.args(["upstream", "--listen", &addr.to_string()]);
                Wire::Chat
            }
            Arm::Pass => {
                command.args(["pass", "--listen", &addr.to_string()]);
                command.args(["--upstream", &upstream.to_string()]);
                Wire::Chat
            }
            Arm::Ours | Arm::Off | Arm::All | Arm::Unkept => {
                command = Command::new(self.proxy.as_ref().context("no proxy to start")?);
                let config = write_config(self.dir.path(), arm, addr, upstream)?;
                command.args(["serve", "--config"]).arg(config);
                Wire::Responses
            }
        };
        // A provider key in the environment would switch a provider on.
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
        while let Err(error) = healthy(target).await {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = child.try_wait()? {
                anyhow::bail!("{arm:?} ended with {status}:\n{}", said());
            }
            ensure!(
                started.elapsed() < PATIENCE,
                "{arm:?} does not answer ({error:#}):\n{}",
                said()
            );
            sleep(Duration::from_millis(1)).await;
        }
        Ok(Server {
            target,
            pid,
            cold: started.elapsed(),
            child,
        })
    }
}

impl Server {
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot stop a server")
    }
}

/// A loopback address whose port was free a moment ago.
pub(crate) fn free_addr() -> anyhow::Result<SocketAddr> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(probe.local_addr()?)
}

/// Each proxy has a data folder of its own: one that captures would find the files of another.
fn write_config(
    dir: &Path,
    arm: Arm,
    addr: SocketAddr,
    upstream: SocketAddr,
) -> anyhow::Result<PathBuf> {
    let port = addr.port();
    let path = dir.join(format!("{port}.toml"));
    let capture = arm.config();
    let text = format!(
        "[server]\nlisten = \"{addr}\"\ndata_dir = \"data-{port}\"\n\n{capture}\n\
         [providers.bench]\nwire = \"chat\"\nbase_url = \"http://{upstream}/v1\"\napi_key = \"bench\"\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}

async fn healthy(target: Target) -> anyhow::Result<()> {
    let mut conn = Conn::open(target.addr).await?;
    let reply = conn.send(&target.health()).await?;
    ensure!(reply.status == 200, "status {}", reply.status);
    Ok(())
}
