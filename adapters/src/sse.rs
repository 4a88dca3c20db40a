//! Bounded, incremental decoder of server-sent events. How events are written is in `frame`.
//!
//! It works on bytes as they arrive, wherever the transport splits them, and
//! follows the event stream format of the HTML standard with two departures that
//! real servers need: a last event without its blank line is delivered by
//! [`SseDecoder::finish`], and invalid UTF-8 is replaced instead of ending the
//! stream. `id` and `retry` are ignored, because an upstream request is never
//! resumed.

mod frame;

use std::borrow::Cow;

use memchr::{memchr, memchr2};

pub(crate) use self::frame::frame_len;
pub use self::frame::{DONE, FRAME_END, begin_frame};

/// The byte order mark, which some servers send first.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Buffers above this size are released after use, so that one large event does not
/// keep memory while the stream is idle.
const MAX_IDLE_CAPACITY: usize = 16 * 1024;
/// The most bytes of unrecognized lines that are kept.
const MAX_UNRECOGNIZED: usize = 16 * 1024;
/// For a line above this size the whole limit is reserved at once, so that it is not copied as it
/// grows: memory that is reserved and not written costs only addresses.
const LONG_LINE: usize = 1 << 20;

/// One complete event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Value of the last `event` field; `None` when absent or empty.
    pub name: Option<Cow<'a, str>>,
    /// The `data` lines joined by LF. Borrowed from the chunk if the event has one data line that
    /// is whole in it, else from the decoder.
    pub data: Cow<'a, str>,
}

/// A line or an event exceeds the limit. The decoder cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server-sent event larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes, as passed to [`SseDecoder::new`].
    pub limit: usize,
}

/// Decodes one stream, chunk by chunk. Holds at most about twice the limit.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct SseDecoder {
    limit: usize,
    /// Whether the first line has been read, which may begin with a byte order mark.
    has_line: bool,
    /// The last chunk ended in CR, so a leading LF of the next one belongs to it.
    after_cr: bool,
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    comments: u64,
    /// The lines that are no fields, each with its end, up to [`MAX_UNRECOGNIZED`] bytes.
    unrecognized: Vec<u8>,
    failed: bool,
}

/// The fields of the current event that lie in the chunk being fed. They are newer
/// than the fields that the decoder holds.
#[derive(Default)]
struct PendingEvent<'c> {
    name: Option<&'c [u8]>,
    data: Option<&'c [u8]>,
}

