//! Writes assistant messages: the text, the reasoning and the calls of one answer.

use registry::{
    CallArguments, CallContent, ExtraContentReplay, ReasoningReplay, ReasoningRequired,
};

use super::MessageWriter;
use super::arguments::{push_arguments, unquote};
use super::message::{AssistantMessage, ReplayedReasoning};
use super::reasoning::{
    LOST_SIGNATURE, REASONING_PLACEHOLDER, signature_detail_placeholder, text_field,
};
use crate::chat::provider_search;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::json;
use crate::turn::Item;

impl<'a> MessageWriter<'_, 'a> {
    pub(super) fn push_assistant(
        &mut self,
        message: &AssistantMessage<'a>,
        marked: bool,
    ) -> Result<(), Fault> {
        let quirks = self.options.quirks;
        let reasoning = ReplayedReasoning::collect(message, self.turn, self.options, self.notes)?;
        self.open_message("assistant");
        let thoughts = Some(&reasoning).filter(|reasoning| !reasoning.is_empty());
        match (quirks.reasoning_replay, thoughts) {
            (ReasoningReplay::ThinkTags, thoughts) => self.push_content(message, thoughts, marked),
            (ReasoningReplay::ThinkingParts, Some(thoughts)) => {
                self.push_content_with_thinking_parts(message, thoughts, marked);
            }
            (
                ReasoningReplay::ThinkingParts
                | ReasoningReplay::None
                | ReasoningReplay::ReasoningContent
                | ReasoningReplay::Reasoning
                | ReasoningReplay::ReasoningDetails,
                _,
            ) => self.push_content(message, None, marked),
        }
        let has_details = quirks.reasoning_replay == ReasoningReplay::ReasoningDetails;
        let details = has_details.then(|| self.reasoning_details(message, &reasoning));
        if let Some(details) = details.flatten() {
            json::raw_field(self.out, "reasoning_details", &details);
        } else if let Some(field) = text_field(quirks.reasoning_replay) {
            self.push_reasoning_field(field, message, &reasoning);
        }
        self.push_calls(message, &reasoning);
        self.out.push(b'}');
        Ok(())
    }

    /// Writes `content`, with the reasoning between tags in it if there is any.
    fn push_content(
        &mut self,
        message: &AssistantMessage<'_>,
        reasoning: Option<&ReplayedReasoning<'_>>,
        marked: bool,
    ) {
        if message.texts.is_empty() && reasoning.is_none() {
            match self.options.quirks.call_content {
                CallContent::Null => json::raw_field(self.out, "content", "null"),
                CallContent::Empty => json::raw_field(self.out, "content", "\"\""),
                CallContent::Text => json::raw_field(self.out, "content", "\".\""),
                CallContent::Omitted => {}
            }
            return;
        }
        json::key(self.out, "content");
        self.open_text(marked);
        if let Some(reasoning) = reasoning {
            self.out.extend_from_slice(b"<think>\\n");
            self.push_texts(&reasoning.texts, "\\n\\n");
            self.out.extend_from_slice(b"\\n</think>\\n\\n");
        }
        self.push_texts(&message.texts, "");
        self.close_text(marked);
    }

    fn push_content_with_thinking_parts(
        &mut self,
        message: &AssistantMessage<'_>,
        reasoning: &ReplayedReasoning<'_>,
        marked: bool,
    ) {
        json::key(self.out, "content");
        self.out
            .extend_from_slice(br#"[{"type":"thinking","thinking":[{"type":"text","text":""#);
        self.push_texts(&reasoning.texts, "\\n\\n");
        self.out.extend_from_slice(br#""}]}"#);
        if !message.texts.is_empty() {
            self.out.extend_from_slice(br#",{"type":"text","text":""#);
            self.push_texts(&message.texts, "");
            self.out.extend_from_slice(br#""}"#);
        }
        self.close_parts(marked && !message.texts.is_empty());
    }

    /// Writes texts with blank lines between them, and the parts of each with `separator`.
    fn push_texts(&mut self, texts: &[(Option<usize>, MessageContent<'_>)], separator: &str) {
        for (position, (index, content)) in texts.iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b"\\n\\n");
            }
            let start = self.out.len();
            content.push_text(self.out, separator);
            if let Some(index) = index {
                self.add_span(*index, start);
            }
        }
    }

    /// Writes the reasoning to a field of its own. If it was lost and the provider
    /// insists, a placeholder is sent.
    fn push_reasoning_field(
        &mut self,
        field: &str,
        message: &AssistantMessage<'_>,
        reasoning: &ReplayedReasoning<'_>,
    ) {
        if !reasoning.is_empty() {
            json::key(self.out, field);
            self.out.push(b'"');
            self.push_texts(&reasoning.texts, "\\n\\n");
            self.out.push(b'"');
            return;
        }
        let required = match self.options.quirks.reasoning_required {
            ReasoningRequired::Never => false,
            ReasoningRequired::Calls => !message.answer.calls.is_empty(),
            ReasoningRequired::Always => true,
        };
        if required {
            self.notes.add(
                "reasoning_placeholder",
                "the reasoning of an earlier answer was lost",
            );
            json::field(self.out, field, REASONING_PLACEHOLDER);
        }
    }

    /// The `reasoning_details`. If they should carry the signature of the first
    /// call, and it was lost or is refused, a placeholder is added.
    fn reasoning_details(
        &mut self,
        message: &AssistantMessage<'_>,
        reasoning: &ReplayedReasoning<'_>,
    ) -> Option<String> {
        let mut details = reasoning.details.clone();
        let unsigned = match self.options.quirks.call_extra {
            ExtraContentReplay::None | ExtraContentReplay::Kept => false,
            ExtraContentReplay::Required => !details.contains("\"reasoning.encrypted\""),
            ExtraContentReplay::Placeholder => {
                details.clear();
                true
            }
        };
        if unsigned && let Some(&first) = message.answer.calls.first() {
            self.notes.add("call_extra_placeholder", LOST_SIGNATURE);
            let call_id = self.plan.call_id(self.turn, first);
            if !details.is_empty() {
                details.push(',');
            }
            details.push_str(&signature_detail_placeholder(self.ids.wire_id(&call_id)));
        }
        (!details.is_empty()).then(|| format!("[{details}]"))
    }

    fn push_calls(&mut self, message: &AssistantMessage<'_>, reasoning: &ReplayedReasoning<'_>) {
        let calls = &message.answer.calls;
        if calls.is_empty() {
            return;
        }
        json::key(self.out, "tool_calls");
        self.out.push(b'[');
        for (position, &index) in calls.iter().enumerate() {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            json::separate(self.out);
            let start = self.out.len();
            self.push_call(item, index);
            let quirks = self.options.quirks;
            // With `reasoning_details`, the placeholder is one of the details.
            let among_details = quirks.reasoning_replay == ReasoningReplay::ReasoningDetails;
            let call_extra = match quirks.call_extra {
                ExtraContentReplay::Required if among_details => ExtraContentReplay::Kept,
                ExtraContentReplay::Placeholder if among_details => ExtraContentReplay::None,
                call_extra => call_extra,
            };
            reasoning.push_extra_content(self.out, index, position == 0, call_extra, self.notes);
            self.out.push(b'}');
            self.add_span(index, start);
        }
        self.out.push(b']');
    }

    /// Writes a call without its closing brace.
    fn push_call(&mut self, item: &Item<'_>, index: usize) {
        let call_id = self.plan.call_id(self.turn, index);
        let name = self.turn.tools.called_name(item);
        self.out.push(b'{');
        json::field(self.out, "id", self.ids.wire_id(&call_id));
        let (kind, name) = provider_search::sent_call(&name, self.options.quirks);
        json::field(self.out, "type", kind);
        json::key(self.out, "function");
        self.out.push(b'{');
        json::field(self.out, "name", name);
        json::key(self.out, "arguments");
        let start = self.out.len();
        self.out.push(b'"');
        match self.plan.replaced_arguments(item, index) {
            Some(arguments) => json::escape_json_text(self.out, arguments),
            None => push_arguments(self.out, item, self.notes),
        }
        self.out.push(b'"');
        if self.options.quirks.call_arguments == CallArguments::Object {
            unquote(self.out, start);
        }
        self.out.push(b'}');
    }
}
