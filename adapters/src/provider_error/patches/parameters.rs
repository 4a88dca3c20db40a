//! Parameters that are refused by name, and refused values.

use registry::{EnumSet, ToolChoiceMode};

use super::super::error::ProviderError;
use super::super::find::{contains_any, find_quoted, find_word};
use crate::effort::EffortLevels;
use crate::quirk_patch::{ModelPatch, Parameter, QuirkPatch, SharedPatch};

/// Phrases that refuse a parameter itself. Groq: `property 'x' is unsupported`;
/// pydantic (Mistral, Cerebras, Anthropic): `Extra inputs are not permitted`;
/// OpenAI: `Unrecognized request argument supplied: x`, `Unknown parameter: 'x'.`,
/// `Unsupported parameter: 'x' is not supported with this model.`; Google:
/// `Unknown name "x": Cannot find field.`; xAI: `Model grok-4 does not support
/// parameter presencePenalty.`; serde servers: ``unknown field `x` ``.
pub(crate) const UNKNOWN: &[&str] = &[
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

/// The name of a parameter, and the patch for when it is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParameterName {
    name: &'static str,
    /// The name is an ordinary word too: it counts only in quotes or as the error's `param`.
    is_word: bool,
    patch: QuirkPatch,
}

impl ParameterName {
    pub(crate) const fn new(name: &'static str, patch: QuirkPatch) -> Self {
        let is_word = false;
        Self {
            name,
            is_word,
            patch,
        }
    }

    /// A name that is an ordinary word too.
    pub(crate) const fn word(name: &'static str, patch: QuirkPatch) -> Self {
        let is_word = true;
        Self {
            name,
            is_word,
            patch,
        }
    }

    /// A parameter that is left out.
    pub(crate) const fn optional(name: &'static str, parameter: Parameter) -> Self {
        Self::new(name, omit(parameter))
    }
}

const fn omit(parameter: Parameter) -> QuirkPatch {
    QuirkPatch::Shared(SharedPatch::OmitParameter(parameter))
}

const NO_REASONING: QuirkPatch = QuirkPatch::Shared(SharedPatch::NoReasoning);
const NO_EFFORT: QuirkPatch = QuirkPatch::Shared(SharedPatch::NoEffort);

/// The names that mean the same on every wire.
const NAMES: &[ParameterName] = &[
    ParameterName::new("reasoning_content", NO_REASONING),
    ParameterName::new("reasoning_details", NO_REASONING),
    ParameterName::word("temperature", omit(Parameter::Temperature)),
    ParameterName::optional("top_p", Parameter::TopP),
    ParameterName::optional("presence_penalty", Parameter::Penalties),
    ParameterName::optional("presencepenalty", Parameter::Penalties),
    ParameterName::optional("frequency_penalty", Parameter::Penalties),
    ParameterName::optional("frequencypenalty", Parameter::Penalties),
    ParameterName::optional("logprobs", Parameter::Logprobs),
    ParameterName::optional("top_logprobs", Parameter::Logprobs),
    ParameterName::optional("parallel_tool_calls", Parameter::ParallelToolCalls),
    ParameterName::word("strict", omit(Parameter::Strict)),
    ParameterName::optional("prompt_cache_key", Parameter::PromptCacheKey),
    ParameterName::optional("service_tier", Parameter::ServiceTier),
    ParameterName::word("verbosity", omit(Parameter::Verbosity)),
    ParameterName::new("reasoning_effort", NO_EFFORT),
    ParameterName::new("reasoningeffort", NO_EFFORT),
];

/// A parameter that the provider does not know, by these names or those of the wire.
pub(crate) fn unknown_parameter(
    error: &ProviderError,
    lower: &str,
    of_wire: &[ParameterName],
) -> Option<QuirkPatch> {
    if !contains_any(lower, UNKNOWN)
        && error.code != "unsupported_parameter"
        && error.code != "unknown_parameter"
    {
        return None;
    }
    let names = || NAMES.iter().chain(of_wire);
    let param = last_param_segment(error);
    if let Some(by_param) = names().find(|known| known.name == param) {
        return Some(by_param.patch);
    }
    // Without a `param` the text must name exactly one thing.
    let mut named = names().filter(|known| {
        if known.is_word {
            find_quoted(lower, known.name).is_some()
        } else {
            find_word(lower, known.name).is_some()
        }
    });
    let first = named.next()?.patch;
    named.all(|known| known.patch == first).then_some(first)
}

/// MiniMax M2 accepts a fixed list of fields and refuses any other with `invalid
/// params, invalid chat setting (2013)`. Of the fields that every server gets, the
/// list lacks only `parallel_tool_calls` (codex-app-transfer, `minimax` request).
pub(crate) fn unknown_setting(lower: &str) -> Option<SharedPatch> {
    lower
        .contains("invalid chat setting")
        .then_some(SharedPatch::OmitParameter(Parameter::ParallelToolCalls))
}

/// Effort levels.
///
/// - Anthropic, recorded: `This model does not support effort level 'xhigh'.
///   Supported levels: high, low, max, medium.`
/// - OpenAI: `Unsupported value: 'reasoning_effort' does not support 'minimal' with
///   this model. Supported values are: 'low', 'medium', and 'high'.`
/// - Groq: ``reasoning_effort must be one of `low`, `medium`, or `high` ``
/// - pydantic: `Input should be 'low', 'medium' or 'high'` at `reasoning_effort`
pub(crate) fn efforts(error: &ProviderError, lower: &str) -> Option<ModelPatch> {
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
    EffortLevels::from_names(&words).map(ModelPatch::Efforts)
}

/// Values of `tool_choice`.
///
/// - Qwen: `The tool_choice parameter does not support being set to required or
///   object in thinking mode`
/// - Kimi: `tool_choice 'required' is incompatible with thinking enabled`; `tool_choice
///   'specified' is incompatible with thinking enabled`
/// - DeepSeek V4: `Thinking mode does not support this tool_choice`; Anthropic behind
///   a gateway: `Thinking may not be enabled when tool_choice forces tool use.`
/// - serde servers: ``tool_choice: unknown variant `required` ``; pydantic: `Input
///   should be 'none' or 'auto'` at `tool_choice`; llama.cpp and others: `Only 'auto'
///   is supported for tool_choice`; DeepSeek V4 behind a gateway: `Only a tool_choice of 'auto'
///   is supported for this model.` (oh-my-pi#4715)
pub(crate) fn tool_choice(error: &ProviderError, lower: &str) -> Option<SharedPatch> {
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
            "only a tool_choice of 'auto' is supported",
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

fn without(values: &[ToolChoiceMode]) -> SharedPatch {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    SharedPatch::WithoutToolChoice(set)
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
