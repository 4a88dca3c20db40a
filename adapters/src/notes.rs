//! Notes about what the proxy changed, dropped or repaired in a turn.

/// Further notes of a turn are ignored.
const MAX_NOTES: usize = 64;

/// The most bytes of a detail: it may name what a client or a provider sent.
const MAX_DETAIL_BYTES: usize = 1_024;

/// One change of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A stable identifier, such as `tool_dropped`, for the response header, log
    /// and metrics.
    pub code: &'static str,
    /// The exact change, for people.
    pub detail: String,
}

/// The notes of a turn, without duplicates and limited in number.
#[derive(Clone, Debug, Default)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Adds a note, unless an equal one is there or the limit is reached.
    pub fn add(&mut self, code: &'static str, detail: impl Into<String>) {
        let mut detail: String = detail.into();
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
        let note = Note { code, detail };
        if self.0.len() < MAX_NOTES && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// Removes the notes with this code and detail.
    pub(crate) fn remove(&mut self, code: &str, detail: &str) {
        self.0
            .retain(|note| note.code != code || note.detail != detail);
    }

    /// Adds the notes of `other`.
    pub fn extend(&mut self, other: &Notes) {
        for note in &other.0 {
            self.add(note.code, note.detail.clone());
        }
    }

    /// The notes in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }

    /// The distinct codes separated by commas, as in the response header.
    pub fn codes(&self) -> String {
        let mut codes: Vec<&str> = Vec::new();
        for note in &self.0 {
            if !codes.contains(&note.code) {
                codes.push(note.code);
            }
        }
        codes.join(",")
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
