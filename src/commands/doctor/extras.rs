//! The turns that show what no tool loop needs: parameters, output limits, and how a prompt that is
//! too long is refused. The provider can be used even if they fail.

use registry::ToolChoiceMode;
use serde_json::{Value, json};

use super::measure::{MeasuringTurnEnd, MeasuringTurns, limited};
use super::optional::{ProbeFields, SHORT_OUTPUT};
use super::prompts;
use super::report::DoctorCheck;

/// More output tokens than any model has.
const TOO_MUCH_OUTPUT: u64 = 10_000_000;
/// A prompt for a larger window would be too large for most servers.
const MAX_OVERFLOW: u64 = 2_000_000;

impl MeasuringTurns {
    /// Which parameters are taken, with a call that is forced.
    pub(super) async fn check_parameters(&mut self) {
        let named = json!({"type": "function", "name": "wait"});
        let mut services = self.service_fields();
        let Some(mut check) = self.try_parameters(named, &mut services).await else {
            return;
        };
        self.keep_services(&services);
        // A provider may take one way to force a call and not the other.
        let choice = self.known().dialect.quirks.tool_choice();
        if !choice.contains(ToolChoiceMode::Named) && choice.contains(ToolChoiceMode::Required) {
            check = self
                .try_parameters(json!("required"), &mut Vec::new())
                .await
                .unwrap_or(check);
        }
        self.checks.push(check);
    }

    /// Sends a request with all parameters, these further fields and a forced call. Returns the
    /// check; `None` if a limit does not allow it, which is told.
    async fn try_parameters(
        &mut self,
        choice: Value,
        fields: &mut ProbeFields,
    ) -> Option<DoctorCheck> {
        let input = [prompts::message("user", "Wait once.")];
        let more = json!({
            "tools": prompts::strict_tool(), "tool_choice": choice, "temperature": 1.5,
            "presence_penalty": 0.1, "frequency_penalty": 0.1,
        });
        let end = self.ask_with_fields(&input, SHORT_OUTPUT, &more, fields);
        let check = match end.await {
            MeasuringTurnEnd::Limited => {
                self.checks.push(limited("parameters"));
                return None;
            }
            MeasuringTurnEnd::Answered(_) | MeasuringTurnEnd::Endless => {
                DoctorCheck::good("parameters", "what the provider does not take is left out")
            }
            MeasuringTurnEnd::Failed(message) => refused("parameters", &message),
        };
        Some(check)
    }

    /// How long an answer may be, which format it may have, and whether log probabilities come with
    /// it. Asks for more output than any model has; a provider that refuses this names the limit,
    /// and charges nothing.
    pub(super) async fn check_limits(&mut self) {
        let input = [prompts::message(
            "user",
            "Answer with one word, as JSON: is snow white?",
        )];
        let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}},
            "required": ["answer"], "additionalProperties": false});
        let format =
            json!({"type": "json_schema", "name": "answer", "strict": true, "schema": schema});
        let mut more = json!({"text": {"format": format}});
        // Some servers have them without tools only.
        if self.known().dialect.quirks.has_logprobs_parameter()
            && let Some(more) = more.as_object_mut()
        {
            more.insert("top_logprobs".to_owned(), 1.into());
        }
        let check = match self.ask_again(&input, TOO_MUCH_OUTPUT, &more).await {
            MeasuringTurnEnd::Limited => limited("output limit"),
            MeasuringTurnEnd::Failed(message) => refused("output limit", &message),
            MeasuringTurnEnd::Answered(_) | MeasuringTurnEnd::Endless => {
                let found = match self.known().model.max_output {
                    Some(tokens) => format!("at most {tokens} tokens in an answer"),
                    None => "none is told".to_owned(),
                };
                DoctorCheck::good("output limit", found)
            }
        };
        self.checks.push(check);
    }

    /// Whether a prompt that does not fit is refused, in words that are understood.
    pub(super) async fn check_overflow(&mut self) {
        let window = self.known().model.window().tokens;
        if window > MAX_OVERFLOW {
            let found = format!("Not measured: a window of {window} tokens is too large for it.");
            let remedy = "Nothing has to be done.";
            return self
                .checks
                .push(DoctorCheck::warning("overflow", found, remedy));
        }
        let prompt = [prompts::overlong(window + window / 8)];
        self.lock_seen().has_no_token_limit = true;
        let end = self.ask(&prompt, SHORT_OUTPUT, json!({})).await;
        let is_understood = self.seen().is_overflow();
        self.checks.push(match end {
            MeasuringTurnEnd::Limited => limited("overflow"),
            MeasuringTurnEnd::Failed(_) if is_understood => {
                DoctorCheck::good("overflow", "a prompt that is too long is refused as such")
            }
            MeasuringTurnEnd::Failed(message) => DoctorCheck::warning(
                "overflow",
                format!("A prompt that is too long is refused in words that are not understood: {message}"),
                "Long sessions are still compacted before the window is full.",
            ),
            MeasuringTurnEnd::Answered(_) | MeasuringTurnEnd::Endless => DoctorCheck::warning(
                "overflow",
                format!("A prompt of more than {window} tokens was answered."),
                "The window is larger, or the provider cuts prompts without a word: check it with its \
                 documentation.",
            ),
        });
    }
}

/// A refusal from which nothing is learned.
fn refused(subject: &'static str, message: &str) -> DoctorCheck {
    let found = format!("Something is refused, and it is not clear what: {message}");
    let remedy =
        "A tool loop does not need it; clients that send such parameters get this refusal.";
    DoctorCheck::warning(subject, found, remedy)
}
