//! The events of the open item: its parts one at a time, or the body of a call.

use super::item;
use super::part::CheckedText;
use super::rule::{StreamRule, ViolationReport};
use super::{array, string};
use serde_json::Value;

/// An item between added and done.
#[derive(Debug)]
pub(super) struct OpenStreamItem {
    pub(super) id: String,
    kind: String,
    /// The item as it was added. The done item must repeat its identity fields.
    added: Value,
    /// The body of a call, or the open part.
    part: Option<CheckedText>,
    closed: Vec<Value>,
    summary: bool,
    raw: bool,
}

impl OpenStreamItem {
    pub(super) fn new(added: Value) -> Self {
        let text = |key: &str| string(&added, key).unwrap_or_default().to_owned();
        let kind = text("type");
        let body = item::streams(&kind).is_some_and(|(_, event)| !event.is_empty());
        Self {
            id: text("id"),
            part: body.then(|| CheckedText::new("", false)),
            kind,
            added,
            closed: Vec::new(),
            summary: false,
            raw: false,
        }
    }

    pub(super) fn has_open_part(&self) -> bool {
        self.part.is_some()
    }

    pub(super) fn event(&mut self, kind: &str, data: &Value, report: &mut ViolationReport) {
        let (stem, verb) = kind.rsplit_once('.').unwrap_or_default();
        if let Some((field, _)) = item::streams(&self.kind).filter(|(_, event)| *event == stem) {
            self.body(verb, field, data, report);
            return;
        }
        match (stem, verb) {
            ("response.content_part" | "response.reasoning_summary_part", "added") => {
                self.open_part(data, stem, report);
            }
            ("response.content_part" | "response.reasoning_summary_part", "done") => {
                self.close_part(data, stem, report);
            }
            ("response.output_text", "delta" | "done") => {
                self.text("output_text", verb, data, report);
            }
            ("response.refusal", "delta" | "done") => self.text("refusal", verb, data, report),
            ("response.reasoning_text", "delta" | "done") => {
                self.text("reasoning_text", verb, data, report);
            }
            ("response.reasoning_summary_text", "delta" | "done") => {
                self.text("summary_text", verb, data, report);
            }
            ("response.output_text.annotation", "added") => {
                self.indexed("output_text", data, report);
                match &mut self.part {
                    Some(part) => part.annotate(data, report),
                    None => report.add(StreamRule::PartBracket, "an annotation outside of a part"),
                }
            }
            (
                "response.web_search_call" | "response.mcp_call" | "response.mcp_list_tools",
                "in_progress" | "searching" | "completed" | "failed",
            )
            | ("response.compaction", "compacting")
            | (
                "response.file_search_call"
                | "response.code_interpreter_call"
                | "response.code_interpreter_call_code"
                | "response.image_generation_call"
                | "response.shell_call_command",
                "in_progress" | "searching" | "interpreting" | "generating" | "partial_image"
                | "completed" | "added" | "delta" | "done",
            ) => {
                let owner = stem.strip_prefix("response.").unwrap_or_default();
                report.require(
                    owner.starts_with(&self.kind),
                    StreamRule::OneItemAtATime,
                    || format!("{kind} while a {} is open", self.kind),
                );
            }
            _ => report.add(StreamRule::EventType, format!("{kind} in a {}", self.kind)),
        }
    }

    fn body(&mut self, verb: &str, field: &str, data: &Value, report: &mut ViolationReport) {
        match (&mut self.part, verb) {
            (Some(part), "delta") => part.delta(data, report),
            (Some(part), "done") => part.finish(data, field, report),
            _ => report.add(StreamRule::EventType, format!("{verb} of {field}")),
        }
    }

    fn open_part(&mut self, data: &Value, stem: &str, report: &mut ViolationReport) {
        let part = data.get("part").cloned().unwrap_or_default();
        let kind = string(&part, "type").unwrap_or_default().to_owned();
        if self.part.is_some() {
            report.add(
                StreamRule::PartBracket,
                format!("{kind} added while a part is open"),
            );
        }
        self.belongs(&kind, stem, report);
        self.indexed(&kind, data, report);
        item::content_part(&part, report);
        let key = if kind == "refusal" { "refusal" } else { "text" };
        report.require(
            string(&part, key) == Some(""),
            StreamRule::PartBracket,
            || format!("added as {part}"),
        );
        report.require(
            array(&part, "annotations").is_empty(),
            StreamRule::Annotations,
            || format!("added as {part}"),
        );
        self.part = Some(CheckedText::new(&kind, true));
    }

