//! Text of a request that stays in its escaped JSON form.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::json;

/// A string of a turn. A raw string is copied into the upstream request without being
/// unescaped and escaped again.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// A JSON string literal of the request, with its quotes.
    Raw(&'a RawValue),
    /// Unescaped text that the proxy made.
    Owned(Arc<str>),
}

impl<'a> Text<'a> {
    /// The text of a JSON value; `None` if that is not a string.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        raw.get().starts_with('"').then_some(Self::Raw(raw))
    }

    /// The text as the content of a JSON string, without quotes.
    pub fn escaped(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => json::unquote(raw.get()).unwrap_or_default().into(),
            Self::Owned(text) => json::escape(text).into(),
        }
    }

    /// The length of the escaped text, in bytes.
    pub fn escaped_len(&self) -> usize {
        match self {
            Self::Raw(raw) => json::unquote(raw.get()).unwrap_or_default().len(),
            Self::Owned(text) => json::escaped_len(text),
        }
    }

    /// The unescaped text.
    pub fn decoded(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => json::unescape(json::unquote(raw.get()).unwrap_or_default()),
            Self::Owned(text) => Cow::Borrowed(text),
        }
    }

    /// About the first `bytes` bytes, unescaped.
    pub(crate) fn start(&self, bytes: usize) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => {
                let inner = json::unquote(raw.get()).unwrap_or_default();
                let end = inner.floor_char_boundary(bytes);
                json::unescape(inner.get(..end).unwrap_or(inner))
            }
            Self::Owned(text) => {
                let end = text.floor_char_boundary(bytes);
                text.get(..end).unwrap_or(text).into()
            }
        }
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Raw(raw) => raw.get().len() <= 2,
            Self::Owned(text) => text.is_empty(),
        }
    }

    /// Appends the text as the content of a JSON string, without quotes.
    pub fn push_escaped(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(raw) => {
                out.extend_from_slice(json::unquote(raw.get()).unwrap_or_default().as_bytes());
            }
            Self::Owned(text) => json::push_content(out, text),
        }
    }

    /// Appends the text as a JSON string literal.
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
