//! What an excerpt says first about the whole of an output, as its form requires: how many hits in
//! which files, which files a diff changes, the columns of a table, the headings of a page.
//!
//! Each form is read in one or two passes, in tables of a fixed size. They also find the places
//! that the form makes worth showing.

use std::fmt::Write as _;

mod diff;
mod headings;
mod hits;
mod secrets;
mod settings;
mod table;

use super::html;
use super::line_cut::one_line;
use crate::OutputKind;
use crate::evidence::{Bits, Form, Spot};

pub(super) use hits::{HitCounts, hit};

/// What is said about the whole of an output.
pub(super) enum Overview {
    Nothing,
    Hits(HitCounts),
    Diff(diff::ChangedFiles),
    Table(table::Columns),
    Page(headings::Headings),
}

impl Overview {
    /// Reads an output, and finds the places that its form makes worth showing.
    pub(super) fn of(text: &str, kind: OutputKind, form: Form) -> (Self, Vec<Spot>) {
        let is_text = matches!(
            kind,
            OutputKind::CommandOutput | OutputKind::FileOrCodeOutput
        );
        if matches!(form, Form::Minified | Form::Xml) {
            return (Self::Nothing, Vec::new());
        }
        if is_text && diff::is_diff(text) {
            let (files, spots) = diff::read(text);
            return (Self::Diff(files), spots);
        }
        if is_text && let Some(hits) = HitCounts::of(text) {
            return (Self::Hits(hits), Vec::new());
        }
        match (form, kind) {
            (Form::Table(separator), _) => {
                let (columns, spots) = table::read(text, separator);
                (Self::Table(columns), spots)
            }
            (_, OutputKind::WebOrSearch) => (Self::Page(headings::read(text, form)), Vec::new()),
            (_, OutputKind::FileOrCodeOutput) => {
                let headings = headings::read(text, form);
                if headings.are_many() {
                    (Self::Page(headings), Vec::new())
                } else {
                    (Self::Nothing, settings::read(text))
                }
            }
            (Form::Lines, OutputKind::CommandOutput) => (Self::Nothing, settings::read(text)),
            (_, _) => (Self::Nothing, Vec::new()),
        }
    }

    /// The lines that describe the output, in at most `room` characters.
    pub(super) fn text(&self, room: usize) -> String {
        match self {
            Self::Hits(hits) => hits.text(room / 8),
            Self::Diff(files) => files.text(room / 8),
            Self::Table(columns) => columns.text(room / 6),
            Self::Page(headings) if headings.are_many() => headings.text(room / 10),
            Self::Page(_) | Self::Nothing => String::new(),
        }
    }
}

/// What each of these places is worth.
fn worth(bits: Bits, places: usize) -> Bits {
    let places = u32::try_from(places).unwrap_or(u32::MAX).max(1);
    bits * 4 / (places.saturating_add(3))
}

/// Names with their numbers, the largest ones first; or, if they do not fit, the smallest. `names`
/// has the smallest one first.
fn by_count<N>(names: &[N], name: impl Fn(&N) -> String, room: usize) -> String {
    let (mut all, mut left) = (Vec::new(), Some(room));
    for name in names.iter().rev().map(&name) {
        left = left.and_then(|left| left.checked_sub(name.chars().count() + 2));
        if left.is_none() {
            break;
        }
        all.push(name);
    }
    if left.is_some() {
        return all.join(", ");
    }
    list(
        names.iter().map(name),
        names.len(),
        "with as many or more",
        room,
    )
}

/// The characters for how many more names there are.
const MORE_CHARS: usize = 24;

/// Names with numbers, as many as fit, and how many more there are. `names` has the most important
/// one first.
fn list(names: impl Iterator<Item = String>, count: usize, more: &str, room: usize) -> String {
    let mut text = String::new();
    let mut shown = 0;
    let mut left = room.saturating_sub(MORE_CHARS);
    for name in names {
        let chars = name.chars().count() + 2;
        if chars > left {
            break;
        }
        left -= chars;
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&name);
        shown += 1;
    }
    if shown < count {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{} {more}", count - shown);
    }
    text
}
