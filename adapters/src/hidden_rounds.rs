//! What a client did not see of an answer: the calls of tools that ran in the proxy, and their
//! results. The client's next request has only what it was shown; with the hidden items put back it
//! continues the request that the provider answered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::item_text::message_text;
use crate::turn::{Item, ItemKind, Turn};

/// A shorter text of a message is no anchor: a session may have it several times.
const MIN_ANCHOR_CHARS: usize = 32;

/// The rounds of one answer, from its first item to its last. Made at the end of that answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct HiddenRounds {
    /// All items of the answer in the order in which the model wrote them and got results.
    pub entries: Vec<HiddenEntry>,
}

/// One item of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenEntry {
    /// A message that the client got, with its anchors: its id, and its text where that is long
    /// enough to be recognised. Some clients send messages back without their ids.
    Message(Vec<String>),
    /// Reasoning that the client got. Some clients do not send it back.
    Reasoning,
    /// A call of the client's tools, with its call id.
    Call(String),
    /// An item that the client did not see, as JSON.
    Hidden(Arc<str>),
}

impl HiddenEntry {
    /// The entry for an item that the client got, as JSON; `None` for one that is no part of a
    /// round, such as a compaction item.
    pub fn of_shown(json: &str) -> Option<Self> {
        let item = Item::hidden(json)?;
        if item.kind.is_call() {
            return Some(Self::Call(item.call_id()?.into_owned()));
        }
        match item.kind {
            ItemKind::Reasoning => Some(Self::Reasoning),
            ItemKind::Message => Some(Self::Message(message_anchors(&item).collect())),
            _ => None,
        }
    }

    fn anchors(&self) -> &[String] {
        match self {
            Self::Call(id) => std::slice::from_ref(id),
            Self::Message(anchors) => anchors,
            Self::Reasoning | Self::Hidden(_) => &[],
        }
    }
}

impl HiddenRounds {
    /// The anchors by which the client's next request shows that it continues this answer: ids of
    /// calls and messages, and hashes of texts.
    pub fn anchors(&self) -> impl Iterator<Item = &str> {
        let anchors = self.entries.iter().flat_map(HiddenEntry::anchors);
        anchors.map(String::as_str)
    }

    /// Whether it has anything that the client did not see.
    pub fn has_hidden(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| matches!(entry, HiddenEntry::Hidden(_)))
    }

    /// The size of the hidden items and anchors in bytes.
    pub fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|entry| match entry {
            HiddenEntry::Hidden(json) => json.len(),
            shown => shown.anchors().iter().map(String::len).sum(),
        });
        entries.sum::<usize>() + self.entries.len() * size_of::<HiddenEntry>()
    }

    /// Adds where the hidden items belong: each with the index of the item before which it does.
    /// Goes backwards from the last item that the client got, the entry `anchor` at the item `at`,
    /// as long as the history has the items that the client got; what was hidden before them is
    /// left out. Returns the index of the first of these items.
    fn add_insertions<'a>(
        &'a self,
        items: &[Item<'_>],
        (at, anchor): (usize, usize),
        insertions: &mut Vec<(usize, &'a str)>,
    ) -> usize {
        let first = insertions.len();
        let mut cursor = at;
        let mut before = shown_before(items, cursor);
        for entry in self.entries.iter().take(anchor).rev() {
            let is_there = match (entry, before) {
                (HiddenEntry::Hidden(json), _) => {
                    insertions.push((cursor, json));
                    continue;
                }
                (_, None) => false,
                (HiddenEntry::Message(_), Some((_, item))) => {
                    item.kind == ItemKind::Message && item.role() == "assistant"
                }
                (HiddenEntry::Reasoning, Some((_, item))) => item.kind == ItemKind::Reasoning,
                (HiddenEntry::Call(id), Some((_, item))) => {
                    item.kind.is_call() && item.call_id().is_some_and(|call| call == id.as_str())
                }
            };
            match before.filter(|_| is_there) {
                Some((index, _)) => {
                    cursor = index;
                    before = shown_before(items, cursor);
                }
                // Some clients do not send it back.
                None if *entry == HiddenEntry::Reasoning => {}
                None => break,
            }
        }
        if let Some(added) = insertions.get_mut(first..) {
            added.reverse();
        }
        let after = self.entries.iter().skip(anchor + 1);
        insertions.extend(after.filter_map(|entry| match entry {
            HiddenEntry::Hidden(json) => Some((at + 1, json.as_ref())),
            HiddenEntry::Message(_) | HiddenEntry::Reasoning | HiddenEntry::Call(_) => None,
        }));
        cursor
    }

    /// The last item of the answer that the history holds: its index there, and that of its entry.
    fn anchor(&self, positions: &HashMap<String, usize>) -> Option<(usize, usize)> {
        let mut entries = self.entries.iter().enumerate().rev();
        entries.find_map(|(index, entry)| {
            let mut anchors = entry.anchors().iter();
            let position = anchors.find_map(|anchor| positions.get(anchor))?;
            Some((*position, index))
        })
    }
}

