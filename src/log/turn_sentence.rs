//! The sentence that people read about a turn, made from the fields of its record.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::str::FromStr;

use tracing::Event;
use tracing::field::{Field, Visit};

use super::TURN_TARGET;

/// The fields of a record about a turn, as text. Displayed as a sentence: how the turn ended, or
/// how long it has been running.
#[derive(Debug, Default)]
pub(super) struct TurnSentence(HashMap<&'static str, String>);

impl TurnSentence {
    /// The sentence of a record; `None` if the record is not about a whole turn.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        if event.metadata().target() != TURN_TARGET {
            return None;
        }
        let mut sentence = Self::default();
        event.record(&mut sentence);
        let is_whole = ["outcome", "running_s"]
            .iter()
            .any(|name| sentence.0.contains_key(name));
        is_whole.then_some(sentence)
    }

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
        let route = self.text("route");
        if !route.is_empty() {
            write!(f, "{route} ")?;
        }
        if let Some(seconds) = self.number("running_s") {
            self.write_running(f, seconds)?;
        } else {
            self.write_ended(f)?;
        }
        f.write_str("; ")?;
        for (name, default) in [("caller", "other"), ("agent", ""), ("kind", "turn")] {
            let value = self.text(name);
            if !value.is_empty() && value != default {
                write!(f, "{value} ")?;
            }
        }
        f.write_str(self.text("request"))
    }
}

impl TurnSentence {
    fn write_running(&self, f: &mut fmt::Formatter<'_>, seconds: u64) -> fmt::Result {
        write!(f, "has been running for {seconds} s, ")?;
        match self.count("received") {
            0 => f.write_str("nothing received yet"),
            bytes => write!(f, "{} received", ByteCount(bytes)),
        }
    }

    fn write_ended(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [outcome, cause, notes] = ["outcome", "cause", "notes"].map(|name| self.text(name));
        let ms = self.count("ms");
        write!(f, "{outcome} after {}", Milliseconds(ms))?;
        if let Some(first) = self.number("first_event_ms").filter(|first| *first < ms) {
            write!(f, " (first event {})", Milliseconds(first))?;
        }
        self.write_tokens(f)?;
        self.write_cost(f)?;
        match self.count("retries") {
            0 => {}
            1 => f.write_str(", 1 retry")?,
            more => write!(f, ", {more} retries")?,
        }
        let message = self.text("message").trim_end_matches('.');
        if !message.is_empty() {
            write!(f, ": {message}")?;
        }
        if !cause.is_empty() {
            write!(f, " [{cause}]")?;
        }
        let fault = self.text("fault");
        if !fault.is_empty() {
            write!(f, " [{fault}]")?;
        }
        if !notes.is_empty() {
            write!(f, "; {notes}")?;
        }
        Ok(())
    }

    /// The cost of the turn, and what it would have been with nothing shortened if that differs.
    fn write_cost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cost) = self.number("cost").map(Dollars) else {
            return Ok(());
        };
        write!(f, ", {cost}")?;
        let unshortened = self.number("unshortened_cost").map(Dollars);
        if self.text("too_long_unshortened") == "true" {
            f.write_str(", too long unshortened")?;
        } else if let Some(unshortened) = unshortened
            && unshortened.to_string() != cost.to_string()
        {
            write!(f, ", {unshortened} unshortened")?;
        }
        Ok(())
    }

    /// The tokens of the turn, with the share of the input that came from the provider's cache.
    fn write_tokens(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = self.count("input");
        if input > 0 {
            let cached = self.count("cached_percent");
            write!(f, ", {input} tokens in ({cached}% cached")?;
            let estimated = self
                .number("estimated_input")
                .filter(|estimated: &u64| estimated.abs_diff(input).saturating_mul(5) > input);
            if let Some(estimated) = estimated {
                write!(f, ", {estimated} estimated")?;
            }
            f.write_str(")")?;
        }
        let (output, reasoning) = (self.count("output"), self.count("reasoning"));
        if output > 0 {
            write!(f, ", {output} out")?;
            if reasoning > 0 {
                write!(f, " ({reasoning} reasoning)")?;
            }
        }
        Ok(())
    }
}

/// An amount of US dollars, shown as `$0.0449` or `$12.30`.
#[derive(Clone, Copy, Debug)]
pub struct Dollars(pub f64);

impl Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 < 0.1 { 4 } else { 2 };
        write!(f, "${:.decimals$}", self.0)
    }
}

/// A number of bytes, shown as `900 bytes` or `12.3 kB`.
#[derive(Clone, Copy, Debug)]
pub struct ByteCount(pub u64);

impl Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ ..1000 => write!(f, "{bytes} bytes"),
            bytes @ 1000..1_000_000 => write!(f, "{}.{} kB", bytes / 1000, bytes % 1000 / 100),
            bytes => write!(
                f,
                "{}.{} MB",
                bytes / 1_000_000,
                bytes % 1_000_000 / 100_000
            ),
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

#[cfg(test)]
mod tests {
    use super::ByteCount;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (999, "999 bytes"),
            (12_345, "12.3 kB"),
            (7_000_000, "7.0 MB"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }
}
