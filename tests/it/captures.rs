//! Request bodies recorded from the real Codex are encoded as requests of each wire, which must
//! keep every message, call, result and tool.
//!
//! The recordings are not part of the repository. `CAPTURES_DIR` names their folder; the default
//! is `../shared/captures` next to the workspace. Each subfolder is one session, and its files
//! are the requests in order.

use std::fs;
use std::path::{Path, PathBuf};

use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use kit::harness::{rows, skip};
use kit::player::PlayerWire;
use registry::{Model, ProviderSpec};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

mod transcript;

/// Requests after which Codex starts over with a summary, so that the history before them is not
/// sent again.
const COMPACTION_REQUESTS: [&str; 2] = ["compaction-local/002", "compaction-endpoint-0.142/002"];

/// Promise: The model receives every message, call and result of the history exactly once.
#[test]
fn recorded_sessions_of_codex_keep_everything() {
    let Some(root) = root() else {
        return skip("no recordings found; set CAPTURES_DIR to their folder");
    };
    let mut sessions: Vec<PathBuf> = fs::read_dir(root)
        .expect("the folder of the recordings can be read")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    sessions.sort();
    assert!(!sessions.is_empty(), "the folder has no recordings");
    let sessions = PlayerWire::ALL.into_iter().flat_map(|wire| {
        let on_wire = sessions.iter();
        on_wire.map(move |session| {
            (
                format!("{}, {}", session.display(), wire.name()),
                (wire, session),
            )
        })
    });
    rows(
        sessions,
        |(wire, session)| async move { check(wire, session) },
    );
}

fn root() -> Option<PathBuf> {
    let given = std::env::var_os("CAPTURES_DIR").map(PathBuf::from);
    let path =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/captures"));
    path.is_dir().then_some(path)
}

/// A recorded request, encoded for an upstream.
struct EncodedRequest {
    name: String,
    body: String,
    session: Value,
}

#[derive(Deserialize)]
struct SentHistory<'a> {
    #[serde(borrow, alias = "input")]
    messages: Vec<&'a RawValue>,
}

fn check(wire: PlayerWire, folder: &Path) {
    let mut last: Option<EncodedRequest> = None;
    let mut requests = 0;
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let name = format!(
            "{}/{}",
            folder.file_name().unwrap().to_string_lossy(),
            file.file_stem().unwrap().to_string_lossy()
        );
        let Some(body) = request_body(&fs::read_to_string(&file).unwrap()) else {
            last = last.filter(|_| !is_compaction(&name));
            continue;
        };
        requests += 1;
        let request: Value = serde_json::from_str(&body).unwrap();
        if contains(&request, "previous_response_id") {
            // Its history is not in the capture, so that it cannot be compared.
            report(&format!("{name}: continues a stored response"));
            last = None;
            continue;
        }
        match encode_on(wire, body) {
            Ok((sent, notes)) => {
                transcript::check(
                    wire,
                    &name,
                    &request,
                    &serde_json::from_str(&sent).unwrap(),
                    &notes,
                );
                let sent = EncodedRequest {
                    name,
                    body: sent,
                    session: request["prompt_cache_key"].clone(),
                };
                if let Some(before) = &last {
                    check_prefix(before, &sent);
                }
                // What only prepares the next request is not sent to a provider.
                let starts_over = is_compaction(&sent.name)
                    || contains(&request, "compaction_trigger")
                    || request["generate"] == false;
                last = Some(sent).filter(|_| !starts_over);
            }
            Err(fault) => panic!("{name} is refused: {fault}"),
        }
    }
    assert!(requests > 0, "{} holds no request", folder.display());
}

fn is_compaction(name: &str) -> bool {
    COMPACTION_REQUESTS
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The request body in a recording of `POST …/responses` or of a WebSocket frame; `None` for
/// other recordings.
fn request_body(recording: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Recording<'a> {
        method: Option<String>,
        path: Option<String>,
        #[serde(borrow)]
        body: Option<&'a RawValue>,
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    let found: Recording<'_> = serde_json::from_str(recording).unwrap();
    if found.input.is_some() {
        return Some(recording.to_owned());
    }
    let is_turn = found.method.as_deref() == Some("POST")
        && found.path.is_some_and(|path| path.ends_with("/responses"));
    found
        .body
        .filter(|_| is_turn)
        .map(|raw| raw.get().to_owned())
}

/// Whether the request has an input item of this type or a field of this name.
fn contains(request: &Value, what: &str) -> bool {
    let in_input = request["input"]
        .as_array()
        .is_some_and(|items| items.iter().any(|item| item["type"] == what));
    in_input || request.get(what).is_some_and(|value| !value.is_null())
}

fn encode_on(wire: PlayerWire, body: String) -> Result<(String, Notes), Fault> {
    let mut over = toml::Table::new();
    over.insert("wire".to_owned(), wire.name().into());
    if wire == PlayerWire::Responses {
        // The recorded reasoning is of another upstream, so that only its text can go to this one.
        let quirks = [("reasoning_text".to_owned(), true.into())];
        over.insert("quirks".to_owned(), toml::Table::from_iter(quirks).into());
    }
    let spec: ProviderSpec = registry::build("generic", over).unwrap();
    let source = TurnSource::new(body);
    let turn = source.turn()?;
    let model = Model::unlisted(&turn.model);
    let provider = spec.to_provider("generic");
    let options = EncodeOptions::new(&provider.dialect, &model, &turn.model);
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)?.encoded;
    for span in &encoded.spans {
        assert!(encoded.body.get(span.bytes.clone()).is_some());
    }
    Ok((String::from_utf8(encoded.body).unwrap(), encoded.notes))
}

/// Checks that the later request begins with all messages of the earlier one, unchanged. (An
/// answer could grow, but a request ends with a message of the client.)
fn check_prefix(before: &EncodedRequest, after: &EncodedRequest) {
    if before.session != after.session {
        return report(&format!("{}: another session", after.name));
    }
    let earlier: SentHistory<'_> = serde_json::from_str(&before.body).unwrap();
    let later: SentHistory<'_> = serde_json::from_str(&after.body).unwrap();
    let (earlier, later) = (earlier.messages, later.messages);
    // A request without tools, as for a summary, has no line about those that are missing.
    let told = |message: &RawValue| {
        message
            .get()
            .replace(&format!("{}\\n\\n", transcript::NO_SEARCH), "")
    };
    let same = earlier
        .iter()
        .zip(&later)
        .take_while(|(a, b)| told(a) == told(b))
        .count();
    let bytes: usize = later[..same]
        .iter()
        .map(|message| message.get().len())
        .sum();
    report(&format!(
        "{} after {}: {same} of {} messages the same, {bytes} bytes; {} messages now",
        after.name,
        before.name,
        earlier.len(),
        later.len()
    ));
    assert!(
        same == earlier.len(),
        "{}: message {same} changed from {} to {:?}",
        after.name,
        earlier[same].get(),
        later.get(same).map(|message| message.get())
    );
}

#[expect(clippy::print_stdout, reason = "people read these numbers")]
fn report(line: &str) {
    println!("{line}");
}
