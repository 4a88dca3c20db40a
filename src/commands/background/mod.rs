//! `respondent start`, `stop`, `restart` and `logs`: a server in the background, detached from the
//! terminal; and the check whether another program has it, so that a server logs to a file.

pub mod logs;
pub(super) mod process_file;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Signal, getpgrp, kill_process, setsid};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::invocation::{Invocation, typed_program};
use super::progress::Progress;
use super::status::of_server;
use super::{print_failure, print_text};
use crate::app::models::first_model;
use crate::config::inputs::Environment;
use crate::config::{self, Config, Flags, Inputs};
use crate::control::{ControlClient, ControlError};
use crate::log;
use process_file::{FoundServer, ProcessFile, RunningServer, ServiceManager};

/// The name of the log file in the data directory.
pub(super) const LOG_FILE_NAME: &str = "server.log";

/// The variable that tells a server that `start` started it.
const DETACHED: &str = "RESPONDENT_DETACHED";

/// How often the server is checked for an answer or for its end.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// How long a server may take until it answers: it may run commands that print keys.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How much longer than its grace period a server may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The most bytes of the log that are shown when a server does not start.
const MAX_SHOWN: u64 = 4 << 10;

/// Leaves the session of the terminal, if `start` started this server. Called before anything else.
pub fn detach(environment: &dyn Environment) -> bool {
    let is_detached = environment.get(DETACHED).is_some();
    if is_detached {
        // It fails only for the leader of a process group, which a child is not.
        setsid().ok();
    }
    is_detached
}

/// Whether another program has the terminal to which this one would log.
pub fn is_behind_terminal() -> bool {
    let stderr = io::stderr();
    stderr.is_terminal() && tcgetpgrp(&stderr).is_ok_and(|foreground| foreground != getpgrp())
}

/// The log file of a server in the background.
pub fn log_file(config: &Config) -> PathBuf {
    config.server.data_dir.join(LOG_FILE_NAME)
}

