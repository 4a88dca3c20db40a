//! Classifies an output: [`is_json`] first, then in one pass over all of its text, block by block.
//!
//! The lines of a text that is not JSON vote for what they
//! look like ([`line_votes`], by [`line_rules`]); of a long text only some lines of each block
//! vote. A text
//! that is mostly in long lines is judged by its bytes.

use super::{OutputKind, elements};

mod json_scan;
mod line_rules;
mod line_votes;

use line_votes::LineVotes;

pub(super) use json_scan::is_json;

/// A line with more bytes is a long line.
const LONG_LINE: usize = 500;

/// In the first block, only lines that begin within this many bytes vote.
const FIRST_VOTE_BYTES: usize = 6 * 1024;

/// The same of every later block.
const BLOCK_VOTE_BYTES: usize = 1024;

/// The counts so far.
#[derive(Default)]
pub(super) struct Classifier {
    votes: LineVotes,
    bytes: usize,
    /// Control characters that a text does not have.
    controls: usize,
    spaces: usize,
    /// Bytes of characters that are not ASCII.
    non_ascii: usize,
    /// U+FFFD characters, which replace bytes that are not UTF-8.
    replacement_chars: usize,
    long_line_bytes: usize,
    /// Bytes of the line that the last block left open.
    open_line: usize,
    is_html: bool,
    is_markup_or_php: bool,
}

impl Classifier {
    /// Reads the next block. A block ends at a line end, unless it is all one line.
    pub(super) fn feed(&mut self, block: &[u8]) {
        if self.bytes == 0 {
            self.read_start(block);
        }
        let voting = if self.bytes == 0 {
            FIRST_VOTE_BYTES
        } else {
            BLOCK_VOTE_BYTES
        };
        self.bytes += block.len();
        self.controls += count_bytes(block, |byte| {
            byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b)
        });
        self.spaces += count_bytes(block, |byte| byte == b' ');
        let non_ascii = count_bytes(block, |byte| byte >= 0x80);
        self.non_ascii += non_ascii;
        if non_ascii > 0 {
            self.replacement_chars += memchr::memmem::find_iter(block, "\u{fffd}").count();
        }
        self.votes.open_block(block.get(..voting).unwrap_or(block));
        let mut rest = block;
        while !rest.is_empty() {
            let votes = block.len() - rest.len() < voting;
            if !votes && self.open_line == 0 {
                // Lines that end so early are not long.
                let start = rest.get(..=LONG_LINE).unwrap_or(rest);
                if let Some(end) = memchr::memrchr(b'\n', start) {
                    rest = rest.get(end + 1..).unwrap_or_default();
                    continue;
                }
            }
            let end = memchr::memchr(b'\n', rest);
            let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
            if self.open_line == 0 && votes {
                self.votes.add_line(line);
            }
            let length = self.open_line + line.len();
            if length > LONG_LINE {
                self.long_line_bytes += if self.open_line > LONG_LINE {
                    line.len()
                } else {
                    length
                };
            }
            self.open_line = if end.is_some() { 0 } else { length };
        }
    }

    /// The kind of a text that is not JSON.
    pub(super) fn kind(&self) -> OutputKind {
        if (self.controls + self.replacement_chars) * 50 > self.bytes {
            return OutputKind::OpaqueToolOutput;
        }
        if self.is_html {
            return OutputKind::WebOrSearch;
        }
        if self.is_markup_or_php {
            return OutputKind::FileOrCodeOutput;
        }
        let votes = &self.votes;
        let mostly_long = self.long_line_bytes * 10 > self.bytes * 6;
        if mostly_long && votes.log * 2 < votes.lines {
            let has_words = self.spaces * 11 > self.bytes || self.non_ascii * 10 > self.bytes * 3;
            return if has_words {
                votes.kind_of_long_lines()
            } else {
                OutputKind::OpaqueToolOutput
            };
        }
        votes.kind()
    }

    fn read_start(&mut self, block: &[u8]) {
        let start = block.trim_ascii_start();
        let begins_with = |with: &[u8]| {
            start
                .get(..with.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        self.is_html =
            begins_with(b"<!doctype html") || begins_with(b"<html") || begins_with(b"<head>");
        self.is_markup_or_php = begins_with(b"<?xml")
            || begins_with(b"<svg")
            || begins_with(b"<?php")
            || elements::is_xml(start);
    }
}

/// How many bytes match. The inner sum fits into a byte, so that the compiler vectorises
/// the loop.
pub(super) fn count_bytes(block: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    block
        .chunks(128)
        .map(|few| {
            let sum = few
                .iter()
                .fold(0_u8, |sum, &byte| sum + u8::from(matches(byte)));
            usize::from(sum)
        })
        .sum()
}

#[cfg(test)]
mod tests;
