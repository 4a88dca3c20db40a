//! The text input of a custom tool. A provider has function tools only and sends it as
//! `{"input": "…"}`; this module takes the text out of the arguments.

use serde_json::{Map, Value};

use super::super::patch;
use crate::arguments::{ArgumentsReading, ArgumentsScan, is_json_like, strip_remains};
use crate::json;

/// Takes the text out while the arguments still arrive. Models that write invalid JSON put
/// unescaped line ends and single backslashes into the string; both are kept as text.
#[derive(Debug, Default)]
pub(super) struct InputExtractor {
    state: ExtractorState,
    /// How many of [`HEAD_TOKENS`] were read.
    head_tokens: usize,
    /// The beginning of the next of them, which is split between two pieces.
    head: String,
    /// The beginning of an escape that is split between two pieces.
    escape: String,
    /// The escape of a high surrogate that waits for the low one.
    high_surrogate: String,
    /// The rest of the piece in which the text ended.
    after_text: String,
}

#[derive(Debug, Default, PartialEq)]
enum ExtractorState {
    #[default]
    BeforeText,
    InText,
    /// After the text, or the arguments do not have the expected form: the input is taken
    /// from the complete arguments at the end.
    Done,
}

impl InputExtractor {
    /// Takes the next piece of the arguments and returns the next piece of the text, as the
    /// content of a JSON string. Escapes are never split.
    pub(super) fn push(&mut self, json: &str) -> String {
        let mut rest = json;
        let joined;
        if self.state == ExtractorState::BeforeText {
            joined = std::mem::take(&mut self.head) + json;
            match read_head(&joined, &mut self.head_tokens) {
                InputStart::Incomplete(unread) => {
                    unread.clone_into(&mut self.head);
                    return String::new();
                }
                InputStart::Other => {
                    self.state = ExtractorState::Done;
                    return String::new();
                }
                InputStart::At(text) => {
                    self.state = ExtractorState::InText;
                    rest = text;
                }
            }
        }
        let mut out = String::new();
        let mut rest = rest.chars();
        while self.state == ExtractorState::InText
            && let Some(c) = rest.next()
        {
            self.push_char(c, &mut out);
        }
        if self.state == ExtractorState::Done {
            self.after_text.push_str(rest.as_str());
        }
        out
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if !self.escape.is_empty() {
            if self.escape == "\\" && matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') {
                self.replace_high_surrogate(out);
                self.escape.push(c);
                out.push_str(&std::mem::take(&mut self.escape));
                return;
            }
            if (self.escape == "\\" && c == 'u') || (self.escape != "\\" && c.is_ascii_hexdigit()) {
                self.escape.push(c);
                if self.escape.len() == 6 {
                    self.push_unicode_escape(out);
                }
                return;
            }
            // Not a valid escape, so the backslash is part of the text.
            self.replace_high_surrogate(out);
            out.push('\\');
            out.push_str(&std::mem::take(&mut self.escape));
        }
        if c == '\\' {
            self.escape.push(c);
            return;
        }
        self.replace_high_surrogate(out);
        match c {
            '"' => self.state = ExtractorState::Done,
            '\0'..='\x1f' => out.push_str(&json::escape(c.encode_utf8(&mut [0; 4]))),
            _ => out.push(c),
        }
    }

    /// Handles a complete `\uXXXX` escape.
    fn push_unicode_escape(&mut self, out: &mut String) {
        let unit = std::mem::take(&mut self.escape);
        if json::is_high_surrogate(&unit, 0) {
            self.replace_high_surrogate(out);
            self.high_surrogate = unit;
        } else if json::find_lone_surrogate(&unit).is_none() {
            self.replace_high_surrogate(out);
            out.push_str(&unit);
        } else if self.high_surrogate.is_empty() {
            out.push_str("\\ufffd");
        } else {
            out.push_str(&std::mem::take(&mut self.high_surrogate));
            out.push_str(&unit);
        }
    }

    /// Writes U+FFFD for a high surrogate that no low one follows.
    fn replace_high_surrogate(&mut self, out: &mut String) {
        if !self.high_surrogate.is_empty() {
            self.high_surrogate.clear();
            out.push_str("\\ufffd");
        }
    }
}

