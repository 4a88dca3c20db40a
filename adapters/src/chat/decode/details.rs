//! Collects the pieces of `reasoning_details` into the objects that the provider
//! requires back.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::chunk::scalar;
use crate::event::Fragment;
use crate::json;

/// The most bytes that are collected.
const MAX_BYTES: usize = 4 << 20;

/// The objects so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    list: Vec<DetailObject>,
    /// The last object with each `type` and `index`, see [`join_key`].
    last_places: HashMap<String, usize>,
    size: usize,
    /// More than [`MAX_BYTES`] came; an incomplete list is of no use.
    overflowed: bool,
}

/// One object. Its text grows, so it is kept apart from the other fields.
#[derive(Debug)]
struct DetailObject {
    fields: Map<String, Value>,
    /// The name of the growing field, `text` or `summary`, and its content.
    text: Option<(&'static str, DetailText)>,
}

/// Escaped text that arrives in pieces. `MiniMax` documents that each piece repeats
/// all text so far, but at times it sends only the increment (MiniMax-M2#95); the
/// second piece shows which.
#[derive(Debug, Default)]
pub(super) struct DetailText {
    text: String,
    form: PieceForm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum PieceForm {
    #[default]
    Unknown,
    Increment,
    Cumulative,
}

impl DetailText {
    /// Adds a piece and returns its new part. `repeats` says whether a piece may
    /// repeat the text so far.
    fn add<'p>(&mut self, piece: &'p str, repeats: bool) -> &'p str {
        if self.form == PieceForm::Unknown && !self.text.is_empty() {
            let longer = piece.len() > self.text.len() && piece.starts_with(&self.text);
            self.form = if repeats && longer {
                PieceForm::Cumulative
            } else {
                PieceForm::Increment
            };
        }
        let mut new_text = piece;
        if self.form == PieceForm::Cumulative {
            match piece.strip_prefix(self.text.as_str()) {
                Some(more) => new_text = more,
                // Another text begins.
                None => self.text.clear(),
            }
        }
        self.text.push_str(new_text);
        new_text
    }
}

/// The new text to show from a `reasoning_details` array; `before` holds what has
/// been shown.
pub(super) fn visible_text<'a>(raw: &'a RawValue, before: &mut DetailText) -> Vec<Fragment<'a>> {
    #[derive(Deserialize)]
    struct VisibleDetail<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        summary: Option<&'a RawValue>,
        format: Option<&'a RawValue>,
    }
    json::list::<VisibleDetail<'a>>(Some(raw))
        .into_iter()
        .filter_map(|detail| {
            let text = [detail.text, detail.summary]
                .into_iter()
                .find_map(|raw| json::unquote(raw?.get()).filter(|text| !text.is_empty()))?;
            Some(before.add(text, may_repeat(&scalar(detail.format))))
        })
        .filter(|new_text| !new_text.is_empty())
        .map(Fragment::from_escaped)
        .collect()
}

/// Whether pieces of this format may repeat the text so far. The `format` of the
/// piece decides, whichever gateway it came through: signed text of other formats
/// must not be changed.
fn may_repeat(format: &str) -> bool {
    format.is_empty() || format.starts_with("MiniMax")
}

impl ReasoningDetails {
    /// Adds an array of pieces. Pieces with the same `index` and `type` form one
    /// object; encrypted ones arrive complete.
    pub(super) fn push(&mut self, raw: &RawValue) {
        if self.overflowed || raw.get() == "[]" {
            return;
        }
        self.size += raw.get().len();
        if self.size > MAX_BYTES {
            self.list.clear();
            self.last_places.clear();
            self.overflowed = true;
            return;
        }
        for piece in json::list::<&RawValue>(Some(raw)) {
            self.push_piece(piece);
        }
    }

    fn push_piece(&mut self, raw: &RawValue) {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(raw.get()) else {
            return;
        };
        let text = ["text", "summary"].into_iter().find_map(|name| {
            let text = fields.get(name)?.as_str()?;
            Some((name, json::escape(text)))
        });
        if let Some((name, _)) = &text {
            // It keeps its place among the fields.
            fields.insert((*name).to_owned(), Value::Null);
        }
        let joined = match self.list.last() {
            Some(last) if has_same_key(&last.fields, &fields) => Some(self.list.len() - 1),
            _ => self.last_places.get(&join_key(&fields)).copied(),
        };
        let is_encrypted = fields.contains_key("data");
        match joined.and_then(|place| self.list.get_mut(place)) {
            Some(known) if !is_encrypted => known.merge(fields, text),
            Some(known) if known.fields == fields => {}
            _ => {
                let text = text.map(|(name, text)| {
                    let form = PieceForm::Unknown;
                    (name, DetailText { text, form })
                });
                self.last_places.insert(join_key(&fields), self.list.len());
                self.list.push(DetailObject { fields, text });
            }
        }
    }

