//! Text as it travels: still escaped where it came from a request.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::json;

/// A string of a turn. A raw one is copied to the upstream body without ever
/// being unescaped.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// A JSON string literal of the request, quotes included.
    Raw(&'a RawValue),
    /// Text made by us.
    Owned(Arc<str>),
}

impl<'a> Text<'a> {
    /// The text of a JSON value, if that is a string.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        raw.get().starts_with('"').then_some(Self::Raw(raw))
    }

    /// The JSON string's inside, escaped.
    pub fn escaped(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => json::unquote(raw.get()).unwrap_or_default().into(),
            Self::Owned(text) => json::escape(text).into(),
        }
    }

    /// The text itself.
    pub fn decoded(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => json::unescape(json::unquote(raw.get()).unwrap_or_default()),
            Self::Owned(text) => Cow::Borrowed(text),
        }
    }

    /// Whether there is no character.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Raw(raw) => raw.get().len() <= 2,
            Self::Owned(text) => text.is_empty(),
        }
    }

    /// Appends the text as the inside of a JSON string.
    pub fn push_escaped(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(raw) => {
                out.extend_from_slice(json::unquote(raw.get()).unwrap_or_default().as_bytes());
            }
            Self::Owned(_) => out.extend_from_slice(self.escaped().as_bytes()),
        }
    }

    /// Appends the text as a JSON string.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        self.push_escaped(out);
        out.push(b'"');
    }
}

impl From<&str> for Text<'_> {
    fn from(text: &str) -> Self {
        Self::Owned(text.into())
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text.into())
    }
}
