//! One tool call: the arguments of a function call become the type of call item that the
//! client expects for the tool.

use serde_json::{Map, Value, json};

use super::custom_input::{self, InputExtractor, WholeInput};
use super::native::item_types::{BodyType, CUSTOM_CALL, FUNCTION_CALL};
use super::reasoning;
use super::writer::{ItemOutput, ItemPosition, StreamedText, location_fields, push_escaped, share};
use crate::arguments::{ArgumentsReading, ArgumentsScan, is_object};
use crate::baggage::Baggage;
use crate::event::Fragment;
use crate::json;
use crate::tools::{ToolKind, ToolTarget};
use crate::turn::ApprovalCall;

/// A call whose arguments still arrive. Made when the upstream starts a call, and consumed
/// when the item is closed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct CallItem {
    pub(super) slot: u32,
    id: String,
    target: ToolTarget,
    /// The JSON arguments so far, as the content of a JSON string.
    arguments: StreamedText,
    /// What is known of whether they are whole.
    scan: ArgumentsScan,
    /// How many bytes of `arguments` [`CallItem::advance`] has processed.
    processed: usize,
    /// Whether the whole arguments that the upstream sent are others than its pieces.
    differs: bool,
    /// Whether nothing is written before the arguments are complete.
    held_back: bool,
    /// Whether it is left out if it stays incomplete, because the client runs every call it sees.
    needs_whole: bool,
    /// Whether the call runs here, so that the client never sees it.
    withheld: bool,
    /// Written as a reasoning item before the call.
    baggage: Option<Baggage>,
    started: Option<StartedCall>,
}

/// A call whose tool runs here. It is complete; the client does not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldCall {
    /// The call id, unique in the history.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them, usually a JSON object.
    pub arguments: String,
    /// The call as items of a history: the reasoning state that belongs to it, if any, and the
    /// `function_call`.
    pub items: Vec<String>,
}

/// The state of a call whose `response.output_item.added` the client has seen.
#[derive(Debug)]
struct StartedCall {
    position: ItemPosition,
    location: Vec<u8>,
    extractor: InputExtractor,
    /// Concatenation of all argument deltas sent, JSON-escaped.
    sent: String,
}

/// How long the calls of a client are held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallHolding {
    /// Nothing of a call is written before it is whole.
    pub(super) held_back: bool,
    /// A call that stays incomplete is left out, because the client runs every call that it sees.
    pub(super) needs_whole: bool,
}

impl CallItem {
    /// A call that begins.
    pub(super) fn new(
        slot: u32,
        call_id: String,
        target: ToolTarget,
        holding: CallHolding,
        baggage: Option<Baggage>,
    ) -> Self {
        // A patch may be repaired when it is complete, and the other item types have no
        // delta events, so these are written in one go.
        let streams = matches!(target.kind, ToolKind::Function | ToolKind::Custom);
        Self {
            slot,
            id: call_id,
            target,
            arguments: StreamedText::default(),
            scan: ArgumentsScan::default(),
            processed: 0,
            differs: false,
            held_back: holding.held_back || !streams,
            needs_whole: holding.needs_whole || !streams,
            withheld: false,
            baggage,
            started: None,
        }
    }

    /// The same call, which runs here and is not shown to the client.
    pub(super) fn withheld(self) -> Self {
        Self {
            withheld: true,
            ..self
        }
    }

    pub(super) fn is_withheld(&self) -> bool {
        self.withheld
    }

    /// Takes a withheld call with its complete arguments.
    pub(super) fn into_withheld(mut self, out: &mut ItemOutput<'_>) -> WithheldCall {
        self.arguments.flush();
        let arguments = self.whole_arguments(out);
        let mut item = Vec::with_capacity(arguments.len() + 120);
        item.push(b'{');
        json::field(&mut item, "type", "function_call");
        json::field(&mut item, "call_id", &self.id);
        json::field(&mut item, "name", &self.target.name);
        push_escaped(&mut item, "arguments", &arguments);
        item.push(b'}');
        let reasoning = self.baggage.map(|baggage| {
            let sealed =
                json!({"type": "reasoning", "summary": [], "encrypted_content": baggage.seal()});
            sealed.to_string()
        });
        let item = String::from_utf8_lossy(&item).into_owned();
        WithheldCall {
            id: self.id,
            name: self.target.name,
            arguments: json::unescape(&arguments).into_owned(),
            items: reasoning.into_iter().chain([item]).collect(),
        }
    }

