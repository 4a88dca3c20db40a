//! The file by which a server is found to be stopped. While the server runs it has a lock on the
//! file, and the system tells which process has the lock: so no other process is ever taken for the
//! server, also if its number was given to another one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};
use serde::{Deserialize, Serialize};

/// The name of the file in the data directory.
const FILE_NAME: &str = "server.json";

/// The longest content in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::commands) struct RunningServer {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// What started it and would start it again.
    pub manager: Option<ServiceManager>,
}

/// A program that runs services of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum ServiceManager {
    /// `systemd --user`.
    Systemd,
    /// That of macOS.
    Launchd,
}

impl ServiceManager {
    /// What started this process; `None` if a person did.
    pub(in crate::commands) fn of_this_process() -> Option<Self> {
        let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|it| it == value);
        if is("SYSTEMD_EXEC_PID", &std::process::id().to_string()) {
            Some(Self::Systemd)
        } else if is("XPC_SERVICE_NAME", "respondent") {
            Some(Self::Launchd)
        } else {
            None
        }
    }
}

/// The file of this process. Dropping it deletes the file, whose lock ends with the process.
#[derive(Debug)]
pub(in crate::commands) struct ProcessFile {
    path: PathBuf,
}

/// A running server that was found by its file. The file is kept open, because its lock shows
/// whether the process runs, also after the server has deleted the file.
#[derive(Debug)]
pub(in crate::commands) struct FoundServer {
    /// What the server has written.
    pub server: RunningServer,
    /// Its process.
    pub pid: Pid,
    file: File,
    /// Readable when the process has ended. `None` where the system has no such descriptor.
    process: Option<OwnedFd>,
}

impl FoundServer {
    /// Whether the process still runs. The lock alone does not tell it: a process that ends loses
    /// its locks before its listener is closed, and a server that was started between the two
    /// would find its address in use.
    pub(in crate::commands) fn is_running(&self) -> bool {
        if holder(&self.file).is_ok_and(|holder| holder == Some(self.pid)) {
            return true;
        }
        self.process.as_ref().is_some_and(|process| {
            let now = Timespec::default();
            let mut waiting = [PollFd::new(process, PollFlags::IN)];
            poll(&mut waiting, Some(&now)).is_ok_and(|ready| ready == 0)
        })
    }
}

/// A descriptor of this process that becomes readable when it ends: see `pidfd_open(2)`.
#[cfg(target_os = "linux")]
fn descriptor_of(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn descriptor_of(_pid: Pid) -> Option<OwnedFd> {
    None
}

impl ProcessFile {
    /// Writes the file of this process and locks it until the process has ended. `None` if another
    /// server has it. Fails if there is no data directory.
    pub(in crate::commands) fn hold(
        data_dir: &Path,
        server: &RunningServer,
    ) -> io::Result<Option<Self>> {
        let path = data_dir.join(FILE_NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let mut file = options.open(&path)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(server)?)?;
        // The file stays open until the process ends, because its lock shows that the server runs.
        let _kept_open = file.into_raw_fd();
        Ok(Some(Self { path }))
    }

    /// The server that has the lock; `None` if none has.
    pub(in crate::commands) fn find(data_dir: &Path) -> io::Result<Option<FoundServer>> {
        let path = data_dir.join(FILE_NAME);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // A process of another container has no number here.
        let Some(pid) = holder(&file)? else {
            return Ok(None);
        };
        let process = descriptor_of(pid);
        let mut text = String::new();
        (&file).take(MAX_BYTES).read_to_string(&mut text)?;
        let server = serde_json::from_str(&text)?;
        Ok(Some(FoundServer {
            server,
            pid,
            file,
            process,
        }))
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        // What is left without a lock names no server.
        fs::remove_file(&self.path).ok();
    }
}

fn holder(file: &File) -> io::Result<Option<Pid>> {
    let lock = fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?;
    Ok(lock.and_then(|lock| lock.pid))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Promise: A server has ended when its process has, not when its lock is released.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_runs_until_its_process_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let found = FoundServer {
            server: RunningServer {
                address: "127.0.0.1:1".parse().unwrap(),
                manager: None,
            },
            pid,
            file: tempfile::tempfile().unwrap(),
            process: descriptor_of(pid),
        };
        assert!(found.is_running());
        child.kill().unwrap();
        // It ends without being waited for, as the child of a process that never waits.
        while found.is_running() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_a_server_left_behind_names_no_process() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ProcessFile::find(folder.path()).unwrap().is_none());
        let text = r#"{"address":"127.0.0.1:9797","manager":"systemd"}"#;
        fs::write(folder.path().join(FILE_NAME), text).unwrap();
        assert!(ProcessFile::find(folder.path()).unwrap().is_none());
        let server = RunningServer {
            address: "127.0.0.1:1".parse().unwrap(),
            manager: None,
        };
        let file = ProcessFile::hold(folder.path(), &server).unwrap().unwrap();
        let written = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        assert_eq!(written, r#"{"address":"127.0.0.1:1","manager":null}"#);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
