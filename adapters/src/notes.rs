//! What was changed, dropped or repaired on the way, for people to read.

/// At most this many notes are kept for a turn.
const MAX_NOTES: usize = 64;

/// One change of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A stable id, such as `tool_dropped`: header, log and metrics show it.
    pub code: &'static str,
    /// What exactly, in words.
    pub detail: String,
}

/// The notes of a turn, each once, bounded.
#[derive(Clone, Debug, Default)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Adds a note unless it is there already or the turn has too many.
    pub fn add(&mut self, code: &'static str, detail: impl Into<String>) {
        let note = Note {
            code,
            detail: detail.into(),
        };
        if self.0.len() < MAX_NOTES && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Notes) {
        for note in &other.0 {
            self.add(note.code, note.detail.clone());
        }
    }

    /// The notes in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }

    /// The codes, each once, separated by commas: the form of the header.
    pub fn codes(&self) -> String {
        let mut codes: Vec<&str> = Vec::new();
        for note in &self.0 {
            if !codes.contains(&note.code) {
                codes.push(note.code);
            }
        }
        codes.join(",")
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
