//! What refusals change in the quirks of Chat Completions.

use crate::quirk_patch::{ChatPatch, Parameter, SharedPatch};
use registry::{
    ChatQuirks, ExtraContentReplay, ReasoningControl, ReasoningReplay, ReasoningRequired,
    SystemPlace, ThinkTags,
};

impl ChatPatch {
    /// Applies the patch.
    pub(crate) fn apply(self, quirks: &mut ChatQuirks) {
        match self {
            Self::MaxTokensField(field) => quirks.max_tokens_field = field,
            Self::RequireReasoning(required) => {
                quirks.reasoning_required = required;
                quirks.reasoning_replay = ReasoningReplay::ReasoningContent;
            }
            Self::RequireSignatures => quirks.call_extra = ExtraContentReplay::Required,
            Self::NoSignatures => quirks.call_extra = ExtraContentReplay::Placeholder,
            Self::NoThinkingSwitch => {
                quirks.reasoning_control = without_thinking_switch(quirks.reasoning_control);
            }
            Self::MaxTemperature(hundredths) => {
                quirks.max_temperature = Some(f64::from(hundredths) / 100.0);
            }
            Self::ResponseFormat(format) => quirks.response_format = format,
            Self::SystemFirst => quirks.system_place = SystemPlace::First,
            Self::AnswerAfterTool => quirks.answer_after_tool = true,
            Self::MergeUser => quirks.merge_user = true,
            Self::ImageNeedsText => quirks.image_needs_text = true,
            Self::CallContent(content) => quirks.call_content = content,
            Self::CallArguments(form) => quirks.call_arguments = form,
            Self::ContentForm(form) => quirks.content_form = form,
            Self::MessageLimit(hundreds) => {
                quirks.message_limit = Some(u32::from(hundreds) * 100);
            }
            Self::CallIds(form) => quirks.call_ids = form,
            Self::ToolNames => quirks.tool_names = true,
            Self::NoCallStreaming => quirks.stream_tools = false,
            Self::ThinkingUnopened => quirks.think_tags = ThinkTags::Unopened,
        }
    }
}

/// Applies a patch of a quirk that every wire has.
pub(crate) fn apply_shared(patch: SharedPatch, quirks: &mut ChatQuirks) {
    match patch {
        SharedPatch::NoReasoning => {
            quirks.reasoning_required = ReasoningRequired::Never;
            quirks.reasoning_replay = ReasoningReplay::None;
        }
        SharedPatch::NoEffort => {
            quirks.reasoning_control = without_effort_level(quirks.reasoning_control);
        }
        SharedPatch::OmitParameter(parameter) => {
            if let Some(quirk) = parameter_quirk(parameter, quirks) {
                *quirk = false;
            }
        }
        SharedPatch::WithoutToolChoice(values) => {
            quirks.tool_choice = quirks.tool_choice.difference(values);
        }
        SharedPatch::SystemRole(role) => quirks.system_role = role,
        SharedPatch::NoImageUrls => quirks.image_urls = false,
        SharedPatch::NoFiles => quirks.files = false,
        SharedPatch::EndWithUser => quirks.ends_with_user = true,
        SharedPatch::MaxTools(most) => quirks.max_tools = Some(most),
        // They are text on this wire.
        SharedPatch::NoAgentMessages => {}
        SharedPatch::Schema(rules) => quirks.schema = quirks.schema.union(rules),
    }
}

/// The reasoning control without an effort level.
fn without_effort_level(control: ReasoningControl) -> ReasoningControl {
    match control {
        ReasoningControl::ThinkingAndEffort => ReasoningControl::Thinking,
        ReasoningControl::Effort | ReasoningControl::Reasoning | ReasoningControl::None => {
            ReasoningControl::None
        }
        switch @ (ReasoningControl::Thinking
        | ReasoningControl::EnableThinking
        | ReasoningControl::TemplateSwitch) => switch,
    }
}

/// The reasoning control without a switch for thinking.
fn without_thinking_switch(control: ReasoningControl) -> ReasoningControl {
    match control {
        ReasoningControl::ThinkingAndEffort => ReasoningControl::Effort,
        ReasoningControl::Thinking
        | ReasoningControl::EnableThinking
        | ReasoningControl::TemplateSwitch
        | ReasoningControl::None => ReasoningControl::None,
        level @ (ReasoningControl::Effort | ReasoningControl::Reasoning) => level,
    }
}

/// The quirk that says whether a parameter is sent; `None` for one that this wire does not have.
pub(crate) fn parameter_quirk(parameter: Parameter, quirks: &mut ChatQuirks) -> Option<&mut bool> {
    Some(match parameter {
        Parameter::Penalties => &mut quirks.penalties,
        Parameter::Logprobs => &mut quirks.logprobs,
        Parameter::ParallelToolCalls => &mut quirks.parallel_tool_calls,
        Parameter::Strict => &mut quirks.strict_tools,
        Parameter::Stream => &mut quirks.stream,
        Parameter::StreamOptions => &mut quirks.stream_usage,
        Parameter::Temperature => &mut quirks.temperature,
        Parameter::TopP => &mut quirks.top_p,
        Parameter::PromptCacheKey => &mut quirks.prompt_cache_key,
        Parameter::CacheControl => &mut quirks.cache_control,
        Parameter::ServiceTier => &mut quirks.service_tier,
        Parameter::Verbosity => &mut quirks.verbosity,
        Parameter::ReasoningSummary
        | Parameter::MaxOutputTokens
        | Parameter::Phase
        | Parameter::Include => return None,
    })
}

