//! The grammar of a patch, as Codex 0.169 sends it in the definition of its
//! `apply_patch` tool:
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

/// The line that opens one file's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Add,
    Delete,
    Update,
}

impl Header {
    pub(super) fn of(line: &str) -> Option<Self> {
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

/// Where in a patch the next line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
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
    let mut place = Place::Start;
    for line in inner.split('\n') {
        match next(place, line) {
            Some(after) => place = after,
            None => return false,
        }
    }
    !matches!(place, Place::Start | Place::AddEmpty)
}

fn next(place: Place, line: &str) -> Option<Place> {
    if let Some(header) = Header::of(line) {
        return (place != Place::AddEmpty).then_some(match header {
            Header::Add => Place::AddEmpty,
            Header::Delete => Place::Delete,
            Header::Update => Place::UpdateEmpty,
        });
    }
    match place {
        Place::Start | Place::Delete | Place::AtEnd => None,
        Place::AddEmpty | Place::Add => line.starts_with('+').then_some(Place::Add),
        Place::UpdateEmpty if named(line, MOVE) => Some(Place::Moved),
        Place::Change if line == END_OF_FILE => Some(Place::AtEnd),
        Place::UpdateEmpty | Place::Moved | Place::Change => {
            let change = line.starts_with(['+', '-', ' ']) || line == "@@" || named(line, "@@ ");
            change.then_some(Place::Change)
        }
    }
}

/// Whether a line, without blanks at its end, is one of the `***` lines.
pub(super) fn is_marker(line: &str) -> bool {
    [BEGIN, END, END_OF_FILE].contains(&line) || named(line, MOVE) || Header::of(line).is_some()
}

fn named(line: &str, prefix: &str) -> bool {
    line.strip_prefix(prefix)
        .is_some_and(|name| !name.is_empty())
}
