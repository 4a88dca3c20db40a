//! What a known refusal teaches: how the model wants to be spoken to.
//!
//! A mend changes what is known of the model, the request is encoded again from
//! the same turn, and is sent again if it came out different.

use std::fmt;

use registry::{
    CallContent, CallIds, EnumSet, ExtraContentReplay, MaxTokensField, Model, Quirks,
    ReasoningControl, ReasoningReplay, ReasoningRequired, ResponseFormat, SchemaRule, SystemPlace,
    SystemRole, ToolChoiceMode,
};
use serde::{Deserialize, Serialize};

/// One lesson. Small and free of the heap: every fault has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mend {
    /// Input and output share this many tokens.
    Window(u32),
    /// The output limit is at most this.
    MaxOutput(u32),
    /// The output limit has this name.
    MaxTokensField(MaxTokensField),
    /// These assistant messages must carry their `reasoning_content`.
    Reasoning(ReasoningRequired),
    /// Earlier reasoning is refused.
    NoReasoning,
    /// Calls must carry the signature that came with them.
    Signatures,
    /// The signatures that came with calls are refused: those of another key, or
    /// damaged ones.
    NoSignatures,
    /// The only effort levels.
    Efforts(Levels),
    /// The effort level is refused.
    NoEffort,
    /// Thinking cannot be switched.
    NoThinkingSwitch,
    /// `temperature` and `top_p` are fixed.
    NoSampling,
    /// The highest `temperature`, in hundredths.
    MaxTemperature(u16),
    /// An optional parameter is refused.
    Without(Parameter),
    /// These values of `tool_choice` are refused.
    WithoutToolChoice(EnumSet<ToolChoiceMode>),
    /// The strongest `response_format`.
    ResponseFormat(ResponseFormat),
    /// The role of system messages.
    SystemRole(SystemRole),
    /// A system message stands first.
    SystemFirst,
    /// An assistant message stands between a tool result and a user message.
    AnswerAfterTool,
    /// User messages do not follow one another.
    MergeUser,
    /// The model does not see.
    NoImages,
    /// Images come inside the request alone.
    NoImageUrls,
    /// A message with an image holds text as well.
    ImageNeedsText,
    /// Files are refused.
    NoFiles,
    /// What `content` is beside calls.
    CallContent(CallContent),
    /// The form of call ids.
    CallIds(CallIds),
    /// Tool messages name their tool.
    ToolNames,
    /// What the schemas of tools keep to, besides what they did.
    Schema(EnumSet<SchemaRule>),
    /// Calls are not streamed.
    WholeCalls,
}

/// A parameter that can be left out.
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

/// Effort levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Levels(u8);

/// From the weakest.
const LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

impl Levels {
    /// The levels among these words; `None` when there is none.
    pub fn among(words: &[&str]) -> Option<Self> {
        let bits = LEVELS
            .iter()
            .enumerate()
            .filter(|(_, level)| words.contains(level))
            .fold(0, |bits, (place, _)| bits | 1 << place);
        (bits != 0).then_some(Self(bits))
    }

    /// Their names, from the weakest.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        LEVELS
            .into_iter()
            .enumerate()
            .filter(move |(place, _)| self.0 & 1 << place != 0)
            .map(|(_, level)| level)
    }
}

