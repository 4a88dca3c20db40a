//! The order of events: a response, its items one at a time, their parts one at a time.

use super::frame::Frame;
use super::item::{self, Ids, Stage};
use super::part::Part;
use super::rule::{Report, Rule};
use super::{array, response, string, types};
use serde_json::Value;

#[derive(Debug, Default)]
struct Flow {
    stage: Step,
    /// id and created_at of the first lifecycle event.
    identity: Option<(Value, Value)>,
    open: Option<Open>,
    /// The done items as sent.
    done: Vec<String>,
    ids: Ids,
    end: Option<(String, Value)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    #[default]
    Start,
    Created,
    Running,
    /// An `error` event was sent; only response.failed may follow.
    Failing,
    Ended,
}

#[derive(Debug)]
struct Open {
    id: String,
    kind: String,
    /// Identity fields that the done item must repeat.
    added: Value,
    /// A call's body, or the open part with its index.
    part: Option<Part>,
    closed: Vec<Value>,
    summary: bool,
    raw: bool,
}

/// Follows all events; gives the terminal one.
pub(super) fn follow(frames: &[Frame], report: &mut Report) -> Option<(String, Value)> {
    let mut flow = Flow::default();
    for (at, frame) in frames.iter().enumerate() {
        report.at = Some(at);
        let number = frame.data.get("sequence_number").and_then(Value::as_u64);
        let due = u64::try_from(at).ok();
        report.need(number == due, Rule::Sequence, || {
            format!("{number:?} at {at}")
        });
        types::event(&frame.data, report);
        flow.event(frame, report);
    }
    report.at = None;
    report.need(flow.stage == Step::Ended, Rule::Terminal, || {
        "the stream has no terminal event".into()
    });
    flow.end
}

impl Flow {
    fn event(&mut self, frame: &Frame, report: &mut Report) {
        let kind = frame.kind.as_str();
        if self.stage == Step::Ended {
            report.broken(Rule::Terminal, format!("{kind} after the terminal event"));
            return;
        }
        report.need(
            self.stage != Step::Failing || kind == "response.failed",
            Rule::ErrorEvent,
            || format!("{kind} after the error event"),
        );
        match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.begin(frame, report)
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.finish(frame, report)
            }
            "error" => {
                error_event(&frame.data, report);
                self.stage = Step::Failing;
            }
            _ => {
                report.need(
                    matches!(self.stage, Step::Running | Step::Failing),
                    Rule::Order,
                    || format!("{kind} before in_progress"),
                );
                self.inner(frame, report);
            }
        }
    }

    fn begin(&mut self, frame: &Frame, report: &mut Report) {
        let object = self.lifecycle(frame, report);
        let status = string(&object, "status").unwrap_or_default();
        let (follows, fits) = match (frame.kind.as_str(), self.stage) {
            ("response.created", Step::Start) => {
                (Step::Created, matches!(status, "in_progress" | "queued"))
            }
            ("response.queued", Step::Created) => (Step::Created, status == "queued"),
            ("response.in_progress", Step::Created | Step::Running) => {
                (Step::Running, status == "in_progress")
            }
            (kind, step) => {
                report.broken(Rule::Order, format!("{kind} at {step:?}"));
                return;
            }
        };
        report.need(fits, Rule::ResponseStatus, || {
            format!("{} with status {status:?}", frame.kind)
        });
        response::endings(&object, status, report);
        if self.stage == Step::Running {
            self.heartbeat(frame, report);
        } else {
            report.need(frame.output.is_empty(), Rule::Order, || {
                "output before the first item".into()
            });
        }
        self.stage = follows;
    }

    /// The output so far: the done items, and perhaps the open one.
    fn heartbeat(&self, frame: &Frame, report: &mut Report) {
        let same = frame
            .output
            .iter()
            .zip(&self.done)
            .all(|(sent, done)| sent == done);
        let more = frame.output.len().checked_sub(self.done.len());
        let fits = same && matches!((more, &self.open), (Some(0), _) | (Some(1), Some(_)));
        report.need(fits, Rule::Heartbeat, || {
            format!(
                "{:?} while {} items are done",
                frame.output,
                self.done.len()
            )
        });
    }

    fn finish(&mut self, frame: &Frame, report: &mut Report) {
        report.need(
            matches!(self.stage, Step::Running | Step::Failing),
            Rule::Order,
            || format!("{} before in_progress", frame.kind),
        );
        let object = self.lifecycle(frame, report);
        let status = string(&object, "status").unwrap_or_default();
        report.need(
            frame.kind.strip_prefix("response.") == Some(status),
            Rule::ResponseStatus,
            || format!("{} with status {status:?}", frame.kind),
        );
        response::settled(&object, report);
        if let Some(open) = &self.open {
            report.broken(
                Rule::OneItemAtATime,
                format!("{} is still open at the end", open.id),
            );
        }
        report.need(frame.output == self.done, Rule::FinalOutput, || {
            format!(
                "done were\n  {}\nfinal is\n  {}",
                self.done.join("\n  "),
                frame.output.join("\n  ")
            )
        });
        self.stage = Step::Ended;
        self.end = Some((frame.kind.clone(), object));
    }

    fn lifecycle(&mut self, frame: &Frame, report: &mut Report) -> Value {
        let object = frame.data.get("response").cloned().unwrap_or_default();
        response::object(&object, report);
        let field = |key: &str| object.get(key).cloned().unwrap_or_default();
        let identity = (field("id"), field("created_at"));
        let first = self.identity.get_or_insert_with(|| identity.clone());
        report.need(*first == identity, Rule::ResponseIdentity, || {
            format!("{first:?}, then {identity:?}")
        });
        object
    }

    fn inner(&mut self, frame: &Frame, report: &mut Report) {
        match frame.kind.as_str() {
            "response.output_item.added" => self.add(frame, report),
            "response.output_item.done" => self.close(frame, report),
            kind => {
                let index = self.done.len();
                let Some(open) = &mut self.open else {
                    report.broken(
                        Rule::OneItemAtATime,
                        format!("{kind} while no item is open"),
                    );
                    return;
                };
                let id = string(&frame.data, "item_id");
                report.need(id == Some(&open.id), Rule::ItemId, || {
                    format!("{kind} of {id:?} while {} is open", open.id)
                });
                position(&frame.data, index, report);
                open.event(kind, &frame.data, report);
            }
        }
    }

    fn add(&mut self, frame: &Frame, report: &mut Report) {
        let item = frame.data.get("item").cloned().unwrap_or_default();
        if let Some(open) = &self.open {
            report.broken(
                Rule::OneItemAtATime,
                format!("an item added while {} is open", open.id),
            );
        }
        position(&frame.data, self.done.len(), report);
        item::shape(&item, Stage::Added, report);
        self.ids.admit(&item, report);
        self.open = Some(Open::new(item));
    }

    fn close(&mut self, frame: &Frame, report: &mut Report) {
        let item = frame.data.get("item").cloned().unwrap_or_default();
        position(&frame.data, self.done.len(), report);
        item::shape(&item, Stage::Done, report);
        match self.open.take() {
            Some(open) => open.close(&item, report),
            None => report.broken(Rule::OneItemAtATime, "an item done that was not open"),
        }
        self.done.push(frame.item.clone());
    }
}