    pub(super) fn push(&mut self, fragment: &Fragment<'_>) {
        self.arguments.push(fragment.escaped());
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    fn has_no_arguments(&mut self) -> bool {
        self.scan.is_blank(&self.arguments.text)
    }

    /// Whether the arguments are one complete JSON document.
    pub(super) fn is_complete(&mut self) -> bool {
        self.scan.is_whole(&self.arguments.text)
    }

    /// Why it can never be completed, although the answer ends normally. A tool that takes any text
    /// may get text that is no JSON; the types of items without arguments have no place for it.
    pub(super) fn defect(&mut self) -> Option<&'static str> {
        let text = &self.arguments.text;
        match self.target.kind {
            ToolKind::Custom | ToolKind::Patch => {
                custom_input::is_cut(text, &mut self.scan).then_some(NOT_WHOLE)
            }
            _ if self.scan.is_open(text) => Some(NOT_WHOLE),
            ToolKind::Function => None,
            ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch
            | ToolKind::McpApproval => match self.scan.reading(text) {
                ArgumentsReading::Blank => None,
                ArgumentsReading::Whole { document, .. } if is_object(&document) => None,
                ArgumentsReading::Whole { .. }
                | ArgumentsReading::Open
                | ArgumentsReading::Unreadable => Some(UNREADABLE),
            },
        }
    }

    /// The name of the tool.
    pub(super) fn name(&self) -> &str {
        &self.target.name
    }

    /// Takes the whole arguments, escaped, which do not continue the pieces: the upstream has lost
    /// one. A client that has seen something else gets an incomplete call.
    pub(super) fn replace_arguments(&mut self, whole: String) {
        self.arguments = StreamedText::from(whole);
        self.scan = ArgumentsScan::default();
        self.differs = true;
        if self.started.is_some() {
            self.processed = self.arguments.text.len();
        }
    }

    /// Writes the deltas of the arguments that arrived since the last call of this method.
    /// Called only for the first call of the queue.
    pub(super) fn advance(&mut self, out: &mut ItemOutput<'_>) {
        if self.held_back || self.withheld {
            return;
        }
        if self.started.is_none() {
            self.start("", out);
        }
        if self.processed == 0 && self.has_no_arguments() {
            // Arguments that stay blank are written as `{}` at the end.
            return;
        }
        let text = &self.arguments.text;
        let passable = self.scan.passable(text);
        let Some(unprocessed) = text.get(self.processed..passable) else {
            return;
        };
        let unprocessed = unprocessed.to_owned();
        self.processed = passable;
        let delta = match (&mut self.started, self.target.kind) {
            (Some(started), ToolKind::Custom) => {
                started.extractor.push(&json::unescape(&unprocessed))
            }
            _ => unprocessed,
        };
        self.write_delta(&delta, out);
    }

    /// Writes the rest of the call and closes the item.
    pub(super) fn close(mut self, status: &'static str, out: &mut ItemOutput<'_>) {
        if let Some(rest) = self.arguments.flush() {
            out.note(
                "text_repaired",
                format!("half a character at the end of the arguments: {rest}"),
            );
        }
        let content = self.content(status == "completed", out);
        // The arguments may be large, and only the content is needed from here on.
        self.arguments = StreamedText::default();
        if self.started.is_none() {
            self.start(&content, out);
        }
        let rest = self
            .started
            .as_ref()
            .and_then(|started| content.strip_prefix(started.sent.as_str()))
            .map(str::to_owned);
        if let Some(rest) = &rest {
            self.write_delta(rest, out);
        }
        let Some(mut started) = self.started.take() else {
            return;
        };
        // If the final content does not continue the deltas, the item repeats the deltas.
        let (content, status) = match rest {
            Some(_) => {
                started.sent = String::new();
                (content, status)
            }
            None if self.differs => {
                out.fail_call(&self.target.name);
                (started.sent, "incomplete")
            }
            None => {
                let detail = format!("{}: more follows them", self.target.name);
                out.note("arguments_broken", detail);
                (started.sent, status)
            }
        };
        if self.target.kind == ToolKind::McpApproval && status == "completed" {
            out.ask_for_approval(ApprovalCall {
                id: started.position.id.clone(),
                server_label: self.target.namespace.clone().unwrap_or_default(),
                name: self.target.name.clone(),
                arguments: json::unescape(&content).into_owned(),
            });
        }
        let item = self.item(&started.position, status, &content);
        if let Some(body) = self.body_type() {
            out.text_event(
                body.done,
                &started.location,
                body.field,
                &share(content),
                |_| (),
            );
        }
        out.item_done(&started.position, item);
    }

