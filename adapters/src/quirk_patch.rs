//! Patches of quirks: what the proxy learns from a provider that refuses a request.
//!
//! A refusal with a known reason is read by [`crate::provider_error`] into a
//! [`QuirkPatch`]. The patch is applied to the quirks and the model, the same turn
//! is encoded again, and is sent again if the request came out different.

use std::fmt;

use registry::{
    CallContent, CallIds, ChatQuirks, EnumSet, ExtraContentReplay, MaxTokensField, Model,
    ReasoningControl, ReasoningReplay, ReasoningRequired, RelayQuirks, ResponseFormat, SchemaRule,
    SystemPlace, SystemRole, ToolChoiceMode, WireQuirks,
};
use serde::{Deserialize, Serialize};

/// One change of a model's quirks or limits. It is `Copy` and needs no heap,
/// because every [`crate::fault::Fault`] has room for one. Bundles store it under
/// the names that serde gives here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuirkPatch {
    /// Size of the context window: tokens that input and output share.
    Window(u32),
    /// The largest output limit, in tokens.
    MaxOutput(u32),
    /// The name of the parameter for the output limit.
    MaxTokensField(MaxTokensField),
    /// Which assistant messages must carry their `reasoning_content`.
    #[serde(rename = "reasoning")]
    RequireReasoning(ReasoningRequired),
    /// Reasoning of earlier answers is not accepted.
    NoReasoning,
    /// Calls must carry the signature that came with them.
    #[serde(rename = "signatures")]
    RequireSignatures,
    /// The signatures that came with calls are not accepted: they belong to another
    /// key, or are damaged.
    NoSignatures,
    /// The effort levels that the model has.
    Efforts(EffortLevels),
    /// The effort level is not accepted.
    NoEffort,
    /// Thinking cannot be switched on or off.
    NoThinkingSwitch,
    /// `temperature` and `top_p` are fixed.
    NoSampling,
    /// The highest `temperature`, in hundredths.
    MaxTemperature(u16),
    /// An optional parameter is not accepted.
    #[serde(rename = "without")]
    OmitParameter(Parameter),
    /// Values of `tool_choice` that are not accepted.
    WithoutToolChoice(EnumSet<ToolChoiceMode>),
    /// The most capable `response_format` that is accepted.
    ResponseFormat(ResponseFormat),
    /// The role of system messages.
    SystemRole(SystemRole),
    /// Only the first message may be a system message.
    SystemFirst,
    /// An assistant message must come between a tool result and a user message.
    AnswerAfterTool,
    /// Consecutive user messages are not accepted.
    MergeUser,
    /// The model does not accept images.
    NoImages,
    /// Images are accepted as data URLs only.
    NoImageUrls,
    /// A message with an image must contain text as well.
    ImageNeedsText,
    /// Files are not accepted.
    NoFiles,
    /// The `content` of an assistant message that has only calls.
    CallContent(CallContent),
    /// The form of call ids.
    CallIds(CallIds),
    /// Tool messages must name their tool.
    ToolNames,
    /// Rules for tool schemas, in addition to those already in force.
    Schema(EnumSet<SchemaRule>),
    /// Requests with tools must not be streamed.
    #[serde(rename = "whole_calls")]
    NoCallStreaming,
}

/// An optional parameter of a Chat Completions request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// `presence_penalty` and `frequency_penalty`
    Penalties,
    /// `logprobs` and `top_logprobs`
    Logprobs,
    /// `parallel_tool_calls`
    ParallelToolCalls,
    /// `strict` of a function
    Strict,
    /// `stream_options`
    StreamOptions,
    /// `prompt_cache_key`
    PromptCacheKey,
    /// `cache_control`
    CacheControl,
    /// `service_tier`
    ServiceTier,
    /// `verbosity`
    Verbosity,
}

/// A set of reasoning effort levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct EffortLevels(u8);

/// Every effort level that a client or a model may name, from the weakest.
pub(crate) const EFFORT_LEVELS: [&str; 7] =
    ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

impl EffortLevels {
    /// The levels among these names; `None` if there is none.
    pub fn from_names(words: &[&str]) -> Option<Self> {
        let bits = EFFORT_LEVELS
            .iter()
            .enumerate()
            .filter(|(_, level)| words.contains(level))
            .fold(0, |bits, (index, _)| bits | 1 << index);
        (bits != 0).then_some(Self(bits))
    }

