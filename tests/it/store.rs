//! The artifact store across processes: what it contains after a process was killed, and which
//! process may open it.
mod isolation;
mod killed;
mod large;
mod room;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::plan::Retention;
use adapters::plan::output::OutputKind;
use libtest_mimic::Trial;
use respondent::artifacts::Artifacts;
use respondent::clock::{Clock, System};
use respondent::config::{self, Config, Inputs, LoadPurpose};
use respondent::metrics::ArtifactCounts;
use respondent::net::fairness::Sharing;
use respondent::store::{ArtifactFilter, ArtifactRange, DataDir, NewArtifact, OpenError, Store};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::proxy::{Proxy, Setup};
use crate::trial::case;

/// The variable that makes this program the child process; it names the data directory.
const CHILD_VARIABLE: &str = "RESPONDENT_TEST_STORE";

/// The same for the child that writes one large artifact.
const LARGE_VARIABLE: &str = "RESPONDENT_TEST_LARGE_STORE";

/// The variable that says how often the child or the server is killed; the default is 5.
const KILLS_VARIABLE: &str = "RESPONDENT_TEST_KILLS";

/// How often the child or the server is killed.
fn kill_count() -> usize {
    std::env::var(KILLS_VARIABLE).map_or(5, |kills| kills.parse().unwrap())
}

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        // No timeout, because there may be many kills.
        Trial::test(
            "R13 S2-Dc committed artifacts survive a kill of the program",
            || {
                tokio::runtime::Runtime::new()?.block_on(killed_child());
                Ok(())
            },
        ),
        case(
            "R20 a second server on a data directory fails with advice",
            second_server,
        ),
        case(
            "a data directory can be used again after its server has ended",
            restarted_server,
        ),
        case(
            "a command without a server reads the store and does not change it",
            offline,
        ),
        case(
            "S2-De a server without a usable store starts and reports it once",
            unusable_data_dir,
        ),
        // No timeout here either.
        Trial::test(
            "R13 S2-Dc artifacts that a model was shown survive a kill of the server",
            || {
                tokio::runtime::Runtime::new()?.block_on(killed::shown_artifacts());
                Ok(())
            },
        ),
        case(
            "R18 an artifact of 50 MB is whole or absent after a kill",
            large::whole_or_absent,
        ),
        case(
            "S2-Df the home directory is not touched",
            isolation::untouched_home,
        ),
        case(
            "S2-Dh the same input gives the same upstream request",
            isolation::same_input,
        ),
    ];
    trials.extend(room::trials());
    trials
}

/// Runs what a child process does, if this process is one.
pub fn run_child() -> Option<ExitCode> {
    if let Some(folder) = std::env::var_os(LARGE_VARIABLE) {
        return Some(large::run_child(Path::new(&folder)));
    }
    std::env::var_os(CHILD_VARIABLE).map(|folder| commit_until_killed(&folder))
}

/// Commits sets of artifacts until the process is killed. After each commit it prints the ids of
/// the set, one per line.
fn commit_until_killed(folder: &OsString) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let artifacts = open(Path::new(folder));
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
    ExitCode::SUCCESS
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

/// Opens what a store has left. A child that another test starts holds the lock of the folder too,
/// until it has become another program, so a folder in use is tried again for ten seconds.
async fn open_existing(data_dir: &DataDir) -> Result<Option<Store>, OpenError> {
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
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD_VARIABLE, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut printed: Vec<String> = lines.by_ref().take(after).map(Result::unwrap).collect();
    assert_eq!(printed.len(), after, "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    printed.extend(lines.map_while(Result::ok));
    // The last line may have been cut.
    printed.retain(|id| id.len() == id_length());
    printed
}

fn id_length() -> usize {
    "art_".len() + 32
}

async fn killed_child() {
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

async fn second_server() {
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

async fn restarted_server() {
    let data = tempfile::tempdir().unwrap();
    let setup = setup_with_data_dir(&data);
    let mut first = Proxy::start_for_url(UNUSED_URL, setup.clone()).await;
    first.terminate();
    first.wait_for_exit().await;
    let second = Proxy::start_for_url(UNUSED_URL, setup).await;
    assert!(!second.log().contains("ARTIFACT_STORE"), "{}", second.log());
}

async fn unusable_data_dir() {
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

async fn offline() {
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
