//! Parameters that are refused by name, and refused values.

use registry::{EnumSet, MaxTokensField, ResponseFormat, ToolChoiceMode};

use super::super::error::ProviderError;
use super::super::find::{contains_any, find_quoted, find_word};
use crate::quirk_patch::{EffortLevels, Parameter, QuirkPatch};

/// Phrases that refuse a parameter itself. Groq: `property 'x' is unsupported`;
/// pydantic (Mistral, Cerebras, Anthropic): `Extra inputs are not permitted`;
/// OpenAI: `Unrecognized request argument supplied: x`, `Unknown parameter: 'x'.`,
/// `Unsupported parameter: 'x' is not supported with this model.`; Google:
/// `Unknown name "x": Cannot find field.`; xAI: `Model grok-4 does not support
/// parameter presencePenalty.`; serde servers: ``unknown field `x` ``.
const UNKNOWN: &[&str] = &[
    "extra inputs are not permitted",
    "extra fields not permitted",
    "extra_forbidden",
    "unsupported parameter",
    "unknown parameter",
    "unknown field",
    "unknown name",
    "unrecognized request argument",
    "unrecognized key",
    "unexpected keyword",
    "unexpected field",
    "additional properties are not allowed",
    "additional property",
    "not support parameter",
    "not supported parameter",
    "parameter is not supported",
    "' is unsupported",
    "` is unsupported",
    "' is not supported",
    "` is not supported",
    "\" is not supported",
    "not support the parameter",
    "argument not supported",
];

/// Parameters with the patch for when they are unknown. `true` marks names that are
/// ordinary words too; they count only in quotes or as the error's `param`.
const PATCHES_BY_NAME: &[(&str, bool, QuirkPatch)] = &[
    ("reasoning_content", false, QuirkPatch::NoReasoning),
    ("reasoning_details", false, QuirkPatch::NoReasoning),
    (
        "max_completion_tokens",
        false,
        QuirkPatch::MaxTokensField(MaxTokensField::MaxTokens),
    ),
    (
        "max_tokens",
        false,
        QuirkPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens),
    ),
    ("temperature", true, QuirkPatch::NoSampling),
    ("top_p", false, QuirkPatch::NoSampling),
    (
        "presence_penalty",
        false,
        QuirkPatch::OmitParameter(Parameter::Penalties),
    ),
    (
        "presencepenalty",
        false,
        QuirkPatch::OmitParameter(Parameter::Penalties),
    ),
    (
        "frequency_penalty",
        false,
        QuirkPatch::OmitParameter(Parameter::Penalties),
    ),
    (
        "frequencypenalty",
        false,
        QuirkPatch::OmitParameter(Parameter::Penalties),
    ),
    (
        "logprobs",
        false,
        QuirkPatch::OmitParameter(Parameter::Logprobs),
    ),
    (
        "top_logprobs",
        false,
        QuirkPatch::OmitParameter(Parameter::Logprobs),
    ),
    (
        "parallel_tool_calls",
        false,
        QuirkPatch::OmitParameter(Parameter::ParallelToolCalls),
    ),
    ("strict", true, QuirkPatch::OmitParameter(Parameter::Strict)),
    (
        "stream_options",
        false,
        QuirkPatch::OmitParameter(Parameter::StreamOptions),
    ),
    (
        "prompt_cache_key",
        false,
        QuirkPatch::OmitParameter(Parameter::PromptCacheKey),
    ),
    (
        "cache_control",
        false,
        QuirkPatch::OmitParameter(Parameter::CacheControl),
    ),
    (
        "service_tier",
        false,
        QuirkPatch::OmitParameter(Parameter::ServiceTier),
    ),
    (
        "verbosity",
        true,
        QuirkPatch::OmitParameter(Parameter::Verbosity),
    ),
    ("reasoning_effort", false, QuirkPatch::NoEffort),
    ("reasoningeffort", false, QuirkPatch::NoEffort),
    ("thinking", true, QuirkPatch::NoThinkingSwitch),
    ("enable_thinking", false, QuirkPatch::NoThinkingSwitch),
    ("chat_template_kwargs", false, QuirkPatch::NoThinkingSwitch),
];

/// The patch for a refused parameter or value.
///
/// MiniMax M2 accepts a fixed list of fields and refuses any other with `invalid
/// params, invalid chat setting (2013)`. Of the fields that every server gets, the
/// list lacks only `parallel_tool_calls` (codex-app-transfer, `minimax` request).
pub(super) fn find_patch(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    efforts(error, lower)
        .or_else(|| thinking(lower))
        .or_else(|| tool_choice(error, lower))
        .or_else(|| response_format(error, lower))
        .or_else(|| unknown_parameter(error, lower))
        .or_else(|| {
            let settings = lower.contains("invalid chat setting");
            settings.then_some(QuirkPatch::OmitParameter(Parameter::ParallelToolCalls))
        })
}

fn unknown_parameter(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    if !contains_any(lower, UNKNOWN)
        && error.code != "unsupported_parameter"
        && error.code != "unknown_parameter"
    {
        return None;
    }
    let param = last_param_segment(error);
    let by_param = PATCHES_BY_NAME.iter().find(|(name, ..)| *name == param);
    if let Some((.., patch)) = by_param {
        return Some(*patch);
    }
    // Without a `param` the text must name exactly one thing.
    let mut named = PATCHES_BY_NAME
        .iter()
        .filter(|(name, plain, _)| {
            if *plain {
                find_quoted(lower, name).is_some()
            } else {
                find_word(lower, name).is_some()
            }
        })
        .map(|(.., patch)| patch);
    let first = named.next()?;
    named.all(|patch| patch == first).then_some(*first)
}

