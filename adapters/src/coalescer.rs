//! Joins the pieces of streamed texts before events are made of them, so that an answer that many
//! read, or that is kept, has few events. Every reader gets the same ones.

use std::borrow::Cow;

use crate::event::{Event, Fragment, NativeEvent, NativeText};

/// The most pieces that are joined.
const MAX_PIECES: usize = 10;
/// The most bytes that are joined.
const MAX_BYTES: usize = 64 << 10;

/// Joins the pieces of a text. Made for an answer; its caller flushes it after a while, and before
/// the answer ends.
#[derive(Debug, Default)]
pub struct Coalescer {
    pending: Option<PendingText>,
}

#[derive(Debug)]
struct PendingText {
    place: TextPlace,
    escaped: String,
    pieces: usize,
}

/// The text that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextPlace {
    Text,
    Refusal,
    Reasoning,
    Arguments(u32),
    Native(u32, NativeText, u32),
}

impl Coalescer {
    /// Whether a piece waits for the next one.
    pub fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes an event of the upstream and passes on what is complete, in order.
    pub fn push(&mut self, event: Event<'_>, mut emit: impl FnMut(Event<'_>)) {
        let Some((place, escaped)) = piece(&event) else {
            self.flush(&mut emit);
            return emit(event);
        };
        if self.pending.as_ref().is_some_and(|it| it.place != place) {
            self.flush(&mut emit);
        }
        let pending = self.pending.get_or_insert_with(|| PendingText {
            place,
            escaped: String::new(),
            pieces: 0,
        });
        pending.escaped.push_str(escaped);
        pending.pieces += 1;
        if pending.pieces >= MAX_PIECES || pending.escaped.len() >= MAX_BYTES {
            self.flush(&mut emit);
        }
    }

    /// Passes on what waits.
    pub fn flush(&mut self, mut emit: impl FnMut(Event<'_>)) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let fragment = Fragment::from_escaped(Cow::Owned(pending.escaped));
        emit(match pending.place {
            TextPlace::Text => Event::Text(fragment, None),
            TextPlace::Refusal => Event::Refusal(fragment),
            TextPlace::Reasoning => Event::Reasoning(fragment),
            TextPlace::Arguments(slot) => Event::CallArguments(slot, fragment),
            TextPlace::Native(slot, text, index) => Event::Native(NativeEvent::Delta {
                slot,
                text,
                index,
                fragment,
                logprobs: None,
            }),
        });
    }
}

/// The text of an event that is a piece of one, without more.
fn piece<'e>(event: &'e Event<'_>) -> Option<(TextPlace, &'e str)> {
    let (place, fragment) = match event {
        Event::Text(fragment, None) => (TextPlace::Text, fragment),
        Event::Refusal(fragment) => (TextPlace::Refusal, fragment),
        Event::Reasoning(fragment) => (TextPlace::Reasoning, fragment),
        Event::CallArguments(slot, fragment) => (TextPlace::Arguments(*slot), fragment),
        Event::Native(NativeEvent::Delta {
            slot,
            text,
            index,
            fragment,
            logprobs: None,
        }) => (TextPlace::Native(*slot, *text, *index), fragment),
        Event::Started
        | Event::MessageEnd
        | Event::Text(_, Some(_))
        | Event::ReasoningState(_)
        | Event::CallStart { .. }
        | Event::Citation(_)
        | Event::Source { .. }
        | Event::Searched
        | Event::Native(_)
        | Event::Usage(_)
        | Event::Note(..)
        | Event::Finish(_)
        | Event::Failed(_) => return None,
    };
    Some((place, fragment.escaped()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Finish;

    fn shown(event: &Event<'_>) -> String {
        match piece(event) {
            Some((place, text)) => format!("{place:?}:{text}"),
            None => "other".to_owned(),
        }
    }

    fn text(text: &str) -> Event<'_> {
        Event::Text(Fragment::from_escaped(text), None)
    }

    fn pushed(events: Vec<Event<'_>>) -> Vec<String> {
        let mut coalescer = Coalescer::default();
        let mut out = Vec::new();
        for event in events {
            coalescer.push(event, |event| out.push(shown(&event)));
        }
        coalescer.flush(|event| out.push(shown(&event)));
        out
    }

    /// Promise: At most ten pieces of text are joined.
    #[test]
    fn ten_pieces_are_one_event() {
        let pieces = (0..25).map(|_| text("a")).collect();
        let expected = [10, 10, 5].map(|count| format!("Text:{}", "a".repeat(count)));
        assert_eq!(pushed(pieces), expected);
    }

    /// Promise: Pieces of text that wait come before whatever follows them.
    #[test]
    fn pieces_of_another_text_and_other_events_come_after_what_waits() {
        let reasoning = Event::Reasoning(Fragment::from_escaped("r"));
        let events = vec![reasoning, text("a"), text("b"), Event::Finish(Finish::Stop)];
        assert_eq!(pushed(events), ["Reasoning:r", "Text:ab", "other"]);
    }
}
