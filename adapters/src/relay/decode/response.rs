//! The response object of the last event, or of a whole answer: items that did not come
//! before, token counts, and how the answer ended.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::slots::MAX_ITEMS;
use super::{RelayDecoder, too_many_items};
use crate::event::{Event, Finish, NativeEvent, Usage};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::members::Members;
use crate::provider_error;
use crate::relay::refusals::find_patch;

impl RelayDecoder {
    /// Ends the answer with this response object. `status` is the one of its event, which
    /// counts if the object has none.
    pub(super) fn end_with<'a>(
        &mut self,
        response: &'a str,
        status: &str,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let members = Members::read(response).unwrap_or_default();
        let own = members.text("status").unwrap_or_default();
        let status = match own.as_ref() {
            "completed" | "incomplete" | "failed" | "cancelled" => own.as_ref(),
            _ => status,
        };
        if let Some(usage) = members.present("usage").and_then(read_usage) {
            emit(Event::Usage(usage));
        }
        let error = members.present("error");
        if matches!(status, "failed" | "cancelled") || (status.is_empty() && error.is_some()) {
            let fault = error.map_or_else(
                || Fault::of_answer(Kind::Unavailable, "failed."),
                |error| provider_error::from_stream_error(find_patch, error),
            );
            return self.fail(fault, emit);
        }
        if !self.emit_missing_items(members.present("output"), emit) {
            return self.fail(too_many_items(), emit);
        }
        let reason = members
            .present("incomplete_details")
            .and_then(|details| Members::read(details.get())?.text("reason"));
        let is_known = matches!(status, "completed" | "done" | "incomplete");
        if !is_known && self.slots.len() == 0 {
            let predicate = format!("ended without an item, with the status '{own}'.");
            return self.fail(Fault::of_answer(Kind::BadReply, predicate), emit);
        }
        let finish = match (status, reason.as_deref()) {
            ("incomplete", Some("content_filter")) => Finish::ContentFilter,
            ("incomplete", _) => Finish::Length,
            _ => Finish::Stop,
        };
        if !self.ended {
            self.ended = true;
            emit(Event::Finish(finish));
        }
    }

    /// Emits the items of the final output that were not sent, or not to their end. Ids may differ
    /// there (recorded from `OpenRouter`), so that the position counts. False if there are too
    /// many.
    fn emit_missing_items<'a>(
        &mut self,
        output: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) -> bool {
        let open = self.slots.take_open();
        let sent = self.slots.len();
        let items: Vec<&'a RawValue> = json::list(output);
        if items.len() > MAX_ITEMS {
            return false;
        }
        self.release_item(emit);
        for (at, slot) in open {
            match items.get(at) {
                Some(item) if Members::read(item.get()).is_some() => {
                    let item = json::sound(item.get());
                    emit(Event::Native(NativeEvent::ItemDone { slot, item }));
                }
                Some(_) => self.end_without_item(slot, emit),
                None => {}
            }
        }
        for item in items.into_iter().skip(sent) {
            let slot = self.slots.end(None, "");
            let item = json::sound(item.get());
            emit(Event::Native(NativeEvent::ItemDone { slot, item }));
        }
        true
    }
}

/// Reads a `usage` object; `None` if it has no counts.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct UsageCounts {
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        #[serde(default)]
        input_tokens_details: Option<InputCounts>,
        #[serde(default)]
        output_tokens_details: Option<OutputCounts>,
    }
    #[derive(Default, Deserialize)]
    struct InputCounts {
        cached_tokens: Option<u64>,
        cache_write_tokens: Option<u64>,
    }
    #[derive(Default, Deserialize)]
    struct OutputCounts {
        reasoning_tokens: Option<u64>,
    }
    let counts: UsageCounts = serde_json::from_str(raw.get()).ok()?;
    let (input, output) = (
        counts.input_tokens.unwrap_or(0),
        counts.output_tokens.unwrap_or(0),
    );
    if input == 0 && output == 0 {
        return None;
    }
    let sent = counts.input_tokens_details.unwrap_or_default();
    let generated = counts.output_tokens_details.unwrap_or_default();
    Some(Usage {
        input,
        cached: sent.cached_tokens.unwrap_or(0).min(input),
        cache_write: sent.cache_write_tokens.unwrap_or(0).min(input),
        output,
        reasoning: generated.reasoning_tokens.unwrap_or(0).min(output),
    })
}
