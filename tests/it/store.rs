//! The artifact store across processes: what it contains after a process was killed, and which
//! process may open it.
mod isolation;
mod killed;
pub mod large;
mod room;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::plan::Retention;
use adapters::plan::output::OutputKind;
use respondent::artifacts::Artifacts;
use respondent::clock::{Clock, System};
use respondent::config::{self, Config, Inputs, LoadPurpose};
use respondent::metrics::ArtifactCounts;
use respondent::net::fairness::Sharing;
use respondent::store::{ArtifactFilter, ArtifactRange, DataDir, NewArtifact, OpenError, Store};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::child::Child;
use crate::proxy::{Proxy, Setup};

/// The variable that says how often the child or the server is killed; the default is 5.
const KILLS_VARIABLE: &str = "RESPONDENT_TEST_KILLS";

/// How often the child or the server is killed.
fn kill_count() -> usize {
    std::env::var(KILLS_VARIABLE).map_or(5, |kills| kills.parse().unwrap())
}

/// Commits sets of artifacts until the process is killed. After each commit it prints the ids of
/// the set, one per line.
pub fn commit_until_killed(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let artifacts = open(folder);
        assert_eq!(artifacts.retention(), Retention::Disk);
        let seed = u64::from(std::process::id());
        for set in 0.. {
            let count = 1 + set % 3;
            let new: Vec<NewArtifact> = (0..count)
                .map(|index| artifact(seed * 1_000_000 + set * 10 + index))
                .collect();
            let ids: Vec<String> = new.iter().map(|new| new.id.clone()).collect();
            let session = format!("{seed}/{set}/{count}");
            artifacts
                .keep("me", &session, new, BTreeSet::new())
                .wait()
                .await;
            let mut out = std::io::stdout().lock();
            for id in ids {
                writeln!(out, "{id}").unwrap();
            }
        }
    });
}

/// An artifact of a few hundred to some hundred thousand bytes.
fn artifact(seed: u64) -> NewArtifact {
    let mut text = String::new();
    let lines = if seed.is_multiple_of(7) { 40_000 } else { 200 };
    for line in 0..lines {
        writeln!(
            text,
            "{seed} {}",
            (seed ^ line).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )
        .unwrap();
    }
    NewArtifact {
        id: artifact_id_of(&text),
        call_id: String::new(),
        kind: OutputKind::CommandOutput,
        chars: text.chars().count(),
        lines: text.lines().count(),
        text,
    }
}

fn artifact_id_of(text: &str) -> String {
    let mut id = "art_".to_owned();
    for byte in Sha256::digest(text).iter().take(16) {
        write!(id, "{byte:02x}").unwrap();
    }
    id
}

fn config(folder: &Path) -> Config {
    let inputs = Inputs::under(folder);
    config::load(&inputs, LoadPurpose::Serve).unwrap()
}

fn open(folder: &Path) -> Artifacts {
    let config = config(folder);
    let store = Store::open(&DataDir::new(&config.server.data_dir), System.unix()).unwrap();
    Artifacts::open(
        &config.artifacts,
        Some(Ok(Arc::new(store))),
        Arc::new(System),
        ArtifactCounts::default(),
        &Sharing::default(),
    )
}

/// Opens what a store has left. A task may still hold the store, and a child that another test
/// starts the lock of the folder, until it has become another program: a folder in use is tried
/// again for ten seconds.
pub async fn open_existing(data_dir: &DataDir) -> Result<Option<Store>, OpenError> {
    let is_over = Instant::now() + Duration::from_secs(10);
    loop {
        match Store::open_existing(data_dir) {
            Err(OpenError::InUse(_)) if Instant::now() < is_over => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            opened => return opened,
        }
    }
}

/// Runs the child until it has printed `after` ids, and kills it. Returns everything that it
/// printed.
fn kill_after(folder: &Path, after: usize) -> Vec<String> {
    let mut child = Child::CommitsArtifacts
        .command()
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids = lines
        .map_while(Result::ok)
        .filter(|line| line.starts_with("art_"));
    let mut printed: Vec<String> = ids.by_ref().take(after).collect();
    assert_eq!(printed.len(), after, "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    printed.extend(ids);
    // The last line may have been cut.
    printed.retain(|id| id.len() == id_length());
    printed
}

fn id_length() -> usize {
    "art_".len() + 32
}

/// Promise: However often and whenever the program is killed, every artifact that a commit reported
/// or a request named is readable and unchanged.
// An hour, because there may be many kills.
#[kit::test(minutes = 60)]
async fn committed_artifacts_survive_a_kill_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for kill in 0..kill_count() {
        let printed = kill_after(folder.path(), 1 + kill * 5 % 17);
        let artifacts = open(folder.path());
        assert_eq!(artifacts.retention(), Retention::Disk);
        assert_all_stored(&artifacts, &printed).await;
        all.extend(printed);
    }
    let artifacts = open(folder.path());
    assert_all_stored(&artifacts, &all).await;
    let mut sets = HashMap::<String, usize>::new();
    for entry in artifacts
        .list("me", &ArtifactFilter::default())
        .await
        .unwrap()
    {
        *sets.entry(entry.session).or_default() += 1;
    }
    for (set, found) in sets {
        let (_, count) = set.rsplit_once('/').unwrap();
        assert_eq!(found.to_string(), count, "only a part of a set was stored");
    }
}

