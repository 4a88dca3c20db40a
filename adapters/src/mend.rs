//! What a known refusal teaches: how the model wants to be spoken to.
//!
//! A mend changes what is known of the model, the request is encoded again from
//! the same turn, and is sent again if it came out different.

use std::fmt;

use registry::{
    CallContent, CallExtra, CallIds, MaxTokensField, Model, Quirks, ReasoningControl,
    ReasoningReplay, ReasoningRequired, ResponseFormat, SchemaRule, SystemPlace, SystemRole,
    ToolChoice,
};

/// One lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Input and output share this many tokens.
    Window(u64),
    /// The output limit is at most this.
    MaxOutput(u64),
    /// The output limit has this name.
    MaxTokensField(MaxTokensField),
    /// These assistant messages must carry their reasoning.
    Reasoning(ReasoningRequired),
    /// Earlier reasoning is refused.
    NoReasoning,
    /// Calls must carry the signature that came with them.
    Signatures,
    /// The only effort levels, from the weakest.
    Efforts(Vec<String>),
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
    WithoutToolChoice(&'static [ToolChoice]),
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
    Schema(&'static [SchemaRule]),
    /// Calls are not streamed.
    WholeCalls,
}

/// A parameter that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Mend {
    /// Changes what is known of the model.
    pub fn apply(&self, quirks: &mut Quirks, model: &mut Model) {
        match self {
            Self::Window(tokens) => model.window = Some(*tokens),
            Self::MaxOutput(tokens) => model.max_output = Some(*tokens),
            Self::MaxTokensField(field) => quirks.max_tokens_field = *field,
            Self::Reasoning(required) => {
                quirks.reasoning_required = *required;
                if quirks.reasoning_replay == ReasoningReplay::None {
                    quirks.reasoning_replay = ReasoningReplay::ReasoningContent;
                }
            }
            Self::NoReasoning => {
                quirks.reasoning_required = ReasoningRequired::Never;
                quirks.reasoning_replay = ReasoningReplay::None;
            }
            Self::Signatures => quirks.call_extra = CallExtra::Required,
            Self::Efforts(levels) => {
                if let Some(first) = &model.default_reasoning
                    && !levels.contains(first)
                {
                    model.default_reasoning = None;
                }
                model.reasoning.clone_from(levels);
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
                for value in *values {
                    quirks.tool_choice = quirks.tool_choice.without(*value);
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
            Self::Schema(rules) => {
                for rule in *rules {
                    quirks.schema = quirks.schema.with(*rule);
                }
            }
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
                return write!(f, "the effort levels are {}", levels.join(", "));
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
