//! Repair of the input of `apply_patch` calls (the V4A format).
//!
//! Models that were not trained on the format wrap the patch, lose its end marker or forget
//! the `+` of new lines. An error with only one possible meaning is repaired; all others are
//! left to the client, whose error message the model can act on. The reference is the grammar
//! that Codex sends with the tool: a patch that it accepts is never changed, and only a patch
//! that it accepts is returned.

use std::borrow::Cow;

mod grammar;
mod wrapper;

use grammar::{BEGIN, END, FileHeader, is_patch};

/// A valid patch that [`repair`] made from an invalid one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedPatch {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`, LF only.
    pub text: String,
    /// The repairs, in the order in which they were made; never empty.
    pub notes: Vec<&'static str>,
}

/// Repairs `input`. `None` if it is valid already or its meaning is ambiguous.
///
/// `is_whole` says that the model is known to have finished the patch. Otherwise no end marker is
/// added: a patch that was cut off can look like one that only lacks its end marker.
pub fn repair(input: &str, is_whole: bool) -> Option<RepairedPatch> {
    if is_patch(input) {
        return None;
    }
    let mut notes = Vec::new();
    let text = wrapper::strip_wrappers(input, &mut notes);
    let text = repair_lines(&text, is_whole, &mut notes)?;
    is_patch(&text).then_some(RepairedPatch { text, notes })
}

/// The part of a patch that changes one file.
struct FileSection<'a> {
    kind: FileHeader,
    header: &'a str,
    body: Vec<&'a str>,
}

fn repair_lines(text: &str, is_whole: bool, notes: &mut Vec<&'static str>) -> Option<String> {
    let all_crlf = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let text = if all_crlf {
        add_note(notes, "CRLF line ends made LF");
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    };
    let text = with_plain_markers(text, notes);
    let trimmed = text.trim_matches(['\n', '\r', ' ', '\t']);
    let terminated = text.trim_end_matches([' ', '\t']).ends_with('\n');
    let mut lines: Vec<&str> = trimmed.split('\n').collect();

    // Trailing blanks belong to a context line, but not to a marker.
    if trimmed.len() != text.strip_suffix('\n').unwrap_or(&text).len() {
        add_note(notes, "blank lines and spaces around the patch removed");
    }
    for line in &mut lines {
        if grammar::is_marker(line.trim_end()) && line.trim_end() != *line {
            *line = line.trim_end();
            add_note(notes, "blanks after markers removed");
        }
    }
    if lines.first() == Some(&BEGIN) {
        lines.remove(0);
    } else {
        add_note(notes, "begin marker added");
    }
    let closed = lines.last() == Some(&END);
    if closed {
        lines.pop();
    } else if !is_whole {
        return None;
    } else {
        add_note(notes, "end marker added");
    }

    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(BEGIN);
    out.push('\n');
    let sections = sections(&lines, notes)?;
    let last = sections.len().checked_sub(1)?;
    for (at, section) in sections.iter().enumerate() {
        let open_end = at == last && !closed;
        if open_end && !section.is_complete(terminated) {
            return None;
        }
        out.push_str(section.header);
        out.push('\n');
        for line in section.repaired_lines(notes)? {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.push_str(END);
    out.push('\n');
    Some(out)
}

/// The text with the markers that are written in another way, such as `*** Begin Patch ***`, as the
/// grammar has them.
fn with_plain_markers<'a>(text: Cow<'a, str>, notes: &mut Vec<&'static str>) -> Cow<'a, str> {
    let is_blank = |line: &&str| line.trim().is_empty();
    let before = text.split('\n').take_while(is_blank).count();
    let last = text.split('\n').count() - text.rsplit('\n').take_while(is_blank).count();
    let mut plain: Vec<Cow<'_, str>> = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        // The stars may be missing where only a marker is possible.
        let is_begun = plain.last().is_some_and(|line| line.trim_end() == BEGIN);
        let is_start = at <= before || at == before + 1 && is_begun;
        let end = || grammar::plain_marker(line, at + 1 == last).filter(|marker| marker == END);
        let marker = grammar::plain_marker(line, is_start).or_else(end);
        plain.push(marker.map_or(line.into(), Cow::Owned));
    }
    if plain.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return text;
    }
    add_note(notes, "markers written as the grammar has them");
    Cow::Owned(plain.join("\n"))
}

