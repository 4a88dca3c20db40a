//! Removes secrets from recorded turns.
//!
//! Secrets are looked for in whole bodies, behind every encoding, and replaced by marks in the
//! encoded text: a mark is the same in a JSON string, in a URL and in a header, so nothing is
//! encoded again and all other bytes stay. Within a turn the same secret always gets the same mark,
//! wherever it is and however it is encoded, so what belonged together by an id still does.
//!
//! - `strings`: finds the strings of a body, and the fragments of a streamed text.
//! - `opaque`: images, files and encrypted contents.
//! - `edits`: replaces parts of a body, and tells where the borders of its chunks are then.
//! - `headers`, `turn`: apply all of that to a turn.

mod edits;
mod headers;
mod opaque;
mod strings;
#[cfg(test)]
mod tests;
mod turn;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::bytes::Regex;

use self::edits::{Edit, Edits};
use self::strings::BodyStrings;
use super::bundle::BodyChunk;
use crate::secrets::{ContentHash, Redactor, SecretMatch, constant_regex, settle};

/// A replacement can make another secret recognisable, so a text is searched again until
/// nothing is found, at most this many times.
const MAX_ROUNDS: usize = 6;

/// A mark with its number. Longer numbers are not ours.
static NUMBERED_MARK: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u)\[redacted-([0-9]{1,9})\]"));

/// Replaces secrets in a turn: those that the configuration knows, and those that look like
/// one.
pub struct Scrubber {
    redactor: Redactor,
    keep: Keep,
    /// The highest number of a mark that an earlier redaction may have left.
    last_mark: usize,
    /// The number of each secret that is not known, in the order in which they were found.
    numbers: Mutex<HashMap<ContentHash, usize>>,
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
        Self {
            redactor,
            keep,
            last_mark: 0,
            numbers: Mutex::default(),
        }
    }

    /// Redacts a text: JSON, an event stream, or neither.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redacted(text.as_bytes(), &mut Vec::new()) {
            // Whole characters are replaced, except in malformed texts.
            Some(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
            None => Cow::Borrowed(text),
        }
    }

    fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Redacts a body, and corrects the lengths of the chunks that it came in.
    pub fn body(&self, body: &mut Vec<u8>, chunks: &mut Vec<BodyChunk>) {
        if let Some(clean) = self.redacted(body, chunks) {
            *body = clean;
        }
    }

    /// The redacted text; `None` if nothing in it is replaced.
    fn redacted(&self, text: &[u8], chunks: &mut Vec<BodyChunk>) -> Option<Vec<u8>> {
        let mut clean: Option<Vec<u8>> = None;
        for _ in 0..MAX_ROUNDS {
            let text = clean.as_deref().unwrap_or(text);
            let edits = self.edits(text);
            let next = edits.apply(text);
            if next == text {
                break;
            }
            edits.move_borders(chunks);
            clean = Some(next);
        }
        clean
    }

    fn edits(&self, text: &[u8]) -> Edits {
        let strings = BodyStrings::of(text);
        // Searching these for secrets would break them.
        let whole = Edits::new(self.opaque(text, &strings));
        let mut edits = Vec::new();
        for parts in strings.fragments() {
            let parts = parts.iter().map(|value| value.part.clone()).collect();
            self.joined(text, &whole.without_edited(parts), &mut edits);
        }
        // A secret is searched in one fragment only when no text of fragments contains one.
        if edits.is_empty() {
            let free = whole.without_edited(strings.free);
            let found = self.redactor.find_encoded(text).into_iter();
            let found = found.flat_map(|secret| within(&secret, &free)).collect();
            edits.extend(settle(text, found).into_iter().map(|secret| Edit {
                with: self.mark(&secret).into(),
                range: secret.range,
            }));
        }
        edits.extend(whole.into_list());
        Edits::new(edits)
    }

    /// Redacts fragments of one text as if they were joined: the mark takes the place of the
    /// first part of a secret, its other parts are removed.
    fn joined(&self, text: &[u8], parts: &[Range<usize>], edits: &mut Vec<Edit>) {
        let mut joined = Vec::new();
        let mut starts = Vec::new();
        for part in parts {
            starts.push(joined.len());
            joined.extend_from_slice(text.get(part.clone()).unwrap_or_default());
        }
        for secret in self.redactor.find(&joined) {
            let Range { mut start, end } = secret.range;
            let mut mark = self.mark(&secret);
            let first = starts.partition_point(|at| *at <= start).saturating_sub(1);
            for (part, at) in parts.iter().zip(&starts).skip(first) {
                if *at >= end {
                    break;
                }
                let from = part.start + (start - at);
                let to = part.end.min(part.start + (end - at));
                if from < to {
                    edits.push(Edit {
                        range: from..to,
                        with: std::mem::take(&mut mark).into(),
                    });
                }
                start = at + part.len();
            }
        }
    }

    /// What replaces a secret: the same mark for the same secret. The number says nothing about
    /// the secret, and there is no colon in front of it, because that would separate a user from
    /// a password.
    fn mark(&self, secret: &SecretMatch) -> String {
        let number = secret.known_index.unwrap_or_else(|| {
            let numbers = self.numbers.lock();
            let mut numbers = numbers.unwrap_or_else(PoisonError::into_inner);
            let next = self.redactor.secret_count() + numbers.len();
            *numbers.entry(secret.content).or_insert(next)
        });
        format!("[redacted-{}]", self.last_mark + number + 1)
    }
}

/// The highest number of the marks in a text.
fn last_mark(text: &[u8]) -> usize {
    let numbers = NUMBERED_MARK.captures_iter(text).filter_map(|mark| {
        let digits = std::str::from_utf8(mark.get(1)?.as_bytes()).ok()?;
        digits.parse().ok()
    });
    numbers.max().unwrap_or(0)
}

/// The parts of a match that are in one of the `free` ranges, which are sorted.
fn within(secret: &SecretMatch, free: &[Range<usize>]) -> Vec<SecretMatch> {
    let first = free.partition_point(|part| part.end <= secret.range.start);
    let parts = free.iter().skip(first);
    let parts = parts.take_while(|part| part.start < secret.range.end);
    parts
        .map(|part| SecretMatch {
            range: secret.range.start.max(part.start)..secret.range.end.min(part.end),
            ..secret.clone()
        })
        .collect()
}
