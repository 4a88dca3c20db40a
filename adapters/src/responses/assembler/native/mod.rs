//! Items of an upstream that speaks the Responses API itself. They reach the client with
//! the upstream's bytes, but under our `sequence_number`, `output_index` and item ids, and
//! in the form that clients rely on: one item at a time, every part opened and closed,
//! deltas that add up to the text of the item.
//!
//! A later item waits in the queue until the one before it is complete, because its encrypted
//! reasoning comes last. Behind a call that runs here the client's calls wait until the tools have
//! run, with all that follows them. A call of a tool that was offered in another form is restored
//! by the code that restores it for Chat Completions.
//!
//! | module | contents |
//! |---|---|
//! | `item` | one item, from its first event to its last |
//! | `item_types` | what is known about the types of items |

mod item;
pub(super) mod item_types;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use self::item::{NativeItem, ReplacedMembers};
use self::item_types::ItemType;
use super::super::event_buffer::EventBuffer;
use super::Assembler;
use super::call::CallItem;
use super::call_queue::{CallDefect, WithheldPlace};
use super::text_part::{TOO_MANY_ANNOTATIONS, list_content, missing_rest};
use super::writer::ItemOutput;
use crate::event::{Fragment, NativeEvent, NativeText};
use crate::fault::Fault;
use crate::json;
use crate::members::Members;
use crate::origin;
use crate::tools::{ToolKind, ToolTarget};

/// The items of an answer that are not closed, in the order in which they began. Made with
/// the assembler.
#[derive(Debug, Default)]
pub(super) struct NativeItems {
    /// Ordered by slot. Only the first item is written.
    queue: VecDeque<QueuedItem>,
    /// The call ids that had to be changed, for the outputs that name them.
    changed_call_ids: HashMap<String, String>,
    /// The arguments so far, escaped, of the calls of tools that run here. These calls are
    /// in the queue of the assembler.
    running_here: HashMap<u32, String>,
    /// Where the calls that run here are among the items of the round, by slot.
    places: HashMap<u32, WithheldPlace>,
    /// Whether one of them came before the first item of the queue.
    behind_withheld: bool,
    /// The calls that have no name so far.
    nameless: HashSet<u32>,
}

#[derive(Debug)]
struct QueuedItem {
    slot: u32,
    form: ItemForm,
    /// Whether it has ended, also if its end did not tell what it is.
    has_ended: bool,
}

#[derive(Debug)]
enum ItemForm {
    /// The item goes to the client as it is.
    Native(Box<NativeItem>),
    /// A function call that encodes a call of another tool.
    Restored(Box<RestoredCall>),
    /// The place of a call that runs here.
    RunsHere,
}

#[derive(Debug)]
struct RestoredCall {
    call: CallItem,
    /// The arguments so far, escaped.
    arguments: String,
    /// Whether the upstream says that it is complete; `None` while it goes on.
    complete: Option<bool>,
}

/// What closing and writing items needs besides the items.
pub(super) struct NativeOutput<'o> {
    pub(super) items: ItemOutput<'o>,
    pub(super) used_ids: &'o mut HashSet<String>,
    /// The provider and model, see [`super::AnswerParams::origin`].
    pub(super) origin: &'o str,
    /// See [`super::AssemblerSettings::caller_is_codex`].
    pub(super) for_codex: bool,
    /// See [`super::rounds::RoundState::defect`].
    pub(super) defect: &'o mut Option<CallDefect>,
}

