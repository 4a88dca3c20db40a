//! A running program that records every turn, and the bundles and replays made of them.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kit::player::Player;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bundle_files::BundleFiles;
use crate::proxy::{CODEX, Proxy, Reply, Setup, streaming};

/// Records all turns and keeps all turns of a test.
const CAPTURE_ALL: &str =
    "[capture]\nmode = \"all\"\nrecent = 1000\nmemory = 1073741824\nkeep = 1000\n";

/// How long to retry `bundle create` before its output is reported.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running program that records every turn.
pub struct RecordingProxy {
    pub proxy: Proxy,
    turns: AtomicUsize,
    /// Where the commands look for the server.
    address: String,
}

/// Callers as (asks for a stream, headers): Codex and another client.
pub const CALLERS: [(bool, &[(&str, &str)]); 4] =
    [(true, CODEX), (false, CODEX), (true, &[]), (false, &[])];

impl RecordingProxy {
    pub async fn start(player: &Player, setup: Setup) -> Self {
        Self::start_at(&player.base_url(), setup.wire_of(player)).await
    }

    pub async fn start_at(base_url: &str, setup: Setup) -> Self {
        let proxy = Proxy::start_for_url(base_url, setup.tables(CAPTURE_ALL)).await;
        Self {
            address: proxy.address.to_string(),
            proxy,
            turns: AtomicUsize::default(),
        }
    }

    /// Waits for the program to exit after it was asked to. The commands then read the
    /// folder of bundles.
    pub async fn stop(&mut self) {
        assert_eq!(self.proxy.wait_for_exit().await.code(), Some(0));
        // Another program may have the port now.
        "127.0.0.1:9".clone_into(&mut self.address);
    }

    /// Runs one turn to its end, successful or not.
    pub async fn turn(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.raw_turn(body.to_string(), headers).await
    }

    /// Like [`Self::turn`], with a body that need not be JSON.
    pub async fn raw_turn(&self, body: String, headers: &[(&str, &str)]) -> Reply {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.proxy.post_bytes(body, headers).await
    }

    /// Counts turns that were run on [`Self::proxy`] directly.
    pub fn count_turns(&self, turns: usize) {
        self.turns.fetch_add(turns, Ordering::Relaxed);
    }

    /// Runs the turn for each of [`CALLERS`], one after another; `before` is called before
    /// each.
    pub async fn each_caller(&self, body: &Value, mut before: impl FnMut()) {
        for (stream, headers) in CALLERS {
            before();
            self.turn(&with_stream(body, stream), headers).await;
        }
    }

    /// Like [`Self::each_caller`], but concurrently.
    pub async fn each_caller_at_once(&self, body: &Value) {
        let ask = |(stream, headers)| {
            let body = with_stream(body, stream);
            async move { self.turn(&body, headers).await }
        };
        let [first, second, third, fourth] = CALLERS.map(ask);
        tokio::join!(first, second, third, fourth);
    }

    /// Bundles all turns and checks that they replay without a difference.
    pub async fn assert_replays(self, name: &str) -> BundleFiles {
        let bundle = self.bundle(name).await;
        let (code, out, err) = replay(&bundle.path).await;
        assert_eq!(code, 0, "{name}: {out}\n{err}");
        assert!(out.contains("equal"), "{name}: {out}\n{err}");
        for turn in bundle.turns.turns() {
            let equal = json!({"failed": null, "events": [], "parts": []});
            assert_eq!(turn["rerun"], equal, "{name}: {}", turn["request_id"]);
        }
        bundle.turns
    }

    /// Creates one bundle with all turns. There is no signal for the end of the last turn,
    /// so the bundle is created again until it contains all of them.
    pub async fn bundle(self, name: &str) -> Bundle {
        let expected = self.turns.into_inner();
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
                let turns = BundleFiles::read(&path);
                assert!(turns.len() <= expected, "{name}: {} turns", turns.len());
                if turns.len() == expected {
                    let log = self.proxy.log();
                    assert!(!log.contains("panicked"), "{log}");
                    return Bundle {
                        turns,
                        path,
                        _folder: folder,
                    };
                }
            } else {
                let output = format!("{out}{err}{}", self.proxy.log());
                assert!(!output.contains("panicked"), "{output}");
                assert!(code != 2 && begun.elapsed() < TIMEOUT, "{output}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A bundle in a temporary folder of its own.
pub struct Bundle {
    pub turns: BundleFiles,
    pub path: PathBuf,
    _folder: TempDir,
}

/// Replays a bundle from an empty folder; returns exit code, standard output and
/// standard error.
pub async fn replay(bundle: &Path) -> (i32, String, String) {
    let nowhere = tempfile::tempdir().unwrap();
    let setup = Setup::new().arg("replay").arg(bundle.to_str().unwrap());
    setup.run(nowhere.path()).await
}

fn with_stream(body: &Value, stream: bool) -> Value {
    if stream {
        streaming(body)
    } else {
        body.clone()
    }
}
