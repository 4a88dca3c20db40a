//! The order of events: a response and its items one at a time.

use super::frame::Frame;
use super::item::{self, Ids, Stage};
use super::open::Open;
use super::rule::{Report, Rule};
use super::{response, string, types};
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
    torn: bool,
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

/// Follows all events; gives the terminal one.
/// With `torn`, the item in which an answer failed may stay open.
pub(super) fn follow(frames: &[Frame], torn: bool, report: &mut Report) -> Option<(String, Value)> {
    let mut flow = Flow {
        torn,
        ..Flow::default()
    };
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
                self.begin(frame, report);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.finish(frame, report);
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
        let fits = same
            && match (frame.output.get(self.done.len()..), &self.open) {
                (Some([]), _) => true,
                (Some([item]), Some(open)) => {
                    let item = serde_json::from_str::<Value>(item).unwrap_or_default();
                    string(&item, "id") == Some(&open.id)
                }
                _ => false,
            };
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
        let torn = self.torn && frame.kind == "response.failed";
        if let Some(open) = self.open.as_ref().filter(|_| !torn) {
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
        let torn = self.torn && frame.kind == "response.failed";
        if let Some(open) = self.open.as_ref().filter(|_| !torn) {
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
