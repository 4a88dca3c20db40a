//! Counts the contents of the recordings. The documentation has the same table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::body::{self, RecordedAnswer, Recording};
use super::differences::{ALLOWED_DIFFERENCES, NORMALIZATIONS};
use super::oracle::{self, AnswerEnd};
use super::{name, providers, requests};

/// The size of the index file of the recordings that the documentation describes. For other
/// recordings the table is only printed.
const INDEX_SIZE: u64 = 473_486;

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
        let counts = count(&name, &body::read_recordings(folder), &mut used);
        lines.push(line(&name, counts));
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    lines.push(line("all", sum));
    let table = lines.join("\n");
    report(&table);
    let unused: Vec<&str> = NORMALIZATIONS
        .iter()
        .map(|normalization| normalization.why)
        .chain(ALLOWED_DIFFERENCES.iter().map(|allowed| allowed.why))
        .filter(|why| !used.contains(why))
        .collect();
    report(&format!("not needed: {}", unused.join("; ")));
    let is_known =
        fs::metadata(root.join("INDEX.csv")).is_ok_and(|index| index.len() == INDEX_SIZE);
    if is_known {
        compare_with_docs(&table);
    }
}

fn line(name: &str, counts: [usize; 8]) -> String {
    format!("| {name} | {} |", counts.map(|n| n.to_string()).join(" | "))
}

/// Compares the table with the one in the documentation, or replaces that one if `BLESS` is set.
fn compare_with_docs(table: &str) {
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
    let provider = providers::provider(folder);
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
            *compared +=
                usize::from(requests::unexplained_differences(&provider, request, used).is_some());
        }
        let chunks = match recording.answer() {
            RecordedAnswer::Refusal(_) => {
                *errors += 1;
                continue;
            }
            RecordedAnswer::Other => {
                *other += 1;
                continue;
            }
            RecordedAnswer::Stream(chunks) => {
                *streams += 1;
                chunks
            }
            RecordedAnswer::Document(document) => {
                *documents += 1;
                vec![document]
            }
        };
        let model = recording.request.as_ref().and_then(|r| r["model"].as_str());
        let quirks = providers::model(&provider, model.unwrap_or_default())
            .0
            .quirks;
        let answer = oracle::expected_answer(&chunks, quirks.as_chat().unwrap());
        *calls += usize::from(!answer.calls.is_empty());
        *reasoning += usize::from(!answer.reasoning.is_empty());
        *citations += usize::from(!answer.citations.is_empty());
        *errors += usize::from(matches!(answer.end, AnswerEnd::Error(_)));
    }
    counts
}

#[expect(clippy::print_stdout, reason = "people read these numbers")]
fn report(line: &str) {
    println!("{line}");
}
