//! Servers in the background: `start`, `stop`, `restart`, `logs`, a server behind a terminal, and
//! the service of a user.
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kit::address::ReservedAddress;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Flock, FlockType, Pid, PidfdFlags, Signal, fcntl_getlk, getsid, kill_process, pidfd_open,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::proxy::{PROGRAM, Proxy, Setup, write};
use crate::terminal::on_whole_terminal;

/// A home whose server is in the background. Dropping it kills the server.
struct Home {
    folder: TempDir,
    address: ReservedAddress,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            address: ReservedAddress::new().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.path().join(".local/share/respondent").join(name)
    }

    async fn run(&self, line: &str) -> (i32, String, String) {
        let setup = Setup::new().unnamed().arg("--listen");
        let setup = setup.arg(&self.address.to_string());
        let setup = line.split(' ').fold(setup, Setup::arg);
        setup.run(self.path()).await
    }

    async fn succeed(&self, line: &str) -> String {
        let (code, out, err) = self.run(line).await;
        assert_eq!(code, 0, "{line}: {out}{err}");
        out
    }

    /// The process of the server.
    fn server(&self) -> Option<Pid> {
        let file = File::open(self.data("server.json")).ok()?;
        let lock = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).unwrap();
        lock?.pid
    }

    fn answers(&self) -> bool {
        TcpStream::connect(self.address.get()).is_ok()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = self.server() {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Promise: `respondent start` returns when the server answers, which then has a session of its own
/// and logs to a file; `stop` returns when it has ended, and ends no other process.
#[kit::test]
async fn a_server_is_started_and_stopped() {
    let home = Home::new();
    let out = home.succeed("start").await;
    assert!(home.answers());
    let log = home.data("server.log").display().to_string();
    for said in [
        format!(" runs on http://{}\n", home.address),
        "No provider has a key, so an offline demo model answers.".to_owned(),
        format!("  Log   {log}\n"),
        format!(
            "  Next  {PROGRAM} --listen {} run codex --model sandbox-1\n",
            home.address
        ),
        format!("  Stop  {PROGRAM} --listen {} stop\n", home.address),
    ] {
        assert!(out.contains(&said), "{said}: {out}");
    }
    let server = home.server().unwrap();
    assert_eq!(getsid(Some(server)).unwrap(), server);
    let again = home.succeed("start").await;
    assert!(
        again.starts_with("A server runs already on http://"),
        "{again}"
    );
    assert_eq!(home.server(), Some(server));

    let out = home.succeed("restart").await;
    assert!(out.starts_with("Stopped the server on "), "{out}");
    let other = home.server().unwrap();
    assert_ne!(other, server);
    let program = format!("/proc/{}/exe", other.as_raw_nonzero());
    assert!(fs::read_link(&program).is_ok());
    let out = home.succeed("stop").await;
    assert!(fs::read_link(&program).is_err(), "it has not ended");
    assert_eq!(out, format!("Stopped the server on {}.\n", home.address));
    assert!(!home.answers());
    assert!(!home.data("server.json").exists());
    let out = home.succeed("logs").await;
    assert_eq!(out.matches(" INFO stopped\n").count(), 2, "{out}");
    let last = home.succeed("logs -n 1").await;
    assert!(
        last.ends_with(" INFO stopped\n") && last.lines().count() == 1,
        "{last}"
    );
    let out = home.succeed("stop").await;
    assert_eq!(out, format!("No server runs on {}.\n", home.address));
}

/// Promise: `logs -f` shows what is logged from then on, also after somebody has emptied or
/// replaced the file.
#[kit::test]
async fn a_log_is_followed_when_it_is_emptied_or_replaced() {
    let home = Home::new();
    let log = home.data("server.log");
    write(
        home.path(),
        ".local/share/respondent/server.log",
        "the first line\n",
    );
    let setup = Setup::new().unnamed().arg("--listen");
    let setup = setup.arg(&home.address.to_string()).arg("logs").arg("-f");
    let mut command = setup.command(home.path());
    let mut following = command
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = async || shown.next_line().await.unwrap().unwrap();
    assert_eq!(next().await, "the first line");
    let mut appending = File::options().append(true).open(&log).unwrap();
    appending.write_all(b"the second line\n").unwrap();
    assert_eq!(next().await, "the second line");
    fs::write(&log, "emptied\n").unwrap();
    assert_eq!(next().await, "emptied");
    fs::rename(&log, home.data("server.log.1")).unwrap();
    fs::write(&log, "replaced\n").unwrap();
    assert_eq!(next().await, "replaced");
}

/// Promise: A server that is killed leaves nothing by which another process could be taken for it.
#[cfg(target_os = "linux")]
#[kit::test]
async fn what_a_killed_server_left_is_no_server() {
    let home = Home::new();
    home.succeed("start").await;
    let server = home.server().unwrap();
    let process = pidfd_open(server, PidfdFlags::empty()).unwrap();
    kill_process(server, Signal::KILL).unwrap();
    // It is readable when the process has ended.
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
    assert!(home.data("server.json").exists());
    let out = home.succeed("stop").await;
    assert_eq!(out, format!("No server runs on {}.\n", home.address));
    home.succeed("start").await;
    home.succeed("stop").await;
}

/// Promise: A server whose terminal is closed ends in order; with `nohup` it goes on.
#[kit::test]
async fn a_server_whose_terminal_is_closed_ends_in_order() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 == 1;
    let mut proxy = Proxy::start_for_url("http://127.0.0.1:1/v1", Setup::new()).await;
    proxy.send_signal(Signal::HUP);
    if ignored {
        // These tests run with `nohup`, and so does the server.
        assert_eq!(proxy.get("/healthz").await.status, 200);
        proxy.terminate();
    }
    assert!(proxy.wait_for_exit().await.success());
    proxy.wait_for_log("stopped").await;
}

/// Promise: If the server does not start, `start` prints what it said and ends with its exit code.
#[kit::test]
async fn a_server_that_does_not_start_says_why() {
    let home = Home::new();
    write(home.path(), "bad.toml", "[server]\ngrace = \"soon\"\n");
    let (code, out, err) = home.run("--config bad.toml start").await;
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("bad.toml:2: "), "{err}");

    // This is found only by the server itself.
    let other = Home::new();
    home.succeed("start").await;
    let data = home.data("").display().to_string();
    let (code, out, err) = other.run(&format!("--data-dir {data} start")).await;
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains(" is in use by another Respondent"), "{err}");
    assert!(
        err.contains("the server did not start; its log is "),
        "{err}"
    );
    home.succeed("stop").await;

    let taken = TcpListener::bind(home.address.get()).unwrap();
    drop(std::thread::spawn(move || {
        while let Ok((stream, _)) = taken.accept() {
            drop(stream);
        }
    }));
    for line in ["start", "stop"] {
        let (code, _, err) = home.run(line).await;
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("another program listens on "), "{err}");
    }
}

