//! What refusals change in the quirks of an upstream that speaks Responses.

use registry::{RelayQuirks, SystemRole};

use crate::quirk_patch::{Parameter, RelayPatch, SharedPatch};

impl RelayPatch {
    /// Applies the patch.
    pub(crate) fn apply(self, quirks: &mut RelayQuirks) {
        match self {
            Self::ResponseFormat(format) => quirks.response_format = format,
            Self::WithoutTools(kinds) => quirks.tools = quirks.tools.difference(kinds),
        }
    }
}

/// Applies a patch of a quirk that every wire has.
pub(crate) fn apply_shared(patch: SharedPatch, quirks: &mut RelayQuirks) {
    match patch {
        SharedPatch::NoReasoning => {
            quirks.encrypted_reasoning = false;
            quirks.reasoning_text = false;
        }
        SharedPatch::NoEffort => quirks.effort = false,
        SharedPatch::OmitParameter(parameter) => {
            if let Some(quirk) = parameter_quirk(parameter, quirks) {
                *quirk = false;
            }
        }
        SharedPatch::WithoutToolChoice(values) => {
            quirks.tool_choice = quirks.tool_choice.difference(values);
        }
        SharedPatch::SystemRole(role) => {
            quirks.developer_role = role == SystemRole::Developer;
            quirks.system_messages = role == SystemRole::System;
        }
        SharedPatch::NoImageUrls => quirks.image_urls = false,
        SharedPatch::NoFiles => quirks.files = false,
        SharedPatch::EndWithUser => quirks.ends_with_user = true,
        SharedPatch::MaxTools(most) => quirks.max_tools = Some(most),
        SharedPatch::NoAgentMessages => quirks.agent_messages = false,
        SharedPatch::Schema(rules) => quirks.schema = quirks.schema.union(rules),
    }
}

/// The quirk that says whether a parameter is sent; `None` for one that this wire does not have.
pub(crate) fn parameter_quirk(parameter: Parameter, quirks: &mut RelayQuirks) -> Option<&mut bool> {
    Some(match parameter {
        Parameter::Penalties => &mut quirks.penalties,
        Parameter::Logprobs => &mut quirks.logprobs,
        Parameter::ParallelToolCalls => &mut quirks.parallel_tool_calls,
        Parameter::Strict => &mut quirks.strict_tools,
        Parameter::PromptCacheKey => &mut quirks.prompt_cache_key,
        Parameter::ServiceTier => &mut quirks.service_tier,
        Parameter::Verbosity => &mut quirks.verbosity,
        Parameter::ReasoningSummary => &mut quirks.reasoning_summary,
        Parameter::Stream => &mut quirks.stream,
        Parameter::Temperature => &mut quirks.temperature,
        Parameter::TopP => &mut quirks.top_p,
        Parameter::Include => &mut quirks.include,
        Parameter::MaxOutputTokens => &mut quirks.max_output_tokens,
        Parameter::Phase => &mut quirks.phase,
        Parameter::StreamOptions | Parameter::CacheControl => return None,
    })
}

#[cfg(test)]
mod tests {
    use registry::{EnumSet, SchemaRule, ToolChoiceMode};

    use super::*;
    use crate::quirk_patch::tests::changed_fields;

    #[test]
    fn a_patch_changes_one_thing() {
        let quirks = RelayQuirks {
            penalties: true,
            ..RelayQuirks::default()
        };
        let without = |parameter| SharedPatch::OmitParameter(parameter);
        for (patch, change) in [
            (SharedPatch::NoReasoning, "encrypted_reasoning: false"),
            (SharedPatch::NoEffort, "effort: false"),
            (without(Parameter::Penalties), "penalties: false"),
            (without(Parameter::Logprobs), "logprobs: false"),
            (
                without(Parameter::ParallelToolCalls),
                "parallel_tool_calls: false",
            ),
            (without(Parameter::Strict), "strict_tools: false"),
            (
                without(Parameter::PromptCacheKey),
                "prompt_cache_key: false",
            ),
            (without(Parameter::ServiceTier), "service_tier: false"),
            (without(Parameter::Verbosity), "verbosity: false"),
            (
                without(Parameter::ReasoningSummary),
                "reasoning_summary: false",
            ),
            (
                SharedPatch::WithoutToolChoice(EnumSet::empty().with(ToolChoiceMode::None)),
                &format!(
                    "tool_choice: {:?}",
                    EnumSet::all().without(ToolChoiceMode::None)
                ),
            ),
            (
                SharedPatch::SystemRole(SystemRole::System),
                "developer_role: false",
            ),
            (SharedPatch::NoImageUrls, "image_urls: false"),
            (SharedPatch::NoFiles, "files: false"),
            (SharedPatch::EndWithUser, "ends_with_user: true"),
            (SharedPatch::NoAgentMessages, "agent_messages: false"),
            (
                SharedPatch::Schema(EnumSet::empty().with(SchemaRule::LoneRefs)),
                "schema: Set(10)",
            ),
        ] {
            let mut patched = quirks;
            apply_shared(patch, &mut patched);
            assert_eq!(changed_fields(&quirks, &patched), [change], "{patch}");
        }
    }

    #[test]
    fn what_is_never_sent_needs_no_quirk() {
        for parameter in [Parameter::StreamOptions, Parameter::CacheControl] {
            let mut patched = RelayQuirks::default();
            apply_shared(SharedPatch::OmitParameter(parameter), &mut patched);
            assert_eq!(patched, RelayQuirks::default());
        }
    }
}
