//! One call: arguments of a function on the wire become the client's form of
//! call item.

use serde_json::{Map, Value, json};

use super::super::event_buffer::EventBuffer;
use super::super::patch;
use super::custom_input::{self, InputExtractor};
use super::reasoning;
use super::writer::{ItemPosition, ItemWriter, StreamedText, location_fields, push_escaped};
use crate::baggage::Baggage;
use crate::event::Fragment;
use crate::json;
use crate::notes::Notes;
use crate::tools::{ToolKind, ToolTarget};

#[derive(Debug)]
pub(super) struct CallItem {
    pub(super) slot: u32,
    id: String,
    target: ToolTarget,
    /// The arguments as JSON text, inside of a JSON string.
    arguments: StreamedText,
    /// What of `arguments` has been looked at by [`Call::advance`].
    seen: usize,
    held: bool,
    /// What a reasoning item in front of it carries.
    baggage: Option<Baggage>,
    open: Option<StartedCall>,
}

/// A call that the client has seen.
#[derive(Debug)]
struct StartedCall {
    place: ItemPosition,
    locate: Vec<u8>,
    unwrap: InputExtractor,
    /// Σ of the deltas that were sent, escaped.
    sent: String,
}

impl CallItem {
    pub(super) fn new(
        slot: u32,
        call_id: String,
        target: ToolTarget,
        held: bool,
        baggage: Option<Baggage>,
    ) -> Self {
        // A patch may be repaired at its end, and the other forms have no
        // deltas: they are written in one go.
        let streams = matches!(target.kind, ToolKind::Function | ToolKind::Custom);
        Self {
            slot,
            id: call_id,
            target,
            arguments: StreamedText::default(),
            seen: 0,
            held: held || !streams,
            baggage,
            open: None,
        }
    }

    pub(super) fn push(&mut self, fragment: &Fragment<'_>) {
        self.arguments.push(fragment.escaped());
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn has_no_arguments(&self) -> bool {
        Fragment::from_escaped(self.arguments.text.as_str()).is_blank()
    }

    /// Whether the arguments are one JSON document.
    pub(super) fn is_complete(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&json::unescape(&self.arguments.text)).is_ok()
    }

    /// Writes what can be written of the call that is the first in the queue.
    pub(super) fn advance(&mut self, writer: &mut ItemWriter, events: &mut EventBuffer) {
        if self.held {
            return;
        }
        if self.open.is_none() {
            self.open(writer, events);
        }
        if self.seen == 0 && self.has_no_arguments() {
            // They become `{}` if nothing follows.
            return;
        }
        let news = self
            .arguments
            .text
            .get(self.seen..)
            .unwrap_or_default()
            .to_owned();
        self.seen = self.arguments.text.len();
        let delta = match (&mut self.open, self.target.kind) {
            (Some(opened), ToolKind::Custom) => opened.unwrap.push(&json::unescape(&news)),
            _ => news,
        };
        self.delta(&delta, writer, events);
    }

