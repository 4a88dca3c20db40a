//! Writes the items of an answer and the results that only this API has. What this upstream
//! made goes back with its bytes; what another one made is written anew, without ids.

use registry::RelayToolKind;
use serde_json::value::RawValue;

use super::annotations::without_citations;
use super::input::{CallForm, InputWriter, push_shell_output};
use crate::baggage::Baggage;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::item_text::arguments_json;
use crate::json::{self, quoted};
use crate::members::{Members, rewrite};
use crate::origin;
use crate::schema;
use crate::turn::{Item, ItemKind};

/// What Codex adds to items for itself.
const CLIENT_FIELD: &str = "internal_chat_message_metadata_passthrough";

impl InputWriter<'_, '_> {
    /// Writes an item of the upstream with its bytes, except for these changes.
    pub(super) fn push_own(
        &mut self,
        item: &Item<'_>,
        own_id: Option<&str>,
        changes: Vec<(&str, Option<String>)>,
    ) -> bool {
        let Some(members) = item.raw().and_then(Members::read) else {
            return false;
        };
        let mut changes = changes;
        changes.push(("id", own_id.map(quoted)));
        changes.push((CLIENT_FIELD, None));
        // Codex writes null for the content that its reasoning items do not have.
        if members.get("content").is_some() && members.present("content").is_none() {
            changes.push(("content", None));
        }
        json::separate(self.out);
        rewrite(self.out, &members, &changes);
        true
    }

    /// Writes an item of a tool that ran at the upstream.
    pub(super) fn push_hosted(&mut self, index: usize) {
        if let Some(item) = self.turn.items.get(index)
            && let Some((id, _)) = self.own_id(item)
        {
            self.push_own(item, Some(&id), Vec::new());
            self.ends_with_user = Some(false);
        }
    }

    /// Writes a message of the model.
    pub(super) fn push_assistant(&mut self, item: &Item<'_>, index: usize) -> Result<(), Fault> {
        let is_whole = self.plan.replacement_text(index).is_none();
        if let Some((id, adds_phase)) = self.own_id(item).filter(|_| is_whole) {
            let mut changes = Vec::new();
            if adds_phase {
                changes.push(("phase", None));
            }
            let known = item.known_sources;
            let members = item.raw().filter(|_| known > 0).and_then(Members::read);
            let content = members.and_then(|it| without_citations(&it, known, &self.found_pages));
            if let Some(content) = content {
                changes.push(("content", Some(content)));
            }
            if self.push_own(item, Some(&id), changes) {
                return Ok(());
            }
        }
        let content = self.content(index)?;
        if content.is_empty() {
            self.notes
                .add("empty_message_dropped", format!("input[{index}]"));
            return Ok(());
        }
        self.open("message");
        json::field(self.out, "role", "assistant");
        let members = item.raw().and_then(Members::read).unwrap_or_default();
        if let Some(phase) = members.text("phase").filter(|_| self.quirks.phase) {
            json::field(self.out, "phase", phase.as_ref());
        }
        json::key(self.out, "content");
        self.push_parts(&content, "output_text");
        self.out.push(b'}');
        Ok(())
    }