    /// The names, from the weakest level.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        EFFORT_LEVELS
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & 1 << index != 0)
            .map(|(_, level)| level)
    }
}

impl QuirkPatch {
    /// Applies the patch. A patch of another wire than that of the quirks changes nothing.
    pub fn apply(&self, quirks: &mut WireQuirks, model: &mut Model) {
        match self {
            Self::Window(tokens) => model.window = Some(u64::from(*tokens)),
            Self::MaxOutput(tokens) => model.max_output = Some(u64::from(*tokens)),
            Self::Efforts(levels) => {
                model.reasoning = levels.names().map(str::to_owned).collect();
                if let Some(first) = &model.default_reasoning
                    && !model.reasoning.contains(first)
                {
                    model.default_reasoning = None;
                }
            }
            Self::NoSampling => model.sampling = false,
            Self::NoImages => model.images = false,
            Self::MaxTokensField(_)
            | Self::RequireReasoning(_)
            | Self::NoReasoning
            | Self::RequireSignatures
            | Self::NoSignatures
            | Self::NoEffort
            | Self::NoThinkingSwitch
            | Self::MaxTemperature(_)
            | Self::OmitParameter(_)
            | Self::WithoutToolChoice(_)
            | Self::ResponseFormat(_)
            | Self::SystemRole(_)
            | Self::SystemFirst
            | Self::AnswerAfterTool
            | Self::MergeUser
            | Self::NoImageUrls
            | Self::ImageNeedsText
            | Self::NoFiles
            | Self::CallContent(_)
            | Self::CallIds(_)
            | Self::ToolNames
            | Self::Schema(_)
            | Self::NoCallStreaming => {
                if let Some(quirks) = quirks.as_chat_mut() {
                    self.apply_to_chat(quirks);
                } else if let Some(quirks) = quirks.as_responses_mut() {
                    self.apply_to_relay(quirks);
                }
            }
        }
    }

    /// Whether the patch can change a model with this wire and these quirks: it changes the
    /// model itself, or quirks of this wire.
    pub fn fits(&self, quirks: &WireQuirks) -> bool {
        match self {
            Self::Window(_)
            | Self::MaxOutput(_)
            | Self::Efforts(_)
            | Self::NoSampling
            | Self::NoImages
            // Both wires have these.
            | Self::NoReasoning
            | Self::NoEffort
            | Self::OmitParameter(_)
            | Self::WithoutToolChoice(_)
            | Self::SystemRole(_)
            | Self::NoImageUrls
            | Self::NoFiles
            | Self::Schema(_) => true,
            Self::MaxTokensField(_)
            | Self::RequireReasoning(_)
            | Self::RequireSignatures
            | Self::NoSignatures
            | Self::NoThinkingSwitch
            | Self::MaxTemperature(_)
            | Self::ResponseFormat(_)
            | Self::SystemFirst
            | Self::AnswerAfterTool
            | Self::MergeUser
            | Self::ImageNeedsText
            | Self::CallContent(_)
            | Self::CallIds(_)
            | Self::ToolNames
            | Self::NoCallStreaming => quirks.as_chat().is_some(),
        }
    }

    fn apply_to_relay(self, quirks: &mut RelayQuirks) {
        match self {
            Self::NoReasoning => {
                quirks.encrypted_reasoning = false;
                quirks.reasoning_text = false;
            }
            Self::NoEffort => quirks.effort = false,
            Self::OmitParameter(parameter) => match parameter {
                Parameter::Penalties => quirks.penalties = false,
                Parameter::Logprobs => quirks.logprobs = false,
                Parameter::ParallelToolCalls => quirks.parallel_tool_calls = false,
                Parameter::Strict => quirks.strict_tools = false,
                Parameter::PromptCacheKey => quirks.prompt_cache_key = false,
                Parameter::ServiceTier => quirks.service_tier = false,
                Parameter::Verbosity => quirks.verbosity = false,
                // A request of this wire never has them.
                Parameter::StreamOptions | Parameter::CacheControl => {}
            },
            Self::WithoutToolChoice(values) => {
                quirks.tool_choice = quirks.tool_choice.difference(values);
            }
            Self::SystemRole(role) => quirks.developer_role = role == SystemRole::Developer,
            Self::NoImageUrls => quirks.image_urls = false,
            Self::NoFiles => quirks.files = false,
            Self::Schema(rules) => quirks.schema = quirks.schema.union(rules),
            Self::Window(_)
            | Self::MaxOutput(_)
            | Self::Efforts(_)
            | Self::NoSampling
            | Self::NoImages
            | Self::MaxTokensField(_)
            | Self::RequireReasoning(_)
            | Self::RequireSignatures
            | Self::NoSignatures
            | Self::NoThinkingSwitch
            | Self::MaxTemperature(_)
            | Self::ResponseFormat(_)
            | Self::SystemFirst
            | Self::AnswerAfterTool
            | Self::MergeUser
            | Self::ImageNeedsText
            | Self::CallContent(_)
            | Self::CallIds(_)
            | Self::ToolNames
            | Self::NoCallStreaming => {}
        }
    }

