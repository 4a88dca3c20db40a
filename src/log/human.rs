//! The log format for people. The record of a turn becomes a sentence; every other record has the
//! usual format of tracing-subscriber.

use std::fmt::{self, Display};

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
        if turn.outcome.is_empty() {
            return self.0.format_event(context, writer, event);
        }
        SystemTime.format_time(&mut writer)?;
        writeln!(writer, " {:>5} {turn}", event.metadata().level())
    }
}

/// The fields of a turn's record that appear in the sentence, as strings and numbers that are empty
/// or zero where the record lacks them.
#[derive(Debug, Default)]
struct TurnSentence {
    request: String,
    outcome: String,
    route: String,
    caller: String,
    kind: String,
    input: u64,
    cached_percent: u64,
    estimated_input: Option<u64>,
    shared_percent: String,
    prefix: String,
    prefix_differs_at: String,
    output: u64,
    reasoning: u64,
    cost: Option<f64>,
    first_event_ms: Option<u64>,
    ms: u64,
    retries: u64,
    notes: String,
    fault: String,
    message: String,
    cause: String,
}

impl TurnSentence {
    fn text_field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "request" => &mut self.request,
            "outcome" => &mut self.outcome,
            "route" => &mut self.route,
            "caller" => &mut self.caller,
            "kind" => &mut self.kind,
            "shared_percent" => &mut self.shared_percent,
            "prefix" => &mut self.prefix,
            "prefix_differs_at" => &mut self.prefix_differs_at,
            "notes" => &mut self.notes,
            "fault" => &mut self.fault,
            "message" => &mut self.message,
            "cause" => &mut self.cause,
            _ => return None,
        })
    }
}

impl Visit for TurnSentence {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(text) = self.text_field(field.name()) {
            *text = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(text) = self.text_field(field.name()) {
            value.clone_into(text);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "cost" {
            self.cost = Some(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "input" => self.input = value,
            "cached_percent" => self.cached_percent = value,
            "estimated_input" => self.estimated_input = Some(value),
            "output" => self.output = value,
            "reasoning" => self.reasoning = value,
            "first_event_ms" => self.first_event_ms = Some(value),
            "ms" => self.ms = value,
            "retries" => self.retries = value,
            _ => {}
        }
    }
}

/// Leaves out whatever is empty or zero.
impl Display for TurnSentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.route.is_empty() {
            write!(f, "{} ", self.route)?;
        }
        write!(f, "{} after {}", self.outcome, Milliseconds(self.ms))?;
        if let Some(first) = self.first_event_ms.filter(|first| *first < self.ms) {
            write!(f, " (first event {})", Milliseconds(first))?;
        }
        if self.input > 0 {
            write!(f, ", {} tokens in", self.input)?;
            let estimated = self
                .estimated_input
                .filter(|estimated| estimated.abs_diff(self.input).saturating_mul(5) > self.input);
            match (self.cached_percent, estimated) {
                (0, None) => {}
                (0, Some(estimated)) => write!(f, " ({estimated} estimated)")?,
                (cached, None) => write!(f, " ({cached}% cached)")?,
                (cached, Some(estimated)) => {
                    write!(f, " ({cached}% cached, {estimated} estimated)")?;
                }
            }
        }
        self.write_prefix(f)?;
        if self.output > 0 {
            write!(f, ", {} out", self.output)?;
            if self.reasoning > 0 {
                write!(f, " ({} reasoning)", self.reasoning)?;
            }
        }
        if let Some(cost) = self.cost {
            write!(f, ", ${cost:.4}")?;
        }
        match self.retries {
            0 => {}
            1 => f.write_str(", 1 retry")?,
            more => write!(f, ", {more} retries")?,
        }
        if !self.fault.is_empty() {
            let message = self.message.trim_end_matches('.');
            write!(f, ": {}: {message}", self.fault)?;
        }
        if !self.cause.is_empty() {
            write!(f, " [{}]", self.cause)?;
        }
        if !self.notes.is_empty() {
            write!(f, "; {}", self.notes)?;
        }
        f.write_str("; ")?;
        for (name, default) in [(&self.caller, "other"), (&self.kind, "turn")] {
            if !name.is_empty() && name != default {
                write!(f, "{name} ")?;
            }
        }
        f.write_str(&self.request)
    }
}

impl TurnSentence {
    /// Says whether the request began with the same bytes as the session's last one, so that the
    /// provider's prompt cache can hit.
    fn write_prefix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shared_percent,
            prefix,
            prefix_differs_at,
            ..
        } = self;
        match prefix.as_str() {
            "" => Ok(()),
            "new_turn" | "parameters_changed" => f.write_str(", prefix kept"),
            _ => {
                write!(f, ", PREFIX BROKEN ({prefix}")?;
                if !prefix_differs_at.is_empty() {
                    write!(f, " at {prefix_differs_at}")?;
                }
                write!(f, ", {shared_percent}% shared)")
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
