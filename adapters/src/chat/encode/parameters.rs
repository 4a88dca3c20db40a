//! Sampling and other parameters that are copied as they are.

use registry::ChatQuirks;

use super::body::BodyWriter;
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
    body.field_if("temperature", temperature, sampling, notes);
    body.field_if("top_p", controls.top_p, sampling, notes);
    let penalties = sampling && quirks.penalties;
    for (name, value) in [
        ("presence_penalty", controls.presence_penalty),
        ("frequency_penalty", controls.frequency_penalty),
    ] {
        body.field_if(name, value, penalties, notes);
    }
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
    body.field_if(
        "service_tier",
        controls.service_tier.as_deref(),
        quirks.service_tier,
        notes,
    );
    if let Some(key) = controls
        .prompt_cache_key
        .as_ref()
        .filter(|_| quirks.prompt_cache_key)
    {
        body.key("prompt_cache_key");
        key.push_json(&mut body.out);
    }
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
    let wanted = controls.logprobs || controls.top_logprobs.is_some_and(|n| n > 0);
    if !wanted {
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
