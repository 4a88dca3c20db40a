//! The log on standard error.
use std::{io, panic};

use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::human::Human;
use super::line::{Line, OneLine};

pub use super::human::TURN;

/// The target of records about turns that are kept.
pub const CAPTURE: &str = "respondent::capture";

/// How records look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For a reader.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Why the log could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not of the form `level` or `target=level,...`.
    #[error("the log filter cannot be read: {0}")]
    Filter(#[from] ParseError),
    /// There is a log already.
    #[error("the log is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sets up the log of the process, and lets panics speak through it.
///
/// `filter` has the form of tracing-subscriber's `EnvFilter`: `info`, or
/// `respondent=debug,warn`.
pub fn init(filter: &str, format: Format) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(filter)?;
    match format {
        Format::Human => human(filter, || OneLine(io::stderr())).try_init()?,
        Format::Json => json(filter, || OneLine(io::stderr())).try_init()?,
    }
    panic::set_hook(Box::new(|info| {
        // The payload may quote a request, so the place alone is told.
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place = %Line::new(&place), "panicked");
    }));
    Ok(())
}

/// Records for people.
fn human<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .event_format(Human::default())
        .with_writer(writer)
        .finish()
}

/// Records for programs: one JSON object each, with every field.
fn json<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .json()
        .flatten_event(true)
        .finish()
}

/// What is logged while `speak` runs; for tests.
#[cfg(test)]
pub(crate) fn spoken(format: Format, speak: impl FnOnce()) -> String {
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let memory = Memory::default();
    let written = memory.clone();
    let writer = move || OneLine(memory.clone());
    let filter = EnvFilter::new("info");
    match format {
        Format::Human => tracing::subscriber::with_default(human(filter, writer), speak),
        Format::Json => tracing::subscriber::with_default(json(filter, writer), speak),
    }
    let bytes = std::mem::take(&mut *written.0.lock().unwrap());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Format, spoken};

    const FORGED: &str = "m\r\n2026-01-01T00:00:00Z ERROR forged\x1b[2J\u{9b}1m\u{2028}";

    fn speak() {
        let error = io::Error::other(FORGED);
        tracing::info!(model = FORGED, shown = %FORGED, debugged = ?FORGED, %error, "{FORGED}");
    }

    fn is_one_clean_line(text: &str) {
        let line = text.strip_suffix('\n').unwrap();
        assert!(line.contains("forged"), "{line}");
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{2028}'),
            "{line:?}"
        );
    }

    // S44
    #[test]
    fn a_record_for_a_reader_is_one_line() {
        let text = spoken(Format::Human, speak);
        is_one_clean_line(&text);
    }

    // S44
    #[test]
    fn a_json_record_is_one_line_and_keeps_its_values() {
        let text = spoken(Format::Json, speak);
        is_one_clean_line(&text);
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["model"], FORGED);
        assert_eq!(record["level"], "INFO");
    }
}
