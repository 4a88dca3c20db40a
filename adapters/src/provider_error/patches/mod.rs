//! Quirk patches that known refusals lead to. A patch stays in force as long as the
//! process, so a text must clearly name one thing, in a phrase that a provider is
//! known to use; vague texts lead to no patch.
//!
//! | module | contents |
//! |---|---|
//! | here | reasoning, roles and order of messages, images, ids |
//! | `limits` | numbers: output limit, temperature |
//! | `parameters` | parameters and values that are refused by name |
//! | `schema` | schemas of tools |

use registry::{CallContent, CallIds, ReasoningRequired, SystemRole};

use super::error::ProviderError;
use super::find::{contains_any, find_quoted};
use crate::quirk_patch::QuirkPatch;

mod limits;
mod parameters;
mod schema;

/// The patch for a refusal that is not a context overflow.
pub(super) fn find_patch(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    reasoning(lower)
        .or_else(|| limits::find_patch(lower))
        .or_else(|| schema::find_patch(error, lower))
        .or_else(|| images(lower))
        .or_else(|| message_order(lower))
        .or_else(|| roles(error, lower))
        .or_else(|| calls(error, lower))
        .or_else(|| parameters::find_patch(error, lower))
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
/// - Anthropic behind a gateway: ``Invalid `signature` in `thinking` block``;
///   ``Invalid `data` in `redacted_thinking` block``; ``The `thinking` blocks in
///   the latest assistant message cannot be modified``
fn reasoning(lower: &str) -> Option<QuirkPatch> {
    if lower.contains("reasoning_content is missing") {
        return Some(QuirkPatch::RequireReasoning(ReasoningRequired::Calls));
    }
    if lower.contains("reasoning_content") && lower.contains("must be passed back") {
        return Some(QuirkPatch::RequireReasoning(ReasoningRequired::Always));
    }
    if contains_any(
        lower,
        &[
            "missing a `thought_signature`",
            "missing a thought_signature",
        ],
    ) {
        return Some(QuirkPatch::RequireSignatures);
    }
    if contains_any(
        lower,
        &[
            "corrupted thought signature",
            "invalid thought signature",
            "thought signature is not valid",
        ],
    ) {
        return Some(QuirkPatch::NoSignatures);
    }
    contains_any(
        lower,
        &[
            "invalid `signature` in `thinking` block",
            "invalid `data` in `redacted_thinking` block",
            "blocks in the latest assistant message cannot be modified",
            // OpenAI's Responses API: reasoning of another key or model, and a model that
            // does not reason.
            "invalid_encrypted_content",
            "could not be verified",
            "encrypted content is not supported with this model",
        ],
    )
    .then_some(QuirkPatch::NoReasoning)
}

/// Images and files.
///
/// - DeepSeek: ``unknown variant `image_url`, expected `text` ``
/// - Kimi (moonshot-v1): `Image input not supported`
/// - llama.cpp: `image input is not supported - hint: if this is unexpected, you
///   may need to provide the mmproj`
/// - vLLM: `x is not a multimodal model`
/// - OpenRouter (404): `No endpoints found that support image input`
/// - OpenAI: `Invalid content type. image_url is only supported by certain models.`
/// - Groq, Ollama and others: `this model does not support image…`
/// - MiMo: `text is not set` beside an image (providers.md)
/// - Kimi: `unsupported image url`; a URL that could not be fetched, as at
///   Vertex, says nothing about other URLs
fn images(lower: &str) -> Option<QuirkPatch> {
    const NO_IMAGES: &[&str] = &[
        "unknown variant `image_url`",
        "unknown variant 'image_url'",
        "image input not supported",
        "image input is not supported",
        "image inputs are not supported",
        "images are not supported",
        "is not a multimodal model",
        "that support image input",
        "image_url is only supported by certain models",
        "not support image",
        "not support vision",
    ];
    const NO_URLS: &[&str] = &[
        "unsupported image url",
        "image url is not supported",
        "image urls are not supported",
        "not support image url",
        "only base64",
        "only supports base64",
    ];
    if contains_any(lower, NO_URLS) && lower.contains("image") {
        return Some(QuirkPatch::NoImageUrls);
    }
    if contains_any(lower, NO_IMAGES) {
        return Some(QuirkPatch::NoImages);
    }
    if contains_any(lower, &["unknown variant `file`", "unknown variant 'file'"]) {
        return Some(QuirkPatch::NoFiles);
    }
    (lower.contains("text is not set")).then_some(QuirkPatch::ImageNeedsText)
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
fn message_order(lower: &str) -> Option<QuirkPatch> {
    if contains_any(
        lower,
        &[
            "unexpected role 'user' after role 'tool'",
            "unexpected role user after role tool",
        ],
    ) {
        return Some(QuirkPatch::AnswerAfterTool);
    }
    if contains_any(
        lower,
        &[
            "roles must alternate",
            "should alternate with assistant",
            "unexpected role 'user' after role 'user'",
        ],
    ) {
        return Some(QuirkPatch::MergeUser);
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
    .then_some(QuirkPatch::SystemFirst)
}

/// Roles that the provider does not have.
///
/// - OpenAI o1-mini, recorded: `Unsupported value: 'messages[0].role' does not
///   support 'developer' with this model.`, the same with 'system'
/// - DeepSeek: ``messages[0].role: unknown variant `developer`, expected one of
///   `system`, `user`, … ``
/// - Qwen: `developer is not one of ['system', 'assistant', 'user', 'tool', 'function']`
/// - gateways: `invalid role 'developer', must be one of: system, user, …`
/// - pydantic (Together, Cerebras): `Input should be 'system', 'user', 'assistant'
///   or 'tool'` at `messages.0.role`
/// - templates: `Unexpected message role.` (no patch: it names no role)
/// - MiniMax 2013: `chat content has invalid message role: system`
/// - Gemma: `System role not supported`; Gemini's Gemma: `Developer instruction
///   is not enabled for models/gemma-3-27b-it`
fn roles(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    let param = error.param.as_deref().unwrap_or_default();
    let about_role = lower.contains("role") || param.ends_with("role");
    let refuses = |role: &str| {
        contains_any(
            lower,
            &[
                &format!("does not support '{role}'"),
                &format!("unknown variant `{role}`"),
                &format!("unknown variant '{role}'"),
                &format!("unknown variant \"{role}\""),
                &format!("invalid role '{role}'"),
                &format!("invalid role: {role}"),
                &format!("invalid message role: {role}"),
                &format!("unexpected role '{role}'"),
                &format!("unexpected role: {role}"),
                &format!("unsupported role: {role}"),
                &format!("unsupported role '{role}'"),
                &format!("'{role}' is not one of ['system'"),
                &format!("{role} is not one of ['system'"),
                &format!("role '{role}' is not supported"),
                &format!("role `{role}` is not supported"),
            ],
        )
    };
    if about_role && refuses("developer") || lower.contains("developer is not one of [") {
        return Some(QuirkPatch::SystemRole(SystemRole::System));
    }
    // The supported roles are listed, and our role for instructions is missing.
    let listed = about_role
        && contains_any(lower, &["should be", "must be one of", "expected one of"])
        && find_quoted(lower, "system").is_some()
        && find_quoted(lower, "user").is_some();
    if listed && find_quoted(lower, "developer").is_none() {
        return Some(QuirkPatch::SystemRole(SystemRole::System));
    }
    let no_system = about_role && refuses("system")
        || contains_any(
            lower,
            &[
                "system role not supported",
                "system role is not supported",
                "developer instruction is not enabled",
            ],
        );
    no_system.then_some(QuirkPatch::SystemRole(SystemRole::User))
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
fn calls(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    let param = error.param.as_deref().unwrap_or_default();
    if lower.contains("text content is empty") {
        return Some(QuirkPatch::CallContent(CallContent::Omitted));
    }
    let needs_text = contains_any(
        lower,
        &["missing field `content`", "missing field 'content'"],
    ) || lower.contains("should be a valid string")
        && param.ends_with("assistant.content");
    if needs_text {
        return Some(QuirkPatch::CallContent(CallContent::Empty));
    }
    if lower.contains("with a length of 9") {
        return Some(QuirkPatch::CallIds(CallIds::NineAlphanumeric));
    }
    let wrong_id = lower.contains("tool_use.id") && lower.contains("should match pattern")
        || lower.contains("tool_call")
            && contains_any(lower, &["id': string too long", "_id': string too long"]);
    if wrong_id {
        return Some(QuirkPatch::CallIds(CallIds::Word));
    }
    if lower.contains("function_response.name") && lower.contains("cannot be empty") {
        return Some(QuirkPatch::ToolNames);
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
    .then_some(QuirkPatch::NoCallStreaming)
}
