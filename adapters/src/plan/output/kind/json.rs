//! Whether a text is JSON, checked as it streams by.

/// Deeper documents are no documents that somebody would read.
const DEPTH: usize = 65_536;

/// What was seen of a text that may be JSON: one document, or one after the other.
/// Numbers and literals are checked by their characters only.
#[derive(Default)]
pub(super) struct Json {
    state: State,
    /// The open brackets, `true` for objects.
    open: Vec<bool>,
    /// Finished objects and arrays that are no part of another.
    documents: usize,
    /// Bytes that were fine.
    read: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Between two documents.
    #[default]
    Outside,
    FirstKey,
    Key,
    Colon,
    FirstValue,
    Value,
    After,
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    Literal,
    Broken,
}

impl Json {
    pub(super) fn feed(&mut self, block: &[u8]) {
        let mut rest = block;
        while let Some((&byte, tail)) = rest.split_first() {
            match self.state {
                State::Broken => break,
                State::Text { key } => {
                    let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
                        rest = &[];
                        break;
                    };
                    self.state = match rest.get(at) {
                        Some(b'\\') => State::Escape { key },
                        Some(_) | None if key => State::Colon,
                        Some(_) | None => State::After,
                    };
                    rest = rest.get(at + 1..).unwrap_or_default();
                }
                State::Escape { key } => {
                    self.state = State::Text { key };
                    rest = tail;
                }
                State::Literal
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') =>
                {
                    rest = tail;
                }
                State::Literal => self.state = State::After,
                State::Outside
                | State::FirstKey
                | State::Key
                | State::Colon
                | State::FirstValue
                | State::Value
                | State::After => {
                    if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                        self.token(byte);
                    }
                    rest = tail;
                }
            }
        }
        self.read += block.len() - rest.len();
    }

    /// Whether all of it was JSON.
    pub(super) fn whole(&self) -> bool {
        self.state == State::Outside && self.documents > 0
    }

    /// Whether a good part of its beginning was.
    pub(super) fn began(&self) -> bool {
        self.read >= 200 && (self.documents > 0 || !self.open.is_empty())
    }

    fn token(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Outside | State::FirstValue | State::Value, b'{') => self.push(true),
            (State::Outside | State::FirstValue | State::Value, b'[') => self.push(false),
            (State::FirstValue | State::Value, b'"') => State::Text { key: false },
            (State::FirstValue | State::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                State::Literal
            }
            (State::FirstKey | State::Key, b'"') => State::Text { key: true },
            (State::Colon, b':') => State::Value,
            (State::After, b',') => match self.open.last() {
                Some(true) => State::Key,
                Some(false) => State::Value,
                None => State::Broken,
            },
            (State::FirstKey | State::After, b'}') => self.pop(true),
            (State::FirstValue | State::After, b']') => self.pop(false),
            (
                State::Outside
                | State::FirstKey
                | State::Key
                | State::Colon
                | State::FirstValue
                | State::Value
                | State::After
                | State::Text { .. }
                | State::Escape { .. }
                | State::Literal
                | State::Broken,
                _,
            ) => State::Broken,
        };
    }

    fn push(&mut self, object: bool) -> State {
        if self.open.len() >= DEPTH {
            return State::Broken;
        }
        self.open.push(object);
        if object {
            State::FirstKey
        } else {
            State::FirstValue
        }
    }

    fn pop(&mut self, object: bool) -> State {
        if self.open.pop() != Some(object) {
            return State::Broken;
        }
        if self.open.is_empty() {
            self.documents += 1;
            return State::Outside;
        }
        State::After
    }
}
