//! One text of an item: a content part, a part of a summary, or the body of a call.

use std::collections::HashSet;

use bytes::Bytes;

use super::super::event_buffer::SHARED_BYTES;
use super::writer::{ItemOutput, ItemPosition, StreamedText, location_fields, push_escaped, share};
use crate::event::{Fragment, NativeText};
use crate::json;
use crate::members::{EditedObject, Members, rewrite};
use serde_json::value::RawValue;

/// The most annotations of one part. Long reports cite a few hundred pages.
const MAX_ANNOTATIONS: usize = 1_000;

/// The note for further ones.
pub(super) const TOO_MANY_ANNOTATIONS: &str = "a text has more than a thousand";

/// A text that arrives in pieces, and how much of it was written. Made with the first
/// piece, or with the item if it came whole.
#[derive(Debug)]
pub(super) struct TextPart {
    pub(super) kind: NativeText,
    /// The whole text, once its events share it.
    shared: Option<Bytes>,
    /// The upstream's index of the part, where it counts parts.
    pub(super) upstream_index: Option<u32>,
    text: StreamedText,
    /// Whether the text has anything but white space.
    has_visible_text: bool,
    /// How many bytes of the text were written.
    sent: usize,
    /// The first byte that is not written yet.
    held_from: usize,
    /// The log probabilities of all pieces as JSON, separated by commas.
    logprobs: String,
    sent_logprobs: usize,
    annotations: Vec<String>,
    /// The same annotations, where each of them counts once.
    known_annotations: HashSet<String>,
    sent_annotations: usize,
    /// The fields that locate the part; empty until it is open.
    location: Vec<u8>,
}

/// The names in the API of a kind of text.
pub(super) struct TextNames {
    /// The type of the part; empty for a body, which has no part.
    pub(super) part: &'static str,
    /// The member of the part that has the text.
    pub(super) field: &'static str,
    /// The event that opens the part.
    pub(super) added: &'static str,
    /// The event that closes the part.
    pub(super) closed: &'static str,
    /// The member with the index of the part in its item.
    pub(super) index: &'static str,
    delta: &'static str,
    /// The event that ends the text.
    pub(super) done: &'static str,
}

/// The names of a kind of text.
pub(super) fn names(kind: NativeText) -> TextNames {
    let content = TextNames {
        part: "output_text",
        field: "text",
        added: "response.content_part.added",
        closed: "response.content_part.done",
        index: "content_index",
        delta: "response.output_text.delta",
        done: "response.output_text.done",
    };
    match kind {
        NativeText::Output => content,
        NativeText::Refusal => TextNames {
            part: "refusal",
            field: "refusal",
            delta: "response.refusal.delta",
            done: "response.refusal.done",
            ..content
        },
        NativeText::Reasoning => TextNames {
            part: "reasoning_text",
            delta: "response.reasoning_text.delta",
            done: "response.reasoning_text.done",
            ..content
        },
        NativeText::Summary => TextNames {
            part: "summary_text",
            added: "response.reasoning_summary_part.added",
            closed: "response.reasoning_summary_part.done",
            index: "summary_index",
            delta: "response.reasoning_summary_text.delta",
            done: "response.reasoning_summary_text.done",
            ..content
        },
        // The item knows the names of its body's events.
        NativeText::Body => TextNames {
            part: "",
            ..content
        },
    }
}

/// The kind of a part of a finished item, by its type.
pub(super) fn kind_of_part(name: &str) -> Option<NativeText> {
    [
        NativeText::Output,
        NativeText::Refusal,
        NativeText::Reasoning,
        NativeText::Summary,
    ]
    .into_iter()
    .find(|kind| names(*kind).part == name)
}

impl TextPart {
    pub(super) fn new(kind: NativeText) -> Self {
        Self {
            kind,
            shared: None,
            upstream_index: None,
            text: StreamedText::default(),
            has_visible_text: false,
            sent: 0,
            held_from: usize::MAX,
            logprobs: String::new(),
            sent_logprobs: 0,
            annotations: Vec::new(),
            known_annotations: HashSet::new(),
            sent_annotations: 0,
            location: Vec::new(),
        }
    }

