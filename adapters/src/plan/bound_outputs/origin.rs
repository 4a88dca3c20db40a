//! What precedes an output in the history: its call, and the newest message of the user.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use serde_json::value::RawValue;

use crate::item_text;
use crate::plan::output::{self, Wanted};
use crate::turn::{Item, Turn};

/// How many bytes of a text are read to find out what it asks for.
const READ_BYTES: usize = 2_000;

/// The names of files that instruct an agent, in any case. They may only follow the end of a folder
/// or of a word, but one that begins with a sign may follow anything.
const INSTRUCTION_FILES: [&str; 14] = [
    "agents.md",
    "agent.md",
    "agents.override.md",
    "skill.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "conventions.md",
    "copilot-instructions.md",
    ".instructions.md",
    ".cursorrules",
    ".cursor/rules",
    ".windsurfrules",
    ".clinerules",
];

/// Parts of the names of tools that instruct an agent.
const INSTRUCTION_TOOLS: [&str; 2] = ["load_skill", "system_prompt"];

/// The commands and tools that print files as they are.
const READERS: &str = " cat sed nl head tail bat less more type Get-Content gc read read_file \
    read_text_file view view_file open_file get_file_contents Read View ";

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

    /// Whether the output may be instructions to an agent: its call reads such a file, whatever
    /// else it does.
    pub(super) fn is_instructions(self, turn: &Turn<'_>) -> bool {
        let Some(call) = self.call(turn) else {
            return false;
        };
        let name = call.name().unwrap_or_default();
        if INSTRUCTION_TOOLS.iter().any(|tool| name.contains(tool)) {
            return true;
        }
        let raw = call.arguments().or(call.action()).map(RawValue::get);
        if !raw.is_some_and(|raw| names_instructions(start(raw))) {
            return false;
        }
        match item_text::command(call) {
            Some(command) => prints_instructions(start(&command)),
            None => is_one_of(&name, READERS),
        }
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

    /// Whether the call was one of a tool that runs in the proxy, which bounds its results itself.
    pub(super) fn is_of_proxy_tool(self, turn: &Turn<'_>) -> bool {
        let name = self.call(turn).and_then(Item::name);
        let tool = name.and_then(|name| turn.tools.get(None, &name));
        tool.is_some_and(|tool| tool.proxy.is_some())
    }

    /// Whether the call was one of a tool that reads artifacts.
    pub(super) fn reads_artifact(self, turn: &Turn<'_>) -> bool {
        self.call(turn).is_some_and(output::reads_artifact)
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

/// Whether any command of a line prints a file of instructions: one of its programs does, and those
/// after it in the pipe pass all of it on.
fn prints_instructions(command: &str) -> bool {
    command.split(['\n', ';', '&']).any(|one| {
        let mut programs = one.split('|');
        while let Some(program) = programs.next() {
            if reads_instructions(program, command) && programs.clone().all(is_reader) {
                return true;
            }
        }
        false
    })
}

/// Whether a program of this command prints a file of instructions. With `find` and `xargs`, a
/// variable of a loop or a pattern, the files are named elsewhere in the command.
fn reads_instructions(program: &str, command: &str) -> bool {
    let program = program.trim().trim_start_matches("do ");
    let mut marks = ["-exec ", "-execdir ", "xargs "].into_iter();
    if let Some((_, inner)) = marks.find_map(|mark| program.split_once(mark)) {
        let is_option = |word: &&str| {
            word.is_empty()
                || word.starts_with('-')
                || word.bytes().all(|byte| byte.is_ascii_digit())
        };
        let name = inner.split(' ').find(|word| !is_option(word));
        return name.is_some_and(|name| is_one_of(name, READERS)) && names_instructions(command);
    }
    let files = if program.contains(['$', '*', '{', '`']) {
        command
    } else {
        program
    };
    is_reader(program) && names_instructions(files)
}

/// Whether a text names a file of instructions.
fn names_instructions(text: &str) -> bool {
    static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true);
        builder.build(INSTRUCTION_FILES).ok()
    });
    let Some(names) = &*NAMES else { return false };
    let is_word = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let bytes = text.as_bytes();
    names.find_overlapping_iter(text).any(|found| {
        let before = found.start().checked_sub(1).and_then(|at| bytes.get(at));
        let begins_with_sign = bytes.get(found.start()) == Some(&b'.');
        (begins_with_sign || !is_word(before)) && !is_word(bytes.get(found.end()))
    })
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
    fn any_command_of_a_line_may_read_instructions() {
        for (command, expected) in [
            ("cat AGENTS.md; ls", true),
            ("ls -la; cat AGENTS.md && git status", true),
            ("cat AGENTS.md && git status", true),
            ("bash -lc 'cat docs/agents.md\ngit log'", true),
            ("find . -name AGENTS.md -exec cat {} +", true),
            (
                "find . -maxdepth 2 -name '*.md' -exec cat AGENTS.md \\;",
                true,
            ),
            ("rg --files | rg AGENTS.md | xargs -n 1 cat", true),
            ("git ls-files '*.instructions.md' | xargs cat", true),
            ("for f in AGENTS.md CLAUDE.md; do cat $f; done", true),
            ("cat .cursor/rules/*.mdc", true),
            ("sed -n '1,900p' .github/ui.instructions.md", true),
            ("cat CONVENTIONS.md | head -n 900", true),
            ("head -500 .clinerules", true),
            ("cat Gemini.md agent.md", true),
            ("cat AGENTS.md | rg build", false),
            ("rg -n build AGENTS.md", false),
            ("cat src/lib.rs; rg build AGENTS.md", false),
            ("ls AGENTS.md && cargo test", false),
            ("git diff AGENTS.md", false),
            ("cat my_agents.md", false),
            ("cat agents.mdx", false),
        ] {
            let found = names_instructions(command) && prints_instructions(command);
            assert_eq!(found, expected, "{command}");
        }
    }

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
