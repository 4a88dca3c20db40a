//! What the quirks at the end of a measurement say, in words.

use registry::{ReasoningReplay, ReasoningRequired};
use serde::Serialize;

use super::measure::Known;
use super::report::{CheckVerdict, DoctorCheck};

/// What the quirks at the end say, in words. Nothing if no answer was complete.
pub(super) fn dialect_checks(known: &Known, so_far: &[DoctorCheck]) -> Vec<DoctorCheck> {
    if so_far
        .iter()
        .any(|check| check.verdict == CheckVerdict::Failed)
    {
        return Vec::new();
    }
    let quirks = &known.dialect.quirks;
    let mut checks = Vec::new();
    if let Some((form, required)) = quirks.reasoning_form() {
        let found = match (form, required) {
            (ReasoningReplay::None, _) => "it is not sent back".to_owned(),
            (form, ReasoningRequired::Never) => format!("it goes back as {}", in_file(form)),
            (form, required @ (ReasoningRequired::Calls | ReasoningRequired::Always)) => {
                let (form, required) = (in_file(form), in_file(required));
                format!("it must go back as {form} ({required})")
            }
        };
        checks.push(DoctorCheck::good("reasoning", found));
    }
    if let Some(role) = quirks.system_role() {
        let found = format!("instructions have the role {}", in_file(role));
        checks.push(DoctorCheck::good("roles", found));
    }
    let schema = quirks.schema();
    let found = if schema.is_empty() {
        "schemas are sent as they are".to_owned()
    } else {
        format!("schemas are rewritten: {}", in_file(schema))
    };
    checks.push(DoctorCheck::good("schema", found));
    checks
}

/// The value of a quirk as it is in a provider file, without the quotes of a string.
pub(super) fn in_file(value: impl Serialize) -> String {
    match toml::Value::try_from(value) {
        Ok(toml::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
