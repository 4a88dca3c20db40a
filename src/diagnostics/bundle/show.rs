//! A report of a bundle for people. It shows no text of prompts or model output.

#[cfg(test)]
mod tests;
mod timeline;

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use adapters::fault::{Fault, Retry};
use registry::WindowSource;

use super::BundleTurn;
use super::diff::plural;
use crate::log::SafeText;

/// Longer lines are cut.
const MAX_LINE_CHARS: usize = 240;

/// A report with a section for each turn of a file, and the commands that can be run next with it.
/// It is safe to print to a terminal even if the file is hostile.
pub fn show(turns: &[BundleTurn], file: &Path) -> String {
    let file = file.display();
    let mut page = ReportText::default();
    for (index, turn) in turns.iter().enumerate() {
        if index > 0 {
            page.line(format_args!(""));
        }
        page.line(format_args!("turn {} of {}", index + 1, turns.len()));
        write_fields(&mut page, turn);
        page.line(format_args!("  time line"));
        timeline::write(&mut page, turn);
    }
    page.line(format_args!(""));
    page.line(format_args!(
        "Secrets are replaced by marks such as [redacted-1]. The conversation itself is in \
         the file: read it before you pass it on."
    ));
    page.line(format_args!("next:"));
    if turns.iter().all(BundleTurn::is_complete) {
        page.line(format_args!("  respondent replay {file}"));
        page.line(format_args!(
            "  respondent replay {file} --live PROVIDER/MODEL"
        ));
    } else {
        page.line(format_args!(
            "  no replay: a turn that lacks something cannot be run again"
        ));
    }
    page.line(format_args!("  respondent bundle diff {file} OTHER"));
    page.0
}

/// The text of a report; every line is escaped.
#[derive(Default)]
struct ReportText(String);

impl ReportText {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        let text = text.to_string();
        let _ = writeln!(
            self.0,
            "{}",
            SafeText::up_to(text.trim_end(), MAX_LINE_CHARS)
        );
    }

    /// A line with the name of a field and its value in two columns.
    fn field(&mut self, name: &str, text: impl fmt::Display) {
        self.line(format_args!("  {name:<10} {text}"));
    }

    /// A field with a line for each value.
    fn list(&mut self, name: &str, texts: impl Iterator<Item = String>) {
        for (index, text) in texts.enumerate() {
            self.field(if index == 0 { name } else { "" }, text);
        }
    }
}

fn write_fields(page: &mut ReportText, turn: &BundleTurn) {
    let began = UNIX_EPOCH.checked_add(Duration::from_millis(turn.began_ms));
    let began = began.map_or_else(|| "unknown".to_owned(), httpdate::fmt_http_date);
    page.field(
        "when",
        format_args!("{began}, took {}", duration_text(turn.took_us)),
    );
    page.field("request", &turn.request_id);
    if let Some(id) = turn.response_id() {
        page.field("response", id);
    }
    page.field("route", route_text(turn));
    let outcome = turn.outcome.map_or("not over", |outcome| outcome.label());
    page.field("outcome", outcome);
    if let Some(it) = &turn.fault {
        page.field("fault", fault_text(it));
        if let Some(cause) = &it.cause {
            page.field("", format_args!("caused by {cause}"));
        }
    }
    let notes = turn.notes.iter();
    page.list(
        "notes",
        notes.map(|(code, detail)| format!("{code}: {detail}")),
    );
    if let Some(usage) = &turn.usage {
        page.field(
            "tokens",
            format_args!(
                "input {} (cached {}, written to the cache {}), output {} (reasoning {})",
                usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning
            ),
        );
    }
    if let Some(attempt) = turn.attempts.last() {
        let window = attempt.window.map_or_else(
            || "unknown".to_owned(),
            |window| {
                format!(
                    "{} tokens, {}",
                    window.tokens,
                    window_source_text(window.source)
                )
            },
        );
        page.field(
            "window",
            format_args!(
                "{window}; input estimated at {} tokens, {} bytes a token",
                attempt.estimated_input, attempt.bytes_per_token
            ),
        );
    }
    let learned = turn.state_before.model_patches.iter();
    let patches = learned.map(|learned| {
        let patches: Vec<String> = learned.patches.iter().map(ToString::to_string).collect();
        format!(
            "{}/{}: {}",
            learned.provider,
            learned.model,
            patches.join("; ")
        )
    });
    page.list("learned patches", patches);
    page.field(
        "program",
        format_args!("{}, configuration {}", turn.version, turn.config_digest),
    );
    let omitted = turn.omitted.iter();
    let omitted = omitted.map(|it| format!("{}: {} of {} bytes kept", it.what, it.kept, it.total));
    page.list("omitted", omitted);
    if let Some(why) = &turn.rerun.failed {
        page.field("rerun", format_args!("not possible: {why}"));
    }
    let events = turn.rerun.events.iter();
    let events = events.map(|number| format!("event {number}"));
    let others: Vec<String> = events.chain(turn.rerun.parts.iter().cloned()).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        page.field(
            "rerun",
            format_args!("differs from what was sent: {others}"),
        );
    }
}

/// The model name that was asked for, and the routes that it resolved to.
fn route_text(turn: &BundleTurn) -> String {
    let settings = &turn.settings;
    let names: Vec<String> = settings
        .routes
        .iter()
        .map(registry::RouteSnapshot::full_name)
        .collect();
    let asked = &settings.asked;
    match names.split_first() {
        _ if settings.unresolved && names.is_empty() => format!("{asked} -> nowhere"),
        _ if settings.unresolved => format!("{asked} -> nowhere; near: {}", names.join(", ")),
        None => "not reached".to_owned(),
        Some((first, others)) => {
            let default = if settings.default { " (default)" } else { "" };
            let others = if others.is_empty() {
                String::new()
            } else {
                format!("; else {}", others.join(", "))
            };
            format!("{asked} -> {first}{default}{others}")
        }
    }
}

/// Kind, upstream status and message of a fault, and whether a retry may help.
fn fault_text(fault: &Fault) -> String {
    let mut text = fault.kind.name().to_owned();
    if let Some(status) = fault.upstream_status {
        let _ = write!(text, ", upstream status {status}");
    }
    let _ = write!(text, ": {}", fault.message);
    match fault.retry {
        Retry::Never => {}
        Retry::Soon => text.push_str(" (trying again may help)"),
        Retry::After(pause) => {
            let _ = write!(text, " (try again after {} s)", pause.as_secs_f64());
        }
    }
    text
}

fn window_source_text(source: WindowSource) -> &'static str {
    match source {
        WindowSource::Listed => "listed",
        WindowSource::Reported => "reported by the provider",
        WindowSource::Learned => "learned from an overflow",
        WindowSource::Assumed => "assumed",
    }
}

/// Microseconds as milliseconds or, from ten seconds on, as seconds.
fn duration_text(us: u64) -> String {
    let ms = us / 1000;
    if ms < 10_000 {
        format!("{ms} ms")
    } else {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    }
}

/// `40 pieces, 12345 bytes, longest pause 300 ms`.
fn chunks_text(pieces: &[super::BodyChunk]) -> String {
    let pause = pieces
        .iter()
        .zip(pieces.iter().skip(1))
        .map(|(one, next)| next.at_us.saturating_sub(one.at_us))
        .max();
    let mut text = format!(
        "{}, {}",
        plural(pieces.len(), "piece"),
        plural(super::BodyChunk::total(pieces), "byte")
    );
    if let Some(pause) = pause {
        let _ = write!(text, ", longest pause {}", duration_text(pause));
    }
    text
}