/// Splits the lines between the begin and end markers into files. `None` if text other than
/// blank lines comes before the first file header.
fn sections<'a>(lines: &[&'a str], notes: &mut Vec<&'static str>) -> Option<Vec<FileSection<'a>>> {
    let mut sections: Vec<FileSection<'a>> = Vec::new();
    for line in lines {
        if let Some(kind) = FileHeader::parse(line) {
            sections.push(FileSection {
                kind,
                header: line,
                body: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.body.push(line);
        } else if line.trim().is_empty() {
            add_note(notes, "blank lines between files removed");
        } else {
            return None;
        }
    }
    Some(sections)
}

impl FileSection<'_> {
    /// Whether the patch can end with this file although the end marker is missing. Without
    /// a final line end (`terminated`) the path may be cut off, and lines without `+` may be
    /// prose after the patch.
    fn is_complete(&self, terminated: bool) -> bool {
        match self.kind {
            FileHeader::Delete => terminated,
            FileHeader::Add => self.body.iter().any(|line| line.starts_with('+')),
            FileHeader::Update => !self.body.is_empty(),
        }
    }

    fn repaired_lines(&self, notes: &mut Vec<&'static str>) -> Option<Vec<Cow<'_, str>>> {
        match self.kind {
            FileHeader::Delete => {
                let blank = self.body.iter().all(|line| line.trim().is_empty());
                if !self.body.is_empty() {
                    add_note(notes, "blank lines between files removed");
                }
                blank.then(Vec::new)
            }
            FileHeader::Add => self.added_lines(notes),
            FileHeader::Update => Some(self.updated_lines(notes)),
        }
    }

    /// The lines of a new file, with `+` added where it is missing. `None` if it is unclear
    /// which lines belong to the file.
    fn added_lines(&self, notes: &mut Vec<&'static str>) -> Option<Vec<Cow<'_, str>>> {
        let filled = |line: &&&str| !line.trim().is_empty();
        let marked = self
            .body
            .iter()
            .filter(|line| line.starts_with('+'))
            .count();
        if marked == 0 {
            // It is ambiguous whether a blank line before the next marker belongs to the
            // file, and whether a leading space on every line is the margin of a diff.
            let blank_end = self.body.last().is_none_or(|line| line.trim().is_empty());
            let margin = self
                .body
                .iter()
                .filter(filled)
                .all(|line| line.starts_with(' '));
            let other = self
                .body
                .iter()
                .any(|line| grammar::is_marker(line) || *line == "@@");
            if blank_end || margin || other {
                return None;
            }
            add_note(notes, "plus signs added to the lines of a new file");
            return Some(self.body.iter().map(|line| with_plus(line)).collect());
        }
        if self.body.iter().filter(filled).count() != marked {
            return None;
        }
        let end = self.body.iter().rposition(|line| line.starts_with('+'))? + 1;
        let (inner, trailing) = self.body.split_at_checked(end)?;
        let gaps = inner.iter().any(|line| !line.starts_with('+'));
        if !trailing.is_empty() {
            if gaps {
                return None;
            }
            add_note(notes, "blank lines between files removed");
        }
        if gaps {
            add_note(notes, "plus signs added to blank lines of a new file");
        }
        Some(
            inner
                .iter()
                .map(|line| {
                    if line.starts_with('+') {
                        Cow::Borrowed(*line)
                    } else {
                        with_plus(line)
                    }
                })
                .collect(),
        )
    }

    /// The changes of a file, with the leading space added to empty context lines. Empty
    /// lines at the end of a change are removed, because they locate nothing.
    fn updated_lines(&self, notes: &mut Vec<&'static str>) -> Vec<Cow<'_, str>> {
        let mut out = Vec::with_capacity(self.body.len());
        let mut empty = 0;
        for line in &self.body {
            if line.is_empty() {
                empty += 1;
                continue;
            }
            let inside = line.starts_with(['+', '-', ' ']) && !out.is_empty();
            if empty > 0 && inside {
                out.extend(std::iter::repeat_n(Cow::Borrowed(" "), empty));
                add_note(notes, "space added to empty context lines");
            } else if empty > 0 {
                add_note(notes, "blank lines between changes removed");
            }
            empty = 0;
            if *line == "@@ " {
                out.push(Cow::Borrowed("@@"));
                add_note(notes, "blanks after markers removed");
            } else {
                out.push(Cow::Borrowed(*line));
            }
        }
        if empty > 0 {
            add_note(notes, "blank lines between changes removed");
        }
        out
    }
}

fn with_plus(line: &str) -> Cow<'_, str> {
    Cow::Owned(format!("+{line}"))
}

fn add_note(notes: &mut Vec<&'static str>, text: &'static str) {
    if !notes.contains(&text) {
        notes.push(text);
    }
}

#[cfg(test)]
mod tests;
