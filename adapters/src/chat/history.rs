//! Writes the messages, each item's bytes in one piece, so that spans can
//! name them.

use registry::SystemRole;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::content::Content;
use super::encode::Options;
use super::group::{Group, group, output_has_parts};
use crate::baggage::Baggage;
use crate::encoded::Span;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::plan::{Answer, Plan, UNKNOWN_TOOL};
use crate::text::Text;
use crate::tools::ToolKind;
use crate::turn::{Item, ItemKind, Turn};

mod repaired;

/// Writes `[message, …]` for the instructions and all kept items.
pub(super) fn push_messages(
    out: &mut Vec<u8>,
    turn: &Turn<'_>,
    plan: &Plan,
    options: &Options<'_>,
    spans: &mut Vec<Span>,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let groups = group(turn, plan, notes)?;
    let mut writer = Writer {
        out,
        turn,
        plan,
        options,
        spans,
        notes,
    };
    writer.out.push(b'[');
    if let Some(instructions) = &turn.instructions {
        writer.open("system");
        json::key(writer.out, "content");
        instructions.push(writer.out);
        writer.out.push(b'}');
    }
    for group in &groups {
        match group {
            Group::System(index) => writer.system(*index)?,
            Group::User(index) => writer.user(*index)?,
            Group::Assistant(answer) => writer.assistant(answer)?,
            Group::Tool(index) => writer.tool(*index)?,
            Group::Interrupted(call) => writer.interrupted(*call),
            Group::Stray(index) => writer.stray(*index)?,
            Group::Media(indices) => writer.media(indices)?,
        }
    }
    if let Some(instruction) = options.format_instruction(&turn.controls.format) {
        writer.open("system");
        json::field(writer.out, "content", &instruction);
        writer.out.push(b'}');
    }
    writer.out.push(b']');
    Ok(())
}

struct Writer<'w, 'a> {
    out: &'w mut Vec<u8>,
    turn: &'w Turn<'a>,
    plan: &'w Plan,
    options: &'w Options<'w>,
    spans: &'w mut Vec<Span>,
    notes: &'w mut Notes,
}

