//! Golden cases: each folder of `fixtures/chat` is one turn against the chat
//! wire. The folder's files say what goes in and what must come out:
//!
//! | file | holds |
//! |---|---|
//! | `request.json` | the client's request |
//! | `case.toml` | optional: `provider` (an embedded one), `codex`, and under `[over]` keys that are laid over the provider's file |
//! | `expect.request.json` | the upstream's request, byte for byte |
//! | `expect.fault.json` | instead of it, where the request is refused: the error body |
//! | `expect.notes` | what was changed on the way, a line each |
//! | `upstream.sse` | optional: the upstream's answer |
//! | `expect.sse` | our events for it, with a fixed clock and id |
//!
//! `BLESS=1 cargo test -p respondent-adapters --test golden` writes the expected
//! files anew; read the difference before it is committed.

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

use adapters::chat::encode::{Options, encode};
use adapters::notes::Notes;
use adapters::plan::plan;
use adapters::responses::request::Source;
use adapters::turn::Turn;
use common::drive::{self, settings};
use common::judge;
use kit::strict;
use registry::{Model, ReasoningReplay, Spec};
use serde::Deserialize;

/// One folder.
struct Case {
    folder: PathBuf,
    request: String,
    upstream: Option<Vec<u8>>,
    spec: Spec,
    codex: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Choices {
    provider: String,
    codex: bool,
    over: toml::Table,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            provider: "generic".to_owned(),
            codex: false,
            over: toml::Table::new(),
        }
    }
}

#[test]
fn every_request_becomes_the_expected_one() {
    for case in cases() {
        let source = Source::new(case.request.clone());
        let (body, notes) = match source.turn().and_then(|turn| case.encode(&turn)) {
            Ok((body, notes)) => {
                case.expect("expect.request.json", &body);
                case.expect_none("expect.fault.json");
                (body, notes)
            }
            Err(fault) => {
                case.expect("expect.fault.json", &text(fault.body()));
                case.expect_none("expect.request.json");
                (String::new(), Notes::default())
            }
        };
        let lines: Vec<String> = notes
            .iter()
            .map(|note| format!("{}: {}", note.code, note.detail))
            .collect();
        if lines.is_empty() {
            case.expect_none("expect.notes");
        } else {
            case.expect("expect.notes", &lines.join("\n"));
        }
        let again = source.turn().and_then(|turn| case.encode(&turn));
        assert_eq!(again.map(|(body, _)| body).unwrap_or_default(), body);
    }
}

#[test]
fn every_answer_becomes_the_expected_events() {
    for case in cases() {
        let Some(upstream) = &case.upstream else {
            case.expect_none("expect.sse");
            continue;
        };
        let events = case.stream(&[upstream]);
        let stream = judge::stream(&events, case.codex);
        case.expect("expect.sse", &events);
        if stream.terminal != "response.failed" {
            let whole = case.with_settings(|settings| {
                drive::whole(settings, &case.spec.quirks, [upstream.as_slice()])
            });
            let response = strict::check_response_or_panic(&whole.unwrap());
            assert_eq!(response, stream.response, "{}", case.name());
        }
    }
}

#[test]
fn no_cut_of_an_answer_changes_its_events() {
    for case in cases() {
        let Some(upstream) = &case.upstream else {
            continue;
        };
        let events = case.stream(&[upstream]);
        // Long answers are cut at some places; in single bytes they come below.
        for at in (1..upstream.len()).step_by(upstream.len() / 500 + 1) {
            let (left, right) = upstream.split_at(at);
            assert_eq!(
                case.stream(&[left, right]),
                events,
                "{} at {at}",
                case.name()
            );
        }
        let bytes: Vec<&[u8]> = upstream.chunks(1).collect();
        assert_eq!(case.stream(&bytes), events, "{}", case.name());
    }
}

#[test]
fn no_spelling_of_an_answer_changes_its_events() {
    let spellings: [fn(&str) -> String; 8] = [
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
    for case in cases() {
        let Some(upstream) = &case.upstream else {
            continue;
        };
        let events = case.stream(&[upstream]);
        let plain = text(upstream.clone());
        for (number, spelling) in spellings.iter().enumerate() {
            let spelled = spelling(&plain);
            let got = case.stream(&[spelled.as_bytes()]);
            assert_eq!(got, events, "{} in spelling {number}", case.name());
        }
    }
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

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/chat");
    let mut folders: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no case in {}", root.display());
    folders.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let file = |name: &str| fs::read(folder.join(name)).ok();
        let choices: Choices = match file("case.toml") {
            Some(bytes) => toml::from_str(&text(bytes))
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display())),
            None => Choices::default(),
        };
        let spec = registry::build(&choices.provider, choices.over)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let request = file("request.json")
            .unwrap_or_else(|| panic!("{} has no request.json", folder.display()));
        Self {
            request: text(request),
            upstream: file("upstream.sse"),
            codex: choices.codex,
            spec,
            folder,
        }
    }

    fn name(&self) -> String {
        self.folder
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    }

    fn encode(&self, turn: &Turn<'_>) -> Result<(String, Notes), adapters::fault::Fault> {
        let listed = self.spec.models.iter().find(|model| model.id == turn.model);
        let model = listed
            .cloned()
            .unwrap_or_else(|| Model::unlisted(&turn.model));
        let provider = self.spec.provider("case");
        let options = Options {
            dialect: provider.dialect_of(&turn.model),
            model: &model,
            upstream_model: &turn.model,
            origin: &format!("case/{}", turn.model),
            known_baggage: None,
        };
        let encoded = encode(turn, &plan(turn), &options)?;
        Ok((text(encoded.body), encoded.notes))
    }

    fn with_settings<T>(
        &self,
        run: impl FnOnce(adapters::responses::assembler::Settings) -> T,
    ) -> T {
        let source = Source::new(self.request.clone());
        let turn = source.turn().unwrap();
        let seals = self.spec.quirks.reasoning_replay != ReasoningReplay::None
            || turn.controls.encrypted_reasoning;
        run(settings(&turn, self.codex, seals))
    }

    fn stream(&self, chunks: &[&[u8]]) -> String {
        self.with_settings(|settings| {
            drive::stream(settings, &self.spec.quirks, chunks.iter().copied())
        })
        .unwrap_or_else(|fault| panic!("{}: {fault}", self.name()))
    }

    /// Compares with the expected file, or writes it when asked to.
    fn expect(&self, name: &str, got: &str) {
        let path = self.folder.join(name);
        let got = format!("{}\n", got.trim_end_matches('\n'));
        if std::env::var_os("BLESS").is_some() {
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

    fn expect_none(&self, name: &str) {
        let path = self.folder.join(name);
        if std::env::var_os("BLESS").is_some() {
            let _ = fs::remove_file(&path);
        }
        assert!(!path.exists(), "{} is expected no more", path.display());
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}
