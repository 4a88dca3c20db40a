//! Decodes the answer of an upstream that speaks the Responses API, streamed or whole, into
//! [`Event`]s.
//!
//! The lifecycle events (`response.created` to `response.completed`) become the neutral
//! ones, because the response object that the client gets is ours. The events of items
//! become [`NativeEvent`]s.
//!
//! | module | contents |
//! |---|---|
//! | `slots` | which item an event belongs to |
//! | `response` | the response object of the last event, or of a whole answer |

mod response;
mod slots;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::value::RawValue;

use self::slots::{ItemSlots, MAX_ITEMS};
use crate::event::DataKind;
use crate::event::{Event, Fragment, NativeEvent, NativeText};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::members::Members;
use crate::provider_error;
use crate::relay::refusals::find_patch;

/// Decodes one answer. Made for each upstream response; ends with the terminal event of the
/// upstream, [`Self::finish`] or [`Self::fail`].
#[derive(Debug, Default)]
pub(crate) struct RelayDecoder {
    slots: ItemSlots,
    /// The item that began last, if nothing of it came yet. It is passed on with its first
    /// piece, so that an answer that breaks off before can be asked for again.
    held_item: Option<(u32, String)>,
    started: bool,
    ended: bool,
}

impl RelayDecoder {
    /// Whether nothing has been understood so far.
    pub(crate) fn has_decoded_nothing(&self) -> bool {
        !self.started && !self.ended
    }

