//! Outputs that are read as something else than the client wrote: a list of content parts in a
//! string, text in the form of a file, and the items of tools that ran on a server.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::{Item, ItemKind};
use crate::content::{self, ContentPart};
use crate::json::{self, quoted, string_value};
use crate::members::Members;
use crate::result_text::{INTERRUPTED, output_has_parts};
use crate::text_files;

/// The most parts of a list in a string.
const MAX_PARTS: usize = 10_000;

/// What is read as the output of an item; `None` if that is its own.
pub(super) fn of(item: &Item<'_>) -> Option<Box<RawValue>> {
    let made = match item.kind {
        ItemKind::McpCall | ItemKind::ApprovedMcpCall => match item.fields.output {
            Some(output) => parts_of(output),
            None => Some(quoted(&mcp_error(item))),
        },
        ItemKind::McpDenial => Some(quoted(&denial(item))),
        kind if output_has_parts(kind) => parts_of(item.fields.output?),
        kind if kind.is_hosted() => Some(quoted(&hosted_text(item)?)),
        _ => None,
    };
    RawValue::from_string(made?).ok()
}

/// The list of parts that an output is read as, if it is not read as it is.
fn parts_of(output: &RawValue) -> Option<String> {
    let json = output.get();
    let Some(inner) = json::unquote(json) else {
        return with_plain_texts(json);
    };
    if !begins_with_part(inner) {
        return None;
    }
    let list = json::unescape(inner);
    let list = list.trim();
    is_list_of_parts(list).then(|| with_plain_texts(list).unwrap_or_else(|| list.to_owned()))
}

/// Whether a text, which is escaped, may be a list of content parts, by its first key. Most lists
/// are something else, and are not read further.
fn begins_with_part(inner: &str) -> bool {
    if !inner.trim_start().starts_with(['[', '\\']) {
        return false;
    }
    let start = inner.get(..inner.floor_char_boundary(256)).unwrap_or(inner);
    let start = json::unescape(start);
    let key = start.trim_start().strip_prefix('[');
    let key = key.and_then(|rest| rest.trim_start().strip_prefix('{'));
    let key = key.and_then(|rest| rest.trim_start().strip_prefix('"'));
    let key = key.and_then(|rest| rest.split('"').next());
    key.is_some_and(|key| PART_KEYS.contains(&key))
}

/// The keys of content parts.
const PART_KEYS: [&str; 14] = [
    "type",
    "text",
    "annotations",
    "logprobs",
    "_meta",
    "refusal",
    "image_url",
    "detail",
    "file_id",
    "file_data",
    "filename",
    "input_audio",
    "data",
    "mimeType",
];

/// Whether a text is a list of content parts and of nothing else.
fn is_list_of_parts(text: &str) -> bool {
    let Ok(objects) = serde_json::from_str::<Vec<Members<'_>>>(text) else {
        return false;
    };
    let mut keys = objects.iter().flat_map(Members::iter);
    let parts = content::read_parts(text).unwrap_or_default();
    (1..=MAX_PARTS).contains(&parts.len())
        && parts.iter().all(ContentPart::is_complete)
        && keys.all(|(key, _)| PART_KEYS.contains(&key))
}

