//! Reasoning inside the text, between tags such as `<think>`.

use registry::ThinkTags;

use super::tags;

const OPENING: [&str; 2] = ["<think>", "<mm:think>"];
const CLOSING: [&str; 2] = ["</think>", "</mm:think>"];

/// Separates reasoning from text. Holds back text that may be the beginning of a
/// tag.
#[derive(Debug)]
pub(super) struct ThinkTagParser {
    state: ThinkState,
    held: String,
    /// How many bytes of `held` are white space before the text.
    blank: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ThinkState {
    /// Only white space so far. `unopened`: the model omits the opening tag.
    Start {
        unopened: bool,
    },
    Thinking,
    /// After the closing tag, in the line breaks before the text.
    Between,
    Text,
}

/// A piece of escaped text.
#[derive(Debug, PartialEq)]
pub(super) enum ThinkPiece {
    Reasoning(String),
    Text(String),
}

impl ThinkTagParser {
    pub(super) fn new(quirk: ThinkTags) -> Self {
        let state = match quirk {
            ThinkTags::Off => ThinkState::Text,
            ThinkTags::On => ThinkState::Start { unopened: false },
            ThinkTags::Unopened => ThinkState::Start { unopened: true },
        };
        Self {
            state,
            held: String::new(),
            blank: 0,
        }
    }

    /// Whether everything that follows is text.
    pub(super) fn is_finished(&self) -> bool {
        self.state == ThinkState::Text
    }

    /// Whether reasoning has begun and not ended.
    pub(super) fn is_thinking(&self) -> bool {
        self.state == ThinkState::Thinking
    }

    /// Reports that reasoning came in a field of its own, so the text does not
    /// begin with reasoning unless a tag says so.
    pub(super) fn note_separate_reasoning(&mut self) {
        if self.state == (ThinkState::Start { unopened: true }) {
            self.state = ThinkState::Start { unopened: false };
        }
    }

    /// Reads more text.
    pub(super) fn push(&mut self, escaped: &str) -> Vec<ThinkPiece> {
        self.held.push_str(&tags::unescape_tag_chars(escaped));
        let mut pieces = Vec::new();
        let mut from = 0;
        if let ThinkState::Start { unopened } = self.state {
            match self.read_start(unopened) {
                Some(start) => from = start,
                None => return pieces,
            }
        }
        let text = std::mem::take(&mut self.held);
        let mut rest = text.get(from..).unwrap_or_default();
        loop {
            match self.state {
                ThinkState::Thinking => {
                    let Some((thought, after)) = tags::split_at_tag(rest, &CLOSING) else {
                        let (thought, held) = tags::split_partial_tag(rest, &CLOSING);
                        push_piece(&mut pieces, ThinkPiece::Reasoning, thought);
                        held.clone_into(&mut self.held);
                        return pieces;
                    };
                    push_piece(&mut pieces, ThinkPiece::Reasoning, thought);
                    self.state = ThinkState::Between;
                    rest = after;
                }
                ThinkState::Between => {
                    rest = tags::trim_start(rest, false);
                    if rest.is_empty() {
                        return pieces;
                    }
                    self.state = ThinkState::Text;
                }
                ThinkState::Text | ThinkState::Start { .. } => {
                    push_piece(&mut pieces, ThinkPiece::Text, rest);
                    return pieces;
                }
            }
        }
    }

    /// Leaves the start as soon as something else than white space is held. Returns where the
    /// text after it begins; `None` if more is needed to decide.
    fn read_start(&mut self, unopened: bool) -> Option<usize> {
        let held = self.held.get(self.blank..).unwrap_or_default();
        let body = tags::trim_start(held, true);
        self.blank = self.held.len() - body.len();
        if let Some(tag) = OPENING.iter().find(|tag| body.starts_with(**tag)) {
            self.state = ThinkState::Thinking;
            return Some(self.blank + tag.len());
        }
        if OPENING.iter().any(|tag| tag.starts_with(body)) {
            // White space, or the beginning of a tag.
            return None;
        }
        self.state = if unopened {
            ThinkState::Thinking
        } else {
            ThinkState::Text
        };
        Some(0)
    }

    /// Returns the text that was held back; it was not a tag, because something
    /// else follows.
    pub(super) fn flush(&mut self) -> Option<ThinkPiece> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return None;
        }
        Some(match self.state {
            ThinkState::Thinking => ThinkPiece::Reasoning(held),
            ThinkState::Start { .. } | ThinkState::Between | ThinkState::Text => {
                ThinkPiece::Text(held)
            }
        })
    }
}

fn push_piece(pieces: &mut Vec<ThinkPiece>, kind: fn(String) -> ThinkPiece, text: &str) {
    if !text.is_empty() {
        pieces.push(kind(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning, text, and whether the reasoning has ended.
    fn read(quirk: ThinkTags, chunks: &[&str]) -> (String, String, bool) {
        let (mut thought, mut text) = (String::new(), String::new());
        let mut think = ThinkTagParser::new(quirk);
        let mut pieces: Vec<ThinkPiece> = Vec::new();
        for chunk in chunks {
            pieces.extend(think.push(chunk));
        }
        pieces.extend(think.flush());
        for piece in pieces {
            match piece {
                ThinkPiece::Reasoning(more) => thought.push_str(&more),
                ThinkPiece::Text(more) => text.push_str(&more),
            }
        }
        (thought, text, !think.is_thinking())
    }

    #[test]
    fn tags_separate_reasoning_from_text_wherever_they_are_split() {
        use ThinkTags::{Off, On, Unopened};
        for (quirk, whole, thought, text, ended) in [
            (On, "<think>a<b</think>\\n\\nc", "a<b", "c", true),
            (On, "\\n <think>a</think>c</think>", "a", "c</think>", true),
            (On, "<mm:think>a</mm:think>  c", "a", "  c", true),
            (
                On,
                "\\u003cthink\\u003ea\\u003C\\/think\\u003e\\nc",
                "a",
                "c",
                true,
            ),
            (On, "a <think>b</think>", "", "a <think>b</think>", true),
            (On, " <thin", "", " <thin", true),
            (On, "\\\\u003c", "", "\\\\u003c", true),
            (On, "<think>a</thi", "a</thi", "", false),
            (Unopened, "a</think>\\n\\nc", "a", "c", true),
            (Unopened, "<think>a</think>c", "a", "c", true),
            (Unopened, "a", "a", "", false),
            (Off, "<think>a</think>c", "", "<think>a</think>c", true),
        ] {
            let expected = (thought.to_owned(), text.to_owned(), ended);
            assert_eq!(read(quirk, &[whole]), expected, "{whole}");
            for at in 1..whole.len() {
                let cut = [whole.get(..at).unwrap(), whole.get(at..).unwrap()];
                // A server never splits an escape.
                if whole.contains('\\') && !cut_is_between_escapes(cut[0]) {
                    continue;
                }
                assert_eq!(read(quirk, &cut), expected, "{cut:?}");
            }
        }
    }

    fn cut_is_between_escapes(head: &str) -> bool {
        serde_json::from_str::<String>(&format!("\"{head}\"")).is_ok()
    }
}
