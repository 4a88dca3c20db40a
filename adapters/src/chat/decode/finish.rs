//! What a finish reason means.

use crate::event::Finish;
use crate::fault::{Fault, Kind};

/// A finish reason, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FinishMeaning {
    /// None was given.
    Absent,
    /// The answer is over.
    Finish(Finish),
    /// The same, of a reason whose meaning is a guess.
    Guessed(Finish),
    /// It broke off.
    Failed(Fault),
}

/// Reads a finish reason. `said` tells whether the answer has any content.
pub(super) fn interpret(reason: &str, said: bool) -> FinishMeaning {
    let lower = reason.to_ascii_lowercase();
    let failed = |kind, message: &str| FinishMeaning::Failed(Fault::new(kind, message));
    // Gemini's OpenAI endpoint puts its own reason behind a word for it:
    // `function_call_filter: MALFORMED_FUNCTION_CALL`, `content_filter: SAFETY`.
    let own = lower.split(": ").last().unwrap_or_default();
    match own {
        "" => FinishMeaning::Absent,
        "stop" | "tool_calls" | "tool_call" | "function_call" | "eos" | "end_turn" | "tool_use"
        | "stop_sequence" | "complete" | "completed" => FinishMeaning::Finish(Finish::Stop),
        "length" | "model_length" | "max_tokens" | "max_output_tokens" => {
            FinishMeaning::Finish(Finish::Length)
        }
        "content_filter" | "sensitive" | "safety" | "prohibited_content" | "blocklist"
        | "recitation" | "spii" | "image_safety" => FinishMeaning::Finish(Finish::ContentFilter),
        // GLM: the window was full in the middle of the answer, or before it.
        "model_context_window_exceeded" if said => FinishMeaning::Finish(Finish::Length),
        "model_context_window_exceeded" => failed(
            Kind::ContextLength,
            "The input does not fit into the model's context window.",
        ),
        // Servers that notice a loop cut it off.
        "repetition" | "repetition_truncation" => FinishMeaning::Guessed(Finish::Length),
        "error" => failed(
            Kind::Unavailable,
            "The provider ended its answer with an error and did not say which.",
        ),
        // DeepSeek.
        "insufficient_system_resource" => failed(
            Kind::Overloaded,
            "The provider ran out of capacity in the middle of its answer.",
        ),
        // GLM.
        "network_error" => failed(
            Kind::Unavailable,
            "The provider ended its answer with a network error of its own.",
        ),
        // vLLM and SGLang.
        "abort" | "aborted" | "cancelled" => {
            failed(Kind::Cut, "The provider broke its answer off.")
        }
        "malformed_function_call" | "unexpected_tool_call" => failed(
            Kind::BadReply,
            "The model made a tool call that its provider could not read.",
        ),
        _ if lower.starts_with("content_filter") => FinishMeaning::Finish(Finish::ContentFilter),
        _ => FinishMeaning::Guessed(Finish::Stop),
    }
}

/// The finish of an answer that gives more than one: a cut is never undone.
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
    fn every_reason_has_its_meaning() {
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
    fn a_full_window_without_an_answer_is_the_inputs_fault() {
        let FinishMeaning::Failed(fault) = interpret("model_context_window_exceeded", false) else {
            unreachable!("an answer of nothing")
        };
        assert_eq!(fault.kind, Kind::ContextLength);
    }

    #[test]
    fn a_cut_is_not_undone_by_a_later_stop() {
        use Finish::{ContentFilter, Length, Stop};
        for (known, new, both) in [
            (None, Stop, Stop),
            (Some(Stop), Stop, Stop),
            (Some(Stop), Length, Length),
            (Some(Length), Stop, Length),
            (Some(ContentFilter), Length, ContentFilter),
        ] {
            assert_eq!(more_severe(known, new), both);
        }
    }
}