    /// Ends a call whose arguments are incomplete. One that the client has not seen is dropped if
    /// the client runs every call it sees.
    pub(super) fn close_incomplete(self, out: &mut ItemOutput<'_>) {
        out.note("call_truncated", self.target.name.clone());
        if self.started.is_some() || !self.needs_whole {
            self.close("incomplete", out);
        }
    }

    /// Ends a call that can never be completed. If the answer was to be whole and the client has
    /// not seen the call, it is dropped: the answer may still be asked for again.
    pub(super) fn close_defective(mut self, in_whole_answer: bool, out: &mut ItemOutput<'_>) {
        self.needs_whole |= in_whole_answer;
        self.close_incomplete(out);
    }

    /// `content` is what is known of it, escaped.
    fn start(&mut self, content: &str, out: &mut ItemOutput<'_>) {
        if let Some(baggage) = self.baggage.take() {
            reasoning::write_baggage_item(&baggage, out);
        }
        out.find_tool(self.target.namespace.as_deref(), &self.target.name);
        let position = out.next_position(self.item_type().0);
        // Where there are events for it, these bring it.
        let content = match self.body_type() {
            Some(_) => "",
            None => content,
        };
        out.item_added(&position, &self.item(&position, "in_progress", content));
        let location = location_fields(&position, None);
        self.started = Some(StartedCall {
            position,
            location,
            extractor: InputExtractor::default(),
            sent: String::new(),
        });
    }

    fn write_delta(&mut self, escaped: &str, out: &mut ItemOutput<'_>) {
        let Some(body) = self.body_type() else {
            return;
        };
        let Some(started) = self.started.as_mut().filter(|_| !escaped.is_empty()) else {
            return;
        };
        started.sent.push_str(escaped);
        out.event(body.delta, &started.location, |out| {
            push_escaped(out, "delta", escaped);
        });
    }

    /// The prefix of the item's id, and its type.
    fn item_type(&self) -> (&'static str, &'static str) {
        match self.target.kind {
            ToolKind::Function => ("fc", "function_call"),
            ToolKind::Custom | ToolKind::Patch => ("ctc", "custom_tool_call"),
            ToolKind::ToolSearch => ("tsc", "tool_search_call"),
            ToolKind::LocalShell => ("lsh", "local_shell_call"),
            ToolKind::Shell => ("sh", "shell_call"),
            ToolKind::ApplyPatch => ("apc", "apply_patch_call"),
            ToolKind::McpApproval => ("mcpr", "mcp_approval_request"),
        }
    }