/// The anchors of a history, by which hidden rounds are found.
pub fn anchors_of(turn: &Turn<'_>) -> HashSet<String> {
    turn.items.iter().flat_map(anchors).collect()
}

/// The anchors of an item of a history, which [`HiddenRounds::anchors`] may have.
fn anchors(item: &Item<'_>) -> impl Iterator<Item = String> {
    let call = item.call_id().filter(|_| item.kind.is_call());
    let is_answer = item.kind == ItemKind::Message && item.role() == "assistant";
    let of_message = is_answer.then(|| message_anchors(item));
    let call = call.map(std::borrow::Cow::into_owned).into_iter();
    call.chain(of_message.into_iter().flatten())
}

fn message_anchors(item: &Item<'_>) -> impl Iterator<Item = String> + use<> {
    let id = item.id().map(std::borrow::Cow::into_owned);
    let text = message_text(item);
    let text = text.trim();
    let is_long = text.chars().nth(MIN_ANCHOR_CHARS - 1).is_some();
    let hash = is_long.then(|| format!("text_{:016x}", xxh3_64(text.as_bytes())));
    id.into_iter().chain(hash)
}

/// Puts the hidden items of all these rounds back into a history that holds what the client got, in
/// one pass over it.
pub(crate) fn restore<'a>(rounds: &'a [Arc<HiddenRounds>], turn: &mut Turn<'a>) {
    if rounds.is_empty() {
        return;
    }
    let known: HashSet<&str> = rounds.iter().flat_map(|round| round.anchors()).collect();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (position, item) in turn.items.iter().enumerate() {
        for anchor in anchors(item).filter(|anchor| known.contains(anchor.as_str())) {
            positions.entry(anchor).or_insert(position);
        }
    }
    let mut anchored: Vec<_> = rounds
        .iter()
        .filter_map(|round| Some((round.anchor(&positions)?, round)))
        .collect();
    anchored.sort_by_key(|(anchor, _)| *anchor);
    let mut insertions = Vec::new();
    for (anchor, round) in anchored {
        let first = round.add_insertions(&turn.items, anchor, &mut insertions);
        let (last, _) = anchor;
        // One before the first shown item is also the index of a hidden item.
        let first = shown_before(&turn.items, first).map_or(0, |(index, _)| index);
        for item in turn.items.get_mut(first..last).unwrap_or_default() {
            item.is_told_elsewhere |= is_hosted(item) && !item.is_of_upstream();
        }
    }
    insertions.sort_by_key(|(at, _)| *at);
    insert(turn, &insertions);
}

/// The last item before this one that is not hosted, with its index.
fn shown_before<'t, 'a>(items: &'t [Item<'a>], cursor: usize) -> Option<(usize, &'t Item<'a>)> {
    let mut earlier = items.iter().enumerate().take(cursor).rev();
    earlier.find(|(_, item)| !is_hosted(item))
}