    /// The text so far, escaped.
    pub(super) fn text(&self) -> &str {
        match &self.shared {
            Some(whole) => str::from_utf8(whole).unwrap_or_default(),
            None => &self.text.text,
        }
    }

    /// The whole text, which the events that end it share; no more text follows. The upstream's
    /// `part` usually has the same text, which is not kept twice.
    fn share_text(&mut self, part: Option<&Bytes>) -> Bytes {
        let text = std::mem::take(&mut self.text.text);
        let shared = match part.and_then(|part| find_in(part, &text)) {
            Some(found) => found,
            None => share(text),
        };
        self.shared.insert(shared).clone()
    }

    pub(super) fn is_blank(&self) -> bool {
        !self.has_visible_text
    }

    pub(super) fn push(&mut self, escaped: &str, logprobs: &str) {
        self.push_text(escaped);
        push_list(&mut self.logprobs, logprobs);
    }

    /// Looks at the piece alone, so that the cost of many small pieces does not grow with the
    /// text.
    fn push_text(&mut self, escaped: &str) {
        self.has_visible_text |= !Fragment::from_escaped(escaped).is_blank();
        self.text.push(escaped);
    }

    /// Adds an annotation, unless the part has [`MAX_ANNOTATIONS`]: then it is false.
    pub(super) fn annotate(&mut self, annotation: String) -> bool {
        let has_room = self.annotations.len() < MAX_ANNOTATIONS;
        if has_room {
            self.annotations.push(annotation);
        }
        has_room
    }

    /// Adds an annotation that the part does not have yet. False if there is no room for it.
    pub(super) fn annotate_once(&mut self, annotation: String) -> bool {
        if self.annotations.len() >= MAX_ANNOTATIONS {
            return self.known_annotations.contains(&annotation);
        }
        if self.known_annotations.insert(annotation.clone()) {
            self.annotations.push(annotation);
        }
        true
    }

    /// Adds what the pieces lack of the whole text. If the whole text does not continue them, the
    /// upstream has lost a piece: what was not written yet is replaced. Returns false if the whole
    /// text does not even continue what was written.
    pub(super) fn complete(&mut self, whole: &Fragment<'_>) -> bool {
        if self.text() == whole.escaped() {
            return true;
        }
        let decoded = whole.decoded();
        if let Some(rest) = missing_rest(self.text(), &decoded) {
            self.push_text(&rest);
            return true;
        }
        let written = self.text.text.get(..self.sent).unwrap_or_default();
        let rest = missing_rest(written, &decoded);
        if let Some(rest) = &rest {
            self.text.truncate(self.sent);
            self.has_visible_text = !Fragment::from_escaped(self.text()).is_blank();
            self.push_text(rest);
        }
        rest.is_some()
    }

    /// Lets this byte and those behind it wait.
    pub(super) fn hold_from(&mut self, byte: usize) {
        self.held_from = byte;
    }

    /// Takes another text, escaped. False if it does not continue what was written.
    pub(super) fn replace(&mut self, escaped: &str) -> bool {
        let continues = self
            .text
            .text
            .get(..self.sent)
            .is_some_and(|written| escaped.starts_with(written));
        if continues {
            self.text = StreamedText::from(escaped.to_owned());
        }
        continues
    }

