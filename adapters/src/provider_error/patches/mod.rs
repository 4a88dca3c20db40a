//! Quirk patches that known refusals lead to, whatever the wire; each wire asks these rules and
//! its own in an order of its own. A patch stays in force as long as the process, so a text must
//! clearly name one thing, in a phrase that a provider is known to use; vague texts lead to no
//! patch.
//!
//! | module | contents |
//! |---|---|
//! | here | reasoning, roles of messages, images, files and audio |
//! | `limits` | the output limit and the temperature |
//! | `parameters` | parameters and values that are refused by name |
//! | `schema` | schemas of tools |

use registry::SystemRole;

use super::error::ProviderError;
use super::find::{contains_any, find_quoted};
use crate::quirk_patch::{ModelPatch, QuirkPatch, SharedPatch};

pub(crate) mod limits;
pub(crate) mod parameters;
pub(crate) mod schema;

/// Reasoning that is not accepted.
///
/// - Anthropic behind a gateway: ``Invalid `signature` in `thinking` block``;
///   ``Invalid `data` in `redacted_thinking` block``; ``The `thinking` blocks in
///   the latest assistant message cannot be modified``
/// - OpenAI's Responses API: reasoning of another key or model, and a model that does not
///   reason
pub(crate) fn reasoning(lower: &str) -> Option<QuirkPatch> {
    contains_any(
        lower,
        &[
            "invalid `signature` in `thinking` block",
            "invalid `data` in `redacted_thinking` block",
            "blocks in the latest assistant message cannot be modified",
            "invalid_encrypted_content",
            "could not be verified",
            "encrypted content is not supported with this model",
        ],
    )
    .then_some(SharedPatch::NoReasoning.into())
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
/// - LM Studio: `'url' field must be a base64 encoded image.`; Ollama: `invalid image input`,
///   and no more (ollama#6753)
/// - Kimi: `unsupported image url`; a URL that could not be fetched, as at
///   Vertex, says nothing about other URLs
pub(crate) fn images(lower: &str) -> Option<QuirkPatch> {
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
        "must be a base64 encoded image",
    ];
    if contains_any(lower, NO_URLS) && lower.contains("image") || lower == "invalid image input" {
        return Some(SharedPatch::NoImageUrls.into());
    }
    if contains_any(lower, NO_IMAGES) {
        return Some(ModelPatch::NoImages.into());
    }
    contains_any(lower, &["unknown variant `file`", "unknown variant 'file'"])
        .then_some(SharedPatch::NoFiles.into())
}

/// Audio.
///
/// - OpenAI: `content blocks are expected to be either text or image_url type`
///   (openai-python#2454)
/// - Google: `The audio content type (CONTENT_TYPE_AUDIO) is not supported for this model`
/// - serde servers: ``unknown variant `input_audio` ``; OpenRouter: `No endpoints found that
///   support input audio`
///
/// A recording that cannot be read, or has another format, says nothing about the model.
pub(crate) fn audio(lower: &str) -> Option<QuirkPatch> {
    const REFUSED: &[&str] = &[
        "not support",
        "unsupported",
        "unknown variant",
        "only supported by",
        "invalid content type",
        "that support",
    ];
    let refused = lower.contains("audio") && contains_any(lower, REFUSED)
        || lower.contains("expected to be either text or image_url type");
    (refused && !contains_any(lower, &["format", "decode"])).then_some(ModelPatch::NoAudio.into())
}

/// A history that ends with an answer of the model.
///
/// - Anthropic, Bedrock and what is in front of them: `This model does not support assistant
///   message prefill. The conversation must end with a user message.`; ``an `assistant` message in
///   the final position, which would pre-fill the `assistant` response``
/// - Mistral: `Expected last role User or Tool (or Assistant with prefix True) for serving but got
///   assistant` (rig#708)
/// - DeepSeek: `The last message of deepseek-reasoner must be a user message, or an assistant
///   message with prefix mode on`; Perplexity: ``Last message must have role `user` ``
/// - vLLM: `Cannot set add_generation_prompt to True when the last message is from the assistant`;
///   llama.cpp: `Assistant response prefill is incompatible with enable_thinking.`
pub(crate) fn prefill(lower: &str) -> Option<QuirkPatch> {
    const PLACES: &[&str] = &[
        "prefill",
        "pre-fill",
        "must end with a user",
        "end with a user role",
        "last message",
        "last role",
        "final message",
        "message in the final position",
    ];
    const ROLES: &[&str] = &["assistant", "user"];
    (contains_any(lower, PLACES) && contains_any(lower, ROLES))
        .then_some(SharedPatch::EndWithUser.into())
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
pub(crate) fn roles(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
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
        return Some(SharedPatch::SystemRole(SystemRole::System).into());
    }
    // The supported roles are listed, and our role for instructions is missing.
    let listed = about_role
        && contains_any(lower, &["should be", "must be one of", "expected one of"])
        && find_quoted(lower, "system").is_some()
        && find_quoted(lower, "user").is_some();
    if listed && find_quoted(lower, "developer").is_none() {
        return Some(SharedPatch::SystemRole(SystemRole::System).into());
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
    no_system.then_some(SharedPatch::SystemRole(SystemRole::User).into())
}