impl Assembler {
    /// Handles one piece of a native answer.
    pub(super) fn native_event(&mut self, event: NativeEvent<'_>, events: &mut EventBuffer) {
        match event {
            NativeEvent::ItemAdded { slot, item } => {
                self.count_bytes(item.len());
                self.add_native(slot, item, events);
            }
            NativeEvent::ItemDone { slot, item } => {
                self.count_bytes(item.len());
                if self.native.find(slot).is_none() && !self.native.running_here.contains_key(&slot)
                {
                    self.add_native(slot, Cow::Borrowed(item.as_ref()), events);
                }
                let is_cut = || {
                    Members::read(&item)
                        .and_then(|members| members.text("status"))
                        .is_some_and(|status| status == "incomplete")
                };
                if self.native.nameless.contains(&slot) && !is_cut() {
                    // No later event can name the call, and no call behind it may be run.
                    self.writer.fault = Some(Box::new(Fault::nameless_call()));
                }
                if self.native.running_here.contains_key(&slot) {
                    self.complete_running_here(slot, &item, events);
                } else if let Some(queued) = self.native.find(slot)
                    && let Err(what) = queued.done(item)
                {
                    self.writer.notes.add("item_changed", what);
                }
            }
            NativeEvent::ItemEnded { slot } => {
                if self.native.nameless.contains(&slot) {
                    self.writer.fault = Some(Box::new(Fault::nameless_call()));
                }
                if let Some(queued) = self.native.find(slot) {
                    queued.has_ended = true;
                }
            }
            NativeEvent::PartAdded { slot, text } => {
                let text = self.shown_text(text);
                if let Some(ItemForm::Native(item)) = self.native.form(slot) {
                    item.add_part(text);
                }
            }
            NativeEvent::Delta {
                slot,
                text,
                index,
                fragment,
                logprobs,
            } => {
                let text = self.shown_text(text);
                let logprobs = logprobs.map_or("", |raw| list_content(raw.get()));
                self.count_bytes(fragment.escaped().len() + logprobs.len());
                match self.native.form(slot) {
                    Some(ItemForm::Native(item)) => item.push(text, index, &fragment, logprobs),
                    Some(ItemForm::Restored(restored)) => restored.push(&fragment),
                    Some(ItemForm::RunsHere) | None => {
                        self.push_running_here(slot, &fragment, events);
                    }
                }
            }
            NativeEvent::TextDone { slot, text, whole } => {
                let text = self.shown_text(text);
                match self.native.form(slot) {
                    Some(ItemForm::Native(item)) => item.complete_text(text, &whole),
                    Some(ItemForm::Restored(restored)) if text == NativeText::Body => {
                        restored.complete_arguments(&whole);
                    }
                    Some(ItemForm::Restored(_) | ItemForm::RunsHere) | None => {}
                }
            }
            NativeEvent::Annotation { slot, annotation } => {
                self.count_bytes(annotation.get().len());
                if let Some(ItemForm::Native(item)) = self.native.form(slot)
                    && !item.annotate(annotation.get())
                {
                    let notes = &mut self.writer.notes;
                    notes.add("annotation_dropped", TOO_MANY_ANNOTATIONS);
                }
            }
            NativeEvent::Progress {
                slot,
                name,
                document,
            } => {
                self.count_bytes(document.len());
                if let Some(ItemForm::Native(item)) = self.native.form(slot)
                    && !item.progress(name, document)
                {
                    let what = format!("{name} of another type of item");
                    self.writer.notes.add("event_skipped", what);
                }
            }
        }
        self.with_native(events, |items, out| {
            items.advance(out);
        });
    }

    /// What a text is for this client: Codex drops refusals, so it gets them as text.
    fn shown_text(&self, text: NativeText) -> NativeText {
        match text {
            NativeText::Refusal if self.settings.caller_is_codex => NativeText::Output,
            other => other,
        }
    }

    /// Closes the items at the end of an answer. `complete` is false if a limit cut it off: then
    /// no tool runs, and no call waits for one.
    pub(super) fn finish_native(&mut self, complete: bool, events: &mut EventBuffer) {
        self.with_native(events, |items, out| items.finish(complete, out));
        self.native.running_here.clear();
    }

    /// Forgets the items that nothing was written of.
    pub(super) fn forget_native(&mut self) {
        let changed_call_ids = std::mem::take(&mut self.native.changed_call_ids);
        self.native = NativeItems {
            changed_call_ids,
            ..NativeItems::default()
        };
    }

    /// The fault of an answer with a call that never got a name.
    pub(super) fn lost_call(&self) -> Option<Fault> {
        (!self.native.nameless.is_empty()).then(Fault::nameless_call)
    }

    /// Forgets the calls that ran here.
    pub(super) fn begin_native_round(&mut self) {
        self.native.behind_withheld = false;
        self.native.places.clear();
    }

    /// The places of the calls of this round that run here, by slot.
    pub(super) fn native_places(&mut self) -> HashMap<u32, WithheldPlace> {
        std::mem::take(&mut self.native.places)
    }

    /// Closes the items that waited for the tools that run here. Returns the items that each
    /// became.
    pub(super) fn release_native(&mut self, events: &mut EventBuffer) -> Vec<Range<usize>> {
        let mut released = Vec::new();
        self.with_native(events, |items, out| {
            let last_slot = items.last_slot();
            for queued in std::mem::take(&mut items.queue) {
                let (start, last) = (out.items.item_count(), queued.slot == last_slot);
                queued.finish(true, last, out);
                released.push(start..out.items.item_count());
            }
        });
        self.native.behind_withheld = false;
        released
    }