/// `respondent start`: starts a server and waits until it answers. Returns the exit code. Like the
/// commands that will look for it, it reads no file that was found in the working directory.
pub async fn start(inputs: &Inputs, config: &Config) -> anyhow::Result<u8> {
    let control = ControlClient::new(config);
    let address = control.address();
    let invocation = Invocation {
        program: &typed_program(),
        flags: &inputs.flags,
        config,
        address: config.server.listen,
    };
    match control.check_health().await {
        Ok(health) if health.temporary => anyhow::bail!(
            "a server of `respondent run` is on {address} and ends with its program; wait for its \
             end, or name another address with --listen"
        ),
        Ok(health) => {
            let mut text = format!(
                "A server runs already on http://{address} (version {}), with the environment of \
                 its start.\n",
                health.version
            );
            let found = ProcessFile::find(&config.server.data_dir).ok().flatten();
            if found.is_none_or(|found| found.server.manager.is_none()) {
                let restart = invocation.restarting();
                let _ = writeln!(text, "`{restart}` gives it this one.");
            }
            return print_text(&(text + &next_steps(&invocation, None))).map(|()| 0);
        }
        Err(ControlError::NotRunning(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if address.port() == 0 {
        anyhow::bail!(
            "the other commands cannot find a server on a free port; name one with --listen"
        );
    }
    let path = log_file(config);
    let log = log::open_file(&path)?;
    let logged = log.metadata().map_or(0, |metadata| metadata.len());
    let mut child = spawn(&inputs.flags, log)?;
    let progress = Progress::begin("Waiting for the server");
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            drop(progress);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            let said = end_of_log(&path, logged).unwrap_or_default();
            super::print_error(&said);
            print_failure(&format!(
                "the server did not start; its log is {}",
                path.display()
            ));
            return Ok(code.filter(|code| *code != 0).unwrap_or(1));
        }
        if control.check_health().await.is_ok() {
            break;
        }
        if started.elapsed() > START_LIMIT {
            child.start_kill().ok();
            let limit = START_LIMIT.as_secs();
            let path = path.display();
            anyhow::bail!("the server did not answer within {limit} s; its log is {path}");
        }
        sleep(INTERVAL).await;
    }
    drop(progress);
    let mut text = format!(
        "Respondent {} runs on http://{address}\n",
        env!("CARGO_PKG_VERSION")
    );
    if config.sandbox {
        let _ = writeln!(
            text,
            "No provider has a key, so an offline demo model answers. To use a provider, set\n\
             its key, such as OPENAI_API_KEY, and run `{}`.",
            invocation.restarting()
        );
    }
    print_text(&(text + &next_steps(&invocation, Some(&path)))).map(|()| 0)
}

/// What to do with a server that runs.
fn next_steps(invocation: &Invocation<'_>, log: Option<&Path>) -> String {
    let config = invocation.config;
    let log = log.map(|log| format!("  Log   {}\n", log.display()));
    let next = match first_model(config) {
        demo if config.sandbox => format!("run codex --model {demo}"),
        _ => "run codex".to_owned(),
    };
    // Commands are copied, so they are not broken into lines.
    format!(
        "{}  Next  {}\n  Stop  {}\n",
        log.unwrap_or_default(),
        invocation.command(&next),
        invocation.command("stop")
    )
}

/// Runs `respondent serve` with the same flags and environment. What it says before it has its log
/// goes to the log file.
fn spawn(flags: &Flags, log: File) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let Flags {
        config,
        listen,
        token_file,
        data_dir,
        log: filter,
    } = flags;
    let mut command = Command::new(program);
    for (flag, path) in [
        ("--config", config),
        ("--token-file", token_file),
        ("--data-dir", data_dir),
    ] {
        if let Some(path) = path {
            command.arg(flag).arg(path);
        }
    }
    for (flag, text) in [("--listen", listen), ("--log", filter)] {
        if let Some(text) = text {
            command.arg(flag).arg(text);
        }
    }
    command.arg("serve").env(DETACHED, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(log).spawn();
    child.context("the server cannot be run")
}

/// What was logged from this position on, or the end of it.
fn end_of_log(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(MAX_SHOWN))))?;
    let mut bytes = Vec::new();
    file.take(MAX_SHOWN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `respondent stop`: ends the server and waits until it has ended. Returns whether there was one.
pub async fn stop(config: &Config) -> anyhow::Result<bool> {
    let address = ControlClient::new(config).address();
    let Some(server) = find(config).await? else {
        print_text(&format!("No server runs on {address}.\n"))?;
        return Ok(false);
    };
    let pid = server.pid;
    kill_process(pid, Signal::TERM).context("the server cannot be ended")?;
    let progress = Progress::begin("Waiting for the turns that run");
    let limit = config.server.grace + END_LIMIT;
    let begun = Instant::now();
    while server.is_running() {
        if begun.elapsed() > limit {
            anyhow::bail!(
                "the server on {address} (process {pid}) has not ended after {} s; `respondent \
                 stop` again ends its turns at once",
                limit.as_secs()
            );
        }
        sleep(INTERVAL).await;
    }
    drop(progress);
    print_text(&format!("Stopped the server on {address}.\n"))?;
    Ok(true)
}

/// `respondent restart`: ends the server if one runs, and starts one. Returns the exit code.
pub async fn restart(inputs: &Inputs, config: &Config) -> anyhow::Result<u8> {
    stop(config).await?;
    start(inputs, config).await
}

/// The server at the configured address; `None` if none runs. Fails if it may not be ended from
/// here.
async fn find(config: &Config) -> anyhow::Result<Option<FoundServer>> {
    let control = ControlClient::new(config);
    let address = control.address();
    let is_there =
        |server: &RunningServer| config::address::local_client_address(server.address) == address;
    let health = control.check_health().await;
    if health.as_ref().is_ok_and(|health| health.temporary) {
        anyhow::bail!("the server on {address} ends with the program of `respondent run`");
    }
    let mut found = ProcessFile::find(&config.server.data_dir).ok().flatten();
    if health.is_ok()
        && !found.as_ref().is_some_and(|found| is_there(&found.server))
        && let Some(report) = of_server(&control).await?
    {
        found = ProcessFile::find(Path::new(&report.disk.data_dir))
            .ok()
            .flatten();
    }
    match (found, health) {
        (Some(found), _) if is_there(&found.server) => match found.server.manager {
            None => Ok(Some(found)),
            Some(ServiceManager::Systemd) => anyhow::bail!(
                "the server on {address} is a service of systemd: use `systemctl --user stop \
                 respondent` or `systemctl --user restart respondent`"
            ),
            Some(ServiceManager::Launchd) => anyhow::bail!(
                "the server on {address} is a job of launchd: remove it with `respondent service \
                 remove`"
            ),
        },
        (Some(found), Err(ControlError::NotRunning(_))) => anyhow::bail!(
            "no server runs on {address}, but one on {}: name it with --listen",
            found.server.address
        ),
        (_, Err(ControlError::NotRunning(_))) => Ok(None),
        (_, Err(error)) => Err(error.into()),
        (_, Ok(_)) => anyhow::bail!(
            "the server on {address} is not a process that can be ended from here: it runs in a \
             container, on another machine or without a data directory. Stop it where it was started"
        ),
    }
}
