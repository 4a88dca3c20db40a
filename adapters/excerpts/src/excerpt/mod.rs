//! Excerpts: what is sent of an output that is too long.
//!
//! Every excerpt begins with a block that names the artifact and describes the output,
//! shows its first and last lines and what differs most from the rest, says how much was left
//! out, and ends with a constant line on how to read the rest. It depends on its arguments
//! alone, and never has more characters than its limit.

use super::evidence::{self, Findings, Form, Wanted};
use super::{OutputKind, OutputMeasure, elements};
use crate::Retention;
use overview::Overview;
use queries::Query;
use std::fmt::Write as _;

mod body;
mod html;
mod json;
mod line_cut;
mod outline;
mod overview;
mod page;
mod queries;
mod record;
mod render;

/// The maximum characters of an excerpt.
pub const MAX_EXCERPT_CHARS: usize = 5_000;

/// An excerpt may always have this many characters: a lower limit is raised to it.
const MIN_EXCERPT_CHARS: usize = 300;

/// The beginning of every excerpt and notice.
pub const SHORTENED_MARK: &str = "[Tool output shortened";

/// The maximum characters of the line that says how much was left out.
const LEFT_OUT_CHARS: usize = 70;

/// How much of the beginning and of the end an excerpt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcerptStyle {
    /// As much as the limit allows.
    Adaptive,
    /// At most 1,200 characters of each.
    Fixed,
}

/// How an excerpt is laid out.
#[derive(Clone, Copy)]
struct ExcerptLayout {
    /// The maximum characters of the body.
    room: usize,
    style: ExcerptStyle,
    retention: Retention,
}

/// The part of an excerpt between its first block and its last lines.
#[derive(Default)]
struct ExcerptBody {
    text: String,
    /// How many characters of the output it shows.
    chars: usize,
    /// Of how many lines of the output it shows at least a part.
    lines: usize,
}

/// The last line of every excerpt: how to read the rest of the output.
pub fn read_hint(retention: Retention) -> &'static str {
    match retention {
        Retention::Disk => {
            "[Read the rest with the tools artifact_read or artifact_search (id above) if they are offered, or run the command again with a narrower filter.]"
        }
        Retention::Memory => {
            "[While the server keeps it in memory: read the rest with the tools artifact_read or artifact_search (id above) if they are offered. Or run it again with a narrower filter.]"
        }
        Retention::Nothing => {
            "[The rest was not kept: run the command again with a narrower filter.]"
        }
    }
}

/// An output that was searched for what an excerpt of it has to show.
pub struct ExcerptSource<'t> {
    measure: &'t OutputMeasure,
    /// The output below the header of Codex, and the lines and bytes of that header.
    text: &'t str,
    lines_above: usize,
    bytes_above: usize,
    form: Form,
    findings: Findings,
    overview: Overview,
    queries: Vec<Query>,
    /// The lines of code that define something.
    definitions: Vec<(usize, usize)>,
    /// The places of odd numbers and identifiers, in the order of the text. Lines with one are not
    /// folded.
    odd_numbers: Vec<usize>,
}

impl<'t> ExcerptSource<'t> {
    /// Searches an output. `measure` is the measure of `text`, and `wanted` what its call and the
    /// user asked for.
    pub fn new(text: &'t str, measure: &'t OutputMeasure, wanted: Wanted<'_>) -> Self {
        Self::until_stopped(text, measure, wanted, &|| false)
    }