/// What precedes the text of `input`; white space may be before each.
const HEAD_TOKENS: [&str; 4] = ["{", "\"input\"", ":", "\""];

/// Where the text of `input` begins.
enum InputStart<'j> {
    /// More arguments are needed to decide; this is the beginning of a token.
    Incomplete(&'j str),
    /// The text begins here.
    At(&'j str),
    /// The arguments do not begin with `{"input":"`.
    Other,
}

/// Reads what precedes the text, from the token with the number `tokens` on.
fn read_head<'j>(json: &'j str, tokens: &mut usize) -> InputStart<'j> {
    let mut rest = json.trim_start();
    while let Some(token) = HEAD_TOKENS.get(*tokens) {
        match rest.strip_prefix(token) {
            // The text itself may begin with white space.
            Some(after) if *tokens + 1 == HEAD_TOKENS.len() => rest = after,
            Some(after) => rest = after.trim_start(),
            None if token.starts_with(rest) => return InputStart::Incomplete(rest),
            None => return InputStart::Other,
        }
        *tokens += 1;
    }
    InputStart::At(rest)
}

/// The text of a custom tool in whole arguments, escaped, and notes of what was repaired.
pub(super) struct WholeInput {
    pub(super) text: String,
    pub(super) notes: Vec<(&'static str, String)>,
}

impl WholeInput {
    /// Reads all the arguments of a call of `tool`, escaped. A patch is repaired.
    pub(super) fn read(
        escaped: &str,
        scan: &mut ArgumentsScan,
        tool: &str,
        is_patch: bool,
    ) -> Self {
        let input = complete_input(&json::unescape(escaped), &scan.reading(escaped));
        let mut notes = Vec::new();
        if input.repaired {
            notes.push(("arguments_repaired", tool.to_owned()));
        }
        let repaired = is_patch.then(|| patch::repair(&input.text, input.is_closed));
        let text = match repaired.flatten() {
            Some(repaired) => {
                notes.push(("patch_repaired", repaired.notes.join(", ")));
                json::escape(&repaired.text)
            }
            None => json::escape(&input.text),
        };
        Self { text, notes }
    }
}

/// The text in whole arguments: the value of `input`, else the only string value. A model that
/// ignores the schema writes the plain text, in which case the arguments are the text.
fn complete_input(arguments: &str, reading: &ArgumentsReading<'_>) -> CompleteInput {
    let (found, repaired) = match reading {
        ArgumentsReading::Whole { document, repaired } => {
            (input_of_document(&json::unescape(document)), *repaired)
        }
        ArgumentsReading::Blank | ArgumentsReading::Open | ArgumentsReading::Unreadable => {
            (input_from_invalid_json(arguments), false)
        }
    };
    CompleteInput {
        repaired: repaired && found.is_some(),
        is_closed: found.is_some(),
        text: found.unwrap_or_else(|| arguments.to_owned()),
    }
}

/// The text of a custom tool.
struct CompleteInput {
    text: String,
    /// Whether something was taken away around the arguments.
    repaired: bool,
    /// Whether its end is known from the JSON around it.
    is_closed: bool,
}

/// The text in arguments that broke off. Empty if they end before the text begins.
pub(super) fn partial_input(arguments: &str) -> String {
    match read_head(arguments, &mut 0) {
        InputStart::Incomplete(_) => String::new(),
        InputStart::At(_) => {
            let text = InputExtractor::default().push(arguments);
            json::unescape(&text).into_owned()
        }
        InputStart::Other => input_of_document(arguments).unwrap_or_else(|| arguments.to_owned()),
    }
}

/// Whether this escaped text of a custom tool, which takes any text, is arguments without their
/// end.
pub(super) fn is_cut(escaped: &str, scan: &mut ArgumentsScan) -> bool {
    scan.is_open(escaped) && is_json_like(&json::unescape(escaped))
}

fn input_of_document(document: &str) -> Option<String> {
    match serde_json::from_str(document).ok()? {
        Value::Object(object) => match object.get("input") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) => Some(String::new()),
            Some(other) => Some(other.to_string()),
            None if object.is_empty() => Some(String::new()),
            None => only_string(&object),
        },
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn only_string(object: &Map<String, Value>) -> Option<String> {
    let mut strings = object.values().filter_map(Value::as_str);
    match (strings.next(), strings.next()) {
        (Some(text), None) if object.len() == 1 => Some(text.to_owned()),
        _ => None,
    }
}

/// The text of arguments that are not valid JSON, because they were written without escapes. `None`
/// if it has no end, or more than the closing brace follows it, because then the end is ambiguous.
fn input_from_invalid_json(arguments: &str) -> Option<String> {
    let mut extractor = InputExtractor::default();
    let text = extractor.push(arguments);
    let after_text = extractor.after_text.trim_start();
    let is_closed = extractor.state == ExtractorState::Done && !text.is_empty();
    let unambiguous =
        is_closed && after_text.starts_with('}') && strip_remains(after_text).is_empty();
    unambiguous.then(|| json::unescape(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_for_every_split() {
        let text = "say \"hi\"\\\n\ttab 漢 \u{1F600} \u{7}";
        let plain = serde_json::json!({ "input": text }).to_string();
        let loose = plain.replace("\\n", "\n").replace("\\t", "\t");
        let ascii = plain.replace('\u{1F600}', "\\ud83d\\ude00");
        for json in [plain.clone(), plain.replace("{\"", "{ \n\""), ascii, loose] {
            for cut in (0..=json.len()).filter(|at| json.is_char_boundary(*at)) {
                let mut extractor = InputExtractor::default();
                let (a, b) = (json.get(..cut).unwrap(), json.get(cut..).unwrap());
                let parts = [extractor.push(a), extractor.push(b)];
                for part in &parts {
                    assert!(
                        serde_json::from_str::<String>(&format!("\"{part}\"")).is_ok(),
                        "{part}"
                    );
                }
                assert_eq!(json::unescape(&parts.concat()), text, "cut at {cut}");
            }
            assert_eq!(complete(&json), text);
        }
    }

    fn complete(arguments: &str) -> String {
        let escaped = json::escape(arguments);
        complete_input(arguments, &ArgumentsScan::default().reading(&escaped)).text
    }

    #[test]
    fn arguments_of_other_forms_keep_their_text() {
        for (arguments, text) in [
            (r#"{"patch":"a"}"#, "a"),
            (r#""bare""#, "bare"),
            ("plain text", "plain text"),
            (r#"{"input":7}"#, "7"),
            (r#"{"a":"x","b":"y"}"#, r#"{"a":"x","b":"y"}"#),
            ("{}", ""),
            (r#"{"input":null}"#, ""),
            ("{ a: 1 }", "{ a: 1 }"),
            (r#"{"a":1}{"a":1}"#, r#"{"a":1}{"a":1}"#),
            (r#"{"input":"x"}{"input":"x"}"#, "x"),
            (r#"{{"input":"x"}}"#, "x"),
            (r#""{\"input\":\"x\"}""#, "x"),
            ("```json\n{\"input\":\"x\"}\n```", "x"),
            ("{\"input\":\"raw\nline\"}\n</tool_call>", "raw\nline"),
            (
                "{\"input\":\"raw\nline \\\"q\\\" \\\\ end\"}",
                "raw\nline \"q\" \\ end",
            ),
            (r#"{"input":"\d+ \u12 C:\users"}"#, r"\d+ \u12 C:\users"),
            (r#"{"input":"say "hi" now"}"#, r#"{"input":"say "hi" now"}"#),
        ] {
            assert_eq!(complete(arguments), text);
        }
        for beginning in ["", "{", "{ \"inp", "{\"input\": "] {
            assert_eq!(partial_input(beginning), "");
        }
        assert_eq!(partial_input("{\"input\":\"cut of"), "cut of");
        assert_eq!(partial_input("plain"), "plain");
    }
}