    /// The field and the events of the arguments, for the item types that have events for them.
    fn body_type(&self) -> Option<&'static BodyType> {
        match self.target.kind {
            ToolKind::Function => Some(&FUNCTION_CALL),
            ToolKind::Custom | ToolKind::Patch => Some(&CUSTOM_CALL),
            ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch
            | ToolKind::McpApproval => None,
        }
    }

    /// The content of the item (arguments or input), escaped. `whole` means that the call was
    /// not cut off.
    fn content(&mut self, whole: bool, out: &mut ItemOutput<'_>) -> String {
        match self.target.kind {
            ToolKind::Custom | ToolKind::Patch => {
                let text = &self.arguments.text;
                if !whole {
                    return json::escape(&custom_input::partial_input(&json::unescape(text)));
                }
                let is_patch = self.target.kind == ToolKind::Patch;
                let input = WholeInput::read(text, &mut self.scan, &self.target.name, is_patch);
                for (code, detail) in input.notes {
                    out.note(code, detail);
                }
                input.text
            }
            ToolKind::Function
            | ToolKind::ToolSearch
            | ToolKind::LocalShell
            | ToolKind::Shell
            | ToolKind::ApplyPatch
            | ToolKind::McpApproval => {
                if whole {
                    self.whole_arguments(out)
                } else {
                    self.arguments.text.clone()
                }
            }
        }
    }

    /// The document in arguments that are whole, escaped; what cannot be read stays as it is.
    fn whole_arguments(&mut self, out: &mut ItemOutput<'_>) -> String {
        let text = &self.arguments.text;
        match self.scan.reading(text) {
            ArgumentsReading::Blank => "{}".to_owned(),
            ArgumentsReading::Whole { document, repaired } => {
                if repaired {
                    out.note("arguments_repaired", self.target.name.clone());
                }
                if !is_object(&document) {
                    let detail = format!("{}: they are not an object", self.target.name);
                    out.note("arguments_broken", detail);
                }
                document.into_owned()
            }
            ArgumentsReading::Open | ArgumentsReading::Unreadable => {
                let detail = format!("{}: they are not JSON", self.target.name);
                out.note("arguments_broken", detail);
                text.clone()
            }
        }
    }

    /// The item as JSON; `content` is escaped.
    fn item(&self, position: &ItemPosition, status: &str, content: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(content.len() + 200);
        out.push(b'{');
        json::field(&mut out, "id", &position.id);
        json::field(&mut out, "type", self.item_type().1);
        if self.target.kind == ToolKind::McpApproval {
            json::field(&mut out, "server_label", &self.target.namespace);
            json::field(&mut out, "name", &self.target.name);
            push_escaped(&mut out, "arguments", content);
            out.push(b'}');
            return out;
        }
        json::field(&mut out, "status", status);
        json::field(&mut out, "call_id", &self.id);
        if let Some(body) = self.body_type() {
            json::field(&mut out, "name", &self.target.name);
            if let Some(namespace) = &self.target.namespace {
                json::field(&mut out, "namespace", namespace);
            }
            push_escaped(&mut out, body.field, content);
            out.push(b'}');
            return out;
        }
        let arguments = parse_object(content);
        let (field, value) = match self.target.kind {
            ToolKind::LocalShell => ("action", local_shell_action(&arguments)),
            ToolKind::Shell => ("action", shell_action(&arguments)),
            ToolKind::ApplyPatch => ("operation", patch_operation(&arguments)),
            ToolKind::ToolSearch
            | ToolKind::Function
            | ToolKind::Custom
            | ToolKind::Patch
            | ToolKind::McpApproval => {
                json::field(&mut out, "execution", "client");
                ("arguments", Value::Object(arguments))
            }
        };
        json::field(&mut out, field, &value);
        out.push(b'}');
        out
    }
}

/// Why a call is not completed: what its arguments are.
pub(super) const NOT_WHOLE: &str = "are not whole";
const UNREADABLE: &str = "cannot be read";

/// Parses escaped arguments as an object; empty if they are not one.
fn parse_object(escaped: &str) -> Map<String, Value> {
    serde_json::from_str(&json::unescape(escaped)).unwrap_or_default()
}

/// The strings of a list. A model may write a single value instead.
fn string_list(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().map(value_text).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![value_text(other)],
    }
}

fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn local_shell_action(arguments: &Map<String, Value>) -> Value {
    let command = match arguments.get("command") {
        Some(Value::String(line)) => vec!["bash".to_owned(), "-lc".to_owned(), line.clone()],
        other => string_list(other),
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
        "commands": string_list(arguments.get("commands").or_else(|| arguments.get("command"))),
        "timeout_ms": arguments.get("timeout_ms").and_then(Value::as_u64),
        "max_output_length": arguments.get("max_output_length").and_then(Value::as_u64),
    })
}

fn patch_operation(arguments: &Map<String, Value>) -> Value {
    let text = |name: &str| arguments.get(name).map(value_text).unwrap_or_default();
    match arguments.get("type").and_then(Value::as_str) {
        Some("delete_file") => json!({"type": "delete_file", "path": text("path")}),
        Some("create_file") => {
            json!({"type": "create_file", "path": text("path"), "diff": text("diff")})
        }
        _ => json!({"type": "update_file", "path": text("path"), "diff": text("diff")}),
    }
}
