//! The log format for people. The record of a turn becomes a sentence; every other record has the
//! usual format of tracing-subscriber.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::str::FromStr;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::TURN_TARGET;

#[derive(Debug, Default)]
pub(super) struct HumanFormat(Format<Full>);

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
        let mut turn = TurnSentence::default();
        if event.metadata().target() == TURN_TARGET {
            event.record(&mut turn);
        }
        if turn.text("outcome").is_empty() {
            return self.0.format_event(context, writer, event);
        }
        SystemTime.format_time(&mut writer)?;
        writeln!(writer, " {:>5} {turn}", event.metadata().level())
    }
}

/// The fields of the record of a turn, as text. It is displayed as a sentence.
#[derive(Debug, Default)]
struct TurnSentence(HashMap<&'static str, String>);

impl TurnSentence {
    /// A field; empty if the record has none of this name.
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A field that is a number, if the record has it.
    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name)?.parse().ok()
    }

    /// A field that is a count; 0 if the record has none of this name.
    fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }
}

impl Visit for TurnSentence {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Display for TurnSentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [route, outcome, cause, notes] =
            ["route", "outcome", "cause", "notes"].map(|name| self.text(name));
        if !route.is_empty() {
            write!(f, "{route} ")?;
        }
        let ms = self.count("ms");
        write!(f, "{outcome} after {}", Milliseconds(ms))?;
        if let Some(first) = self.number("first_event_ms").filter(|first| *first < ms) {
            write!(f, " (first event {})", Milliseconds(first))?;
        }
        let input = self.count("input");
        if input > 0 {
            write!(f, ", {input} tokens in")?;
            let estimated = self
                .number("estimated_input")
                .filter(|estimated: &u64| estimated.abs_diff(input).saturating_mul(5) > input);
            match (self.count("cached_percent"), estimated) {
                (0, None) => {}
                (0, Some(estimated)) => write!(f, " ({estimated} estimated)")?,
                (cached, None) => write!(f, " ({cached}% cached)")?,
                (cached, Some(estimated)) => {
                    write!(f, " ({cached}% cached, {estimated} estimated)")?;
                }
            }
        }
        self.write_prefix(f)?;
        let (output, reasoning) = (self.count("output"), self.count("reasoning"));
        if output > 0 {
            write!(f, ", {output} out")?;
            if reasoning > 0 {
                write!(f, " ({reasoning} reasoning)")?;
            }
        }
        if let Some(cost) = self.number::<f64>("cost") {
            write!(f, ", ${cost:.4}")?;
        }
        match self.count("retries") {
            0 => {}
            1 => f.write_str(", 1 retry")?,
            more => write!(f, ", {more} retries")?,
        }
        let fault = self.text("fault");
        if !fault.is_empty() {
            write!(
                f,
                ": {fault}: {}",
                self.text("message").trim_end_matches('.')
            )?;
        }
        if !cause.is_empty() {
            write!(f, " [{cause}]")?;
        }
        if !notes.is_empty() {
            write!(f, "; {notes}")?;
        }
        f.write_str("; ")?;
        for (name, default) in [("caller", "other"), ("kind", "turn")] {
            let value = self.text(name);
            if !value.is_empty() && value != default {
                write!(f, "{value} ")?;
            }
        }
        f.write_str(self.text("request"))
    }
}

impl TurnSentence {
    /// Says whether the request began with the same bytes as the session's last one, so that the
    /// provider's prompt cache can hit.
    fn write_prefix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text("prefix") {
            "" => Ok(()),
            "new_turn" | "parameters_changed" => f.write_str(", prefix kept"),
            prefix => {
                write!(f, ", PREFIX BROKEN ({prefix}")?;
                let place = self.text("prefix_differs_at");
                if !place.is_empty() {
                    write!(f, " at {place}")?;
                }
                write!(f, ", {}% shared)", self.text("shared_percent"))
            }
        }
    }
}

/// Milliseconds, shown as `28 ms` or `1.4 s`.
struct Milliseconds(u64);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            milliseconds @ ..1000 => write!(f, "{milliseconds} ms"),
            milliseconds => write!(f, "{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        }
    }
}