    /// Removes all objects and returns them as JSON, separated by commas; `None` if
    /// there are none. The second value says whether there were too many.
    pub(super) fn take(&mut self) -> (Option<String>, bool) {
        let details = std::mem::take(self);
        let mut out = String::new();
        for detail in &details.list {
            if !out.is_empty() {
                out.push(',');
            }
            detail.push_json(&mut out);
        }
        ((!out.is_empty()).then_some(out), details.overflowed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.overflowed
    }
}

/// The fields that pieces of one object have in common.
const KEY: [&str; 2] = ["type", "index"];

fn has_same_key(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    KEY.iter().all(|name| one.get(*name) == other.get(*name))
}

/// The values of [`KEY`] as JSON.
fn join_key(fields: &Map<String, Value>) -> String {
    let values = KEY.map(|name| fields.get(name).map(Value::to_string));
    values.map(Option::unwrap_or_default).join(",")
}

impl DetailObject {
    /// Adds a later piece: its text is appended, and its other fields replace
    /// earlier ones unless they are null.
    fn merge(&mut self, fields: Map<String, Value>, text: Option<(&'static str, String)>) {
        if let Some((name, more)) = text {
            let format = fields.get("format").and_then(Value::as_str);
            let (_, known) = self
                .text
                .get_or_insert_with(|| (name, DetailText::default()));
            known.add(&more, may_repeat(format.unwrap_or_default()));
        }
        for (name, value) in fields {
            if !value.is_null() || !self.fields.contains_key(&name) {
                self.fields.insert(name, value);
            }
        }
    }

    fn push_json(&self, out: &mut String) {
        let mut separator = '{';
        for (name, value) in &self.fields {
            let _ = write!(out, "{separator}\"{}\":", json::escape(name));
            separator = ',';
            match &self.text {
                Some((field, text)) if field == name => {
                    let _ = write!(out, "\"{}\"", text.text);
                }
                _ => out.push_str(&value.to_string()),
            }
        }
        if separator == '{' {
            out.push('{');
        }
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(chunks: &[&str]) -> String {
        let mut details = ReasoningDetails::default();
        for chunk in chunks {
            details.push(serde_json::from_str(chunk).unwrap());
        }
        details.take().0.unwrap_or_default()
    }

    #[test]
    fn pieces_of_one_index_and_type_are_one_object() {
        assert_eq!(
            joined(&[
                r#"[{"type":"reasoning.text","text":"a\n","format":"f","index":0}]"#,
                r#"[{"type":"reasoning.text","text":"b","signature":null,"format":null,"index":0}]"#,
                r#"[{"type":"reasoning.text","signature":"s","format":"f","index":0},{"type":"reasoning.text","text":"c","index":1}]"#,
            ]),
            r#"{"type":"reasoning.text","text":"a\nb","format":"f","index":0,"signature":"s"},{"type":"reasoning.text","text":"c","index":1}"#
        );
        assert_eq!(
            joined(&[
                r#"[{"type":"reasoning.summary","summary":"a","index":0}]"#,
                r#"[{"type":"reasoning.summary","summary":"b","index":0},{"type":"reasoning.encrypted","data":"x","id":"1","index":0}]"#,
                r#"[{"type":"reasoning.encrypted","data":"x","id":"1","index":0},{"type":"reasoning.encrypted","data":"y","id":"2","index":0}]"#,
            ]),
            r#"{"type":"reasoning.summary","summary":"ab","index":0},{"type":"reasoning.encrypted","data":"x","id":"1","index":0},{"type":"reasoning.encrypted","data":"y","id":"2","index":0}"#
        );
    }

    #[test]
    fn pieces_may_repeat_all_so_far() {
        let piece = |format: &str, text: &str| {
            format!(
                r#"[{{"type":"reasoning.text","format":"{format}","index":0,"text":"{text}"}}]"#
            )
        };
        for (format, texts, whole) in [
            ("MiniMax-response-v1", ["a", "a b", "a b", "a bc"], "a bc"),
            ("MiniMax-response-v1", ["a", "b", "ab", "abab"], "abababab"),
            ("MiniMax-response-v1", ["a", "a", "a", "aaa"], "aaaaaa"),
            ("", ["", "a", "ab", "abc"], "abc"),
            ("anthropic-claude-v1", ["a", "a b", "c", "d"], "aa bcd"),
        ] {
            let chunks = texts.map(|text| piece(format, text));
            let kept = joined(&chunks.each_ref().map(String::as_str));
            assert_eq!(format!("[{kept}]"), piece(format, whole));
            let mut before = DetailText::default();
            let shown: String = chunks
                .iter()
                .flat_map(|chunk| visible_text(serde_json::from_str(chunk).unwrap(), &mut before))
                .map(|new_text| new_text.escaped().to_owned())
                .collect();
            assert_eq!(shown, whole);
        }
    }

    #[test]
    fn an_incomplete_list_is_discarded() {
        let large = format!(
            r#"[{{"type":"reasoning.text","text":"{}"}}]"#,
            "a".repeat(MAX_BYTES)
        );
        let mut details = ReasoningDetails::default();
        details.push(serde_json::from_str(r#"[{"type":"reasoning.text","text":"a"}]"#).unwrap());
        details.push(serde_json::from_str(&large).unwrap());
        assert_eq!(details.take(), (None, true));
    }
}
