//! Refusals of requests that are too long.

use std::time::Duration;

use super::{fault_of, openai};
use crate::fault::{Kind, Retry};
use crate::quirk_patch::ModelPatch;

#[test]
fn an_overflow_names_its_window() {
    for (status, message, window) in [
        (
            400,
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
            Some(262_144),
        ),
        (
            400,
            "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens (1250025 in the messages, 0 in the completion).",
            Some(1_048_565),
        ),
        (
            400,
            "prompt is too long: 3333404 tokens > 200000 maximum",
            Some(200_000),
        ),
        (
            400,
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length",
            Some(200_000),
        ),
        (
            400,
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
            Some(1_048_576),
        ),
        (
            400,
            "prompt too long; exceeded max context length by 1119046 tokens (ref: 9)",
            None,
        ),
        (
            400,
            "Your input exceeds the context window of this model.",
            None,
        ),
        (
            400,
            "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
            Some(8_192),
        ),
        (
            500,
            "the request exceeds the available context size, try increasing it",
            None,
        ),
        (
            400,
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            Some(8_192),
        ),
        (
            400,
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
            Some(8_192),
        ),
        (
            400,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            Some(4_096),
        ),
        (
            400,
            "Please reduce the length of the messages or completion. Current length is 40000 while limit is 8192",
            Some(8_192),
        ),
        (
            400,
            "Range of input length should be [1, 129024]",
            Some(129_024),
        ),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            Some(131_072),
        ),
        (
            400,
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            Some(32_768),
        ),
        (
            400,
            "The prompt is too long: 140000, model maximum context length: 131071",
            Some(131_071),
        ),
        (
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 150000. This model's maximum context length is 131072 tokens and your request has 30000 input tokens",
            Some(131_072),
        ),
        (400, "Input token length too long", None),
        // LM Studio
        (
            400,
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            Some(4_096),
        ),
        (
            400,
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= n_ctx: 4096). Try to load the model with a larger context length.",
            Some(4_096),
        ),
        // llama.cpp, in the middle of an answer
        (500, "Context size has been exceeded.", None),
        // Cloudflare
        (
            413,
            "AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (24000).",
            Some(24_000),
        ),
        // SiliconFlow
        (
            400,
            "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
            Some(32_768),
        ),
        // Ark
        (
            400,
            "Input length 203743 exceeds the maximum length 202752",
            Some(202_752),
        ),
        // Cohere
        (
            400,
            "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 200000.",
            Some(128_000),
        ),
        // Copilot
        (
            400,
            "prompt token count of 100000 exceeds the limit of 65536",
            Some(65_536),
        ),
        // LiteLLM
        (
            400,
            "The input (9000 tokens) exceeds the model's maximum context length (8192).",
            Some(8_192),
        ),
        (
            403,
            "Input tokens plus max_tokens are more than the model takes",
            None,
        ),
        (
            413,
            "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.",
            None,
        ),
        (
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced.",
            None,
        ),
    ] {
        let fault = fault_of(status, &openai(message));
        assert_eq!(fault.kind, Kind::ContextLength, "{message}");
        assert_eq!(fault.retry, Retry::Never, "{message}");
        assert_eq!(fault.code(), Some("context_length_exceeded"), "{message}");
        assert_eq!(
            fault.patch,
            window.map(|window| ModelPatch::Window(window).into()),
            "{message}"
        );
    }
    for (body, window) in [
        (
            r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
            Some(8_192),
        ),
        (r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#, None),
        (
            r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for m model. Max size: 8000 tokens."}}"#,
            Some(8_000),
        ),
        (
            r#"{"error":{"code":"OutofContextError","message":"Total tokens of image and text exceed max message tokens.","type":"BadRequest"}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            None,
        ),
    ] {
        let fault = fault_of(400, body);
        assert_eq!(
            (fault.kind, fault.patch),
            (
                Kind::ContextLength,
                window.map(|window| ModelPatch::Window(window).into())
            ),
            "{body}"
        );
    }
    let limit = fault_of(
        429,
        &openai(
            "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.",
        ),
    );
    assert_eq!(limit.kind, Kind::RateLimit);
    assert_eq!(limit.retry, Retry::After(Duration::from_millis(4_770)));
}
