//! A program that has the terminal of this one.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal as ProcessSignal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a program to its end and returns its exit code, or as a shell does 128 plus the number of
/// the signal that ended it. This process outlives the program: signals do not end it meanwhile.
pub(super) async fn run(mut command: Command) -> io::Result<u8> {
    // A terminal sends these two to the program as well.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child = command.spawn()?;
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(exit_code(ended?)),
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => forward(&child, ProcessSignal::TERM),
            _ = hangup.recv() => forward(&child, ProcessSignal::HUP),
        }
    }
}

fn forward(child: &Child, signal: ProcessSignal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = id.and_then(Pid::from_raw) {
        // It fails if the program has just ended, which `run` sees next.
        kill_process(pid, signal).ok();
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code_of(script: &str) -> u8 {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command).await.unwrap()
    }

    #[tokio::test]
    async fn the_exit_code_is_that_of_the_program() {
        assert_eq!(code_of("exit 0").await, 0);
        assert_eq!(code_of("exit 7").await, 7);
        assert_eq!(code_of("kill -TERM $$").await, 143);
    }
}
