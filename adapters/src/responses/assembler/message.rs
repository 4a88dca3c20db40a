//! The message item, with content parts of text and refusal.

use super::super::event_buffer::EventBuffer;
use super::writer::{ItemPosition, ItemWriter, StreamedText, location_fields, push_escaped};
use crate::event::TokenLogprob;
use crate::json;

/// A message that is open. Its parts alternate between text and refusal.
#[derive(Debug)]
pub(super) struct MessageItem {
    position: ItemPosition,
    /// The JSON of the finished parts, separated by commas.
    parts: Vec<u8>,
    part_count: usize,
    open_part: Option<OutputPart>,
}

#[derive(Debug)]
struct OutputPart {
    refusal: bool,
    location: Vec<u8>,
    text: StreamedText,
    annotations: Vec<String>,
    /// The log probabilities of all deltas as JSON objects, separated by commas.
    logprobs: String,
}

impl MessageItem {
    pub(super) fn open(writer: &mut ItemWriter, events: &mut EventBuffer) -> Self {
        let position = writer.next_position("msg");
        let mut item = Vec::new();
        item.push(b'{');
        json::field(&mut item, "id", &position.id);
        item.extend_from_slice(
            br#","type":"message","status":"in_progress","role":"assistant","content":[]}"#,
        );
        writer.item_added(&position, &item, events);
        Self {
            position,
            parts: Vec::new(),
            part_count: 0,
            open_part: None,
        }
    }

    pub(super) fn add_text(
        &mut self,
        refusal: bool,
        escaped: &str,
        logprobs: Option<&[TokenLogprob<'_>]>,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        if self
            .open_part
            .as_ref()
            .is_some_and(|part| part.refusal != refusal)
        {
            self.close_part(writer, events);
        }
        let part = self.open_part.get_or_insert_with(|| {
            let index = self.part_count;
            self.part_count += 1;
            OutputPart::open(&self.position, index, refusal, writer, events)
        });
        part.add_text(escaped, logprobs, writer, events);
    }

    /// Whether a text part is open, to which an annotation can be added.
    pub(super) fn accepts_annotations(&self) -> bool {
        self.open_part.as_ref().is_some_and(|part| !part.refusal)
    }

    /// Adds an annotation (JSON of the Responses API) to the open text part.
    pub(super) fn add_annotation(
        &mut self,
        annotation: String,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        if let Some(part) = self.open_part.as_mut().filter(|part| !part.refusal) {
            part.add_annotation(annotation, writer, events);
        }
    }

    fn close_part(&mut self, writer: &mut ItemWriter, events: &mut EventBuffer) {
        if let Some(part) = self.open_part.take() {
            if !self.parts.is_empty() {
                self.parts.push(b',');
            }
            self.parts.extend(part.close(writer, events));
        }
    }

    pub(super) fn close(
        mut self,
        status: &str,
        phase: &str,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        self.close_part(writer, events);
        let mut item = Vec::with_capacity(self.parts.len() + 160);
        item.push(b'{');
        json::field(&mut item, "id", &self.position.id);
        json::field(&mut item, "type", "message");
        json::field(&mut item, "status", status);
        json::field(&mut item, "role", "assistant");
        json::field(&mut item, "phase", phase);
        json::key(&mut item, "content");
        item.push(b'[');
        item.extend_from_slice(&self.parts);
        item.extend_from_slice(b"]}");
        writer.item_done(&self.position, &item, events);
    }
}

impl OutputPart {
    fn open(
        position: &ItemPosition,
        index: usize,
        refusal: bool,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) -> Self {
        let part = Self {
            refusal,
            location: location_fields(position, Some(("content_index", index))),
            text: StreamedText::default(),
            annotations: Vec::new(),
            logprobs: String::new(),
        };
        let empty = part.json();
        writer.event(
            "response.content_part.added",
            &part.location,
            events,
            |out| {
                out.extend_from_slice(b",\"part\":");
                out.extend_from_slice(&empty);
            },
        );
        part
    }