    /// Ends the items because the answer broke off. What the client has not seen is dropped.
    pub(super) fn fail_native(&mut self, events: &mut EventBuffer) {
        self.with_native(events, |items, out| {
            let is_shown =
                |first: &mut QueuedItem| !(items.behind_withheld && first.form.is_call());
            if let Some(first) = items.queue.pop_front_if(is_shown) {
                first.form.fail(out);
            }
            items.queue.clear();
        });
    }

    fn with_native(
        &mut self,
        events: &mut EventBuffer,
        act: impl FnOnce(&mut NativeItems, &mut NativeOutput<'_>),
    ) {
        let mut out = NativeOutput {
            items: self.writer.to(events),
            used_ids: &mut self.native_ids,
            origin: &self.settings.params.origin,
            for_codex: self.settings.caller_is_codex,
            defect: &mut self.round.defect,
        };
        act(&mut self.native, &mut out);
    }

    /// Puts a new item at the end of the queue.
    fn add_native(&mut self, slot: u32, item: Cow<'_, str>, events: &mut EventBuffer) {
        let Some(members) = Members::read(&item) else {
            return self
                .writer
                .notes
                .add("item_dropped", "it is not a JSON object");
        };
        let Some(kind) = members.text("type").filter(|kind| !kind.is_empty()) else {
            return self.writer.notes.add("item_dropped", "it has no type");
        };
        let item_type = ItemType::of(&kind);
        if kind == "tool_search_output" {
            // This upstream searches itself.
            self.writer.search = None;
        }
        let name = members.text("name").unwrap_or_default();
        if item_type.has_name() && name.trim().is_empty() {
            // Its end may be the first that names it.
            self.native.nameless.insert(slot);
            return;
        }
        self.native.nameless.remove(&slot);
        if item_type.is_function_call() && members.present("namespace").is_none() {
            let target = self.settings.tool_names.resolve(&name).target;
            if self.runs_here(&target) {
                let id = members.text("call_id").unwrap_or_default();
                self.start_call(slot, &id, &name, events);
                self.native.running_here.insert(slot, String::new());
                let form = ItemForm::RunsHere;
                self.native.queue.push_back(QueuedItem::new(slot, form));
                return;
            }
        }
        self.round.has_client_calls |= item_type.is_call();
        let call_id = self.native_call_id(&item_type, &members, slot);
        let form = if let Some(target) = self.restored_target(&item_type, &members) {
            ItemForm::Restored(Box::new(RestoredCall {
                call: CallItem::new(
                    slot,
                    call_id.unwrap_or_default(),
                    target,
                    self.call_holding(),
                    None,
                ),
                arguments: String::new(),
                complete: None,
            }))
        } else {
            let mut holding = self.call_holding();
            holding.held_back &= item_type.is_call();
            let (name, is_patch) = self.custom_target(&item_type, &members);
            drop(members);
            ItemForm::Native(Box::new(NativeItem::new(
                item_type,
                item.into_owned(),
                ReplacedMembers { call_id, name },
                is_patch,
                holding,
            )))
        };
        self.native.queue.push_back(QueuedItem::new(slot, form));
    }

    /// The name of the custom tool that is meant, if the call has another one, and whether it takes
    /// a patch.
    fn custom_target(
        &mut self,
        item_type: &ItemType,
        members: &Members<'_>,
    ) -> (Option<String>, bool) {
        if !item_type.is_custom_call() || members.present("namespace").is_some() {
            return (None, false);
        }
        let name = members.text("name").unwrap_or_default();
        let resolved = self.settings.tool_names.resolve(&name);
        let target = resolved.target;
        let is_custom = matches!(target.kind, ToolKind::Custom | ToolKind::Patch);
        let is_renamed = resolved.name_repaired && is_custom && target.namespace.is_none();
        if is_renamed {
            self.note_repaired_name(&name, &target);
        }
        let is_patch = target.kind == ToolKind::Patch && target.namespace.is_none();
        (is_renamed.then_some(target.name), is_patch)
    }

    /// Passes arguments of a call that runs here to the queue that withholds it.
    fn push_running_here(&mut self, slot: u32, fragment: &Fragment<'_>, events: &mut EventBuffer) {
        if let Some(so_far) = self.native.running_here.get_mut(&slot) {
            so_far.push_str(fragment.escaped());
            self.calls
                .push_arguments(slot, fragment, &mut self.writer.to(events));
        }
    }

    /// Adds what the pieces lack of the arguments of a call that runs here.
    fn complete_running_here(&mut self, slot: u32, item: &str, events: &mut EventBuffer) {
        let Some(so_far) = self.native.running_here.get(&slot) else {
            return;
        };
        let members = Members::read(item).unwrap_or_default();
        let whole = members.text("arguments").unwrap_or_default();
        match missing_rest(so_far, &whole) {
            Some(rest) => self.push_running_here(slot, &Fragment::from_escaped(rest), events),
            // The upstream has lost a piece.
            None if !whole.is_empty() => {
                self.calls.replace_arguments(slot, json::escape(&whole));
            }
            None => {}
        }
    }

    /// The call id that the client gets; `None` if the item keeps its own, or has none.
    fn native_call_id(
        &mut self,
        item_type: &ItemType,
        members: &Members<'_>,
        slot: u32,
    ) -> Option<String> {
        if item_type.is_output() {
            // The id is its call's id.
            let id = members.text("call_id")?;
            return self.native.changed_call_ids.get(id.as_ref()).cloned();
        }
        // An item of any other type may be a call that a later version of the API knows.
        let id = members.text("call_id").unwrap_or_default();
        if id.is_empty() && !item_type.is_answered_by_client(members) {
            return None;
        }
        let name = members.text("name").or_else(|| members.text("type"));
        let unique = self.unique_call_id(&id, &name.unwrap_or_default(), slot);
        if unique != id {
            let ids = &mut self.native.changed_call_ids;
            ids.insert(id.into_owned(), unique.clone());
        }
        Some(unique)
    }

    /// The tool whose call a function call encodes, if it is not a function of that name.
    fn restored_target(
        &mut self,
        item_type: &ItemType,
        members: &Members<'_>,
    ) -> Option<ToolTarget> {
        if !item_type.is_function_call() || members.present("namespace").is_some() {
            return None;
        }
        let name = members.text("name").unwrap_or_default();
        let resolved = self.settings.tool_names.resolve(&name);
        if resolved.name_repaired {
            self.note_repaired_name(&name, &resolved.target);
        }
        let target = resolved.target;
        let is_same =
            target.kind == ToolKind::Function && target.name == name && target.namespace.is_none();
        (!is_same).then_some(target)
    }
}

impl NativeItems {
    fn find(&mut self, slot: u32) -> Option<&mut QueuedItem> {
        let at = self.queue.binary_search_by_key(&slot, |item| item.slot);
        self.queue.get_mut(at.ok()?)
    }

