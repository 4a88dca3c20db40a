//! Reasoning effort, in the parameters of the provider.

use std::cmp::Reverse;

use registry::{Model, ReasoningControl};
use serde_json::Value;

use super::body::BodyWriter;
use crate::chat::options::ChatOptions;
use crate::notes::Notes;
use crate::quirk_patch::EFFORT_LEVELS;
use crate::turn::Turn;

/// Writes nothing if the client asked for nothing: the default effort of a model is
/// its maker's choice.
pub(super) fn push(
    body: &mut BodyWriter<'_>,
    turn: &Turn<'_>,
    options: &ChatOptions<'_>,
    notes: &mut Notes,
) {
    let Some(wanted) = turn.controls.effort.as_deref() else {
        return;
    };
    let (control, model) = (options.quirks().reasoning_control, options.model);
    if model.reasoning.is_empty() {
        notes.add("parameter_dropped", "reasoning_effort");
        return;
    }
    match control {
        ReasoningControl::None => notes.add("parameter_dropped", "reasoning_effort"),
        ReasoningControl::Effort => {
            body.field("reasoning_effort", nearest(wanted, model, notes));
        }
        ReasoningControl::Thinking => {
            push_thinking(body, is_on(wanted, model, notes));
        }
        ReasoningControl::ThinkingAndEffort => match level(wanted, model, notes) {
            None => push_thinking(body, false),
            Some(level) => {
                push_thinking(body, true);
                body.field("reasoning_effort", level);
            }
        },
        ReasoningControl::EnableThinking => {
            body.field("enable_thinking", &is_on(wanted, model, notes));
        }
        ReasoningControl::Reasoning => match level(wanted, model, notes) {
            None => body.object("reasoning", "enabled", false.into()),
            Some(level) => body.object("reasoning", "effort", level.into()),
        },
        ReasoningControl::TemplateSwitch => {
            let on = is_on(wanted, model, notes);
            body.object("chat_template_kwargs", "enable_thinking", on.into());
        }
    }
}

fn push_thinking(body: &mut BodyWriter<'_>, on: bool) {
    let state = if on { "enabled" } else { "disabled" };
    body.object("thinking", "type", Value::from(state));
}

/// The level for a control that can also switch thinking off, which is `None`.
fn level<'t>(wanted: &'t str, model: &'t Model, notes: &mut Notes) -> Option<&'t str> {
    if wanted == "none" {
        return None;
    }
    Some(nearest(wanted, model, notes)).filter(|level| *level != "none")
}

/// Whether a control that is only a switch is on. It stays on for a model that
/// always thinks.
fn is_on(wanted: &str, model: &Model, notes: &mut Notes) -> bool {
    let off = matches!(wanted, "none" | "minimal") && has_level(model, "none");
    if !has_level(model, wanted) {
        let state = if off { "off" } else { "on" };
        notes.add("effort_mapped", format!("{wanted} to thinking {state}"));
    }
    !off
}

/// The model's level that is nearest to the wanted one; of two that are equally
/// near, the higher.
fn nearest<'t>(wanted: &'t str, model: &'t Model, notes: &mut Notes) -> &'t str {
    if has_level(model, wanted) {
        return wanted;
    }
    let rank = |level: &str| EFFORT_LEVELS.iter().position(|known| *known == level);
    let Some(target) = rank(wanted) else {
        return wanted;
    };
    let nearest = model
        .reasoning
        .iter()
        .filter_map(|level| Some((rank(level)?, level)))
        .min_by_key(|(rank, _)| (rank.abs_diff(target), Reverse(*rank)));
    match nearest {
        Some((_, level)) => {
            notes.add("effort_mapped", format!("{wanted} to {level}"));
            level
        }
        None => wanted,
    }
}

fn has_level(model: &Model, wanted: &str) -> bool {
    model.reasoning.iter().any(|level| level == wanted)
}
