//! Recognizes refusals of a request that is too long, and the window that they
//! name.
//!
//! Each server words them in its own way and changes its words, so no list of sentences is enough.
//! A clause is one if it names the context or the input, and says that it is too long or quotes a
//! limit. Sentences about other limits (of a rate, of the output, of an image or a name) are
//! recognised by the words for these.

use super::error::ProviderError;
use super::find::{contains_any, leading_number, number_after};
use super::quoted::numbers;

/// A request that does not fit into the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow {
    /// The tokens that input and output may take together, if the text names them.
    pub(super) window: Option<u32>,
}

/// A smaller number is no window. Servers of tiny models start at 1,024 tokens, and an agent's
/// request does not fit into less.
const MIN_WINDOW: u64 = 1_024;

/// The code that MiniMax puts behind its sentence, where others have the window.
const MINIMAX_CODE: u64 = 2_013;

/// What says that a limit is one of requests in a time.
const RATES: &[&str] = &[
    "rate limit",
    "rate-limit",
    "per min",
    "per day",
    "per hour",
    "per second",
    "(tpm)",
    "(rpm)",
    "throttl",
    "quota",
    "too many requests",
    "concurren",
    "daily",
    "queue",
    "速率",
    "频率",
    "频繁",
];

/// Things beside the input that can be too large or too many. A clause about tokens is about the
/// input nevertheless.
const OTHER_THINGS: &[&str] = &[
    "image",
    "pixel",
    "audio",
    "video",
    "pdf",
    "document",
    "file",
    "string",
    "character",
    "schema",
    "tool",
    "function",
    "stop sequence",
    "metadata",
    "图片",
    "图像",
    "文件",
];

/// The limits of the output.
const OUTPUT: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "output token",
    "completion token",
    "budget",
    "maximum tokens you requested",
];

/// Where the output is named beside the input.
const WITH_INPUT: &[&str] = &[
    "input tokens",
    "`inputs`",
    "input and",
    "in prompt",
    "prompt +",
    "prompt tokens",
];

/// The context, which no other limit is about.
const CONTEXT: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "context_window",
    "contextwindow",
    "context size",
    "context_size",
    "context limit",
    "long for context",
    "max context",
    "maximum context",
    "input context",
    "context overflow",
    "model length",
    "max_seq_len",
    "max_model_len",
    "n_ctx",
    "sequence length",
    "kv cache",
    "kv size",
    "prompt length",
    "model token limit",
    "message tokens",
    "上下文",
    "コンテキスト",
    "컨텍스트",
    "контекст",
    "kontext",
    "contexte",
    "contexto",
];

/// The input and its parts.
const INPUT: &[&str] = &[
    "prompt",
    "input",
    "messages",
    "conversation",
    "request",
    "token",
    "history",
    "sequence",
    "输入",
    "对话",
    "请求",
    "内容",
];

/// What of the input is measured.
const SIZE: &[&str] = &["token", "length", "long", "window", "size", "长", "数"];

/// Too much of it.
const EXCESS: &[&str] = &[
    "too long",
    "too large",
    "too big",
    "too many",
    "is full",
    "exceed",
    "longer than",
    "larger than",
    "greater than",
    "more than",
    "above the",
    "over the",
    "not fit",
    "less than",
    "<=",
    "reduce the length",
    "only supports",
    "range of input length",
    "but the",
    "overflow",
    "超",
    "过长",
    "大于",
    "초과",
    "превы",
    "dépass",
    "excede",
    "supera",
    "überschr",
];

/// Words of a limit, which say enough beside the context.
const LIMIT: &[&str] = &["maximum", "limit", "only", "available"];

/// The beginnings of the words that precede the size of the window.
const BEFORE_WINDOW: &[&str] = &[
    "max", "limit", "length", "window", "size", "allowed", "only", "support", "exceed", "than",
    "most", "n_ctx", "context", "最大", "上限", "限制", "长度", "超过", "länge", "макс",
];

/// How many words before a number are looked at.
const WORDS_BEFORE: usize = 5;

pub(super) fn detect(status: u16, error: &ProviderError, lower: &str) -> Option<Overflow> {
    let is_limit_of_minute = exceeds_minute_limit(lower);
    let is_one = [&error.code, &error.kind]
        .into_iter()
        .chain(&error.keywords)
        .any(|word| is_overflow_code(word))
        // GLM: `Prompt 超长`
        || error.glm_code() == Some(1261)
        || is_limit_of_minute
        || (can_be_one(status) && !contains_any(lower, RATES) && (says_so(lower) || is_too_large(status, lower)));
    is_one.then(|| Overflow {
        window: error
            .window
            // The limit is the account's.
            .or_else(|| (!is_limit_of_minute).then(|| find_window(lower)).flatten())
            .filter(|tokens| (MIN_WINDOW..=100_000_000).contains(tokens))
            .and_then(|tokens| u32::try_from(tokens).ok()),
    })
}