    fn apply_to_chat(self, quirks: &mut ChatQuirks) {
        match self {
            Self::Window(_)
            | Self::MaxOutput(_)
            | Self::Efforts(_)
            | Self::NoSampling
            | Self::NoImages => {}
            Self::MaxTokensField(field) => quirks.max_tokens_field = field,
            Self::RequireReasoning(required) => {
                quirks.reasoning_required = required;
                quirks.reasoning_replay = ReasoningReplay::ReasoningContent;
            }
            Self::NoReasoning => {
                quirks.reasoning_required = ReasoningRequired::Never;
                quirks.reasoning_replay = ReasoningReplay::None;
            }
            Self::RequireSignatures => quirks.call_extra = ExtraContentReplay::Required,
            Self::NoSignatures => quirks.call_extra = ExtraContentReplay::Placeholder,
            Self::NoEffort => {
                quirks.reasoning_control = without_effort_level(quirks.reasoning_control);
            }
            Self::NoThinkingSwitch => {
                quirks.reasoning_control = without_thinking_switch(quirks.reasoning_control);
            }
            Self::MaxTemperature(hundredths) => {
                quirks.max_temperature = Some(f64::from(hundredths) / 100.0);
            }
            Self::OmitParameter(parameter) => *quirk_flag(parameter, quirks) = false,
            Self::WithoutToolChoice(values) => {
                quirks.tool_choice = quirks.tool_choice.difference(values);
            }
            Self::ResponseFormat(format) => quirks.response_format = format,
            Self::SystemRole(role) => quirks.system_role = role,
            Self::SystemFirst => quirks.system_place = SystemPlace::First,
            Self::AnswerAfterTool => quirks.answer_after_tool = true,
            Self::MergeUser => quirks.merge_user = true,
            Self::NoImageUrls => quirks.image_urls = false,
            Self::ImageNeedsText => quirks.image_needs_text = true,
            Self::NoFiles => quirks.files = false,
            Self::CallContent(content) => quirks.call_content = content,
            Self::CallIds(form) => quirks.call_ids = form,
            Self::ToolNames => quirks.tool_names = true,
            Self::Schema(rules) => quirks.schema = quirks.schema.union(rules),
            Self::NoCallStreaming => quirks.stream_tools = false,
        }
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

fn quirk_flag(parameter: Parameter, quirks: &mut ChatQuirks) -> &mut bool {
    match parameter {
        Parameter::Penalties => &mut quirks.penalties,
        Parameter::Logprobs => &mut quirks.logprobs,
        Parameter::ParallelToolCalls => &mut quirks.parallel_tool_calls,
        Parameter::Strict => &mut quirks.strict_tools,
        Parameter::StreamOptions => &mut quirks.stream_usage,
        Parameter::PromptCacheKey => &mut quirks.prompt_cache_key,
        Parameter::CacheControl => &mut quirks.cache_control,
        Parameter::ServiceTier => &mut quirks.service_tier,
        Parameter::Verbosity => &mut quirks.verbosity,
    }
}

impl fmt::Display for QuirkPatch {
    /// The text of the note `healed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Window(tokens) => return write!(f, "the window has {tokens} tokens"),
            Self::MaxOutput(tokens) => return write!(f, "an answer has at most {tokens} tokens"),
            Self::Efforts(levels) => {
                let names: Vec<&str> = levels.names().collect();
                return write!(f, "the effort levels are {}", names.join(", "));
            }
            Self::MaxTemperature(hundredths) => {
                return write!(
                    f,
                    "temperature is at most {}",
                    f64::from(*hundredths) / 100.0
                );
            }
            Self::OmitParameter(parameter) => return write!(f, "{} is left out", parameter.name()),
            Self::MaxTokensField(MaxTokensField::MaxTokens) => "the output limit is max_tokens",
            Self::MaxTokensField(MaxTokensField::MaxCompletionTokens) => {
                "the output limit is max_completion_tokens"
            }
            Self::MaxTokensField(MaxTokensField::None) => "the output limit is left out",
            Self::RequireReasoning(_) => "earlier reasoning goes back",
            Self::NoReasoning => "earlier reasoning stays here",
            Self::RequireSignatures => "calls carry their signature",
            Self::NoSignatures => "the signatures of calls stay here",
            Self::NoEffort => "the effort level is left out",
            Self::NoThinkingSwitch => "thinking is not switched",
            Self::NoSampling => "temperature and top_p are left out",
            Self::WithoutToolChoice(_) => "tool_choice is weaker",
            Self::ResponseFormat(ResponseFormat::JsonSchema) => "response_format is json_schema",
            Self::ResponseFormat(ResponseFormat::JsonObject) => {
                "response_format is json_object at most"
            }
            Self::ResponseFormat(ResponseFormat::None) => "response_format is left out",
            Self::SystemRole(SystemRole::System) => "instructions have the role system",
            Self::SystemRole(SystemRole::Developer) => "instructions have the role developer",
            Self::SystemRole(SystemRole::User) => "instructions have the role user",
            Self::SystemFirst => "the system message stands first",
            Self::AnswerAfterTool => "an assistant message follows tool results",
            Self::MergeUser => "neighbouring user messages become one",
            Self::NoImages => "the model takes no images",
            Self::NoImageUrls => "images are not given by URL",
            Self::ImageNeedsText => "text stands beside images",
            Self::NoFiles => "files are not sent",
            Self::CallContent(_) => "a message with calls alone has another content",
            Self::CallIds(_) => "call ids have another form",
            Self::ToolNames => "tool messages name their tool",
            Self::Schema(_) => "the schemas of tools are rewritten",
            Self::NoCallStreaming => "calls are not streamed",
        };
        f.write_str(text)
    }
}