#[cfg(test)]
mod tests {
    use registry::{
        CallContent, CallIds, EnumSet, MaxTokensField, ResponseFormat, SchemaRule, SystemRole,
        ToolChoiceMode,
    };

    use super::*;
    use crate::quirk_patch::tests::changed_fields;

    /// Quirks that every patch of these tests changes.
    fn quirks() -> ChatQuirks {
        ChatQuirks {
            strict_tools: true,
            prompt_cache_key: true,
            cache_control: true,
            service_tier: true,
            verbosity: true,
            files: true,
            system_place: SystemPlace::Anywhere,
            reasoning_control: ReasoningControl::ThinkingAndEffort,
            ..ChatQuirks::default()
        }
    }

    fn changed(apply: impl FnOnce(&mut ChatQuirks)) -> Vec<String> {
        let mut patched = quirks();
        apply(&mut patched);
        changed_fields(&quirks(), &patched)
    }

    #[test]
    fn a_patch_changes_one_thing() {
        for (patch, change) in [
            (
                ChatPatch::MaxTokensField(MaxTokensField::None),
                "max_tokens_field: None",
            ),
            (ChatPatch::RequireSignatures, "call_extra: Required"),
            (ChatPatch::NoSignatures, "call_extra: Placeholder"),
            (ChatPatch::NoThinkingSwitch, "reasoning_control: Effort"),
            (
                ChatPatch::ResponseFormat(ResponseFormat::JsonObject),
                "response_format: JsonObject",
            ),
            (ChatPatch::SystemFirst, "system_place: First"),
            (ChatPatch::AnswerAfterTool, "answer_after_tool: true"),
            (ChatPatch::MergeUser, "merge_user: true"),
            (ChatPatch::ImageNeedsText, "image_needs_text: true"),
            (
                ChatPatch::CallContent(CallContent::Empty),
                "call_content: Empty",
            ),
            (ChatPatch::CallIds(CallIds::Word), "call_ids: Word"),
            (ChatPatch::ToolNames, "tool_names: true"),
            (ChatPatch::ThinkingUnopened, "think_tags: Unopened"),
            (ChatPatch::NoCallStreaming, "stream_tools: false"),
        ] {
            let changed = changed(|quirks| patch.apply(quirks));
            assert_eq!(changed, [change], "{patch}");
        }
        let patch = ChatPatch::MaxTemperature(150);
        let changed = changed(|quirks| patch.apply(quirks));
        assert!(changed.contains(&"1.5".to_owned()), "{changed:?}");
        assert_eq!(patch.to_string(), "temperature is at most 1.5");
    }

    #[test]
    fn a_patch_that_every_wire_has_changes_one_thing() {
        let without = |parameter| SharedPatch::OmitParameter(parameter);
        for (patch, change) in [
            (SharedPatch::NoEffort, "reasoning_control: Thinking"),
            (without(Parameter::Penalties), "penalties: false"),
            (without(Parameter::Logprobs), "logprobs: false"),
            (
                without(Parameter::ParallelToolCalls),
                "parallel_tool_calls: false",
            ),
            (without(Parameter::Strict), "strict_tools: false"),
            (without(Parameter::StreamOptions), "stream_usage: false"),
            (
                without(Parameter::PromptCacheKey),
                "prompt_cache_key: false",
            ),
            (without(Parameter::CacheControl), "cache_control: false"),
            (without(Parameter::ServiceTier), "service_tier: false"),
            (without(Parameter::Verbosity), "verbosity: false"),
            (
                SharedPatch::WithoutToolChoice(EnumSet::empty().with(ToolChoiceMode::None)),
                &format!(
                    "tool_choice: {:?}",
                    EnumSet::all().without(ToolChoiceMode::None)
                ),
            ),
            (
                SharedPatch::SystemRole(SystemRole::User),
                "system_role: User",
            ),
            (SharedPatch::NoImageUrls, "image_urls: false"),
            (SharedPatch::NoFiles, "files: false"),
            (SharedPatch::EndWithUser, "ends_with_user: true"),
            (
                SharedPatch::Schema(EnumSet::empty().with(SchemaRule::LoneRefs)),
                "schema: Set(10)",
            ),
        ] {
            let changed = changed(|quirks| apply_shared(patch, quirks));
            assert_eq!(changed, [change], "{patch}");
        }
    }

    #[test]
    fn required_reasoning_is_sent_and_refused_reasoning_is_not() {
        let mut quirks = ChatQuirks::default();
        ChatPatch::RequireReasoning(ReasoningRequired::Calls).apply(&mut quirks);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
        assert_eq!(quirks.reasoning_required, ReasoningRequired::Calls);
        apply_shared(SharedPatch::NoReasoning, &mut quirks);
        assert_eq!(quirks, ChatQuirks::default());
        quirks.reasoning_replay = ReasoningReplay::ThinkTags;
        // The field that the refusal names is required, whichever was sent before.
        ChatPatch::RequireReasoning(ReasoningRequired::Always).apply(&mut quirks);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
    }
}
