//! Refusals of requests in Chat Completions, and the quirk patches that they lead to.

use registry::{CallContent, CallIds, MaxTokensField, ReasoningRequired, ResponseFormat};

use crate::provider_error::error::ProviderError;
use crate::provider_error::find::{contains_any, find_word};
use crate::provider_error::patches::parameters::{ParameterName, UNKNOWN};
use crate::provider_error::patches::{self, limits, parameters, schema};
use crate::quirk_patch::ChatPatch;
use crate::quirk_patch::{Parameter, QuirkPatch};

/// The patch for a refusal that is not a context overflow; `lower` is its text in lower case.
/// The first rule that matches counts.
pub(crate) fn find_patch(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    reasoning(lower)
        .map(QuirkPatch::from)
        .or_else(|| patches::reasoning(lower))
        .or_else(|| max_tokens_field(lower).map(Into::into))
        .or_else(|| limits::max_output(lower).map(Into::into))
        .or_else(|| limits::fixed_temperature(lower).map(Into::into))
        .or_else(|| max_temperature(lower).map(Into::into))
        .or_else(|| schema::refused_schema(error, lower).map(Into::into))
        .or_else(|| patches::images(lower))
        .or_else(|| patches::audio(lower))
        .or_else(|| limits::max_tools(lower).map(Into::into))
        .or_else(|| patches::prefill(lower))
        .or_else(|| by_phrase(lower, MESSAGES).map(Into::into))
        .or_else(|| patches::roles(error, lower))
        .or_else(|| calls(error, lower).map(Into::into))
        .or_else(|| parameters::efforts(error, lower).map(Into::into))
        .or_else(|| thinking(lower).map(Into::into))
        .or_else(|| parameters::tool_choice(error, lower).map(Into::into))
        .or_else(|| response_format(error, lower).map(Into::into))
        .or_else(|| parameters::unknown_parameter(error, lower, NAMES))
        .or_else(|| parameters::unknown_setting(lower).map(Into::into))
}

/// The names of parameters that only this wire has.
const NAMES: &[ParameterName] = &[
    ParameterName::new(
        "max_completion_tokens",
        max_tokens(MaxTokensField::MaxTokens),
    ),
    ParameterName::new(
        "max_tokens",
        max_tokens(MaxTokensField::MaxCompletionTokens),
    ),
    ParameterName::optional("stream_options", Parameter::StreamOptions),
    ParameterName::optional("cache_control", Parameter::CacheControl),
    ParameterName::word("thinking", NO_SWITCH),
    ParameterName::new("enable_thinking", NO_SWITCH),
    ParameterName::new("chat_template_kwargs", NO_SWITCH),
];

const NO_SWITCH: QuirkPatch = QuirkPatch::Chat(ChatPatch::NoThinkingSwitch);

const fn max_tokens(field: MaxTokensField) -> QuirkPatch {
    QuirkPatch::Chat(ChatPatch::MaxTokensField(field))
}

/// Reasoning and signatures that must be sent back.
///
/// - Kimi: `thinking is enabled but reasoning_content is missing in assistant
///   tool call message at index 2` (claude-code#37485)
/// - DeepSeek: `The reasoning_content in the thinking mode must be passed back
///   to the API.` (opencode#24122)
/// - Gemini: ``Function call `x` in the `1.` content block is missing a
///   `thought_signature` ``; `Function call is missing a thought_signature in
///   functionCall parts` (CLIProxyAPI#2360); `Corrupted thought signature.`, after
///   a change of the key or the route
fn reasoning(lower: &str) -> Option<ChatPatch> {
    by_phrase(lower, REASONING).or_else(|| {
        let always = lower.contains("reasoning_content") && lower.contains("must be passed back");
        always.then_some(ChatPatch::RequireReasoning(ReasoningRequired::Always))
    })
}