impl Mend {
    /// Changes what is known of the model.
    pub fn apply(&self, quirks: &mut Quirks, model: &mut Model) {
        match self {
            Self::Window(tokens) => model.window = Some(u64::from(*tokens)),
            Self::MaxOutput(tokens) => model.max_output = Some(u64::from(*tokens)),
            Self::MaxTokensField(field) => quirks.max_tokens_field = *field,
            Self::Reasoning(required) => {
                quirks.reasoning_required = *required;
                quirks.reasoning_replay = ReasoningReplay::ReasoningContent;
            }
            Self::NoReasoning => {
                quirks.reasoning_required = ReasoningRequired::Never;
                quirks.reasoning_replay = ReasoningReplay::None;
            }
            Self::Signatures => quirks.call_extra = ExtraContentReplay::Required,
            Self::NoSignatures => quirks.call_extra = ExtraContentReplay::Placeholder,
            Self::Efforts(levels) => {
                model.reasoning = levels.names().map(str::to_owned).collect();
                if let Some(first) = &model.default_reasoning
                    && !model.reasoning.contains(first)
                {
                    model.default_reasoning = None;
                }
            }
            Self::NoEffort => quirks.reasoning_control = without_effort(quirks.reasoning_control),
            Self::NoThinkingSwitch => {
                quirks.reasoning_control = without_switch(quirks.reasoning_control);
            }
            Self::NoSampling => model.sampling = false,
            Self::MaxTemperature(hundredths) => {
                quirks.max_temperature = Some(f64::from(*hundredths) / 100.0);
            }
            Self::Without(parameter) => *switch(*parameter, quirks) = false,
            Self::WithoutToolChoice(values) => {
                for value in [
                    ToolChoiceMode::None,
                    ToolChoiceMode::Required,
                    ToolChoiceMode::Named,
                ] {
                    if values.contains(value) {
                        quirks.tool_choice = quirks.tool_choice.without(value);
                    }
                }
            }
            Self::ResponseFormat(format) => quirks.response_format = *format,
            Self::SystemRole(role) => quirks.system_role = *role,
            Self::SystemFirst => quirks.system_place = SystemPlace::First,
            Self::AnswerAfterTool => quirks.answer_after_tool = true,
            Self::MergeUser => quirks.merge_user = true,
            Self::NoImages => model.images = false,
            Self::NoImageUrls => quirks.image_urls = false,
            Self::ImageNeedsText => quirks.image_needs_text = true,
            Self::NoFiles => quirks.files = false,
            Self::CallContent(content) => quirks.call_content = *content,
            Self::CallIds(form) => quirks.call_ids = *form,
            Self::ToolNames => quirks.tool_names = true,
            Self::Schema(rules) => quirks.schema = quirks.schema.union(*rules),
            Self::WholeCalls => quirks.stream_tools = false,
        }
    }
}

/// Depth of thinking without a level in words.
fn without_effort(control: ReasoningControl) -> ReasoningControl {
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

/// Depth of thinking without a switch.
fn without_switch(control: ReasoningControl) -> ReasoningControl {
    match control {
        ReasoningControl::ThinkingAndEffort => ReasoningControl::Effort,
        ReasoningControl::Thinking
        | ReasoningControl::EnableThinking
        | ReasoningControl::TemplateSwitch
        | ReasoningControl::None => ReasoningControl::None,
        level @ (ReasoningControl::Effort | ReasoningControl::Reasoning) => level,
    }
}

fn switch(parameter: Parameter, quirks: &mut Quirks) -> &mut bool {
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

impl fmt::Display for Mend {
    /// The lesson in words, for the note `healed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
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
            Self::Without(parameter) => return write!(f, "{} is left out", parameter.name()),
            Self::MaxTokensField(MaxTokensField::MaxTokens) => "the output limit is max_tokens",
            Self::MaxTokensField(MaxTokensField::MaxCompletionTokens) => {
                "the output limit is max_completion_tokens"
            }
            Self::MaxTokensField(MaxTokensField::None) => "the output limit is left out",
            Self::Reasoning(_) => "earlier reasoning goes back",
            Self::NoReasoning => "earlier reasoning stays here",
            Self::Signatures => "calls carry their signature",
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
            Self::WholeCalls => "calls are not streamed",
        };
        f.write_str(words)
    }
}

impl Parameter {
    /// The name on the wire.
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