    fn close_part(&mut self, data: &Value, stem: &str, report: &mut ViolationReport) {
        let part = data.get("part").cloned().unwrap_or_default();
        let kind = string(&part, "type").unwrap_or_default().to_owned();
        self.belongs(&kind, stem, report);
        self.indexed(&kind, data, report);
        item::content_part(&part, report);
        match self
            .part
            .take()
            .filter(|open| open.kind == kind && open.bracketed)
        {
            Some(open) => {
                let key = if kind == "refusal" { "refusal" } else { "text" };
                open.close(&part, key, report);
            }
            None => report.add(
                StreamRule::PartBracket,
                format!("{kind} done that was not open"),
            ),
        }
        self.closed.push(part);
    }

    fn text(&mut self, kind: &str, verb: &str, data: &Value, report: &mut ViolationReport) {
        // Raw reasoning may go without brackets; its first delta then opens the part.
        if self.part.is_none() && kind == "reasoning_text" && self.kind == "reasoning" {
            self.part = Some(CheckedText::new(kind, false));
        }
        self.raw |= kind == "reasoning_text";
        self.summary |= kind == "summary_text";
        self.indexed(kind, data, report);
        let Some(part) = self.part.as_mut().filter(|part| part.kind == kind) else {
            report.add(
                StreamRule::PartBracket,
                format!("{kind} {verb} outside of its part"),
            );
            return;
        };
        let key = if kind == "refusal" { "refusal" } else { "text" };
        if verb == "delta" {
            part.delta(data, report);
            return;
        }
        part.finish(data, key, report);
        if !part.bracketed {
            self.closed
                .push(serde_json::json!({"type": kind, "text": data.get(key)}));
            self.part = None;
        }
    }

    /// The part must fit the kinds of the item and of the event.
    fn belongs(&self, kind: &str, stem: &str, report: &mut ViolationReport) {
        let fits = match kind {
            "output_text" | "refusal" => self.kind == "message" && stem == "response.content_part",
            "reasoning_text" => self.kind == "reasoning" && stem == "response.content_part",
            "summary_text" => self.kind == "reasoning" && stem == "response.reasoning_summary_part",
            _ => false,
        };
        report.require(fits, StreamRule::PartBracket, || {
            format!("{stem} of {kind:?} in a {}", self.kind)
        });
    }

    /// The index of a part must be the number of parts before it.
    fn indexed(&self, kind: &str, data: &Value, report: &mut ViolationReport) {
        let key = if kind == "summary_text" {
            "summary_index"
        } else {
            "content_index"
        };
        let index = data.get(key).and_then(Value::as_u64);
        let expected = u64::try_from(self.closed.len()).ok();
        report.require(index == expected, StreamRule::PartBracket, || {
            format!("{key} {index:?}, expected is {expected:?}")
        });
    }

    pub(super) fn close(self, item: &Value, report: &mut ViolationReport) {
        for key in ["id", "type", "call_id", "name", "namespace", "role"] {
            let (before, after) = (self.added.get(key), item.get(key));
            let rule = if key == "call_id" {
                StreamRule::CallId
            } else {
                StreamRule::ItemId
            };
            report.require(before == after, rule, || {
                format!("{key} was {before:?}, is {after:?}")
            });
        }
        report.require(
            !(self.raw && self.summary),
            StreamRule::OneReasoningStream,
            || "raw reasoning and a summary in one item".into(),
        );
        if let Some(part) = &self.part {
            match item::streams(&self.kind) {
                Some((field, _)) if part.kind.is_empty() => part.close(item, field, report),
                _ => report.add(
                    StreamRule::PartBracket,
                    "the item is done while its part is open",
                ),
            }
        }
        let sent = match self.kind.as_str() {
            "message" => array(item, "content"),
            "reasoning" if self.raw => array(item, "content"),
            "reasoning" => {
                report.require(
                    array(item, "content").is_empty(),
                    StreamRule::TextSum,
                    || "reasoning content that was not streamed".into(),
                );
                array(item, "summary")
            }
            _ => return,
        };
        report.require(sent == self.closed, StreamRule::TextSum, || {
            format!("parts were {:?}, the item has {sent:?}", self.closed)
        });
    }
}
