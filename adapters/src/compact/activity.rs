//! Reads from calls and their outputs what was done in a session: commands, files, exit
//! codes and errors.

use std::borrow::Cow;

use serde::Deserialize;

use crate::item_text;
use crate::plan::output;
use crate::turn::{Item, ItemKind};

/// A call on one line of at most `max_chars` characters: the tool and its command, files or
/// arguments.
pub(super) fn describe_call(item: &Item<'_>, max_chars: usize) -> String {
    let name = match item.name() {
        Some(name) => name,
        None => item.type_name(),
    };
    let what = item_text::command(item).unwrap_or_else(|| match patched_files(item).as_slice() {
        [] => item_text::arguments_json(item).into_owned(),
        files => files.join(" "),
    });
    one_line(&format!("{name} {what}"), max_chars)
}

pub(super) fn patched_files(item: &Item<'_>) -> Vec<String> {
    const MARKS: [&str; 4] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    #[derive(Deserialize)]
    struct PatchOperation {
        path: Option<String>,
    }
    #[derive(Deserialize)]
    struct PatchArguments<'a> {
        #[serde(borrow)]
        input: Option<Cow<'a, str>>,
        #[serde(borrow)]
        patch: Option<Cow<'a, str>>,
    }
    if item.kind == ItemKind::ApplyPatchCall {
        let operation = item
            .operation()
            .and_then(|raw| serde_json::from_str(raw.get()).ok());
        return operation
            .and_then(|operation: PatchOperation| operation.path)
            .into_iter()
            .collect();
    }
    let arguments = item_text::arguments_json(item);
    if !arguments.contains("*** ") {
        return Vec::new();
    }
    let text = match serde_json::from_str::<PatchArguments<'_>>(&arguments) {
        Ok(patch) => patch.input.or(patch.patch).unwrap_or_default().into_owned(),
        Err(_) => String::new(),
    };
    // A patch may also be part of a command.
    let text = if text.is_empty() {
        arguments.replace("\\n", "\n")
    } else {
        text
    };
    let files = text
        .lines()
        .filter_map(|line| MARKS.iter().find_map(|mark| line.strip_prefix(mark)));
    files.map(|file| one_line(file, 200)).collect()
}

/// The words of a command that look like paths.
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

/// The exit code of a command, if its output names it.
pub(super) fn exit_code(output: &str) -> Option<i64> {
    // `measure` reads the whole text, but the header is short.
    let head: String = output.chars().take(2_000).collect();
    output::measure(&head).header.exit_code.or_else(|| {
        let (_, rest) = output.split_once("\"exit_code\":")?;
        let digits = rest.trim_start();
        let end = digits.find(|char: char| !char.is_ascii_digit() && char != '-');
        digits.get(..end.unwrap_or(digits.len()))?.parse().ok()
    })
}

/// The last lines that look like errors, in their order.
pub(super) fn error_lines(output: &str) -> Vec<String> {
    const MARKS: [&str; 7] = [
        "error",
        "Error",
        "ERROR",
        "panicked",
        "FAILED",
        "Traceback",
        "fatal:",
    ];
    const MAX_LINES: usize = 3;
    let mut found: Vec<String> = output
        .lines()
        .rev()
        .filter(|line| MARKS.iter().any(|mark| line.contains(mark)))
        .take(MAX_LINES)
        .map(|text| one_line(text, 200))
        .collect();
    found.reverse();
    found
}

/// A text on one line of at most `max_chars` characters: white space and control
/// characters become single spaces.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut blank = false;
    for char in text.trim().chars() {
        if char.is_whitespace() || char.is_control() {
            blank = true;
            continue;
        }
        if count + 2 >= max_chars {
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
