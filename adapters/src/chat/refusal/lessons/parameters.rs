//! Parameters that are refused by name, and values that are.

use registry::{EnumSet, MaxTokensField, ResponseFormat, ToolChoiceMode};

use super::super::find::{any, quoted, word};
use super::super::said::Said;
use crate::mend::{Levels, Mend, Parameter};

/// Words that refuse a parameter as such. Groq: `property 'x' is unsupported`;
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

/// The parameter and the lesson when it is unknown; `true` where the name is a
/// plain word too, so that only quotes or the error's `param` make it a name.
const NAMES: &[(&str, bool, Mend)] = &[
    ("reasoning_content", false, Mend::NoReasoning),
    ("reasoning_details", false, Mend::NoReasoning),
    (
        "max_completion_tokens",
        false,
        Mend::MaxTokensField(MaxTokensField::MaxTokens),
    ),
    (
        "max_tokens",
        false,
        Mend::MaxTokensField(MaxTokensField::MaxCompletionTokens),
    ),
    ("temperature", true, Mend::NoSampling),
    ("top_p", false, Mend::NoSampling),
    (
        "presence_penalty",
        false,
        Mend::Without(Parameter::Penalties),
    ),
    (
        "presencepenalty",
        false,
        Mend::Without(Parameter::Penalties),
    ),
    (
        "frequency_penalty",
        false,
        Mend::Without(Parameter::Penalties),
    ),
    (
        "frequencypenalty",
        false,
        Mend::Without(Parameter::Penalties),
    ),
    ("logprobs", false, Mend::Without(Parameter::Logprobs)),
    ("top_logprobs", false, Mend::Without(Parameter::Logprobs)),
    (
        "parallel_tool_calls",
        false,
        Mend::Without(Parameter::ParallelToolCalls),
    ),
    ("strict", true, Mend::Without(Parameter::Strict)),
    (
        "stream_options",
        false,
        Mend::Without(Parameter::StreamOptions),
    ),
    (
        "prompt_cache_key",
        false,
        Mend::Without(Parameter::PromptCacheKey),
    ),
    (
        "cache_control",
        false,
        Mend::Without(Parameter::CacheControl),
    ),
    ("service_tier", false, Mend::Without(Parameter::ServiceTier)),
    ("verbosity", true, Mend::Without(Parameter::Verbosity)),
    ("reasoning_effort", false, Mend::NoEffort),
    ("reasoningeffort", false, Mend::NoEffort),
    ("thinking", true, Mend::NoThinkingSwitch),
    ("enable_thinking", false, Mend::NoThinkingSwitch),
    ("chat_template_kwargs", false, Mend::NoThinkingSwitch),
];

/// The lesson of a parameter or a value that is refused. MiniMax M2 takes a fixed
/// list of fields and says of any other `invalid params, invalid chat setting
/// (2013)`; of the fields that every server gets, the list lacks
/// `parallel_tool_calls` alone (codex-app-transfer, `minimax` request).
pub(super) fn lesson(said: &Said, lower: &str) -> Option<Mend> {
    efforts(said, lower)
        .or_else(|| thinking(lower))
        .or_else(|| tool_choice(said, lower))
        .or_else(|| response_format(said, lower))
        .or_else(|| unknown(said, lower))
        .or_else(|| {
            let settings = lower.contains("invalid chat setting");
            settings.then_some(Mend::Without(Parameter::ParallelToolCalls))
        })
}

fn unknown(said: &Said, lower: &str) -> Option<Mend> {
    if !any(lower, UNKNOWN)
        && said.code != "unsupported_parameter"
        && said.code != "unknown_parameter"
    {
        return None;
    }
    let param = last_step(said);
    let by_param = NAMES.iter().find(|(name, ..)| *name == param);
    if let Some((.., mend)) = by_param {
        return Some(*mend);
    }
    // Without a `param` the text must name one thing.
    let mut named = NAMES
        .iter()
        .filter(|(name, plain, _)| {
            if *plain {
                quoted(lower, name).is_some()
            } else {
                word(lower, name).is_some()
            }
        })
        .map(|(.., mend)| mend);
    let first = named.next()?;
    named.all(|mend| mend == first).then_some(*first)
}

/// The last name of the place at fault: `reasoning_content` of
/// `messages.2.assistant.reasoning_content`.
fn last_step(said: &Said) -> String {
    let param = said.param.as_deref().unwrap_or_default().to_lowercase();
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
fn efforts(said: &Said, lower: &str) -> Option<Mend> {
    if !lower.contains("effort") && !last_step(said).contains("effort") {
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
    Levels::among(&words).map(Mend::Efforts)
}

/// - Qwen: `The value of the enable_thinking parameter is restricted to True.`
/// - Kimi K2.7: `invalid thinking: only type=enabled is allowed for this model`
/// - MiniMax M3.1 2013: `requires adaptive thinking`
fn thinking(lower: &str) -> Option<Mend> {
    let only = lower.contains("enable_thinking") && lower.contains("restricted to")
        || lower.contains("invalid thinking: only")
        || lower.contains("requires adaptive thinking");
    only.then_some(Mend::NoThinkingSwitch)
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
fn tool_choice(said: &Said, lower: &str) -> Option<Mend> {
    const FORCED: [ToolChoiceMode; 2] = [ToolChoiceMode::Required, ToolChoiceMode::Named];
    const ALL: [ToolChoiceMode; 3] = [
        ToolChoiceMode::None,
        ToolChoiceMode::Required,
        ToolChoiceMode::Named,
    ];
    if word(lower, "tool_choice").is_none() && last_step(said) != "tool_choice" {
        return None;
    }
    if any(lower, UNKNOWN)
        && !any(
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
    if any(
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
    if any(
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
            any(
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

fn without(values: &[ToolChoiceMode]) -> Mend {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    Mend::WithoutToolChoice(set)
}

/// - DeepSeek: `This response_format type is unavailable now`, which is what it
///   says of `json_schema`; it takes `json_object`
/// - OpenAI's older models: `Invalid parameter: 'response_format' of type
///   'json_schema' is not supported with this model.`
/// - Groq: ``This model does not support response format `json_schema`. ``
fn response_format(said: &Said, lower: &str) -> Option<Mend> {
    let about = any(lower, &["response_format", "response format"])
        || said
            .param
            .as_deref()
            .is_some_and(|param| param.starts_with("response_format"));
    if !about {
        return None;
    }
    let refuses = |value: &str| {
        lower.contains(value)
            && any(
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
    } else if refuses("json_object") || any(lower, UNKNOWN) {
        ResponseFormat::None
    } else {
        return None;
    };
    Some(Mend::ResponseFormat(format))
}
