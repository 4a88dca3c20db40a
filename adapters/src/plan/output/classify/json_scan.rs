//! Checks block by block whether a text is JSON.

/// A text that is nested deeper does not count as JSON: nobody would read it as such.
const MAX_DEPTH: usize = 65_536;

/// Reads a text that may be one JSON document or several in a row. Of numbers and literals
/// only the characters are checked.
#[derive(Default)]
pub(super) struct JsonScan {
    state: JsonState,
    /// The open brackets: `true` for an object, `false` for an array.
    open: Vec<bool>,
    /// Finished objects and arrays at the top level.
    documents: usize,
    valid_bytes: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum JsonState {
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

impl JsonScan {
    pub(super) fn feed(&mut self, block: &[u8]) {
        let mut rest = block;
        while let Some((&byte, tail)) = rest.split_first() {
            match self.state {
                JsonState::Broken => break,
                JsonState::Text { key } => {
                    let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
                        rest = &[];
                        break;
                    };
                    self.state = match rest.get(at) {
                        Some(b'\\') => JsonState::Escape { key },
                        Some(_) | None if key => JsonState::Colon,
                        Some(_) | None => JsonState::After,
                    };
                    rest = rest.get(at + 1..).unwrap_or_default();
                }
                JsonState::Escape { key } => {
                    self.state = JsonState::Text { key };
                    rest = tail;
                }
                JsonState::Literal
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') =>
                {
                    rest = tail;
                }
                JsonState::Literal => self.state = JsonState::After,
                JsonState::Outside
                | JsonState::FirstKey
                | JsonState::Key
                | JsonState::Colon
                | JsonState::FirstValue
                | JsonState::Value
                | JsonState::After => {
                    if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                        self.read_token(byte);
                    }
                    rest = tail;
                }
            }
        }
        self.valid_bytes += block.len() - rest.len();
    }

    /// Whether the text so far is one or several complete documents.
    pub(super) fn is_complete(&self) -> bool {
        self.state == JsonState::Outside && self.documents > 0
    }

    /// Whether the text begins as JSON, for at least 200 bytes.
    pub(super) fn has_valid_start(&self) -> bool {
        self.valid_bytes >= 200 && (self.documents > 0 || !self.open.is_empty())
    }

    fn read_token(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (JsonState::Outside | JsonState::FirstValue | JsonState::Value, b'{') => {
                self.open_bracket(true)
            }
            (JsonState::Outside | JsonState::FirstValue | JsonState::Value, b'[') => {
                self.open_bracket(false)
            }
            (JsonState::FirstValue | JsonState::Value, b'"') => JsonState::Text { key: false },
            (JsonState::FirstValue | JsonState::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                JsonState::Literal
            }
            (JsonState::FirstKey | JsonState::Key, b'"') => JsonState::Text { key: true },
            (JsonState::Colon, b':') => JsonState::Value,
            (JsonState::After, b',') => match self.open.last() {
                Some(true) => JsonState::Key,
                Some(false) => JsonState::Value,
                None => JsonState::Broken,
            },
            (JsonState::FirstKey | JsonState::After, b'}') => self.close_bracket(true),
            (JsonState::FirstValue | JsonState::After, b']') => self.close_bracket(false),
            (
                JsonState::Outside
                | JsonState::FirstKey
                | JsonState::Key
                | JsonState::Colon
                | JsonState::FirstValue
                | JsonState::Value
                | JsonState::After
                | JsonState::Text { .. }
                | JsonState::Escape { .. }
                | JsonState::Literal
                | JsonState::Broken,
                _,
            ) => JsonState::Broken,
        };
    }

    fn open_bracket(&mut self, object: bool) -> JsonState {
        if self.open.len() >= MAX_DEPTH {
            return JsonState::Broken;
        }
        self.open.push(object);
        if object {
            JsonState::FirstKey
        } else {
            JsonState::FirstValue
        }
    }

    fn close_bracket(&mut self, object: bool) -> JsonState {
        if self.open.pop() != Some(object) {
            return JsonState::Broken;
        }
        if self.open.is_empty() {
            self.documents += 1;
            return JsonState::Outside;
        }
        JsonState::After
    }
}
