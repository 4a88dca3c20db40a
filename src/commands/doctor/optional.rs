//! What most providers ignore or refuse and some take: further fields of a request, files, and ways
//! to steer reasoning. A field that is only passed on is taken if it is not refused. What changes
//! the meaning of a request has to show an effect.

use adapters::provider_error::find_word;
use adapters::quirk_patch::{ModelPatch, Parameter, QuirkPatch};
use adapters::wire::{self, ReasoningField};
use serde_json::{Value, json};

use super::measure::{MeasuringTurnEnd, MeasuringTurns, limited};
use super::prompts;
use super::report::DoctorCheck;

/// Fields that a request is sent with to see whether they are taken.
pub(super) type ProbeFields = Vec<ProbeField>;

/// The most tokens of an answer of one word, reasoning included.
pub(super) const SHORT_OUTPUT: u64 = 1_000;

/// A field of a request, with its value as JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeField {
    /// A parameter that is passed on to the providers that take it.
    Parameter(Parameter, &'static str),
    /// A field that may steer reasoning.
    Reasoning(&'static ReasoningField, &'static str),
}

/// The parameters that are tried. The member of a function is no field of the request: its quirk
/// sends it.
const SERVICES: [ProbeField; 4] = [
    ProbeField::Parameter(Parameter::PromptCacheKey, "\"doctor\""),
    ProbeField::Parameter(Parameter::ServiceTier, "\"auto\""),
    ProbeField::Parameter(Parameter::Verbosity, "\"medium\""),
    STRICT,
];

/// `strict` of a function.
const STRICT: ProbeField = ProbeField::Parameter(Parameter::Strict, "true");

/// After more refusals of further fields none is sent any more, so that other requests are left.
const MAX_REFUSALS: usize = 3;

/// How many of the fields that steer reasoning are tried first.
const FREQUENT: usize = 2;

impl ProbeField {
    fn name(self) -> &'static str {
        match self {
            Self::Parameter(parameter, _) => parameter.name(),
            Self::Reasoning(field, _) => field.name,
        }
    }
}

impl MeasuringTurns {
    /// Whether the quirk of this parameter leaves it out.
    fn leaves_out(&self, parameter: Parameter) -> bool {
        let mut quirks = self.quirks();
        wire::parameter_quirk(parameter, &mut quirks).is_some_and(|is_sent| !*is_sent)
    }

    fn set_parameter(&self, parameter: Parameter, is_sent: bool) {
        self.change_quirks(|quirks| {
            if let Some(quirk) = wire::parameter_quirk(parameter, quirks) {
                *quirk = is_sent;
            }
        });
    }

    /// The fields that the parameters are sent with: those that the quirks leave out so far.
    pub(super) fn service_fields(&self) -> ProbeFields {
        let is_off = |field: &ProbeField| match field {
            ProbeField::Parameter(parameter, _) => self.leaves_out(*parameter),
            ProbeField::Reasoning(..) => false,
        };
        SERVICES.into_iter().filter(is_off).collect()
    }

    /// Makes it known that these fields were taken.
    pub(super) fn keep_services(&self, taken: &ProbeFields) {
        for field in taken {
            if let ProbeField::Parameter(parameter, _) = field {
                self.set_parameter(*parameter, true);
            }
        }
    }

    /// Asks with further fields. One that a refusal names is left out then; all are after some
    /// refusals, or one that names none. What is left was taken with the answer.
    pub(super) async fn ask_with_fields(
        &mut self,
        input: &[Value],
        max_output: u64,
        more: &Value,
        fields: &mut ProbeFields,
    ) -> MeasuringTurnEnd {
        let fixed = self.known().dialect.body;
        fields.retain(|field| fixed.iter().all(|(other, _)| other != field.name()));
        for refusals in 1.. {
            let with_strict = fields.contains(&STRICT);
            self.send_fields(&fixed, fields);
            let end = self.ask_again(input, max_output, more).await;
            if with_strict && self.leaves_out(Parameter::Strict) {
                // A refusal has said so, and was understood.
                fields.retain(|field| *field != STRICT);
            }
            self.send_fields(&fixed, &[]);
            if with_strict {
                self.set_parameter(Parameter::Strict, false);
            }
            match end {
                MeasuringTurnEnd::Failed(_) if !fields.is_empty() => {}
                MeasuringTurnEnd::Answered(_) | MeasuringTurnEnd::Endless => return end,
                MeasuringTurnEnd::Failed(_) | MeasuringTurnEnd::Limited => {
                    fields.clear();
                    return end;
                }
            }
            let refusal = self.seen();
            if let Some(QuirkPatch::Model(ModelPatch::Efforts(levels))) = refusal.patch {
                self.effort_levels = Some(levels);
            }
            let before = fields.len();
            fields.retain(|field| find_word(&refusal.body, field.name()).is_none());
            if fields.len() == before || refusals > MAX_REFUSALS {
                fields.clear();
            }
        }
        MeasuringTurnEnd::Limited
    }

    /// Sends these fields with every request, besides those that are configured.
    fn send_fields(&self, fixed: &[(String, String)], fields: &[ProbeField]) {
        let mut known = self.known();
        known.dialect.body = fixed.to_vec();
        for field in fields {
            match field {
                ProbeField::Parameter(Parameter::Strict, _) => {
                    let quirks = &mut known.dialect.quirks;
                    if let Some(is_sent) = wire::parameter_quirk(Parameter::Strict, quirks) {
                        *is_sent = true;
                    }
                }
                ProbeField::Parameter(_, json) | ProbeField::Reasoning(_, json) => {
                    let field = (field.name().to_owned(), (*json).to_owned());
                    known.dialect.body.push(field);
                }
            }
        }
        self.set_known(&known);
    }

