//! The order of events: a response, and its items one at a time.

use super::frame::SseFrame;
use super::item::{self, ItemStage, SeenIds};
use super::open::OpenStreamItem;
use super::rule::{StreamRule, ViolationReport};
use super::{response, string, types};
use serde_json::Value;

/// What the events about nodes of workflows begin with.
pub(super) const WORKFLOW_EVENTS: &str = "response.workflow.node.";

#[derive(Debug, Default)]
struct StreamFlow {
    phase: StreamPhase,
    /// `id` and `created_at` of the first lifecycle event.
    identity: Option<(Value, Value)>,
    open: Option<OpenStreamItem>,
    /// The done items, as sent.
    done: Vec<String>,
    ids: SeenIds,
    end: Option<(String, Value)>,
    may_stay_open: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StreamPhase {
    #[default]
    Start,
    Created,
    Running,
    /// An `error` event was sent; only response.failed may follow.
    Failing,
    Ended,
}

/// Checks the order of all events, and returns the terminal one with its response. With
/// `may_stay_open`, the item in which an answer failed may stay open.
pub(super) fn follow(
    frames: &[SseFrame],
    may_stay_open: bool,
    report: &mut ViolationReport,
) -> Option<(String, Value)> {
    let mut flow = StreamFlow {
        may_stay_open,
        ..StreamFlow::default()
    };
    for (at, frame) in frames.iter().enumerate() {
        report.at = Some(at);
        let number = frame.data.get("sequence_number").and_then(Value::as_u64);
        let expected = u64::try_from(at).ok();
        report.require(number == expected, StreamRule::Sequence, || {
            format!("{number:?} at {at}")
        });
        types::event(&frame.data, report);
        flow.event(frame, report);
    }
    report.at = None;
    report.require(
        flow.phase == StreamPhase::Ended,
        StreamRule::Terminal,
        || "the stream has no terminal event".into(),
    );
    flow.end
}

impl StreamFlow {
    fn event(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        let kind = frame.kind.as_str();
        if self.phase == StreamPhase::Ended {
            report.add(
                StreamRule::Terminal,
                format!("{kind} after the terminal event"),
            );
            return;
        }
        report.require(
            self.phase != StreamPhase::Failing || kind == "response.failed",
            StreamRule::ErrorEvent,
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
                self.phase = StreamPhase::Failing;
            }
            _ => {
                report.require(
                    matches!(self.phase, StreamPhase::Running | StreamPhase::Failing),
                    StreamRule::Order,
                    || format!("{kind} before in_progress"),
                );
                self.inner(frame, report);
            }
        }
    }

    fn begin(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        let object = self.lifecycle(frame, report);
        let status = string(&object, "status").unwrap_or_default();
        let (follows, fits) = match (frame.kind.as_str(), self.phase) {
            ("response.created", StreamPhase::Start) => (
                StreamPhase::Created,
                matches!(status, "in_progress" | "queued"),
            ),
            ("response.queued", StreamPhase::Created) => (StreamPhase::Created, status == "queued"),
            ("response.in_progress", StreamPhase::Created | StreamPhase::Running) => {
                (StreamPhase::Running, status == "in_progress")
            }
            (kind, step) => {
                report.add(StreamRule::Order, format!("{kind} at {step:?}"));
                return;
            }
        };
        report.require(fits, StreamRule::ResponseStatus, || {
            format!("{} with status {status:?}", frame.kind)
        });
        response::endings(&object, status, report);
        if self.phase == StreamPhase::Running {
            self.heartbeat(frame, report);
        } else {
            report.require(frame.output.is_empty(), StreamRule::Order, || {
                "output before the first item".into()
            });
        }
        self.phase = follows;
    }

    /// The output so far must be the done items, and perhaps the open one.
    fn heartbeat(&self, frame: &SseFrame, report: &mut ViolationReport) {
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
        report.require(fits, StreamRule::Heartbeat, || {
            format!(
                "{:?} while {} items are done",
                frame.output,
                self.done.len()
            )
        });
    }

