//! What Codex really sends: recorded request bodies, each as a Chat request that
//! keeps every message, call, result and tool.
//!
//! The recordings are no part of the repository: `CAPTURES_DIR` says where they
//! are, `../shared/captures` beside the workspace without it. A folder is one
//! session, its files are the requests in their order.

use std::fs;
use std::path::{Path, PathBuf};

use adapters::chat::encode::{EncodeOptions, encode};
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use libtest_mimic::Trial;
use registry::{Model, ProviderSpec};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::trial::case_if;

mod kept;

/// Requests after which Codex begins anew with a summary: the history before
/// them is not sent again.
const COMPACTIONS: [&str; 2] = ["compaction-local/002", "compaction-endpoint-0.142/002"];

/// What is refused by design, by the code of the refusal.
const REFUSED: [(&str, &str); 1] = [("previous_response_id", "previous_response_not_found")];

pub fn trials() -> Vec<Trial> {
    let Some(root) = root() else {
        let absent = || Err::<(), _>("no recordings; CAPTURES_DIR says where they are".to_owned());
        return vec![case_if("captures", absent, |()| async {})];
    };
    let mut sessions: Vec<PathBuf> = fs::read_dir(root)
        .expect("the folder of the recordings can be read")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    sessions.sort();
    assert!(!sessions.is_empty(), "the recordings are gone");
    sessions
        .into_iter()
        .map(|session| {
            let name = session.file_name().unwrap().to_string_lossy().into_owned();
            let found = move || Ok::<_, String>(session);
            case_if(&format!("captures::{name}"), found, |session| async move {
                check(&session);
            })
        })
        .collect()
}

fn root() -> Option<PathBuf> {
    let given = std::env::var_os("CAPTURES_DIR").map(PathBuf::from);
    let path =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/captures"));
    path.is_dir().then_some(path)
}

/// A recorded request, and the Chat request that comes of it.
struct Sent {
    name: String,
    chat: String,
    session: Value,
}

#[derive(Deserialize)]
struct Messages<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

fn check(folder: &Path) {
    let mut last: Option<Sent> = None;
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
        let Some(body) = body(&fs::read_to_string(&file).unwrap()) else {
            last = last.filter(|_| !compacts(&name));
            continue;
        };
        requests += 1;
        let request: Value = serde_json::from_str(&body).unwrap();
        match chat(body) {
            Ok((chat, notes)) => {
                kept::check(
                    &name,
                    &request,
                    &serde_json::from_str(&chat).unwrap(),
                    &notes,
                );
                let sent = Sent {
                    name,
                    chat,
                    session: request["prompt_cache_key"].clone(),
                };
                if let Some(before) = &last {
                    same_beginning(before, &sent);
                }
                let begins_anew = compacts(&sent.name) || holds(&request, "compaction_trigger");
                last = Some(sent).filter(|_| !begins_anew);
            }
            Err(fault) => {
                let (what, code) = REFUSED
                    .iter()
                    .find(|(what, _)| holds(&request, what))
                    .unwrap_or_else(|| panic!("{name} is refused: {fault}"));
                assert_eq!(fault.code(), Some(*code), "{name}");
                report(&format!("{name}: refused for its {what}"));
            }
        }
    }
    assert!(requests > 0, "{} holds no request", folder.display());
}

fn compacts(name: &str) -> bool {
    COMPACTIONS.iter().any(|prefix| name.starts_with(prefix))
}

/// The request body in a recording of `POST …/responses` or of a frame.
fn body(recording: &str) -> Option<String> {
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

fn holds(request: &Value, what: &str) -> bool {
    let in_input = request["input"]
        .as_array()
        .is_some_and(|items| items.iter().any(|item| item["type"] == what));
    in_input || request.get(what).is_some_and(|value| !value.is_null())
}

fn chat(body: String) -> Result<(String, Notes), Fault> {
    let spec: ProviderSpec = registry::build("generic", toml::Table::new()).unwrap();
    let source = TurnSource::new(body);
    let turn = source.turn()?;
    let model = Model::unlisted(&turn.model);
    let provider = spec.to_provider("generic");
    let options = EncodeOptions::new(&provider.dialect, &model, &turn.model);
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)?;
    for span in &encoded.spans {
        assert!(encoded.body.get(span.bytes.clone()).is_some());
    }
    Ok((String::from_utf8(encoded.body).unwrap(), encoded.notes))
}

/// Every message of the earlier request stands unchanged in the later one. (An
/// answer could grow, but a request ends with what the client says.)
fn same_beginning(before: &Sent, after: &Sent) {
    if before.session != after.session {
        return report(&format!("{}: another session", after.name));
    }
    let earlier: Messages<'_> = serde_json::from_str(&before.chat).unwrap();
    let later: Messages<'_> = serde_json::from_str(&after.chat).unwrap();
    let (earlier, later) = (earlier.messages, later.messages);
    let same = earlier
        .iter()
        .zip(&later)
        .take_while(|(a, b)| a.get() == b.get())
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

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn report(line: &str) {
    println!("{line}");
}
