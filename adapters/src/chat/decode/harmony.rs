//! Answers in the Harmony format of the gpt-oss models, which a server passed on without reading
//! them: messages `<|start|>assistant<|channel|>final<|message|>…<|end|>`, where the channel
//! `analysis` is reasoning and a recipient, `to=functions.NAME`, makes a call of it
//! (<https://cookbook.openai.com/articles/openai-harmony>).

use super::tags;
use super::text_calls::MAX_CALL_BYTES;
use super::think::ThinkPiece;

/// What such an answer begins with.
pub(super) const OPENING: [&str; 2] = ["<|channel|>", "<|start|>"];

const TOKENS: [&str; 7] = [
    "<|start|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
];

/// The most bytes of the header of a message. A longer one is text about the format.
const MAX_HEADER: usize = 300;

/// Reads the messages of an answer. Holds back text that may be a token, and a call until it is
/// complete.
#[derive(Debug, Default)]
pub(super) struct HarmonyParser {
    held: String,
    part: HarmonyPart,
    /// Text was passed on. The text of another message is a new paragraph.
    has_text: bool,
}

#[derive(Debug, Default)]
enum HarmonyPart {
    /// Before or after a message.
    #[default]
    Outside,
    /// In a header, as it was written.
    Header(String),
    Text,
    Reasoning,
    /// In the arguments of a call.
    Call {
        name: String,
        arguments: String,
    },
}

impl HarmonyParser {
    /// Reads more text, escaped.
    pub(super) fn push(&mut self, escaped: &str, pieces: &mut Vec<ThinkPiece>) {
        self.held.push_str(escaped);
        let text = std::mem::take(&mut self.held);
        let mut rest = text.as_str();
        while let Some((before, from_token)) = split_before_bracket(rest) {
            if let Some(token) = TOKENS.iter().find(|token| from_token.starts_with(**token)) {
                self.add(before, pieces);
                self.read_token(token, pieces);
                rest = from_token.get(token.len()..).unwrap_or_default();
            } else if TOKENS.iter().any(|token| token.starts_with(from_token)) {
                self.add(before, pieces);
                from_token.clone_into(&mut self.held);
                return;
            } else {
                self.add(before, pieces);
                self.add("<", pieces);
                rest = from_token.get(1..).unwrap_or_default();
            }
        }
        self.add(rest, pieces);
    }

    /// Ends the text. A call that is cut off is passed on as it is.
    pub(super) fn finish(&mut self, pieces: &mut Vec<ThinkPiece>) {
        let held = std::mem::take(&mut self.held);
        self.add(&held, pieces);
        self.end_part(pieces);
    }

    fn read_token(&mut self, token: &str, pieces: &mut Vec<ThinkPiece>) {
        match (token, &mut self.part) {
            ("<|message|>", HarmonyPart::Header(header)) => {
                self.part = read_header(header);
                if self.has_text && matches!(self.part, HarmonyPart::Text) {
                    self.add("\\n\\n", pieces);
                }
            }
            ("<|channel|>" | "<|constrain|>", HarmonyPart::Header(header)) => {
                header.push_str(token);
            }
            ("<|start|>" | "<|channel|>", _) => {
                self.end_part(pieces);
                self.part = HarmonyPart::Header(token.to_owned());
            }
            _ => self.end_part(pieces),
        }
    }

    /// Adds text to the part that is open.
    fn add(&mut self, escaped: &str, pieces: &mut Vec<ThinkPiece>) {
        if escaped.is_empty() {
            return;
        }
        match &mut self.part {
            HarmonyPart::Outside if tags::trim_start(escaped, true).is_empty() => {}
            HarmonyPart::Outside | HarmonyPart::Text => {
                self.has_text = true;
                match pieces.last_mut() {
                    Some(ThinkPiece::Text(text)) => text.push_str(escaped),
                    _ => pieces.push(ThinkPiece::Text(escaped.to_owned())),
                }
            }
            HarmonyPart::Reasoning => match pieces.last_mut() {
                Some(ThinkPiece::Reasoning(text)) => text.push_str(escaped),
                _ => pieces.push(ThinkPiece::Reasoning(escaped.to_owned())),
            },
            HarmonyPart::Call { arguments, .. } => {
                arguments.push_str(escaped);
                if arguments.len() > MAX_CALL_BYTES {
                    self.end_part(pieces);
                }
            }
            HarmonyPart::Header(header) => {
                header.push_str(escaped);
                if header.len() > MAX_HEADER {
                    self.end_part(pieces);
                    self.part = HarmonyPart::Text;
                }
            }
        }
    }

