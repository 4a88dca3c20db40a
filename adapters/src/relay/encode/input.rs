//! Writes `input`: the items in the order of the plan. An item depends only on itself and on
//! what precedes it, so that the bytes of a history stay the same when it grows.

use std::collections::HashMap;

use registry::{RelayQuirks, RelayToolKind};

use crate::content::{MessageContent, MessagePart};
use crate::empty_input::{EMPTY_MESSAGE, GO_ON, nothing_to_send};
use crate::encode_options::EncodeOptions;
use crate::encoded::ItemSpan;
use crate::fault::Fault;
use crate::json;
use crate::media::{AcceptedMedia, MediaEstimate, push_audio};
use crate::notes::Notes;
use crate::origin;
use crate::plan::{AnswerItems, ItemAction, Plan, SequenceEntry};
use crate::purpose::SummaryMode;
use crate::result_text::{missing_result, push_output};
use crate::text::Text;
use crate::turn::{Item, ItemKind, Turn};

/// The largest item of a hosted tool that goes back, in bytes. The plan counts these items as
/// text, or not at all.
const MAX_HOSTED: usize = 32 * 1024;

/// Writes the items of one request.
pub(super) struct InputWriter<'w, 'a> {
    pub(super) out: &'w mut Vec<u8>,
    pub(super) turn: &'w Turn<'a>,
    pub(super) plan: &'w Plan,
    pub(super) options: &'w EncodeOptions<'w>,
    pub(super) quirks: &'w RelayQuirks,
    pub(super) accepted: AcceptedMedia<'w>,
    pub(super) media: &'w mut MediaEstimate,
    pub(super) notes: &'w mut Notes,
    pub(super) spans: Vec<ItemSpan>,
    /// How the calls so far were sent, by call id: the result has the matching form.
    pub(super) call_forms: HashMap<String, CallForm>,
    /// Whether the last item is one that the model answers; `None` before the first.
    pub(super) ends_with_user: Option<bool>,
    /// The addresses of the pages that tools of the proxy have found, with their first places in
    /// [`Turn::known_sources`].
    pub(super) found_pages: HashMap<&'w str, usize>,
    /// An empty message of the user, which is sent if no other message of the user is next to it.
    pub(super) empty_user: Option<usize>,
}

/// The type of item as which a call is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// `function_call`
    Function,
    /// `custom_tool_call`
    Custom,
    /// `tool_search_call`
    ToolSearch,
    /// `local_shell_call`
    LocalShell,
    /// `shell_call`
    Shell,
    /// `apply_patch_call`
    ApplyPatch,
    /// An item of the upstream that has the result in it.
    WithResult,
}

