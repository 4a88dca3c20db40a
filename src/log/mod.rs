//! The log of the process, on standard error or in a file.
//!
//! `safe_text` keeps every record on one line, whatever a field holds; `human` is the format for
//! people, and `turn_line` what it says about a turn.

mod file;
mod human;
mod safe_text;
mod short_id;
mod table;
mod turn_line;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;
use tracing::{Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use safe_text::{SafeText, escape_lines};
pub use short_id::{is_id_prefix, short_id};
pub use table::{ClientColumn, TERMINAL_WIDTH, labelled, style_labels, table, wrapped};
pub use turn_line::{ByteCount, Dollars, short_count};

use file::LogFile;
pub(crate) use file::is_at;
use human::HumanFormat;
use safe_text::SafeWriter;

/// The target of the records that are written about a turn: while it runs for long, and when it
/// ends. `turn_line` reads their fields.
pub const TURN_TARGET: &str = "respondent::turn";

/// The target of records about turns that are kept on disk.
pub const CAPTURE_TARGET: &str = "respondent::capture";

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
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
    #[error("the log filter cannot be read")]
    Filter(#[from] ParseError),
    /// The log file cannot be opened.
    #[error("the log file {} cannot be opened", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The process has a log already.
    #[error("the log is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up the log of the process on standard error. From then on, panics are logged as well.
///
/// `filter` has the syntax of tracing-subscriber's `EnvFilter`: `info`, or
/// `respondent=debug,warn`. On a terminal, text for people has the time of day alone, colours, and
/// lines of at most 80 columns; the global choice of anstream and the variable `NO_COLOR` say
/// whether there are colours.
pub fn init(filter: &str, format: RecordFormat) -> Result<(), LogError> {
    let details = shows_details(filter);
    let filter = parse_filter(filter)?;
    match format {
        RecordFormat::Human => {
            let stderr = io::stderr();
            let format = HumanFormat {
                terminal: stderr.is_terminal(),
                colors: anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never,
                ascii: !is_utf8(|name| std::env::var(name).ok()),
                details,
            };
            human(filter, format, io::stderr).try_init()?;
        }
        RecordFormat::Json => json(filter, || SafeWriter(io::stderr())).try_init()?,
    }
    log_panics();
    Ok(())
}

/// The log file of the process. Set once.
static CURRENT_FILE: OnceLock<PathBuf> = OnceLock::new();

/// The file to which this process logs; `None` if it logs to standard error.
pub fn current_file() -> Option<&'static Path> {
    CURRENT_FILE.get().map(PathBuf::as_path)
}

/// Like [`init`], but the log is continued in a file, which does not grow without limit.
pub fn init_in_file(filter: &str, format: RecordFormat, path: &Path) -> Result<(), LogError> {
    let details = shows_details(filter);
    let filter = parse_filter(filter)?;
    let file = LogFile::open(path).map_err(|source| LogError::File {
        path: path.to_owned(),
        source,
    })?;
    match format {
        RecordFormat::Human => {
            let format = HumanFormat {
                details,
                ..HumanFormat::default()
            };
            human(filter, format, Mutex::new(file)).try_init()?;
        }
        RecordFormat::Json => json(filter, Mutex::new(SafeWriter(file))).try_init()?,
    }
    CURRENT_FILE.get_or_init(|| path.to_owned());
    log_panics();
    Ok(())
}

/// Opens a log file to be continued by a process that has its log there.
pub fn open_file(path: &Path) -> Result<File, LogError> {
    let opened = LogFile::open(path).map(LogFile::into_file);
    opened.map_err(|source| LogError::File {
        path: path.to_owned(),
        source,
    })
}

/// Logs the end of a stage of a turn.
pub fn turn_stage(stage: &str, took: Duration, request_id: &str) {
    tracing::debug!("stage {stage} took {} ms; {request_id}", took.as_millis());
}

fn log_panics() {
    panic::set_hook(Box::new(|info| {
        // The payload may quote a request, so only the location is logged.
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place = %SafeText::new(&location), "panicked");
    }));
}

/// Whether the filter of this text shows the details of turns.
fn shows_details(filter: &str) -> bool {
    let targets = filter.parse::<Targets>();
    targets.is_ok_and(|targets| targets.would_enable(TURN_TARGET, &Level::DEBUG))
}

/// Whether the terminal shows UTF-8, as the variables of the locale say. A process without any, as
/// in a container, is taken to do so.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// The filter for a text. rmcp logs several lines of structures for each client that connects, so
/// it is limited to warnings unless the text names it.
fn parse_filter(text: &str) -> Result<EnvFilter, ParseError> {
    const NOISY: &str = "rmcp";
    let filter = EnvFilter::builder().parse(text)?;
    // A filter with spans or fields is no list of targets. It is taken as it is.
    let Ok(targets) = text.parse::<Targets>() else {
        return Ok(filter);
    };
    let is_named = targets.iter().any(|(target, _)| target.starts_with(NOISY));
    if is_named || targets.default_level() <= Some(LevelFilter::WARN) {
        return Ok(filter);
    }
    Ok(filter.add_directive(format!("{NOISY}=warn").parse()?))
}

/// A record that cannot be written, as on a full disk, is lost. To tell of it on standard error
/// would end the program if that is where the log goes.
fn human<W>(filter: EnvFilter, format: HumanFormat, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .log_internal_errors(false)
        .event_format(format)
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
        .log_internal_errors(false)
        .json()
        .flatten_event(true)
        .finish()
}

/// Runs `action` and returns the only line that it logged with the filter `info`, for a file.
#[cfg(test)]
pub(crate) fn captured(format: RecordFormat, action: impl FnOnce()) -> String {
    let lines = captured_lines(format, action);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.concat() + "\n"
}

