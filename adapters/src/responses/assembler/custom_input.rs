//! A custom tool's text travels as `{"input": "…"}`; here it is taken out.

use serde_json::{Map, Value};

use crate::json;

/// Takes the text out while the arguments still come. Models that write JSON
/// freely put raw line ends and lone backslashes into it; both are kept as the
/// text they mean.
#[derive(Debug, Default)]
pub(super) struct InputExtractor {
    state: ExtractorState,
    /// The arguments so far, as far as they decide the state.
    head: String,
    /// The beginning of an escape that was cut.
    escape: String,
    /// The escape of a first surrogate, which waits for the second.
    half: String,
    /// What stood behind the text in the piece that ended it.
    behind: String,
}

#[derive(Debug, Default, PartialEq)]
enum ExtractorState {
    /// Before the text.
    #[default]
    Head,
    Text,
    /// Behind the text, or the form is another one: the rest is told at the
    /// end.
    Over,
}

impl InputExtractor {
    /// Takes more JSON text and returns more of the tool's text, as the inside
    /// of a JSON string. No escape is cut.
    pub(super) fn push(&mut self, json: &str) -> String {
        let mut rest = json;
        let joined;
        if self.state == ExtractorState::Head {
            self.head.push_str(json);
            match text_start(&self.head) {
                InputStart::Unknown => return String::new(),
                InputStart::Other => {
                    self.state = ExtractorState::Over;
                    return String::new();
                }
                InputStart::At(at) => {
                    self.state = ExtractorState::Text;
                    joined = self.head.split_off(at);
                    rest = &joined;
                }
            }
        }
        let mut out = String::new();
        let mut rest = rest.chars();
        while self.state == ExtractorState::Text
            && let Some(c) = rest.next()
        {
            self.push_char(c, &mut out);
        }
        if self.state == ExtractorState::Over {
            self.behind.push_str(rest.as_str());
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
            // No escape: the backslash means itself.
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
            '"' => self.state = ExtractorState::Over,
            '\0'..='\x1f' => out.push_str(&json::escape(c.encode_utf8(&mut [0; 4]))),
            _ => out.push(c),
        }
    }

    /// Takes a `\uXXXX` that is whole.
    fn push_unicode_escape(&mut self, out: &mut String) {
        let unit = std::mem::take(&mut self.escape);
        if json::is_high_surrogate(&unit, 0) {
            self.replace_high_surrogate(out);
            self.half = unit;
        } else if json::find_lone_surrogate(&unit).is_none() {
            self.replace_high_surrogate(out);
            out.push_str(&unit);
        } else if self.half.is_empty() {
            out.push_str("\\ufffd");
        } else {
            out.push_str(&std::mem::take(&mut self.half));
            out.push_str(&unit);
        }
    }

    /// A first surrogate without its second is no character.
    fn replace_high_surrogate(&mut self, out: &mut String) {
        if !self.half.is_empty() {
            self.half.clear();
            out.push_str("\\ufffd");
        }
    }
}

enum InputStart {
    Unknown,
    At(usize),
    Other,
}

/// Where the text of `input` begins.
fn text_start(head: &str) -> InputStart {
    let mut rest = head;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return InputStart::Unknown,
            None => return InputStart::Other,
        }
    }
    InputStart::At(head.len() - rest.len())
}

/// The text in whole arguments: `input`, else the only string there is, else
/// the arguments themselves: a model that ignores the form means the text.
pub(super) fn complete_input(arguments: &str) -> String {
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(arguments) else {
        return match serde_json::from_str::<Value>(arguments) {
            Ok(Value::String(text)) => text,
            _ => input_from_invalid_json(arguments).unwrap_or_else(|| arguments.to_owned()),
        };
    };
    match object.get("input") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => only_string(&object).unwrap_or_else(|| arguments.to_owned()),
    }
}

/// The text in arguments that broke off: less of the form than its beginning
/// holds no text yet.
pub(super) fn partial_input(arguments: &str) -> String {
    match text_start(arguments) {
        InputStart::Unknown => String::new(),
        InputStart::At(_) | InputStart::Other => complete_input(arguments),
    }
}

fn only_string(object: &Map<String, Value>) -> Option<String> {
    let mut strings = object.values().filter_map(Value::as_str);
    match (strings.next(), strings.next()) {
        (Some(text), None) if object.len() == 1 => Some(text.to_owned()),
        _ => None,
    }
}

/// The text of arguments that are no JSON: cut, or written without escapes.
/// `None` when more than the closing brace stands behind the text, so that its
/// end is a guess.
fn input_from_invalid_json(arguments: &str) -> Option<String> {
    let mut unwrap = InputExtractor::default();
    let text = unwrap.push(arguments);
    let behind = unwrap.behind.trim();
    let sure = match unwrap.state {
        ExtractorState::Head => false,
        ExtractorState::Text => true,
        ExtractorState::Over => !text.is_empty() && matches!(behind, "" | "}"),
    };
    sure.then(|| json::unescape(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_however_it_is_cut() {
        let text = "say \"hi\"\\\n\ttab 漢 \u{1F600} \u{7}";
        let plain = serde_json::json!({ "input": text }).to_string();
        let loose = plain.replace("\\n", "\n").replace("\\t", "\t");
        let ascii = plain.replace('\u{1F600}', "\\ud83d\\ude00");
        for json in [plain.clone(), plain.replace("{\"", "{ \n\""), ascii, loose] {
            for cut in (0..=json.len()).filter(|at| json.is_char_boundary(*at)) {
                let mut unwrap = InputExtractor::default();
                let (a, b) = (json.get(..cut).unwrap(), json.get(cut..).unwrap());
                let parts = [unwrap.push(a), unwrap.push(b)];
                for part in &parts {
                    assert!(
                        serde_json::from_str::<String>(&format!("\"{part}\"")).is_ok(),
                        "{part}"
                    );
                }
                assert_eq!(json::unescape(&parts.concat()), text, "cut at {cut}");
            }
            assert_eq!(complete_input(&json), text);
        }
    }

    #[test]
    fn other_forms_keep_their_text() {
        for (arguments, text) in [
            (r#"{"patch":"a"}"#, "a"),
            (r#""bare""#, "bare"),
            ("plain text", "plain text"),
            (r#"{"input":7}"#, "7"),
            (r#"{"a":"x","b":"y"}"#, r#"{"a":"x","b":"y"}"#),
            (r#"{"input":"cut of"#, "cut of"),
            (
                "{\"input\":\"raw\nline \\\"q\\\" \\\\ end\"}",
                "raw\nline \"q\" \\ end",
            ),
            (r#"{"input":"\d+ \u12 C:\users"}"#, r"\d+ \u12 C:\users"),
            (r#"{"input":"say "hi" now"}"#, r#"{"input":"say "hi" now"}"#),
        ] {
            assert_eq!(complete_input(arguments), text);
        }
        for beginning in ["", "{", "{ \"inp", "{\"input\": "] {
            assert_eq!(partial_input(beginning), "");
        }
        assert_eq!(partial_input("{\"input\":\"cut of"), "cut of");
        assert_eq!(partial_input("plain"), "plain");
    }
}