impl<'a> InputWriter<'_, 'a> {
    /// Writes the list.
    pub(super) fn push(&mut self) -> Result<(), Fault> {
        self.plan.add_notes(self.turn, self.notes);
        let mut hosted = self.own_hosted_items().into_iter().peekable();
        self.out.push(b'[');
        let plan = self.plan;
        for entry in &plan.sequence {
            self.turn.stop.check()?;
            match entry {
                SequenceEntry::Answer(answer) => {
                    self.fill_empty_user();
                    for index in in_order(answer) {
                        while let Some(before) = hosted.next_if(|before| *before < index) {
                            self.push_hosted(before);
                        }
                        self.push_answer_item(index, answer)?;
                    }
                }
                SequenceEntry::Message(index) | SequenceEntry::Stray(index) => {
                    while let Some(before) = hosted.next_if(|before| before < index) {
                        self.push_hosted(before);
                    }
                    if matches!(entry, SequenceEntry::Stray(_)) {
                        if !self.is_own_hosted(*index) {
                            self.push_stray(*index)?;
                        }
                    } else {
                        self.push_message(*index)?;
                    }
                }
                SequenceEntry::Result(index) => self.push_result(*index)?,
                SequenceEntry::Interrupted(call) => self.push_interrupted(*call),
                SequenceEntry::Omitted(text) => self.push_user(text),
            }
        }
        for index in hosted {
            self.push_hosted(index);
        }
        self.close()?;
        self.out.push(b']');
        Ok(())
    }

    /// Ends the history with something that the provider can answer.
    fn close(&mut self) -> Result<(), Fault> {
        self.fill_empty_user();
        match self.ends_with_user {
            Some(true) => {}
            Some(false) => {
                if self.quirks.ends_with_user {
                    self.notes
                        .add("user_message_added", "behind the last answer");
                    self.push_user(GO_ON);
                }
            }
            None => {
                let is_empty = self.out.last() == Some(&b'[');
                if is_empty && self.plan.instructions(self.turn).is_none() {
                    return Err(nothing_to_send(self.notes));
                }
                self.notes
                    .add("user_message_added", "behind the instructions");
                self.push_user(EMPTY_MESSAGE);
            }
        }
        Ok(())
    }

    fn fill_empty_user(&mut self) {
        if let Some(index) = self.empty_user.take() {
            self.notes
                .add("empty_message_filled", format!("input[{index}]"));
            self.push_user(EMPTY_MESSAGE);
        }
    }

    fn push_user(&mut self, text: &str) {
        self.open("message");
        json::field(self.out, "role", "user");
        json::field(self.out, "content", text);
        self.out.push(b'}');
        self.user_message_follows();
    }

    fn note_empty(&mut self, index: usize) {
        self.notes
            .add("empty_message_dropped", format!("input[{index}]"));
    }

    /// The items of tools that ran at this upstream. It gets them as it made them; the plan has
    /// them as text or not at all, because no other wire has them.
    fn own_hosted_items(&self) -> Vec<usize> {
        let items = 0..self.turn.items.len();
        items.filter(|index| self.is_own_hosted(*index)).collect()
    }

    fn is_own_hosted(&self, index: usize) -> bool {
        let Some(item) = self.turn.items.get(index).filter(|item| {
            matches!(
                item.kind,
                ItemKind::McpListTools | ItemKind::ServerToolSearch | ItemKind::Unknown
            ) || item.kind.is_hosted()
        }) else {
            return false;
        };
        let is_dropped = matches!(self.plan.actions.get(index), Some(ItemAction::Drop(_)));
        (is_dropped || item.kind.is_hosted()) && self.goes_back(item)
    }

    /// Whether this item goes back as the upstream made it.
    pub(super) fn goes_back(&self, item: &Item<'_>) -> bool {
        !self.is_cut()
            && self.own_id(item).is_some()
            && item.raw().is_some_and(|raw| raw.len() <= MAX_HOSTED)
    }

    /// Whether the request is for a summary of a history that was cut to fit.
    pub(super) fn is_cut(&self) -> bool {
        self.turn.purpose.summary_mode() == Some(SummaryMode::FitWindow)
    }

    /// The upstream's own id of an item that it made, and whether its phase is ours.
    pub(super) fn own_id(&self, item: &Item<'_>) -> Option<(String, bool)> {
        let id = item.id()?;
        let (own, adds_phase) = origin::untag_id(self.options.origin, &id)?;
        Some((own.to_owned(), adds_phase))
    }

    fn push_answer_item(&mut self, index: usize, answer: &AnswerItems) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let start = self.out.len();
        self.ends_with_user = Some(false);
        match item.kind {
            ItemKind::Reasoning => {
                let has_answer = !answer.text.is_empty() || !answer.calls.is_empty();
                self.push_reasoning(item, index, has_answer)?;
            }
            kind if kind.is_call() => self.push_call(item, index),
            _ => self.push_assistant(item, index)?,
        }
        self.add_span(index, start);
        Ok(())
    }

    fn push_message(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        if item.kind == ItemKind::ItemReference {
            return Err(item.unresolved_reference(index));
        }
        let start = self.out.len();
        let is_whole = self.plan.replacement_text(index).is_none();
        if item.kind == ItemKind::AgentMessage && is_whole && self.knows_agents() {
            self.user_message_follows();
            self.push_own(item, None, Vec::new());
            self.add_span(index, start);
            return Ok(());
        }
        let content = self.content(index)?;
        if content.is_empty() {
            let other = if self.ends_with_user == Some(true) || item.is_system() {
                Some(index)
            } else {
                self.empty_user.replace(index)
            };
            if let Some(other) = other {
                self.note_empty(other);
            }
            return Ok(());
        }
        if !item.is_system() {
            self.user_message_follows();
        }
        self.open("message");
        let role = item.role();
        let (developer, system) = (self.quirks.developer_role, self.quirks.system_messages);
        let role = match (item.is_system(), developer, system) {
            (false, ..) | (true, false, false) => "user",
            (true, true, true) => role.as_ref(),
            (true, false, true) => "system",
            (true, true, false) => "developer",
        };
        json::field(self.out, "role", role);
        json::key(self.out, "content");
        self.push_parts(&content, "input_text");
        self.out.push(b'}');
        self.add_span(index, start);
        Ok(())
    }

    /// Another user message is written, so that an empty one before it can be left out.
    fn user_message_follows(&mut self) {
        self.ends_with_user = Some(true);
        if let Some(index) = self.empty_user.take() {
            self.note_empty(index);
        }
    }

    /// The text or the parts of a message as this provider accepts them.
    pub(super) fn content(&mut self, index: usize) -> Result<MessageContent<'a>, Fault> {
        let content = self.plan.message_content(self.turn, index, self.notes)?;
        Ok(content.replace_unsupported(self.accepted, self.notes))
    }

    /// A user message for a result without a call, or for a second result of a call.
    fn push_stray(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        self.user_message_follows();
        let id = self.plan.call_id(self.turn, index);
        let caption = self.plan.stray_caption(item, index, &id);
        let start = self.out.len();
        self.open("message");
        json::field(self.out, "role", "user");
        json::key(self.out, "content");
        self.out
            .extend_from_slice(br#"[{"type":"input_text","text":""#);
        self.out
            .extend_from_slice(json::escape(&caption).as_bytes());
        self.out.extend_from_slice(b"\\n");
        self.push_result_text(item, index)?;
        self.out.extend_from_slice(br#""}"#);
        let content = self.plan.result_media(item, index, self.accepted)?;
        self.push_media(&content);
        self.out.extend_from_slice(b"]}");
        self.add_span(index, start);
        Ok(())
    }

    fn push_result(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let call_id = self.plan.call_id(self.turn, index);
        let form = self.call_forms.get(call_id.as_ref()).copied();
        let form = form.unwrap_or(CallForm::Function);
        let start = self.out.len();
        self.ends_with_user = Some(true);
        if form == CallForm::WithResult {
            return Ok(());
        }
        if !self.push_native_result(form, item, index) {
            self.open(form.output_type());
            json::field(self.out, "call_id", call_id.as_ref());
            json::key(self.out, "output");
            let content = self.plan.result_media(item, index, self.accepted)?;
            if content.has_media() {
                self.out.push(b'[');
                let list = self.out.len();
                self.out
                    .extend_from_slice(br#"{"type":"input_text","text":""#);
                let text = self.out.len();
                self.push_result_text(item, index)?;
                if self.out.len() == text {
                    self.out.truncate(list);
                } else {
                    self.out.extend_from_slice(br#""}"#);
                }
                self.push_media(&content);
                self.out.push(b']');
            } else {
                self.out.push(b'"');
                self.push_result_text(item, index)?;
                self.out.push(b'"');
            }
            self.out.push(b'}');
        }
        self.add_span(index, start);
        Ok(())
    }

    fn push_result_text(&mut self, item: &Item<'_>, index: usize) -> Result<(), Fault> {
        let shown = self.plan.replacement_text(index);
        push_output(self.out, item, (index, shown), self.accepted, self.notes)?;
        Ok(())
    }

    /// Writes the result of a call that has none. It has no span, because the bytes belong
    /// to no item.
    fn push_interrupted(&mut self, call: usize) {
        let call_id = self.plan.call_id(self.turn, call);
        let form = self.call_forms.get(call_id.as_ref()).copied();
        let form = form.unwrap_or(CallForm::Function);
        let missing = missing_result(self.turn.items.get(call));
        self.ends_with_user = Some(true);
        self.open(form.output_type());
        json::field(self.out, "call_id", call_id.as_ref());
        match form {
            CallForm::Function | CallForm::Custom | CallForm::LocalShell | CallForm::WithResult => {
                json::field(self.out, "output", missing);
            }
            CallForm::ToolSearch => {
                json::raw_field(self.out, "tools", "[]");
                json::field(self.out, "status", "incomplete");
                json::field(self.out, "execution", "client");
            }
            CallForm::Shell => push_shell_output(self.out, missing),
            CallForm::ApplyPatch => {
                json::field(self.out, "status", "failed");
                json::field(self.out, "output", missing);
            }
        }
        self.out.push(b'}');
    }

    /// Begins an item of this type.
    pub(super) fn open(&mut self, kind: &str) {
        json::separate(self.out);
        self.out.push(b'{');
        json::field(self.out, "type", kind);
    }

    /// Writes content as a string if it is one text, else as a list of parts.
    pub(super) fn push_parts(&mut self, content: &MessageContent<'_>, text_type: &str) {
        if let [MessagePart::Text(text)] = content.parts.as_slice()
            && text_type == "input_text"
        {
            return text.push_json(self.out);
        }
        self.out.push(b'[');
        for part in &content.parts {
            if let MessagePart::Text(text) = part {
                json::separate(self.out);
                self.push_text_part(text, text_type);
            } else {
                self.push_media_part(part);
            }
        }
        self.out.push(b']');
    }

    fn push_text_part(&mut self, text: &Text<'_>, text_type: &str) {
        self.out.push(b'{');
        json::field(self.out, "type", text_type);
        json::key(self.out, "text");
        text.push_json(self.out);
        self.out.push(b'}');
    }

    fn push_media(&mut self, content: &MessageContent<'_>) {
        for part in &content.parts {
            self.push_media_part(part);
        }
    }

    fn push_media_part(&mut self, part: &MessagePart<'_>) {
        match part {
            MessagePart::Text(_) | MessagePart::Unknown(..) => {}
            MessagePart::Audio(data, format) => {
                json::separate(self.out);
                push_audio(self.out, data, format, self.media);
            }
            MessagePart::Image(url, detail) => {
                json::separate(self.out);
                self.out
                    .extend_from_slice(br#"{"type":"input_image","image_url":"#);
                let start = self.out.len();
                url.push_json(self.out);
                self.media.add_image(self.out.len() - start);
                if let Some(detail) = detail {
                    json::raw_field(self.out, "detail", detail.get());
                }
                self.out.push(b'}');
            }
            MessagePart::File(data, name) => {
                self.media.add_file(data.get().len());
                json::separate(self.out);
                self.out.extend_from_slice(br#"{"type":"input_file""#);
                if let Some(name) = name {
                    json::raw_field(self.out, "filename", name.get());
                }
                json::raw_field(self.out, "file_data", data.get());
                self.out.push(b'}');
            }
        }
    }

    fn add_span(&mut self, item: usize, start: usize) {
        let bytes = start..self.out.len();
        if !bytes.is_empty() {
            self.spans.push(ItemSpan { item, bytes });
        }
    }

    /// Whether the provider knows the messages of Codex's agents, whose tools are in a namespace.
    fn knows_agents(&self) -> bool {
        self.takes(RelayToolKind::Namespace) && self.quirks.agent_messages
    }

    /// Whether the provider takes this kind of tool as it is.
    pub(super) fn takes(&self, kind: RelayToolKind) -> bool {
        self.quirks.tools.contains(kind)
    }
}

impl CallForm {
    fn output_type(self) -> &'static str {
        match self {
            Self::Function | Self::WithResult => "function_call_output",
            Self::Custom => "custom_tool_call_output",
            Self::ToolSearch => "tool_search_output",
            Self::LocalShell => "local_shell_call_output",
            Self::Shell => "shell_call_output",
            Self::ApplyPatch => "apply_patch_call_output",
        }
    }
}

/// The `output` of a `shell_call_output` with one text.
pub(super) fn push_shell_output(out: &mut Vec<u8>, text: &str) {
    json::key(out, "output");
    out.extend_from_slice(b"[{");
    json::field(out, "stdout", text);
    json::field(out, "stderr", "");
    json::raw_field(out, "outcome", r#"{"type":"exit","exit_code":1}"#);
    out.extend_from_slice(b"}]");
}

/// The items of an answer as the model wrote them.
fn in_order(answer: &AnswerItems) -> Vec<usize> {
    let lists = [&answer.reasoning, &answer.text, &answer.calls];
    let mut indices: Vec<usize> = lists.into_iter().flatten().copied().collect();
    indices.sort_unstable();
    indices
}