    fn add_text(
        &mut self,
        escaped: &str,
        logprobs: Option<&[TokenLogprob<'_>]>,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        let list = logprobs.map(token_logprobs).unwrap_or_default();
        if !list.is_empty() {
            if !self.logprobs.is_empty() {
                self.logprobs.push(',');
            }
            self.logprobs.push_str(&list);
        }
        let whole = self.text.push(escaped);
        if !whole.is_empty() {
            self.write_delta(&whole, &list, writer, events);
        }
    }

    fn write_delta(
        &self,
        escaped: &str,
        logprobs: &str,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        let name = if self.refusal {
            "response.refusal.delta"
        } else {
            "response.output_text.delta"
        };
        let refusal = self.refusal;
        writer.event(name, &self.location, events, |out| {
            push_escaped(out, "delta", escaped);
            if !refusal {
                // Written for every delta, therefore without an intermediate string.
                out.extend_from_slice(b",\"logprobs\":[");
                out.extend_from_slice(logprobs.as_bytes());
                out.push(b']');
            }
        });
    }

    fn add_annotation(
        &mut self,
        annotation: String,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        if self.annotations.contains(&annotation) {
            return;
        }
        let index = self.annotations.len();
        writer.event(
            "response.output_text.annotation.added",
            &self.location,
            events,
            |out| {
                json::field(out, "annotation_index", &index);
                json::raw_field(out, "annotation", &annotation);
            },
        );
        self.annotations.push(annotation);
    }

    fn close(mut self, writer: &mut ItemWriter, events: &mut EventBuffer) -> Vec<u8> {
        if let Some(rest) = self.text.flush() {
            self.write_delta(rest, "", writer, events);
        }
        let (name, field) = if self.refusal {
            ("response.refusal.done", "refusal")
        } else {
            ("response.output_text.done", "text")
        };
        writer.event(name, &self.location, events, |out| {
            push_escaped(out, field, &self.text.text);
            if !self.refusal {
                json::raw_field(out, "logprobs", &format!("[{}]", self.logprobs));
            }
        });
        let json = self.json();
        writer.event(
            "response.content_part.done",
            &self.location,
            events,
            |out| {
                out.extend_from_slice(b",\"part\":");
                out.extend_from_slice(&json);
            },
        );
        json
    }

    fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.text.len() + 80);
        out.push(b'{');
        if self.refusal {
            json::field(&mut out, "type", "refusal");
            push_escaped(&mut out, "refusal", &self.text.text);
        } else {
            json::field(&mut out, "type", "output_text");
            push_escaped(&mut out, "text", &self.text.text);
            json::raw_field(
                &mut out,
                "annotations",
                &format!("[{}]", self.annotations.join(",")),
            );
            json::raw_field(&mut out, "logprobs", &format!("[{}]", self.logprobs));
        }
        out.push(b'}');
        out
    }
}

/// The log probabilities as entries of the Responses API, separated by commas. All of their
/// fields are required there.
fn token_logprobs(entries: &[TokenLogprob<'_>]) -> String {
    fn push(out: &mut Vec<u8>, entry: &TokenLogprob<'_>, top: bool) {
        out.push(b'{');
        json::field(out, "token", &entry.token);
        json::raw_field(out, "logprob", &entry.logprob);
        let own = entry.token.as_bytes();
        json::field(out, "bytes", entry.bytes.as_deref().unwrap_or(own));
        if top {
            json::key(out, "top_logprobs");
            out.push(b'[');
            for other in &entry.top {
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                push(out, other, false);
            }
            out.push(b']');
        }
        out.push(b'}');
    }
    let mut out = Vec::new();
    for entry in entries {
        if !out.is_empty() {
            out.push(b',');
        }
        push(&mut out, entry, true);
    }
    String::from_utf8(out).unwrap_or_default()
}
