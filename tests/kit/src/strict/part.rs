//! A text that is being streamed: a part of an item, or the arguments of a call.

use super::rule::{StreamRule, ViolationReport};
use super::{array, string};
use serde_json::Value;

/// The text of one part, or the arguments of a call.
#[derive(Debug)]
pub(super) struct CheckedText {
    /// `output_text`, `refusal`, `reasoning_text`, `summary_text`, or empty for the body of a call.
    pub(super) kind: String,
    text: String,
    annotations: Vec<Value>,
    finished: bool,
    /// Whether it is between added and done events.
    pub(super) bracketed: bool,
}

impl CheckedText {
    pub(super) fn new(kind: &str, bracketed: bool) -> Self {
        Self {
            kind: kind.to_owned(),
            text: String::new(),
            annotations: Vec::new(),
            finished: false,
            bracketed,
        }
    }

    pub(super) fn delta(&mut self, data: &Value, report: &mut ViolationReport) {
        let delta = string(data, "delta").unwrap_or_default();
        report.require(!delta.is_empty(), StreamRule::EmptyDelta, || {
            format!("{:?}", data.get("delta"))
        });
        report.require(!self.finished, StreamRule::PartBracket, || {
            "a delta after the text was done".into()
        });
        report.require(
            !data.get("obfuscation").is_some_and(Value::is_null),
            StreamRule::AbsentNotNull,
            || "`obfuscation` is null".into(),
        );
        self.logprobs(data, report);
        self.text.push_str(delta);
    }

    /// Checks the event that repeats the whole text under `key`.
    pub(super) fn finish(&mut self, data: &Value, key: &str, report: &mut ViolationReport) {
        report.require(!self.finished, StreamRule::PartBracket, || {
            format!("{key} done twice")
        });
        self.logprobs(data, report);
        self.equal(data, key, report);
        self.finished = true;
    }

    pub(super) fn annotate(&mut self, data: &Value, report: &mut ViolationReport) {
        let index = data.get("annotation_index").and_then(Value::as_u64);
        let fits =
            index.and_then(|index| usize::try_from(index).ok()) == Some(self.annotations.len());
        let annotation = data.get("annotation").filter(|value| value.is_object());
        report.require(
            fits && annotation.is_some() && self.kind == "output_text" && !self.finished,
            StreamRule::Annotations,
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

    /// Checks the part (or the call item) that ends this text.
    pub(super) fn close(&self, whole: &Value, key: &str, report: &mut ViolationReport) {
        report.require(self.finished, StreamRule::PartBracket, || {
            format!("{:?} closed before its text was done", self.kind)
        });
        self.equal(whole, key, report);
        if self.kind == "output_text" {
            report.require(
                array(whole, "annotations") == self.annotations,
                StreamRule::Annotations,
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

    fn equal(&self, value: &Value, key: &str, report: &mut ViolationReport) {
        let text = string(value, key);
        report.require(text == Some(&self.text), StreamRule::TextSum, || {
            format!("the deltas make {:?}, but {key} is {text:?}", self.text)
        });
    }

    fn logprobs(&self, data: &Value, report: &mut ViolationReport) {
        if self.kind == "output_text" {
            report.require(
                data.get("logprobs").is_some_and(Value::is_array),
                StreamRule::Logprobs,
                || format!("logprobs {:?}", data.get("logprobs")),
            );
        }
    }
}