    fn form(&mut self, slot: u32) -> Option<&mut ItemForm> {
        self.find(slot).map(|queued| &mut queued.form)
    }

    fn last_slot(&self) -> u32 {
        self.queue.back().map_or(0, |item| item.slot)
    }

    /// Writes what is new of the first item, and closes the items that are complete.
    fn advance(&mut self, out: &mut NativeOutput<'_>) {
        let last_slot = self.last_slot();
        while let Some(first) = self.queue.front_mut() {
            if matches!(first.form, ItemForm::RunsHere) {
                let place = WithheldPlace {
                    finished_before: out.items.item_count(),
                    held_before: 0,
                };
                self.places.insert(first.slot, place);
                self.behind_withheld = true;
                self.queue.pop_front();
                continue;
            }
            if self.behind_withheld && first.form.is_call() {
                return;
            }
            first.form.advance(out);
            let last = first.slot == last_slot;
            if !first.is_closable(!last) {
                return;
            }
            if let Some(first) = self.queue.pop_front() {
                first.finish(true, last, out);
            }
        }
    }

    /// Closes the items at the end of an answer. If it is complete, those stay that wait for
    /// tools that run here.
    fn finish(&mut self, complete: bool, out: &mut NativeOutput<'_>) {
        let last_slot = self.last_slot();
        let mut held = VecDeque::new();
        for queued in std::mem::take(&mut self.queue) {
            if matches!(queued.form, ItemForm::RunsHere) {
                let place = WithheldPlace {
                    finished_before: out.items.item_count(),
                    held_before: held.len(),
                };
                self.places.insert(queued.slot, place);
                self.behind_withheld = true;
            } else if complete
                && self.behind_withheld
                && (queued.form.is_call() || !held.is_empty())
            {
                held.push_back(queued);
            } else {
                let last = queued.slot == last_slot;
                queued.finish(complete, last, out);
            }
        }
        self.queue = held;
    }
}

impl QueuedItem {
    fn new(slot: u32, form: ItemForm) -> Self {
        Self {
            slot,
            form,
            has_ended: false,
        }
    }

