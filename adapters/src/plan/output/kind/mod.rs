//! What kind of output a text is: seen in one pass over all of it, block by block.
//!
//! JSON is checked as it streams by ([`json`]); lines have votes for what they look
//! like ([`line`]), of a long text some lines everywhere; what lies in long lines is
//! judged by its bytes.

use super::OutputKind;

mod json;
mod line;
mod words;

use json::Json;
use line::Votes;

/// Lines of more bytes are long.
const LONG: usize = 500;

/// So many first bytes have a vote for each of their lines.
const ALL: usize = 64 * 1024;

/// Of later blocks only the lines that begin in so many first bytes have one.
const SOME: usize = 4 * 1024;

/// What was seen so far.
#[derive(Default)]
pub(super) struct Scan {
    json: Json,
    votes: Votes,
    bytes: usize,
    /// Control characters that no text holds.
    controls: usize,
    spaces: usize,
    /// Bytes of characters that are not ASCII.
    foreign: usize,
    /// U+FFFD.
    replaced: usize,
    /// Bytes in long lines.
    long: usize,
    /// Bytes of the line that the last block left open.
    open: usize,
    html: bool,
    xml: bool,
}

impl Scan {
    /// Reads on. A block ends at a line end, unless one line is longer.
    pub(super) fn feed(&mut self, block: &[u8]) {
        if self.bytes == 0 {
            self.begin(block);
        }
        let votes = if self.bytes < ALL { block.len() } else { SOME };
        self.bytes += block.len();
        self.json.feed(block);
        self.controls += count(block, |byte| {
            byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b)
        });
        self.spaces += count(block, |byte| byte == b' ');
        let foreign = count(block, |byte| byte >= 0x80);
        self.foreign += foreign;
        if foreign > 0 {
            self.replaced += memchr::memmem::find_iter(block, "\u{fffd}").count();
        }
        self.votes
            .open_block(block.get(..votes).unwrap_or(block));
        let mut rest = block;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let votes_here = block.len() - rest.len() < votes;
            rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
            if self.open == 0 && votes_here {
                self.votes.look(line);
            }
            let length = self.open + line.len();
            if length > LONG {
                self.long += if self.open > LONG { line.len() } else { length };
            }
            self.open = if end.is_some() { 0 } else { length };
        }
    }

    /// What it is. `cut` says that the middle of the text is missing.
    pub(super) fn kind(&self, cut: bool) -> OutputKind {
        let json = self.json.whole() || cut && self.json.began();
        if json {
            return OutputKind::Json;
        }
        if (self.controls + self.replaced) * 50 > self.bytes {
            return OutputKind::OpaqueToolOutput;
        }
        if self.html {
            return OutputKind::WebOrSearch;
        }
        if self.xml {
            return OutputKind::FileOrCodeOutput;
        }
        let votes = &self.votes;
        let mostly_long = self.long * 10 > self.bytes * 6;
        if mostly_long && votes.log * 2 < votes.lines {
            let words = self.spaces * 11 > self.bytes || self.foreign * 10 > self.bytes * 3;
            return if words {
                votes.of_words()
            } else {
                OutputKind::OpaqueToolOutput
            };
        }
        votes.kind()
    }

    fn begin(&mut self, block: &[u8]) {
        let start = block.trim_ascii_start();
        let begins = |with: &[u8]| {
            start
                .get(..with.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        self.html = begins(b"<!doctype html") || begins(b"<html") || begins(b"<head>");
        self.xml = begins(b"<?xml") || begins(b"<svg") || begins(b"<?php");
    }
}

/// How many bytes are like that. The inner sum fits a byte, so that the compiler
/// counts many at once.
pub(super) fn count(block: &[u8], like: impl Fn(u8) -> bool) -> usize {
    block
        .chunks(128)
        .map(|few| {
            let sum = few
                .iter()
                .fold(0_u8, |sum, &byte| sum + u8::from(like(byte)));
            usize::from(sum)
        })
        .sum()
}

#[cfg(test)]
mod tests;
