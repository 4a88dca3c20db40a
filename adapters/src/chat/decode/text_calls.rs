//! Tool calls inside the text, as `<tool_call>{"name":…,"arguments":…}</tool_call>`
//! or with further tags inside ([`xml_call`]).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::arguments_text;
use super::{tags, xml_call};
use crate::json;

const OPENING: &str = "<tool_call>";
const CLOSING: &str = "</tool_call>";

/// The most bytes between the tags.
pub(super) const MAX_CALL_BYTES: usize = 8 << 20;

/// Finds calls in the text. Holds back text that may be a tag, and a call until it
/// is complete.
#[derive(Debug, Default)]
pub(super) struct TextCallParser {
    enabled: bool,
    inside: bool,
    held: String,
    /// The bytes of `held` that have been searched for the closing tag.
    searched: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum TextPiece {
    /// Escaped.
    Text(String),
    Call {
        name: String,
        /// Escaped.
        arguments: String,
    },
}

impl TextCallParser {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Whether this text cannot contain or continue a call, so that it needs no
    /// parsing.
    pub(super) fn is_plain_text(&self, escaped: &str) -> bool {
        !self.enabled
            || (!self.inside
                && self.held.is_empty()
                && !escaped.contains('<')
                && !escaped.contains("\\u003"))
    }

    /// Reads more text.
    pub(super) fn push(&mut self, escaped: &str) -> Vec<TextPiece> {
        let mut pieces = Vec::new();
        self.held.push_str(&tags::unescape_tag_chars(escaped));
        // What precedes this is done. It is removed once, so that a piece with many calls costs no
        // more than one of the same length.
        let mut done = 0;
        loop {
            if !self.inside {
                let rest = self.held.get(done..).unwrap_or_default();
                let Some((text, after)) = tags::split_at_tag(rest, &[OPENING]) else {
                    let (text, end) = tags::split_partial_tag(rest, &[OPENING]);
                    add_text(&mut pieces, text);
                    done = self.held.len() - end.len();
                    break;
                };
                add_text(&mut pieces, text);
                done = self.held.len() - after.len();
                self.inside = true;
                self.searched = done;
            }
            let news = self.held.get(self.searched..).unwrap_or_default();
            let Some(at) = news.find(CLOSING) else {
                let end = self.held.len().saturating_sub(CLOSING.len());
                self.searched = self.held.floor_char_boundary(end).max(done);
                break;
            };
            let body = self.searched + at;
            let inside = self.held.get(done..body).unwrap_or_default();
            pieces.push(
                parse_call(inside)
                    .unwrap_or_else(|| TextPiece::Text(format!("{OPENING}{inside}{CLOSING}"))),
            );
            done = body + CLOSING.len();
            self.inside = false;
        }
        self.held.drain(..done);
        self.searched = self.searched.saturating_sub(done);
        if self.inside && self.held.len() > MAX_CALL_BYTES {
            pieces.extend(self.finish());
        }
        pieces
    }

    /// Ends the text and returns what is still held. A complete call may lack its
    /// closing tag.
    pub(super) fn finish(&mut self) -> Option<TextPiece> {
        let held = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.inside) {
            return parse_call(&held).or_else(|| Some(TextPiece::Text(format!("{OPENING}{held}"))));
        }
        (!held.is_empty()).then_some(TextPiece::Text(held))
    }
}

fn add_text(pieces: &mut Vec<TextPiece>, text: &str) {
    if !text.is_empty() {
        pieces.push(TextPiece::Text(text.to_owned()));
    }
}

/// Parses the call between two tags.
fn parse_call(escaped: &str) -> Option<TextPiece> {
    #[derive(Deserialize)]
    struct TaggedCall<'a> {
        name: String,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let text = json::unescape(escaped);
    if let Some((name, arguments)) = xml_call::parse(&text) {
        let arguments = json::escape(&arguments);
        return Some(TextPiece::Call { name, arguments });
    }
    let call: TaggedCall<'_> = serde_json::from_str(text.trim()).ok()?;
    let arguments = call.arguments.map(arguments_text);
    (!call.name.is_empty()).then_some(TextPiece::Call {
        name: call.name,
        arguments: arguments.map_or_else(String::new, |text| text.escaped().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and calls in a short notation.
    fn decoded(chunks: &[&str]) -> String {
        let mut calls = TextCallParser::new(true);
        let mut pieces = Vec::new();
        for chunk in chunks {
            if calls.is_plain_text(chunk) {
                pieces.push(TextPiece::Text((*chunk).to_owned()));
            } else {
                pieces.extend(calls.push(chunk));
            }
        }
        pieces.extend(calls.finish());
        let decoded = pieces.into_iter().map(|piece| match piece {
            TextPiece::Text(text) => json::unescape(&text).into_owned(),
            TextPiece::Call { name, arguments } => {
                format!("[{name} {}]", json::unescape(&arguments))
            }
        });
        decoded.collect()
    }

    #[test]
    fn calls_are_found_wherever_the_text_is_split() {
        for (text, expected) in [
            (
                "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"漢 \\\"q\\\"\"}}\n</tool_call> b",
                "a [f {\"x\": \"漢 \\\"q\\\"\"}] b",
            ),
            (
                "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>",
                "[f {\"x\":1}][g ]",
            ),
            ("<tool_call>{\"name\":\"f\",\"arguments\":{}}", "[f {}]"),
            (
                "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
                "[f {\"x\":1}]",
            ),
            ("a < b <tool", "a < b <tool"),
            ("<tool_call>no</tool_call>.", "<tool_call>no</tool_call>."),
            ("<tool_call>{\"name\"", "<tool_call>{\"name\""),
        ] {
            let escaped = json::escape(text);
            assert_eq!(decoded(&[&escaped]), expected);
            for (left, right) in tags::splits(&escaped) {
                assert_eq!(decoded(&[left, right]), expected, "{left} | {right}");
            }
        }
    }
}