/// Promise: A server that a shell puts in the background of a terminal logs to a file and says
/// where, so that the terminal is free for another program; in the foreground it logs there.
#[cfg(target_os = "linux")]
#[kit::test]
async fn a_server_behind_a_terminal_leaves_it_alone() {
    for (start, is_behind) in [
        (
            r#"exec setsid --ctty --wait bash -m -c '"$0" --listen 127.0.0.1:0 & wait' "$0""#,
            true,
        ),
        (
            r#"exec setsid --ctty --wait bash -m -c '"$0" --listen 127.0.0.1:0; true' "$0""#,
            false,
        ),
    ] {
        let home = Home::new();
        let end = if is_behind {
            " stop\r\n"
        } else {
            "to stop\r\n"
        };
        let setup = Setup::new()
            .unnamed()
            .env("PATH", "/usr/bin:/bin")
            .shell(start);
        let address = |shown: &str| {
            let (_, rest) = shown.split_once("is listening on http://").unwrap();
            rest.split_once('\r').unwrap().0.to_owned()
        };
        let mut is_told = false;
        let shown = on_whole_terminal(&setup, home.path(), |shown| {
            if !is_told && shown.contains(end) {
                is_told = true;
                assert!(TcpStream::connect(address(shown)).is_ok());
                // Its end is logged.
                kill_process(home.server_soon(), Signal::TERM).unwrap();
            }
        })
        .await;
        let log = home.data("server.log");
        let logged = fs::read_to_string(&log).unwrap_or_default();
        assert_eq!(logged.contains(" INFO stopped\n"), is_behind, "{logged}");
        assert_eq!(shown.contains("INFO"), !is_behind, "{shown}");
        let says_where = shown.contains(&format!("  Log        {}\r\n", log.display()));
        assert_eq!(says_where, is_behind, "{shown}");
    }
}

impl Home {
    /// The process of the server, once it has its file.
    fn server_soon(&self) -> Pid {
        loop {
            if let Some(pid) = self.server() {
                return pid;
            }
            std::thread::yield_now();
        }
    }
}

