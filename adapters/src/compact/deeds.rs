//! What was done in a session, as far as its calls and outputs say.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::string_value;
use crate::plan::output;
use crate::plan::words;
use crate::turn::{Item, ItemKind};

/// The command of a call in one line, where it runs one.
pub(super) fn command(item: &Item<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Run<'a> {
        #[serde(borrow)]
        cmd: Option<&'a RawValue>,
        #[serde(borrow)]
        command: Option<&'a RawValue>,
        #[serde(borrow)]
        commands: Option<&'a RawValue>,
    }
    let arguments = words::arguments(item);
    let run: Run<'_> = serde_json::from_str(&arguments).ok()?;
    let raw = run.cmd.or(run.command).or(run.commands)?;
    let command = match string_value(Some(raw)) {
        Some(text) => text.into_owned(),
        None => serde_json::from_str::<Vec<String>>(raw.get())
            .ok()?
            .join(" "),
    };
    Some(line(&command, usize::MAX))
}

/// A call in one line: the tool and its command or arguments.
pub(super) fn call(item: &Item<'_>, most: usize) -> String {
    let name = match item.name() {
        Some(name) => name,
        None => item.type_name(),
    };
    let what = command(item).unwrap_or_else(|| match patched(item).as_slice() {
        [] => words::arguments(item).into_owned(),
        files => files.join(" "),
    });
    line(&format!("{name} {what}"), most)
}

/// The files that a call patches.
pub(super) fn patched(item: &Item<'_>) -> Vec<String> {
    const MARKS: [&str; 4] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    #[derive(Deserialize)]
    struct Operation {
        path: Option<String>,
    }
    #[derive(Deserialize)]
    struct Patch<'a> {
        #[serde(borrow)]
        input: Option<Cow<'a, str>>,
        #[serde(borrow)]
        patch: Option<Cow<'a, str>>,
    }
    if item.kind == ItemKind::ApplyPatchCall {
        let operation = item.operation();
        let operation = operation.and_then(|raw| serde_json::from_str(raw.get()).ok());
        return operation
            .and_then(|operation: Operation| operation.path)
            .into_iter()
            .collect();
    }
    let arguments = words::arguments(item);
    if !arguments.contains("*** ") {
        return Vec::new();
    }
    let text = match serde_json::from_str::<Patch<'_>>(&arguments) {
        Ok(patch) => patch.input.or(patch.patch).unwrap_or_default().into_owned(),
        Err(_) => String::new(),
    };
    // A patch may also stand in a command.
    let text = if text.is_empty() {
        arguments.replace("\\n", "\n")
    } else {
        text
    };
    let files = text
        .lines()
        .filter_map(|line| MARKS.iter().find_map(|mark| line.strip_prefix(mark)));
    files.map(|file| line(file, 200)).collect()
}

/// Words of a command that look like paths.
pub(super) fn paths(command: &str) -> impl Iterator<Item = &str> {
    let words = command.split(|char: char| char.is_whitespace() || "\"'`;|&()<>=,".contains(char));
    words.filter(|word| {
        word.contains('/')
            && word.len() > 2
            && word.len() <= 200
            && !word.contains("://")
            && !word.starts_with(['-', '$', '*'])
            && word.chars().any(char::is_alphanumeric)
    })
}

/// How a command ended, where its output says so.
pub(super) fn exit_code(output: &str) -> Option<i64> {
    // The header is short, and measuring reads all.
    let head: String = output.chars().take(2_000).collect();
    output::measure(&head).header.exit_code.or_else(|| {
        let (_, rest) = output.split_once("\"exit_code\":")?;
        let digits = rest.trim_start();
        let end = digits.find(|char: char| !char.is_ascii_digit() && char != '-');
        digits.get(..end.unwrap_or(digits.len()))?.parse().ok()
    })
}

/// Lines that tell of an error, the last ones last.
pub(super) fn errors(output: &str) -> Vec<String> {
    const MARKS: [&str; 7] = [
        "error",
        "Error",
        "ERROR",
        "panicked",
        "FAILED",
        "Traceback",
        "fatal:",
    ];
    const MOST: usize = 3;
    let mut found: Vec<String> = output
        .lines()
        .rev()
        .filter(|line| MARKS.iter().any(|mark| line.contains(mark)))
        .take(MOST)
        .map(|text| line(text, 200))
        .collect();
    found.reverse();
    found
}

/// A text in one line of at most so many characters.
pub(super) fn line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut blank = false;
    for char in text.trim().chars() {
        if char.is_whitespace() || char.is_control() {
            blank = true;
            continue;
        }
        if count + 2 >= most {
            line.push('…');
            break;
        }
        if std::mem::take(&mut blank) {
            line.push(' ');
            count += 1;
        }
        line.push(char);
        count += 1;
    }
    line
}
