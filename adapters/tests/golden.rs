//! Golden cases: each folder of `fixtures/chat` is a turn over the Chat Completions
//! protocol, and each of `fixtures/responses` one at an upstream that speaks the Responses
//! API, with its input and its expected results. [`kit::golden`] lists the files
//! and computes the results; `respondent-kit to-fixture` writes such a folder from
//! a captured turn.
//!
//! `BLESS=1 cargo test -p responses-translate --test golden` rewrites the expected
//! files; read the difference before you commit it. `GOLDEN_DIR` names another
//! folder of cases to check.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "clippy does not see that all of this is a test"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::judge;
use kit::golden::{self, CaseSettings, GoldenCase, UpstreamRefusal, UpstreamReply};
use kit::strict;

/// The folder of a case.
struct Folder {
    path: PathBuf,
    case: GoldenCase<toml::Table>,
}

/// Promise: What a model does not get is told to it, and what can be text is text: audio, images,
/// files and parts of an unknown type leave a line, a text file and an SVG image go as text, a list
/// of parts in a string is read as parts, what hosted tools did and found is told, and so are tools
/// that are not there. A history never ends for a part that cannot be sent; only in the last
/// message is one refused.
#[test]
fn every_case_gives_its_expected_files() {
    for folder in folders() {
        let expected = folder.case.expected();
        for (name, text) in &expected {
            folder.expect(name, text.as_deref());
        }
        assert!(folder.case.expected() == expected, "{}", folder.name());
    }
}

#[test]
fn every_answer_becomes_a_strict_stream_and_the_same_response() {
    for folder in folders() {
        let Some((bytes, events)) = folder.answer() else {
            continue;
        };
        let stream = judge::stream(&events, folder.case.settings.codex);
        if stream.terminal != "response.failed" {
            let whole = folder.case.whole(bytes).unwrap();
            let response = strict::check_response_or_panic(&whole);
            assert_eq!(response, stream.response, "{}", folder.name());
        }
    }
}

#[test]
fn no_cut_of_an_answer_changes_its_events() {
    for folder in folders() {
        let Some((bytes, events)) = folder.answer() else {
            continue;
        };
        // Long answers are cut at some offsets only; below they come byte by byte.
        for at in (1..bytes.len()).step_by(bytes.len() / 500 + 1) {
            let (left, right) = bytes.split_at(at);
            let got = folder.stream([left, right]);
            assert_eq!(got, events, "{} at {at}", folder.name());
        }
        let got = folder.stream(bytes.chunks(1));
        assert_eq!(got, events, "{}", folder.name());
    }
}

#[test]
fn no_framing_of_an_answer_changes_its_events() {
    let framings: [fn(&str) -> String; 8] = [
        |plain| plain.replace('\n', "\r\n"),
        |plain| plain.replace('\n', "\r"),
        |plain| plain.replacen("\n\n", "\r\n\n", 3),
        |plain| format!("\u{feff}{plain}"),
        |plain| plain.replace("data: ", "data:"),
        |plain| {
            plain.replace(
                "data: ",
                ": alive\n\nretry: 5\nid: 1\nevent: message\ndata: ",
            )
        },
        |plain| plain.replace("\"choices\":", "\ndata: \"choices\":"),
        |plain| plain.replace("data: [DONE]\n\n", ""),
    ];
    let mut reframed = 0;
    for folder in folders() {
        let Some((bytes, events)) = folder.answer() else {
            continue;
        };
        let Some(plain) = plain(bytes) else {
            continue;
        };
        reframed += 1;
        for (number, reframe) in framings.iter().enumerate() {
            let got = folder.stream([reframe(plain).as_bytes()]);
            assert_eq!(got, events, "{} in framing {number}", folder.name());
        }
    }
    assert!(reframed > 0 || is_elsewhere());
}

/// The answer if its framing can be changed by replacing text. A captured answer may be
/// framed in another way, or contain the replaced text in its content.
fn plain(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = |line: &str| {
        line.is_empty()
            || line.starts_with("event: ")
            || line.strip_prefix("data: ").is_some_and(|data| {
                !data.contains("data: ") && data.matches("\"choices\":").count() < 2
            })
    };
    // Without a finish reason only `[DONE]` ends an answer, so it cannot be removed.
    (!text.contains('\r')
        && text.ends_with("\n\n")
        && text.lines().all(is_plain)
        && (!text.contains("[DONE]") || text.contains("\"finish_reason\":")))
    .then_some(text)
}