impl<'a> Writer<'_, 'a> {
    /// Begins a message; `system` becomes the role that the provider wants.
    fn open(&mut self, role: &str) {
        if self.out.last() != Some(&b'[') {
            self.out.push(b',');
        }
        self.out.push(b'{');
        let role = if role == "system" && self.options.quirks().system_role == SystemRole::Developer
        {
            "developer"
        } else {
            role
        };
        json::field(self.out, "role", role);
    }

    fn span(&mut self, item: usize, start: usize) {
        self.spans.push(Span {
            item,
            bytes: start..self.out.len(),
        });
    }

    fn content(&mut self, index: usize) -> Result<Content<'a>, Fault> {
        let item = self.turn.items.get(index);
        if let Some(text) = item.and_then(Item::said) {
            return Ok(Content::of(text.clone()));
        }
        Content::read(item.and_then(Item::content), index, self.notes)
    }

    fn system(&mut self, index: usize) -> Result<(), Fault> {
        let content = self.content(index)?;
        if content.is_empty() {
            return Ok(());
        }
        let start = self.out.len();
        self.open("system");
        json::key(self.out, "content");
        self.out.push(b'"');
        content.push_text(self.out, "\\n\\n");
        self.out.extend_from_slice(b"\"}");
        self.span(index, start);
        Ok(())
    }

    fn user(&mut self, index: usize) -> Result<(), Fault> {
        let content = self.content(index)?;
        let start = self.out.len();
        self.open("user");
        json::key(self.out, "content");
        content.push_value(self.out, self.options.takes(), self.notes);
        self.out.push(b'}');
        self.span(index, start);
        Ok(())
    }

    fn assistant(&mut self, answer: &Answer) -> Result<(), Fault> {
        self.open("assistant");
        self.answer_text(answer)?;
        self.answer_reasoning(answer)?;
        if !answer.calls.is_empty() {
            json::key(self.out, "tool_calls");
            self.out.push(b'[');
            for &index in &answer.calls {
                if self.out.last() != Some(&b'[') {
                    self.out.push(b',');
                }
                let start = self.out.len();
                self.call(index);
                self.span(index, start);
            }
            self.out.push(b']');
        }
        self.out.push(b'}');
        Ok(())
    }

    fn answer_text(&mut self, answer: &Answer) -> Result<(), Fault> {
        json::key(self.out, "content");
        if answer.text.is_empty() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        self.out.push(b'"');
        for (position, &index) in answer.text.iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b"\\n\\n");
            }
            let content = self.content(index)?;
            let start = self.out.len();
            content.push_text(self.out, "");
            self.span(index, start);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn answer_reasoning(&mut self, answer: &Answer) -> Result<(), Fault> {
        let Some(field) = self.options.reasoning_field() else {
            return Ok(());
        };
        let mut first = true;
        for &index in &answer.reasoning {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let baggage = item
                .encrypted_content()
                .and_then(|blob| Baggage::open(&blob));
            let text = baggage.map(|baggage| Text::from(baggage.reasoning));
            let visible = if text.is_some() {
                Content::default()
            } else {
                visible_reasoning(item, index, self.notes)?
            };
            if text.as_ref().is_none_or(Text::is_empty) && visible.is_empty() {
                continue;
            }
            if first {
                json::key(self.out, field);
                self.out.push(b'"');
            } else {
                self.out.extend_from_slice(b"\\n\\n");
            }
            first = false;
            let start = self.out.len();
            match text {
                Some(text) => text.push_inner(self.out),
                None => visible.push_text(self.out, "\\n\\n"),
            }
            self.span(index, start);
        }
        if !first {
            self.out.push(b'"');
        }
        Ok(())
    }

    fn call(&mut self, index: usize) {
        let Some(item) = self.turn.items.get(index) else {
            return;
        };
        let call_id = self.plan.call_id(self.turn, index);
        let name = match item.kind {
            ItemKind::FunctionCall | ItemKind::CustomToolCall => {
                match item.name().filter(|name| !name.is_empty()) {
                    Some(name) => self
                        .turn
                        .tools
                        .wire_name(item.namespace().as_deref(), &name)
                        .into_owned(),
                    None => UNKNOWN_TOOL.to_owned(),
                }
            }
            kind => hosted_name(kind).map_or_else(String::new, |(kind, name)| {
                self.turn
                    .tools
                    .find(&[kind], None)
                    .unwrap_or(name)
                    .to_owned()
            }),
        };
        self.out.push(b'{');
        json::field(self.out, "id", call_id.as_ref());
        json::field(self.out, "type", "function");
        json::key(self.out, "function");
        self.out.push(b'{');
        json::field(self.out, "name", &name);
        json::key(self.out, "arguments");
        self.out.push(b'"');
        push_arguments(self.out, item, self.notes);
        self.out.extend_from_slice(b"\"}}");
    }

    fn tool(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let call_id = self.plan.call_id(self.turn, index);
        let start = self.out.len();
        self.open("tool");
        json::field(self.out, "tool_call_id", call_id.as_ref());
        json::key(self.out, "content");
        self.out.push(b'"');
        self.tool_output(item, index)?;
        self.out.extend_from_slice(b"\"}");
        self.span(index, start);
        Ok(())
    }

    fn tool_output(&mut self, item: &Item<'_>, index: usize) -> Result<(), Fault> {
        if item.kind == ItemKind::ToolSearchOutput {
            let names = item
                .tools()
                .map(crate::responses::tools::wire_names)
                .unwrap_or_default();
            let text = if names.is_empty() {
                "No tool was found.".to_owned()
            } else {
                format!("These tools can be called now: {}", names.join(", "))
            };
            Text::from(text).push_inner(self.out);
            return Ok(());
        }
        let Some(output) = item.output() else {
            let status = item.status().unwrap_or_else(|| "completed".into());
            Text::from(status.as_ref()).push_inner(self.out);
            return Ok(());
        };
        if !output.get().starts_with('"') && !output_has_parts(item.kind) {
            json::escape_json_text(self.out, output.get());
            return Ok(());
        }
        let content = Content::read(Some(output), index, self.notes)?;
        content.push_text(self.out, "\\n");
        if content.has_media() {
            if self.out.last() != Some(&b'"') {
                self.out.extend_from_slice(b"\\n");
            }
            self.out
                .extend_from_slice(b"(The image stands in the next user message.)");
        }
        Ok(())
    }

    fn media(&mut self, indices: &[usize]) -> Result<(), Fault> {
        self.open("user");
        json::key(self.out, "content");
        self.out.push(b'[');
        for &index in indices {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let content = Content::read(item.output(), index, self.notes)?;
            if self.out.last() != Some(&b'[') {
                self.out.push(b',');
            }
            let start = self.out.len();
            let caption = format!(
                "Output of the tool call {}:",
                self.plan.call_id(self.turn, index)
            );
            self.out.push(b'{');
            json::field(self.out, "type", "text");
            json::field(self.out, "text", &caption);
            self.out.push(b'}');
            content.push_media(self.out, self.options.takes(), self.notes);
            self.span(index, start);
        }
        self.out.extend_from_slice(b"]}");
        Ok(())
    }
}