/// Whether a code says it, in any spelling.
fn is_overflow_code(word: &str) -> bool {
    const CODES: &[&str] = &[
        "contextlength",
        "contextwindow",
        "contextsize",
        // Ark, of images
        "outofcontext",
        "prompttoolong",
        "inputtoolong",
        // Copilot
        "maxprompttokens",
        // GitHub
        "tokenslimitreached",
    ];
    let letters = word.chars().filter(char::is_ascii_alphabetic);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    contains_any(&plain, CODES)
}

/// Whether a reply with this status can be one: a refusal, or the failure of a server that did not
/// expect it.
fn can_be_one(status: u16) -> bool {
    (400..=500).contains(&status) && !matches!(status, 401 | 402 | 408 | 429)
}

/// Whether a server did not take the bytes of the request: nginx, Express, Go. Less history is
/// fewer bytes.
fn is_too_large(status: u16, lower: &str) -> bool {
    status == 413 && !contains_any(lower, OTHER_THINGS)
}

/// Whether a clause of the text says that the input is too long.
fn says_so(lower: &str) -> bool {
    let sentences = lower.split(['\n', '。', '；']);
    let mut clauses = sentences.flat_map(|it| it.split(". ").flat_map(|it| it.split("; ")));
    clauses.any(|clause| {
        let says = |words: &[&str]| contains_any(clause, words);
        // vLLM, of an image. Groq, of the output.
        if says(&[
            "the encoder prompt",
            "less than the `context_window`",
            "less than the context_window",
        ]) {
            return false;
        }
        let is_of_context = says(CONTEXT) && (says(EXCESS) || says(LIMIT));
        let is_of_other = (says(OTHER_THINGS) && !clause.contains("token"))
            || (says(OUTPUT) && !says(WITH_INPUT));
        is_of_context || (!is_of_other && says(INPUT) && says(SIZE) && says(EXCESS))
    })
}

/// Groq (413) and OpenAI (429): `Request too large for model … on tokens per minute
/// (TPM): Limit 6000, Requested 14810`. The request alone exceeds what a minute may
/// have: waiting does not help, a shorter history does.
fn exceeds_minute_limit(lower: &str) -> bool {
    lower.contains("request too large")
        && number_after(lower, "requested") > number_after(lower, "limit")
}

/// The size of the window: the smallest number that a word of a limit is before, because a refusal
/// names what was sent as well.
fn find_window(lower: &str) -> Option<u64> {
    // Qwen: `Range of input length should be [1,N]`
    if let Some((_, range)) = lower.split_once("length should be [1,") {
        return leading_number(range.trim_start());
    }
    // Kimi counts messages.
    if !lower.contains("token") && contains_any(lower, &["items", "character", "bytes"]) {
        return None;
    }
    numbers(lower)
        .filter_map(|(start, end, value)| {
            let (before, after) = (lower.get(..start)?, lower.get(end..)?);
            let value = value.filter(|value| *value >= MIN_WINDOW && *value != MINIMAX_CODE)?;
            (limit_is_before(before, after) || limit_is_after(after)).then_some(value)
        })
        .min()
}

/// Whether the words before a number say that it is a limit of tokens.
fn limit_is_before(before: &str, after: &str) -> bool {
    // A part of a name, of a date, or of another number.
    if before
        .ends_with(|c: char| c.is_alphanumeric() && c.is_ascii() || matches!(c, '_' | '-' | '.'))
        || after.starts_with(" characters")
    {
        return false;
    }
    let symbols = before.trim_end();
    if symbols.ends_with(['>', '<']) || symbols.ends_with(">=") || symbols.ends_with("<=") {
        return true;
    }
    let clause = before
        .rsplit(['>', '=', ';', '，', '。'])
        .next()
        .unwrap_or_default();
    let clause = clause.rsplit(". ").next().unwrap_or_default();
    let mut words = clause
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
        .take(WORDS_BEFORE)
        .peekable();
    // `exceeded by 9000 tokens`
    if words.peek() == Some(&"by") {
        return false;
    }
    let words: Vec<&str> = words.collect();
    let is_of_output = |word: &&str| {
        contains_any(word, OUTPUT) || word.starts_with("output") || word.starts_with("completion")
    };
    let is_limit = |word: &&str| BEFORE_WINDOW.iter().any(|begin| word.contains(begin));
    !words.iter().any(is_of_output) && words.iter().any(is_limit)
}

/// Whether the words after a number say so: `8192 maximum context length`.
fn limit_is_after(after: &str) -> bool {
    let after = after.trim_start_matches([' ', '-']);
    [
        "maximum",
        "available",
        "token window",
        "token context",
        "token limit",
    ]
    .into_iter()
    .any(|words| after.starts_with(words))
}
