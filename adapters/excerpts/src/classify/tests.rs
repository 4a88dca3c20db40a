//! The labelled samples and some large outputs get the right kind.

use std::fs;
use std::path::Path;

use crate::{OutputKind, measure};

/// Label, name and text of each sample. The label is the name of its folder.
fn samples() -> Vec<(String, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/outputs");
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

/// Promise: Every output is classified as `command_output`, `web_or_search`, `file_or_code_output`,
/// `json` or `opaque_tool_output`.
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

/// Promise: Outputs are classified by their complete text; a labelled corpus of more than 50
/// samples checks it.
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

#[test]
fn every_rule_has_a_line_that_it_decides() {
    use super::line_rules::{LineLook, PATTERNS, RULES, RuleException};
    use LineLook::{
        Code, Command, DiffChange, DiffHeader, Encoded, Field, Heading, Log, Setting, Tag, Url,
    };
    let lines = [
        ("<div class=x>", Tag),
        ("- https://sea.example/1", Url),
        ("**Title:** The tide", Field),
        ("@@ -1,4 +1,5 @@", DiffHeader),
        ("*** Update File: src/x.rs", DiffHeader),
        ("+    let a = 1;", DiffChange),
        ("2025-03-01T10:00:00Z ready", Log),
        ("[10:22:01] ready", Log),
        ("Mar  1 10:22:01 host sshd[1]: ready", Log),
        ("INFO ready", Log),
        (
            "0000a0f0: 6465 6620 6d61 696e 2829 3a0a 2020 2020  def main():.    ",
            Encoded,
        ),
        ("deadbeefdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef", Encoded),
        ("QmFzZTY0IGlzIG5vdCBmb3IgcGVvcGxlIHRvIHJlYWQgaXQu", Encoded),
        ("C:\\a\\b.py:12: unused", Command),
        ("src/a.ts(3,7): error TS1005", Command),
        ("drwxr-xr-x 2 root root 7 Mar 1 10:22 tides", Command),
        ("// The tide table.", Code),
        ("./src/plan/mod.rs", Command),
        ("[dependencies]", Setting),
        ("#[derive(Debug)]x", Code),
        ("x = call(", Code),
        ("return x", Code),
        ("Compiling respondent v0.1.0", Command),
        ("$ cargo build", Command),
        ("plan::every_sample ... ok", Command),
        ("# Tides", Heading),
        ("- the tide", Setting),
        ("\"name\": \"tide\"", Setting),
    ];
    assert_eq!(lines.len(), RULES.len());
    for (row, (line, look)) in lines.into_iter().enumerate() {
        let matches = PATTERNS.matches(line.as_bytes());
        // No other of these lines is a part of a diff.
        let counts = |at: &usize| *at == row || RULES[*at].2 != RuleException::AboveDiff;
        let first = matches.iter().find(counts);
        assert_eq!(first, Some(row), "{line}");
        assert_eq!(RULES[row].1, look, "{line}");
    }
}