    /// Writes the call to its end.
    pub(super) fn close(
        mut self,
        status: &'static str,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        if let Some(rest) = self.arguments.flush() {
            notes.add(
                "text_repaired",
                format!("half a character at the end of the arguments: {rest}"),
            );
        }
        let content = self.content(status == "completed", notes);
        if self.open.is_none() {
            self.open(writer, events);
        }
        let rest = self
            .open
            .as_ref()
            .and_then(|opened| content.strip_prefix(opened.sent.as_str()))
            .map(str::to_owned);
        if let Some(rest) = &rest {
            self.delta(rest, writer, events);
        }
        let Some(opened) = self.open.take() else {
            return;
        };
        // What was sent is the truth should the whole read otherwise.
        let content = if rest.is_some() { content } else { opened.sent };
        if let Some((_, done, field)) = self.stream_events() {
            writer.event(done, &opened.locate, events, |out| {
                push_escaped(out, field, &content);
            });
        }
        let item = self.item(&opened.place, status, &content);
        writer.item_done(&opened.place, &item, events);
    }

    /// Ends a call that lacks arguments. A held one was never shown, and a
    /// client that runs whatever it sees must not see it.
    pub(super) fn close_incomplete(
        self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        notes.add("call_truncated", self.target.name.clone());
        if self.open.is_some() || !self.held {
            self.close("incomplete", writer, notes, events);
        }
    }

    fn open(&mut self, writer: &mut ItemWriter, events: &mut EventBuffer) {
        if let Some(baggage) = self.baggage.take() {
            reasoning::write_baggage_item("completed", &baggage, writer, events);
        }
        let place = writer.next_position(match self.target.kind {
            ToolKind::Function => "fc",
            ToolKind::Custom | ToolKind::Patch => "ctc",
            ToolKind::ToolSearch => "tsc",
            ToolKind::LocalShell => "lsh",
            ToolKind::Shell => "sh",
            ToolKind::ApplyPatch => "apc",
        });
        let content = match self.target.kind {
            ToolKind::Function | ToolKind::Custom | ToolKind::Patch => String::new(),
            ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch => self.arguments.text.clone(),
        };
        writer.item_added(&place, &self.item(&place, "in_progress", &content), events);
        let locate = location_fields(&place, None);
        self.open = Some(StartedCall {
            place,
            locate,
            unwrap: InputExtractor::default(),
            sent: String::new(),
        });
    }

    fn delta(&mut self, escaped: &str, writer: &mut ItemWriter, events: &mut EventBuffer) {
        let Some((name, _, _)) = self.stream_events() else {
            return;
        };
        let Some(opened) = self.open.as_mut().filter(|_| !escaped.is_empty()) else {
            return;
        };
        opened.sent.push_str(escaped);
        writer.event(name, &opened.locate, events, |out| {
            push_escaped(out, "delta", escaped);
        });
    }

    /// Delta event, done event and the field of the latter, for the forms that
    /// have them.
    fn stream_events(&self) -> Option<(&'static str, &'static str, &'static str)> {
        match self.target.kind {
            ToolKind::Function => Some((
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "arguments",
            )),
            ToolKind::Custom | ToolKind::Patch => Some((
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
                "input",
            )),
            ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch => None,
        }
    }

    /// What the call carries in the client's form, escaped.
    fn content(&self, whole: bool, notes: &mut Notes) -> String {
        let arguments = &self.arguments.text;
        let text = if whole {
            custom_input::complete_input
        } else {
            custom_input::partial_input
        };
        match self.target.kind {
            ToolKind::Custom => json::escape(&text(&json::unescape(arguments))),
            ToolKind::Patch => {
                let input = text(&json::unescape(arguments));
                match patch::repair(&input).filter(|_| whole) {
                    Some(repaired) => {
                        notes.add("patch_repaired", repaired.notes.join(", "));
                        json::escape(&repaired.text)
                    }
                    None => json::escape(&input),
                }
            }
            ToolKind::Function
            | ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch => {
                if whole && self.has_no_arguments() {
                    return "{}".to_owned();
                }
                if whole && !self.is_complete() {
                    notes.add(
                        "arguments_broken",
                        format!("{}: they are no JSON", self.target.name),
                    );
                }
                arguments.clone()
            }
        }
    }

    /// The item with its content (escaped), in the client's form.
    fn item(&self, place: &ItemPosition, status: &str, content: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(content.len() + 200);
        out.push(b'{');
        json::field(&mut out, "id", &place.id);
        json::field(
            &mut out,
            "type",
            match self.target.kind {
                ToolKind::Function => "function_call",
                ToolKind::Custom | ToolKind::Patch => "custom_tool_call",
                ToolKind::ToolSearch => "tool_search_call",
                ToolKind::LocalShell => "local_shell_call",
                ToolKind::Shell => "shell_call",
                ToolKind::ApplyPatch => "apply_patch_call",
            },
        );
        json::field(&mut out, "status", status);
        json::field(&mut out, "call_id", &self.id);
        match self.target.kind {
            ToolKind::Function | ToolKind::Custom | ToolKind::Patch => {
                json::field(&mut out, "name", &self.target.name);
                if let Some(namespace) = &self.target.namespace {
                    json::field(&mut out, "namespace", namespace);
                }
                let field = if self.target.kind == ToolKind::Function {
                    "arguments"
                } else {
                    "input"
                };
                push_escaped(&mut out, field, content);
            }
            ToolKind::ToolSearch => {
                json::field(&mut out, "execution", "client");
                json::field(&mut out, "arguments", &Value::Object(object(content)));
            }
            ToolKind::LocalShell => {
                json::field(&mut out, "action", &local_shell_action(&object(content)));
            }
            ToolKind::Shell => json::field(&mut out, "action", &shell_action(&object(content))),
            ToolKind::ApplyPatch => {
                json::field(&mut out, "operation", &patch_operation(&object(content)));
            }
        }
        out.push(b'}');
        out
    }
}

/// Arguments (escaped JSON text) as an object; empty when they are not one.
fn object(escaped: &str) -> Map<String, Value> {
    serde_json::from_str(&json::unescape(escaped)).unwrap_or_default()
}

/// A list of strings; a model may give one string instead.
fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().map(plain).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![plain(other)],
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn local_shell_action(arguments: &Map<String, Value>) -> Value {
    let command = match arguments.get("command") {
        Some(Value::String(line)) => vec!["bash".to_owned(), "-lc".to_owned(), line.clone()],
        other => strings(other),
    };
    json!({
        "type": "exec",
        "command": command,
        "env": {},
        "timeout_ms": arguments.get("timeout_ms").and_then(Value::as_u64),
        "working_directory": arguments.get("working_directory").and_then(Value::as_str),
    })
}

fn shell_action(arguments: &Map<String, Value>) -> Value {
    json!({
        "commands": strings(arguments.get("commands").or_else(|| arguments.get("command"))),
        "timeout_ms": arguments.get("timeout_ms").and_then(Value::as_u64),
        "max_output_length": arguments.get("max_output_length").and_then(Value::as_u64),
    })
}

fn patch_operation(arguments: &Map<String, Value>) -> Value {
    let text = |name: &str| arguments.get(name).map(plain).unwrap_or_default();
    match arguments.get("type").and_then(Value::as_str) {
        Some("delete_file") => json!({"type": "delete_file", "path": text("path")}),
        Some("create_file") => {
            json!({"type": "create_file", "path": text("path"), "diff": text("diff")})
        }
        _ => json!({"type": "update_file", "path": text("path"), "diff": text("diff")}),
    }
}
