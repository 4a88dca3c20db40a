//! What is shown of an output that is too long.
//!
//! Every excerpt begins with a block that names the artifact and says what it was,
//! shows evidence after the kind of output, says how much was left out, and ends
//! with a constant line on how to read the rest. It is a function of its arguments
//! alone, has never more characters than its limit, and is never silent.

use super::{Measure, OutputKind};
use crate::plan::Keeping;
use std::fmt::Write as _;

mod code;
mod command;
mod cut;
mod frame;
mod hits;
mod html;
mod json;
mod opaque;
mod web;

use cut::chars;

/// No excerpt has more characters.
pub const VISIBLE: usize = 5_000;

/// No excerpt needs fewer: lower limits are taken for this one.
const LEAST: usize = 300;

/// How every excerpt and notice begins.
pub const SHORTENED: &str = "[Tool output shortened";

/// Characters of the line that says what was left out.
const LEFT_OUT: usize = 70;

/// How large the parts of an excerpt are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// By the limit.
    Adaptive,
    /// 1,200 characters of the beginning and of the end.
    Fixed,
}

/// What there is to show of, and how much may be shown.
#[derive(Clone, Copy)]
struct Task<'t> {
    /// The text below Codex's header.
    text: &'t str,
    /// Lines of the whole text above it.
    above: usize,
    /// Characters that may be shown.
    room: usize,
    style: Style,
}

/// What is shown, and how much of it stands so in the text.
#[derive(Default)]
struct Part {
    text: String,
    chars: usize,
    lines: usize,
}

/// The last line of every excerpt.
pub fn how_to_read(keeping: Keeping) -> &'static str {
    match keeping {
        Keeping::Disk => {
            "[Read the rest with the tools artifact_read or artifact_search (id above) if they are offered, or run the command again with a narrower filter.]"
        }
        Keeping::Memory => {
            "[Until the server stops: read the rest with the tools artifact_read or artifact_search (id above) if they are offered. Or run it again with a narrower filter.]"
        }
        Keeping::Nothing => {
            "[The rest was not kept: run the command again with a narrower filter.]"
        }
    }
}

/// What is shown of `text`, of which `measure` was taken: at most `limit` characters,
/// never more than [`VISIBLE`].
pub fn excerpt(
    text: &str,
    measure: &Measure,
    call_id: &str,
    limit: usize,
    style: Style,
    keeping: Keeping,
) -> String {
    let limit = limit.clamp(LEAST, VISIBLE);
    let end = how_to_read(keeping);
    let fixed = end.len() + LEFT_OUT + 3;
    let mut shown = head(measure, call_id, limit.saturating_sub(fixed));
    let (above, body) = text
        .split_at_checked(measure.header.bytes)
        .unwrap_or(("", text));
    let task = Task {
        text: body,
        above: above.matches('\n').count(),
        room: limit.saturating_sub(fixed + chars(&shown)),
        style,
    };
    let part = if task.room < 60 {
        Part::default()
    } else {
        match measure.kind {
            OutputKind::CommandOutput => command::show(task),
            OutputKind::WebOrSearch => web::show(task),
            OutputKind::FileOrCodeOutput => code::show(task),
            OutputKind::Json => json::show(task),
            OutputKind::OpaqueToolOutput => opaque::show(task),
        }
    };
    let own = cut::first_chars(&part.text, task.room);
    if !own.is_empty() {
        shown.push_str(own.trim_end_matches('\n'));
        shown.push('\n');
    }
    let chars = measure.counted().saturating_sub(part.chars);
    let lines = measure.lines.saturating_sub(task.above + part.lines);
    let _ = writeln!(shown, "[Left out: {chars} characters, {lines} lines]");
    shown.push_str(end);
    shown
}

/// One line about an output that is long past, at most 200 characters.
pub fn notice(measure: &Measure, keeping: Keeping) -> String {
    let how = match keeping {
        Keeping::Disk => "artifact_read shows it if that tool is offered",
        Keeping::Memory => "artifact_read shows it until the server stops",
        Keeping::Nothing => "it was not kept",
    };
    let exit = match measure.header.exit_code {
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    format!(
        "{SHORTENED} to this line: artifact {}, {}, {} characters{exit}; {how}]",
        measure.id,
        measure.kind.name(),
        measure.chars,
    )
}

/// What was shortened. The first lines always stand there; the others as far as there
/// is room.
fn head(measure: &Measure, call_id: &str, room: usize) -> String {
    let mut head = format!("{SHORTENED}]\nartifact: {}\n", measure.id);
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
        ("call", cut::one_line(call_id, 64)),
    ];
    let numbers = numbers
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in known.into_iter().chain(numbers) {
        let line = format!("{name}: {value}\n");
        if chars(&head) + chars(&line) <= room {
            head.push_str(&line);
        }
    }
    head
}

#[cfg(test)]
mod tests;
