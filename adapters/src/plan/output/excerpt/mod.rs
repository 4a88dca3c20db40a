//! What is shown of an output that is too long.

use super::Measure;
use crate::plan::Keeping;

/// No excerpt has more characters.
pub const VISIBLE: usize = 5_000;

/// How every excerpt and notice begins.
pub const SHORTENED: &str = "[Tool output shortened";

/// How large the parts of an excerpt are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// By the limit.
    Adaptive,
    /// 1,200 characters of the beginning and of the end.
    Fixed,
}

/// The last line of every excerpt.
pub fn how_to_read(keeping: Keeping) -> &'static str {
    match keeping {
        Keeping::Disk => {
            "[Read the rest with the tools artifact_read or artifact_search (id above) if they are offered, or run the command again with a narrower filter.]"
        }
        Keeping::Memory => {
            "[Until the server stops: read the rest with the tools artifact_read or artifact_search (id above) if they are offered. Or run the command again with a narrower filter.]"
        }
        Keeping::Nothing => {
            "[The rest was not kept: run the command again with a narrower filter.]"
        }
    }
}

/// What is shown of `text`, which `measure` was taken of: at most `limit_chars`
/// characters, never more than [`VISIBLE`]; limits below 300 are taken for 300.
pub fn excerpt(
    text: &str,
    measure: &Measure,
    call_id: &str,
    limit_chars: usize,
    _style: Style,
    keeping: Keeping,
) -> String {
    let limit = limit_chars.clamp(300, VISIBLE);
    let call: String = call_id.chars().take(20).collect();
    let head = format!(
        "{SHORTENED}: {} characters]\nartifact {} {call}\n",
        measure.chars, measure.id
    );
    let tail = how_to_read(keeping);
    let room = limit.saturating_sub(head.chars().count() + tail.len() + 1);
    let body: String = text.chars().take(room).collect();
    format!("{head}{body}\n{tail}")
}

/// One line about an output that is long past, at most 200 characters.
pub fn notice(measure: &Measure, keeping: Keeping) -> String {
    let how = match keeping {
        Keeping::Disk => "artifact_read shows it if that tool is offered",
        Keeping::Memory => "artifact_read shows it until the server stops",
        Keeping::Nothing => "it was not kept",
    };
    format!(
        "{SHORTENED}: {}, {} characters, {}; {how}]",
        measure.kind.name(),
        measure.chars,
        measure.id
    )
}