    /// Whether the answer has its terminal event. Nothing follows it.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended
    }

    /// Ends the answer with a fault, unless it has ended.
    pub(crate) fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        if !self.ended {
            self.ended = true;
            emit(Event::Failed(fault));
        }
    }

    /// Ends the answer where the body ends. One without a terminal event was cut off.
    pub(crate) fn finish<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        let predicate = "ended before it was complete.";
        self.fail(Fault::of_answer(Kind::Cut, predicate), emit);
    }

    /// Decodes the data of one SSE event, or a whole JSON answer. `event` is the name of the event,
    /// which is its type where the data has none.
    pub(crate) fn decode<'a>(
        &mut self,
        data: &'a str,
        event: Option<&str>,
        kind: DataKind,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.ended {
            return;
        }
        let Some(members) = Members::read(data) else {
            return self.decode_irregular(data, kind, emit);
        };
        let mut name = members.text("type").unwrap_or_default();
        if name.is_empty()
            && let Some(event) = event.filter(|event| event.starts_with("response."))
        {
            name = Cow::Owned(event.to_owned());
        }
        if name == "error" || kind == DataKind::ErrorEvent {
            return self.fail(error_fault(data, &members), emit);
        }
        if name.is_empty() {
            return self.decode_untyped(data, &members, emit);
        }
        // An answer that has failed before anything else did not start.
        if !matches!(name.as_ref(), "response.failed" | "response.cancelled") {
            self.start(emit);
        }
        match name.as_ref() {
            "response.created" | "response.queued" | "response.in_progress" => {}
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let response = members.present("response").map(RawValue::get);
                let Some(response) = response.or_else(|| is_response(&members).then_some(data))
                else {
                    return self.fail(malformed(data), emit);
                };
                let status = name.strip_prefix("response.").unwrap_or_default();
                self.end_with(response, status, emit);
            }
            "response.output_item.added" => self.add_item(&members, emit),
            "response.output_item.done" => self.end_item(&members, emit),
            other => self.decode_piece(other, data, &members, emit),
        }
    }

    fn start<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if !self.started {
            self.started = true;
            emit(Event::Started);
        }
    }

    /// Decodes an object without a type: a whole answer, an error, or something else.
    fn decode_untyped<'a>(
        &mut self,
        data: &'a str,
        members: &Members<'a>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if is_response(members) || members.present("output").is_some() {
            self.start(emit);
            return self.end_with(data, "", emit);
        }
        if members.present("choices").is_some() {
            let predicate = "answered as for Chat Completions, and not as its wire `responses` says: set `wire = \"chat\"` for it.";
            return self.fail(Fault::of_provider(Kind::BadReply, predicate), emit);
        }
        match provider_error::from_failed_answer(find_patch, data) {
            Some(fault) => self.fail(fault, emit),
            None => self.fail(malformed(data), emit),
        }
    }

    /// Decodes data that is no object.
    fn decode_irregular<'a>(
        &mut self,
        data: &'a str,
        kind: DataKind,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        match data.trim() {
            "" | "null" => return,
            "[DONE]" => return self.finish(emit),
            cut if kind == DataKind::Trailing && "[DONE]".starts_with(cut) => return,
            _ => {}
        }
        let fault = match kind {
            DataKind::Trailing => return self.finish(emit),
            DataKind::ErrorEvent => {
                provider_error::from_reply(find_patch, 500, None, data.as_bytes())
            }
            DataKind::Complete => malformed(data),
        };
        self.fail(fault, emit);
    }

    fn add_item<'a>(&mut self, members: &Members<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let Some(item) = members.present("item") else {
            return;
        };
        let fields = Members::read(item.get()).unwrap_or_default();
        let id = fields.text("id").unwrap_or_default();
        let Some(slot) = self.slots.add(members.index("output_index"), &id) else {
            return;
        };
        if self.slots.len() > MAX_ITEMS {
            return self.fail(too_many_items(), emit);
        }
        self.release_item(emit);
        let waits = matches!(
            fields.text("type").unwrap_or_default().as_ref(),
            "message" | "reasoning"
        );
        let item = json::sound(item.get());
        if waits {
            self.held_item = Some((slot, item.into_owned()));
        } else {
            emit(Event::Native(NativeEvent::ItemAdded { slot, item }));
        }
    }

    fn end_item<'a>(&mut self, members: &Members<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let index = members.index("output_index");
        let item = members.present("item");
        let fields = item.and_then(|item| Members::read(item.get()));
        let (Some(item), Some(fields)) = (item, fields) else {
            let id = members.text("item_id").unwrap_or_default();
            return match self.slots.end_open(index, &id) {
                Some(slot) => self.end_without_item(slot, emit),
                None => emit(Event::Note(
                    "item_dropped",
                    "it is not a JSON object".to_owned(),
                )),
            };
        };
        let id = fields.text("id").unwrap_or_default();
        let slot = self.slots.end(index, &id);
        if self.slots.len() > MAX_ITEMS {
            return self.fail(too_many_items(), emit);
        }
        // Its beginning has not been passed on.
        self.held_item.take_if(|(held, begun)| {
            let kind =
                Members::read(begun).and_then(|begun| Some(begun.text("type")?.into_owned()));
            *held == slot
                && fields
                    .text("type")
                    .is_some_and(|it| kind.is_none_or(|kind| kind != it))
        });
        self.release_item(emit);
        let item = json::sound(item.get());
        emit(Event::Native(NativeEvent::ItemDone { slot, item }));
    }

    fn end_without_item<'a>(&mut self, slot: u32, emit: &mut impl FnMut(Event<'a>)) {
        self.release_item(emit);
        emit(Event::Native(NativeEvent::ItemEnded { slot }));
    }

    /// Passes the held item on.
    fn release_item<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if let Some((slot, item)) = self.held_item.take() {
            let item = Cow::Owned(item);
            emit(Event::Native(NativeEvent::ItemAdded { slot, item }));
        }
    }

    /// Decodes an event that belongs to an item.
    fn decode_piece<'a>(
        &mut self,
        name: &str,
        data: &'a str,
        members: &Members<'a>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let Some(piece) = Piece::of(name) else {
            return emit(Event::Note("event_skipped", name.to_owned()));
        };
        let id = members.text("item_id").unwrap_or_default();
        let Some(slot) = self.slots.find(members.index("output_index"), &id) else {
            return emit(Event::Note("event_skipped", format!("{name} of no item")));
        };
        let event = match piece {
            Piece::Delta(text) => {
                let Some(fragment) = members.get("delta").and_then(Fragment::from_raw) else {
                    return;
                };
                if fragment.is_empty() {
                    return;
                }
                let index = members.index("content_index");
                NativeEvent::Delta {
                    slot,
                    text,
                    index: index.or(members.index("summary_index")).unwrap_or(0),
                    fragment,
                    logprobs: members.present("logprobs"),
                }
            }
            Piece::Whole(text, field) => {
                let Some(whole) = members.get(field).and_then(Fragment::from_raw) else {
                    return;
                };
                NativeEvent::TextDone { slot, text, whole }
            }
            // The parts of an item begin with their first text and end with the item.
            Piece::Part => {
                let part = members.present("part").map(RawValue::get);
                let part = part.and_then(Members::read).unwrap_or_default();
                match part.text("type").as_deref() {
                    Some("output_text") => part_added(slot, NativeText::Output),
                    Some("refusal") => part_added(slot, NativeText::Refusal),
                    Some("reasoning_text") => part_added(slot, NativeText::Reasoning),
                    Some("summary_text") => part_added(slot, NativeText::Summary),
                    Some(_) | None => return,
                }
            }
            Piece::PartDone => return,
            Piece::Annotation => {
                let annotation = members.present("annotation");
                let Some(annotation) = annotation.filter(|raw| raw.get().starts_with('{')) else {
                    return;
                };
                NativeEvent::Annotation { slot, annotation }
            }
            Piece::Progress(name) => NativeEvent::Progress {
                slot,
                name,
                document: data,
            },
        };
        if matches!(event, NativeEvent::PartAdded { .. }) && self.held_item.is_some() {
            // A part without text says nothing yet.
            return;
        }
        self.release_item(emit);
        emit(Event::Native(event));
    }
}

