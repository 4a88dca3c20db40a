//! The turns that show whether a tool loop runs: calls, their results, a history of another model,
//! and an image.

use adapters::fault::Kind;
use registry::{SystemPlace, SystemRole};
use serde_json::{Value, json};

use super::measure::{MAX_OUTPUT, MeasuringTurnEnd, MeasuringTurns, tool_parameters};
use super::optional::{SHORT_OUTPUT, says};
use super::prompts;
use super::report::{CheckVerdict, DoctorCheck};

impl MeasuringTurns {
    /// Runs a tool loop. Returns whether the model answered at all.
    pub(super) async fn run_tool_loop(&mut self) -> bool {
        let opening = prompts::opening();
        let Some(response) = self.first_answer(&opening).await else {
            let is_answered = self.seen().answers > 0;
            if is_answered {
                self.adopt();
            }
            return is_answered;
        };
        self.check_answer(&response);
        self.adopt();
        let output = response.get("output").and_then(Value::as_array);
        let output = output.cloned().unwrap_or_default();
        let is_call = |item: &&Value| item.get("type").is_some_and(|kind| kind == "function_call");
        let calls: Vec<&Value> = output.iter().filter(is_call).collect();
        self.check_calls(&calls);
        let ids = calls.iter().filter_map(|call| call.get("call_id"));
        let results = ids.map(|id| prompts::result(id, "closed"));
        let history: Vec<Value> = opening
            .iter()
            .chain(&output)
            .cloned()
            .chain(results)
            .collect();
        if !calls.is_empty()
            && self
                .turn("tool result", &history, json!("auto"))
                .await
                .is_some()
        {
            self.checks
                .push(DoctorCheck::good("tool result", "the model went on"));
        }
        self.adopt();
        self.check_history(&prompts::foreign_history(history)).await;
        self.adopt();
        self.check_image().await;
        true
    }

    /// The first answer. If it is refused, a prompt without tools shows whether that is because of
    /// the tools, and that the provider is at this place.
    async fn first_answer(&mut self, opening: &[Value]) -> Option<Value> {
        let more = tool_parameters(&json!("auto"));
        let end = self.ask_again(opening, MAX_OUTPUT, &more).await;
        if !matches!(end, MeasuringTurnEnd::Failed(_)) || !self.seen().is_refusal() {
            return self.response_of("answer", end);
        }
        let plain = [prompts::message(
            "user",
            "Answer with one word: is snow white?",
        )];
        let text = self.ask_again(&plain, SHORT_OUTPUT, &json!({})).await;
        let is_answered = matches!(text, MeasuringTurnEnd::Answered(_));
        let is_down = matches!(self.seen().refusal, Some((Kind::Unavailable, _)));
        if is_answered || (self.is_sure && !is_down) {
            let repaired = self.try_to_repair(opening, MAX_OUTPUT, &more).await;
            if repaired.is_some() {
                return repaired;
            }
        }
        let response = self.response_of("answer", end);
        if is_answered {
            let found = "a prompt without tools is answered";
            self.checks.push(DoctorCheck::good("text", found));
        }
        response
    }

    /// Whether calls of another model are taken, and where instructions may be. A late one stays a
    /// system message only if the model follows it there: templates may leave it out.
    async fn check_history(&mut self, history: &[Value]) {
        let mut quirks = self.quirks();
        let has_role = quirks.system_role() != Some(SystemRole::User);
        let place = quirks.system_place_mut().map(|place| *place);
        let mut response = None;
        if has_role && place == Some(SystemPlace::First) {
            self.set_system_place(SystemPlace::Anywhere);
            let more = tool_parameters(&json!("none"));
            if let MeasuringTurnEnd::Answered(answer) =
                self.ask_again(history, MAX_OUTPUT, &more).await
            {
                response = Some(answer);
            }
            let is_followed = response
                .as_ref()
                .is_some_and(|answer| says(answer, prompts::WORD_OF_INSTRUCTION));
            if !is_followed {
                self.set_system_place(SystemPlace::First);
            }
        }
        if response.is_none() {
            response = self.turn("history", history, json!("none")).await;
        }
        if response.is_some() {
            let found = "calls of another model and a later instruction were taken";
            self.checks.push(DoctorCheck::good("history", found));
        }
    }

