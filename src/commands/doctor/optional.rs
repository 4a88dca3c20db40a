//! What most providers ignore or refuse and some take: further fields of a request, files, and ways
//! to steer reasoning. A field that is only passed on is taken if it is not refused. What changes
//! the meaning of a request has to show an effect.

use adapters::provider_error::find_word;
use adapters::quirk_patch::{EffortLevels, ModelPatch, QuirkPatch};
use serde_json::{Value, json};

use super::measure::{MeasuringTurnEnd, MeasuringTurns, limited};
use super::prompts;
use super::report::DoctorCheck;

/// Fields of a request, as (name, JSON text).
pub(super) type ProbeFields = Vec<(&'static str, &'static str)>;

/// The most tokens of an answer of one word, reasoning included.
pub(super) const SHORT_OUTPUT: u64 = 1_000;

/// The name of the member of a function that is no field of the request, and of its quirk.
const STRICT: &str = "strict";
const STRICT_TOOLS: &str = "strict_tools";

/// Fields that are passed on to the providers that take them. Each belongs to the quirk of its
/// name, except for the one of functions.
const SERVICES: [(&str, &str); 4] = [
    ("prompt_cache_key", "\"doctor\""),
    ("service_tier", "\"auto\""),
    ("verbosity", "\"medium\""),
    (STRICT, "true"),
];

/// After more refusals of further fields none is sent any more, so that other requests are left.
const MAX_REFUSALS: usize = 3;

/// How many of the fields that steer reasoning are tried first.
const FREQUENT: usize = 2;

/// The fields that steer reasoning, with the values that turn it off and on. Those that most
/// providers have come first, and are tried first.
const CONTROLS: [(&str, &str, &str, &str); 5] = [
    (
        "thinking",
        "thinking",
        r#"{"type":"disabled"}"#,
        r#"{"type":"enabled"}"#,
    ),
    ("reasoning_effort", "effort", "\"none\"", "\"high\""),
    ("enable_thinking", "enable_thinking", "false", "true"),
    (
        "reasoning",
        "reasoning",
        r#"{"enabled":false}"#,
        r#"{"effort":"high"}"#,
    ),
    (
        "chat_template_kwargs",
        "template_switch",
        r#"{"enable_thinking":false}"#,
        r#"{"enable_thinking":true}"#,
    ),
];

impl MeasuringTurns {
    /// Whether the wire has this quirk with this value.
    pub(super) fn has_quirk(&self, key: &str, value: &Value) -> bool {
        let quirks = serde_json::to_value(self.known().dialect.quirks).unwrap_or_default();
        quirks.get(key) == Some(value)
    }

    /// Sets a quirk that the wire has.
    pub(super) fn set_quirk(&self, key: &str, value: Value) {
        let mut known = self.known();
        known.set_quirk(key, value);
        self.set_known(&known);
    }

    /// The fields that the parameters are sent with: those that the quirks leave out so far.
    pub(super) fn service_fields(&self) -> ProbeFields {
        let is_off = |(name, _): &(&str, &str)| self.has_quirk(quirk_of(name), &json!(false));
        SERVICES.into_iter().filter(is_off).collect()
    }