    /// Opens the part if need be and writes what is new of it. `index` is its index in the
    /// item.
    pub(super) fn advance(
        &mut self,
        position: &ItemPosition,
        index: usize,
        delta: &'static str,
        out: &mut ItemOutput<'_>,
    ) {
        let names = names(self.kind);
        if self.location.is_empty() {
            if self.kind == NativeText::Body {
                self.location = location_fields(position, None);
            } else {
                out.count_part();
                self.location = location_fields(position, Some((names.index, index)));
                let (head, tail) = self.around_text("", "");
                out.event(names.added, &self.location, |out| {
                    out.extend_from_slice(b",\"part\":");
                    out.extend_from_slice(&head);
                    out.extend_from_slice(&tail);
                });
            }
        }
        let end = self.held_from.min(self.text.text.len());
        let new = self.text.text.get(self.sent..end).unwrap_or_default();
        if !new.is_empty() {
            let logprobs = self.logprobs.get(self.sent_logprobs..).unwrap_or_default();
            let logprobs = logprobs.strip_prefix(',').unwrap_or(logprobs);
            let is_output = self.kind == NativeText::Output;
            let name = if delta.is_empty() { names.delta } else { delta };
            out.event(name, &self.location, |out| {
                push_escaped(out, "delta", new);
                if is_output {
                    out.extend_from_slice(b",\"logprobs\":[");
                    json::push_one_line(out, logprobs);
                    out.push(b']');
                }
            });
            self.sent = end;
            self.sent_logprobs = self.logprobs.len();
        }
        self.write_annotations(out);
    }

    fn write_annotations(&mut self, out: &mut ItemOutput<'_>) {
        for annotation in self.annotations.iter().skip(self.sent_annotations) {
            let index = self.sent_annotations;
            let name = "response.output_text.annotation.added";
            out.event(name, &self.location, |out| {
                json::field(out, "annotation_index", &index);
                json::raw_field(out, "annotation", annotation);
            });
            self.sent_annotations += 1;
        }
    }

    /// Writes the end of a body: `done` is the event and `field` its field.
    pub(super) fn close_body(&mut self, done: &'static str, field: &str, out: &mut ItemOutput<'_>) {
        let text = self.share_text(None);
        out.text_event(done, &self.location, field, &text, |_| ());
    }

    /// Writes the end of the part and returns its JSON. `upstream` is the part of the
    /// finished item, if the upstream sent one.
    pub(super) fn close(
        &mut self,
        position: &ItemPosition,
        index: usize,
        upstream: Option<&str>,
        out: &mut ItemOutput<'_>,
    ) -> Bytes {
        self.text.flush();
        let names = names(self.kind);
        let members = upstream.and_then(Members::read);
        let is_same = members.as_ref().is_some_and(|members| {
            let text = members.get(names.field).and_then(Fragment::from_raw);
            text.is_some_and(|text| self.complete(&text))
        });
        let members = members.filter(|_| is_same);
        if let Some(members) = members.as_ref().filter(|_| self.kind == NativeText::Output) {
            self.add_later_lists(members);
        }
        if self.kind == NativeText::Output {
            for citation in out.citations_in(self.text()) {
                if !self.annotate_once(citation) {
                    out.note("annotation_dropped", TOO_MANY_ANNOTATIONS);
                }
            }
        }
        self.advance(position, index, "", out);
        let upstream = members.map(|members| Bytes::from(self.with_lists(&members)));
        let text = self.share_text(upstream.as_ref());
        let location = &*self.location;
        out.text_event(names.done, location, names.field, &text, |out| {
            if self.kind == NativeText::Output {
                push_json_list(out, "logprobs", &self.logprobs);
            }
        });
        let before = |out: &mut Vec<u8>| {
            out.extend_from_slice(location);
            out.extend_from_slice(b",\"part\":");
        };
        if let Some(part) = upstream {
            out.shared_event(names.closed, before, &part, |_| ());
            return part;
        }
        let (head, tail) = self.around_text(&self.annotations.join(","), &self.logprobs);
        let before = |out: &mut Vec<u8>| {
            before(out);
            out.extend_from_slice(&head);
        };
        out.shared_event(names.closed, before, &text, |out| {
            out.extend_from_slice(&tail);
        });
        [&*head, &text, &tail].concat().into()
    }

    /// Takes the annotations and log probabilities of the finished part that did not come
    /// in events.
    fn add_later_lists(&mut self, members: &Members<'_>) {
        let list = members.get("annotations").map(RawValue::get);
        let list: Vec<&RawValue> = list
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        let objects = list.iter().filter(|raw| raw.get().starts_with('{'));
        let later = objects.skip(self.annotations.len());
        for annotation in later.take(MAX_ANNOTATIONS - self.annotations.len()) {
            self.annotations.push(complete_annotation(annotation.get()));
        }
        if self.logprobs.is_empty() && self.sent == 0 {
            let logprobs = members.get("logprobs").map_or("", |raw| raw.get());
            push_list(&mut self.logprobs, list_content(logprobs));
        }
    }