    fn finish(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        let object = self.lifecycle(frame, report);
        let status = string(&object, "status").unwrap_or_default();
        // A response that is cancelled while it is queued never runs, and one whose run cannot
        // begin fails.
        let may_be_queued = matches!(status, "cancelled" | "failed");
        report.require(
            matches!(self.phase, StreamPhase::Running | StreamPhase::Failing)
                || (self.phase == StreamPhase::Created && may_be_queued),
            StreamRule::Order,
            || format!("{} before in_progress", frame.kind),
        );
        // The API has no event of its own for a response that was cancelled.
        let is_cancelled = status == "cancelled" && frame.kind == "response.incomplete";
        report.require(
            is_cancelled || frame.kind.strip_prefix("response.") == Some(status),
            StreamRule::ResponseStatus,
            || format!("{} with status {status:?}", frame.kind),
        );
        response::settled(&object, report);
        let failed = self.may_stay_open && frame.kind == "response.failed";
        if let Some(open) = self
            .open
            .as_ref()
            .filter(|it| !failed && !self.only_waits(it))
        {
            report.add(
                StreamRule::OneItemAtATime,
                format!("{} is still open at the end", open.id),
            );
        }
        report.require(frame.output == self.done, StreamRule::FinalOutput, || {
            format!(
                "done were\n  {}\nfinal is\n  {}",
                self.done.join("\n  "),
                frame.output.join("\n  ")
            )
        });
        self.phase = StreamPhase::Ended;
        self.end = Some((frame.kind.clone(), object));
    }

    fn lifecycle(&mut self, frame: &SseFrame, report: &mut ViolationReport) -> Value {
        let object = frame.data.get("response").cloned().unwrap_or_default();
        response::object(&object, report);
        let field = |key: &str| object.get(key).cloned().unwrap_or_default();
        let identity = (field("id"), field("created_at"));
        let first = self.identity.get_or_insert_with(|| identity.clone());
        report.require(*first == identity, StreamRule::ResponseIdentity, || {
            format!("{first:?}, then {identity:?}")
        });
        object
    }

    fn inner(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        match frame.kind.as_str() {
            "response.output_item.added" => self.add(frame, report),
            "response.output_item.done" => self.close(frame, report),
            // About no item: clients that do not know them skip them.
            kind if kind.starts_with(WORKFLOW_EVENTS) => workflow_event(kind, &frame.data, report),
            kind => {
                let index = self.done.len();
                let Some(open) = &mut self.open else {
                    report.add(
                        StreamRule::OneItemAtATime,
                        format!("{kind} while no item is open"),
                    );
                    return;
                };
                let id = string(&frame.data, "item_id");
                report.require(id == Some(&open.id), StreamRule::ItemId, || {
                    format!("{kind} of {id:?} while {} is open", open.id)
                });
                position(&frame.data, index, report);
                open.event(kind, &frame.data, report);
            }
        }
    }

    fn add(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        let item = frame.data.get("item").cloned().unwrap_or_default();
        if let Some(open) = self.open.as_ref().filter(|it| !self.only_waits(it)) {
            report.add(
                StreamRule::OneItemAtATime,
                format!("an item added while {} is open", open.id),
            );
        }
        position(&frame.data, self.done.len(), report);
        item::shape(&item, ItemStage::Added, report);
        self.ids.insert(&item, report);
        self.open = Some(OpenStreamItem::new(item));
    }

    /// Whether an item says only what the answer waits for, which Codex shows and forgets.
    fn only_waits(&self, item: &OpenStreamItem) -> bool {
        self.may_stay_open && item.id.starts_with("rs_wait_") && !item.has_open_part()
    }

    fn close(&mut self, frame: &SseFrame, report: &mut ViolationReport) {
        let item = frame.data.get("item").cloned().unwrap_or_default();
        position(&frame.data, self.done.len(), report);
        item::shape(&item, ItemStage::Done, report);
        match self.open.take() {
            Some(open) => open.close(&item, report),
            None => report.add(StreamRule::OneItemAtATime, "an item done that was not open"),
        }
        self.done.push(frame.item.clone());
    }
}

/// An event about a node of a workflow: what it says happened is the status of the node.
fn workflow_event(kind: &str, data: &Value, report: &mut ViolationReport) {
    let status = data.pointer("/node/status").and_then(Value::as_str);
    let told = match kind.strip_prefix(WORKFLOW_EVENTS) {
        Some("started") => Some("running"),
        told => told,
    };
    let id = data.pointer("/node/id").and_then(Value::as_str);
    let fits = status.is_some() && status == told && id.is_some_and(|id| !id.is_empty());
    report.require(fits, StreamRule::Order, || format!("{kind} of {data}"));
}

fn position(data: &Value, expected: usize, report: &mut ViolationReport) {
    let index = data.get("output_index").and_then(Value::as_u64);
    report.require(
        index == u64::try_from(expected).ok(),
        StreamRule::OutputIndex,
        || format!("{index:?}, expected is {expected}"),
    );
}

fn error_event(data: &Value, report: &mut ViolationReport) {
    let message = string(data, "message").is_some_and(|message| !message.is_empty());
    let nested = data.pointer("/error/message").and_then(Value::as_str) == string(data, "message");
    let keys = ["code", "param"].iter().all(|key| data.get(*key).is_some());
    report.require(message && nested && keys, StreamRule::ErrorEvent, || {
        format!("{data}")
    });
}
