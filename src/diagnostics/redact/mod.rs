//! Removes secrets from recorded turns.
//!
//! Every secret is replaced in place, in the encoding that it had, by a placeholder of
//! the same byte length; the same secret always gets the same placeholder. So chunk
//! borders and sizes stay valid for a replay, and redaction commutes with encoding:
//! translating a redacted request gives the redacted translation.
//!
//! - `filler`: makes the placeholders.
//! - `pass`: replaces the secrets in one text.
//! - `strings`: finds the strings of a body, and the fragments of a streamed text.
//! - `opaque`: images, files and encrypted contents.
//! - `headers`, `turn`: apply all of that to a turn.

mod filler;
mod headers;
mod opaque;
mod pass;
mod strings;
#[cfg(test)]
mod tests;
mod turn;

use std::borrow::Cow;
use std::ops::Range;

use self::filler::Filler;
use self::strings::BodyStrings;
use crate::secrets::{Redactor, Secret};

/// Replaces secrets in turns: those that the configuration knows, and those that look
/// like one.
pub struct Scrubber {
    redactor: Redactor,
    filler: Filler,
    keep: Keep,
}

/// Which opaque contents are kept whole rather than replaced by a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Images and files.
    pub images: bool,
    /// Contents that a provider encrypted or signed. The proxy's own sealed blobs are
    /// opened and redacted in either case.
    pub encrypted: bool,
}

impl Scrubber {
    /// A scrubber for the secrets that `redactor` finds.
    pub fn new(redactor: Redactor, keep: Keep) -> Self {
        let filler = Filler::new(redactor.secrets().iter().map(Secret::expose));
        Self {
            redactor,
            filler,
            keep,
        }
    }

    /// Redacts a text. The result has the same length in bytes.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let clean = self.bytes(text.as_bytes().to_vec());
        if clean == text.as_bytes() {
            return Cow::Borrowed(text);
        }
        // Whole characters are replaced, except in malformed texts.
        Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
    }

    fn string(&self, text: String) -> String {
        match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    /// Redacts a body or any other text: JSON, an event stream, or neither.
    pub fn bytes(&self, mut text: Vec<u8>) -> Vec<u8> {
        if text.is_empty() {
            return text;
        }
        let strings = BodyStrings::of(&text);
        self.opaque(&mut text, &strings);
        let blobs = self.blobs(&mut text);
        if strings.events {
            for values in strings.texts() {
                if values.len() > 1 {
                    let parts: Vec<_> = values.iter().map(|value| value.part.clone()).collect();
                    self.fragments(&mut text, &parts);
                }
            }
        }
        self.fill(text, &strings.free, &blobs).0
    }

    /// Redacts fragments of one text as if they were joined.
    fn fragments(&self, text: &mut [u8], parts: &[Range<usize>]) {
        let together: Vec<u8> = parts
            .iter()
            .filter_map(|part| text.get(part.clone()))
            .flatten()
            .copied()
            .collect();
        if together.starts_with(b"rsp1.") {
            return;
        }
        let whole = 0..together.len();
        let (clean, _) = self.fill(together, std::slice::from_ref(&whole), &[]);
        let places = parts.iter().flat_map(Clone::clone);
        for (at, byte) in places.zip(clean) {
            if let Some(old) = text.get_mut(at) {
                *old = byte;
            }
        }
    }
}
