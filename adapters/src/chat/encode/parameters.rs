//! Sampling and other parameters that are copied as they are.

use registry::ChatQuirks;

use crate::body_writer::BodyWriter;

pub(super) fn push(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) {
    let temperature = temperature(body, quirks);
    let accepted = [quirks.temperature, quirks.top_p, quirks.penalties];
    body.push_sampling(temperature, accepted);
    push_logprobs(body, quirks);
}

/// The parameters that follow the reasoning control.
pub(super) fn push_services(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) {
    let verbosity = body.turn.controls.verbosity.as_deref();
    let accepted = quirks.verbosity && !body.model.reasoning.is_empty();
    body.field_if("verbosity", verbosity, accepted);
    body.push_services(quirks.service_tier, quirks.prompt_cache_key);
}

/// The wanted temperature, lowered to the provider's maximum.
fn temperature(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) -> Option<f64> {
    let wanted = body.turn.controls.temperature?;
    match quirks.max_temperature {
        Some(highest) if wanted > highest => {
            if body.model.sampling {
                let detail = format!("{wanted} to the provider's highest {highest}");
                body.notes.add("temperature_lowered", detail);
            }
            Some(highest)
        }
        _ => Some(wanted),
    }
}

fn push_logprobs(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) {
    let controls = &body.turn.controls;
    if !controls.wants_logprobs() {
        return;
    }
    if !(body.model.sampling && quirks.logprobs) {
        return body.notes.add("parameter_dropped", "logprobs");
    }
    body.field("logprobs", &true);
    if let Some(top) = controls.top_logprobs {
        body.field("top_logprobs", &top);
    }
}