    /// Makes it known that these fields were taken.
    pub(super) fn keep_services(&self, taken: &ProbeFields) {
        for (name, _) in taken {
            self.set_quirk(quirk_of(name), json!(true));
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
        fields.retain(|(name, _)| fixed.iter().all(|(other, _)| other != name));
        for refusals in 1.. {
            let with_strict = fields.iter().any(|(name, _)| *name == STRICT);
            self.send_fields(&fixed, fields);
            let end = self.ask_again(input, max_output, more).await;
            if with_strict && self.has_quirk(STRICT_TOOLS, &json!(false)) {
                // A refusal has said so, and was understood.
                fields.retain(|(name, _)| *name != STRICT);
            }
            self.send_fields(&fixed, &[]);
            if with_strict {
                self.set_quirk(STRICT_TOOLS, json!(false));
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
            fields.retain(|(name, _)| find_word(&refusal.body, name).is_none());
            if fields.len() == before || refusals > MAX_REFUSALS {
                fields.clear();
            }
        }
        MeasuringTurnEnd::Limited
    }

    /// Sends these fields with every request, besides those that are configured.
    fn send_fields(&self, fixed: &[(String, String)], fields: &[(&'static str, &'static str)]) {
        let mut known = self.known();
        known.dialect.body = fixed.to_vec();
        for (name, json) in fields {
            if *name == STRICT {
                known.set_quirk(STRICT_TOOLS, json!(true));
            } else {
                let field = ((*name).to_owned(), (*json).to_owned());
                known.dialect.body.push(field);
            }
        }
        self.set_known(&known);
    }

    /// Which field steers reasoning: with it, reasoning no longer arrives that arrived before, or
    /// the other way round, or a refusal lists its levels.
    pub(super) async fn check_reasoning_control(&mut self) {
        if !self.has_quirk("reasoning_control", &json!("none")) {
            return;
        }
        // How reasoning arrives is known only after the first answer.
        let Some(usual) = uniform(self.reasoned.get(1..).unwrap_or_default()) else {
            let found = "not measured, because only some answers have reasoning";
            return self.checks.push(DoctorCheck::good("effort", found));
        };
        let value = |(name, _, off, on)| (name, if usual { off } else { on });
        let all: ProbeFields = CONTROLS.into_iter().map(value).collect();
        let (frequent, rare) = all.split_at(FREQUENT);
        let mut left = frequent.to_vec();
        let mut is_changed = self.is_changed_by(&mut left, usual).await;
        let mut saw_usual = is_changed == Some(false);
        if saw_usual && self.effort_levels.is_none() {
            left = rare.to_vec();
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
        let field = left.first().map(|(name, _)| *name);
        self.keep_reasoning_control(field);
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
    fn keep_reasoning_control(&mut self, field: Option<&'static str>) {
        let listed = self.effort_levels.map(EffortLevels::names);
        let listed: Vec<String> = listed.into_iter().flatten().map(str::to_owned).collect();
        let switch = || vec!["none".to_owned(), "high".to_owned()];
        let of_field = CONTROLS.iter().find(|(name, ..)| Some(*name) == field);
        let (control, levels) = match of_field.map(|(_, control, ..)| *control) {
            Some("thinking") if !listed.is_empty() => {
                let off = ["none".to_owned()].into_iter();
                let on = listed.into_iter().filter(|level| level != "none");
                ("thinking_and_effort", off.chain(on).collect())
            }
            _ if !listed.is_empty() => ("effort", listed),
            Some(control) => (control, switch()),
            None => {
                let found = "nothing was seen that steers reasoning";
                return self.checks.push(DoctorCheck::good("effort", found));
            }
        };
        let mut known = self.known();
        known.set_quirk("reasoning_control", json!(control));
        let found = format!("reasoning is steered: {}", levels.join(" "));
        known.model.reasoning = levels;
        self.set_known(&known);
        self.checks.push(DoctorCheck::good("effort", found));
    }

    /// Whether files are read: the model must say what only the file tells.
    pub(super) async fn check_files(&mut self) {
        if !self.has_quirk("files", &json!(false)) {
            return;
        }
        self.set_quirk("files", json!(true));
        let end = self.ask(&prompts::file(), SHORT_OUTPUT, json!({})).await;
        let is_read = match &end {
            MeasuringTurnEnd::Answered(response) => says(response, prompts::WORD_OF_FILE),
            _ => false,
        };
        if !is_read {
            self.set_quirk("files", json!(false));
        }
        self.checks.push(match end {
            MeasuringTurnEnd::Limited => limited("files"),
            _ if is_read => DoctorCheck::good("files", "files are read"),
            _ => DoctorCheck::good("files", "files are not read, and left out"),
        });
    }
}

/// The quirk of a field.
fn quirk_of(field: &str) -> &str {
    if field == STRICT { STRICT_TOOLS } else { field }
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