async fn assert_all_stored(artifacts: &Artifacts, printed: &[String]) {
    for printed in printed {
        let piece = artifacts
            .read("me", printed, &ArtifactRange::Whole)
            .await
            .unwrap();
        let text = piece.expect("a committed artifact is missing").text;
        assert_eq!(artifact_id_of(&text), *printed);
    }
}

/// A base URL at which nothing listens.
const UNUSED_URL: &str = "http://127.0.0.1:1/v1";

/// The setup of servers that share a data directory in this folder.
fn setup_with_data_dir(folder: &TempDir) -> Setup {
    let data = folder.path().join("data");
    Setup::new().server(&format!("data_dir = \"{}\"", data.display()))
}

#[kit::test]
async fn a_second_server_on_a_data_directory_fails_with_advice() {
    let data = tempfile::tempdir().unwrap();
    let setup = setup_with_data_dir(&data);
    let first = Proxy::start_for_url(UNUSED_URL, setup.clone()).await;
    let (code, out, err) = setup.run(setup.folder(UNUSED_URL).path()).await;
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    for text in [
        "the data directory",
        "is in use by another Respondent",
        "a directory of its own with --data-dir (or data_dir in [server])",
        "mode = \"memory\" in [artifacts]",
    ] {
        assert!(err.contains(text), "{err}");
    }
    let data_dir = DataDir::new(data.path().join("data"));
    let Err(OpenError::InUse(_)) = Store::open_existing(&data_dir) else {
        panic!("a command opened the store of a running server");
    };
    let memory = setup.clone().tables("[artifacts]\nmode = \"memory\"");
    Proxy::start_for_url(UNUSED_URL, memory).await;
    drop(first);
}

#[kit::test]
async fn a_data_directory_can_be_used_again_after_its_server_has_ended() {
    let data = tempfile::tempdir().unwrap();
    let setup = setup_with_data_dir(&data);
    let mut first = Proxy::start_for_url(UNUSED_URL, setup.clone()).await;
    first.terminate();
    first.wait_for_exit().await;
    let second = Proxy::start_for_url(UNUSED_URL, setup).await;
    let log = second.whole_log().await;
    assert!(!log.contains("ARTIFACT_STORE"), "{log}");
}

#[kit::test]
async fn a_server_without_a_usable_store_starts_and_reports_it_once() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("data"), "a file").unwrap();
    let proxy = Proxy::start_for_url(UNUSED_URL, setup_with_data_dir(&data)).await;
    proxy.wait_for_log("ARTIFACT_STORE_OPEN_FAILED").await;
    assert_eq!(proxy.get("/metrics").await.status, 200);
    assert_eq!(proxy.log().matches("ARTIFACT_STORE").count(), 1);
    let metrics = proxy.get("/metrics").await.body;
    let failures = "respondent_artifact_failures_total{warning=\"ARTIFACT_STORE_OPEN_FAILED\"} 1";
    assert!(metrics.contains(failures), "{metrics}");
    // Nobody knows what is in a store that cannot be opened.
    for path in [
        "/v1/responses/resp_1",
        "/v1/conversations/conv_1",
        "/v1/artifacts/art_00000000000000000000000000000000",
    ] {
        for reply in [proxy.get(path).await, proxy.delete(path).await] {
            assert_eq!(reply.status, 503, "{path}: {}", reply.body);
        }
    }
    for (key, value) in [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
    ] {
        let body = serde_json::json!({"model": "m", "input": "x", key: value});
        let reply = proxy.post(&body).await;
        assert_eq!(reply.status, 503, "{key}: {}", reply.body);
        assert!(reply.body.contains("cannot open its database"));
    }
    let purged = proxy.delete("/diagnostics/store").await;
    assert_eq!(purged.status, 503, "{}", purged.body);
}

#[kit::test]
async fn a_command_without_a_server_reads_the_store_and_does_not_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let data_dir = DataDir::new(&config.server.data_dir);
    assert!(open_existing(&data_dir).await.unwrap().is_none());
    assert!(
        !config.server.data_dir.exists(),
        "looking for a store must not create one"
    );

    let one = artifact(1);
    let (id, text) = (one.id.clone(), one.text.clone());
    open(folder.path())
        .keep("me", "s", vec![one], BTreeSet::new())
        .wait()
        .await;
    let store = open_existing(&data_dir).await.unwrap().unwrap();
    let artifacts = Artifacts::of_store(&config.artifacts, Arc::new(store));
    let read = artifacts
        .read("me", &id, &ArtifactRange::Whole)
        .await
        .unwrap();
    assert_eq!(*read.unwrap().text, text);
    assert!(artifacts.delete("me", &id).await.unwrap());
    drop(artifacts);

    let database = config.server.data_dir.join("artifacts/artifacts.db");
    std::fs::write(&database, "garbage".repeat(1000)).unwrap();
    let Err(OpenError::Unusable(_)) = open_existing(&data_dir).await else {
        panic!("a command opened garbage as a store");
    };
    let left = std::fs::read(&database).unwrap();
    assert!(left.starts_with(b"garbage"), "a command moved the store");
}