impl Parameter {
    /// The name of the JSON field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Penalties => "presence_penalty and frequency_penalty",
            Self::Logprobs => "logprobs",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::Strict => "strict",
            Self::StreamOptions => "stream_options",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::CacheControl => "cache_control",
            Self::ServiceTier => "service_tier",
            Self::Verbosity => "verbosity",
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// The fields of the two structs that a patch changes.
    fn changed(patch: QuirkPatch, quirks: WireQuirks, model: &Model) -> Vec<String> {
        let (mut new_quirks, mut new_model) = (quirks, model.clone());
        patch.apply(&mut new_quirks, &mut new_model);
        let lines = |quirks: &WireQuirks, model: &Model| -> Vec<String> {
            format!("{quirks:#?}\n{model:#?}")
                .lines()
                .map(str::to_owned)
                .collect()
        };
        let new = lines(&new_quirks, &new_model);
        let old = lines(&quirks, model);
        new.into_iter()
            .filter(|line| !old.contains(line))
            .map(|line| line.trim().trim_end_matches(',').to_owned())
            .collect()
    }

    #[test]
    fn a_patch_changes_one_thing() {
        let quirks = ChatQuirks {
            strict_tools: true,
            prompt_cache_key: true,
            cache_control: true,
            service_tier: true,
            verbosity: true,
            files: true,
            system_place: SystemPlace::Anywhere,
            reasoning_control: ReasoningControl::ThinkingAndEffort,
            ..ChatQuirks::default()
        };
        let quirks = WireQuirks::from(quirks);
        let model = Model::unlisted("m");
        let none = |values: &[ToolChoiceMode]| {
            let set = values.iter().fold(EnumSet::empty(), |set, v| set.with(*v));
            QuirkPatch::WithoutToolChoice(set)
        };
        for (patch, change) in [
            (
                QuirkPatch::MaxTokensField(MaxTokensField::None),
                "max_tokens_field: None",
            ),
            (QuirkPatch::RequireSignatures, "call_extra: Required"),
            (QuirkPatch::NoSignatures, "call_extra: Placeholder"),
            (QuirkPatch::NoEffort, "reasoning_control: Thinking"),
            (QuirkPatch::NoThinkingSwitch, "reasoning_control: Effort"),
            (QuirkPatch::NoSampling, "sampling: false"),
            (
                QuirkPatch::OmitParameter(Parameter::Penalties),
                "penalties: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::Logprobs),
                "logprobs: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::ParallelToolCalls),
                "parallel_tool_calls: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::Strict),
                "strict_tools: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::StreamOptions),
                "stream_usage: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::PromptCacheKey),
                "prompt_cache_key: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::CacheControl),
                "cache_control: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::ServiceTier),
                "service_tier: false",
            ),
            (
                QuirkPatch::OmitParameter(Parameter::Verbosity),
                "verbosity: false",
            ),
            (
                none(&[ToolChoiceMode::None]),
                &format!(
                    "tool_choice: {:?}",
                    EnumSet::all().without(ToolChoiceMode::None)
                ),
            ),
            (
                QuirkPatch::ResponseFormat(ResponseFormat::JsonObject),
                "response_format: JsonObject",
            ),
            (
                QuirkPatch::SystemRole(SystemRole::User),
                "system_role: User",
            ),
            (QuirkPatch::SystemFirst, "system_place: First"),
            (QuirkPatch::AnswerAfterTool, "answer_after_tool: true"),
            (QuirkPatch::MergeUser, "merge_user: true"),
            (QuirkPatch::NoImages, "images: false"),
            (QuirkPatch::NoImageUrls, "image_urls: false"),
            (QuirkPatch::ImageNeedsText, "image_needs_text: true"),
            (QuirkPatch::NoFiles, "files: false"),
            (
                QuirkPatch::CallContent(CallContent::Empty),
                "call_content: Empty",
            ),
            (QuirkPatch::CallIds(CallIds::Word), "call_ids: Word"),
            (QuirkPatch::ToolNames, "tool_names: true"),
            (
                QuirkPatch::Schema(EnumSet::empty().with(SchemaRule::LoneRefs)),
                "schema: Set(10)",
            ),
            (QuirkPatch::NoCallStreaming, "stream_tools: false"),
        ] {
            assert_eq!(changed(patch, quirks, &model), [change], "{patch}");
        }
        for (patch, number) in [
            (QuirkPatch::Window(8_192), "8192"),
            (QuirkPatch::MaxOutput(4_096), "4096"),
            (QuirkPatch::MaxTemperature(150), "1.5"),
        ] {
            let change = changed(patch, quirks, &model);
            assert!(change.contains(&number.to_owned()), "{change:?}");
            assert!(patch.to_string().contains(number), "{patch}");
        }
    }

