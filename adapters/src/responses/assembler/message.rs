//! The message item, with content parts of text and refusal.

use super::text_part::{TOO_MANY_ANNOTATIONS, TextPart};
use super::writer::{ItemOutput, ItemPosition};
use crate::event::{NativeText, TokenLogprob};
use crate::json;

/// A message that is open. Its parts alternate between text and refusal.
#[derive(Debug)]
pub(super) struct MessageItem {
    position: ItemPosition,
    /// The JSON of the finished parts, separated by commas.
    parts: Vec<u8>,
    part_count: usize,
    open_part: Option<TextPart>,
    /// Reasoning that came after the text began, escaped. It follows the message.
    pub(super) late_reasoning: String,
}

impl MessageItem {
    pub(super) fn open(out: &mut ItemOutput<'_>) -> Self {
        let position = out.next_position("msg");
        let mut item = Vec::new();
        item.push(b'{');
        json::field(&mut item, "id", &position.id);
        item.extend_from_slice(
            br#","type":"message","status":"in_progress","role":"assistant","content":[]}"#,
        );
        out.item_added(&position, &item);
        Self {
            position,
            parts: Vec::new(),
            part_count: 0,
            open_part: None,
            late_reasoning: String::new(),
        }
    }

    /// Writes a piece of text or of a refusal; another kind than before begins a part.
    pub(super) fn add_text(
        &mut self,
        kind: NativeText,
        escaped: &str,
        logprobs: Option<&[TokenLogprob<'_>]>,
        out: &mut ItemOutput<'_>,
    ) {
        if self
            .open_part
            .as_ref()
            .is_some_and(|part| part.kind != kind)
        {
            self.close_part(out);
        }
        let part = self.open_part.get_or_insert_with(|| TextPart::new(kind));
        part.push(escaped, &logprobs.map(token_logprobs).unwrap_or_default());
        part.advance(&self.position, self.part_count, "", out);
    }

    /// Whether a text part is open, to which an annotation can be added.
    pub(super) fn accepts_annotations(&self) -> bool {
        let part = self.open_part.as_ref();
        part.is_some_and(|part| part.kind == NativeText::Output)
    }

    /// Adds an annotation (JSON of the Responses API) to the open text part, unless it has it.
    pub(super) fn add_annotation(&mut self, annotation: String, out: &mut ItemOutput<'_>) {
        if let Some(part) = &mut self.open_part {
            if !part.annotate_once(annotation) {
                out.note("annotation_dropped", TOO_MANY_ANNOTATIONS);
            }
            part.advance(&self.position, self.part_count, "", out);
        }
    }

    fn close_part(&mut self, out: &mut ItemOutput<'_>) {
        if let Some(mut part) = self.open_part.take() {
            if !self.parts.is_empty() {
                self.parts.push(b',');
            }
            let json = part.close(&self.position, self.part_count, None, out);
            self.parts.extend_from_slice(&json);
            self.part_count += 1;
        }
    }

    pub(super) fn close(mut self, status: &str, phase: &str, out: &mut ItemOutput<'_>) {
        self.close_part(out);
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
        out.item_done(&self.position, item);
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
                json::separate(out);
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
