//! Makes the texts that are sent instead of outputs. This comes last, after all sizes are
//! decided: in a long session most outputs were excerpts in earlier requests and are
//! notices in this one, so that their excerpts need not be made.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bounded_output::{BoundedOutput, Cap, OutputForm};
use super::limits::OutputLimits;
use super::output_reader::OutputReader;
use crate::json;
use crate::plan::output;
use crate::plan::{Replacement, ReplacementKind, Retention};
use crate::turn::Item;

/// The text that is sent instead of the output; `None` if the output is sent as it is. Artifacts
/// with the ids `unkept` cannot be read back.
pub(super) fn replacement<'t>(
    output: &BoundedOutput,
    item: &Item<'t>,
    call_id: &str,
    limits: &OutputLimits,
    (retention, unkept): (Retention, &BTreeSet<String>),
    reader: &mut OutputReader<'t>,
) -> Option<Replacement> {
    if output.form == OutputForm::Whole {
        return None;
    }
    let measure = match &output.measure {
        Some(measure) => Arc::clone(measure),
        None => reader.measure(output.item, item)?.0,
    };
    let retention = if unkept.contains(&measure.id) {
        Retention::Nothing
    } else {
        retention
    };
    let settings = (output.form, call_id, limits.excerpt_style, retention);
    let (kind, text) = match output.form {
        OutputForm::Whole => return None,
        OutputForm::Notice => (
            ReplacementKind::Notice,
            Arc::from(output::notice(&measure, retention)),
        ),
        OutputForm::Page(cap) => (
            ReplacementKind::Page,
            reader.render(output.item, item, settings, |text| {
                fit(cap, |chars| output::first_page(text, chars))
            })?,
        ),
        OutputForm::Excerpt(cap) => (
            ReplacementKind::Excerpt,
            reader.render(output.item, item, settings, |text| {
                let style = limits.excerpt_style;
                let excerpt =
                    |chars| output::excerpt(text, &measure, call_id, chars, style, retention);
                fit(cap, excerpt)
            })?,
        ),
    };
    (text.len() < measure.bytes).then(|| Replacement {
        kind,
        text,
        artifact: (retention != Retention::Nothing).then(|| measure.as_ref().into()),
    })
}

/// Calls `shorten` with a number of characters until its text is within both limits: the
/// part that it shows may have more bytes per character than the rest.
fn fit(cap: Cap, shorten: impl Fn(usize) -> String) -> String {
    let mut chars = cap.chars;
    let mut text = shorten(chars);
    let mut bytes = json::escape(&text).len();
    while bytes > cap.bytes && chars > 1 {
        chars = (chars.saturating_mul(cap.bytes) / bytes).min(chars - 1);
        let shorter = shorten(chars);
        let fewer = json::escape(&shorter).len();
        if fewer >= bytes {
            break;
        }
        (text, bytes) = (shorter, fewer);
    }
    text
}