    /// Writes a reasoning item: with its encrypted content to the upstream that made it, as
    /// text where that is accepted, else not at all.
    pub(super) fn push_reasoning(
        &mut self,
        item: &Item<'_>,
        index: usize,
        has_answer: bool,
    ) -> Result<(), Fault> {
        if self.is_cut() || !has_answer {
            return Ok(());
        }
        let own_id = self.own_id(item).map(|(id, _)| id);
        let sealed = item.encrypted_content().unwrap_or_default();
        let content = origin::unwrap(self.options.origin, &sealed);
        if let Some(content) = content.filter(|_| self.quirks.encrypted_reasoning) {
            let changes = vec![("encrypted_content", Some(quoted(content)))];
            self.push_own(item, own_id.as_deref(), changes);
            return Ok(());
        }
        if !self.quirks.reasoning_text {
            return Ok(());
        }
        if own_id.is_some() && content.is_none() && sealed.is_empty() {
            let changes = vec![("encrypted_content", None)];
            self.push_own(item, own_id.as_deref(), changes);
            return Ok(());
        }
        let text = reasoning_text(item, index, &sealed)?;
        if text.is_empty() {
            return Ok(());
        }
        self.open("reasoning");
        let id = format!("rs_{:08x}", crc32fast::hash(text.as_bytes()));
        json::field(self.out, "id", &id);
        json::raw_field(self.out, "summary", "[]");
        json::key(self.out, "content");
        self.out
            .extend_from_slice(br#"[{"type":"reasoning_text","text":"#);
        json::push(self.out, &text);
        self.out.extend_from_slice(b"}]}");
        Ok(())
    }

    /// Writes a call, as the client knows it or as a function call.
    pub(super) fn push_call(&mut self, item: &Item<'_>, index: usize) {
        let call_id = self.plan.call_id(self.turn, index).into_owned();
        if item.kind == ItemKind::McpCall && self.goes_back(item) {
            self.call_forms.insert(call_id, CallForm::WithResult);
            let own_id = self.own_id(item).map(|(id, _)| id);
            self.push_own(item, own_id.as_deref(), Vec::new());
            return;
        }
        let shown = self.plan.replaced_arguments(item, index);
        let native = self.native_form(item).filter(|_| shown.is_none());
        let form = native.unwrap_or(CallForm::Function);
        self.call_forms.insert(call_id.clone(), form);
        let own_id = self.own_id(item).map(|(id, _)| id);
        let set_call_id = || vec![("call_id", Some(quoted(&call_id)))];
        let is_lowered = native.is_none();
        if own_id.is_some() && !is_lowered && self.push_own(item, own_id.as_deref(), set_call_id())
        {
            return;
        }
        if form != CallForm::Function && self.push_own(item, None, set_call_id()) {
            return;
        }
        self.open("function_call");
        json::field(self.out, "call_id", &call_id);
        let namespace = item.namespace().filter(|_| !is_lowered);
        if let Some((namespace, name)) = namespace.zip(item.name()) {
            json::field(self.out, "name", name.as_ref());
            json::field(self.out, "namespace", namespace.as_ref());
        } else {
            let name = self.turn.tools.called_name(item);
            json::field(self.out, "name", &name);
        }
        match shown {
            Some(arguments) => json::field(self.out, "arguments", arguments),
            None => json::field(self.out, "arguments", arguments_json(item).as_ref()),
        }
        self.out.push(b'}');
    }

    /// The form in which the provider takes this call as the client knows it; `None` if it
    /// becomes a call of a function under its wire name.
    fn native_form(&self, item: &Item<'_>) -> Option<CallForm> {
        let (kind, form) = match item.kind {
            ItemKind::FunctionCall => {
                let name = item.name().filter(|name| !name.is_empty())?;
                let namespace = item.namespace();
                let tool = self.turn.tools.called(namespace.as_deref(), &name);
                let takes = match tool {
                    _ if namespace.is_none() => true,
                    Some(tool) if tool.is_deferred && !self.takes(RelayToolKind::ToolSearch) => {
                        false
                    }
                    Some(_) | None => self.takes(RelayToolKind::Namespace),
                };
                return takes.then_some(CallForm::Function);
            }
            ItemKind::CustomToolCall => (RelayToolKind::Custom, CallForm::Custom),
            ItemKind::ToolSearchCall => (RelayToolKind::ToolSearch, CallForm::ToolSearch),
            ItemKind::LocalShellCall => (RelayToolKind::LocalShell, CallForm::LocalShell),
            ItemKind::ShellCall => (RelayToolKind::Shell, CallForm::Shell),
            ItemKind::ApplyPatchCall => (RelayToolKind::ApplyPatch, CallForm::ApplyPatch),
            _ => return None,
        };
        self.takes(kind).then_some(form)
    }

    /// Writes a result that only this API has, if it fits the form of its call. Results of
    /// functions and custom tools are written elsewhere.
    pub(super) fn push_native_result(
        &mut self,
        form: CallForm,
        item: &Item<'_>,
        index: usize,
    ) -> bool {
        let fits = match form {
            CallForm::Function | CallForm::Custom | CallForm::WithResult => return false,
            CallForm::ToolSearch => item.kind == ItemKind::ToolSearchOutput,
            CallForm::LocalShell => item.kind == ItemKind::LocalShellCallOutput,
            CallForm::Shell => item.kind == ItemKind::ShellCallOutput,
            CallForm::ApplyPatch => item.kind == ItemKind::ApplyPatchCallOutput,
        };
        let call_id = self.plan.call_id(self.turn, index);
        let mut changes = vec![("call_id", Some(quoted(&call_id)))];
        let found = item.tools().map(RawValue::get);
        if let Some(tools) = found.and_then(schema::without_encryption) {
            changes.push(("tools", Some(tools)));
        }
        let text = match (fits, self.plan.replacement_text(index)) {
            (true, None) => return self.push_own(item, None, changes),
            (true, Some(text)) if form == CallForm::Shell => {
                let mut output = vec![b'{'];
                push_shell_output(&mut output, text);
                let json = String::from_utf8_lossy(&output).into_owned();
                json.strip_prefix(r#"{"output":"#).map(str::to_owned)
            }
            (true, Some(text)) => Some(quoted(text)),
            // A result of another type than its call.
            (false, _) => return false,
        };
        changes.push(("output", text));
        self.push_own(item, None, changes)
    }
}

/// The text of reasoning that another upstream made, or this one without encrypting it.
fn reasoning_text(item: &Item<'_>, index: usize, sealed: &str) -> Result<String, Fault> {
    if let Some(baggage) = Baggage::open(sealed).filter(|b| !b.reasoning.is_empty()) {
        return Ok(baggage.reasoning);
    }
    let mut text = Vec::new();
    MessageContent::read_reasoning(item, index)?.push_text(&mut text, "\\n\\n");
    Ok(json::unescape(&String::from_utf8_lossy(&text)).into_owned())
}