enum LineField<'l> {
    Blank,
    Comment,
    Data(&'l [u8]),
    Name(&'l [u8]),
    /// A field that says nothing here.
    Ignored,
    /// What the format does not know.
    Unrecognized(&'l [u8]),
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(Self::DEFAULT_LIMIT)
    }
}

impl SseDecoder {
    /// 8 MiB.
    pub const DEFAULT_LIMIT: usize = 8 * 1024 * 1024;

    /// A decoder for a new stream. `limit` bounds, in bytes, each line, and the name
    /// and the joined data of each event together.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            has_line: false,
            after_cr: false,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            comments: 0,
            unrecognized: Vec::new(),
            failed: false,
        }
    }

    /// The number of comment lines so far. Most servers send comments to keep the
    /// connection alive.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// The lines so far that are no fields and no comments. Some servers send an error in one.
    pub fn unrecognized(&self) -> &[u8] {
        &self.unrecognized
    }

    /// The line that has no end yet, if it is neither a field nor a comment.
    pub fn cut_line(&self) -> Cow<'_, str> {
        match parse_line(&self.line) {
            LineField::Unrecognized(line) => String::from_utf8_lossy(line),
            _ => Cow::Borrowed(""),
        }
    }

    /// The bytes that wait for the end of their event.
    pub fn held_bytes(&self) -> usize {
        let line = self.line.capacity();
        let line = line.min(self.line.len().max(LONG_LINE));
        line + self.name.capacity() + self.data.capacity() + self.unrecognized.capacity()
    }

    /// Decodes one chunk and passes every event that it completes to `on`.
    ///
    /// Fails if a line or an event exceeds the limit. The events before it are
    /// delivered, wherever the chunks were split, and every later call fails too.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on: &mut impl FnMut(SseEvent<'_>),
    ) -> Result<(), TooLarge> {
        if self.failed {
            return Err(self.too_large());
        }
        let mut rest = chunk;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let mut open = PendingEvent::default();
        while let Some((line, after)) = self.next_line(rest) {
            rest = after;
            if self.line.is_empty() {
                self.check_size(line.len())?;
                self.accept_line(line, &mut open, on)?;
            } else {
                self.hold_line(line)?;
                self.accept_held_line(on)?;
            }
        }
        self.hold_line(rest)?;
        self.hold_pending(&open);
        Ok(())
    }

    /// Ends the stream and delivers a last line or event that was not terminated.
    pub fn finish(mut self, on: &mut impl FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        if self.failed {
            return Err(self.too_large());
        }
        if !self.line.is_empty() {
            self.accept_held_line(on)?;
        }
        self.dispatch(&mut PendingEvent::default(), on);
        Ok(())
    }

    /// The first complete line without its terminator, and the bytes after it.
    fn next_line<'c>(&mut self, bytes: &'c [u8]) -> Option<(&'c [u8], &'c [u8])> {
        let at = memchr2(b'\n', b'\r', bytes)?;
        let (line, end) = bytes.split_at_checked(at)?;
        let (end, after) = end.split_first()?;
        if *end == b'\n' {
            return Some((line, after));
        }
        self.after_cr = after.is_empty();
        Some((line, after.strip_prefix(b"\n").unwrap_or(after)))
    }

    /// Holds a part of a line.
    fn hold_line(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        let length = self.line.len().saturating_add(part.len());
        self.check_size(length)?;
        if length > LONG_LINE && length > self.line.capacity() {
            self.line.reserve_exact(self.limit - self.line.len());
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Processes a line of the chunk.
    fn accept_line<'c>(
        &mut self,
        line: &'c [u8],
        open: &mut PendingEvent<'c>,
        on: &mut impl FnMut(SseEvent<'_>),
    ) -> Result<(), TooLarge> {
        let line = match line.strip_prefix(BOM) {
            Some(line) if !self.has_line => line,
            Some(_) | None => line,
        };
        self.has_line = true;
        match parse_line(line) {
            LineField::Blank => self.dispatch(open, on),
            LineField::Comment => self.comments += 1,
            LineField::Data(value) if !self.has_data && open.data.is_none() => {
                self.check_size(open.name.unwrap_or(&self.name).len() + value.len())?;
                open.data = Some(value);
            }
            LineField::Data(value) => {
                let name = open.name.unwrap_or(&self.name).len();
                if let Some(first) = open.data.take() {
                    self.append_data(first, name)?;
                }
                self.append_data(value, name)?;
            }
            LineField::Name(value) => {
                self.check_size(open.data.unwrap_or(&self.data).len() + value.len())?;
                open.name = Some(value);
            }
            LineField::Ignored => {}
            LineField::Unrecognized(line) => {
                if self.unrecognized.len() + line.len() < MAX_UNRECOGNIZED {
                    self.unrecognized.extend_from_slice(line);
                    self.unrecognized.push(b'\n');
                }
            }
        }
        Ok(())
    }

    /// Processes the held line. It began in an earlier chunk, so no field of the current event is
    /// in this chunk yet.
    fn accept_held_line(&mut self, on: &mut impl FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        let mut line = std::mem::take(&mut self.line);
        let mut open = PendingEvent::default();
        self.accept_line(&line, &mut open, on)?;
        self.hold_pending(&open);
        line.clear();
        line.shrink_to(MAX_IDLE_CAPACITY);
        self.line = line;
        Ok(())
    }

    fn hold_pending(&mut self, open: &PendingEvent<'_>) {
        if let Some(name) = open.name {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        if let Some(data) = open.data {
            self.data.extend_from_slice(data);
            self.has_data = true;
        }
    }

    /// Appends a line to the data of an event whose name has `name` bytes.
    fn append_data(&mut self, value: &[u8], name: usize) -> Result<(), TooLarge> {
        let joined = name + self.data.len() + usize::from(self.has_data);
        self.check_size(joined.saturating_add(value.len()))?;
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }

    fn dispatch(&mut self, open: &mut PendingEvent<'_>, on: &mut impl FnMut(SseEvent<'_>)) {
        let name = open.name.take().unwrap_or(&self.name);
        let data = match open.data.take() {
            None => self.has_data.then_some(self.data.as_slice()),
            here => here,
        };
        if let Some(data) = data {
            on(SseEvent {
                name: (!name.is_empty()).then(|| decode_text(name)),
                data: decode_text(data),
            });
        }
        self.has_data = false;
        for held in [&mut self.name, &mut self.data] {
            held.clear();
            held.shrink_to(MAX_IDLE_CAPACITY);
        }
    }

    fn check_size(&mut self, len: usize) -> Result<(), TooLarge> {
        if len <= self.limit {
            return Ok(());
        }
        self.failed = true;
        self.line = Vec::new();
        self.name = Vec::new();
        self.data = Vec::new();
        Err(self.too_large())
    }

    fn too_large(&self) -> TooLarge {
        TooLarge { limit: self.limit }
    }
}

/// Replaces what is not UTF-8. Valid text takes the validation of `str`, which is several
/// times as fast as the lossy conversion.
fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn parse_line(line: &[u8]) -> LineField<'_> {
    let (name, value) = match memchr(b':', line) {
        None => (line, &[][..]),
        Some(at) => {
            let (name, value) = line.split_at_checked(at).unwrap_or((line, &[]));
            let value = value.strip_prefix(b":").unwrap_or(value);
            (name, value.strip_prefix(b" ").unwrap_or(value))
        }
    };
    match name {
        b"data" => LineField::Data(value),
        b"event" => LineField::Name(value),
        b"" if line.is_empty() => LineField::Blank,
        b"" => LineField::Comment,
        b"id" | b"retry" => LineField::Ignored,
        _ => LineField::Unrecognized(line),
    }
}

#[cfg(test)]
mod tests;
