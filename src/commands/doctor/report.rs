//! What was checked, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::log::{TERMINAL_WIDTH, wrapped};

/// The width of the column with what was checked.
const SUBJECT_WIDTH: usize = 14;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckVerdict {
    Good,
    /// It works, but the user should know.
    Warning,
    Failed,
}

impl CheckVerdict {
    fn mark(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Warning => '⚠',
            Self::Failed => '✗',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One check: what was looked at, what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DoctorCheck {
    pub(super) verdict: CheckVerdict,
    pub(super) subject: &'static str,
    pub(super) found: String,
    remedy: Option<String>,
}

impl DoctorCheck {
    pub(super) fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self {
            verdict: CheckVerdict::Good,
            subject,
            found: found.into(),
            remedy: None,
        }
    }

    pub(super) fn warning(
        subject: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            verdict: CheckVerdict::Warning,
            remedy: Some(remedy.into()),
            ..Self::good(subject, found)
        }
    }

    /// A failure whose message says what to do if `remedy` does not.
    pub(super) fn failed(
        subject: &'static str,
        found: impl Into<String>,
        remedy: Option<&str>,
    ) -> Self {
        Self {
            verdict: CheckVerdict::Failed,
            remedy: remedy.map(str::to_owned),
            ..Self::good(subject, found)
        }
    }

    /// The check as lines of at most 80 columns.
    pub(super) fn write(&self, out: &mut String) {
        let indent = SUBJECT_WIDTH + 5;
        let width = usize::from(TERMINAL_WIDTH) - indent;
        let remedy = self.remedy.iter().map(|remedy| format!("→ {remedy}"));
        let lines = std::iter::once(self.found.clone()).chain(remedy);
        let lines = lines.flat_map(|text| wrapped(&text, width));
        for (index, line) in lines.enumerate() {
            let _ = if index == 0 {
                let (mark, subject) = (self.verdict.mark(), self.subject);
                writeln!(out, "  {mark} {subject:SUBJECT_WIDTH$} {line}")
            } else {
                writeln!(out, "{:indent$}{line}", "")
            };
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "check": self.subject,
            "status": self.verdict.name(),
            "message": self.found,
            "remedy": self.remedy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_written_in_lines_that_fit_a_terminal() {
        let mut out = String::new();
        DoctorCheck::good("stream", "an answer arrives").write(&mut out);
        DoctorCheck::warning("codex", "It is not set up.", "respondent codex setup")
            .write(&mut out);
        let long = "word ".repeat(20);
        DoctorCheck::failed("address", long.trim(), None).write(&mut out);
        assert!(out.starts_with(
            "  ✓ stream         an answer arrives\n  ⚠ codex          It is not set up.\n                   → respondent codex setup\n  ✗ address        word word"
        ));
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    }
}