    /// As [`Self::new`]. Of no use if the work has to stop meanwhile, for which `stop` is asked for
    /// each block of the text.
    pub fn until_stopped(
        text: &'t str,
        measure: &'t OutputMeasure,
        wanted: Wanted<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Self {
        let whole = text;
        let (header, text) = text
            .split_at_checked(measure.header.bytes)
            .unwrap_or(("", text));
        let form = match measure.kind {
            OutputKind::FileOrCodeOutput if elements::is_xml(text.as_bytes()) => Form::Xml,
            OutputKind::WebOrSearch if html::is_tagged(text) => Form::Page,
            OutputKind::Json => Form::Lines,
            OutputKind::OpaqueToolOutput => Form::Minified,
            OutputKind::WebOrSearch | OutputKind::CommandOutput | OutputKind::FileOrCodeOutput => {
                Form::of_lines(text)
            }
        };
        let mut findings = evidence::find(text, form, wanted, stop);
        let (overview, spots) = if stop() {
            (Overview::Nothing, Vec::new())
        } else {
            Overview::of(text, measure.kind, form)
        };
        findings.add(&spots);
        let definitions = match measure.kind {
            OutputKind::FileOrCodeOutput if !stop() => outline::definitions(text),
            _ => Vec::new(),
        };
        let queries = if stop() {
            Vec::new()
        } else {
            queries::queries(whole, header.len(), &findings.marks)
        };
        Self {
            measure,
            text,
            lines_above: header.matches('\n').count(),
            bytes_above: header.len(),
            form,
            overview,
            queries,
            definitions,
            odd_numbers: odd_numbers(text, &findings),
            findings,
        }
    }

    /// The excerpt of the output. It has at most `limit` characters, and never more than
    /// [`MAX_EXCERPT_CHARS`].
    pub fn excerpt(
        &self,
        call_id: &str,
        limit: usize,
        style: ExcerptStyle,
        retention: Retention,
    ) -> String {
        let limit = limit.clamp(MIN_EXCERPT_CHARS, MAX_EXCERPT_CHARS);
        let end = read_hint(retention);
        let fixed = end.len() + LEFT_OUT_CHARS + 3;
        let room = limit.saturating_sub(fixed);
        let mut excerpt = description(self.measure, call_id, retention, room);
        let layout = ExcerptLayout {
            room: limit.saturating_sub(fixed + excerpt.chars().count()),
            style,
            retention,
        };
        let body = if layout.room < 60 {
            ExcerptBody::default()
        } else {
            self.body(layout)
        };
        let text = line_cut::first_chars(&body.text, layout.room);
        if !text.is_empty() {
            excerpt.push_str(text.trim_end_matches('\n'));
            excerpt.push('\n');
        }
        let chars = self.measure.chars_without_header();
        let chars = chars.saturating_sub(body.chars);
        let lines = self.measure.lines;
        let lines = lines.saturating_sub(self.lines_above + body.lines);
        let _ = writeln!(excerpt, "[Left out: {chars} characters, {lines} lines]");
        excerpt.push_str(end);
        excerpt
    }
}

/// Where the evidence has an odd number or identifier, in the order of the text.
fn odd_numbers(text: &str, findings: &Findings) -> Vec<usize> {
    const WORD_BYTES: usize = 24;
    let is_number = |focus: usize| {
        let rest = text.as_bytes().get(focus..).unwrap_or_default();
        let signs = rest
            .iter()
            .take_while(|byte| matches!(byte, b'-' | b'+' | b'"'));
        let word = rest.iter().skip(signs.count()).take(WORD_BYTES);
        let mut word = word.take_while(|byte| byte.is_ascii_alphanumeric());
        word.any(u8::is_ascii_digit)
    };
    let evidence = findings.evidence.iter();
    let evidence = evidence.take_while(|it| it.score >= evidence::MIN_SCORE);
    let mut places: Vec<usize> = evidence
        .map(|unit| unit.focus)
        .filter(|focus| is_number(*focus))
        .collect();
    places.sort_unstable();
    places
}

/// Makes the one line that is sent instead of an old output, or of instructions that are too long
/// for the window. It has at most 200 characters.
pub fn notice(measure: &OutputMeasure, is_instructions: bool, retention: Retention) -> String {
    let how = match retention {
        Retention::Disk => "artifact_read shows it if that tool is offered",
        Retention::Memory => "artifact_read shows it while the server keeps it in memory",
        Retention::Nothing if is_instructions => "it was not kept, so read it again in parts",
        Retention::Nothing => "it was not kept",
    };
    let exit = match measure.header.exit_code {
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    let artifact = match retention {
        Retention::Nothing => String::new(),
        Retention::Disk | Retention::Memory => format!("artifact {}, ", measure.id),
    };
    format!(
        "{SHORTENED_MARK} to this line: {artifact}{}, {} characters{exit}; {how}]",
        if is_instructions {
            "instructions to read in full"
        } else {
            measure.kind.name()
        },
        measure.chars,
    )
}

/// The first block of an excerpt. Its first two lines are always there, the others if there is
/// room.
fn description(
    measure: &OutputMeasure,
    call_id: &str,
    retention: Retention,
    room: usize,
) -> String {
    let mut description = match retention {
        Retention::Nothing => format!("{SHORTENED_MARK}]\n"),
        Retention::Disk | Retention::Memory => {
            format!("{SHORTENED_MARK}]\nartifact: {}\n", measure.id)
        }
    };
    let header = &measure.header;
    let numbers = [
        ("exit code", header.exit_code.map(|code| code.to_string())),
        (
            "Original token count",
            header.original_tokens.map(|count| count.to_string()),
        ),
        (
            "Total output lines",
            header.total_lines.map(|count| count.to_string()),
        ),
    ];
    let known = [
        ("kind", measure.kind.name().to_owned()),
        (
            "size",
            format!(
                "{} characters, {} lines, {} bytes",
                measure.chars, measure.lines, measure.bytes
            ),
        ),
        ("call", line_cut::one_line(call_id, 64)),
    ];
    let numbers = numbers
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in known.into_iter().chain(numbers) {
        let line = format!("{name}: {value}\n");
        if description.chars().count() + line.chars().count() <= room {
            description.push_str(&line);
        }
    }
    description
}

#[cfg(test)]
mod tests;
