//! What a client did not see of an answer: the calls of tools that ran in the proxy, and their
//! results. The client's next request has only what it was shown; with the hidden items put back it
//! continues the request that the provider answered.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::cited_source::CitedSource;
use crate::item_text::message_text;
use crate::turn::{Item, ItemKind, Turn};

/// The rounds of one answer, from its first item to its last. Made when its first round is
/// complete, and grows with each further one.
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
    /// A message that the client got, with its anchors: its id, and the [`ConversationHash`] with
    /// it. Some clients send messages back without their ids.
    Message(Vec<String>),
    /// Reasoning that the client got. Some clients do not send it back.
    Reasoning,
    /// A call of the client's tools, with its call id.
    Call(String),
    /// The id of the last hosted item of a round. An answer that breaks off after it may have
    /// nothing else by which it is found.
    Hosted(String),
    /// An item that the client did not see, as JSON.
    Hidden(Arc<str>),
    /// A page that the calls of a round have found or read. No part of the history.
    Source(CitedSource),
}

impl HiddenEntry {
    /// The entry for an item that the client got, as JSON; `None` for one that is no part of a
    /// round, such as a compaction item. `said` is the conversation before it.
    pub fn of_shown(json: &str, said: &mut ConversationHash) -> Option<Self> {
        let item = Item::hidden(json)?;
        if item.kind.is_call() {
            return Some(Self::Call(item.call_id()?.into_owned()));
        }
        match item.kind {
            ItemKind::Reasoning => Some(Self::Reasoning),
            ItemKind::Message => Some(Self::Message(anchors(&item, said).collect())),
            _ => None,
        }
    }

    fn anchors(&self) -> &[String] {
        match self {
            Self::Call(id) | Self::Hosted(id) => std::slice::from_ref(id),
            Self::Message(anchors) => anchors,
            Self::Reasoning | Self::Hidden(_) | Self::Source(_) => &[],
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

    /// Whether the client did not see something that followed this entry.
    fn has_hidden_after(&self, entry: usize) -> bool {
        let mut entries = self.entries.iter().skip(entry + 1);
        entries.any(|entry| matches!(entry, HiddenEntry::Hidden(_)))
    }

    /// The same rounds, of which no source is known.
    #[must_use]
    pub fn without_sources(&self) -> Self {
        let is_kept = |entry: &&HiddenEntry| !matches!(entry, HiddenEntry::Source(_));
        Self {
            entries: self.entries.iter().filter(is_kept).cloned().collect(),
        }
    }

    /// The size of the hidden items, sources and anchors in bytes.
    pub fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|entry| match entry {
            HiddenEntry::Hidden(json) => json.len(),
            HiddenEntry::Source(source) => source.bytes(),
            shown => shown.anchors().iter().map(String::len).sum(),
        });
        entries.sum::<usize>() + self.entries.len() * size_of::<HiddenEntry>()
    }

