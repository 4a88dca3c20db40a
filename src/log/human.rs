//! The log format for people: time, level and text on one line. The record of a turn becomes a
//! sentence; every other record has its message and its fields.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Effects, Style};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::safe_text::SafeText;
use super::turn_sentence::TurnSentence;

/// The format for people. Text from outside is escaped before colours are added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HumanFormat {
    /// Whether the local time of day is enough, as on a terminal. Else the time is complete, in
    /// UTC.
    pub(super) short_time: bool,
    /// Whether the level is coloured.
    pub(super) colors: bool,
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
        let level = *event.metadata().level();
        let mut text = String::new();
        if let Some(sentence) = TurnSentence::of(event) {
            write!(text, "{sentence}")?;
        } else {
            let target = event.metadata().target();
            if !target.starts_with(env!("CARGO_PKG_NAME")) {
                write!(text, "{target}: ")?;
            }
            let fields = context.field_format();
            fields.format_fields(Writer::new(&mut text), event)?;
        }
        self.write_time(&mut writer)?;
        let style = if self.colors {
            level_style(level)
        } else {
            Style::new()
        };
        let text = SafeText::up_to(&text, usize::MAX);
        writeln!(writer, " {style}{level:>5}{style:#} {text}")
    }
}

impl HumanFormat {
    fn write_time(self, writer: &mut Writer<'_>) -> fmt::Result {
        if !self.short_time {
            return SystemTime.format_time(writer);
        }
        let dimmed = if self.colors {
            Style::new().effects(Effects::DIMMED)
        } else {
            Style::new()
        };
        let time = jiff::Zoned::now().strftime("%H:%M:%S");
        write!(writer, "{dimmed}{time}{dimmed:#}")
    }
}

fn level_style(level: Level) -> Style {
    let color = match level {
        Level::ERROR => AnsiColor::Red,
        Level::WARN => AnsiColor::Yellow,
        Level::INFO => AnsiColor::Green,
        Level::DEBUG => AnsiColor::Blue,
        Level::TRACE => AnsiColor::Magenta,
    };
    color.on_default()
}
