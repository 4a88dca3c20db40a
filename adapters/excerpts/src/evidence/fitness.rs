//! How well the parts of a text fit a request: BM25 over the words that are looked for.

use std::collections::HashMap;
use std::ops::Range;

use super::marks::{MarkId, Marks};
use super::model::{Bits, Context, ratio};
use super::read::read;
use super::tokens::{TextToken, Tokens};
use super::units::Form;

/// The usual parameters of BM25, in percent: how soon further occurrences of a word say nothing
/// new, and how much the length of a part counts.
const SATURATION: u64 = 120;
const LENGTH: u64 = 75;

/// How well each part of a text fits a request, in no particular unit: the more of its words a part
/// has, and the fewer parts have them, the better. 0 if it has none. The words are found as in
/// outputs of tools: long ones, names, numbers, and characters of scripts without spaces in pairs,
/// in small or capital letters.
pub fn fitness_of_parts(text: &str, parts: &[Range<usize>], request: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let marks = Marks::of_request(request);
    let mut tokens = Tokens::new(bytes);
    let mut parts_with: HashMap<MarkId, u32> = HashMap::new();
    let mut counts: Vec<HashMap<MarkId, u64>> = Vec::with_capacity(parts.len());
    for part in parts {
        let mut count: HashMap<MarkId, u64> = HashMap::new();
        let mut search = |context: Context, token: &TextToken, _: bool| {
            if let Some(id) = marks.find(bytes, token, context.pair(token)) {
                *count.entry(id).or_default() += 1;
            }
            context.after(token)
        };
        let range = (part.start, part.end);
        read(bytes, &mut tokens, Form::Lines, range, &mut search);
        for id in count.keys() {
            *parts_with.entry(*id).or_default() += 1;
        }
        counts.push(count);
    }
    let all = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let length: usize = parts.iter().map(ExactSizeIterator::len).sum();
    let usual = (length / parts.len().max(1)).max(1);
    let fitness = parts.iter().zip(&counts).map(|(part, count)| {
        let relative = (part.len() * 100 / usual) as u64;
        let length = 100 - LENGTH + LENGTH * relative / 100;
        let worth = count.iter().map(|(id, times)| {
            let with = parts_with.get(id).copied().unwrap_or(1);
            let rarity = u64::from(ratio(all.saturating_mul(2), with));
            rarity * times * (100 + SATURATION) / (times * 100 + SATURATION * length / 100)
        });
        Bits::try_from(worth.sum::<u64>()).unwrap_or(Bits::MAX)
    });
    fitness.collect()
}