    #[test]
    fn required_reasoning_is_sent_and_refused_reasoning_is_not() {
        let mut model = Model::unlisted("m");
        let mut after = |patch: QuirkPatch, quirks: ChatQuirks| {
            let mut quirks = WireQuirks::from(quirks);
            patch.apply(&mut quirks, &mut model);
            *quirks.as_chat().unwrap()
        };
        let calls = QuirkPatch::RequireReasoning(ReasoningRequired::Calls);
        let quirks = after(calls, ChatQuirks::default());
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
        assert_eq!(quirks.reasoning_required, ReasoningRequired::Calls);
        let mut quirks = after(QuirkPatch::NoReasoning, quirks);
        assert_eq!(quirks, ChatQuirks::default());
        quirks.reasoning_replay = ReasoningReplay::ThinkTags;
        // The field that the refusal names is required, whichever was sent before.
        let always = QuirkPatch::RequireReasoning(ReasoningRequired::Always);
        let quirks = after(always, quirks);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
    }

    #[test]
    fn a_patch_of_another_wire_fits_nothing_and_changes_nothing() {
        let mut model = Model::unlisted("m");
        let relay = WireQuirks::from(RelayQuirks::default());
        let mut quirks = relay;
        QuirkPatch::MergeUser.apply(&mut quirks, &mut model);
        assert_eq!(quirks, relay);
        assert!(!QuirkPatch::MergeUser.fits(&relay));
        assert!(QuirkPatch::NoImages.fits(&relay));
    }

    #[test]
    fn a_default_effort_that_the_model_lacks_is_dropped() {
        let mut model = Model {
            default_reasoning: Some("xhigh".to_owned()),
            ..Model::unlisted("m")
        };
        let levels = EffortLevels::from_names(&["max", "low", "or", "high"]).unwrap();
        let patch = QuirkPatch::Efforts(levels);
        patch.apply(&mut WireQuirks::default(), &mut model);
        assert_eq!(model.reasoning, ["low", "high", "max"]);
        assert_eq!(model.default_reasoning, None);
        assert_eq!(patch.to_string(), "the effort levels are low, high, max");
        assert_eq!(EffortLevels::from_names(&["or"]), None);
    }
}
