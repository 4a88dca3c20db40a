//! The reasoning item, and the state of the model that it carries. It has one summary part with the
//! reasoning text, or none if it only carries state. It has no status, as at OpenAI.

use bytes::Bytes;

use super::Assembler;
use super::text_part::TextPart;
use super::writer::{ItemOutput, ItemPosition};
use crate::baggage::Baggage;
use crate::event::{NativeText, ReasoningState};
use crate::json;
use crate::wire;

/// A reasoning item that is open.
#[derive(Debug)]
pub(super) struct ReasoningItem {
    position: ItemPosition,
    text: TextPart,
}

impl ReasoningItem {
    pub(super) fn open(out: &mut ItemOutput<'_>) -> Self {
        let position = begin_item(out);
        let mut text = TextPart::new(NativeText::Summary);
        text.advance(&position, 0, "", out);
        Self { position, text }
    }

    pub(super) fn add_text(&mut self, escaped: &str, out: &mut ItemOutput<'_>) {
        self.text.push(escaped, "");
        self.text.advance(&self.position, 0, "", out);
    }

    /// Closes the item. The reasoning text is added to `baggage`.
    pub(super) fn close(mut self, baggage: Option<Baggage>, out: &mut ItemOutput<'_>) {
        let part = self.text.close(&self.position, 0, None, out);
        let text = self.text.text();
        let baggage = baggage.map(|baggage| Baggage {
            reasoning: json::unescape(text).into_owned(),
            ..baggage
        });
        let part = if text.is_empty() { Bytes::new() } else { part };
        end_item(&self.position, &part, baggage.as_ref(), out);
    }
}

/// Writes a reasoning item without text that carries `baggage`.
pub(super) fn write_baggage_item(baggage: &Baggage, out: &mut ItemOutput<'_>) {
    let position = begin_item(out);
    end_item(&position, b"", Some(baggage), out);
}

fn begin_item(out: &mut ItemOutput<'_>) -> ItemPosition {
    let position = out.next_position("rs");
    let mut item = vec![b'{'];
    json::field(&mut item, "id", &position.id);
    item.extend_from_slice(br#","type":"reasoning","summary":[]}"#);
    out.item_added(&position, &item);
    position
}

/// Writes the finished item; `summary` is the JSON of its part.
fn end_item(
    position: &ItemPosition,
    summary: &[u8],
    baggage: Option<&Baggage>,
    out: &mut ItemOutput<'_>,
) {
    let sealed = baggage.map(Baggage::seal);
    let size = summary.len() + sealed.as_ref().map_or(0, String::len);
    let mut item = Vec::with_capacity(size + 160);
    item.push(b'{');
    json::field(&mut item, "id", &position.id);
    json::field(&mut item, "type", "reasoning");
    json::key(&mut item, "summary");
    item.push(b'[');
    item.extend_from_slice(summary);
    item.push(b']');
    if let Some(sealed) = sealed {
        json::field(&mut item, "encrypted_content", &sealed);
    }
    item.push(b'}');
    out.item_done(position, item);
}

impl Assembler {
    /// Keeps the state for the baggage of the next item that can carry it.
    pub(super) fn keep_reasoning_state(&mut self, state: ReasoningState<'_>) {
        self.count_bytes(state.blob.len());
        let states = match state.slot {
            None => &mut self.reasoning_states,
            Some(slot) => {
                let (of, states) = self.call_states.get_or_insert_default();
                if *of != slot {
                    states.clear();
                }
                *of = slot;
                states
            }
        };
        if let Some((form, kept)) = states.iter_mut().find(|(form, _)| *form == state.form) {
            wire::join_state(*form, kept, state.blob);
        } else {
            let mut kept = String::new();
            wire::join_state(state.form, &mut kept, state.blob);
            states.push((state.form, kept));
        }
    }

    /// Takes the collected state as the baggage of a reasoning item.
    pub(super) fn take_baggage(&mut self) -> Baggage {
        Baggage {
            origin: self.settings.params.origin.clone(),
            states: std::mem::take(&mut self.reasoning_states),
            ..Baggage::default()
        }
    }
}
