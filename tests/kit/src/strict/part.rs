//! What is being streamed: a part of an item, or a call's arguments.

use super::rule::{Report, Rule};
use super::{array, string};
use serde_json::Value;

/// A text in the making; for a call its arguments, else one part.
#[derive(Debug)]
pub(super) struct Part {
    /// `output_text`, `refusal`, `reasoning_text`, `summary_text`, or `` for a call's body.
    pub(super) kind: String,
    text: String,
    annotations: Vec<Value>,
    said: bool,
    /// Whether added and done events surround it.
    pub(super) bracketed: bool,
}

impl Part {
    pub(super) fn new(kind: &str, bracketed: bool) -> Self {
        Self {
            kind: kind.to_owned(),
            text: String::new(),
            annotations: Vec::new(),
            said: false,
            bracketed,
        }
    }

    pub(super) fn delta(&mut self, data: &Value, report: &mut Report) {
        let delta = string(data, "delta").unwrap_or_default();
        report.need(!delta.is_empty(), Rule::EmptyDelta, || {
            format!("{:?}", data.get("delta"))
        });
        report.need(!self.said, Rule::PartBracket, || {
            "a delta after the text was done".into()
        });
        report.need(
            !data.get("obfuscation").is_some_and(Value::is_null),
            Rule::AbsentNotNull,
            || "`obfuscation` is null".into(),
        );
        self.logprobs(data, report);
        self.text.push_str(delta);
    }

    /// The event that repeats the whole text under `key`.
    pub(super) fn say(&mut self, data: &Value, key: &str, report: &mut Report) {
        report.need(!self.said, Rule::PartBracket, || {
            format!("{key} done twice")
        });
        self.logprobs(data, report);
        self.equal(data, key, report);
        self.said = true;
    }

    pub(super) fn annotate(&mut self, data: &Value, report: &mut Report) {
        let index = data.get("annotation_index").and_then(Value::as_u64);
        let fits =
            index.and_then(|index| usize::try_from(index).ok()) == Some(self.annotations.len());
        let annotation = data.get("annotation").filter(|value| value.is_object());
        report.need(
            fits && annotation.is_some() && self.kind == "output_text" && !self.said,
            Rule::Annotations,
            || {
                format!(
                    "annotation {index:?} after {} in {:?}",
                    self.annotations.len(),
                    self.kind
                )
            },
        );
        self.annotations.extend(annotation.cloned());
    }

    /// The part (or the call item) that ends this text.
    pub(super) fn close(&self, whole: &Value, key: &str, report: &mut Report) {
        report.need(self.said, Rule::PartBracket, || {
            format!("{:?} closed before its text was done", self.kind)
        });
        self.equal(whole, key, report);
        if self.kind == "output_text" {
            report.need(
                array(whole, "annotations") == self.annotations,
                Rule::Annotations,
                || {
                    format!(
                        "announced {:?}, but the part has {:?}",
                        self.annotations,
                        whole.get("annotations")
                    )
                },
            );
        }
    }

    fn equal(&self, value: &Value, key: &str, report: &mut Report) {
        let text = string(value, key);
        report.need(text == Some(&self.text), Rule::TextSum, || {
            format!("the deltas make {:?}, but {key} is {text:?}", self.text)
        });
    }

    fn logprobs(&self, data: &Value, report: &mut Report) {
        if self.kind == "output_text" {
            report.need(
                data.get("logprobs").is_some_and(Value::is_array),
                Rule::Logprobs,
                || format!("logprobs {:?}", data.get("logprobs")),
            );
        }
    }
}
