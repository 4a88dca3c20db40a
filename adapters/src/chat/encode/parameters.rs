//! Sampling and other parameters that are copied as they are.

use registry::ChatQuirks;

use crate::body_writer::BodyWriter;
use crate::chat::options::ChatOptions;
use crate::notes::Notes;
use crate::turn::{Controls, Turn};

pub(super) fn push(
    body: &mut BodyWriter<'_>,
    turn: &Turn<'_>,
    options: &ChatOptions<'_>,
    notes: &mut Notes,
) {
    let (controls, quirks) = (&turn.controls, options.quirks());
    let sampling = options.model.sampling;
    let temperature = temperature(controls, quirks, sampling, notes);
    body.push_sampling(temperature, controls, (sampling, quirks.penalties), notes);
    push_logprobs(body, controls, sampling && quirks.logprobs, notes);
}

/// The parameters that follow the reasoning control.
pub(super) fn push_services(
    body: &mut BodyWriter<'_>,
    turn: &Turn<'_>,
    options: &ChatOptions<'_>,
    notes: &mut Notes,
) {
    let (controls, quirks) = (&turn.controls, options.quirks());
    body.field_if(
        "verbosity",
        controls.verbosity.as_deref(),
        quirks.verbosity && !options.model.reasoning.is_empty(),
        notes,
    );
    body.push_services(
        controls,
        (quirks.service_tier, quirks.prompt_cache_key),
        notes,
    );
}

/// The wanted temperature, lowered to the provider's maximum.
fn temperature(
    controls: &Controls<'_>,
    quirks: &ChatQuirks,
    sampling: bool,
    notes: &mut Notes,
) -> Option<f64> {
    let wanted = controls.temperature?;
    match quirks.max_temperature {
        Some(highest) if wanted > highest => {
            if sampling {
                notes.add(
                    "temperature_lowered",
                    format!("{wanted} to the provider's highest {highest}"),
                );
            }
            Some(highest)
        }
        _ => Some(wanted),
    }
}

fn push_logprobs(
    body: &mut BodyWriter<'_>,
    controls: &Controls<'_>,
    accepted: bool,
    notes: &mut Notes,
) {
    if !controls.wants_logprobs() {
        return;
    }
    if !accepted {
        notes.add("parameter_dropped", "logprobs");
        return;
    }
    body.field("logprobs", &true);
    if let Some(top) = controls.top_logprobs {
        body.field("top_logprobs", &top);
    }
}