/// Inserts items, given as JSON with the index of the item before which they belong, in order.
fn insert<'a>(turn: &mut Turn<'a>, insertions: &[(usize, &'a str)]) {
    let mut insertions = insertions.iter().peekable();
    let items = std::mem::take(&mut turn.items);
    let end = items.len();
    for (index, item) in items.into_iter().enumerate() {
        while let Some((_, json)) = insertions.next_if(|(at, _)| *at <= index) {
            turn.items.extend(Item::hidden(json));
        }
        turn.items.push(item);
    }
    for (_, json) in insertions.filter(|(at, _)| *at >= end) {
        turn.items.extend(Item::hidden(json));
    }
}

/// Whether an item shows the call of a hosted tool. The call and its result are among the hidden
/// items.
fn is_hosted(item: &Item<'_>) -> bool {
    item.kind.is_hosted()
        || matches!(
            item.kind,
            ItemKind::McpCall | ItemKind::McpListTools | ItemKind::ServerToolSearch
        )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::responses::request::TurnSource;

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
    }

    fn output(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": "x"})
    }

    fn hidden(item: &Value) -> HiddenEntry {
        HiddenEntry::Hidden(item.to_string().into())
    }

    /// The call ids and kinds of a history after the rounds were put back.
    fn restored(history: &Value, entries: &[HiddenEntry]) -> Vec<String> {
        let rounds = HiddenRounds {
            entries: entries.to_vec(),
        };
        let body = json!({"model": "m", "input": history}).to_string();
        let source = TurnSource::new(body).with_hidden_rounds(vec![Arc::new(rounds)]);
        let turn = source.turn().unwrap();
        let name = |item: &Item<'_>| match item.call_id() {
            _ if item.kind == ItemKind::Message => "Message".to_owned(),
            Some(id) if item.kind.is_output() => format!("{id}!"),
            Some(id) => id.into_owned(),
            None => format!("{:?}", item.kind),
        };
        turn.items.iter().map(name).collect()
    }

    #[test]
    fn hidden_items_return_to_their_places() {
        let entries = [
            HiddenEntry::Reasoning,
            hidden(&call("p1")),
            hidden(&output("p1")),
            HiddenEntry::Message(Vec::new()),
            hidden(&call("p2")),
            HiddenEntry::Call("c1".into()),
            hidden(&output("p2")),
        ];
        let user = json!({"role": "user", "content": "u"});
        let reasoning = json!({"type": "reasoning", "summary": []});
        let text = json!({"type": "message", "role": "assistant", "content": "t"});
        let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        let (made, got) = (call("c1"), output("c1"));
        for (history, expected) in [
            (
                json!([user, reasoning, search, text, search, made, got]),
                "Message Reasoning ws_1 p1 p1! Message ws_1 p2 c1 p2! c1!",
            ),
            // The client left reasoning and hosted items out.
            (
                json!([user, text, made, got]),
                "Message p1 p1! Message p2 c1 p2! c1!",
            ),
            // The client changed its history: the round of its call is whole even so.
            (json!([user, made, got]), "Message p2 c1 p2! c1!"),
            (json!([made, got]), "p2 c1 p2! c1!"),
            (json!([user, call("c2")]), "Message c2"),
        ] {
            let found = restored(&history, &entries).join(" ");
            assert_eq!(found, expected, "{history}");
        }
    }

    /// Promise: What the model has read is in the next request where it was, also after an answer
    /// without calls of the client, and whether or not the client sends ids and reasoning back.
    #[test]
    fn an_answer_is_found_by_its_message() {
        let text = "It is sunny today, as three sources say.";
        let sent = |id: Option<&str>, text: &str| {
            let mut message = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
            if let Some(id) = id {
                message["id"] = json!(id);
            }
            message
        };
        let got = sent(Some("msg_1"), text).to_string();
        let entries = [
            HiddenEntry::Reasoning,
            hidden(&call("p1")),
            hidden(&output("p1")),
            HiddenEntry::of_shown(&got).unwrap(),
        ];
        let user = json!({"role": "user", "content": "u"});
        let reasoning = json!({"type": "reasoning", "summary": []});
        let next = json!({"role": "user", "content": "And tomorrow?"});
        for (history, expected) in [
            (
                json!([user, reasoning, sent(Some("msg_1"), text), next]),
                "Message Reasoning p1 p1! Message Message",
            ),
            (
                json!([user, sent(None, text), next]),
                "Message p1 p1! Message Message",
            ),
            (
                json!([user, sent(Some("msg_1"), "edited"), next]),
                "Message p1 p1! Message Message",
            ),
            (
                json!([user, sent(None, "Another text of the same length."), next]),
                "Message Message Message",
            ),
        ] {
            let found = restored(&history, &entries).join(" ");
            assert_eq!(found, expected, "{history}");
        }
        let short = HiddenEntry::of_shown(&sent(None, "Done.").to_string());
        assert_eq!(short, Some(HiddenEntry::Message(Vec::new())));
    }
}
