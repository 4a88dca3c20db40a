//! The log of the process on standard error.
//!
//! `safe_text` keeps every record on one line, whatever a field holds; `human` turns the record
//! of a turn into a sentence for people.

mod human;
mod safe_text;
mod table;

use std::{io, panic};

use serde::Deserialize;
use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use safe_text::{SafeText, escape_lines};
pub use table::table;

use human::HumanFormat;
use safe_text::SafeWriter;

/// The target of the record that is written when a turn ends. `human` reads its fields.
pub const TURN_TARGET: &str = "respondent::turn";

/// The target of records about turns that are kept on disk.
pub const CAPTURE_TARGET: &str = "respondent::capture";

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordFormat {
    /// Text for people.
    #[default]
    Human,
    /// One JSON object on each line.
    Json,
}

/// The reason why [`init`] failed.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not of the form `level` or `target=level,...`.
    #[error("the log filter cannot be read: {0}")]
    Filter(#[from] ParseError),
    /// The process has a log already.
    #[error("the log is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sets up the log of the process. From then on, panics are logged as well.
///
/// `filter` has the syntax of tracing-subscriber's `EnvFilter`: `info`, or
/// `respondent=debug,warn`.
pub fn init(filter: &str, format: RecordFormat) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(filter)?;
    match format {
        RecordFormat::Human => human(filter, || SafeWriter(io::stderr())).try_init()?,
        RecordFormat::Json => json(filter, || SafeWriter(io::stderr())).try_init()?,
    }
    panic::set_hook(Box::new(|info| {
        // The payload may quote a request, so only the location is logged.
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place = %SafeText::new(&location), "panicked");
    }));
    Ok(())
}

fn human<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .event_format(HumanFormat::default())
        .with_writer(writer)
        .finish()
}

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

/// Runs `action` and returns what it logged.
#[cfg(test)]
pub(crate) fn captured(format: RecordFormat, action: impl FnOnce()) -> String {
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let buffer = Buffer::default();
    let written = buffer.clone();
    let writer = move || SafeWriter(buffer.clone());
    let filter = EnvFilter::new("info");
    match format {
        RecordFormat::Human => tracing::subscriber::with_default(human(filter, writer), action),
        RecordFormat::Json => tracing::subscriber::with_default(json(filter, writer), action),
    }
    let bytes = std::mem::take(&mut *written.0.lock().unwrap());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{RecordFormat, captured};

    const FORGED: &str = "m\r\n2026-01-01T00:00:00Z ERROR forged\x1b[2J\u{9b}1m\u{2028}";

    fn log_forged_values() {
        let error = io::Error::other(FORGED);
        tracing::info!(model = FORGED, shown = %FORGED, debugged = ?FORGED, %error, "{FORGED}");
    }

    fn assert_is_one_clean_line(text: &str) {
        let line = text.strip_suffix('\n').unwrap();
        assert!(line.contains("forged"), "{line}");
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{2028}'),
            "{line:?}"
        );
    }

    // S44
    #[test]
    fn a_record_for_people_is_one_line() {
        let text = captured(RecordFormat::Human, log_forged_values);
        assert_is_one_clean_line(&text);
    }

    // S44
    #[test]
    fn a_json_record_is_one_line_and_keeps_its_values() {
        let text = captured(RecordFormat::Json, log_forged_values);
        assert_is_one_clean_line(&text);
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["model"], FORGED);
        assert_eq!(record["level"], "INFO");
    }
}
