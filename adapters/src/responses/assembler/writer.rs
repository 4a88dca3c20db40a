//! The counters that all items of an answer share, and the events that contain items.

use bytes::Bytes;

use super::super::event_buffer::{EventBuffer, SHARED_BYTES};
use super::super::response_object::ResponseObject;
use super::citations::CitedSources;
use super::hosted::{HostedItem, OpenHostedItem};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::notes::Notes;
use crate::tools::HostedSearch;
use crate::turn::ApprovalCall;

/// The response so far, the counters of its events and items, and the notes. Made with the answer.
#[derive(Debug)]
pub(super) struct ItemWriter {
    /// The response so far.
    pub(super) response: ResponseObject,
    /// The repairs and omissions in the answer.
    pub(super) notes: Notes,
    /// The sequence number of the next event.
    sequence: u64,
    next_index: u32,
    /// How many parts of items were opened.
    parts: usize,
    /// Why the answer cannot go on.
    pub(super) fault: Option<Box<Fault>>,
    /// The search for tools whose items are written here, if the client offers one.
    pub(super) search: Option<Box<HostedSearch>>,
    /// The pages that the texts may cite.
    pub(super) sources: CitedSources,
    /// The calls that a person is asked to approve, until they are taken.
    pub(super) asked: Vec<ApprovalCall>,
}

/// How far an answer was written. Made when a round begins: each of its attempts begins there.
#[derive(Debug, Default)]
pub(super) struct WriterMark {
    items: usize,
    next_index: u32,
    parts: usize,
    search: Option<Box<HostedSearch>>,
}

/// The id and `output_index` of an item.
#[derive(Clone, Debug)]
pub(super) struct ItemPosition {
    pub(super) id: String,
    pub(super) index: u32,
}

/// Numbers events and items, writes the events that contain items or the response, and adds
/// the finished items to the response. Borrowed from the writer for each call.
pub(super) struct ItemOutput<'o> {
    writer: &'o mut ItemWriter,
    events: &'o mut EventBuffer,
}

impl ItemWriter {
    pub(super) fn new(response: ResponseObject) -> Self {
        Self {
            response,
            notes: Notes::default(),
            sequence: 0,
            next_index: 0,
            parts: 0,
            fault: None,
            search: None,
            sources: CitedSources::default(),
            asked: Vec::new(),
        }
    }

    /// The next event has this number.
    pub(super) fn continue_at(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// The next event has this number, and this many items were opened.
    pub(super) fn resume(&mut self, sequence: u64, items: usize) {
        self.sequence = sequence;
        self.next_index = u32::try_from(items).unwrap_or(u32::MAX);
    }

    /// Takes the last event back, which is still in `events`.
    pub(super) fn take_back(&mut self, events: &mut EventBuffer) {
        if events.remove_last() {
            self.sequence -= 1;
        }
    }

    /// Writes to these events.
    pub(super) fn to<'o>(&'o mut self, events: &'o mut EventBuffer) -> ItemOutput<'o> {
        ItemOutput {
            writer: self,
            events,
        }
    }

    /// Where the answer is.
    pub(super) fn mark(&self) -> WriterMark {
        WriterMark {
            items: self.item_count(),
            next_index: self.next_index,
            parts: self.parts,
            search: self.search.clone(),
        }
    }

    /// Forgets what was written since the mark. The client has seen none of it.
    pub(super) fn rewind(&mut self, mark: &WriterMark) {
        self.response.output.truncate(mark.items);
        (self.next_index, self.parts) = (mark.next_index, mark.parts);
        self.search.clone_from(&mark.search);
        self.asked.clear();
    }

    /// Whether items or parts were opened since.
    pub(super) fn has_opened_since(&self, mark: &WriterMark) -> bool {
        (self.next_index, self.parts) != (mark.next_index, mark.parts)
    }

    /// How many items are finished.
    pub(super) fn item_count(&self) -> usize {
        self.response.output.len()
    }

    /// How many items and parts of items were opened.
    pub(super) fn opened(&self) -> usize {
        self.parts + usize::try_from(self.next_index).unwrap_or(usize::MAX)
    }
}

impl ItemOutput<'_> {
    /// Assigns the next output index, with an item id that has this prefix (`msg`, `rs`,
    /// `fc` and so on).
    pub(super) fn next_position(&mut self, prefix: &str) -> ItemPosition {
        let id = self.writer.response.item_id(prefix, self.writer.next_index);
        self.position_with_id(id)
    }