    fn end_part(&mut self, pieces: &mut Vec<ThinkPiece>) {
        match std::mem::take(&mut self.part) {
            HarmonyPart::Outside | HarmonyPart::Text | HarmonyPart::Reasoning => {}
            HarmonyPart::Header(header) => pieces.push(ThinkPiece::Text(header)),
            HarmonyPart::Call { name, arguments } => {
                pieces.push(ThinkPiece::Call { name, arguments });
            }
        }
    }
}

fn split_before_bracket(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(text.find('<')?)
}

/// The part that follows a header.
fn read_header(header: &str) -> HarmonyPart {
    let header = header
        .replace("<|", " ")
        .replace("|>", " ")
        .replace("\\n", " ");
    let recipient = header
        .split_whitespace()
        .find_map(|word| word.strip_prefix("to="));
    let is_channel = |channel| header.split_whitespace().any(|word| word == channel);
    match recipient {
        Some(name) if !is_built_in(name) => HarmonyPart::Call {
            name: name.strip_prefix("functions.").unwrap_or(name).to_owned(),
            arguments: String::new(),
        },
        // The code of a tool that is not run here.
        Some(_) => HarmonyPart::Reasoning,
        None if is_channel("analysis") => HarmonyPart::Reasoning,
        None => HarmonyPart::Text,
    }
}

/// Whether a recipient is one that the format itself knows.
fn is_built_in(recipient: &str) -> bool {
    let namespace = recipient.split('.').next().unwrap_or_default();
    matches!(
        namespace,
        "python" | "browser" | "container" | "assistant" | "user" | "all"
    )
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::json;

    /// Text as it is, reasoning in brackets and calls in parentheses.
    fn decoded(chunks: &[&str]) -> String {
        let mut parser = HarmonyParser::default();
        let mut pieces = Vec::new();
        for chunk in chunks {
            let mut new = Vec::new();
            parser.push(chunk, &mut new);
            pieces.extend(new);
        }
        parser.finish(&mut pieces);
        let mut decoded = String::new();
        for piece in pieces {
            match piece {
                ThinkPiece::Text(text) => decoded.push_str(&text),
                ThinkPiece::Reasoning(text) => {
                    let open = decoded.strip_suffix(']').map(str::to_owned);
                    decoded = open.unwrap_or(decoded + "[") + &text + "]";
                }
                ThinkPiece::Call { name, arguments } => {
                    write!(decoded, "({name} {arguments})").unwrap();
                }
                ThinkPiece::Repeated | ThinkPiece::TextWasReasoning => {}
            }
        }
        json::unescape(&decoded).into_owned()
    }

    #[test]
    fn messages_are_read_wherever_they_are_split() {
        for (text, expected) in [
            (
                "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>",
                "(get_weather {\"city\":\"Oslo\"})",
            ),
            (
                "<|channel|>analysis<|message|>I look <b>.<|end|><|start|>assistant<|channel|>final<|message|>Hi <there\nyou<|return|>",
                "[I look <b>.]Hi <there\nyou",
            ),
            (
                "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
                "I look.\n\nDone.",
            ),
            // The recipient may come before the channel, and the end may be missing.
            (
                "<|start|>assistant to=functions.mail.send<|channel|>commentary\n<|message|>{}<|start|>assistant<|channel|>commentary<|message|>I wait.",
                "(mail.send {})I wait.",
            ),
            (
                "<|channel|>commentary to=look<|message|>{\"a\":",
                "(look {\"a\":)",
            ),
            // Tools of the format itself are not the client's.
            (
                "<|channel|>analysis to=python code<|message|>1+1<|call|>",
                "[1+1]",
            ),
            ("<|channel|> is a token.", "<|channel|> is a token."),
        ] {
            let escaped = json::escape(text);
            assert_eq!(decoded(&[&escaped]), expected);
            for (left, right) in tags::splits(&escaped) {
                assert_eq!(decoded(&[left, right]), expected, "{left} | {right}");
            }
        }
        let prose = format!("<|start|>{}", "x".repeat(2 * MAX_HEADER));
        assert_eq!(decoded(&[&prose, "<|message|>y"]), prose + "y");
    }
}