/// The reasoning of an item that carries no baggage of ours: its own text,
/// else its summary.
fn visible_reasoning<'a>(
    item: &Item<'a>,
    index: usize,
    notes: &mut Notes,
) -> Result<Content<'a>, Fault> {
    let content = Content::read(item.content(), index, notes)?;
    if content.is_empty() {
        Content::read(item.summary(), index, notes)
    } else {
        Ok(content)
    }
}

/// The inside of the `arguments` string of a call. A model's broken JSON stays
/// in the history, and servers that parse it (vLLM, llama.cpp) would refuse the
/// session from then on: it is sent as a string in an object.
fn push_arguments(out: &mut Vec<u8>, item: &Item<'_>, notes: &mut Notes) {
    match item.kind {
        ItemKind::CustomToolCall => {
            out.extend_from_slice(b"{\\\"input\\\":\\\"");
            if let Some(input) = item.input() {
                json::escape_json_text(out, &input.escaped());
            }
            out.extend_from_slice(b"\\\"}");
        }
        ItemKind::LocalShellCall | ItemKind::ShellCall => push_object(out, item.action()),
        ItemKind::ApplyPatchCall => push_object(out, item.operation()),
        _ => match item.arguments().map(|raw| (raw, Text::from_raw(raw))) {
            Some((_, Some(text))) if !text.is_empty() => {
                if is_object(&text.decoded()) {
                    text.push_inner(out);
                } else {
                    push_wrapped(out, item, &text, notes);
                }
            }
            Some((raw, None)) if raw.get().starts_with('{') => {
                json::escape_json_text(out, raw.get());
            }
            Some((raw, None)) => push_wrapped(out, item, &raw.get().into(), notes),
            Some((_, Some(_))) | None => out.extend_from_slice(b"{}"),
        },
    }
}

/// Broken arguments as a string in an object.
fn push_wrapped(out: &mut Vec<u8>, item: &Item<'_>, text: &Text<'_>, notes: &mut Notes) {
    let name = item.name().unwrap_or_default();
    notes.add("arguments_wrapped", format!("{name}: no JSON object"));
    out.extend_from_slice(b"{\\\"arguments\\\":\\\"");
    json::escape_json_text(out, &text.escaped());
    out.extend_from_slice(b"\\\"}");
}

/// The deepest arguments: less than the readers that count allow.
const DEPTH: usize = 100;

/// Whether this is one JSON object that any reader takes: not too deep, and
/// without halves of characters, which no UTF-8 can hold.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && !json::deeper_than(text, DEPTH)
        && !json::lone_surrogate_anywhere(text)
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn push_object(out: &mut Vec<u8>, raw: Option<&RawValue>) {
    json::escape_json_text(out, raw.map_or("{}", RawValue::get));
}

/// The tool behind an item type that has no name of its own.
fn hosted_name(kind: ItemKind) -> Option<(ToolKind, &'static str)> {
    match kind {
        ItemKind::ToolSearchCall => Some((ToolKind::ToolSearch, "tool_search")),
        ItemKind::LocalShellCall => Some((ToolKind::LocalShell, "local_shell")),
        ItemKind::ShellCall => Some((ToolKind::Shell, "shell")),
        ItemKind::ApplyPatchCall => Some((ToolKind::ApplyPatch, "apply_patch")),
        _ => None,
    }
}
