//! Stores a text in compressed chunks, so that a range can be read without decompressing the whole.

use rusqlite::{Connection, params};
use zstd::bulk::{Compressor, Decompressor};

use super::error::StoreError;
use super::model::ArtifactRange;
use super::reading::StoreRead;
use super::text_range;

/// The most bytes of text in a chunk.
const CHUNK_SIZE: usize = 256 << 10;

/// Writes the chunks of a text. Returns how many bytes they take.
pub(super) fn write(connection: &Connection, blob: i64, text: &str) -> Result<usize, StoreError> {
    write_with_chunk_size(connection, blob, text, CHUNK_SIZE)
}

fn write_with_chunk_size(
    connection: &Connection,
    blob: i64,
    text: &str,
    chunk_size: usize,
) -> Result<usize, StoreError> {
    let mut compressor = Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
    compressor.include_checksum(true)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO chunks (blob, start, lines, bytes, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let (mut rest, mut start, mut lines, mut stored) = (text, 0_u64, 0_u64, 0);
    while !rest.is_empty() {
        let (chunk, after) = rest
            .split_at_checked(rest.floor_char_boundary(chunk_size))
            .unwrap_or((rest, ""));
        let body = compressor.compress(chunk.as_bytes())?;
        let bytes = chunk.len() as u64;
        insert.execute(params![blob, start, lines, bytes, body])?;
        stored += body.len();
        start += bytes;
        lines += text_range::count_newlines(chunk);
        rest = after;
    }
    Ok(stored)
}

/// A range that was read from a text.
pub(super) struct ReadText {
    /// The offset in bytes at which it begins.
    pub(super) start: u64,
    pub(super) first_line: u64,
    pub(super) text: String,
}

/// Reads a range of a text, and only the chunks that it touches.
pub(super) fn read(
    reading: &StoreRead<'_>,
    blob: i64,
    range: &ArtifactRange,
) -> Result<ReadText, StoreError> {
    let span = ChunkSpan::new(reading, blob, range)?;
    let mut select = reading.prepare_cached(
        "SELECT start, lines, bytes, body FROM chunks
         WHERE blob = ?1 AND start >= ?2 AND start < ?3 AND lines < ?4 ORDER BY start",
    )?;
    let mut rows = select.query(params![blob, span.from, span.to, span.lines_to])?;
    let mut decompressor = Decompressor::new()?;
    reading.reserve(span.size)?;
    let mut text = String::with_capacity(span.size);
    let mut first: Option<(u64, u64)> = None;
    while let Some(row) = rows.next()? {
        let (start, lines): (u64, u64) = (row.get(0)?, row.get(1)?);
        let bytes: usize = row.get(2)?;
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let chunk = decompressor
            .decompress(body, bytes.min(CHUNK_SIZE))
            .map_err(|_| StoreError::Damaged("a piece cannot be decompressed"))?;
        let chunk =
            std::str::from_utf8(&chunk).map_err(|_| StoreError::Damaged("a piece is not text"))?;
        let (base, _) = *first.get_or_insert((start, lines));
        if base + text.len() as u64 != start || chunk.len() != bytes {
            return Err(StoreError::Damaged("a piece is missing"));
        }
        if span.size == 0 {
            reading.reserve(chunk.len())?;
        }
        text.push_str(chunk);
    }
    let (base, lines) = first.unwrap_or_default();
    let position = text_range::locate(&text, &relative_to(range, base, lines));
    text.truncate(position.bytes.end);
    text.drain(..position.bytes.start);
    Ok(ReadText {
        start: base + position.bytes.start as u64,
        first_line: lines + position.first_line,
        text,
    })
}

/// The chunks that a range touches.
struct ChunkSpan {
    /// The start of the first chunk.
    from: i64,
    /// All chunks start before this offset,
    to: i64,
    /// and fewer lines than this end before them.
    lines_to: i64,
    /// The size of the text to reserve, in bytes; 0 unless the whole text is read. A string that
    /// grows is copied, which takes long for a long text.
    size: usize,
}

impl ChunkSpan {
    fn new(connection: &Connection, blob: i64, range: &ArtifactRange) -> Result<Self, StoreError> {
        let all = Self {
            from: 0,
            to: i64::MAX,
            lines_to: i64::MAX,
            size: 0,
        };
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match range {
            ArtifactRange::Whole => {
                let mut sum = connection
                    .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM chunks WHERE blob = ?1")?;
                let size = sum.query_row([blob], |row| row.get(0))?;
                Ok(Self { size, ..all })
            }
            ArtifactRange::Bytes(range) => {
                let mut last = connection.prepare_cached(
                    "SELECT coalesce(max(start), 0) FROM chunks WHERE blob = ?1 AND start <= ?2",
                )?;
                Ok(Self {
                    from: last.query_row(params![blob, signed(range.start)], |row| row.get(0))?,
                    to: signed(range.end.max(range.start.saturating_add(1))),
                    ..all
                })
            }
            ArtifactRange::Lines { from, count } => {
                let before = from.saturating_sub(1);
                let lines_to = signed(before.saturating_add(*count));
                let Some(ends) = before.checked_sub(1) else {
                    return Ok(Self { lines_to, ..all });
                };
                // The line before the first one ends in the last chunk before which fewer lines
                // have ended.
                let mut last = connection.prepare_cached(
                    "SELECT coalesce(max(start), 0) FROM chunks WHERE blob = ?1 AND lines <= ?2",
                )?;
                Ok(Self {
                    from: last.query_row(params![blob, signed(ends)], |row| row.get(0))?,
                    lines_to,
                    ..all
                })
            }
        }
    }
}

/// The same range, counted from a place before which this many bytes and lines have ended.
fn relative_to(range: &ArtifactRange, bytes: u64, lines: u64) -> ArtifactRange {
    match range {
        ArtifactRange::Whole => ArtifactRange::Whole,
        ArtifactRange::Bytes(range) => {
            ArtifactRange::Bytes(range.start.saturating_sub(bytes)..range.end.saturating_sub(bytes))
        }
        ArtifactRange::Lines { from, count } => ArtifactRange::Lines {
            from: from.saturating_sub(lines).max(1),
            count: *count,
        },
    }
}

#[cfg(test)]
mod tests;