impl Open {
    fn new(added: Value) -> Self {
        let text = |key: &str| string(&added, key).unwrap_or_default().to_owned();
        let kind = text("type");
        let body = item::streams(&kind).is_some_and(|(_, event)| !event.is_empty());
        Self {
            id: text("id"),
            part: body.then(|| Part::new("", false)),
            kind,
            added,
            closed: Vec::new(),
            summary: false,
            raw: false,
        }
    }

    fn event(&mut self, kind: &str, data: &Value, report: &mut Report) {
        let (stem, verb) = kind.rsplit_once('.').unwrap_or_default();
        if let Some((field, event)) = item::streams(&self.kind).filter(|(_, event)| *event == stem)
        {
            debug_assert!(!event.is_empty());
            return self.body(verb, field, data, report);
        }
        match (stem, verb) {
            ("response.content_part" | "response.reasoning_summary_part", "added") => {
                self.open_part(data, stem, report);
            }
            ("response.content_part" | "response.reasoning_summary_part", "done") => {
                self.close_part(data, stem, report);
            }
            ("response.output_text", "delta" | "done") => {
                self.text("output_text", verb, data, report)
            }
            ("response.refusal", "delta" | "done") => self.text("refusal", verb, data, report),
            ("response.reasoning_text", "delta" | "done") => {
                self.text("reasoning_text", verb, data, report)
            }
            ("response.reasoning_summary_text", "delta" | "done") => {
                self.text("summary_text", verb, data, report);
            }
            ("response.output_text.annotation", "added") => {
                self.indexed("output_text", data, report);
                match &mut self.part {
                    Some(part) => part.annotate(data, report),
                    None => report.broken(Rule::PartBracket, "an annotation outside of a part"),
                }
            }
            ("response.web_search_call", "in_progress" | "searching" | "completed")
            | ("response.mcp_call", "in_progress" | "completed" | "failed")
            | ("response.mcp_list_tools", "in_progress" | "completed" | "failed")
            | ("response.compaction", "compacting") => {
                let owner = stem.strip_prefix("response.").unwrap_or_default();
                report.need(owner == self.kind, Rule::OneItemAtATime, || {
                    format!("{kind} while a {} is open", self.kind)
                });
            }
            _ => report.broken(Rule::EventType, format!("{kind} in a {}", self.kind)),
        }
    }

    fn body(&mut self, verb: &str, field: &str, data: &Value, report: &mut Report) {
        match (&mut self.part, verb) {
            (Some(part), "delta") => part.delta(data, report),
            (Some(part), "done") => part.say(data, field, report),
            _ => report.broken(Rule::EventType, format!("{verb} of {field}")),
        }
    }

