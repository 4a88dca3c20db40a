//! `reasoning_details`: pieces become the objects that the provider wants back.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::chunk::{list, word};
use crate::event::Fragment;
use crate::json;

/// The most bytes that are kept.
const LIMIT: usize = 4 << 20;

/// The objects so far.
#[derive(Debug, Default)]
pub(super) struct Details {
    list: Vec<Detail>,
    size: usize,
    /// More than [`LIMIT`] came: a part is worth nothing.
    over: bool,
}

/// One object. Its text grows, so it is kept apart from the other fields.
#[derive(Debug)]
struct Detail {
    fields: Map<String, Value>,
    /// The field that grows, `text` or `summary`, and its content.
    text: Option<(&'static str, Pieces)>,
}

/// Text in pieces, escaped. `MiniMax` documents pieces that repeat all so far,
/// and sends news alone at times (MiniMax-M2#95): the second piece tells.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    text: String,
    form: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    #[default]
    Unknown,
    News,
    SoFar,
}

impl Pieces {
    /// Adds a piece and returns what is new of it. `repeats` tells whether it
    /// may repeat what was there.
    fn add<'p>(&mut self, piece: &'p str, repeats: bool) -> &'p str {
        if self.form == Form::Unknown && !self.text.is_empty() {
            let longer = piece.len() > self.text.len() && piece.starts_with(&self.text);
            self.form = if repeats && longer {
                Form::SoFar
            } else {
                Form::News
            };
        }
        let mut news = piece;
        if self.form == Form::SoFar {
            match piece.strip_prefix(self.text.as_str()) {
                Some(more) => news = more,
                // Another thought begins.
                None => self.text.clear(),
            }
        }
        self.text.push_str(news);
        news
    }
}

/// The text to be shown of a `reasoning_details` array, behind what was shown.
pub(super) fn shown<'a>(raw: &'a RawValue, before: &mut Pieces) -> Vec<Fragment<'a>> {
    #[derive(Deserialize)]
    struct Shown<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        summary: Option<&'a RawValue>,
        #[serde(borrow)]
        format: Option<&'a RawValue>,
    }
    list::<Shown<'a>>(Some(raw))
        .into_iter()
        .filter_map(|detail| {
            let text = [detail.text, detail.summary]
                .into_iter()
                .find_map(|raw| json::unquote(raw?.get()).filter(|text| !text.is_empty()))?;
            Some(before.add(text, may_repeat(&word(detail.format))))
        })
        .filter(|news| !news.is_empty())
        .map(Fragment::from_escaped)
        .collect()
}

/// Whether pieces of this format may repeat all so far. The format is the piece's
/// own word for its form, whoever passes it on: signed text of the other formats
/// must not be touched.
fn may_repeat(format: &str) -> bool {
    format.is_empty() || format.starts_with("MiniMax")
}

impl Details {
    /// Takes an array of pieces. Pieces of one `index` and `type` are one
    /// object; encrypted ones come whole.
    pub(super) fn push(&mut self, raw: &RawValue) {
        if self.over || raw.get() == "[]" {
            return;
        }
        self.size += raw.get().len();
        if self.size > LIMIT {
            self.list.clear();
            self.over = true;
            return;
        }
        for piece in list::<&RawValue>(Some(raw)) {
            self.piece(piece);
        }
    }

    fn piece(&mut self, raw: &RawValue) {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(raw.get()) else {
            return;
        };
        let text = ["text", "summary"].into_iter().find_map(|name| {
            let text = fields.get(name)?.as_str()?;
            Some((name, json::escape(text)))
        });
        if let Some((name, _)) = &text {
            // Its place among the fields stays.
            fields.insert((*name).to_owned(), Value::Null);
        }
        let joined = self.list.iter_mut().rev().find(|known| {
            let same = |name| known.fields.get(name) == fields.get(name);
            same("type") && same("index")
        });
        let whole = fields.contains_key("data");
        match joined {
            Some(known) if !whole => known.join(fields, text),
            Some(known) if known.fields == fields => {}
            _ => {
                let text = text.map(|(name, text)| {
                    let form = Form::Unknown;
                    (name, Pieces { text, form })
                });
                self.list.push(Detail { fields, text });
            }
        }
    }

    /// Takes all objects, as JSON, separated by commas; `None` if there are
    /// none. The second value tells that they were too many.
    pub(super) fn take(&mut self) -> (Option<String>, bool) {
        let details = std::mem::take(self);
        let mut out = String::new();
        for detail in &details.list {
            if !out.is_empty() {
                out.push(',');
            }
            detail.push(&mut out);
        }
        ((!out.is_empty()).then_some(out), details.over)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.over
    }
}

impl Detail {
    /// Adds a later piece: its text follows, its other fields stand unless they
    /// say nothing.
    fn join(&mut self, fields: Map<String, Value>, text: Option<(&'static str, String)>) {
        if let Some((name, more)) = text {
            let format = fields.get("format").and_then(Value::as_str);
            let (_, known) = self.text.get_or_insert_with(|| (name, Pieces::default()));
            known.add(&more, may_repeat(format.unwrap_or_default()));
        }
        for (name, value) in fields {
            if !value.is_null() || !self.fields.contains_key(&name) {
                self.fields.insert(name, value);
            }
        }
    }

    fn push(&self, out: &mut String) {
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
        let mut details = Details::default();
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
            let mut before = Pieces::default();
            let told: String = chunks
                .iter()
                .flat_map(|chunk| shown(serde_json::from_str(chunk).unwrap(), &mut before))
                .map(|news| news.escaped().to_owned())
                .collect();
            assert_eq!(told, whole);
        }
    }

    #[test]
    fn half_a_wealth_is_worth_nothing() {
        let large = format!(
            r#"[{{"type":"reasoning.text","text":"{}"}}]"#,
            "a".repeat(LIMIT)
        );
        let mut details = Details::default();
        details.push(serde_json::from_str(r#"[{"type":"reasoning.text","text":"a"}]"#).unwrap());
        details.push(serde_json::from_str(&large).unwrap());
        assert_eq!(details.take(), (None, true));
    }
}
