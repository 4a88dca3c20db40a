//! The command to run after a measurement.

use super::ProviderFindings;
use super::report::CheckVerdict;
use crate::commands::cli::DoctorArgs;

/// The command that is most useful after these findings.
pub(super) fn command(report: &ProviderFindings, options: &DoctorArgs) -> String {
    let mut checks = report.checks.iter();
    let has_failed = checks.any(|check| check.verdict == CheckVerdict::Failed);
    if let Some(model) = &report.model
        && !has_failed
        && !report.is_unwritten
    {
        return line(&[
            "respondent",
            "run",
            "codex",
            "--model",
            &format!("{}/{model}", report.id),
        ]);
    }
    let mut words = vec!["respondent", "doctor"];
    let is_new = report.written.is_none();
    if let Some(url) = options.url.as_deref().filter(|_| is_new) {
        words.extend(["--url", url]);
        if let Some(name) = &options.key_env {
            words.extend(["--key-env", name]);
        }
    }
    words.extend(["--provider", &report.id]);
    match (&report.model, &options.model) {
        (None, _) => words.extend(["--model", "MODEL"]),
        (Some(_), Some(model)) => words.extend(["--model", model]),
        (Some(_), None) => {}
    }
    if report.is_unwritten || (is_new && options.url.is_some()) {
        words.push("--write");
    }
    line(&words)
}

/// The words as a line for a shell.
fn line(words: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=%+,".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            return (*word).to_owned();
        }
        // A provider may have named the model: it can neither end the quotes nor the line.
        let inside: String = word.chars().filter(|c| !c.is_control()).collect();
        format!("'{}'", inside.replace('\'', "'\\''"))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_cannot_leave_its_quotes() {
        let words = ["run", "lab/m:free", "lab/m'; rm -rf ~\n#", ""];
        assert_eq!(line(&words), "run lab/m:free 'lab/m'\\''; rm -rf ~#' ''");
    }
}
