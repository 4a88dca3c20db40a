//! What stands before an output in the history: its call, and the newest message of the user.

use std::borrow::Cow;

use crate::item_text;
use crate::plan::output::Wanted;
use crate::turn::{Item, Turn};

/// So many bytes of a text are read for what it asks for.
const READ_BYTES: usize = 2_000;

/// The names of files and tools that instruct an agent.
const INSTRUCTIONS: [&str; 9] = [
    "AGENTS.md",
    "AGENTS.override.md",
    "SKILL.md",
    "CLAUDE.md",
    "GEMINI.md",
    "copilot-instructions.md",
    ".cursorrules",
    "load_skill",
    "system_prompt",
];

/// The commands and tools that print files as they are.
const READERS: &str = " cat sed nl head tail bat less more type Get-Content gc read read_file \
    read_text_file view view_file open_file get_file_contents ";

/// What may precede a command in its arguments.
const SHELLS: &str =
    " bash sh zsh /bin/bash /bin/sh /bin/zsh pwsh powershell cmd -c -lc -l -Command /c rtk ";

/// The items before an output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// The index of its call, if it has one.
    pub(super) call: Option<usize>,
    /// The index of the newest message of the user.
    pub(super) message: Option<usize>,
}

impl Origin {
    fn call<'t, 'a>(self, turn: &'t Turn<'a>) -> Option<&'t Item<'a>> {
        turn.items.get(self.call?)
    }

    /// Whether the output may be instructions to an agent: its call reads such a file.
    pub(super) fn is_instructions(self, turn: &Turn<'_>) -> bool {
        let Some(call) = self.call(turn) else {
            return false;
        };
        let names = |text: &str| INSTRUCTIONS.iter().any(|name| text.contains(name));
        call.name().is_some_and(|name| names(&name))
            || call
                .arguments()
                .or(call.action())
                .is_some_and(|raw| names(start(raw.get())))
                && self.reads_file(turn)
    }

    /// Whether the call does nothing but print a file, or a part of it.
    pub(super) fn reads_file(self, turn: &Turn<'_>) -> bool {
        let Some(call) = self.call(turn) else {
            return false;
        };
        match item_text::command(call) {
            Some(command) => prints_file(&command),
            None => call.name().is_some_and(|name| is_one_of(&name, READERS)),
        }
    }

    /// What the call and the user asked for.
    pub(super) fn asked<'a>(self, turn: &Turn<'a>) -> AskedText<'a> {
        let item = |index: Option<usize>| turn.items.get(index?);
        // Of a command only its text: the folder it runs in is not what it looks for.
        let arguments = item(self.call).map(|call| match item_text::command(call) {
            Some(command) => command.into(),
            None => item_text::arguments_json(call),
        });
        let message = item(self.message).map(|message| item_text::message_text(message));
        AskedText {
            arguments: arguments.unwrap_or_default(),
            message: message.unwrap_or_default(),
        }
    }
}

/// The arguments of a call and the newest message of the user before its output.
pub(super) struct AskedText<'a> {
    arguments: Cow<'a, str>,
    message: Cow<'a, str>,
}

impl AskedText<'_> {
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            arguments: start(&self.arguments),
            message: start(&self.message),
        }
    }
}

fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(READ_BYTES))
        .unwrap_or(text)
}

/// Whether the last command of a line prints files: all programs of its pipe do.
fn prints_file(command: &str) -> bool {
    let last = command.trim().rsplit(['\n', ';', '&']).next();
    last.is_some_and(|last| last.split('|').all(is_reader))
}

fn is_reader(program: &str) -> bool {
    let words = program
        .split([' ', '\t', '"', '\''])
        .filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| is_one_of(word, SHELLS));
    let Some(name) = words.next().filter(|name| is_one_of(name, READERS)) else {
        return false;
    };
    // `sed` without this option edits.
    name != "sed" || words.next().is_some_and(|option| option == "-n")
}

fn is_one_of(word: &str, words: &str) -> bool {
    words
        .split(' ')
        .any(|known| !known.is_empty() && known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_only_prints_a_file_reads_it() {
        for (command, expected) in [
            ("cat src/lib.rs", true),
            ("bash -lc \"sed -n '1,200p' src/lib.rs\"", true),
            ("cd /work && nl -ba src/lib.rs | sed -n '1,80p'", true),
            ("Get-Content -Raw .\\a.ps1", true),
            ("sed -i s/a/b/ src/lib.rs", false),
            ("cat src/lib.rs | grep fn", false),
            ("cat a.txt; cargo test", false),
            ("rg cat", false),
            ("", false),
        ] {
            assert_eq!(prints_file(command), expected, "{command}");
        }
    }
}
