//! The arguments of calls.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json;
use crate::notes::Notes;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

/// Writes the inside of a call's `arguments` string. Arguments that are not a JSON
/// object are sent as a string in an object: a model's broken JSON stays in the
/// history, and servers that parse it (vLLM, llama.cpp) would refuse every later
/// request of the session.
pub(super) fn push_arguments(out: &mut Vec<u8>, item: &Item<'_>, notes: &mut Notes) {
    match item.kind {
        ItemKind::CustomToolCall => {
            out.extend_from_slice(b"{\\\"input\\\":\\\"");
            if let Some(input) = item.input() {
                json::escape_json_text(out, &input.escaped());
            }
            out.extend_from_slice(b"\\\"}");
        }
        ItemKind::LocalShellCall | ItemKind::ShellCall => push_object(out, item.action()),
        ItemKind::ApplyPatchCall => push_object(out, item.operation()),
        _ => match item.arguments().map(|raw| (raw, Text::from_raw(raw))) {
            Some((_, Some(text))) if !text.is_empty() => {
                match json::valid_object(&text.decoded()) {
                    Some(Cow::Borrowed(_)) => text.push_escaped(out),
                    Some(Cow::Owned(sound)) => {
                        notes.add("text_replaced", "half a surrogate pair in arguments");
                        json::escape_json_text(out, &sound);
                    }
                    None => push_wrapped(out, item, &text, notes),
                }
            }
            Some((raw, None)) if raw.get().starts_with('{') => {
                json::escape_json_text(out, raw.get());
            }
            Some((raw, None)) => push_wrapped(out, item, &raw.get().into(), notes),
            Some((_, Some(_))) | None => out.extend_from_slice(b"{}"),
        },
    }
}

/// Replaces the JSON string that begins at `start` by the JSON that is in it.
pub(super) fn unquote(out: &mut Vec<u8>, start: usize) {
    let inside = serde_json::from_slice::<String>(out.get(start..).unwrap_or_default());
    let Ok(inside) = inside else { return };
    out.truncate(start);
    json::push_one_line(out, &inside);
}

/// Writes broken arguments as a string in an object.
fn push_wrapped(out: &mut Vec<u8>, item: &Item<'_>, text: &Text<'_>, notes: &mut Notes) {
    let name = item.name().unwrap_or_default();
    notes.add("arguments_wrapped", format!("{name}: not a JSON object"));
    out.extend_from_slice(b"{\\\"arguments\\\":\\\"");
    json::escape_json_text(out, &text.escaped());
    out.extend_from_slice(b"\\\"}");
}

fn push_object(out: &mut Vec<u8>, raw: Option<&RawValue>) {
    json::escape_json_text(out, raw.map_or("{}", RawValue::get));
}
