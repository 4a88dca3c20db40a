//! The store of artifacts across processes: what it has after a kill, and who owns
//! it.
mod killed;
mod same;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use adapters::plan::Retention;
use adapters::plan::output::OutputKind;
use libtest_mimic::Trial;
use respondent::artifacts::Artifacts;
use respondent::clock::{Clock, System};
use respondent::config::{self, Config, Flags, Inputs, UserDirs};
use respondent::metrics::ArtifactCounts;
use respondent::store::{ArtifactFilter, ArtifactRange, DataDir, NewArtifact, OpenError, Store};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::proxy::{Proxy, Setup};
use crate::trial::case;

/// Tells this program that it is the child, and where its data are.
const CHILD: &str = "RESPONDENT_TEST_STORE";

/// How often the child or the server is killed; a few times if it is not set.
const KILLS: &str = "RESPONDENT_TEST_KILLS";

/// How often is that.
fn times() -> usize {
    std::env::var(KILLS).map_or(5, |kills| kills.parse().unwrap())
}

pub fn trials() -> Vec<Trial> {
    vec![
        // As long as it takes: there may be many kills.
        Trial::test(
            "S2-Dc what was committed is there after the program was killed",
            || {
                tokio::runtime::Runtime::new()?.block_on(kills());
                Ok(())
            },
        ),
        case(
            "a second server on a data directory is refused and told what to do",
            second,
        ),
        case(
            "a data directory is free when its server is gone",
            after_the_first,
        ),
        case(
            "a command without a server reads the store, and leaves it as it is",
            offline,
        ),
        case(
            "S2-De a server starts where it cannot keep artifacts, and says so once",
            unwritable,
        ),
        // As long as it takes, too.
        Trial::test(
            "S2-Dc what a model was shown is there after the server was killed",
            || {
                tokio::runtime::Runtime::new()?.block_on(killed::shown());
                Ok(())
            },
        ),
        case("S2-Df the home is left alone", same::home),
        case("S2-Dh the same input is the same upstream", same::input),
    ]
}

pub fn folder_of_child() -> Option<OsString> {
    std::env::var_os(CHILD)
}

/// Commits sets of artifacts until it is killed, and prints the ids of each when
/// the commit is done: a line each.
pub fn child(folder: &OsString) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let artifacts = open(Path::new(folder));
        assert_eq!(artifacts.retention(), Retention::Disk);
        let seed = u64::from(std::process::id());
        for set in 0.. {
            let count = 1 + set % 3;
            let new: Vec<NewArtifact> = (0..count)
                .map(|index| new(seed * 1_000_000 + set * 10 + index))
                .collect();
            let ids: Vec<String> = new.iter().map(|new| new.id.clone()).collect();
            let session = format!("{seed}/{set}/{count}");
            artifacts.keep("me", &session, new).wait().await;
            let mut out = std::io::stdout().lock();
            for id in ids {
                writeln!(out, "{id}").unwrap();
            }
        }
    });
    ExitCode::SUCCESS
}

/// An artifact of a few hundred to some hundred thousand bytes.
fn new(seed: u64) -> NewArtifact {
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
        id: id(&text),
        call_id: String::new(),
        kind: OutputKind::CommandOutput,
        chars: text.chars().count(),
        lines: text.lines().count(),
        text,
    }
}

fn id(text: &str) -> String {
    let mut id = "art_".to_owned();
    for byte in Sha256::digest(text).iter().take(16) {
        write!(id, "{byte:02x}").unwrap();
    }
    id
}

fn config(folder: &Path) -> Config {
    config::load(&Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        dirs: UserDirs::under(folder),
    })
    .unwrap()
}

fn open(folder: &Path) -> Artifacts {
    let config = config(folder);
    let store = Store::open(&DataDir::new(&config.server.data_dir), System.unix()).unwrap();
    Artifacts::open(
        &config.artifacts,
        Some(Ok(Arc::new(store))),
        Arc::new(System),
        ArtifactCounts::default(),
    )
}

/// Runs the child until it has printed so many ids, and kills it; tells all that it
/// printed.
fn killed(folder: &Path, after: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD, folder)
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