/// What an event says about an item.
enum Piece {
    Delta(NativeText),
    /// The whole text, in this field.
    Whole(NativeText, &'static str),
    Part,
    PartDone,
    Annotation,
    Progress(&'static str),
}

/// The events of tools that run at the upstream: every one that the clients of the API know.
const PROGRESS: [&str; 25] = [
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
    "response.file_search_call.in_progress",
    "response.file_search_call.searching",
    "response.file_search_call.completed",
    "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call.completed",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.generating",
    "response.image_generation_call.partial_image",
    "response.image_generation_call.completed",
    "response.mcp_call.in_progress",
    "response.mcp_call.completed",
    "response.mcp_call.failed",
    "response.mcp_list_tools.in_progress",
    "response.mcp_list_tools.completed",
    "response.mcp_list_tools.failed",
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
    "response.compaction.compacting",
];

impl Piece {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "response.output_text.delta" => Self::Delta(NativeText::Output),
            "response.output_text.done" => Self::Whole(NativeText::Output, "text"),
            "response.refusal.delta" => Self::Delta(NativeText::Refusal),
            "response.refusal.done" => Self::Whole(NativeText::Refusal, "refusal"),
            "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.mcp_call_arguments.delta" => Self::Delta(NativeText::Body),
            "response.function_call_arguments.done" | "response.mcp_call_arguments.done" => {
                Self::Whole(NativeText::Body, "arguments")
            }
            "response.custom_tool_call_input.done" => Self::Whole(NativeText::Body, "input"),
            "response.reasoning_summary_text.delta" => Self::Delta(NativeText::Summary),
            "response.reasoning_summary_text.done" => Self::Whole(NativeText::Summary, "text"),
            // The specification of Open Responses has the shorter name.
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                Self::Delta(NativeText::Reasoning)
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                Self::Whole(NativeText::Reasoning, "text")
            }
            "response.content_part.added" | "response.reasoning_summary_part.added" => Self::Part,
            "response.content_part.done" | "response.reasoning_summary_part.done" => Self::PartDone,
            "response.output_text.annotation.added" => Self::Annotation,
            other => Self::Progress(PROGRESS.into_iter().find(|known| *known == other)?),
        })
    }
}

/// Whether an object is a response itself.
fn is_response(members: &Members<'_>) -> bool {
    members
        .text("object")
        .is_some_and(|object| object == "response")
}

fn part_added(slot: u32, text: NativeText) -> NativeEvent<'static> {
    NativeEvent::PartAdded { slot, text }
}

/// The fault of an error event: with the error inside, as Codex and Open Responses have it,
/// or with its fields beside the type, as OpenAI documents it.
fn error_fault(data: &str, members: &Members<'_>) -> Fault {
    let inner = members.present("error").map(RawValue::get);
    let response = members.present("response").map(RawValue::get);
    let nested = response.and_then(Members::read);
    let nested = nested.and_then(|response| response.present("error"));
    let error = inner.or(nested.map(RawValue::get)).unwrap_or(data);
    match serde_json::from_str::<Box<RawValue>>(error) {
        Ok(raw) => provider_error::from_stream_error(find_patch, &raw),
        Err(_) => malformed(data),
    }
}

fn too_many_items() -> Fault {
    Fault::of_answer(Kind::BadReply, format!("has more than {MAX_ITEMS} items."))
}

fn malformed(data: &str) -> Fault {
    let start: String = data.chars().take(200).collect();
    let predicate = "sent something that is not an event of the Responses API.";
    Fault::of_provider(Kind::BadReply, predicate).caused_by(start)
}
