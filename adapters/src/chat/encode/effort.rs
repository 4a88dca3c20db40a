//! Reasoning effort, in the parameters of the provider.

use registry::{Model, ReasoningControl};
use serde_json::Value;

use crate::body_writer::BodyWriter;
use crate::effort::{has_level, nearest};
use crate::notes::Notes;
use crate::turn::Turn;

/// Writes nothing if the client asked for nothing: the default effort of a model is
/// its maker's choice.
pub(super) fn push(body: &mut BodyWriter<'_, '_>, control: ReasoningControl) {
    let (model, notes) = (body.model, &mut body.notes);
    let Some(wanted) = body.turn.controls.wanted_effort(model, notes) else {
        return;
    };
    if model.reasoning.is_empty() {
        notes.add("parameter_dropped", "reasoning_effort");
        return;
    }
    match control {
        ReasoningControl::None => notes.add("parameter_dropped", "reasoning_effort"),
        ReasoningControl::Effort => {
            let level = nearest(wanted, model, notes);
            body.field("reasoning_effort", level);
        }
        ReasoningControl::Thinking => {
            let on = is_on(wanted, model, notes);
            push_thinking(body, on);
        }
        ReasoningControl::ThinkingAndEffort => match level(wanted, model, notes) {
            None => push_thinking(body, false),
            Some(level) => {
                push_thinking(body, true);
                body.field("reasoning_effort", level);
            }
        },
        ReasoningControl::EnableThinking => {
            let on = is_on(wanted, model, notes);
            body.field("enable_thinking", &on);
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

fn push_thinking(body: &mut BodyWriter<'_, '_>, on: bool) {
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

/// Whether the model thinks in this turn.
pub(in crate::chat) fn is_thinking(turn: &Turn<'_>, model: &Model) -> bool {
    let unread = &mut Notes::default();
    let wanted = turn.controls.wanted_effort(model, unread);
    let wanted = wanted
        .or(model.default_reasoning.as_deref())
        .unwrap_or("high");
    !model.reasoning.is_empty() && is_on(wanted, model, unread)
}
