//! A program that is started, with everything that it starts.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A program and what it has started, which are one process group. They end when it is dropped.
pub(in crate::tools) struct ProcessGroup {
    /// Nobody waits for it before the group has ended, so that its number is that of no other one.
    pub(super) leader: Pid,
    child: Child,
}

impl ProcessGroup {
    pub(in crate::tools) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = number.and_then(Pid::from_raw);
        let leader = leader.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { leader, child })
    }

    /// Its input and output, if they are pipes. They are given once.
    pub(in crate::tools) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        kill_process_group(self.leader, Signal::KILL).ok();
    }
}
