//! Excerpts: what is sent of an output that is too long.
//!
//! Every excerpt begins with a block that names the artifact and describes the output,
//! shows the parts that matter most for this kind of output, says how much was left out,
//! and ends with a constant line on how to read the rest. It depends on its arguments
//! alone, and never has more characters than its limit.

use super::{OutputKind, OutputMeasure};
use crate::plan::Retention;
use std::fmt::Write as _;

mod code;
mod command;
mod html;
mod json;
mod key_lines;
mod line_cut;
mod line_excerpt;
mod opaque;
mod web;

/// The maximum characters of an excerpt.
pub const MAX_EXCERPT_CHARS: usize = 5_000;

/// An excerpt may always have so many characters: a lower limit is raised to this.
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

/// The text that an excerpt is made of, and its limits.
#[derive(Clone, Copy)]
struct ExcerptInput<'t> {
    /// The output below the header of Codex.
    text: &'t str,
    /// The number of lines of that header.
    lines_above: usize,
    /// The maximum characters of the body.
    room: usize,
    style: ExcerptStyle,
}

/// The part of an excerpt between its first block and its last lines.
#[derive(Default)]
struct ExcerptBody {
    text: String,
    /// How many characters of the output it shows.
    chars: usize,
    /// How many lines of the output it shows.
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

/// Makes the excerpt of an output, where `measure` is the measure of `text`. It has at
/// most `limit` characters, and never more than [`MAX_EXCERPT_CHARS`].
pub fn excerpt(
    text: &str,
    measure: &OutputMeasure,
    call_id: &str,
    limit: usize,
    style: ExcerptStyle,
    retention: Retention,
) -> String {
    let limit = limit.clamp(MIN_EXCERPT_CHARS, MAX_EXCERPT_CHARS);
    let end = read_hint(retention);
    let fixed = end.len() + LEFT_OUT_CHARS + 3;
    let mut excerpt = description(measure, call_id, retention, limit.saturating_sub(fixed));
    let (header, output) = text
        .split_at_checked(measure.header.bytes)
        .unwrap_or(("", text));
    let input = ExcerptInput {
        text: output,
        lines_above: header.matches('\n').count(),
        room: limit.saturating_sub(fixed + excerpt.chars().count()),
        style,
    };
    let body = if input.room < 60 {
        ExcerptBody::default()
    } else {
        match measure.kind {
            OutputKind::CommandOutput => command::excerpt_body(input),
            OutputKind::WebOrSearch => web::excerpt_body(input),
            OutputKind::FileOrCodeOutput => code::excerpt_body(input),
            OutputKind::Json => json::excerpt_body(input),
            OutputKind::OpaqueToolOutput => opaque::excerpt_body(input),
        }
    };
    let text = line_cut::first_chars(&body.text, input.room);
    if !text.is_empty() {
        excerpt.push_str(text.trim_end_matches('\n'));
        excerpt.push('\n');
    }
    let chars = measure.chars_without_header().saturating_sub(body.chars);
    let lines = measure.lines.saturating_sub(input.lines_above + body.lines);
    let _ = writeln!(excerpt, "[Left out: {chars} characters, {lines} lines]");
    excerpt.push_str(end);
    excerpt
}

/// Makes the one line that is sent instead of an old output. It has at most 200
/// characters.
pub fn notice(measure: &OutputMeasure, retention: Retention) -> String {
    let how = match retention {
        Retention::Disk => "artifact_read shows it if that tool is offered",
        Retention::Memory => "artifact_read shows it while the server keeps it in memory",
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
        measure.kind.name(),
        measure.chars,
    )
}

/// The first block of an excerpt. Its first two lines are always there, the others as far
/// as there is room.
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