    fn open_part(&mut self, data: &Value, stem: &str, report: &mut Report) {
        let part = data.get("part").cloned().unwrap_or_default();
        let kind = string(&part, "type").unwrap_or_default().to_owned();
        if self.part.is_some() {
            report.broken(
                Rule::PartBracket,
                format!("{kind} added while a part is open"),
            );
        }
        self.belongs(&kind, stem, report);
        self.indexed(&kind, data, report);
        item::content_part(&part, report);
        let key = if kind == "refusal" { "refusal" } else { "text" };
        report.need(string(&part, key) == Some(""), Rule::PartBracket, || {
            format!("added as {part}")
        });
        report.need(
            array(&part, "annotations").is_empty(),
            Rule::Annotations,
            || format!("added as {part}"),
        );
        self.part = Some(Part::new(&kind, true));
    }

    fn close_part(&mut self, data: &Value, stem: &str, report: &mut Report) {
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
            None => report.broken(Rule::PartBracket, format!("{kind} done that was not open")),
        }
        self.closed.push(part);
    }

    fn text(&mut self, kind: &str, verb: &str, data: &Value, report: &mut Report) {
        // Raw reasoning may go without brackets; its first delta then opens the part.
        if self.part.is_none() && kind == "reasoning_text" && self.kind == "reasoning" {
            self.part = Some(Part::new(kind, false));
        }
        self.raw |= kind == "reasoning_text";
        self.summary |= kind == "summary_text";
        self.indexed(kind, data, report);
        let Some(part) = self.part.as_mut().filter(|part| part.kind == kind) else {
            report.broken(
                Rule::PartBracket,
                format!("{kind} {verb} outside of its part"),
            );
            return;
        };
        let key = if kind == "refusal" { "refusal" } else { "text" };
        if verb == "delta" {
            part.delta(data, report);
            return;
        }
        part.say(data, key, report);
        if !part.bracketed {
            self.closed
                .push(serde_json::json!({"type": kind, "text": data.get(key)}));
            self.part = None;
        }
    }

    /// The part is of the item's and the event's kind.
    fn belongs(&self, kind: &str, stem: &str, report: &mut Report) {
        let fits = match kind {
            "output_text" | "refusal" => self.kind == "message" && stem == "response.content_part",
            "reasoning_text" => self.kind == "reasoning" && stem == "response.content_part",
            "summary_text" => self.kind == "reasoning" && stem == "response.reasoning_summary_part",
            _ => false,
        };
        report.need(fits, Rule::PartBracket, || {
            format!("{stem} of {kind:?} in a {}", self.kind)
        });
    }

    /// The part's index is the number of parts before it.
    fn indexed(&self, kind: &str, data: &Value, report: &mut Report) {
        let key = if kind == "summary_text" {
            "summary_index"
        } else {
            "content_index"
        };
        let index = data.get(key).and_then(Value::as_u64);
        let due = u64::try_from(self.closed.len()).ok();
        report.need(index == due, Rule::PartBracket, || {
            format!("{key} {index:?}, due is {due:?}")
        });
    }

    fn close(self, item: &Value, report: &mut Report) {
        for key in ["id", "type", "call_id", "name", "namespace", "role"] {
            let (before, after) = (self.added.get(key), item.get(key));
            let rule = if key == "call_id" {
                Rule::CallId
            } else {
                Rule::ItemId
            };
            report.need(before == after, rule, || {
                format!("{key} was {before:?}, is {after:?}")
            });
        }
        report.need(
            !(self.raw && self.summary),
            Rule::OneReasoningStream,
            || "raw reasoning and a summary in one item".into(),
        );
        if let Some(part) = &self.part {
            match item::streams(&self.kind) {
                Some((field, _)) if part.kind.is_empty() => part.close(item, field, report),
                _ => report.broken(Rule::PartBracket, "the item is done while its part is open"),
            }
        }
        let sent = match self.kind.as_str() {
            "message" => array(item, "content"),
            "reasoning" if self.raw => array(item, "content"),
            "reasoning" => {
                report.need(array(item, "content").is_empty(), Rule::TextSum, || {
                    "reasoning content that was not streamed".into()
                });
                array(item, "summary")
            }
            _ => return,
        };
        report.need(sent == self.closed, Rule::TextSum, || {
            format!("parts were {:?}, the item has {sent:?}", self.closed)
        });
    }
}

fn position(data: &Value, due: usize, report: &mut Report) {
    let index = data.get("output_index").and_then(Value::as_u64);
    report.need(index == u64::try_from(due).ok(), Rule::OutputIndex, || {
        format!("{index:?}, due is {due}")
    });
}

fn error_event(data: &Value, report: &mut Report) {
    let message = string(data, "message").is_some_and(|message| !message.is_empty());
    let nested = data.pointer("/error/message").and_then(Value::as_str) == string(data, "message");
    let keys = ["code", "param"].iter().all(|key| data.get(*key).is_some());
    report.need(message && nested && keys, Rule::ErrorEvent, || {
        format!("{data}")
    });
}