    /// The place of the next item, for one with this prefix that is no part of the output: the
    /// next item gets the place as well.
    pub(super) fn position_of_next(&self, prefix: &str) -> ItemPosition {
        let index = self.writer.next_index;
        let id = self.writer.response.item_id(prefix, index);
        ItemPosition { id, index }
    }

    /// Assigns the next output index to an item that has an id.
    pub(super) fn position_with_id(&mut self, id: String) -> ItemPosition {
        let index = self.writer.next_index;
        self.writer.next_index += 1;
        ItemPosition { id, index }
    }

    /// A person is asked to approve a call.
    pub(super) fn ask_for_approval(&mut self, call: ApprovalCall) {
        self.writer.asked.push(call);
    }

    /// Writes `response.output_item.added`.
    pub(super) fn item_added(&mut self, position: &ItemPosition, item: &[u8]) {
        self.event("response.output_item.added", b"", |out| {
            push_item_fields(out, position);
            out.extend_from_slice(item);
        });
    }

    /// Writes `response.output_item.done` and adds the item to the response.
    pub(super) fn item_done(&mut self, position: &ItemPosition, item: Vec<u8>) {
        let item = Bytes::from(item);
        let before = |out: &mut Vec<u8>| push_item_fields(out, position);
        self.shared_event("response.output_item.done", before, &item, |_| ());
        self.writer.response.output.push(&position.id, item);
    }

    /// How many items are finished.
    pub(super) fn item_count(&self) -> usize {
        self.writer.item_count()
    }

    /// The annotations for the links of a text, escaped, to pages that tools of the proxy have
    /// read.
    pub(super) fn citations_in(&self, escaped: &str) -> Vec<String> {
        self.writer.sources.annotations(escaped)
    }

    /// Writes the items of the search that finds a deferred tool, before its first call.
    pub(super) fn find_tool(&mut self, namespace: Option<&str>, name: &str) {
        let search = self.writer.search.as_mut().zip(namespace);
        let found = search.and_then(|(search, namespace)| search.find(namespace, name));
        let Some((path, tools)) = found else {
            return;
        };
        let search = HostedItem::ToolSearchCall {
            paths: vec![path],
            tools,
        };
        OpenHostedItem::open(search, self).close(None, false, self);
    }

    /// These definitions were found, as a JSON list: no further search finds them.
    pub(super) fn forget_found(&mut self, tools: &str) {
        if let Some(search) = &mut self.writer.search {
            search.forget(tools);
        }
    }

    /// Ends the answer, because the client has pieces of a call of this tool that are not its
    /// arguments.
    pub(super) fn fail_call(&mut self, name: &str) {
        let predicate = format!("sent other arguments of a call of '{name}' than their pieces.");
        let fault = Fault::of_provider(Kind::BadReply, predicate);
        self.writer.fault.get_or_insert(Box::new(fault));
    }

    /// Counts a part of an item that is opened.
    pub(super) fn count_part(&mut self) {
        self.writer.parts += 1;
    }

    /// Adds a note.
    pub(super) fn note(&mut self, code: &'static str, detail: impl Into<String>) {
        self.writer.notes.add(code, detail);
    }

    /// Writes an event with the response object.
    pub(super) fn response_event(&mut self, name: &'static str) {
        let out = begin(self.writer, self.events, name);
        out.extend_from_slice(b",\"response\":");
        let start = out.len();
        self.writer.response.push_to(self.events);
        if self.writer.response.status.is_some() {
            self.events.mark_response(start);
        }
        self.events.end_event();
    }

    /// Writes the event that ends a text: with the escaped text in this field, and other fields
    /// behind it.
    pub(super) fn text_event(
        &mut self,
        name: &'static str,
        location: &[u8],
        field: &str,
        text: &Bytes,
        others: impl FnOnce(&mut Vec<u8>),
    ) {
        let before = |out: &mut Vec<u8>| {
            out.extend_from_slice(location);
            json::key(out, field);
            out.push(b'"');
        };
        self.shared_event(name, before, text, |out| {
            out.push(b'"');
            others(out);
        });
    }

