//! A list of keys with values: the values that no other key has.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Spot;
use crate::evidence::{BIT, load, mix};

/// How many bytes are read, and how many values are told apart.
const READ_BYTES: usize = 1 << 20;
const MAX_VALUES: usize = 4_096;

/// The worth of a value that no other key has, in a list of at least [`MIN_LINES`] lines.
const WORTH: u32 = 20 * BIT;
const MIN_LINES: usize = 40;

/// Values by their hashes, which need no further hash.
type ByHash = HashMap<u64, (usize, Spot), BuildHasherDefault<HashIsKey>>;

#[derive(Default)]
struct HashIsKey(u64);

impl Hasher for HashIsKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The places of the values that are like no other in a list of `key = value`.
pub(super) fn read(text: &str) -> Vec<Spot> {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..READ_BYTES).unwrap_or(bytes);
    // For each form and each word: how many lines have it, and where the first one is.
    let mut forms = [ByHash::default(), ByHash::default()];
    let mut counts = [0_usize; 2];
    let (mut start, mut lines) = (0, 0_usize);
    for end in memchr::memchr_iter(b'\n', bytes) {
        let line = bytes.get(start..end).unwrap_or_default();
        let from = std::mem::replace(&mut start, end + 1);
        lines += 1;
        if lines == MIN_LINES && counts[0] * 4 < lines * 3 {
            return Vec::new();
        }
        let at = memchr::memchr(b'=', line);
        // Of a comment the whole form counts.
        let value = line
            .get(at.map_or(0, |at| at + 1)..)
            .unwrap_or_default()
            .trim_ascii();
        let spot = Spot {
            start: from,
            end,
            focus: from + at.map_or(0, |at| at + 1),
            score: 0,
        };
        let is_word = at.is_some() && value.iter().all(u8::is_ascii_alphabetic);
        let word = value
            .chunks(8)
            .fold(0, |hash, chunk| mix(hash, load(chunk, 0)));
        for (which, name) in [Some(form(value)), is_word.then_some(word)]
            .into_iter()
            .enumerate()
        {
            let Some((name, forms)) = name.zip(forms.get_mut(which)) else {
                continue;
            };
            if let Some(count) = counts.get_mut(which) {
                *count += usize::from(at.is_some());
            }
            if forms.len() < MAX_VALUES || forms.contains_key(&name) {
                forms.entry(name).or_insert((0, spot)).0 += 1;
            }
        }
    }
    let mut spots = Vec::new();
    for (forms, count) in forms.iter().zip(counts) {
        let singles = forms.values().filter(|(lines, _)| *lines == 1);
        let places = singles.clone().count();
        // Where many values occur once, one of them says little.
        if counts[0] * 4 >= lines * 3 && lines >= MIN_LINES && places * 16 <= count {
            let score = WORTH / u32::try_from(places.max(4) / 4).unwrap_or(u32::MAX);
            spots.extend(singles.map(|(_, spot)| Spot { score, ..*spot }));
        }
    }
    spots.sort_unstable_by_key(|spot| spot.start);
    spots
}

/// The form of a value: the number of digits for a number, the signs between the words for other
/// values.
fn form(value: &[u8]) -> u64 {
    if value.iter().all(u8::is_ascii_digit) {
        return value.len() as u64;
    }
    let mut last = 0;
    let mut form = 1 << 32;
    for byte in value.iter().take(48) {
        let class = match byte {
            b'0'..=b'9' => b'0',
            byte if byte.is_ascii_alphabetic() || *byte >= 0x80 => b'a',
            byte => *byte,
        };
        if class != last {
            form = mix(form, u64::from(class));
        }
        last = class;
    }
    form
}