    fn set_system_place(&self, place: SystemPlace) {
        self.change_quirks(|quirks| {
            if let Some(quirk) = quirks.system_place_mut() {
                *quirk = place;
            }
        });
    }

    /// Whether images are taken.
    async fn check_image(&mut self) {
        if !self.known().model.images {
            let found = "images are not sent, as it is configured";
            return self.checks.push(DoctorCheck::good("image", found));
        }
        let before = self.checks.len();
        // One that cannot be fetched may be refused too; then the other one is tried alone.
        let with_url = prompts::image(true);
        let more = tool_parameters(&json!("none"));
        let end = self.ask_again(&with_url, MAX_OUTPUT, &more).await;
        let mut is_taken = matches!(end, MeasuringTurnEnd::Answered(_));
        if !is_taken {
            let without_url = prompts::image(false);
            let end = self.ask_again(&without_url, MAX_OUTPUT, &more).await;
            is_taken = self.response_of("image", end).is_some();
        }
        // A request without an image was taken, so the image is what is refused.
        let is_refused = !is_taken
            && matches!(self.seen().refusal, Some((_, Some(400 | 404 | 415 | 422))))
            && self
                .checks
                .last()
                .is_some_and(|check| check.verdict == CheckVerdict::Failed);
        if is_refused {
            self.checks.truncate(before);
            let mut known = self.known();
            known.model.images = false;
            self.set_known(&known);
        }
        if is_taken || is_refused {
            let found = if self.known().model.images {
                "images are taken"
            } else {
                "images are refused, and left out from now on"
            };
            self.checks.push(DoctorCheck::good("image", found));
        }
    }

    /// Whether the answer was a stream, and what it counts.
    fn check_answer(&mut self, response: &Value) {
        let body = self.seen().body;
        let is_stream = body.lines().any(|line| line.starts_with("data:"));
        self.checks.push(if is_stream {
            DoctorCheck::good("answer", "it arrives as a stream")
        } else {
            DoctorCheck::warning(
                "answer",
                "It arrives in one piece.",
                "The provider sends the answer whole; no setting changes that.",
            )
        });
        let tokens = |at: &str| response.pointer(at).and_then(Value::as_u64);
        let is_counted = has_object(&body, "usage");
        self.checks
            .push(match (is_counted, tokens("/usage/input_tokens")) {
                (true, Some(input)) => {
                    let cached = if body.contains("cache") {
                        "with those from the cache"
                    } else {
                        "without those from the cache"
                    };
                    DoctorCheck::good(
                        "usage",
                        format!("tokens are counted ({input} of input), {cached}"),
                    )
                }
                _ => DoctorCheck::warning(
                    "usage",
                    "Tokens are not counted.",
                    "Costs and limits by tokens are estimates.",
                ),
            });
    }

    fn check_calls(&mut self, calls: &[&Value]) {
        self.checks.push(match calls.len() {
            0 => DoctorCheck::warning(
                "tool call",
                "The model called no tool.",
                "An agent needs tools: try another model with --model.",
            ),
            1 => DoctorCheck::good("tool call", "one call in an answer"),
            many => DoctorCheck::good("tool call", format!("{many} calls in one answer")),
        });
    }
}

/// Whether a JSON text has a member of this name whose value is an object.
fn has_object(text: &str, name: &str) -> bool {
    let quoted = format!("\"{name}\"");
    text.match_indices(&quoted).any(|(at, _)| {
        let rest = text.get(at + quoted.len()..).unwrap_or_default();
        let value = rest.trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with('{'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_in_an_answer_however_it_is_written() {
        assert!(has_object(r#"{"usage" : {"total_tokens": 1}}"#, "usage"));
        assert!(has_object(r#"{"usage":null}{"usage":{}}"#, "usage"));
        assert!(!has_object(r#"{"usage":null,"text":"usage {"}"#, "usage"));
    }
}
