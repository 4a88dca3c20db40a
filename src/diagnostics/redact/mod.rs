//! Takes secrets out of what is written down of a turn.
//!
//! Every secret is replaced where it stands by as many bytes, in the encoding
//! that it had, and the same secret by the same bytes: a turn is replayed as it
//! was, and what is redacted and then translated is what is translated and then
//! redacted.
//!
//! - `filler`: what takes their place.
//! - `pass`: a text without its secrets.
//! - `strings`: where a body has strings, and fragments of one.
//! - `opaque`: images, files, encrypted contents.
//! - `headers`, `turn`: all of a turn.
//! - `ids`, `again`: what the program made of a request, made of it without secrets.

mod again;
mod filler;
mod headers;
mod ids;
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

/// Replaces secrets, known and unknown, in a turn.
pub struct Scrubber {
    redactor: Redactor,
    filler: Filler,
    keep: Keep,
}

/// What is kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Images and files.
    pub images: bool,
    /// What a provider encrypted or signed. Our own blobs are opened either way.
    pub encrypted: bool,
}

impl Scrubber {
    /// A scrubber for what `redactor` finds.
    pub fn new(redactor: Redactor, keep: Keep) -> Self {
        let filler = Filler::new(redactor.secrets().iter().map(Secret::expose));
        Self {
            redactor,
            filler,
            keep,
        }
    }

    /// `text` without secrets, as long as before.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let clean = self.bytes(text.as_bytes().to_vec());
        if clean == text.as_bytes() {
            return Cow::Borrowed(text);
        }
        // Only whole characters are replaced, but for those of broken texts.
        Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
    }

    fn string(&self, text: String) -> String {
        match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    /// A body or any other text: JSON, an event stream, or neither.
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

    /// The parts as one text.
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