    /// Adds where the hidden items belong, and from where on the sources are known: each with the
    /// index of the item before which it does. Goes backwards from the last item that the client
    /// got, the entry `anchor` at the item `at`, as long as the history has the items that the
    /// client got; what was hidden before them is left out. Returns the index of the first of these
    /// items.
    fn add_insertions<'a>(
        &'a self,
        items: &[Item<'_>],
        (at, anchor): (usize, usize),
        placed: &mut PlacedEntries<'a>,
    ) -> usize {
        let PlacedEntries {
            insertions,
            sources,
        } = placed;
        let (first, first_source) = (insertions.len(), sources.len());
        let mut cursor = at;
        let mut before = shown_before(items, cursor);
        let mut is_lost = false;
        for entry in self.entries.iter().take(anchor).rev() {
            let is_there = match (entry, before) {
                (HiddenEntry::Source(source), _) => {
                    sources.push((cursor, source));
                    continue;
                }
                _ if is_lost => continue,
                (HiddenEntry::Hidden(json), _) => {
                    insertions.push((cursor, json));
                    continue;
                }
                (HiddenEntry::Hosted(_), _) => continue,
                (_, None) => false,
                (HiddenEntry::Message(_), Some((_, item))) => is_answer(item),
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
                // What was hidden before it has no place any more; its sources stay known.
                None => is_lost = true,
            }
        }
        if let Some(added) = insertions.get_mut(first..) {
            added.reverse();
        }
        if let Some(added) = sources.get_mut(first_source..) {
            added.reverse();
        }
        for entry in self.entries.iter().skip(anchor + 1) {
            match entry {
                HiddenEntry::Hidden(json) => insertions.push((at + 1, json)),
                HiddenEntry::Source(source) => sources.push((at + 1, source)),
                HiddenEntry::Message(_)
                | HiddenEntry::Reasoning
                | HiddenEntry::Call(_)
                | HiddenEntry::Hosted(_) => {}
            }
        }
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

/// What is put into a history: each with the index of the item before which it belongs.
#[derive(Default)]
struct PlacedEntries<'a> {
    /// Items, as JSON.
    insertions: Vec<(usize, &'a str)>,
    sources: Vec<(usize, &'a CitedSource)>,
}

/// A hash of all that the user and the model have said up to an item, without white space. It tells
/// equal texts of a session from one another: a text is recognised only where all that was said
/// before it is the same. Texts of the model in a row count as one, because some clients send them
/// back as one.
#[derive(Clone, Default)]
pub struct ConversationHash(Xxh3);

impl ConversationHash {
    /// The hash of a whole history.
    pub fn of(turn: &Turn<'_>) -> Self {
        let mut said = Self::default();
        for item in &turn.items {
            said.add(item);
        }
        said
    }

    /// Adds an item. Returns the anchor of a message of the model.
    fn add(&mut self, item: &Item<'_>) -> Option<String> {
        // Some clients send what precedes a summary, and others do not.
        if item.kind == ItemKind::Compaction {
            *self = Self::default();
        }
        let is_answer = is_answer(item);
        if !is_answer && (item.kind != ItemKind::Message || item.role() != "user") {
            return None;
        }
        // UTF-8 has no such byte, so no text looks like a border.
        let border: &[u8] = if is_answer { &[] } else { &[0xff] };
        self.0.update(border);
        let text = message_text(item);
        for word in text.split_whitespace() {
            self.0.update(word.as_bytes());
        }
        self.0.update(border);
        (is_answer && !text.trim().is_empty()).then(|| format!("text_{:016x}", self.0.digest()))
    }
}

impl fmt::Debug for ConversationHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationHash").finish_non_exhaustive()
    }
}

/// The anchors of a history, by which hidden rounds are found.
pub fn anchors_of(turn: &Turn<'_>) -> HashSet<String> {
    let mut said = ConversationHash::default();
    let items = turn.items.iter();
    items.flat_map(|item| anchors(item, &mut said)).collect()
}

/// The anchors of an item of a history, which [`HiddenRounds::anchors`] may have. `said` is the
/// conversation before it.
fn anchors(item: &Item<'_>, said: &mut ConversationHash) -> impl Iterator<Item = String> + use<> {
    let call = item.call_id().filter(|_| item.kind.is_call());
    let shown = item.id().filter(|_| is_answer(item) || is_hosted(item));
    let id = call.or(shown).map(Cow::into_owned);
    id.into_iter().chain(said.add(item))
}

fn is_answer(item: &Item<'_>) -> bool {
    item.kind == ItemKind::Message && item.role() == "assistant"
}

/// Whether an item may be a part of an answer without calls of the client.
fn is_of_answer(item: &Item<'_>) -> bool {
    is_answer(item) || is_hosted(item) || item.kind == ItemKind::Reasoning
}

/// Puts the hidden items of all these rounds back into a history that holds what the client got, in
/// one pass over it.
pub(crate) fn restore<'a>(rounds: &'a [Arc<HiddenRounds>], turn: &mut Turn<'a>) {
    if rounds.is_empty() {
        return;
    }
    let known: HashSet<&str> = rounds.iter().flat_map(|round| round.anchors()).collect();
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut said = ConversationHash::default();
    for (position, item) in turn.items.iter().enumerate() {
        for anchor in anchors(item, &mut said).filter(|anchor| known.contains(anchor.as_str())) {
            positions.entry(anchor).or_insert(position);
        }
    }
    let mut anchored: Vec<_> = rounds
        .iter()
        .filter_map(|round| Some((round.anchor(&positions)?, round)))
        .collect();
    anchored.sort_by_key(|(anchor, _)| *anchor);
    let mut placed = PlacedEntries::default();
    for (anchor, round) in anchored {
        let first = round.add_insertions(&turn.items, anchor, &mut placed);
        let (last, entry) = anchor;
        // One before the first shown item is also the index of a hidden item.
        let first = shown_before(&turn.items, first).map_or(0, |(index, _)| index);
        // An answer that broke off may end within a round of which all is known.
        let cut_off = if round.has_hidden_after(entry) {
            let after = turn.items.iter().skip(last + 1);
            after.take_while(|item| is_of_answer(item)).count()
        } else {
            0
        };
        let shown = turn.items.get_mut(first..=last + cut_off);
        for item in shown.unwrap_or_default() {
            item.is_told_elsewhere |= is_hosted(item) && !item.is_of_upstream();
        }
    }
    let PlacedEntries {
        mut insertions,
        mut sources,
    } = placed;
    insertions.sort_by_key(|(at, _)| *at);
    sources.sort_by_key(|(at, _)| *at);
    for (index, item) in turn.items.iter_mut().enumerate() {
        item.known_sources = sources.partition_point(|(at, _)| *at <= index);
    }
    let sources = sources.into_iter().map(|(_, source)| source);
    turn.known_sources.extend(sources);
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
            ItemKind::McpCall
                | ItemKind::ApprovedMcpCall
                | ItemKind::McpListTools
                | ItemKind::ServerToolSearch
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

