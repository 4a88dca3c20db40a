//! The items of an answer that goes on, for clients that ask for the response meanwhile: they see
//! which tools run, and what has ended.

use std::collections::BTreeMap;

use adapters::workflow::{WorkflowProgress, node_of_event};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most bytes of all items. Those that do not fit are seen when the response has ended.
const MAX_BYTES: usize = 256 << 10;

/// The items by their `output_index`, each as it was when it began or, later, when it ended.
#[derive(Default)]
pub(super) struct ItemsSoFar {
    items: BTreeMap<u32, Bytes>,
    bytes: usize,
    /// What became of the nodes of its workflow. Outputs that do not fit are missing.
    pub(super) workflow: WorkflowProgress,
}

#[derive(Deserialize)]
struct ItemEvent<'e> {
    output_index: u32,
    #[serde(borrow)]
    item: &'e RawValue,
}

impl ItemsSoFar {
    /// Takes an event of the answer, which is one line of JSON.
    pub(super) fn add(&mut self, name: &str, line: &Bytes) {
        if name.starts_with("response.workflow.") {
            return self.add_node(line);
        }
        let is_of_item = matches!(
            name,
            "response.output_item.added" | "response.output_item.done"
        );
        if !is_of_item {
            return;
        }
        let Ok(event) = serde_json::from_slice::<ItemEvent<'_>>(line) else {
            return;
        };
        let item = line.slice_ref(event.item.get().as_bytes());
        let before = self.items.remove(&event.output_index);
        self.bytes -= before.map_or(0, |before| before.len());
        // An item that leaves no room is missing, and not shown as it was.
        if self.bytes + item.len() <= MAX_BYTES {
            self.bytes += item.len();
            self.items.insert(event.output_index, item);
        }
    }

    fn add_node(&mut self, line: &Bytes) {
        let event = str::from_utf8(line).unwrap_or_default();
        let Some(mut node) = node_of_event(event) else {
            return;
        };
        let bytes = node.output.iter().map(String::len).sum::<usize>();
        if self.bytes + bytes <= MAX_BYTES {
            self.bytes += bytes;
        } else {
            node.output.clear();
        }
        self.workflow.put(node);
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The items as a JSON list.
    pub(super) fn to_json(&self) -> String {
        let items = self
            .items
            .values()
            .map(|item| String::from_utf8_lossy(item));
        let items: Vec<_> = items.collect();
        format!("[{}]", items.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_as_they_were_last_and_within_their_room() {
        let mut items = ItemsSoFar::default();
        let big = "x".repeat(MAX_BYTES - 10);
        for (name, index, item) in [
            ("added", 1, r#"{"id":"b"}"#),
            ("added", 0, r#"{"id":"a"}"#),
            ("done", 1, r#"{"id":"B"}"#),
            ("added", 2, &format!("{{\"id\":\"{big}\"}}")),
        ] {
            let line = format!("{{\"output_index\":{index},\"item\":{item}}}\n");
            items.add(&format!("response.output_item.{name}"), &line.into());
        }
        items.add("response.output_text.delta", &Bytes::from_static(b"{"));
        items.add("response.output_item.done", &Bytes::from_static(b"{"));
        assert_eq!(items.to_json(), r#"[{"id":"a"},{"id":"B"}]"#);
        assert_eq!(items.bytes(), 20);
    }
}