const REASONING: PhraseRules = &[
    (
        "reasoning_content is missing",
        ChatPatch::RequireReasoning(ReasoningRequired::Calls),
    ),
    (
        "missing a `thought_signature`",
        ChatPatch::RequireSignatures,
    ),
    ("missing a thought_signature", ChatPatch::RequireSignatures),
    ("corrupted thought signature", ChatPatch::NoSignatures),
    ("invalid thought signature", ChatPatch::NoSignatures),
    ("thought signature is not valid", ChatPatch::NoSignatures),
];

/// The name of the output limit. OpenAI, recorded: `Unsupported parameter: 'max_tokens' is
/// not supported with this model. Use 'max_completion_tokens' instead.`
fn max_tokens_field(lower: &str) -> Option<ChatPatch> {
    let use_instead = |name: &str| {
        ["use '", "use `", "use \"", "use "]
            .into_iter()
            .any(|quote| lower.contains(&format!("{quote}{name}")))
            && lower.contains("instead")
    };
    let field = if use_instead("max_completion_tokens") {
        MaxTokensField::MaxCompletionTokens
    } else if use_instead("max_tokens") {
        MaxTokensField::MaxTokens
    } else {
        return None;
    };
    Some(ChatPatch::MaxTokensField(field))
}

/// The highest temperatures, in hundredths, that providers use.
const HUNDREDTHS: [u16; 6] = [50, 100, 120, 150, 180, 200];

/// The highest temperature.
///
/// - OpenAI, recorded below the minimum: `Invalid 'temperature': decimal above
///   maximum value. Expected a value <= 2, but got 3 instead.`
/// - Anthropic: `temperature: range: 0..1`; GLM and others: `[0, 1]`, `(0, 1]`,
///   `between 0 and 1`
fn max_temperature(lower: &str) -> Option<ChatPatch> {
    find_word(lower, "temperature")?;
    let maximum = |number: &str| {
        let digits = number
            .trim_start()
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        match digits.trim_end_matches('.').parse::<f64>().ok()? {
            value if (0.5..=2.0).contains(&value) => HUNDREDTHS
                .into_iter()
                .find(|step| (f64::from(*step) - value * 100.0).abs() < 0.5),
            _ => None,
        }
    };
    [
        "expected a value <=",
        "less than or equal to",
        "range: 0..",
        "between 0 and ",
        "[0,",
        "(0,",
        "[0.0,",
        "(0.0,",
    ]
    .into_iter()
    .find_map(|phrase| maximum(lower.split_once(phrase)?.1))
    .map(ChatPatch::MaxTemperature)
}

/// Messages and their order.
///
/// - MiMo, of an image in a message without text: `text is not set` (providers.md)
/// - Mistral 3230: `Unexpected role 'user' after role 'tool'` (datapizza#98)
/// - templates (Gemma, old Mistral, at vLLM and llama.cpp): `Conversation roles
///   must alternate user/assistant/user/assistant/...`; Perplexity: `After the
///   (optional) system message(s), user or tool message(s) should alternate with
///   assistant message(s).`
/// - templates (Qwen, at vLLM and llama.cpp): `System message must be at the
///   beginning.`
const MESSAGES: PhraseRules = &[
    ("text is not set", ChatPatch::ImageNeedsText),
    (
        "unexpected role 'user' after role 'tool'",
        ChatPatch::AnswerAfterTool,
    ),
    (
        "unexpected role user after role tool",
        ChatPatch::AnswerAfterTool,
    ),
    ("roles must alternate", ChatPatch::MergeUser),
    ("should alternate with assistant", ChatPatch::MergeUser),
    (
        "unexpected role 'user' after role 'user'",
        ChatPatch::MergeUser,
    ),
    (
        "system message must be at the beginning",
        ChatPatch::SystemFirst,
    ),
    ("system message must be the first", ChatPatch::SystemFirst),
    ("system role must be the first", ChatPatch::SystemFirst),
    (
        "unexpected role 'system' after role",
        ChatPatch::SystemFirst,
    ),
    (
        "system messages must be at the beginning",
        ChatPatch::SystemFirst,
    ),
];

