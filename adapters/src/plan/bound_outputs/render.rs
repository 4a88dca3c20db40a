//! Makes the texts that are sent instead of outputs. This comes last, after all sizes are
//! decided: in a long session most outputs were excerpts in earlier requests and are
//! notices in this one, so that their excerpts need not be made.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bounded_output::{BoundedOutput, Cap, OutputForm};
use super::limits::OutputLimits;
use super::output_reader::OutputReader;
use crate::json;
use crate::plan::output::{self, ExcerptSource};
use crate::plan::{Replacement, ReplacementKind, Retention};
use crate::turn::{Item, Turn};

/// The text that is sent instead of the output; `None` if the output is sent as it is. Artifacts
/// with the ids `unkept` cannot be read back.
pub(super) fn replacement<'t>(
    output: &BoundedOutput,
    item: &'t Item<'t>,
    (call_id, turn): (&str, &Turn<'_>),
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
    let (kind, text) = match output.form {
        OutputForm::Whole => return None,
        OutputForm::Notice => (
            ReplacementKind::Notice,
            Arc::from(output::notice(&measure, output.is_instructions, retention)),
        ),
        OutputForm::Page(cap) => (
            ReplacementKind::Page,
            reader.render(output.item, item, cap, |text| {
                fit(cap, |chars| output::first_page(text, chars))
            })?,
        ),
        OutputForm::Excerpt(cap) => {
            let asked = output.origin.asked(turn);
            let wanted = asked.wanted();
            let style = limits.excerpt_style;
            let settings = (cap, call_id, wanted, style, retention);
            let text = reader.render(output.item, item, settings, |text| {
                let stop = || turn.stop.is_raised();
                let source = ExcerptSource::until_stopped(text, &measure, wanted, &stop);
                fit(cap, |chars| {
                    source.excerpt(call_id, chars, style, retention)
                })
            })?;
            (ReplacementKind::Excerpt, text)
        }
    };
    // What was read back is in its artifact already.
    let is_kept = retention != Retention::Nothing && kind != ReplacementKind::Page;
    (text.len() < measure.bytes).then(|| Replacement {
        kind,
        text,
        artifact: is_kept.then(|| measure.as_ref().into()),
    })
}

/// Calls `shorten` with a number of characters until its text is within both limits: the
/// part that it shows may have more bytes per character than the rest.
fn fit(cap: Cap, shorten: impl Fn(usize) -> String) -> String {
    let mut chars = cap.chars;
    let mut text = shorten(chars);
    let mut bytes = json::escaped_len(&text);
    while bytes > cap.bytes && chars > 1 {
        chars = (chars.saturating_mul(cap.bytes) / bytes).min(chars - 1);
        let shorter = shorten(chars);
        let fewer = json::escaped_len(&shorter);
        if fewer >= bytes {
            break;
        }
        (text, bytes) = (shorter, fewer);
    }
    text
}