    /// The upstream's part, with the lists that clients expect.
    fn with_lists(&self, members: &Members<'_>) -> Vec<u8> {
        let mut changes = Vec::new();
        if self.kind == NativeText::Output {
            let is_list = |name: &str| {
                let list = members.get(name).map(RawValue::get);
                list.is_some_and(|json| json.starts_with('['))
            };
            let list = members
                .get("annotations")
                .and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
            let is_unchanged = list.is_some_and(|list| {
                let texts = list.iter().map(|annotation| annotation.get());
                texts.eq(self.annotations.iter().map(String::as_str))
            });
            if !is_unchanged {
                changes.push((
                    "annotations",
                    Some(format!("[{}]", self.annotations.join(","))),
                ));
            }
            if !is_list("logprobs") {
                changes.push(("logprobs", Some(format!("[{}]", self.logprobs))));
            }
        }
        let mut out = Vec::new();
        rewrite(&mut out, members, &changes);
        out
    }

    /// The JSON of the part before and behind its text.
    fn around_text(&self, annotations: &str, logprobs: &str) -> (Vec<u8>, Vec<u8>) {
        let names = names(self.kind);
        let mut head = Vec::with_capacity(80);
        head.push(b'{');
        json::field(&mut head, "type", names.part);
        json::key(&mut head, names.field);
        head.push(b'"');
        let mut tail = Vec::with_capacity(annotations.len() + logprobs.len() + 40);
        tail.push(b'"');
        if self.kind == NativeText::Output {
            push_json_list(&mut tail, "annotations", annotations);
            push_json_list(&mut tail, "logprobs", logprobs);
        }
        tail.push(b'}');
        (head, tail)
    }
}

/// Appends `,"name":[` and `]` around the elements of a list.
fn push_json_list(out: &mut Vec<u8>, name: &str, elements: &str) {
    json::key(out, name);
    out.push(b'[');
    json::push_one_line(out, elements);
    out.push(b']');
}

/// A large text as part of the part's bytes; `None` for a small one, or if it is not there.
fn find_in(part: &Bytes, text: &str) -> Option<Bytes> {
    if text.len() < SHARED_BYTES {
        return None;
    }
    let start = memchr::memmem::find(part, text.as_bytes())?;
    Some(part.slice(start..start + text.len()))
}

/// The annotation with the fields that a citation must have; xAI leaves some out.
pub(super) fn complete_annotation(annotation: &str) -> String {
    let Some(mut object) = EditedObject::read(annotation) else {
        return annotation.to_owned();
    };
    let mut changed = false;
    if object.is("type", "url_citation") {
        for (name, default) in [("start_index", "0"), ("end_index", "0"), ("title", "\"\"")] {
            changed |= object.set_default(name, default);
        }
    }
    if changed {
        object.to_json()
    } else {
        annotation.to_owned()
    }
}

/// Appends elements to a list without brackets.
fn push_list(list: &mut String, elements: &str) {
    if !elements.is_empty() {
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(elements);
    }
}

/// The elements of a JSON list, without its brackets; empty for other values.
pub(super) fn list_content(json: &str) -> &str {
    let inner = json
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'));
    inner.unwrap_or_default().trim()
}

/// What a text, escaped, lacks of the whole one, escaped too; `None` if the whole does not continue
/// it.
pub(super) fn missing_rest(so_far: &str, whole: &str) -> Option<String> {
    // An escape has at most six bytes for one of the text. A whole text that is too short is not
    // compared, so that the cost follows its bytes.
    if so_far.len() > whole.len().saturating_mul(6) {
        return None;
    }
    let rest = whole.strip_prefix(json::unescape(so_far).as_ref());
    rest.map(json::escape)
}