    /// Writes an event with a piece that may be large and that other events share. `before` and
    /// `after` append what precedes and follows the piece.
    pub(super) fn shared_event(
        &mut self,
        name: &'static str,
        before: impl FnOnce(&mut Vec<u8>),
        piece: &Bytes,
        after: impl FnOnce(&mut Vec<u8>),
    ) {
        before(begin(self.writer, self.events, name));
        self.events.push_shared(piece);
        after(self.events.open_bytes());
        self.events.end_event();
    }

    /// Writes an event about an item. `location` comes from [`location_fields`]; `rest`
    /// appends the other fields.
    pub(super) fn event(
        &mut self,
        name: &'static str,
        location: &[u8],
        rest: impl FnOnce(&mut Vec<u8>),
    ) {
        let out = begin(self.writer, self.events, name);
        out.extend_from_slice(location);
        rest(out);
        self.events.end_event();
    }
}

/// Begins the event with the next sequence number.
fn begin<'e>(
    writer: &mut ItemWriter,
    events: &'e mut EventBuffer,
    name: &'static str,
) -> &'e mut Vec<u8> {
    let sequence = writer.sequence;
    writer.sequence += 1;
    events.begin_event(name, sequence)
}

/// A text that several events share. A large one gives back the spare room in which it grew.
pub(super) fn share(mut text: String) -> Bytes {
    if text.len() >= SHARED_BYTES {
        text.shrink_to_fit();
    }
    text.into()
}

/// Appends the index of an item, and the name of the field with the item.
fn push_item_fields(out: &mut Vec<u8>, position: &ItemPosition) {
    json::field(out, "output_index", &position.index);
    out.extend_from_slice(b",\"item\":");
}

/// The fields that say to which item an event belongs, encoded once for many deltas:
/// `,"item_id":…,"output_index":…` and, if given, the name and value of an index inside the
/// item.
pub(super) fn location_fields(position: &ItemPosition, inside: Option<(&str, usize)>) -> Vec<u8> {
    let mut out = Vec::new();
    json::field(&mut out, "item_id", &position.id);
    json::field(&mut out, "output_index", &position.index);
    if let Some((name, index)) = inside {
        json::field(&mut out, name, &index);
    }
    out
}

/// Appends `,"name":"` escaped `"`.
pub(super) fn push_escaped(out: &mut Vec<u8>, name: &str, escaped: &str) {
    json::key(out, name);
    out.push(b'"');
    out.extend_from_slice(escaped.as_bytes());
    out.push(b'"');
}

/// Text that arrives in pieces, escaped. An upstream may split a surrogate pair between two
/// pieces; the high surrogate is kept back until the low one arrives.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    pub(super) text: String,
    high_surrogate: String,
}

impl From<String> for StreamedText {
    /// A text that came whole.
    fn from(text: String) -> Self {
        Self {
            text,
            high_surrogate: String::new(),
        }
    }
}

impl StreamedText {
    /// Appends a piece.
    pub(super) fn push(&mut self, escaped: &str) {
        if self.high_surrogate.is_empty() && !has_unicode_escape(escaped) {
            return self.text.push_str(escaped);
        }
        let mut joined = std::mem::take(&mut self.high_surrogate);
        joined.push_str(escaped);
        if let Some(at) = json::find_lone_surrogate(&joined)
            && at + 6 == joined.len()
            && json::is_high_surrogate(&joined, at)
        {
            self.high_surrogate = joined.split_off(at);
        }
        self.text.push_str(&json::replace_lone_surrogates(&joined));
    }

    /// Keeps the first `bytes` bytes only.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.text.truncate(bytes);
        self.high_surrogate.clear();
    }

    /// Ends the text. Returns U+FFFD (escaped) if a high surrogate was kept back.
    pub(super) fn flush(&mut self) -> Option<&'static str> {
        if self.high_surrogate.is_empty() {
            return None;
        }
        self.high_surrogate.clear();
        self.text.push_str("\\ufffd");
        Some("\\ufffd")
    }
}

/// Whether the text may contain a `\u` escape. Most pieces are short and have no escape at
/// all, so looking for the backslash first is cheaper than a search for both characters.
fn has_unicode_escape(escaped: &str) -> bool {
    let bytes = escaped.as_bytes();
    memchr::memchr(b'\\', bytes)
        .and_then(|at| bytes.get(at..))
        .is_some_and(|rest| memchr::memmem::find(rest, b"\\u").is_some())
}
