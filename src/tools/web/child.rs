//! Programs that are run for one page, within limits, and ended with everything they have started.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, waitid};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::process_group::ProcessGroup;
use crate::net::memory::MemoryShare;

/// How much of the output is read at once, at least.
const PIECE: usize = 64 << 10;

/// Why a program has no output.
#[derive(Debug, Error)]
pub(super) enum ChildError {
    /// It cannot be started or spoken to.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has failed, or was ended by a signal.
    #[error("it has failed")]
    Failed,
    /// It took too long.
    #[error("it took too long")]
    Timeout,
    /// It has written too much.
    #[error("it has written too much")]
    TooLarge,
    /// The budget of the process has no room for its output.
    #[error("there is not enough memory")]
    NoMemory,
}

/// What a program may take.
#[derive(Clone, Copy)]
pub(super) struct ChildLimits {
    pub(super) time: Duration,
    /// The most bytes of its output.
    pub(super) bytes: usize,
}

/// Waits until a program has ended, and leaves it to be waited for. Whether it has succeeded.
async fn is_success(group: &ProcessGroup) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let leader = WaitId::Pid(group.leader);
    let ended = spawn_blocking(move || waitid(leader, options)).await;
    matches!(ended, Ok(Ok(Some(status))) if status.exit_status() == Some(0))
}

/// What a program writes that gets this input. Dropping the future ends the program.
pub(super) async fn output_of(
    mut command: Command,
    input: &[u8],
    limits: ChildLimits,
    share: &mut MemoryShare,
) -> Result<Vec<u8>, ChildError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut group = ProcessGroup::start(&mut command)?;
    let (mut stdin, mut stdout) = group.pipes().ok_or(ChildError::Failed)?;
    let write = async {
        // A program that has seen enough closes its input.
        stdin.write_all(input).await.ok();
        drop(stdin);
    };
    let read = async {
        let mut output = Vec::new();
        loop {
            output.reserve(PIECE);
            if share.grow(output.capacity()).is_err() {
                return Err(ChildError::NoMemory);
            }
            if stdout.read_buf(&mut output).await? == 0 {
                return Ok(output);
            }
            if output.len() > limits.bytes {
                return Err(ChildError::TooLarge);
            }
        }
    };
    let run = async {
        let ((), output) = tokio::join!(write, read);
        let output = output?;
        let is_success = is_success(&group).await;
        is_success.then_some(output).ok_or(ChildError::Failed)
    };
    let ended = timeout(limits.time, run).await;
    ended.unwrap_or(Err(ChildError::Timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::memory::{MemoryKind, ProcessMemory};

    async fn run(script: &str, time: Duration) -> Result<Vec<u8>, ChildError> {
        let limits = ChildLimits { time, bytes: 1_000 };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut share = ProcessMemory::new(1 << 20).share(MemoryKind::Requests);
        output_of(command, b"input", limits, &mut share).await
    }

    /// Promise: A program that reads a page or a file is ended if it takes too long or writes too
    /// much.
    #[tokio::test]
    async fn a_program_is_run_within_its_limits() {
        let long = Duration::from_mins(1);
        assert_eq!(run("cat; echo", long).await.unwrap(), b"input\n");
        assert_eq!(run("echo no-input", long).await.unwrap(), b"no-input\n");
        for (script, time, expected) in [
            ("echo x; exit 3", long, "it has failed"),
            ("kill -SEGV $$", long, "it has failed"),
            (
                "while :; do echo more; done",
                long,
                "it has written too much",
            ),
            (
                "sleep 1000 & wait",
                Duration::from_millis(50),
                "it took too long",
            ),
        ] {
            let failed = run(script, time).await.unwrap_err();
            assert_eq!(failed.to_string(), expected, "{script}");
        }
        // What is left behind does not hold the output open for ever.
        let left = run("sleep 1000 & echo x", Duration::from_millis(300)).await;
        assert!(matches!(left, Err(ChildError::Timeout)), "{left:?}");
        let mut share = ProcessMemory::new(1 << 10).share(MemoryKind::Requests);
        let limits = ChildLimits {
            time: long,
            bytes: 1,
        };
        let none = output_of(Command::new("/nonexistent"), &[], limits, &mut share).await;
        assert!(matches!(none, Err(ChildError::Io(_))), "{none:?}");
        let full = output_of(Command::new("/bin/true"), &[], limits, &mut share).await;
        assert!(matches!(full, Err(ChildError::NoMemory)), "{full:?}");
    }
}
