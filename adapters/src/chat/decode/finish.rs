//! The meaning of finish reasons.

use crate::event::Finish;
use crate::fault::{Fault, Kind};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FinishMeaning {
    Absent,
    /// The answer is complete or was limited.
    Finish(Finish),
    /// The same, but the meaning of the reason is a guess.
    Guessed(Finish),
    Failed(Fault),
}

/// Interprets a finish reason. `has_output` says whether the answer has text, calls
/// or reasoning.
pub(super) fn interpret(reason: &str, has_output: bool) -> FinishMeaning {
    let lower = reason.to_ascii_lowercase();
    let failed =
        |kind, predicate: &'static str| FinishMeaning::Failed(Fault::of_provider(kind, predicate));
    // Gemini's OpenAI endpoint puts its own reason after a standard word:
    // `function_call_filter: MALFORMED_FUNCTION_CALL`, `content_filter: SAFETY`.
    let own = lower.split(": ").last().unwrap_or_default();
    match own {
        "" => FinishMeaning::Absent,
        "stop" | "tool_calls" | "tool_call" | "function_call" | "eos" | "eos_token"
        | "end_turn" | "end_of_turn" | "tool_use" | "stop_sequence" | "complete" | "completed" => {
            FinishMeaning::Finish(Finish::Stop)
        }
        "length" | "model_length" | "max_tokens" | "max_output_tokens" => {
            FinishMeaning::Finish(Finish::Length)
        }
        "content_filter" | "sensitive" | "safety" | "prohibited_content" | "blocklist"
        | "recitation" | "spii" | "image_safety" => FinishMeaning::Finish(Finish::ContentFilter),
        // The window was full in the middle of the answer, or before it.
        own if is_full_window(own) && has_output => FinishMeaning::Finish(Finish::Length),
        own if is_full_window(own) => failed(
            Kind::ContextLength,
            "gave no answer: the input does not fit into the model's context window.",
        ),
        // Servers that notice a repetition cut it off.
        "repetition" | "repetition_truncation" => FinishMeaning::Guessed(Finish::Length),
        "error" => failed(
            Kind::Unavailable,
            "ended its answer with an error and did not say which.",
        ),
        // DeepSeek.
        "insufficient_system_resource" => failed(
            Kind::Overloaded,
            "ran out of capacity in the middle of its answer.",
        ),
        // GLM.
        "network_error" => failed(
            Kind::Unavailable,
            "ended its answer with a network error of its own.",
        ),
        // vLLM and SGLang.
        "abort" | "aborted" | "cancelled" => failed(Kind::Cut, "broke off its answer."),
        "malformed_function_call" | "unexpected_tool_call" => failed(
            Kind::BadReply,
            "could not read a tool call that its model made.",
        ),
        _ if lower.starts_with("content_filter") => FinishMeaning::Finish(Finish::ContentFilter),
        _ => FinishMeaning::Guessed(Finish::Stop),
    }
}

/// Whether a reason says that the model called a tool.
pub(super) fn promises_call(reason: &str) -> bool {
    let reasons = ["tool_calls", "tool_call", "function_call", "tool_use"];
    reasons.iter().any(|it| reason.eq_ignore_ascii_case(it))
}

/// Whether a reason says that the window is full: GLM and Anthropic say
/// `model_context_window_exceeded`, gateways `context_length_exceeded`.
fn is_full_window(reason: &str) -> bool {
    let names = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    (reason.contains("context") && names(&["length", "window", "size", "limit"]))
        || names(&["prompt_too_long", "input_too_long"])
}

/// The finish of an answer with several finish reasons: a truncation is never
/// undone by a later one.
pub(super) fn more_severe(known: Option<Finish>, new: Finish) -> Finish {
    let weight = |finish| match finish {
        Finish::Stop => 0,
        Finish::Length => 1,
        Finish::ContentFilter => 2,
    };
    match known {
        Some(known) if weight(known) > weight(new) => known,
        _ => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finish_reason_has_a_meaning() {
        for (reason, ending) in [
            ("stop", "stop"),
            ("STOP", "stop"),
            ("tool_calls", "stop"),
            ("function_call", "stop"),
            ("eos", "stop"),
            ("end_turn", "stop"),
            ("length", "length"),
            ("model_length", "length"),
            ("MAX_TOKENS", "length"),
            ("content_filter", "filter"),
            ("sensitive", "filter"),
            ("model_context_window_exceeded", "length"),
            ("context_length_exceeded", "length"),
            ("CONTEXT_LENGTH_EXCEEDED", "length"),
            ("error: context_window_exceeded", "length"),
            ("repetition", "guess length"),
            ("repetition_truncation", "guess length"),
            ("because", "guess stop"),
            ("error", "unavailable"),
            ("insufficient_system_resource", "overloaded"),
            ("network_error", "unavailable"),
            ("abort", "cut"),
            ("MALFORMED_FUNCTION_CALL", "bad_reply"),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", "bad_reply"),
            ("function_call_filter: UNEXPECTED_TOOL_CALL", "bad_reply"),
            ("content_filter: PROHIBITED_CONTENT", "filter"),
            ("content_filter: OTHER", "filter"),
            ("", "open"),
        ] {
            let name = |finish| match finish {
                Finish::Stop => "stop",
                Finish::Length => "length",
                Finish::ContentFilter => "filter",
            };
            let got = match interpret(reason, true) {
                FinishMeaning::Absent => "open".to_owned(),
                FinishMeaning::Finish(finish) => name(finish).to_owned(),
                FinishMeaning::Guessed(finish) => format!("guess {}", name(finish)),
                FinishMeaning::Failed(fault) => fault.kind.name().to_owned(),
            };
            assert_eq!(got, ending, "{reason}");
        }
    }

    #[test]
    fn a_full_window_without_output_is_a_context_overflow() {
        for reason in [
            "model_context_window_exceeded",
            "context_length_exceeded",
            "max_context_size",
            "prompt_too_long",
        ] {
            let FinishMeaning::Failed(fault) = interpret(reason, false) else {
                unreachable!("an answer of nothing")
            };
            assert_eq!(fault.kind, Kind::ContextLength, "{reason}");
        }
    }

    #[test]
    fn a_truncation_is_not_undone_by_a_later_stop() {
        use Finish::{ContentFilter, Length, Stop};
        for (known, new, result) in [
            (None, Stop, Stop),
            (Some(Stop), Stop, Stop),
            (Some(Stop), Length, Length),
            (Some(Length), Stop, Length),
            (Some(ContentFilter), Length, ContentFilter),
        ] {
            assert_eq!(more_severe(known, new), result);
        }
    }
}
