//! Recognizes refusals of a request that is too long, and the window that they
//! name.

use super::error::ProviderError;
use super::find::{contains_any, number_after, number_before};

/// A request that does not fit into the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow {
    /// The tokens that input and output may take together, if the text names them.
    pub(super) window: Option<u32>,
}

/// A smaller number is no window. Servers of tiny models start at 1,024 tokens, and an agent's
/// request does not fit into less.
const MIN_WINDOW: u32 = 1_024;

/// Phrases right before the size of the window.
const BEFORE_WINDOW: &[&str] = &[
    // Kimi; counts prompt and max_tokens
    "exceeded model token limit:",
    // OpenAI, DeepSeek, vLLM, OpenRouter
    "maximum context length is",
    // SGLang
    "maximum context length of",
    // Fireworks
    "maximum context length:",
    // SGLang: `… is longer than the model's context length (8192 tokens)`
    "longer than the model's context length",
    // vLLM: `The decoder prompt (length 9) is longer than the maximum model length of 8`
    "longer than the maximum model length of",
    // llama.cpp: `request (9 tokens) exceeds the available context size (8 tokens)`
    "exceeds the available context size",
    // xAI: `This model's maximum prompt length is N but the request contains M tokens`
    "maximum prompt length is",
    // Gemini: `The input token count (M) exceeds the maximum number of tokens allowed (N)`
    "maximum number of tokens allowed",
    // TGI, Together
    "`inputs` tokens + `max_new_tokens` must be",
    // Cerebras: `Current length is M while limit is N`
    "while limit is",
    // OpenAI: `Input tokens exceed the configured limit of N tokens`
    "exceed the configured limit of",
    // Qwen: `Range of input length should be [1, N]`
    "range of input length should be [1,",
    // LiteLLM: `exceeds the model's maximum context length (N)`
    "exceeds the model's maximum context length",
    // LM Studio: `the model is loaded with context length of only N tokens`
    "with context length of only",
    // Cloudflare
    "exceeded this model context window limit",
    // SiliconFlow: `length of prompt_tokens (M) must be less than max_seq_len (N)`
    "must be less than max_seq_len",
    "must be less than or equal to max_seq_len",
    // Cohere: `total number of tokens in the prompt cannot exceed N`
    "tokens in the prompt cannot exceed",
];

/// The same for phrases that only count if another phrase is in the text, too.
const BEFORE_WINDOW_IF: &[(&str, &str)] = &[
    // Ark: `Input length M exceeds the maximum length N`
    ("exceeds the maximum length", "input length"),
    // Copilot: `prompt token count of M exceeds the limit of N`
    ("exceeds the limit of", "token count"),
    // LM Studio: `greater than the context length (n_keep: M>= n_ctx: N)`
    ("n_ctx:", "greater than the context length"),
    // GitHub: `Request body too large for m model. Max size: N tokens.`
    ("max size:", "request body too large"),
];

/// Phrases of an overflow without a size, or with the size elsewhere.
const WITHOUT_WINDOW: &[&str] = &[
    // Anthropic: `prompt is too long: M tokens > N maximum`
    "prompt is too long",
    // Mistral: `Prompt contains M tokens …, too large for model with N maximum context length`
    "too large for model with",
    // Ollama's cloud: `prompt too long; exceeded max context length by M tokens`
    "exceeded max context length",
    // Kimi
    "input token length too long",
    // OpenAI
    "exceeds the context window",
    "range of input length",
    // MiniMax: `context window exceeds limit (2013)`
    "context window exceeds limit",
    // Anthropic: input and max_tokens together
    "exceed context limit",
    // Bedrock
    "input is too long for requested model",
    // llama.cpp and LM Studio, in the middle of an answer
    "context size has been exceeded",
    // Ollama
    "exceeds maximum context length",
    "exceeds the context length",
    "context length exceeded",
    // vLLM
    "please reduce the length of the messages or completion",
];

pub(super) fn detect(status: u16, error: &ProviderError, lower: &str) -> Option<Overflow> {
    let is_one = contains_any(lower, BEFORE_WINDOW)
        || contains_any(lower, WITHOUT_WINDOW)
        || matching_conditionals(lower).next().is_some()
        || [&error.code, &error.kind].into_iter().any(|word| {
            matches!(
                word.as_str(),
                "context_length_exceeded"
                    | "exceed_context_size_error"
                    | "tokens_limit_reached"
                    // Ark, of images
                    | "OutofContextError"
            )
        })
        // GLM: `Prompt 超长`
        || error.glm_code() == Some(1261)
        // Together answers 403 if input and max_tokens together are too much.
        || (status == 403 && lower.contains("token") && contains_any(lower, &["max_tokens", "context length"]))
        || exceeds_minute_limit(lower);
    is_one.then(|| Overflow {
        window: error
            .window
            .or_else(|| find_window(lower))
            .and_then(|tokens| u32::try_from(tokens).ok())
            .filter(|tokens| (MIN_WINDOW..=100_000_000).contains(tokens)),
    })
}

/// Groq (413) and OpenAI (429): `Request too large for model … on tokens per minute
/// (TPM): Limit 6000, Requested 14810`. The request alone exceeds what a minute may
/// have: waiting does not help, a shorter history does. The limit is the account's,
/// so the model's window is not learned from it.
fn exceeds_minute_limit(lower: &str) -> bool {
    lower.contains("request too large")
        && number_after(lower, "requested") > number_after(lower, "limit")
}

/// The phrases of [`BEFORE_WINDOW_IF`] that mean an overflow in this text.
fn matching_conditionals(lower: &str) -> impl Iterator<Item = &'static str> {
    BEFORE_WINDOW_IF
        .iter()
        .filter(|(phrase, other)| lower.contains(phrase) && lower.contains(other))
        .map(|(phrase, _)| *phrase)
}

fn find_window(lower: &str) -> Option<u64> {
    BEFORE_WINDOW
        .iter()
        .copied()
        .chain(matching_conditionals(lower))
        .find_map(|phrase| number_after(lower, phrase))
        .or_else(|| number_after(lower, "too large for model with"))
        .or_else(|| {
            let sum_or_prompt =
                contains_any(lower, &["prompt is too long", "exceed context limit"]);
            sum_or_prompt.then(|| number_after(lower, ">")).flatten()
        })
        .or_else(|| number_before(lower, " maximum context length"))
}
