//! The grammar of a patch, which Codex 0.169 sends in the definition of its `apply_patch`
//! tool:
//!
//! ```text
//! start: "*** Begin Patch" LF hunk+ "*** End Patch" LF?
//! hunk:  add | delete | update
//! add:    "*** Add File: " name LF ("+" text LF)+
//! delete: "*** Delete File: " name LF
//! update: "*** Update File: " name LF ("*** Move to: " name LF)? change?
//! change: (("@@" | "@@ " name) LF | ("+" | "-" | " ") text LF)+ ("*** End of File" LF)?
//! ```

pub(super) const BEGIN: &str = "*** Begin Patch";
pub(super) const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// The header line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileHeader {
    Add,
    Delete,
    Update,
}

impl FileHeader {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let kinds = [
            (ADD, Self::Add),
            (DELETE, Self::Delete),
            (UPDATE, Self::Update),
        ];
        kinds.into_iter().find_map(|(prefix, kind)| {
            line.strip_prefix(prefix)
                .is_some_and(|name| !name.is_empty())
                .then_some(kind)
        })
    }
}

/// The state of the grammar before the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GrammarState {
    Start,
    AddEmpty,
    Add,
    Delete,
    UpdateEmpty,
    Moved,
    Change,
    AtEnd,
}

/// Whether the grammar accepts `text`.
pub(super) fn is_patch(text: &str) -> bool {
    let inner = text
        .strip_suffix('\n')
        .unwrap_or(text)
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END))
        .and_then(|rest| rest.strip_prefix('\n'))
        .and_then(|rest| rest.strip_suffix('\n'));
    let Some(inner) = inner else { return false };
    let mut state = GrammarState::Start;
    for line in inner.split('\n') {
        match next_state(state, line) {
            Some(after) => state = after,
            None => return false,
        }
    }
    !matches!(state, GrammarState::Start | GrammarState::AddEmpty)
}

fn next_state(state: GrammarState, line: &str) -> Option<GrammarState> {
    if let Some(header) = FileHeader::parse(line) {
        return (state != GrammarState::AddEmpty).then_some(match header {
            FileHeader::Add => GrammarState::AddEmpty,
            FileHeader::Delete => GrammarState::Delete,
            FileHeader::Update => GrammarState::UpdateEmpty,
        });
    }
    match state {
        GrammarState::Start | GrammarState::Delete | GrammarState::AtEnd => None,
        GrammarState::AddEmpty | GrammarState::Add => {
            line.starts_with('+').then_some(GrammarState::Add)
        }
        GrammarState::UpdateEmpty if has_name_after(line, MOVE) => Some(GrammarState::Moved),
        GrammarState::Change if line == END_OF_FILE => Some(GrammarState::AtEnd),
        GrammarState::UpdateEmpty | GrammarState::Moved | GrammarState::Change => {
            let change =
                line.starts_with(['+', '-', ' ']) || line == "@@" || has_name_after(line, "@@ ");
            change.then_some(GrammarState::Change)
        }
    }
}

/// Whether a line (without trailing blanks) is a `***` marker.
pub(super) fn is_marker(line: &str) -> bool {
    [BEGIN, END, END_OF_FILE].contains(&line)
        || has_name_after(line, MOVE)
        || FileHeader::parse(line).is_some()
}

/// The marker that this line is meant as, if it is one in another form: with other stars or none
/// (`can_lack_stars`), in bold, in quotes, in another case, with a colon or without.
pub(super) fn plain_marker(line: &str, can_lack_stars: bool) -> Option<String> {
    let line = line.trim_end();
    let decoration = |c: char| "*_`#\"' \t".contains(c);
    let text = line.trim_start_matches(decoration);
    let before = line.strip_suffix(text)?;
    // One star is a list in Markdown, two of them are bold. Blanks begin the lines of files.
    let stars = before.matches('*').count();
    let is_marked = stars >= 3 || stars == 2 && line.ends_with("**");
    if is_marker(line) && !line.ends_with('*')
        || before.starts_with([' ', '\t'])
        || !(is_marked || can_lack_stars)
    {
        return None;
    }
    let words = text.trim_end_matches(|c| decoration(c) || ":.!=-".contains(c));
    for marker in [BEGIN, END, END_OF_FILE] {
        let plain = marker.trim_start_matches(['*', ' ']);
        if words
            .split_whitespace()
            .map(str::to_ascii_lowercase)
            .eq(plain.split_whitespace().map(str::to_ascii_lowercase))
        {
            return Some(marker.to_owned());
        }
    }
    for header in [ADD, DELETE, UPDATE, MOVE] {
        let plain = header.trim_matches(['*', ' ', ':']);
        let Some((words, name)) = text.split_at_checked(plain.len()) else {
            continue;
        };
        let is_apart = name.starts_with([':', ' ', '*']);
        if !words.eq_ignore_ascii_case(plain) || !is_apart {
            continue;
        }
        let name = name.trim_start_matches([':', ' ', '*', '\t']);
        let name = name.trim_end_matches(['*', ' ']);
        let quoted = ['`', '"', '\''].into_iter();
        let mut quoted = quoted.filter_map(|sign| name.strip_prefix(sign)?.strip_suffix(sign));
        let name = quoted.next().unwrap_or(name);
        return (!name.is_empty()).then(|| format!("{header}{name}"));
    }
    None
}

/// Whether the line is `prefix` and a name that is not empty.
fn has_name_after(line: &str, prefix: &str) -> bool {
    line.strip_prefix(prefix)
        .is_some_and(|name| !name.is_empty())
}
