//! The labelled samples and some large outputs get the right kind.

use std::fs;
use std::path::Path;

use crate::plan::output::{OutputKind, measure};

/// Label, name and text of each sample. The label is the name of its folder.
fn samples() -> Vec<(String, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/outputs");
    let mut samples = Vec::new();
    for kind in fs::read_dir(root).unwrap() {
        let kind = kind.unwrap();
        for sample in fs::read_dir(kind.path()).unwrap() {
            let path = sample.unwrap().path();
            samples.push((
                kind.file_name().into_string().unwrap(),
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                String::from_utf8(fs::read(&path).unwrap()).unwrap(),
            ));
        }
    }
    samples.sort();
    samples
}

// S2-Ba, S2-Db
#[test]
fn every_sample_is_of_the_kind_that_its_folder_says() {
    let samples = samples();
    assert!(samples.len() >= 50, "{} samples", samples.len());
    let wrong: Vec<String> = samples
        .iter()
        .filter_map(|(label, name, text)| {
            let kind = measure(text).kind.name();
            (kind != label).then(|| format!("{label}/{name} was classified as {kind}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// S2-Ba
#[test]
fn large_outputs_are_known_by_all_of_their_text() {
    use OutputKind::{CommandOutput, FileOrCodeOutput, Json, OpaqueToolOutput, WebOrSearch};
    let row = |i: usize| format!("{{\"id\":{i},\"path\":\"/a/{i}\",\"text\":\"a \\\"b\\\" c\"}}");
    let rows: Vec<String> = (0..50_000).map(row).collect();
    let log = |i: usize| format!("2025-03-01T10:00:00Z INFO step {i} of https://a.example/{i}\n");
    let logs: String = (0..20_000).map(log).collect();
    let code = |i: usize| format!("pub fn part_{i}(count: u64) -> u64 {{\n    count + {i}\n}}\n\n");
    let page = |i: usize| {
        format!(
            "## Part {i}\n\nThe sea rises and falls twice a day, as part {i} shows. [More](https://sea.example/{i})\n\n"
        )
    };
    for (name, text, kind) in [
        ("an array of 2 MB", format!("[{}]", rows.join(",")), Json),
        (
            "its last bracket lost",
            format!("[{}", rows.join(",\n")),
            CommandOutput,
        ),
        ("a document a line", rows.join("\n"), Json),
        (
            "500 levels",
            format!("{}1{}", "[{\"a\":".repeat(250), "}]".repeat(250)),
            Json,
        ),
        (
            "a banner above a log",
            format!("{{starting}}\n{logs}"),
            CommandOutput,
        ),
        ("a page", (0..9_000).map(page).collect(), WebOrSearch),
        ("code", (0..20_000).map(code).collect(), FileOrCodeOutput),
        (
            "a bundle",
            "a.b=function(t){return t.c(1)};".repeat(60_000),
            OpaqueToolOutput,
        ),
        ("zeros", "\0".repeat(100_000), OpaqueToolOutput),
        ("nothing", String::new(), CommandOutput),
        ("too many brackets", "[".repeat(3_000_000), OpaqueToolOutput),
    ] {
        assert_eq!(measure(&text).kind, kind, "{name}");
    }
}
