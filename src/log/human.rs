//! The log format for people: time, level and text. The record of a turn is a line of its own
//! kind; every other record has its message and its fields. On a terminal, a long text goes on in
//! indented lines; anywhere else a record is one line.

use std::fmt;

use anstyle::{AnsiColor, Effects, Style};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::safe_text::SafeText;
use super::table::{TERMINAL_WIDTH, wrapped};
use super::turn_line::TurnFields;

/// The spaces before the further lines of a record: its text stands behind the time of day.
const INDENT: usize = 9;

/// The characters before the text of a record that goes to no terminal: date and time of day.
const DATE_AND_TIME: usize = 20;

/// A word as wide as a level.
const LEVEL_PLACE: &str = "-----";

/// The format for people. Text from outside is escaped before colours and line ends are added.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(super) struct HumanFormat {
    /// Whether the log goes to a terminal: then the time of day is enough, and lines are wrapped.
    pub(super) terminal: bool,
    /// Whether levels and marks are coloured.
    pub(super) colors: bool,
    /// Whether the terminal shows nothing but ASCII characters for sure.
    pub(super) ascii: bool,
    /// Whether the details of turns are shown, as at the level `debug`.
    pub(super) details: bool,
}

impl<S, N> FormatEvent<S, N> for HumanFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let turn = TurnFields::of(event);
        if !self.details && turn.as_ref().is_some_and(TurnFields::is_detail) {
            return Ok(());
        }
        self.write_time(&mut writer)?;
        if let Some(turn) = turn {
            return self.write_turn(&mut writer, &turn);
        }
        let level = *event.metadata().level();
        let mut text = String::new();
        let target = event.metadata().target();
        if !target.starts_with(env!("CARGO_PKG_NAME")) {
            text = format!("{target}: ");
        }
        let fields = context.field_format();
        fields.format_fields(Writer::new(&mut text), event)?;
        let style = self.style(level_color(level));
        write!(writer, " {style}{level:>5}{style:#} ")?;
        self.write_text(&mut writer, LEVEL_PLACE, &text)?;
        writeln!(writer)
    }
}

impl HumanFormat {
    fn write_time(self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = jiff::Zoned::now();
        if self.terminal {
            let dimmed = if self.colors {
                Style::new().effects(Effects::DIMMED)
            } else {
                Style::new()
            };
            write!(writer, "{dimmed}{}{dimmed:#}", now.strftime("%H:%M:%S"))
        } else {
            write!(writer, "{}", now.strftime("%Y-%m-%d %H:%M:%S"))
        }
    }

    fn write_turn(self, writer: &mut Writer<'_>, turn: &TurnFields) -> fmt::Result {
        // A log file is read in a terminal, too.
        let before = if self.terminal { INDENT } else { DATE_AND_TIME };
        let line = turn.line(usize::from(TERMINAL_WIDTH) - before, self.ascii);
        let shown = |text: &str| {
            let text = SafeText::new(text).to_string();
            if self.ascii {
                text.replace('\u{2026}', "~")
            } else {
                text
            }
        };
        if !line.model.is_empty() {
            write!(writer, " {}", shown(&line.model))?;
        }
        if !line.mark.is_empty() {
            let style = self.style(line.color);
            write!(writer, " {style}{}{style:#}", line.mark)?;
        }
        write!(writer, " {}", shown(&line.rest))?;
        let details = if self.details {
            turn.details()
        } else {
            String::new()
        };
        for text in [line.reason, details] {
            if text.is_empty() {
                continue;
            }
            writer.write_str(&if self.terminal {
                line_end()
            } else {
                ": ".to_owned()
            })?;
            self.write_text(writer, "", &text)?;
        }
        writeln!(writer)
    }

    /// Writes a text, wrapped on a terminal. `before` is a word as wide as what stands before it in
    /// its first line.
    fn write_text(self, writer: &mut Writer<'_>, before: &str, text: &str) -> fmt::Result {
        let text = SafeText::up_to(text, usize::MAX).to_string();
        if !self.terminal {
            return writer.write_str(&text);
        }
        let width = usize::from(TERMINAL_WIDTH) - INDENT;
        let lines = wrapped(format!("{before} {text}").trim_start(), width).join(&line_end());
        writer.write_str(
            lines
                .strip_prefix(before)
                .unwrap_or(&lines)
                .trim_start_matches(' '),
        )
    }

    fn style(self, color: AnsiColor) -> Style {
        if self.colors {
            color.on_default()
        } else {
            Style::new()
        }
    }
}

/// The end of a line behind which the record goes on.
fn line_end() -> String {
    format!("\n{:INDENT$}", "")
}

fn level_color(level: Level) -> AnsiColor {
    match level {
        Level::ERROR => AnsiColor::Red,
        Level::WARN => AnsiColor::Yellow,
        Level::INFO => AnsiColor::Green,
        Level::DEBUG => AnsiColor::Blue,
        Level::TRACE => AnsiColor::Magenta,
    }
}
