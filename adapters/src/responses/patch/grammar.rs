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
            ("*** Add File: ", Self::Add),
            ("*** Delete File: ", Self::Delete),
            ("*** Update File: ", Self::Update),
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

/// Whether the line is `prefix` and a name that is not empty.
fn has_name_after(line: &str, prefix: &str) -> bool {
    line.strip_prefix(prefix)
        .is_some_and(|name| !name.is_empty())
}
