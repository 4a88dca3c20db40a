//! The line that people read about a turn, made from the fields of its record.

use std::collections::HashMap;
use std::fmt::{self, Display, Write as _};
use std::str::FromStr;

use anstyle::AnsiColor;
use tracing::Event;
use tracing::field::{Field, Visit};

use super::TURN_TARGET;
use super::safe_text::SafeText;

/// The fewest and the most characters of the name of a model in a line.
const MODEL_CHARS: (usize, usize) = (8, 24);

/// The most characters of the tag of a session in a line.
const MAX_TAG_CHARS: usize = 16;

/// The fields of a record about a turn, as text.
#[derive(Debug, Default)]
pub(super) struct TurnFields(HashMap<&'static str, String>);

/// What is said about a turn in the log for people.
#[derive(Debug)]
pub(super) struct TurnLine {
    /// What stands before the mark.
    pub(super) model: String,
    /// How the turn ended, in a character or a word; empty while it runs.
    pub(super) mark: &'static str,
    /// The colour of the mark.
    pub(super) color: AnsiColor,
    /// What stands behind the mark.
    pub(super) rest: String,
    /// Why the turn failed or is incomplete; empty otherwise.
    pub(super) reason: String,
}

impl TurnFields {
    /// The fields of a record; `None` if it is not about a whole turn.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        if event.metadata().target() != TURN_TARGET {
            return None;
        }
        let mut fields = Self::default();
        event.record(&mut fields);
        let is_whole = ["outcome", "running_s"]
            .iter()
            .any(|name| fields.0.contains_key(name));
        is_whole.then_some(fields)
    }

    /// Whether only a reader who looks for details wants to know of the turn: it has done nothing
    /// for its user.
    pub(super) fn is_detail(&self) -> bool {
        self.text("kind") == "prewarm" && self.text("fault").is_empty()
    }

    /// The line in at most `width` characters.
    pub(super) fn line(&self, width: usize, is_ascii: bool) -> TurnLine {
        let (color, mark, ascii_mark, word) = match self.text("outcome") {
            "completed" => (AnsiColor::Green, "\u{2713}", "ok", ""),
            "failed" => (AnsiColor::Red, "\u{2717}", "failed", ""),
            "refused" => (AnsiColor::Red, "\u{2717}", "failed", "refused"),
            "" => (AnsiColor::Yellow, "", "", ""),
            other => (AnsiColor::Yellow, "\u{2026}", "-", other),
        };
        let mark = if is_ascii { ascii_mark } else { mark };
        let [model, tag] = ["model", "tag"].map(|name| SafeText::new(self.text(name)).to_string());
        let compacted = if self.text("kind") == "compaction" {
            " (compaction)"
        } else {
            ""
        };
        let chars = |text: &str| text.chars().count();
        let fixed = |rest: &str| chars(mark) + chars(rest) + chars(compacted) + 3;
        let (least, most) = MODEL_CHARS;
        // The share is the first that may be missing.
        let mut rest = self.rest(word, true);
        if fixed(&rest) + chars(&model).min(least) + chars(&tag).min(least) > width {
            rest = self.rest(word, false);
        }
        let room = width.saturating_sub(fixed(&rest));
        let left = room.saturating_sub(chars(&model).min(least));
        let tag = shortened(&tag, left.clamp(least, MAX_TAG_CHARS));
        let room = room.saturating_sub(chars(&tag)).clamp(least, most);
        let model = shortened(&model, room);
        if !tag.is_empty() {
            let _ = write!(rest, " {tag}");
        }
        rest.push_str(compacted);
        TurnLine {
            model,
            mark,
            color,
            rest,
            reason: self.reason(),
        }
    }

    /// What only a reader who looks for details wants to know.
    pub(super) fn details(&self) -> String {
        let mut parts = vec![self.text("request").to_owned()];
        let mut add = |text: String| parts.push(text);
        for (name, default) in [("caller", "other"), ("agent", ""), ("kind", "turn")] {
            let value = self.text(name);
            if !value.is_empty() && value != default {
                add(value.to_owned());
            }
        }
        for (name, label) in [("route", ""), ("session", "session ")] {
            let value = self.text(name);
            if !value.is_empty() {
                add(format!("{label}{value}"));
            }
        }
        if let Some(first) = self.number("first_event_ms") {
            add(format!("first event {}", Milliseconds(first)));
        }
        if let Some(estimated) = self.number::<u64>("estimated_input") {
            add(format!("{estimated} tokens in estimated"));
        }
        match self.count("reasoning") {
            0 => {}
            tokens => add(format!("{tokens} reasoning")),
        }
        if self.text("too_long_unshortened") == "true" {
            add("too long unshortened".to_owned());
        } else if let Some(cost) = self.number("unshortened_cost").map(Dollars) {
            add(format!("{cost} unshortened"));
        }
        match self.count("retries") {
            0 => {}
            1 => add("1 retry".to_owned()),
            more => add(format!("{more} retries")),
        }
        for name in ["cause", "fault"] {
            let value = self.text(name);
            if !value.is_empty() {
                add(format!("[{value}]"));
            }
        }
        let notes = self.text("notes");
        if !notes.is_empty() {
            add(notes.to_owned());
        }
        parts.join(", ")
    }

    fn reason(&self) -> String {
        let message = self.text("message");
        if message.is_empty() {
            self.text("advice").to_owned()
        } else {
            message.to_owned()
        }
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

    /// What stands behind the mark and before the tag of the session.
    fn rest(&self, word: &str, with_share: bool) -> String {
        let mut rest = word.to_owned();
        if let Some(seconds) = self.number::<u64>("running_s") {
            let received = match self.count("received") {
                0 => "nothing".to_owned(),
                bytes => ByteCount(bytes).to_string(),
            };
            let _ = write!(
                rest,
                "has been running for {seconds} s, {received} received"
            );
            return rest;
        }
        let mut add = |part: String| {
            rest += if rest.is_empty() { "" } else { " " };
            rest += &part;
        };
        add(ShortSeconds(self.count("ms")).to_string());
        let (input, output) = (self.count("input"), self.count("output"));
        if input > 0 {
            add(format!("{} in", short_count(input)));
            if with_share {
                add(format!("({}% cached)", self.count("cached_percent")));
            }
        }
        if output > 0 {
            add(format!("{} out", short_count(output)));
        }
        if let Some(cost) = self.number("cost").map(Dollars) {
            add(cost.to_string());
        }
        rest
    }
}

impl Visit for TurnFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// The text in at most so many characters.
fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    SafeText::up_to(text, chars.saturating_sub(1)).to_string()
}

/// A number of tokens in at most six characters, such as `12.3k`.
pub fn short_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        1_000_000..1_000_000_000 => {
            format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000)
        }
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// An amount of US dollars, shown as `$0.0449` or `$12.30`.
#[derive(Clone, Copy, Debug)]
pub struct Dollars(pub f64);

impl Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0 {
            0.0 => 0,
            small if small < 0.1 => 4,
            _ => 2,
        };
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

/// Milliseconds, shown as `0.3s` or `12.4s`, and from ten minutes on as `15m`.
struct ShortSeconds(u64);

impl Display for ShortSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            milliseconds @ ..600_000 => {
                write!(f, "{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100)
            }
            milliseconds => write!(f, "{}m", milliseconds / 60_000),
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
    use super::{ByteCount, short_count};

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

    #[test]
    fn numbers_are_short() {
        let counts = [0, 9_999, 10_000, 999_999, 12_345_678, u64::MAX];
        assert_eq!(
            counts.map(short_count),
            ["0", "9999", "10.0k", "999.9k", "12.3M", "18446744073G"]
        );
    }
}
