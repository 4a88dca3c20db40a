//! The program as it takes down every turn, and what it makes of them.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kit::player::Player;
use serde_json::Value;
use tempfile::TempDir;

use super::turns::Turns;
use crate::proxy::{CODEX, Proxy, Reply, Setup, streaming};

/// Every turn is taken down, and all of a trial are kept.
const ALL: &str = "[capture]\nmode = \"all\"\nrecent = 1000\nmemory = 1073741824\nkeep = 1000\n";

/// Then what the command said is told.
const HANGS: Duration = Duration::from_secs(30);

/// A running program that takes down every turn.
pub struct Keeper {
    pub proxy: Proxy,
    turns: AtomicUsize,
    /// Where the commands look for it.
    address: String,
}

/// Who asks, and how.
pub const WAYS: [(bool, &[(&str, &str)]); 4] =
    [(true, CODEX), (false, CODEX), (true, &[]), (false, &[])];

impl Keeper {
    pub async fn of(player: &Player, setup: Setup) -> Self {
        Self::at(&player.base_url(), setup).await
    }

    pub async fn at(base_url: &str, setup: Setup) -> Self {
        let proxy = Proxy::at(base_url, setup.tables(ALL)).await;
        Self {
            address: proxy.address.to_string(),
            proxy,
            turns: AtomicUsize::default(),
        }
    }

    /// It was asked to stop, and does. The commands find the folder alone.
    pub async fn stop(&mut self) {
        assert_eq!(self.proxy.ended().await.code(), Some(0));
        // Another program may have the port now.
        "127.0.0.1:9".clone_into(&mut self.address);
    }

    /// One turn to its end, whatever it is.
    pub async fn turn(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.raw(body.to_string(), headers).await
    }

    /// The same with any bytes.
    pub async fn raw(&self, body: String, headers: &[(&str, &str)]) -> Reply {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.proxy.raw(body, headers).await
    }

    /// So many turns were run on the proxy itself.
    pub fn add(&self, turns: usize) {
        self.turns.fetch_add(turns, Ordering::Relaxed);
    }

    /// The turn for Codex and for another caller, streamed and whole; `before` is
    /// done before each.
    pub async fn each_way(&self, body: &Value, mut before: impl FnMut()) {
        for (stream, headers) in WAYS {
            before();
            self.turn(&as_asked(body, stream), headers).await;
        }
    }

    /// The same at once.
    pub async fn each_way_at_once(&self, body: &Value) {
        let ask = |(stream, headers)| {
            let body = as_asked(body, stream);
            async move { self.turn(&body, headers).await }
        };
        let [first, second, third, fourth] = WAYS.map(ask);
        tokio::join!(first, second, third, fourth);
    }

    /// Bundles all turns and runs them again: nothing differs.
    pub async fn replays(self, name: &str) -> Turns {
        let bundle = self.bundle(name).await;
        let (code, out, err) = replay(&bundle.path).await;
        assert_eq!(code, 0, "{name}: {out}\n{err}");
        assert!(out.contains("equal"), "{name}: {out}\n{err}");
        bundle.turns
    }

    /// One bundle with all turns. Nobody tells when the last of them is over, so it is
    /// asked for until all are in it.
    pub async fn bundle(self, name: &str) -> Bundle {
        let wanted = self.turns.into_inner();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.bundle"));
        let begun = Instant::now();
        loop {
            let created = Setup::new()
                .arg("bundle")
                .arg("create")
                .arg("--since")
                .arg("1h")
                .arg("--output")
                .arg(path.to_str().unwrap())
                .arg("--listen")
                .arg(&self.address);
            let _ = std::fs::remove_file(&path);
            let (code, out, err) = created.run(self.proxy.folder.path()).await;
            if code == 0 {
                let turns = Turns::read(&path);
                assert!(turns.len() <= wanted, "{name}: {} turns", turns.len());
                if turns.len() == wanted {
                    keep(&path);
                    let log = self.proxy.log();
                    assert!(!log.contains("panicked"), "{log}");
                    return Bundle {
                        turns,
                        path,
                        _folder: folder,
                    };
                }
            } else {
                let said = format!("{out}{err}{}", self.proxy.log());
                assert!(!said.contains("panicked"), "{said}");
                assert!(code != 64 && begun.elapsed() < HANGS, "{said}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A bundle in a folder of its own.
pub struct Bundle {
    pub turns: Turns,
    pub path: PathBuf,
    _folder: TempDir,
}

/// Replays a bundle where there is nothing else: exit code and what was printed.
pub async fn replay(bundle: &Path) -> (i32, String, String) {
    let nowhere = tempfile::tempdir().unwrap();
    let setup = Setup::new().arg("replay").arg(bundle.to_str().unwrap());
    setup.run(nowhere.path()).await
}

fn as_asked(body: &Value, stream: bool) -> Value {
    if stream {
        streaming(body)
    } else {
        body.clone()
    }
}

/// Leaves a copy where `CORPUS_DIR` says.
fn keep(path: &Path) {
    if let Some(folder) = std::env::var_os("CORPUS_DIR").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(path, folder.join(path.file_name().unwrap())).unwrap();
    }
}