    /// Which field steers reasoning: with it, reasoning no longer arrives that arrived before, or
    /// the other way round, or a refusal lists its levels.
    pub(super) async fn check_reasoning_control(&mut self) {
        let fields = wire::reasoning_fields(&self.quirks());
        if fields.is_empty() {
            return;
        }
        // How reasoning arrives is known only after the first answer.
        let Some(usual) = uniform(self.reasoned.get(1..).unwrap_or_default()) else {
            let found = "not measured, because only some answers have reasoning";
            return self.checks.push(DoctorCheck::good("effort", found));
        };
        let probe = |field: &'static ReasoningField| {
            ProbeField::Reasoning(field, if usual { field.off } else { field.on })
        };
        let mut rare: ProbeFields = fields.iter().map(probe).collect();
        let mut left: ProbeFields = rare.drain(..FREQUENT.min(rare.len())).collect();
        let mut is_changed = self.is_changed_by(&mut left, usual).await;
        let mut saw_usual = is_changed == Some(false);
        if saw_usual && self.effort_levels.is_none() {
            left = rare;
            is_changed = self.is_changed_by(&mut left, usual).await;
        }
        if is_changed != Some(true) {
            left.clear();
        }
        while left.len() > 1 {
            let mut half: ProbeFields = left.iter().take(left.len() / 2).copied().collect();
            let tried = half.clone();
            is_changed = self.is_changed_by(&mut half, usual).await;
            saw_usual |= is_changed == Some(false);
            match is_changed {
                Some(true) => left = half,
                Some(false) => left.retain(|field| !tried.contains(field)),
                None => left.clear(),
            }
        }
        // A model may have stopped reasoning by itself.
        if !left.is_empty() && !saw_usual {
            is_changed = self.is_changed_by(&mut Vec::new(), usual).await;
            left.retain(|_| is_changed == Some(false));
        }
        if is_changed.is_none() && self.seen().is_limited {
            return self.checks.push(limited("effort"));
        }
        self.keep_reasoning_control(left.first().copied());
    }

    /// Asks a small question with these fields. Returns whether reasoning arrives that does not
    /// usually, or the other way round; `None` if there is no answer.
    async fn is_changed_by(&mut self, fields: &mut ProbeFields, usual: bool) -> Option<bool> {
        let question = "Answer with one word: how many letters has the word snow?";
        let input = [prompts::message("user", question)];
        let end = self
            .ask_with_fields(&input, SHORT_OUTPUT, &json!({}), fields)
            .await;
        let is_answered = matches!(end, MeasuringTurnEnd::Answered(_));
        is_answered.then(|| self.reasoned.last() != Some(&usual))
    }

    /// Makes it known that this field steers reasoning, with the levels that a refusal has listed.
    fn keep_reasoning_control(&mut self, field: Option<ProbeField>) {
        let field = match field {
            Some(ProbeField::Reasoning(field, _)) => Some(field),
            Some(ProbeField::Parameter(..)) | None => None,
        };
        let mut known = self.known();
        let quirks = &mut known.dialect.quirks;
        let Some(levels) = wire::adopt_reasoning_field(quirks, field, self.effort_levels) else {
            let found = "nothing was seen that steers reasoning";
            return self.checks.push(DoctorCheck::good("effort", found));
        };
        let found = format!("reasoning is steered: {}", levels.join(" "));
        known.model.reasoning = levels;
        self.set_known(&known);
        self.checks.push(DoctorCheck::good("effort", found));
    }

    /// Whether files are read: the model must say what only the file tells.
    pub(super) async fn check_files(&mut self) {
        if *self.quirks().files_mut() {
            return;
        }
        self.change_quirks(|quirks| *quirks.files_mut() = true);
        let end = self.ask(&prompts::file(), SHORT_OUTPUT, json!({})).await;
        let is_read = match &end {
            MeasuringTurnEnd::Answered(response) => says(response, prompts::WORD_OF_FILE),
            _ => false,
        };
        if !is_read {
            self.change_quirks(|quirks| *quirks.files_mut() = false);
        }
        self.checks.push(match end {
            MeasuringTurnEnd::Limited => limited("files"),
            _ if is_read => DoctorCheck::good("files", "files are read"),
            _ => DoctorCheck::good("files", "files are not read, and left out"),
        });
    }
}

/// Whether the text of a response has this word.
pub(super) fn says(response: &Value, word: &str) -> bool {
    let output = response.get("output").map(Value::to_string);
    output.is_some_and(|output| output.to_lowercase().contains(word))
}

/// The value that all have; `None` if they differ or there is none.
fn uniform(values: &[bool]) -> Option<bool> {
    let first = *values.first()?;
    values.iter().all(|value| *value == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_a_field_by_a_word_of_its_own() {
        let is_named = |refusal, name| find_word(refusal, name).is_some();
        assert!(is_named("property 'reasoning' is unsupported", "reasoning"));
        assert!(is_named(r#"{"loc":["body","thinking"]}"#, "thinking"));
        assert!(!is_named("messages.2.reasoning_content", "reasoning"));
        assert!(!is_named("enable_thinking", "thinking"));
    }
}