/// Messages with calls.
///
/// - Kimi: `text content is empty` (kimi-cli leaves the content out)
/// - serde servers: ``missing field `content` ``; pydantic: `Input should be a
///   valid string` at `messages.2.assistant.content`
/// - Mistral: `Tool call id was call_x but must be a-z, A-Z, 0-9, with a length
///   of 9.`
/// - Anthropic behind a gateway: `tool_use.id: String should match pattern
///   '^[a-zA-Z0-9_-]+$'`; OpenAI: `Invalid 'messages[1].tool_calls[0].id': string
///   too long. Expected a string with maximum length 40`
/// - Gemini: `function_response.name: Name cannot be empty.`
/// - llama.cpp: `Cannot use tools with stream`
fn calls(error: &ProviderError, lower: &str) -> Option<ChatPatch> {
    let param = error.param.as_deref().unwrap_or_default();
    by_phrase(lower, CALLS).or_else(|| {
        let too_long = contains_any(lower, &["id': string too long", "_id': string too long"]);
        if lower.contains("should be a valid string") && param.ends_with("assistant.content") {
            Some(ChatPatch::CallContent(CallContent::Empty))
        } else if lower.contains("tool_use.id") && lower.contains("should match pattern")
            || lower.contains("tool_call") && too_long
        {
            Some(ChatPatch::CallIds(CallIds::Word))
        } else {
            let unnamed = lower.contains("function_response.name");
            (unnamed && lower.contains("cannot be empty")).then_some(ChatPatch::ToolNames)
        }
    })
}

const CALLS: PhraseRules = &[
    (
        "text content is empty",
        ChatPatch::CallContent(CallContent::Omitted),
    ),
    (
        "missing field `content`",
        ChatPatch::CallContent(CallContent::Empty),
    ),
    (
        "missing field 'content'",
        ChatPatch::CallContent(CallContent::Empty),
    ),
    (
        "with a length of 9",
        ChatPatch::CallIds(CallIds::NineAlphanumeric),
    ),
    ("cannot use tools with stream", ChatPatch::NoCallStreaming),
    (
        "tools are not supported in streaming mode",
        ChatPatch::NoCallStreaming,
    ),
    (
        "streaming is not supported with tools",
        ChatPatch::NoCallStreaming,
    ),
    (
        "tool calls are not supported with stream",
        ChatPatch::NoCallStreaming,
    ),
];

/// Phrases in small letters, and the patch for a refusal that has one. The first counts.
type PhraseRules = &'static [(&'static str, ChatPatch)];

fn by_phrase(lower: &str, rules: PhraseRules) -> Option<ChatPatch> {
    let found = rules.iter().find(|(phrase, _)| lower.contains(phrase));
    found.map(|(_, patch)| *patch)
}

/// Thinking that cannot be switched.
///
/// - Qwen: `The value of the enable_thinking parameter is restricted to True.`
/// - Kimi K2.7: `invalid thinking: only type=enabled is allowed for this model`
/// - MiniMax M3.1 2013: `requires adaptive thinking`
fn thinking(lower: &str) -> Option<ChatPatch> {
    let only = lower.contains("enable_thinking") && lower.contains("restricted to")
        || lower.contains("invalid thinking: only")
        || lower.contains("requires adaptive thinking");
    only.then_some(ChatPatch::NoThinkingSwitch)
}

/// Formats of the answer.
///
/// - DeepSeek: `This response_format type is unavailable now`, which is what it
///   says of `json_schema`; it takes `json_object`
/// - OpenAI's older models: `Invalid parameter: 'response_format' of type
///   'json_schema' is not supported with this model.`
/// - Groq: ``This model does not support response format `json_schema`. ``
fn response_format(error: &ProviderError, lower: &str) -> Option<ChatPatch> {
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
    Some(ChatPatch::ResponseFormat(format))
}
