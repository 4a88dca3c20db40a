//! The text of the stream, split into frames.

use super::rule::{StreamRule, ViolationReport};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One event: its parsed data, and the bytes of the items in it.
#[derive(Debug)]
pub(super) struct SseFrame {
    pub(super) kind: String,
    pub(super) data: Value,
    /// `item`, as sent, of output_item events.
    pub(super) item: String,
    /// The members of `response.output`, as sent, of lifecycle events.
    pub(super) output: Vec<String>,
}

#[derive(Deserialize)]
struct RawEventData<'a> {
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawResponseObject<'a> {
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

/// The comment that the events of a background response have while it is silent.
const RUN_GOES_ON: &str = ": the response goes on";

pub(super) fn split_frames(body: &str, report: &mut ViolationReport) -> Vec<SseFrame> {
    report.require(!body.contains('\r'), StreamRule::Framing, || {
        "a carriage return".into()
    });
    let Some(body) = body.strip_suffix("\n\n") else {
        report.add(
            StreamRule::Framing,
            "the last frame is not closed by a blank line",
        );
        return Vec::new();
    };
    let mut blocks: Vec<&str> = body.split("\n\n").collect();
    let last = blocks.pop().unwrap_or_default();
    if last != "data: [DONE]" {
        report.add(
            StreamRule::DoneMarker,
            format!("the stream ends in {last:?}"),
        );
        blocks.push(last);
    }
    let mut frames = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        report.at = Some(at);
        if block == "data: [DONE]" {
            report.add(StreamRule::DoneMarker, "[DONE] before the end");
        } else if block == RUN_GOES_ON {
            // No event: it keeps the connection alive.
        } else if let Some(frame) = one(block, report) {
            frames.push(frame);
        }
    }
    report.at = None;
    frames
}

fn one(block: &str, report: &mut ViolationReport) -> Option<SseFrame> {
    let parsed = block.split_once('\n').and_then(|(event, data)| {
        Some((event.strip_prefix("event: ")?, data.strip_prefix("data: ")?))
    });
    let Some((event, text)) = parsed.filter(|(_, text)| !text.contains('\n')) else {
        report.add(
            StreamRule::Framing,
            format!("not an event line and a data line: {block:?}"),
        );
        return None;
    };
    let (data, raw) = match (
        serde_json::from_str::<Value>(text),
        serde_json::from_str::<RawEventData<'_>>(text),
    ) {
        (Ok(data), Ok(raw)) => (data, raw),
        (Err(error), _) | (_, Err(error)) => {
            report.add(
                StreamRule::Framing,
                format!("unreadable data: {error}: {text}"),
            );
            return None;
        }
    };
    let kind = super::string(&data, "type").unwrap_or_default().to_owned();
    report.require(kind == event, StreamRule::Framing, || {
        format!("event: {event} but type {kind:?}")
    });
    let item = raw
        .item
        .map(|item| item.get().to_owned())
        .unwrap_or_default();
    // An output that is not a list violates the rules for the object.
    let output = raw
        .response
        .and_then(|raw| serde_json::from_str::<RawResponseObject<'_>>(raw.get()).ok());
    let output = output.map(|response| response.output).unwrap_or_default();
    let output = output
        .into_iter()
        .map(|item| item.get().to_owned())
        .collect();
    Some(SseFrame {
        kind,
        data,
        item,
        output,
    })
}
