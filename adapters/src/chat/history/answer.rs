//! Assistant messages: the text, the reasoning and the calls of one answer.

use registry::{CallContent, ExtraContentReplay, ReasoningReplay, ReasoningRequired};

use super::Writer;
use super::arguments::push_arguments;
use super::layout::Said;
use super::reasoning::{LOST_SIGNATURE, PLACEHOLDER, Thoughts, details_placeholder};
use crate::fault::Fault;
use crate::json;
use crate::plan::UNKNOWN_TOOL;
use crate::tools::ToolKind;
use crate::turn::{Item, ItemKind, Turn};

impl<'a> Writer<'_, 'a> {
    pub(super) fn assistant(&mut self, said: &Said<'a>, marked: bool) -> Result<(), Fault> {
        let quirks = self.options.quirks();
        let thoughts = Thoughts::of(said, self.turn, self.options, self.notes)?;
        self.open("assistant");
        match quirks.reasoning_replay {
            ReasoningReplay::ThinkTags => self.tagged_text(said, &thoughts, marked),
            ReasoningReplay::ThinkingParts => self.text_behind_thinking(said, &thoughts, marked),
            ReasoningReplay::None
            | ReasoningReplay::ReasoningContent
            | ReasoningReplay::Reasoning
            | ReasoningReplay::ReasoningDetails => self.text(said, marked),
        }
        match quirks.reasoning_replay {
            ReasoningReplay::ReasoningContent => {
                self.reasoning("reasoning_content", said, &thoughts);
            }
            ReasoningReplay::ReasoningDetails => match self.details(said, &thoughts) {
                Some(details) => json::raw_field(self.out, "reasoning_details", &details),
                None => self.reasoning("reasoning", said, &thoughts),
            },
            ReasoningReplay::Reasoning => self.reasoning("reasoning", said, &thoughts),
            ReasoningReplay::None | ReasoningReplay::ThinkTags | ReasoningReplay::ThinkingParts => {
            }
        }
        self.calls(said, &thoughts);
        self.out.push(b'}');
        Ok(())
    }

    /// `content`, where reasoning stands elsewhere.
    fn text(&mut self, said: &Said<'_>, marked: bool) {
        if said.texts.is_empty() {
            match self.options.quirks().call_content {
                CallContent::Null => json::raw_field(self.out, "content", "null"),
                CallContent::Empty => json::raw_field(self.out, "content", "\"\""),
                CallContent::Omitted => {}
            }
            return;
        }
        json::key(self.out, "content");
        self.open_text(marked);
        self.texts(said);
        self.close_text(marked);
    }

    fn tagged_text(&mut self, said: &Said<'_>, thoughts: &Thoughts<'_>, marked: bool) {
        if thoughts.is_empty() {
            return self.text(said, marked);
        }
        json::key(self.out, "content");
        self.open_text(marked);
        self.out.extend_from_slice(b"<think>\\n");
        self.thoughts(thoughts);
        self.out.extend_from_slice(b"\\n</think>\\n\\n");
        self.texts(said);
        self.close_text(marked);
    }

    fn text_behind_thinking(&mut self, said: &Said<'_>, thoughts: &Thoughts<'_>, marked: bool) {
        if thoughts.is_empty() {
            return self.text(said, marked);
        }
        json::key(self.out, "content");
        self.out
            .extend_from_slice(br#"[{"type":"thinking","thinking":[{"type":"text","text":""#);
        self.thoughts(thoughts);
        self.out.extend_from_slice(br#""}]}"#);
        if !said.texts.is_empty() {
            self.out.extend_from_slice(br#",{"type":"text","text":""#);
            self.texts(said);
            self.out.extend_from_slice(br#""}"#);
        }
        self.close_parts(marked && !said.texts.is_empty());
    }

    fn texts(&mut self, said: &Said<'_>) {
        for (position, (index, content)) in said.texts.iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b"\\n\\n");
            }
            let start = self.out.len();
            content.push_text(self.out, "");
            self.span(*index, start);
        }
    }

    fn thoughts(&mut self, thoughts: &Thoughts<'_>) {
        for (position, (index, content)) in thoughts.texts.iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b"\\n\\n");
            }
            let start = self.out.len();
            content.push_text(self.out, "\\n\\n");
            if let Some(index) = index {
                self.span(*index, start);
            }
        }
    }

    /// The reasoning in a field of its own. Where it was lost and the provider
    /// insists, a blank stands in.
    fn reasoning(&mut self, field: &str, said: &Said<'_>, thoughts: &Thoughts<'_>) {
        if !thoughts.is_empty() {
            json::key(self.out, field);
            self.out.push(b'"');
            self.thoughts(thoughts);
            self.out.push(b'"');
            return;
        }
        let required = match self.options.quirks().reasoning_required {
            ReasoningRequired::Never => false,
            ReasoningRequired::Calls => !said.answer.calls.is_empty(),
            ReasoningRequired::Always => true,
        };
        if required {
            self.notes.add(
                "reasoning_placeholder",
                "the reasoning of an earlier answer was lost",
            );
            json::field(self.out, field, PLACEHOLDER);
        }
    }

    /// The `reasoning_details`. Where these carry the signature of the first call
    /// and it was lost or is refused, the placeholder stands in.
    fn details(&mut self, said: &Said<'_>, thoughts: &Thoughts<'_>) -> Option<String> {
        let mut details = thoughts.details.clone();
        let unsigned = match self.options.quirks().call_extra {
            ExtraContentReplay::None | ExtraContentReplay::Kept => false,
            ExtraContentReplay::Required => !details.contains("\"reasoning.encrypted\""),
            ExtraContentReplay::Placeholder => {
                details.clear();
                true
            }
        };
        if unsigned && let Some(&first) = said.answer.calls.first() {
            self.notes.add("call_extra_placeholder", LOST_SIGNATURE);
            let call_id = self.plan.call_id(self.turn, first);
            if !details.is_empty() {
                details.push(',');
            }
            details.push_str(&details_placeholder(self.ids.wire(&call_id)));
        }
        (!details.is_empty()).then(|| format!("[{details}]"))
    }

    fn calls(&mut self, said: &Said<'_>, thoughts: &Thoughts<'_>) {
        let calls = &said.answer.calls;
        if calls.is_empty() {
            return;
        }
        json::key(self.out, "tool_calls");
        self.out.push(b'[');
        for (position, &index) in calls.iter().enumerate() {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            if self.out.last() != Some(&b'[') {
                self.out.push(b',');
            }
            let start = self.out.len();
            self.call(item, index);
            let quirks = self.options.quirks();
            // The placeholder of such a provider stands among the details.
            let among_details = quirks.reasoning_replay == ReasoningReplay::ReasoningDetails;
            let keeps = match quirks.call_extra {
                ExtraContentReplay::Required if among_details => ExtraContentReplay::Kept,
                ExtraContentReplay::Placeholder if among_details => ExtraContentReplay::None,
                keeps => keeps,
            };
            thoughts.push_extra(self.out, index, position == 0, keeps, self.notes);
            self.out.push(b'}');
            self.span(index, start);
        }
        self.out.push(b']');
    }

    /// A call without its closing brace.
    fn call(&mut self, item: &Item<'_>, index: usize) {
        let call_id = self.plan.call_id(self.turn, index);
        let name = tool_name(self.turn, item);
        self.out.push(b'{');
        json::field(self.out, "id", self.ids.wire(&call_id));
        json::field(self.out, "type", "function");
        json::key(self.out, "function");
        self.out.push(b'{');
        json::field(self.out, "name", &name);
        json::key(self.out, "arguments");
        self.out.push(b'"');
        match self.plan.shown(index) {
            Some(arguments) => json::escape_json_text(self.out, arguments),
            None => push_arguments(self.out, item, self.notes),
        }
        self.out.extend_from_slice(b"\"}");
    }
}

/// The wire name of the tool that an item calls.
pub(super) fn tool_name(turn: &Turn<'_>, item: &Item<'_>) -> String {
    if let Some((kind, name)) = hosted_name(item.kind) {
        return turn.tools.find(&[kind], None).unwrap_or(name).to_owned();
    }
    let Some(name) = item.name().filter(|name| !name.is_empty()) else {
        return UNKNOWN_TOOL.to_owned();
    };
    let namespace = item.namespace();
    turn.tools
        .wire_name(namespace.as_deref(), &name)
        .into_owned()
}

/// The tool behind an item type that has no name of its own.
fn hosted_name(kind: ItemKind) -> Option<(ToolKind, &'static str)> {
    match kind {
        ItemKind::ToolSearchCall => Some((ToolKind::ToolSearch, "tool_search")),
        ItemKind::LocalShellCall => Some((ToolKind::LocalShell, "local_shell")),
        ItemKind::ShellCall => Some((ToolKind::Shell, "shell")),
        ItemKind::ApplyPatchCall => Some((ToolKind::ApplyPatch, "apply_patch")),
        _ => None,
    }
}
