//! The texts that stand for outputs, at last: most outputs of a long session were
//! excerpts once and are notices now.

use std::sync::Arc;

use super::entry::{Entry, Form, Most};
use super::limits::Limits;
use crate::plan::output;
use crate::plan::{self, Artifact, Keeping, Shown};
use crate::turn::Item;

/// What is sent instead of the output; `None` if it stays as it is.
pub(super) fn shown(
    entry: &Entry,
    item: &Item<'_>,
    call_id: &str,
    limits: &Limits,
    keeping: Keeping,
) -> Option<Shown> {
    if entry.form == Form::Whole {
        return None;
    }
    let text = output::text(item)?;
    let measured = match &entry.measure {
        Some(_) => None,
        None => Some(output::measure(&text)),
    };
    let measure = entry.measure.as_ref().or(measured.as_ref())?;
    let (form, shown) = match entry.form {
        Form::Whole => return None,
        Form::Notice => (plan::Form::Notice, output::notice(measure, keeping)),
        Form::Page(most) => (
            plan::Form::Page,
            fitted(most, |chars| output::page(&text, chars)),
        ),
        Form::Excerpt(most) => (
            plan::Form::Excerpt,
            fitted(most, |chars| {
                output::excerpt(&text, measure, call_id, chars, limits.style, keeping)
            }),
        ),
    };
    (shown.len() < text.len()).then(|| Shown {
        form,
        text: Arc::from(shown),
        artifact: Some(Artifact {
            id: measure.id.clone(),
            kind: measure.kind,
            chars: measure.chars,
            lines: measure.lines,
            bytes: measure.bytes,
        }),
    })
}

/// A text within both limits: characters of several bytes may stand just where it
/// is cut out.
fn fitted(most: Most, cut: impl Fn(usize) -> String) -> String {
    let mut chars = most.chars;
    let mut text = cut(chars);
    while text.len() > most.bytes && chars > 1 {
        chars = (chars.saturating_mul(most.bytes) / text.len()).min(chars - 1);
        let shorter = cut(chars);
        if shorter.len() >= text.len() {
            break;
        }
        text = shorter;
    }
    text
}
