//! A custom tool's text travels as `{"input": "…"}`; here it is taken out.

use serde_json::{Map, Value};

/// Takes the text out while the arguments still come.
#[derive(Debug, Default)]
pub(super) struct Unwrap {
    state: State,
    /// The arguments so far, as far as they decide the state.
    head: String,
    /// The beginning of an escape that was cut.
    escape: String,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    /// Before the text.
    #[default]
    Head,
    Text,
    /// Behind the text, or the form is another one: the rest is told at the
    /// end.
    Over,
}

impl Unwrap {
    /// Takes more JSON text and returns more of the tool's text, as the inside
    /// of a JSON string. No escape is cut.
    pub(super) fn feed(&mut self, json: &str) -> String {
        let mut rest = json;
        let joined;
        if self.state == State::Head {
            self.head.push_str(json);
            match text_start(&self.head) {
                Start::Unknown => return String::new(),
                Start::Other => {
                    self.state = State::Over;
                    return String::new();
                }
                Start::At(at) => {
                    self.state = State::Text;
                    joined = self.head.split_off(at);
                    rest = &joined;
                }
            }
        }
        let mut out = String::new();
        for c in rest.chars() {
            if self.state == State::Over {
                break;
            }
            if self.escape.len() == 6 && c != '\\' {
                // A first half without its second: not a character.
                out.push_str("\\ufffd");
                self.escape.clear();
            }
            if !self.escape.is_empty() {
                self.escape.push(c);
                if is_whole(&self.escape) {
                    out.push_str(&crate::json::replace_lone_surrogates(&self.escape));
                    self.escape.clear();
                }
            } else if c == '\\' {
                self.escape.push(c);
            } else if c == '"' {
                self.state = State::Over;
            } else {
                out.push(c);
            }
        }
        out
    }
}

/// Whether an escape can be handed out. The first half of a surrogate pair
/// waits for the second.
fn is_whole(escape: &str) -> bool {
    match escape.len() {
        length if !escape.starts_with("\\u") => length >= 2,
        6 => !crate::json::is_high_surrogate(escape, 0),
        8 => !escape.ends_with("\\u"),
        length => length >= 12,
    }
}

enum Start {
    Unknown,
    At(usize),
    Other,
}

/// Where the text of `input` begins.
fn text_start(head: &str) -> Start {
    let mut rest = head;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return Start::Unknown,
            None => return Start::Other,
        }
    }
    Start::At(head.len() - rest.len())
}

/// The text in whole arguments: `input`, else the only string there is, else
/// the arguments themselves: a model that ignores the form means the text.
pub(super) fn input(arguments: &str) -> String {
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(arguments) else {
        return match serde_json::from_str::<Value>(arguments) {
            Ok(Value::String(text)) => text,
            _ => cut_input(arguments).unwrap_or_else(|| arguments.to_owned()),
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
pub(super) fn input_so_far(arguments: &str) -> String {
    match text_start(arguments) {
        Start::Unknown => String::new(),
        Start::At(_) | Start::Other => input(arguments),
    }
}

fn only_string(object: &Map<String, Value>) -> Option<String> {
    let mut strings = object.values().filter_map(Value::as_str);
    match (strings.next(), strings.next()) {
        (Some(text), None) if object.len() == 1 => Some(text.to_owned()),
        _ => None,
    }
}

/// The text as far as it came in arguments that were cut.
fn cut_input(arguments: &str) -> Option<String> {
    let mut unwrap = Unwrap::default();
    let text = unwrap.feed(arguments);
    (unwrap.state != State::Head && !(unwrap.state == State::Over && text.is_empty()))
        .then(|| crate::json::unescape(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_however_it_is_cut() {
        let text = "say \"hi\"\\\n\ttab 漢 \u{1F600} \u{7}";
        let plain = serde_json::json!({ "input": text }).to_string();
        let ascii = plain.replace('\u{1F600}', "\\ud83d\\ude00");
        for json in [plain.clone(), plain.replace("{\"", "{ \n\""), ascii] {
            for cut in (0..=json.len()).filter(|at| json.is_char_boundary(*at)) {
                let mut unwrap = Unwrap::default();
                let (a, b) = (json.get(..cut).unwrap(), json.get(cut..).unwrap());
                let parts = [unwrap.feed(a), unwrap.feed(b)];
                for part in &parts {
                    assert!(
                        serde_json::from_str::<String>(&format!("\"{part}\"")).is_ok(),
                        "{part}"
                    );
                }
                assert_eq!(crate::json::unescape(&parts.concat()), text, "cut at {cut}");
            }
            assert_eq!(input(&json), text);
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
        ] {
            assert_eq!(input(arguments), text);
        }
        for beginning in ["", "{", "{ \"inp", "{\"input\": "] {
            assert_eq!(input_so_far(beginning), "");
        }
        assert_eq!(input_so_far("{\"input\":\"cut of"), "cut of");
        assert_eq!(input_so_far("plain"), "plain");
    }
}
