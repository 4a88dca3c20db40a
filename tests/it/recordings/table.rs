//! What the recordings hold, counted; the same table stands in the docs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::body::{self, Answer, Recording};
use super::differences::{LEAVES, REWRITES};
use super::oracle::{self, End};
use super::{known, name, requests};

/// The size of the list of the recordings that the docs speak of. With others
/// the table is printed and not compared.
const INDEX: u64 = 473_486;

const DOCS: &str = "docs/recordings.md";

const COLUMNS: [&str; 8] = [
    "streams",
    "documents",
    "with calls",
    "with reasoning",
    "with citations",
    "errors",
    "other",
    "requests",
];

pub fn check(root: &Path, folders: &[PathBuf]) {
    let mut used = BTreeSet::new();
    let mut sum = [0; 8];
    let mut lines = vec![
        format!("| provider | {} |", COLUMNS.join(" | ")),
        format!("|---|{}", "---:|".repeat(COLUMNS.len())),
    ];
    for folder in folders {
        let name = name(folder);
        let counts = count(&name, &body::read(folder), &mut used);
        lines.push(line(&name, counts));
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    lines.push(line("all", sum));
    let table = lines.join("\n");
    report(&table);
    let unused: Vec<&str> = REWRITES
        .iter()
        .map(|rewrite| rewrite.why)
        .chain(LEAVES.iter().map(|leaf| leaf.why))
        .filter(|why| !used.contains(why))
        .collect();
    report(&format!("not needed: {}", unused.join("; ")));
    let is_known = fs::metadata(root.join("INDEX.csv")).is_ok_and(|index| index.len() == INDEX);
    if is_known {
        same_in_docs(&table);
    }
}

fn line(name: &str, counts: [usize; 8]) -> String {
    format!("| {name} | {} |", counts.map(|n| n.to_string()).join(" | "))
}

/// With `BLESS=1` the docs get the table.
fn same_in_docs(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCS);
    let docs = fs::read_to_string(&path).unwrap();
    let start = docs.find("| provider |").expect("the docs have the table");
    let end = docs[start..]
        .find("\n\n")
        .map_or(docs.len(), |end| start + end);
    if std::env::var_os("BLESS").is_some() {
        let blessed = format!("{}{table}{}", &docs[..start], &docs[end..]);
        fs::write(path, blessed).unwrap();
    } else {
        assert_eq!(docs[start..end].trim_end(), table, "{DOCS} is out of date");
    }
}

fn count(folder: &str, recordings: &[Recording], used: &mut BTreeSet<&'static str>) -> [usize; 8] {
    let provider = known::provider(folder);
    let mut counts = [0; 8];
    let [
        streams,
        documents,
        calls,
        reasoning,
        citations,
        errors,
        other,
        compared,
    ] = &mut counts;
    for recording in recordings {
        if let Some(request) = &recording.request {
            *compared += usize::from(requests::differences(&provider, request, used).is_some());
        }
        let chunks = match recording.answer() {
            Answer::Refusal(_) => {
                *errors += 1;
                continue;
            }
            Answer::Other => {
                *other += 1;
                continue;
            }
            Answer::Stream(chunks) => {
                *streams += 1;
                chunks
            }
            Answer::Document(document) => {
                *documents += 1;
                vec![document]
            }
        };
        let model = recording.request.as_ref().and_then(|r| r["model"].as_str());
        let quirks = known::model(&provider, model.unwrap_or_default()).0.quirks;
        let said = oracle::said(&chunks, &quirks);
        *calls += usize::from(!said.calls.is_empty());
        *reasoning += usize::from(!said.reasoning.is_empty());
        *citations += usize::from(!said.citations.is_empty());
        *errors += usize::from(matches!(said.end, End::Error(_)));
    }
    counts
}

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn report(line: &str) {
    println!("{line}");
}