    fn said(history: &Value) -> ConversationHash {
        let source = TurnSource::new(json!({"model": "m", "input": history}).to_string());
        ConversationHash::of(&source.turn().unwrap())
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
    /// that broke off while it searched.
    #[test]
    fn an_answer_that_broke_off_is_found_by_what_showed_its_calls() {
        let entries = [
            HiddenEntry::Message(Vec::new()),
            hidden(&call("p1")),
            hidden(&output("p1")),
            HiddenEntry::Hosted("ws_1".into()),
            hidden(&call("p2")),
            hidden(&output("p2")),
            HiddenEntry::Hosted("ws_2".into()),
        ];
        let user = json!({"role": "user", "content": "u"});
        let text = json!({"type": "message", "role": "assistant", "content": "t"});
        let search = |id: &str| json!({"type": "web_search_call", "id": id, "status": "completed"});
        for (history, expected) in [
            (
                json!([user, text, search("ws_1"), search("ws_2")]),
                "Message Message ws_1 p1 p1! p2 p2! ws_2",
            ),
            (
                json!([user, text, search("ws_1"), user]),
                "Message Message p1 p1! ws_1 p2 p2! Message",
            ),
            (json!([user, search("ws_2")]), "Message p1 p1! p2 p2! ws_2"),
            (json!([user, search("ws_3")]), "Message ws_3"),
        ] {
            let found = restored(&history, &entries).join(" ");
            assert_eq!(found, expected, "{history}");
        }
    }

    /// Promise: A call that ran in an answer that broke off is told to the model once: by its item,
    /// or by its round if that had ended.
    #[test]
    fn a_call_of_an_answer_that_broke_off_is_told_once() {
        let item = |id: &str| {
            json!({"type": "mcp_call", "id": id, "name": "f", "server_label": "s",
                "arguments": "{}", "output": "x"})
        };
        let entries = [
            hidden(&call("p1")),
            hidden(&output("p1")),
            HiddenEntry::Hosted("mcp_1".into()),
            hidden(&call("p2")),
            hidden(&call("p3")),
            hidden(&output("p2")),
            hidden(&output("p3")),
            HiddenEntry::Hosted("mcp_3".into()),
        ];
        let user = json!({"role": "user", "content": "u"});
        let items = |ids: &[&str]| {
            let items = [user.clone()].into_iter();
            let items = items.chain(ids.iter().map(|id| item(id)));
            items.chain([user.clone(), item("mcp_9")]).collect()
        };
        // The items that are not told by a round.
        for (shown, known, expected) in [
            (["mcp_1", "mcp_2"], 8, vec!["mcp_9"]),
            (["mcp_1", "mcp_2"], 3, vec!["mcp_2", "mcp_9"]),
            (["mcp_2", "mcp_3"], 8, vec!["mcp_9"]),
        ] {
            let history: Vec<Value> = items(&shown);
            let rounds = HiddenRounds {
                entries: entries[..known].to_vec(),
            };
            let body = json!({"model": "m", "input": history}).to_string();
            let source = TurnSource::new(body).with_hidden_rounds(vec![Arc::new(rounds)]);
            let turn = source.turn().unwrap();
            let told = turn.items.iter().filter(|item| !item.is_told_elsewhere);
            let told: Vec<_> = told
                .filter_map(Item::id)
                .filter(|id| id.starts_with("mcp"))
                .collect();
            assert_eq!(told, expected, "{shown:?} {known}");
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
        let user = json!({"role": "user", "content": "u"});
        let mut said = said(&json!([user]));
        let got = sent(Some("msg_1"), text).to_string();
        let entries = [
            HiddenEntry::Reasoning,
            hidden(&call("p1")),
            hidden(&output("p1")),
            HiddenEntry::of_shown(&got, &mut said).unwrap(),
        ];
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
    }

    /// Promise: A message without an id is recognised by its text and all that was said before it,
    /// so that what was read for an answer stands before no other one; where an earlier message is
    /// another, or is missing, nothing is put there. The white space of texts does not count, and
    /// the texts of an answer may come back as one message.
    #[test]
    fn a_text_is_recognised_in_its_conversation_only() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let model = |text: &str| json!({"role": "assistant", "content": text});
        let system = json!({"role": "system", "content": "It is noon."});
        let mut said = said(&json!([system, user("Go"), model("Done."), user("Go")]));
        let mut shown = |text| HiddenEntry::of_shown(&model(text).to_string(), &mut said).unwrap();
        let entries = [
            shown("I look.\n"),
            hidden(&call("p1")),
            hidden(&output("p1")),
            shown("Done."),
        ];
        for (history, expected) in [
            (
                json!([
                    user("Go"),
                    model(" Done. "),
                    user("Go"),
                    model("I look."),
                    model("Done.")
                ]),
                "Message Message Message Message p1 p1! Message",
            ),
            (
                json!([
                    user("Go"),
                    model("Done."),
                    user("Go"),
                    model("I look.\nDone."),
                    system
                ]),
                "Message Message Message p1 p1! Message Message",
            ),
            (
                json!([user("Go"), model("I look."), model("Done.")]),
                "Message Message Message",
            ),
            (
                json!([
                    user("Go"),
                    model("Done"),
                    user("Go"),
                    model("I look."),
                    model("Done.")
                ]),
                "Message Message Message Message Message",
            ),
            (
                json!([
                    user("Go Done."),
                    user("Go"),
                    model("I look."),
                    model("Done.")
                ]),
                "Message Message Message Message",
            ),
        ] {
            let found = restored(&history, &entries).join(" ");
            assert_eq!(found, expected, "{history}");
        }
    }
}