/// Promise: `service install` writes a unit for this program, its flags and folders, and waits
/// until the server answers; `service remove` leaves nothing of it. A unit that something else
/// wrote stays as it is.
#[cfg(target_os = "linux")]
#[kit::test]
async fn a_service_is_installed_and_removed() {
    const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/calls"
[ -e "$HOME/broken" ] && exit
case $2 in
restart)
    line=$(sed -n s/^ExecStart=//p "$HOME/.config/systemd/user/respondent.service")
    $line >"$HOME/log" 2>&1 &
    echo $! >"$HOME/pid" ;;
stop) kill "$(cat "$HOME/pid")" ;;
esac
"#;
    let home = Home::new();
    let listen = home.address.to_string();
    write(home.path(), "bin/systemctl", SYSTEMCTL);
    let program = home.path().join("bin/systemctl");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
    let run = async |path: &str, line: &str| {
        let setup = Setup::new()
            .unnamed()
            .env("PATH", path)
            .env("RESPONDENT_TOKEN", "local-token-1")
            .env(
                "XDG_CONFIG_HOME",
                &home.path().join(".config").display().to_string(),
            )
            .arg("--listen")
            .arg(&listen);
        let setup = line.split(' ').fold(setup, Setup::arg);
        setup.run(home.path()).await
    };
    let unit = home.path().join(".config/systemd/user/respondent.service");
    let calls = || fs::read_to_string(home.path().join("calls")).unwrap_or_default();

    let (code, out, err) = run(&path, "--data-dir d service install --dry-run").await;
    assert_eq!(code, 0, "{err}");
    let data = home.path().join("d").display().to_string();
    let folder = home.path().join(".config").display().to_string();
    let program = format!("/usr/bin/env XDG_CONFIG_HOME={folder} {PROGRAM}");
    let start = format!("\nExecStart={program} --data-dir {data} --listen {listen} serve\n");
    assert!(out.contains(&start), "{out}");
    assert!(!unit.exists() && calls().is_empty());

    let (code, out, err) = run(&path, "service install").await;
    assert_eq!(code, 0, "{err}");
    let text = fs::read_to_string(&unit).unwrap();
    let start = format!("\nExecStart={program} --listen {listen} serve\n");
    assert!(text.contains(&start), "{text}");
    let keys = home
        .path()
        .join(".config/respondent/keys.env")
        .display()
        .to_string();
    assert!(
        text.contains(&format!("\nEnvironmentFile=-{keys}\n")),
        "{text}"
    );
    assert!(home.answers(), "it has not been waited for");
    assert!(
        out.contains(&keys) && out.contains("The service was started."),
        "{out}"
    );
    assert!(
        out.contains("RESPONDENT_TOKEN of this shell belongs in that file, too."),
        "{out}"
    );
    let expected = "--user daemon-reload\n--user enable respondent\n--user restart respondent\n";
    assert_eq!(calls(), expected);

    let (code, _, err) = run(&path, "service remove").await;
    assert_eq!(code, 0, "{err}");
    assert!(!home.path().join(".config").join("systemd").exists());
    let expected = format!(
        "{expected}--user disable respondent\n--user stop respondent\n--user daemon-reload\n"
    );
    assert_eq!(calls(), expected);

    // A server that does not start is no success.
    write(home.path(), "broken", "");
    let (code, _, err) = run(&path, "service install").await;
    assert_eq!(code, 1, "{err}");
    let why = format!("nothing answers on {listen} after 10 s. Its log says why:\n  journalctl ");
    assert!(err.contains(&why), "{err}");
    let (code, _, err) = run(&path, "service remove").await;
    assert_eq!(code, 0, "{err}");

    // Without systemd the commands are printed.
    let (code, out, err) = run("/nonexistent", "service install").await;
    assert_eq!(code, 1, "{out}");
    assert!(
        err.contains("\n  systemctl --user enable respondent\n"),
        "{err}"
    );
    write(
        home.path(),
        ".config/systemd/user/respondent.service",
        "[Unit]\n",
    );
    for line in ["service install", "service remove"] {
        let (code, _, err) = run(&path, line).await;
        assert_eq!(code, 1);
        assert!(
            err.contains("was not written by `respondent service install`"),
            "{err}"
        );
    }
    assert_eq!(fs::read_to_string(&unit).unwrap(), "[Unit]\n");
}
