//! System and user messages.

use super::Writer;
use super::layout::{Piece, Source};
use crate::chat::content::Part;
use crate::json;
use crate::text::Text;

/// The first line of a user message that is system text.
const HEADING: &str = "[System instruction]";

impl Writer<'_, '_> {
    /// A message of these pieces: a string, if all of them are one text each.
    pub(super) fn said(&mut self, role: &str, pieces: &[Piece<'_>], marked: bool) {
        if let Some(limit) = self.options.quirks().message_limit
            && longer_than(pieces, limit)
        {
            return self.cut(role, pieces, limit, marked);
        }
        let start = self.out.len();
        self.open(role);
        json::key(self.out, "content");
        let is_system = role == "system";
        if pieces.iter().all(|piece| is_system || piece.is_one_text()) {
            self.open_text(marked);
            for (position, piece) in pieces.iter().enumerate() {
                if position > 0 {
                    self.out.extend_from_slice(b"\\n\\n");
                }
                let start = self.out.len();
                piece.push_text(self.out);
                self.inner_span(pieces, piece, start);
            }
            self.close_text(marked);
        } else {
            self.out.push(b'[');
            for piece in pieces {
                let start = self.out.len();
                if piece.headed {
                    let mut text = vec![b'"'];
                    piece.push_text(&mut text);
                    text.push(b'"');
                    if self.out.last() != Some(&b'[') {
                        self.out.push(b',');
                    }
                    self.out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                    self.out.extend_from_slice(&text);
                    self.out.push(b'}');
                } else {
                    piece.content.push_parts(self.out, self.media);
                }
                self.inner_span(pieces, piece, start);
            }
            self.close_parts(marked);
        }
        self.out.push(b'}');
        if let [piece] = pieces
            && let Source::Item(index) = piece.source
        {
            self.span(index, start);
        }
    }

    /// The place of one piece of several; a piece alone has the whole message.
    fn inner_span(&mut self, pieces: &[Piece<'_>], piece: &Piece<'_>, start: usize) {
        match piece.source {
            Source::Item(index) if pieces.len() > 1 => self.span(index, start),
            Source::Instructions => self.written.instructions = self.out.len(),
            Source::Item(_) | Source::Format | Source::Omitted => {}
        }
    }

    /// Several messages of the same role, none with more than `limit` characters.
    /// Of system text, each says what it is.
    fn cut(&mut self, role: &str, pieces: &[Piece<'_>], limit: u32, marked: bool) {
        self.notes.add(
            "message_cut",
            format!("a message is sent in pieces of {limit} characters"),
        );
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let heading = if pieces.iter().any(|piece| piece.headed) {
            format!("{HEADING}\n")
        } else {
            String::new()
        };
        let limit = limit.saturating_sub(heading.len());
        for (position, piece) in pieces.iter().enumerate() {
            let start = self.out.len();
            let marked = marked && position + 1 == pieces.len();
            if role == "system" || piece.is_one_text() || !heading.is_empty() {
                let mut escaped = Vec::new();
                piece.content.push_text(&mut escaped, "\\n\\n");
                let escaped = String::from_utf8(escaped).unwrap_or_default();
                let text = json::unescape(&escaped);
                self.text_in_pieces(role, &heading, &text, limit, marked);
            } else {
                self.parts_in_pieces(role, piece, limit, marked);
            }
            match piece.source {
                Source::Item(index) => self.span(index, start),
                Source::Instructions => self.written.instructions = self.out.len(),
                Source::Format | Source::Omitted => {}
            }
        }
    }

    fn text_in_pieces(
        &mut self,
        role: &str,
        heading: &str,
        text: &str,
        limit: usize,
        marked: bool,
    ) {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = split(rest, limit);
            rest = after;
            let marked = marked && rest.is_empty();
            self.open(role);
            json::key(self.out, "content");
            self.open_text(marked);
            Text::from(heading).push_escaped(self.out);
            Text::from(piece).push_escaped(self.out);
            self.close_text(marked);
            self.out.push(b'}');
        }
    }

    /// What is no text stands alone.
    fn parts_in_pieces(&mut self, role: &str, piece: &Piece<'_>, limit: usize, marked: bool) {
        let count = piece.content.parts.len();
        for (position, part) in piece.content.parts.iter().enumerate() {
            let marked = marked && position + 1 == count;
            if let Part::Text(text) = part {
                self.text_in_pieces(role, "", &text.decoded(), limit, marked);
                continue;
            }
            self.open(role);
            json::key(self.out, "content");
            self.out.push(b'[');
            part.push(self.out, self.media);
            self.close_parts(marked);
            self.out.push(b'}');
        }
    }
}

impl Piece<'_> {
    /// Whether it is written as one string.
    fn is_one_text(&self) -> bool {
        self.headed || self.content.is_one_text()
    }

    /// All text, as the inside of a JSON string.
    fn push_text(&self, out: &mut Vec<u8>) {
        if self.headed {
            out.extend_from_slice(HEADING.as_bytes());
            out.extend_from_slice(b"\\n");
        }
        self.content.push_text(out, "\\n\\n");
    }
}

fn longer_than(pieces: &[Piece<'_>], limit: u32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let headings = pieces.iter().filter(|piece| piece.headed).count();
    let texts: Vec<&Text<'_>> = pieces
        .iter()
        .flat_map(|piece| &piece.content.parts)
        .filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Image(..) | Part::File(..) => None,
        })
        .collect();
    let between = headings * (HEADING.len() + 1) + texts.len().saturating_sub(1) * 2;
    // A character has at least a byte, so that most messages are not counted.
    let bytes: usize = texts.iter().map(|text| text.escaped().len()).sum();
    let characters = || -> usize {
        let counts = texts.iter().map(|text| text.decoded().chars().count());
        counts.sum()
    };
    bytes + between > limit && characters() + between > limit
}

/// The first `limit` characters, and the rest.
fn split(text: &str, limit: usize) -> (&str, &str) {
    text.char_indices()
        .nth(limit.max(1))
        .and_then(|(at, _)| text.split_at_checked(at))
        .unwrap_or((text, ""))
}