/// The last name in the error's `param`: `reasoning_content` of
/// `messages.2.assistant.reasoning_content`.
fn last_param_segment(error: &ProviderError) -> String {
    let param = error.param.as_deref().unwrap_or_default().to_lowercase();
    param
        .rsplit(['.', '[', ']', '/'])
        .find(|step| !step.is_empty() && step.parse::<u32>().is_err())
        .unwrap_or_default()
        .to_owned()
}

/// - Anthropic, recorded: `This model does not support effort level 'xhigh'.
///   Supported levels: high, low, max, medium.`
/// - OpenAI: `Unsupported value: 'reasoning_effort' does not support 'minimal' with
///   this model. Supported values are: 'low', 'medium', and 'high'.`
/// - Groq: ``reasoning_effort must be one of `low`, `medium`, or `high` ``
/// - pydantic: `Input should be 'low', 'medium' or 'high'` at `reasoning_effort`
fn efforts(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    if !lower.contains("effort") && !last_param_segment(error).contains("effort") {
        return None;
    }
    let (_, list) = [
        "supported levels:",
        "supported values are:",
        "must be one of",
        "should be one of",
        "expected one of",
        "allowed values:",
        "valid values are",
        "input should be",
    ]
    .into_iter()
    .find_map(|phrase| lower.split_once(phrase))?;
    let list = list.split(['.', ';', '\n']).next().unwrap_or_default();
    let words: Vec<&str> = list.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    EffortLevels::from_names(&words).map(QuirkPatch::Efforts)
}

/// - Qwen: `The value of the enable_thinking parameter is restricted to True.`
/// - Kimi K2.7: `invalid thinking: only type=enabled is allowed for this model`
/// - MiniMax M3.1 2013: `requires adaptive thinking`
fn thinking(lower: &str) -> Option<QuirkPatch> {
    let only = lower.contains("enable_thinking") && lower.contains("restricted to")
        || lower.contains("invalid thinking: only")
        || lower.contains("requires adaptive thinking");
    only.then_some(QuirkPatch::NoThinkingSwitch)
}

/// - Qwen: `The tool_choice parameter does not support being set to required or
///   object in thinking mode`
/// - Kimi: `tool_choice 'required' is incompatible with thinking enabled`; `tool_choice
///   'specified' is incompatible with thinking enabled`
/// - DeepSeek V4: `Thinking mode does not support this tool_choice`; Anthropic behind
///   a gateway: `Thinking may not be enabled when tool_choice forces tool use.`
/// - serde servers: ``tool_choice: unknown variant `required` ``; pydantic: `Input
///   should be 'none' or 'auto'` at `tool_choice`; llama.cpp and others: `Only 'auto'
///   is supported for tool_choice`
fn tool_choice(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    const FORCED: [ToolChoiceMode; 2] = [ToolChoiceMode::Required, ToolChoiceMode::Named];
    const ALL: [ToolChoiceMode; 3] = [
        ToolChoiceMode::None,
        ToolChoiceMode::Required,
        ToolChoiceMode::Named,
    ];
    if find_word(lower, "tool_choice").is_none() && last_param_segment(error) != "tool_choice" {
        return None;
    }
    if contains_any(lower, UNKNOWN)
        && !contains_any(
            lower,
            &[
                "required",
                "object",
                "'none'",
                "specified",
                "unknown variant",
            ],
        )
    {
        return Some(without(&ALL));
    }
    if contains_any(
        lower,
        &[
            "required or object",
            "does not support this tool_choice",
            "tool_choice forces tool use",
            "should be 'none' or 'auto'",
            "should be 'auto' or 'none'",
        ],
    ) {
        return Some(without(&FORCED));
    }
    if contains_any(
        lower,
        &[
            "only 'auto' is supported",
            "only \"auto\" is supported",
            "only `auto` is supported",
            "only auto is supported",
        ],
    ) {
        return Some(without(&ALL));
    }
    let refused = |value: &str| {
        ['\'', '`', '"'].into_iter().any(|quote| {
            let value = format!("{quote}{value}{quote}");
            contains_any(
                lower,
                &[
                    &format!("unknown variant {value}"),
                    &format!("{value} is not supported"),
                    &format!("{value} is incompatible"),
                    &format!("does not support {value}"),
                    &format!("unsupported value: {value}"),
                ],
            )
        })
    };
    let value = if refused("required") {
        ToolChoiceMode::Required
    } else if refused("specified") || refused("function") {
        ToolChoiceMode::Named
    } else if refused("none") {
        ToolChoiceMode::None
    } else {
        return None;
    };
    Some(without(&[value]))
}

fn without(values: &[ToolChoiceMode]) -> QuirkPatch {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    QuirkPatch::WithoutToolChoice(set)
}

/// - DeepSeek: `This response_format type is unavailable now`, which is what it
///   says of `json_schema`; it takes `json_object`
/// - OpenAI's older models: `Invalid parameter: 'response_format' of type
///   'json_schema' is not supported with this model.`
/// - Groq: ``This model does not support response format `json_schema`. ``
fn response_format(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    let about = contains_any(lower, &["response_format", "response format"])
        || error
            .param
            .as_deref()
            .is_some_and(|param| param.starts_with("response_format"));
    if !about {
        return None;
    }
    let refuses = |value: &str| {
        lower.contains(value)
            && contains_any(
                lower,
                &[
                    "not supported",
                    "not support",
                    "unsupported",
                    "unknown variant",
                    "unavailable",
                ],
            )
    };
    let format = if lower.contains("response_format type is unavailable") || refuses("json_schema")
    {
        ResponseFormat::JsonObject
    } else if refuses("json_object") || contains_any(lower, UNKNOWN) {
        ResponseFormat::None
    } else {
        return None;
    };
    Some(QuirkPatch::ResponseFormat(format))
}