    /// What a lesson changes, as the fields of the two structs that differ.
    fn changed(mend: Mend, quirks: Quirks, model: &Model) -> Vec<String> {
        let (mut new_quirks, mut new_model) = (quirks, model.clone());
        mend.apply(&mut new_quirks, &mut new_model);
        let lines = |quirks: &Quirks, model: &Model| -> Vec<String> {
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
    fn a_lesson_changes_one_thing() {
        let quirks = Quirks {
            strict_tools: true,
            prompt_cache_key: true,
            cache_control: true,
            service_tier: true,
            verbosity: true,
            files: true,
            system_place: SystemPlace::Anywhere,
            reasoning_control: ReasoningControl::ThinkingAndEffort,
            ..Quirks::default()
        };
        let model = Model::unlisted("m");
        let none = |values: &[ToolChoiceMode]| {
            let set = values.iter().fold(EnumSet::empty(), |set, v| set.with(*v));
            Mend::WithoutToolChoice(set)
        };
        for (mend, change) in [
            (
                Mend::MaxTokensField(MaxTokensField::None),
                "max_tokens_field: None",
            ),
            (Mend::Signatures, "call_extra: Required"),
            (Mend::NoSignatures, "call_extra: Placeholder"),
            (Mend::NoEffort, "reasoning_control: Thinking"),
            (Mend::NoThinkingSwitch, "reasoning_control: Effort"),
            (Mend::NoSampling, "sampling: false"),
            (Mend::Without(Parameter::Penalties), "penalties: false"),
            (Mend::Without(Parameter::Logprobs), "logprobs: false"),
            (
                Mend::Without(Parameter::ParallelToolCalls),
                "parallel_tool_calls: false",
            ),
            (Mend::Without(Parameter::Strict), "strict_tools: false"),
            (
                Mend::Without(Parameter::StreamOptions),
                "stream_usage: false",
            ),
            (
                Mend::Without(Parameter::PromptCacheKey),
                "prompt_cache_key: false",
            ),
            (
                Mend::Without(Parameter::CacheControl),
                "cache_control: false",
            ),
            (Mend::Without(Parameter::ServiceTier), "service_tier: false"),
            (Mend::Without(Parameter::Verbosity), "verbosity: false"),
            (
                none(&[ToolChoiceMode::None]),
                &format!(
                    "tool_choice: {:?}",
                    EnumSet::all().without(ToolChoiceMode::None)
                ),
            ),
            (
                Mend::ResponseFormat(ResponseFormat::JsonObject),
                "response_format: JsonObject",
            ),
            (Mend::SystemRole(SystemRole::User), "system_role: User"),
            (Mend::SystemFirst, "system_place: First"),
            (Mend::AnswerAfterTool, "answer_after_tool: true"),
            (Mend::MergeUser, "merge_user: true"),
            (Mend::NoImages, "images: false"),
            (Mend::NoImageUrls, "image_urls: false"),
            (Mend::ImageNeedsText, "image_needs_text: true"),
            (Mend::NoFiles, "files: false"),
            (Mend::CallContent(CallContent::Empty), "call_content: Empty"),
            (Mend::CallIds(CallIds::Word), "call_ids: Word"),
            (Mend::ToolNames, "tool_names: true"),
            (
                Mend::Schema(EnumSet::empty().with(SchemaRule::LoneRefs)),
                "schema: Set(10)",
            ),
            (Mend::WholeCalls, "stream_tools: false"),
        ] {
            assert_eq!(changed(mend, quirks, &model), [change], "{mend}");
        }
        for (mend, number) in [
            (Mend::Window(8_192), "8192"),
            (Mend::MaxOutput(4_096), "4096"),
            (Mend::MaxTemperature(150), "1.5"),
        ] {
            let change = changed(mend, quirks, &model);
            assert!(change.contains(&number.to_owned()), "{change:?}");
            assert!(mend.to_string().contains(number), "{mend}");
        }
    }

    #[test]
    fn reasoning_that_is_required_is_sent_and_refused_is_not() {
        let mut model = Model::unlisted("m");
        let mut quirks = Quirks::default();
        Mend::Reasoning(ReasoningRequired::Calls).apply(&mut quirks, &mut model);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
        assert_eq!(quirks.reasoning_required, ReasoningRequired::Calls);
        Mend::NoReasoning.apply(&mut quirks, &mut model);
        assert_eq!(quirks, Quirks::default());
        quirks.reasoning_replay = ReasoningReplay::ThinkTags;
        // The field that the refusal names is wanted, whatever went back before.
        Mend::Reasoning(ReasoningRequired::Always).apply(&mut quirks, &mut model);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ReasoningContent);
    }

    #[test]
    fn the_first_level_is_one_of_the_levels() {
        let mut model = Model {
            default_reasoning: Some("xhigh".to_owned()),
            ..Model::unlisted("m")
        };
        let levels = Levels::among(&["max", "low", "or", "high"]).unwrap();
        let mend = Mend::Efforts(levels);
        mend.apply(&mut Quirks::default(), &mut model);
        assert_eq!(model.reasoning, ["low", "high", "max"]);
        assert_eq!(model.default_reasoning, None);
        assert_eq!(mend.to_string(), "the effort levels are low, high, max");
        assert_eq!(Levels::among(&["or"]), None);
    }
}
