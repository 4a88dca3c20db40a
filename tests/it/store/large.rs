//! An artifact of 50 MB, written by a process that is killed meanwhile.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use adapters::plan::output::OutputKind;
use respondent::store::{ArtifactFilter, ArtifactRange, NewArtifact};

use super::{artifact_id_of, open};
use crate::child::Child;

/// How many bytes the artifact has, about.
const BYTES: usize = 50_000_000;

/// How often the process is killed.
const KILLS: u64 = 6;

/// A text with characters of every length. It is always the same.
fn artifact() -> NewArtifact {
    let mut block = String::new();
    for n in 0..20_000_u64 {
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(block, "{noise:016x} é漢😀").unwrap();
    }
    let mut text = String::with_capacity(BYTES + block.len());
    for number in 0_u32.. {
        if text.len() >= BYTES {
            break;
        }
        text.push_str(&number.to_string());
        text.push_str(&block);
    }
    NewArtifact {
        id: artifact_id_of(&text),
        call_id: "call".to_owned(),
        kind: OutputKind::CommandOutput,
        chars: text.chars().count(),
        lines: text.lines().count(),
        text,
    }
}

/// Writes the artifact. Prints a line before it begins.
pub fn commit(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (artifacts, new) = (open(folder), artifact());
        let mut out = std::io::stdout().lock();
        out.write_all(b"begin\n").unwrap();
        drop(out);
        let commit = artifacts.keep("me", "s", vec![new], BTreeSet::new());
        assert!(commit.wait().await.is_empty());
    });
}

/// Promise: An artifact of 50 MB is whole or absent, whenever the program is killed; its ranges are
/// right across chunks and characters; reading it holds one piece of it.
#[kit::test]
async fn an_artifact_of_50_mb_is_whole_or_absent_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let new = artifact();
    for kill in 0..KILLS {
        let mut child = Child::CommitsLargeArtifact
            .command()
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let mut lines = BufReader::new(out).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "begin"));
        // Each kill comes at another moment of the write, the last ones perhaps after it.
        std::thread::sleep(Duration::from_millis(kill * kill * 60));
        child.kill().unwrap();
        child.wait().unwrap();
        let artifacts = open(folder.path());
        let listed = artifacts.list("me", &ArtifactFilter::default()).await;
        let read = artifacts.read("me", &new.id, &ArtifactRange::Whole).await;
        match read.unwrap() {
            Some(whole) => {
                assert_eq!(artifact_id_of(&whole.text), new.id);
                assert_eq!(listed.unwrap().len(), 1);
                assert!(artifacts.delete("me", &new.id).await.unwrap());
            }
            None => assert!(listed.unwrap().is_empty()),
        }
    }
    let artifacts = open(folder.path());
    let (id, text) = (new.id.clone(), new.text.clone());
    let commit = artifacts.keep("me", "s", vec![new], BTreeSet::new());
    assert!(commit.wait().await.is_empty());
    let whole = artifacts.read("me", &id, &ArtifactRange::Whole).await;
    assert!(*whole.unwrap().unwrap().text == text);
    for border in [1, 2, 100, 190] {
        for near in 0..9 {
            let start = border * (256 << 10) - 4 + near;
            let range = ArtifactRange::Bytes(start..start + (300 << 10));
            let read = artifacts.read("me", &id, &range).await.unwrap().unwrap();
            let (from, to) = (read.bytes.start, read.bytes.end);
            assert!(from <= start && start - from < 4 && to - start - (300 << 10) < 4);
            let [from, to] = [from, to].map(|at| usize::try_from(at).unwrap());
            assert!(*read.text == text[from..to], "{range:?}");
        }
    }
}