async fn kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for kill in 0..times() {
        let printed = killed(folder.path(), 1 + kill * 5 % 17);
        let artifacts = open(folder.path());
        assert_eq!(artifacts.retention(), Retention::Disk);
        all_there(&artifacts, &printed).await;
        all.extend(printed);
    }
    let artifacts = open(folder.path());
    all_there(&artifacts, &all).await;
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
        assert_eq!(found.to_string(), count, "part of a set was kept");
    }
}

async fn all_there(artifacts: &Artifacts, printed: &[String]) {
    for printed in printed {
        let piece = artifacts
            .read("me", printed, &ArtifactRange::Whole)
            .await
            .unwrap();
        let text = piece.expect("what was committed is gone").text;
        assert_eq!(id(&text), *printed);
    }
}

/// In front of no provider at all.
const NOWHERE: &str = "http://127.0.0.1:1/v1";

/// What all servers of a test get that have the same data directory.
fn sharing(folder: &TempDir) -> Setup {
    let data = folder.path().join("data");
    Setup::new().server(&format!("data_dir = \"{}\"", data.display()))
}

async fn second() {
    let data = tempfile::tempdir().unwrap();
    let setup = sharing(&data);
    let first = Proxy::at(NOWHERE, setup.clone()).await;
    let (code, greeting, said) = setup.run(setup.folder(NOWHERE).path()).await;
    assert_eq!((code, greeting.as_str()), (1, ""), "{said}");
    for words in [
        "the data directory",
        "is in use by another respondent",
        "another data_dir in [server]",
        "mode = \"memory\" in [artifacts]",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let data_dir = DataDir::new(data.path().join("data"));
    let Err(OpenError::InUse(_)) = Store::open_existing(&data_dir) else {
        panic!("a command opens the store of a running server");
    };
    let memory = setup.clone().tables("[artifacts]\nmode = \"memory\"");
    Proxy::at(NOWHERE, memory).await;
    drop(first);
}

async fn after_the_first() {
    let data = tempfile::tempdir().unwrap();
    let setup = sharing(&data);
    let mut first = Proxy::at(NOWHERE, setup.clone()).await;
    first.terminate().await;
    first.ended().await;
    let second = Proxy::at(NOWHERE, setup).await;
    assert!(!second.log().contains("ARTIFACT_STORE"), "{}", second.log());
}

async fn unwritable() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("data"), "a file").unwrap();
    let proxy = Proxy::at(NOWHERE, sharing(&data)).await;
    proxy.logged("ARTIFACT_STORE_OPEN_FAILED").await;
    assert_eq!(proxy.get("/metrics").await.status, 200);
    assert_eq!(proxy.log().matches("ARTIFACT_STORE").count(), 1);
    let metrics = proxy.get("/metrics").await.body;
    let failures = "respondent_artifact_failures_total{warning=\"ARTIFACT_STORE_OPEN_FAILED\"} 1";
    assert!(metrics.contains(failures), "{metrics}");
}

async fn offline() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let data_dir = DataDir::new(&config.server.data_dir);
    assert!(Store::open_existing(&data_dir).unwrap().is_none());
    assert!(
        !config.server.data_dir.exists(),
        "looking for a store creates none"
    );

    let one = new(1);
    let (id, text) = (one.id.clone(), one.text.clone());
    open(folder.path()).keep("me", "s", vec![one]).wait().await;
    let store = Store::open_existing(&data_dir).unwrap().unwrap();
    let artifacts = Artifacts::of_store(&config.artifacts, Arc::new(store));
    let read = artifacts
        .read("me", &id, &ArtifactRange::Whole)
        .await
        .unwrap();
    assert_eq!(read.unwrap().text, text);
    assert!(artifacts.delete("me", &id).await.unwrap());
    drop(artifacts);

    let database = config.server.data_dir.join("artifacts/artifacts.db");
    std::fs::write(&database, "garbage".repeat(1000)).unwrap();
    let Err(OpenError::Unusable(_)) = Store::open_existing(&data_dir) else {
        panic!("a command takes garbage for a store");
    };
    let left = std::fs::read(&database).unwrap();
    assert!(left.starts_with(b"garbage"), "a command moves the store");
}
