//! One native item, from its first event to its last.

use super::super::call::{CallHolding, NOT_WHOLE};
use super::super::custom_input::{self, WholeInput};
use super::super::text_part::{TextPart, complete_annotation, kind_of_part, list_content};
use super::super::writer::{ItemPosition, location_fields};
use super::item_types::{BodyType, ItemType};
use super::{NativeOutput, client_id};
use crate::arguments::{ArgumentsReading, ArgumentsScan};
use crate::event::{Fragment, NativeText};
use crate::json::{self, quoted};
use crate::members::{Members, rewrite};
use crate::origin;
use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Changes of an item's members, see [`rewrite`].
type MemberChanges = Vec<(&'static str, Option<String>)>;

/// The members by which a client knows an item, besides its id.
const IDENTITY: [&str; 6] = ["type", "call_id", "name", "namespace", "role", "execution"];

/// What a call has for its own members.
#[derive(Debug, Default)]
pub(super) struct ReplacedMembers {
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
}

/// An item that the upstream made. Made when it begins, and consumed when it is closed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct NativeItem {
    item_type: ItemType,
    /// The item as it was added.
    added: String,
    /// The complete item, once the upstream has sent it.
    done: Option<String>,
    /// What replaces members of the item.
    replaced: ReplacedMembers,
    /// Whether it is a call with a patch, which may be repaired when it is whole.
    is_patch: bool,
    /// Whether nothing is written before the item is complete, because the client runs
    /// every call that it sees.
    held_back: bool,
    /// Whether a call is left out if it stays incomplete.
    needs_whole: bool,
    /// What is known of the arguments of a function call.
    scan: ArgumentsScan,
    /// The texts in order. All but the last are closed once they are written.
    parts: Vec<TextPart>,
    /// How many of the first parts are known to be white space.
    blank_parts: usize,
    /// Whether the whole body that the upstream sent is another than its pieces, which the client
    /// has.
    differs: bool,
    /// The JSON of the closed parts.
    closed: Vec<Bytes>,
    /// Events of the tool that wait until the item is written, as (type, document).
    waiting: Vec<(&'static str, String)>,
    position: Option<ItemPosition>,
}

impl NativeItem {
    pub(super) fn new(
        item_type: ItemType,
        added: String,
        replaced: ReplacedMembers,
        is_patch: bool,
        holding: CallHolding,
    ) -> Self {
        Self {
            item_type,
            added,
            done: None,
            replaced,
            is_patch,
            held_back: holding.held_back || is_patch,
            needs_whole: holding.needs_whole || is_patch,
            scan: ArgumentsScan::default(),
            parts: Vec::new(),
            blank_parts: 0,
            differs: false,
            closed: Vec::new(),
            waiting: Vec::new(),
            position: None,
        }
    }

    /// Begins another part of this kind, unless the open one is empty.
    pub(super) fn add_part(&mut self, kind: NativeText) {
        let is_fresh = |part: &TextPart| part.kind == kind && part.text().is_empty();
        if self.takes(kind) && kind != NativeText::Body && !self.parts.last().is_some_and(is_fresh)
        {
            self.parts.push(TextPart::new(kind));
        }
    }

    pub(super) fn push(
        &mut self,
        kind: NativeText,
        index: u32,
        fragment: &Fragment<'_>,
        logprobs: &str,
    ) {
        if let Some(part) = self.part_for(kind, index) {
            part.push(fragment.escaped(), logprobs);
        }
    }

    /// Takes the whole of the text that was sent last.
    pub(super) fn complete_text(&mut self, kind: NativeText, whole: &Fragment<'_>) {
        if whole.is_empty() || !self.takes(kind) {
            return;
        }
        if self.parts.last().is_none_or(|part| part.kind != kind) {
            self.parts.push(TextPart::new(kind));
        }
        if let Some(part) = self.parts.last_mut() {
            part.complete(whole);
        }
    }

    /// Adds an annotation to the last text. False if there is no room for it.
    pub(super) fn annotate(&mut self, annotation: &str) -> bool {
        let last = self.parts.last_mut();
        match last.filter(|part| part.kind == NativeText::Output) {
            Some(part) => part.annotate(complete_annotation(annotation)),
            None => true,
        }
    }

    /// Whether no part has anything but white space. The last part may still grow.
    fn is_blank(&mut self) -> bool {
        let unknown = self.parts.iter().skip(self.blank_parts);
        self.blank_parts += unknown.take_while(|part| part.is_blank()).count();
        let is_blank = self.blank_parts == self.parts.len();
        self.blank_parts -= usize::from(is_blank && self.blank_parts > 0);
        is_blank
    }

    /// Adds an event of the tool. False if it is none of this type of item.
    pub(super) fn progress(&mut self, name: &'static str, document: &str) -> bool {
        let is_own = self.item_type.has_progress(name);
        if is_own {
            self.waiting.push((name, document.to_owned()));
        }
        is_own
    }

    /// Takes the complete item. An item of another type is an error that names both.
    pub(super) fn set_done(&mut self, item: String) -> Result<(), String> {
        let kind = |item: &str| {
            let members = Members::read(item)?;
            members.text("type").map(Cow::into_owned)
        };
        match (kind(&self.added), kind(&item)) {
            (Some(begun), Some(ended)) if begun != ended => Err(format!("{begun} to {ended}")),
            _ => {
                self.done = Some(item);
                Ok(())
            }
        }
    }

    /// Whether the client has to answer the item.
    pub(super) fn is_call(&self) -> bool {
        self.item_type.is_call()
    }

    /// Whether the item can be closed when it has ended: the phase of a message depends on what
    /// follows it, unless the upstream says it.
    pub(super) fn is_closable(&self, followed: bool) -> bool {
        followed || self.item_type != ItemType::Message || self.done_has_phase()
    }

    fn done_has_phase(&self) -> bool {
        let done = self.done.as_deref().and_then(Members::read);
        done.is_some_and(|members| phase(&members).is_some())
    }

    /// Writes what can be written now.
    pub(super) fn advance(&mut self, out: &mut NativeOutput<'_>) {
        let may_be_blank = self.item_type == ItemType::Message && self.position.is_none();
        if self.held_back || may_be_blank && self.is_blank() {
            return;
        }
        self.write(out);
    }

    fn write(&mut self, out: &mut NativeOutput<'_>) {
        let position = match self.position.take() {
            Some(position) => position,
            None => self.start(out),
        };
        let delta = self.body_type().map_or("", |body| body.delta);
        // The closed ones are written already.
        while self.closed.len() + 1 < self.parts.len() {
            self.close_part(&position, None, out);
        }
        if let Some(part) = self.parts.get_mut(self.closed.len()) {
            if self.item_type.is_function_call() {
                let passable = self.scan.passable(part.text());
                part.hold_from(passable);
            }
            part.advance(&position, self.closed.len(), delta, &mut out.items);
        }
        for (name, document) in std::mem::take(&mut self.waiting) {
            write_progress(name, &document, &position, out);
        }
        self.position = Some(position);
    }

    /// Writes the end of the item. Without the upstream's complete item it is made from what
    /// came, and complete only if the answer is. `last` means that no item follows.
    pub(super) fn close(
        mut self,
        (complete, has_ended): (bool, bool),
        last: bool,
        out: &mut NativeOutput<'_>,
    ) {
        let done = self.done.take();
        let has_end = done.is_some();
        let base = done.unwrap_or_else(|| self.added.clone());
        let Some(members) = Members::read(&base) else {
            return;
        };
        let status = members.text("status");
        let has_body = matches!(self.item_type, ItemType::Body(_));
        let is_cut = if has_end {
            status.as_deref() == Some("incomplete")
        } else {
            !complete || has_body && !self.has_whole_body(has_ended)
        };
        let name = members.text("name").unwrap_or_default();
        // For an item without an end of its own, `has_whole_body` has judged the text already, and
        // the item holds only the beginning of it.
        let is_broken = has_end && !is_cut && self.ends_with_open_body(&members);
        let is_cut = is_cut || is_broken;
        if is_cut && self.item_type.has_name() {
            // The defect matters only if the answer ends normally.
            out.defect
                .get_or_insert_with(|| (name.as_ref().to_owned(), NOT_WHOLE));
            out.items.note("call_truncated", name.as_ref());
            // As long as the client has not seen the call, the answer may be asked for again.
            if self.position.is_none() && (self.needs_whole || is_broken) {
                return;
            }
        }
        let mut changes: MemberChanges = Vec::new();
        if !has_end {
            out.items
                .note("item_closed", members.text("type").unwrap_or_default());
        }
        let new_status = match status.as_deref() {
            _ if is_cut => Some("incomplete"),
            Some("completed" | "incomplete" | "failed") => None,
            Some(_) => Some("completed"),
            None => self.item_type.has_status().then_some("completed"),
        };
        changes.extend(new_status.map(|status| ("status", Some(quoted(status)))));
        self.take_final_name(&members);
        changes.extend(self.kept_identity(&members));
        match self.item_type.clone() {
            ItemType::Message => {
                let Some(content) = self.close_parts(&members, "content", out) else {
                    return out.items.note("blank_message_dropped", "it is white space");
                };
                changes.extend(content.map(|list| ("content", Some(list))));
                if members.text("role").is_none_or(|role| role != "assistant") {
                    changes.push(("role", Some(quoted("assistant"))));
                }
                if phase(&members).is_none() {
                    let phase = if last { "final_answer" } else { "commentary" };
                    changes.push(("phase", Some(quoted(phase))));
                }
            }
            ItemType::Reasoning => self.close_reasoning(&members, &mut changes, out),
            ItemType::Compaction => changes.extend(wrapped_content(&members, out.origin)),
            ItemType::Body(body) => {
                let text = self.close_body(body, &members, (is_cut, !has_end), out);
                changes.extend(text.map(|text| (body.field, Some(text))));
                if self.differs {
                    out.items.fail_call(&name);
                    changes.retain(|(name, _)| *name != "status");
                    changes.push(("status", Some(quoted("incomplete"))));
                }
            }
            ItemType::Whole(_) => {}
        }
        let position = self.start(out);
        self.write(out);
        self.add_ids(&position, &mut changes);
        let mut item = Vec::with_capacity(base.len() + 64);
        rewrite(&mut item, &members, &changes);
        out.items.item_done(&position, item);
    }

    /// What the client knows the item by, where its last event says something else.
    fn kept_identity(&self, done: &Members<'_>) -> MemberChanges {
        let added = Members::read(&self.added).unwrap_or_default();
        let names = IDENTITY.into_iter().filter(|name| match *name {
            // These are set in any case.
            "role" => self.item_type != ItemType::Message,
            "call_id" => self.replaced.call_id.is_none(),
            "name" => self.replaced.name.is_none(),
            // Who runs a search. The end may be the first that says it.
            "execution" => added.get(name).is_some(),
            _ => true,
        });
        let value = |members: &Members<'_>, name| members.get(name).map(|raw| raw.get().to_owned());
        names
            .map(|name| (name, value(&added, name), value(done, name)))
            .filter(|(_, added, done)| added != done)
            .map(|(name, added, _)| (name, added))
            .collect()
    }

    /// Lets an item that the client has not seen yet begin with the name of its last event.
    fn take_final_name(&mut self, done: &Members<'_>) {
        let added = self.added.clone();
        let added = Members::read(&added).unwrap_or_default();
        if self.position.is_some() || done.text("name").is_none_or(|name| name.is_empty()) {
            return;
        }
        let value = |name| done.get(name).map(|raw| raw.get().to_owned());
        let changes = ["name", "namespace"].map(|name| (name, value(name)));
        let mut item = Vec::with_capacity(self.added.len() + 64);
        rewrite(&mut item, &added, &changes);
        self.added = String::from_utf8_lossy(&item).into_owned();
    }

    /// Ends the item because the answer broke off. Codex keeps no item that is incomplete.
    pub(super) fn fail(mut self, out: &mut NativeOutput<'_>) {
        let done = self.done.as_deref().and_then(Members::read);
        let is_whole = done.is_some_and(|members| {
            let status = members.text("status");
            !out.for_codex || status.is_none_or(|status| status != "incomplete")
        });
        if is_whole {
            self.advance(out);
            self.close((true, true), false, out);
        } else if self.position.is_some() && !out.for_codex {
            self.advance(out);
            self.close((false, false), true, out);
        }
    }

    /// The part that a piece belongs to. An index that changes without a new part is an
    /// error of some servers, except in a summary.
    fn part_for(&mut self, kind: NativeText, index: u32) -> Option<&mut TextPart> {
        if !self.takes(kind) {
            return None;
        }
        let is_same = |part: &TextPart| {
            part.kind == kind
                && (kind != NativeText::Summary
                    || part.upstream_index.is_none_or(|known| known == index))
        };
        if !self.parts.last().is_some_and(is_same) {
            self.parts.push(TextPart::new(kind));
        }
        let part = self.parts.last_mut()?;
        part.upstream_index = Some(index);
        Some(part)
    }

    /// Whether the item takes text of this kind. Reasoning has either a summary or raw
    /// text; the kind that comes first is kept.
    fn takes(&self, kind: NativeText) -> bool {
        let first = self.parts.first().map(|part| part.kind);
        let is_other_reasoning =
            self.item_type == ItemType::Reasoning && first.is_some_and(|first| first != kind);
        self.item_type.has_text(kind) && !is_other_reasoning
    }

    fn body_type(&self) -> Option<&'static BodyType> {
        match self.item_type {
            ItemType::Body(body) => Some(body),
            ItemType::Message | ItemType::Reasoning | ItemType::Compaction | ItemType::Whole(_) => {
                None
            }
        }
    }

    /// Takes the whole arguments, if the item has them, and says whether their end is missing.
    fn ends_with_open_body(&mut self, members: &Members<'_>) -> bool {
        let ItemType::Body(body) = self.item_type else {
            return false;
        };
        if let Some(whole) = members.get(body.field).and_then(Fragment::from_raw) {
            self.complete_text(NativeText::Body, &whole);
        }
        let text = self.parts.first().map_or("", TextPart::text);
        let scan = &mut ArgumentsScan::default();
        match body.name {
            "function_call" => scan.is_open(text),
            "custom_tool_call" => custom_input::is_cut(text, scan),
            _ => false,
        }
    }

    fn has_whole_body(&self, has_ended: bool) -> bool {
        let text = self.parts.first().map_or("", TextPart::text);
        if has_ended && self.item_type.is_custom_call() {
            return !custom_input::is_cut(text, &mut ArgumentsScan::default());
        }
        serde_json::from_str::<serde::de::IgnoredAny>(&json::unescape(text)).is_ok()
    }

    /// Writes `response.output_item.added` if that was not done yet.
    fn start(&mut self, out: &mut NativeOutput<'_>) -> ItemPosition {
        if let Some(position) = &self.position {
            return position.clone();
        }
        let added = self.added.clone();
        let members = Members::read(&added).unwrap_or_default();
        let own = members.text("id");
        if let Some(name) = members.text("name") {
            let namespace = members.text("namespace");
            out.items.find_tool(namespace.as_deref(), &name);
        }
        let known_phase = phase(&members).is_some() || self.done_has_phase();
        let adds_phase = self.item_type == ItemType::Message && !known_phase;
        let id = client_id(out, &self.item_type, own.as_deref(), adds_phase);
        let position = match id {
            Some(id) => out.items.position_with_id(id),
            None => out.items.next_position(self.item_type.minted_prefix()),
        };
        let mut changes: MemberChanges = Vec::new();
        let mut set = |name: &'static str, json: &str| changes.push((name, Some(json.to_owned())));
        match &self.item_type {
            ItemType::Message => {
                set("status", r#""in_progress""#);
                set("role", r#""assistant""#);
                set("content", "[]");
            }
            ItemType::Reasoning => {
                if members.get("status").is_some() {
                    set("status", r#""in_progress""#);
                }
                set("summary", "[]");
                changes.extend([("content", None), ("encrypted_content", None)]);
            }
            ItemType::Body(body) => {
                set("status", r#""in_progress""#);
                set(body.field, r#""""#);
            }
            ItemType::Compaction => changes.extend(wrapped_content(&members, out.origin)),
            ItemType::Whole(_) => {}
        }
        if members.get("phase").is_some() && phase(&members).is_none() {
            changes.push(("phase", None));
        }
        self.add_ids(&position, &mut changes);
        let mut item = Vec::with_capacity(added.len() + 64);
        rewrite(&mut item, &members, &changes);
        out.items.item_added(&position, &item);
        self.position = Some(position.clone());
        position
    }

    fn add_ids(&self, position: &ItemPosition, changes: &mut MemberChanges) {
        changes.push(("id", Some(quoted(&position.id))));
        let ReplacedMembers { call_id, name } = &self.replaced;
        for (member, value) in [("call_id", call_id), ("name", name)] {
            changes.extend(value.as_ref().map(|value| (member, Some(quoted(value)))));
        }
    }

    /// Closes the next part.
    fn close_part(
        &mut self,
        position: &ItemPosition,
        upstream: Option<&str>,
        out: &mut NativeOutput<'_>,
    ) {
        let index = self.closed.len();
        if let Some(part) = self.parts.get_mut(index) {
            let json = part.close(position, index, upstream, &mut out.items);
            self.closed.push(json);
        }
    }

    /// Closes all parts, with those of the complete item. Returns the list of parts if it
    /// differs from the upstream's; `None` if a message has nothing but white space.
    #[expect(clippy::option_option, reason = "no message, or an unchanged list")]
    fn close_parts(
        &mut self,
        members: &Members<'_>,
        list: &str,
        out: &mut NativeOutput<'_>,
    ) -> Option<Option<String>> {
        let raw = members.present(list);
        let upstream: Vec<&RawValue> = raw
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let only = raw.and_then(Fragment::from_raw);
        let is_message = self.item_type == ItemType::Message;
        if let Some(text) = &only
            && is_message
        {
            self.complete_text(NativeText::Output, text);
        }
        // A part of another kind than the list has would be one that no client expects.
        let fits = |item_type: &ItemType, kind: NativeText| {
            let is_of_list = is_message || (kind == NativeText::Summary) == (list == "summary");
            item_type.has_text(kind) && is_of_list
        };
        let mut documents: Vec<Option<&str>> = vec![None; self.closed.len()];
        for (index, part) in upstream.iter().enumerate() {
            let fields = Members::read(part.get());
            let kind = fields
                .as_ref()
                .and_then(|fields| kind_of_part(&fields.text("type")?))
                .filter(|kind| fits(&self.item_type, *kind));
            let (Some(fields), Some(kind)) = (fields, kind) else {
                out.items
                    .note("content_skipped", "a part of an unknown type");
                continue;
            };
            let shown = if kind == NativeText::Refusal && out.for_codex {
                NativeText::Output
            } else {
                kind
            };
            if index < self.closed.len() {
                continue;
            }
            if index >= self.parts.len() {
                self.parts.push(TextPart::new(shown));
            }
            let Some(own) = self.parts.get_mut(index) else {
                continue;
            };
            if own.kind == kind {
                documents.resize(index, None);
                documents.push(Some(part.get()));
            } else if own.kind == shown
                && let Some(text) = fields.get("refusal").and_then(Fragment::from_raw)
            {
                own.complete(&text);
            }
        }
        // A refusal goes to Codex as text, which is written here without the upstream's part.
        if self.item_type == ItemType::Message
            && self.position.is_none()
            && self.all_blank(&documents)
        {
            return None;
        }
        let position = self.start(out);
        while self.closed.len() < self.parts.len() {
            let upstream = documents.get(self.closed.len()).copied().flatten();
            self.close_part(&position, upstream, out);
        }
        let is_same = raw.is_some_and(|raw| is_list_of(raw.get(), &self.closed));
        Some((!is_same).then(|| {
            let size: usize = self.closed.iter().map(|part| part.len() + 1).sum();
            let mut list = Vec::with_capacity(size + 2);
            for part in &self.closed {
                list.push(if list.is_empty() { b'[' } else { b',' });
                list.extend_from_slice(part);
            }
            list.extend_from_slice(if list.is_empty() { b"[]" } else { b"]" });
            String::from_utf8(list).unwrap_or_default()
        }))
    }

    /// Whether neither the parts nor their documents have text.
    fn all_blank(&self, documents: &[Option<&str>]) -> bool {
        let is_blank = |document: Option<&str>| {
            let members = document.and_then(Members::read).unwrap_or_default();
            let text = members.get("text").or_else(|| members.get("refusal"));
            let text = text.and_then(Fragment::from_raw);
            text.is_none_or(|text| text.is_blank())
        };
        self.parts.iter().all(TextPart::is_blank) && documents.iter().copied().all(is_blank)
    }

    fn close_reasoning(
        &mut self,
        members: &Members<'_>,
        changes: &mut MemberChanges,
        out: &mut NativeOutput<'_>,
    ) {
        let has = |name: &str| {
            let list = members.present(name).map(RawValue::get);
            list.is_some_and(|json| !list_content(json).is_empty())
        };
        let is_raw = match self.parts.first() {
            Some(part) => part.kind == NativeText::Reasoning,
            None => !has("summary") && has("content"),
        };
        let (shown, other) = if is_raw {
            ("content", "summary")
        } else {
            ("summary", "content")
        };
        let list = self.close_parts(members, shown, out).flatten();
        changes.extend(list.map(|list| (shown, Some(list))));
        if has(other) {
            out.items.note("reasoning_dropped", other);
        }
        if is_raw {
            if has(other) || members.present(other).is_none() {
                changes.push(("summary", Some("[]".to_owned())));
            }
        } else if has(other) || members.present(other).is_none() {
            changes.push(("content", None));
        }
        changes.extend(wrapped_content(members, out.origin));
    }

    /// Closes the body of a call. Returns its text as JSON if that differs from the
    /// upstream's.
    fn close_body(
        &mut self,
        body: &'static BodyType,
        members: &Members<'_>,
        (is_cut, is_only_added): (bool, bool),
        out: &mut NativeOutput<'_>,
    ) -> Option<String> {
        let name = members.text("name").unwrap_or_default();
        // The body of an item that was only added is its beginning.
        let own = members.get(body.field).filter(|_| !is_only_added);
        let whole = own.and_then(Fragment::from_raw);
        if self.parts.is_empty() {
            self.parts.push(TextPart::new(NativeText::Body));
        }
        let position = self.start(out);
        let part = self.parts.first_mut()?;
        let mut is_same = whole.as_ref().is_some_and(|whole| part.complete(whole));
        if let Some(whole) = whole.filter(|_| !is_same) {
            out.items
                .note("arguments_differ", "the deltas are not the whole text");
            self.differs = !is_same_json(part.text(), whole.escaped());
        }
        if body.name == "function_call" && !is_cut {
            let repaired = match ArgumentsScan::default().reading(part.text()) {
                ArgumentsReading::Whole {
                    document,
                    repaired: true,
                } => Some(document.into_owned()),
                ArgumentsReading::Whole { .. } | ArgumentsReading::Blank => None,
                ArgumentsReading::Open | ArgumentsReading::Unreadable => {
                    out.items
                        .note("arguments_broken", format!("{name}: they are not JSON"));
                    None
                }
            };
            if repaired.is_some_and(|document| part.replace(&document)) {
                out.items.note("arguments_repaired", name.as_ref());
                is_same = false;
            }
        }
        if self.is_patch && !is_cut {
            let scan = &mut ArgumentsScan::default();
            let input = WholeInput::read(part.text(), scan, &name, true);
            if input.text != part.text() && part.replace(&input.text) {
                is_same = false;
                for (code, detail) in input.notes {
                    out.items.note(code, detail);
                }
            }
        }
        part.hold_from(usize::MAX);
        if part.is_blank() && !is_cut && !body.empty.is_empty() && part.text().is_empty() {
            part.push(body.empty, "");
            is_same = false;
        }
        part.advance(&position, 0, body.delta, &mut out.items);
        part.close_body(body.done, body.field, &mut out.items);
        (!is_same).then(|| format!("\"{}\"", part.text()))
    }
}

/// Whether a list has just these elements, without white space between them.
fn is_list_of(list: &str, elements: &[Bytes]) -> bool {
    let mut rest = list.as_bytes();
    let mut separator: &[u8] = b"[";
    for element in elements {
        let begun = rest.strip_prefix(separator);
        let Some(after) = begun.and_then(|rest| rest.strip_prefix(&**element)) else {
            return false;
        };
        (rest, separator) = (after, b",");
    }
    rest == if elements.is_empty() {
        b"[]".as_slice()
    } else {
        b"]"
    }
}

/// Whether two escaped texts are the same JSON document, written in another way.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(&json::unescape(text)).ok();
    parse(one).is_some_and(|one| parse(other) == Some(one))
}

/// The phase of a message, if it is one that clients know.
fn phase(members: &Members<'_>) -> Option<()> {
    let phase = members.text("phase")?;
    matches!(phase.as_ref(), "commentary" | "final_answer").then_some(())
}

/// The change that puts the origin around `encrypted_content`, or removes an empty one.
fn wrapped_content(members: &Members<'_>, made_by: &str) -> Option<(&'static str, Option<String>)> {
    members.get("encrypted_content")?;
    let content = members.text("encrypted_content");
    let wrapped = content
        .filter(|content| !content.is_empty())
        .map(|content| quoted(&origin::wrap(made_by, &content)));
    Some(("encrypted_content", wrapped))
}

/// Writes an event of the upstream's tool under our numbers.
fn write_progress(
    name: &'static str,
    document: &str,
    position: &ItemPosition,
    out: &mut NativeOutput<'_>,
) {
    let Some(members) = Members::read(document) else {
        return;
    };
    let location = location_fields(position, None);
    out.items.event(name, &location, |out| {
        for (name, value) in members.iter() {
            let is_ours = ["type", "sequence_number", "output_index", "item_id"].contains(&name);
            // Padding against an observer of the connection to the upstream.
            if !is_ours && name != "obfuscation" {
                out.push(b',');
                json::push(out, name);
                out.push(b':');
                json::push_one_line(out, value.get());
            }
        }
    });
}
