//! The texts that stand for outputs, at last: most outputs of a long session were
//! excerpts once and are notices now.

use std::sync::Arc;

use super::entry::{Entry, Form, Most};
use super::known::Known;
use super::limits::Limits;
use crate::json;
use crate::plan::output;
use crate::plan::{self, Artifact, Keeping, Shown};
use crate::turn::Item;

/// What is sent instead of the output; `None` if it stays as it is.
pub(super) fn shown<'t>(
    entry: &Entry,
    item: &Item<'t>,
    call_id: &str,
    limits: &Limits,
    keeping: Keeping,
    known: &mut Known<'t>,
) -> Option<Shown> {
    if entry.form == Form::Whole {
        return None;
    }
    let measure = match &entry.measure {
        Some(measure) => Arc::clone(measure),
        None => known.measure(entry.item, item)?.0,
    };
    let how = (entry.form, call_id, limits.style, keeping);
    let (form, text) = match entry.form {
        Form::Whole => return None,
        Form::Notice => (
            plan::Form::Notice,
            Arc::from(output::notice(&measure, keeping)),
        ),
        Form::Page(most) => (
            plan::Form::Page,
            known.shown(entry.item, item, how, |text| {
                fitted(most, |chars| output::page(text, chars))
            })?,
        ),
        Form::Excerpt(most) => (
            plan::Form::Excerpt,
            known.shown(entry.item, item, how, |text| {
                let excerpt =
                    |chars| output::excerpt(text, &measure, call_id, chars, limits.style, keeping);
                fitted(most, excerpt)
            })?,
        ),
    };
    (text.len() < measure.bytes).then(|| Shown {
        form,
        text,
        artifact: Some(Artifact {
            id: measure.id.clone(),
            kind: measure.kind,
            chars: measure.chars,
            lines: measure.lines,
            bytes: measure.bytes,
        }),
    })
}

/// A text within both limits: characters that take several bytes may stand just
/// where it is cut out.
fn fitted(most: Most, cut: impl Fn(usize) -> String) -> String {
    let mut chars = most.chars;
    let mut text = cut(chars);
    let mut bytes = json::escape(&text).len();
    while bytes > most.bytes && chars > 1 {
        chars = (chars.saturating_mul(most.bytes) / bytes).min(chars - 1);
        let shorter = cut(chars);
        let fewer = json::escape(&shorter).len();
        if fewer >= bytes {
            break;
        }
        (text, bytes) = (shorter, fewer);
    }
    text
}