#[test]
fn every_builtin_provider_has_a_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/chat");
    for id in registry::builtin::ids().chain(["openai-compatible"]) {
        let folder = root.join(format!("provider-{id}"));
        let case = fs::read_to_string(folder.join("case.toml"))
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert_eq!(case.trim(), format!("provider = \"{id}\""));
        assert!(folder.join("upstream.sse").exists(), "{id} has no answer");
    }
}

fn folders() -> Vec<Folder> {
    let roots = match std::env::var_os("GOLDEN_DIR") {
        Some(elsewhere) => vec![PathBuf::from(elsewhere)],
        None => ["chat", "responses"]
            .map(|wire| {
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../fixtures")
                    .join(wire)
            })
            .into(),
    };
    let mut folders = Vec::new();
    for root in roots {
        let mut paths: Vec<PathBuf> = fs::read_dir(&root)
            .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        assert!(!paths.is_empty(), "no case in {}", root.display());
        folders.extend(paths.into_iter().map(Folder::read));
    }
    folders
}

fn is_elsewhere() -> bool {
    std::env::var_os("GOLDEN_DIR").is_some()
}

impl Folder {
    fn read(path: PathBuf) -> Self {
        let file = |name: &str| fs::read(path.join(name)).ok();
        let wrong = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", path.display()) };
        let choices: CaseSettings<toml::Table> = match file(golden::SETTINGS) {
            Some(bytes) => toml::from_str(&text(bytes)).unwrap_or_else(|error| wrong(&error)),
            None => CaseSettings::default(),
        };
        let over = choices.over.clone().unwrap_or_default();
        let spec = registry::build(&choices.provider, over).unwrap_or_else(|error| wrong(&error));
        let refusal = file(golden::REFUSAL).map(|bytes| {
            UpstreamRefusal::parse(&bytes)
                .unwrap_or_else(|| wrong(&"upstream.refusal has another form"))
        });
        let case = GoldenCase {
            request: text(file(golden::REQUEST).unwrap_or_else(|| wrong(&"no request.json"))),
            settings: choices,
            provider: spec.to_provider("case"),
            baggage: file(golden::BAGGAGE)
                .map(|bytes| serde_json::from_slice(&bytes).unwrap_or_else(|error| wrong(&error)))
                .unwrap_or_default(),
            upstream: match (file(golden::ANSWER), refusal) {
                (None, None) => None,
                (Some(answer), None) => Some(UpstreamReply::Answer(answer)),
                (None, Some(refusal)) => Some(UpstreamReply::Refusal(refusal)),
                (Some(_), Some(_)) => wrong(&"an answer and a refusal"),
            },
        };
        Self { path, case }
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap();
        name.to_string_lossy().into_owned()
    }

    /// The upstream's answer and the expected events for it, if the case has them.
    fn answer(&self) -> Option<(&[u8], String)> {
        let Some(UpstreamReply::Answer(bytes)) = &self.case.upstream else {
            return None;
        };
        let events = self.case.stream([bytes.as_slice()]).ok()?;
        Some((bytes, events))
    }

    fn stream<'c>(&self, chunks: impl IntoIterator<Item = &'c [u8]>) -> String {
        let stream = self.case.stream(chunks);
        stream.unwrap_or_else(|fault| panic!("{}: {fault}", self.name()))
    }

    /// Compares a result with the expected file, or writes the file if `BLESS` is set.
    fn expect(&self, name: &str, got: Option<&str>) {
        let path = self.path.join(name);
        let blesses = std::env::var_os("BLESS").is_some();
        let Some(got) = got else {
            if blesses {
                let _ = fs::remove_file(&path);
            }
            assert!(!path.exists(), "{} is expected no more", path.display());
            return;
        };
        if blesses {
            fs::write(&path, got).unwrap();
            return;
        }
        let expected = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; see BLESS", path.display()));
        assert!(
            got == expected,
            "{}\n expected: {expected}\n got:      {got}",
            path.display()
        );
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}
