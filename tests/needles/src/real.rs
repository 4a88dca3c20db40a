//! Outputs of real commands. The list of them is data, `real.toml`.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Context;
use regex::Regex;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{case::Case, scene::NeedleSort};

const LIST: &str = include_str!("real.toml");

/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// An output below this size would be sent whole.
const MIN_BYTES: usize = 45_000;
const MAX_BYTES: usize = 5_000_000;

/// A command that hangs is stopped after so many seconds.
const TIMEOUT_SECONDS: &str = "120";

/// A case that this machine cannot make.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// A command, and how to find the line that matters in what it prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RealCase {
    id: String,
    kind: String,
    sort: NeedleSort,
    /// The programs that it takes.
    #[serde(default)]
    needs: Vec<String>,
    /// What is run before, in the same new folder. Without it the command runs in the repository.
    prepare: Option<String>,
    command: String,
    question: String,
    /// Whether the question or the command has words of the needle.
    #[serde(default)]
    is_asked: bool,
    /// Finds the needle. Its groups are the evidence, or all that it matches if it has none.
    needle: String,
}

#[derive(Debug, Deserialize)]
struct RealList {
    case: Vec<RealCase>,
}

/// The cases that this machine can make, and the others.
pub(crate) fn cases() -> anyhow::Result<(Vec<Case>, Vec<Skipped>)> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for real in list()? {
        match real.case()? {
            Ok(case) => cases.push(case),
            Err(reason) => skipped.push(Skipped {
                id: real.id,
                reason,
            }),
        }
    }
    Ok((cases, skipped))
}

fn list() -> anyhow::Result<Vec<RealCase>> {
    let list: RealList = toml::from_str(LIST)?;
    Ok(list.case)
}

impl RealCase {
    /// The case, or why there is none.
    fn case(&self) -> anyhow::Result<Result<Case, String>> {
        let folder = TempDir::with_prefix("respondent-needles")?;
        for program in &self.needs {
            if !run(&format!("command -v {program}"), folder.path())?.0 {
                return Ok(Err(format!("{program} is not installed")));
            }
        }
        let place = match &self.prepare {
            Some(script) => {
                let (succeeded, text) = run(&format!("set -e\n{script}"), folder.path())?;
                if !succeeded {
                    let last = text.lines().next_back().unwrap_or_default();
                    return Ok(Err(format!("the preparation failed: {last}")));
                }
                folder.path()
            }
            None => Path::new(REPOSITORY),
        };
        let (_, output) = run(&self.command, place)?;
        if !(MIN_BYTES..MAX_BYTES).contains(&output.len()) {
            return Ok(Err(format!("it prints {} bytes", output.len())));
        }
        Ok(self.evidence(&output)?.map(|evidence| Case {
            id: self.id.clone(),
            kind: self.kind.clone(),
            is_real: true,
            sort: self.sort,
            kilobytes: None,
            is_asked: self.is_asked,
            question: self.question.clone(),
            command: self.command.clone(),
            evidence,
            output,
        }))
    }

    /// What tells the needle in this output, or why it is not there.
    fn evidence(&self, output: &str) -> anyhow::Result<Result<Vec<String>, String>> {
        let needle = Regex::new(&self.needle)?;
        let mut found: Vec<Vec<String>> = Vec::new();
        for groups in needle.captures_iter(output) {
            let skipped = usize::from(groups.len() > 1);
            let parts = groups.iter().skip(skipped).flatten();
            let parts: Vec<String> = parts.map(|part| part.as_str().trim().to_owned()).collect();
            if !found.contains(&parts) {
                found.push(parts);
            }
        }
        let last = found.pop();
        Ok(match last {
            Some(evidence) if found.is_empty() => Ok(evidence),
            Some(_) => Err(format!("{} places are like its needle", found.len() + 1)),
            None => Err("its needle is not there".into()),
        })
    }
}

/// Runs a script with its errors in its output. Returns whether it succeeded, and the output.
fn run(script: &str, place: &Path) -> anyhow::Result<(bool, String)> {
    let output = Command::new("timeout")
        .args([
            TIMEOUT_SECONDS,
            "bash",
            "-c",
            &format!("exec 2>&1\n{script}"),
        ])
        .current_dir(place)
        .env("REPOSITORY", REPOSITORY)
        .env("LC_ALL", "C.UTF-8")
        .env("PAGER", "cat")
        .stdin(Stdio::null())
        .output()
        .context("cannot run bash")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success(), text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_a_needle_and_a_question() {
        let list = list().unwrap();
        assert!(list.len() >= 25, "{}", list.len());
        let ids: BTreeSet<&str> = list.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids.len(), list.len());
        for case in &list {
            Regex::new(&case.needle).unwrap();
            assert!(!case.question.is_empty(), "{}", case.id);
        }
    }

    #[test]
    fn at_most_a_third_of_the_calls_ask_for_their_needles() {
        let list = list().unwrap();
        let asked = list.iter().filter(|case| case.is_asked).count();
        assert!(asked * 3 <= list.len(), "{asked} of {}", list.len());
    }

    #[test]
    fn a_needle_that_is_there_in_two_forms_is_none() {
        let case = |needle: &str| RealCase {
            id: "id".into(),
            kind: "log".into(),
            sort: NeedleSort::Odd,
            needs: Vec::new(),
            prepare: None,
            command: "cat log".into(),
            question: "Look.".into(),
            is_asked: false,
            needle: needle.into(),
        };
        let log = "a=1\nb=2\nb=2\nc=3\n";
        let evidence = |needle| case(needle).evidence(log).unwrap();
        assert_eq!(evidence("(b)=(2)"), Ok(vec!["b".into(), "2".into()]));
        assert_eq!(evidence("b="), Ok(vec!["b=".into()]));
        assert!(evidence("[ab]=.").is_err());
        assert!(evidence("d=").is_err());
    }
}