/// The list with text in place of files and images that are text; `None` if it has none.
fn with_plain_texts(list: &str) -> Option<String> {
    let is_image = || memchr::memmem::find(list.as_bytes(), b"svg").is_some();
    if !list.starts_with('[') || !json::may_have(list, "file_data") && !is_image() {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let mut changed = false;
    let elements = elements.into_iter().map(|element| {
        let part: Option<ContentPart<'_>> = serde_json::from_str(element.get()).ok();
        match part.and_then(|part| text_files::of_part(&part)) {
            Some(text) => {
                changed = true;
                format!(r#"{{"type":"input_text","text":{}}}"#, quoted(&text))
            }
            None => element.get().to_owned(),
        }
    });
    let elements: Vec<String> = elements.collect();
    changed.then(|| format!("[{}]", elements.join(",")))
}

/// The result of a call of an MCP tool that has no output.
fn mcp_error(item: &Item<'_>) -> String {
    let members = item.raw().and_then(Members::read).unwrap_or_default();
    let Some(error) = members.present("error") else {
        return INTERRUPTED.to_owned();
    };
    let text = string_value(Some(error));
    format!("Error: {}", text.unwrap_or_else(|| error.get().into()))
}

/// What the model gets for a call that a person did not approve.
fn denial(item: &Item<'_>) -> String {
    let reason = string_value(item.fields.reason).unwrap_or_default();
    match reason.trim() {
        "" => "The user did not approve this call, so it was not run.".to_owned(),
        reason => format!("The user did not approve this call, so it was not run: {reason}"),
    }
}

/// What a tool on a server did and found, as text.
fn hosted_text(item: &Item<'_>) -> Option<String> {
    let members = item.raw().and_then(Members::read)?;
    let text = |name: &str| members.text(name).unwrap_or_default();
    let kind = item.type_name();
    let mut told = match kind.as_ref() {
        "web_search_call" => web_search(item.action()?)?,
        "file_search_call" => {
            let queries: Vec<String> = json::list(members.present("queries"));
            let mut told = format!("Files were searched for: {}", queries.join("; "));
            for found in json::list::<Members<'_>>(members.present("results")) {
                let [name, text] = ["filename", "text"].map(|name| found.text(name));
                let name = name.unwrap_or_else(|| "A file".into());
                let _ = write!(told, "\n\n{name}:\n{}", text.unwrap_or_default());
            }
            told
        }
        "code_interpreter_call" => {
            let mut told = format!("This code was run on a server:\n{}", text("code"));
            for output in json::list::<Members<'_>>(members.present("outputs")) {
                match output.text("logs") {
                    Some(logs) => {
                        let _ = write!(told, "\n\nIt printed:\n{logs}");
                    }
                    None => told.push_str("\n\n[It made an image, which was left out.]"),
                }
            }
            told
        }
        "image_generation_call" => match text("revised_prompt").as_ref() {
            "" => "An image was generated, which was left out.".to_owned(),
            prompt => format!("An image was generated, which was left out. It shows: {prompt}"),
        },
        "mcp_approval_request" => format!(
            "The user was asked to approve a call of the tool '{}' of the MCP server '{}' with {}.",
            text("name"),
            text("server_label"),
            text("arguments")
        ),
        "mcp_approval_response" => {
            let approves = json::is_true(members.get("approve"));
            let did = if approves {
                "approved"
            } else {
                "did not approve"
            };
            format!("The user {did} the call. {}", text("reason"))
        }
        "computer_call_output" => "[A screenshot was left out.]".to_owned(),
        _ => {
            let actions = ["action", "actions", "code", "result", "output"];
            let actions = actions.iter().filter_map(|name| members.present(name));
            let actions: Vec<&str> = actions.map(RawValue::get).collect();
            format!("{kind}: {}", actions.join(" "))
        }
    };
    told.truncate(told.trim_end().len());
    Some(told)
}

/// What a search of the web looked for, and the addresses that it found.
fn web_search(action: &RawValue) -> Option<String> {
    let action = Members::read(action.get())?;
    let mut queries: Vec<String> = json::list(action.present("queries"));
    if queries.is_empty() {
        let query = action.text("query").filter(|query| !query.is_empty());
        queries.extend(query.map(Into::into));
    }
    let url = action.text("url").unwrap_or_default();
    let mut told = match action.text("type").as_deref() {
        Some("open_page") => format!("A page of the web was read: {url}"),
        Some("find_in_page" | "find") => format!(
            "'{}' was looked for in a page of the web: {url}",
            action.text("pattern").unwrap_or_default()
        ),
        _ if queries.is_empty() => "The web was searched.".to_owned(),
        _ => format!("The web was searched for: {}", queries.join("; ")),
    };
    for source in json::list::<Members<'_>>(action.present("sources")) {
        let url = source.text("url").or_else(|| source.text("name"));
        let _ = write!(told, "\n- {}", url.unwrap_or_default());
    }
    Some(told)
}