/// Runs `action` and returns the lines that it logged with the filter `info`, for a file.
#[cfg(test)]
pub(crate) fn captured_lines(format: RecordFormat, action: impl FnOnce()) -> Vec<String> {
    let text = tests::captured_as(format, HumanFormat::default(), "info", action);
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::human::HumanFormat;
    use super::safe_text::SafeWriter;
    use super::{RecordFormat, captured, human, json, parse_filter};

    const FORGED: &str = "m\r\n2026-01-01T00:00:00Z ERROR forged\x1b[2J\u{9b}1m\u{2028}";

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

    /// Runs `action` and returns what it logged.
    pub(super) fn captured_as(
        format: RecordFormat,
        style: HumanFormat,
        filter: &str,
        action: impl FnOnce(),
    ) -> String {
        use tracing::subscriber::with_default;

        let buffer = Buffer::default();
        let written = buffer.clone();
        let filter = parse_filter(filter).unwrap();
        match format {
            RecordFormat::Human => {
                with_default(human(filter, style, move || buffer.clone()), action);
            }
            RecordFormat::Json => {
                with_default(json(filter, move || SafeWriter(buffer.clone())), action);
            }
        }
        let bytes = std::mem::take(&mut *written.0.lock().unwrap());
        String::from_utf8(bytes).unwrap()
    }

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

    #[test]
    fn a_record_for_people_is_one_line() {
        let text = captured(RecordFormat::Human, log_forged_values);
        assert_is_one_clean_line(&text);
    }

    /// Promise: A log record is always a single line, whatever its values contain.
    #[test]
    fn a_json_record_is_one_line_and_keeps_its_values() {
        let text = captured(RecordFormat::Json, log_forged_values);
        assert_is_one_clean_line(&text);
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["model"], FORGED);
        assert_eq!(record["level"], "INFO");
    }

    #[test]
    fn on_a_terminal_the_time_is_short_and_only_the_level_is_coloured() {
        let line = |colors| {
            let style = HumanFormat {
                terminal: true,
                colors,
                ..HumanFormat::default()
            };
            let text = captured_as(RecordFormat::Human, style, "info", || {
                tracing::warn!("\x1b[31mforged");
            });
            // The time of day is whatever it is.
            text.replace(|c: char| c.is_ascii_digit(), "0")
        };
        assert_eq!(line(false), "00:00:00  WARN \\x0b[00mforged\n");
        let colored = "\x1b[0m00:00:00\x1b[0m \x1b[00m WARN\x1b[0m \\x0b[00mforged\n";
        assert_eq!(line(true), colored);
    }

    /// A record of a turn that failed, with the longest values.
    fn log_turn() {
        tracing::warn!(
            target: super::TURN_TARGET,
            request = "req_1",
            outcome = "failed",
            model = "a-model-with-a-very-long-name-of-more-than-24",
            tag = "a-folder-with-a-long-name",
            input = 999_999,
            cached_percent = 100,
            output = 999_999,
            cost = 9_999.99,
            ms = 599_900,
            first_event_ms = 20,
            message = "The provider has no credit left. ".repeat(5).trim_end(),
        );
    }

    /// Promise: The log has one line of at most 80 columns for each turn, and in a terminal below
    /// it the reason of a failure, never broken within a word; what was changed for the provider is
    /// told once in a session.
    #[test]
    fn a_turn_is_a_line_of_80_columns_and_its_reason() {
        let show = |details, ascii| {
            let style = HumanFormat {
                terminal: true,
                details,
                ascii,
                ..HumanFormat::default()
            };
            captured_as(RecordFormat::Human, style, "info", log_turn)
        };
        let text = show(false, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(
            lines[0].get(9..),
            Some(
                "a-model\u{2026} \u{2717} 599.9s 999.9k in (100% cached) 999.9k out $9999.99 a-folder\u{2026}"
            )
        );
        assert_eq!(lines.len(), 4, "{text}");
        for line in &lines[1..] {
            assert!(
                line.starts_with("         ") && line.ends_with(['.', 't', 'e', 'r']),
                "{text}"
            );
        }
        assert!(show(true, false).contains("\n         req_1, first event 20 ms"));
        let file = HumanFormat::default();
        let text = captured_as(RecordFormat::Human, file, "info", log_turn);
        let (line, _) = text.split_once(": ").unwrap();
        assert!(line.contains(" out $9999.99 a-folder"), "{line}");
        assert!(line.chars().count() <= 80, "{line}");
        let plain = show(false, true);
        assert!(
            plain.is_ascii() && plain.contains(" failed 599.9s "),
            "{plain}"
        );
    }

    #[test]
    fn a_locale_that_is_not_utf_8_gets_ascii() {
        for (name, value, utf8) in [
            ("LANG", "C", false),
            ("LANG", "de_DE.UTF-8", true),
            ("LC_CTYPE", "en_US.utf8", true),
            ("LC_ALL", "POSIX", false),
            ("LC_ALL", "", true),
        ] {
            let variable = |asked: &str| (asked == name).then(|| value.to_owned());
            assert_eq!(super::is_utf8(variable), utf8, "{name}={value}");
        }
    }

    #[test]
    fn rmcp_is_quiet_unless_the_filter_names_it() {
        for (filter, shown) in [
            ("info", 1),
            ("respondent=debug,info", 1),
            ("info,rmcp=info", 2),
            ("info,rmcp::service=info", 2),
            ("warn", 1),
            ("error", 0),
            ("off", 0),
        ] {
            let log = captured_as(RecordFormat::Human, HumanFormat::default(), filter, || {
                tracing::info!(target: "rmcp::service", "initialized");
                tracing::warn!(target: "rmcp::service", "lost");
            });
            assert_eq!(log.lines().count(), shown, "{filter}: {log}");
        }
    }
}
