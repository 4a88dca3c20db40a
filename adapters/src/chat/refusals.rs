//! Refusals of requests in Chat Completions, and the quirk patches that they lead to.

use registry::{CallContent, CallIds, MaxTokensField, ReasoningRequired, ResponseFormat};

use super::patch::ChatPatch;
use crate::provider_error::error::ProviderError;
use crate::provider_error::find::{contains_any, find_word};
use crate::provider_error::patches::parameters::{ParameterName, UNKNOWN};
use crate::provider_error::patches::{self, limits, parameters, schema};
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
        .or_else(|| image_without_text(lower).map(Into::into))
        .or_else(|| message_order(lower).map(Into::into))
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
    if lower.contains("reasoning_content is missing") {
        return Some(ChatPatch::RequireReasoning(ReasoningRequired::Calls));
    }
    if lower.contains("reasoning_content") && lower.contains("must be passed back") {
        return Some(ChatPatch::RequireReasoning(ReasoningRequired::Always));
    }
    if contains_any(
        lower,
        &[
            "missing a `thought_signature`",
            "missing a thought_signature",
        ],
    ) {
        return Some(ChatPatch::RequireSignatures);
    }
    contains_any(
        lower,
        &[
            "corrupted thought signature",
            "invalid thought signature",
            "thought signature is not valid",
        ],
    )
    .then_some(ChatPatch::NoSignatures)
}

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

/// An image in a message without text. MiMo: `text is not set` (providers.md)
fn image_without_text(lower: &str) -> Option<ChatPatch> {
    lower
        .contains("text is not set")
        .then_some(ChatPatch::ImageNeedsText)
}

/// The order of messages.
///
/// - Mistral 3230: `Unexpected role 'user' after role 'tool'` (datapizza#98)
/// - templates (Gemma, old Mistral, at vLLM and llama.cpp): `Conversation roles
///   must alternate user/assistant/user/assistant/...`; Perplexity: `After the
///   (optional) system message(s), user or tool message(s) should alternate with
///   assistant message(s).`
/// - templates (Qwen, at vLLM and llama.cpp): `System message must be at the
///   beginning.`
fn message_order(lower: &str) -> Option<ChatPatch> {
    if contains_any(
        lower,
        &[
            "unexpected role 'user' after role 'tool'",
            "unexpected role user after role tool",
        ],
    ) {
        return Some(ChatPatch::AnswerAfterTool);
    }
    if contains_any(
        lower,
        &[
            "roles must alternate",
            "should alternate with assistant",
            "unexpected role 'user' after role 'user'",
        ],
    ) {
        return Some(ChatPatch::MergeUser);
    }
    contains_any(
        lower,
        &[
            "system message must be at the beginning",
            "system message must be the first",
            "system role must be the first",
            "unexpected role 'system' after role",
            "system messages must be at the beginning",
        ],
    )
    .then_some(ChatPatch::SystemFirst)
}

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
    if lower.contains("text content is empty") {
        return Some(ChatPatch::CallContent(CallContent::Omitted));
    }
    let needs_text = contains_any(
        lower,
        &["missing field `content`", "missing field 'content'"],
    ) || lower.contains("should be a valid string")
        && param.ends_with("assistant.content");
    if needs_text {
        return Some(ChatPatch::CallContent(CallContent::Empty));
    }
    if lower.contains("with a length of 9") {
        return Some(ChatPatch::CallIds(CallIds::NineAlphanumeric));
    }
    let wrong_id = lower.contains("tool_use.id") && lower.contains("should match pattern")
        || lower.contains("tool_call")
            && contains_any(lower, &["id': string too long", "_id': string too long"]);
    if wrong_id {
        return Some(ChatPatch::CallIds(CallIds::Word));
    }
    if lower.contains("function_response.name") && lower.contains("cannot be empty") {
        return Some(ChatPatch::ToolNames);
    }
    contains_any(
        lower,
        &[
            "cannot use tools with stream",
            "tools are not supported in streaming mode",
            "streaming is not supported with tools",
            "tool calls are not supported with stream",
        ],
    )
    .then_some(ChatPatch::NoCallStreaming)
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
