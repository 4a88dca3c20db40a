//! Replaces the secrets in one text, in place and in the encoding that they have there.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Scrubber;
use super::filler::{is_filler, is_kept};
use crate::secrets::SecretMatch;
use crate::secrets::encoded::EncodedRuns;
use crate::secrets::layers::Layers;

/// A replacement can make another secret recognisable, so a text is searched again
/// until nothing is found, at most this many times.
const ROUNDS: usize = 6;

impl Scrubber {
    /// Redacts a text; also returns the placeholders of unknown secrets. Only bytes inside
    /// `free` and outside `locked` are replaced; both are sorted ranges of the text.
    pub(super) fn fill(
        &self,
        mut text: Vec<u8>,
        free: &[Range<usize>],
        locked: &[Range<usize>],
    ) -> (Vec<u8>, BTreeSet<Vec<u8>>) {
        let mut fillers = BTreeSet::new();
        for _ in 0..ROUNDS {
            let (next, changed) = self.round(text, free, locked, &mut fillers);
            text = next;
            if !changed {
                break;
            }
        }
        (text, fillers)
    }

    fn round(
        &self,
        text: Vec<u8>,
        free: &[Range<usize>],
        locked: &[Range<usize>],
        fillers: &mut BTreeSet<Vec<u8>>,
    ) -> (Vec<u8>, bool) {
        let mut layers = Layers::of(text);
        let top = layers.top();
        let mut hits = Vec::new();
        for layer in 0..=top {
            let up = |hit: SecretMatch| SecretMatch {
                range: layers.up(layer, hit.range),
                ..hit
            };
            hits.extend(self.hits(layers.bytes(layer)).into_iter().map(up));
        }
        let hits = settle(hits);
        let mut changed = false;
        if !hits.is_empty() {
            let raised = |parts: &[Range<usize>]| -> Vec<Range<usize>> {
                let parts = parts.iter().cloned();
                parts.map(|part| layers.up(0, part)).collect()
            };
            let free = without(raised(free), &raised(locked));
            for hit in common(hits, &free) {
                let content = layers.bytes(top).get(hit.range.clone()).unwrap_or_default();
                if is_filler(content) {
                    continue;
                }
                let filler = self.filler_for(content, hit.known_index);
                for (at, byte) in (hit.range.start..).zip(&filler) {
                    if !is_kept(*byte) {
                        changed |= layers.write(top, at, *byte);
                    }
                }
                if hit.known_index.is_none() {
                    fillers.insert(filler);
                }
            }
        }
        let mut encoded_in = vec![layers.json(), top];
        encoded_in.dedup();
        for layer in encoded_in {
            EncodedRuns::each(&mut layers, layer, |layers, encoded| {
                let found = settle(self.hits(encoded.bytes()));
                for hit in found {
                    let Some(source) = encoded.source_range(hit.range.clone()) else {
                        continue;
                    };
                    let source = layers.down(layer, source);
                    if touches(locked, &source) || !touches(free, &source) {
                        continue;
                    }
                    let content = encoded.bytes().get(hit.range.clone()).unwrap_or_default();
                    if is_filler(content) {
                        continue;
                    }
                    let filler = self.filler_for(content, hit.known_index);
                    for (at, byte) in (hit.range.start..).zip(&filler) {
                        if !is_kept(*byte) {
                            encoded.write(layers, layer, at, *byte);
                            changed = true;
                        }
                    }
                    if hit.known_index.is_none() {
                        fillers.insert(filler);
                    }
                }
            });
        }
        (layers.into_text(), changed)
    }

    /// All secrets in one decoded layer of the text.
    fn hits(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut hits = self.redactor.find(text);
        hits.retain(|hit| {
            hit.known_index.is_some() || !text.get(hit.range.clone()).is_none_or(is_filler)
        });
        hits
    }

    /// The placeholder for a secret, or for the beginning of a known one.
    fn filler_for(&self, content: &[u8], secret: Option<usize>) -> Vec<u8> {
        let known = secret.and_then(|place| self.redactor.secrets().get(place));
        let secret = known.map_or(content, |secret| secret.expose().as_bytes());
        let mut letters = self.filler.of(secret);
        let pairs = content.iter().map_while(|byte| {
            if is_kept(*byte) {
                Some(*byte)
            } else {
                letters.next()
            }
        });
        pairs.collect()
    }
}

/// Sorts hits and removes overlaps. Known secrets win, because each must get the same
/// placeholder everywhere; overlapping unknown secrets are merged into one.
fn settle(hits: Vec<SecretMatch>) -> Vec<SecretMatch> {
    let (mut known, mut shaped): (Vec<SecretMatch>, Vec<SecretMatch>) =
        hits.into_iter().partition(|hit| hit.known_index.is_some());
    known.sort_by_key(|hit| (hit.range.start, usize::MAX - hit.range.end));
    let mut end = 0;
    for hit in &mut known {
        hit.range.start = hit.range.start.max(end);
        end = end.max(hit.range.end);
    }
    known.retain(|hit| hit.range.start < hit.range.end);
    shaped.sort_by_key(|hit| hit.range.start);
    let mut parts: Vec<Range<usize>> = Vec::new();
    for hit in shaped {
        match parts.last_mut() {
            Some(last) if hit.range.start < last.end => last.end = last.end.max(hit.range.end),
            _ => parts.push(hit.range),
        }
    }
    let taken: Vec<Range<usize>> = known.iter().map(|hit| hit.range.clone()).collect();
    let rest = without(parts, &taken).into_iter();
    known.extend(rest.map(|part| SecretMatch {
        range: part,
        known_index: None,
    }));
    known.sort_by_key(|hit| hit.range.start);
    known
}

/// `parts` minus `taken`; both are sorted.
fn without(parts: Vec<Range<usize>>, taken: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut left = Vec::new();
    let mut first = 0;
    for part in parts {
        while taken.get(first).is_some_and(|one| one.end <= part.start) {
            first += 1;
        }
        let mut start = part.start;
        for one in taken.iter().skip(first) {
            if one.start >= part.end {
                break;
            }
            if one.start > start {
                left.push(start..one.start);
            }
            start = start.max(one.end);
        }
        if start < part.end {
            left.push(start..part.end);
        }
    }
    left
}

/// The hits, cut to the ranges in `free`.
fn common(hits: Vec<SecretMatch>, free: &[Range<usize>]) -> Vec<SecretMatch> {
    let mut inside = Vec::new();
    let mut first = 0;
    for hit in hits {
        while free
            .get(first)
            .is_some_and(|one| one.end <= hit.range.start)
        {
            first += 1;
        }
        for one in free.iter().skip(first) {
            if one.start >= hit.range.end {
                break;
            }
            inside.push(SecretMatch {
                range: hit.range.start.max(one.start)..hit.range.end.min(one.end),
                known_index: hit.known_index,
            });
        }
    }
    inside
}

/// Whether one of the sorted `parts` overlaps `part`.
fn touches(parts: &[Range<usize>], part: &Range<usize>) -> bool {
    let first = parts.partition_point(|one| one.end <= part.start);
    parts.get(first).is_some_and(|one| one.start < part.end)
}