    /// Takes the item as its end has it. The end of an item of another type only ends it; the error
    /// names both types.
    fn done(&mut self, item: Cow<'_, str>) -> Result<(), String> {
        self.has_ended = true;
        match &mut self.form {
            ItemForm::Native(native) => native.set_done(item.into_owned())?,
            ItemForm::Restored(restored) => {
                if let Some(members) = Members::read(&item) {
                    if let Some(whole) = members.get("arguments").and_then(Fragment::from_raw) {
                        restored.complete_arguments(&whole);
                    }
                    let cut = members.text("status").is_some_and(|s| s == "incomplete");
                    restored.complete = Some(!cut);
                }
            }
            ItemForm::RunsHere => {}
        }
        Ok(())
    }

    /// Whether the item can be closed. `followed` means that another one waits behind it.
    fn is_closable(&self, followed: bool) -> bool {
        match &self.form {
            ItemForm::Native(item) => self.has_ended && item.is_closable(followed),
            ItemForm::Restored(_) => self.has_ended,
            ItemForm::RunsHere => true,
        }
    }

    /// Closes the item. One that the upstream has not closed is complete only if the answer
    /// is.
    fn finish(mut self, complete: bool, last: bool, out: &mut NativeOutput<'_>) {
        self.form.advance(out);
        match self.form {
            ItemForm::Native(item) => item.close((complete, self.has_ended), last, out),
            ItemForm::Restored(mut restored) => {
                let whole = restored.complete.unwrap_or(complete);
                if let Some(what) = restored.call.defect() {
                    // The defect matters only if the answer ends normally.
                    let defect = (restored.call.name().to_owned(), what);
                    out.defect.get_or_insert(defect);
                    restored.call.close_defective(whole, &mut out.items);
                } else if whole || restored.call.is_complete() {
                    restored.call.close("completed", &mut out.items);
                } else {
                    restored.call.close_incomplete(&mut out.items);
                }
            }
            ItemForm::RunsHere => {}
        }
    }
}

impl ItemForm {
    /// Whether it is a call that the client has to answer.
    fn is_call(&self) -> bool {
        match self {
            Self::Native(item) => item.is_call(),
            Self::Restored(_) => true,
            Self::RunsHere => false,
        }
    }

    fn advance(&mut self, out: &mut NativeOutput<'_>) {
        match self {
            Self::Native(item) => item.advance(out),
            Self::Restored(restored) => restored.call.advance(&mut out.items),
            Self::RunsHere => {}
        }
    }

    fn fail(self, out: &mut NativeOutput<'_>) {
        match self {
            Self::Native(item) => item.fail(out),
            Self::Restored(restored) if restored.call.is_started() => {
                restored.call.close_incomplete(&mut out.items);
            }
            Self::Restored(_) | Self::RunsHere => {}
        }
    }
}

impl RestoredCall {
    fn push(&mut self, fragment: &Fragment<'_>) {
        self.arguments.push_str(fragment.escaped());
        self.call.push(fragment);
    }

    /// Adds what the pieces lack of the whole arguments.
    fn complete_arguments(&mut self, whole: &Fragment<'_>) {
        let decoded = whole.decoded();
        match missing_rest(&self.arguments, &decoded) {
            Some(rest) if rest.is_empty() => {}
            Some(rest) => self.push(&Fragment::from_escaped(rest)),
            // The upstream has lost a piece.
            None if !decoded.is_empty() => {
                self.arguments = json::escape(&decoded);
                self.call.replace_arguments(self.arguments.clone());
            }
            None => {}
        }
    }
}

/// The id that the client gets for an item of this type.
fn client_id(
    out: &mut NativeOutput<'_>,
    item_type: &ItemType,
    own: Option<&str>,
    adds_phase: bool,
) -> Option<String> {
    let tagged = origin::tag_id(out.origin, own?, item_type.id_prefix(), adds_phase)?;
    out.used_ids.insert(tagged.clone()).then_some(tagged)
}
