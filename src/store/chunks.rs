//! Texts in compressed pieces, so that a part can be read without the whole.

use rusqlite::{Connection, params};
use zstd::bulk::{Compressor, Decompressor};

use super::error::StoreError;
use super::model::ArtifactRange;
use super::text_range as cut;

/// Bytes of text in a piece at most.
const CHUNK: usize = 256 << 10;

/// Writes the pieces of a text; tells how many bytes they take.
pub(super) fn write(connection: &Connection, blob: i64, text: &str) -> Result<usize, StoreError> {
    write_in(connection, blob, text, CHUNK)
}

fn write_in(
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
        insert.execute(params![
            blob,
            start.cast_signed(),
            lines.cast_signed(),
            bytes.cast_signed(),
            body
        ])?;
        stored += body.len();
        start += bytes;
        lines += cut::count_newlines(chunk);
        rest = after;
    }
    Ok(stored)
}

/// A part of a text: where it begins, in which line, and what it says.
pub(super) struct ReadText {
    pub(super) start: u64,
    pub(super) first_line: u64,
    pub(super) text: String,
}

/// Reads a part of a text, and no pieces that it does not touch.
pub(super) fn read(connection: &Connection, blob: i64, part: &ArtifactRange) -> Result<ReadText, StoreError> {
    let span = ChunkSpan::of(connection, blob, part)?;
    let mut select = connection.prepare_cached(
        "SELECT start, lines, bytes, body FROM chunks
         WHERE blob = ?1 AND start >= ?2 AND start < ?3 AND lines < ?4 ORDER BY start",
    )?;
    let mut rows = select.query(params![blob, span.from, span.to, span.lines_to])?;
    let mut decompressor = Decompressor::new()?;
    let mut text = String::with_capacity(span.size);
    let mut first: Option<(u64, u64)> = None;
    while let Some(row) = rows.next()? {
        let start = row.get::<_, i64>(0)?.cast_unsigned();
        let lines = row.get::<_, i64>(1)?.cast_unsigned();
        let bytes = usize::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let chunk = decompressor
            .decompress(body, bytes.min(CHUNK))
            .map_err(|_| StoreError::Damaged("a piece cannot be decompressed"))?;
        let chunk =
            std::str::from_utf8(&chunk).map_err(|_| StoreError::Damaged("a piece is not text"))?;
        let (base, _) = *first.get_or_insert((start, lines));
        if base + text.len() as u64 != start || chunk.len() != bytes {
            return Err(StoreError::Damaged("a piece is missing"));
        }
        text.push_str(chunk);
    }
    let (base, lines) = first.unwrap_or_default();
    let place = cut::locate(&text, &shifted(part, base, lines));
    text.truncate(place.bytes.end);
    text.drain(..place.bytes.start);
    Ok(ReadText {
        start: base + place.bytes.start as u64,
        first_line: lines + place.first_line,
        text,
    })
}

/// Which pieces are needed.
struct ChunkSpan {
    /// The start of the first.
    from: i64,
    /// Later ones start before this.
    to: i64,
    /// And fewer lines end before them.
    lines_to: i64,
    /// Bytes of them together, as far as that is worth a look: a text that grows is
    /// copied, and long ones are long to copy.
    size: usize,
}

impl ChunkSpan {
    fn of(connection: &Connection, blob: i64, part: &ArtifactRange) -> Result<Self, StoreError> {
        let all = Self {
            from: 0,
            to: i64::MAX,
            lines_to: i64::MAX,
            size: 0,
        };
        let place = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match part {
            ArtifactRange::Whole => {
                let mut sum = connection
                    .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM chunks WHERE blob = ?1")?;
                let bytes: i64 = sum.query_row([blob], |row| row.get(0))?;
                Ok(Self {
                    size: usize::try_from(bytes).unwrap_or_default(),
                    ..all
                })
            }
            ArtifactRange::Bytes(range) => {
                let mut last = connection.prepare_cached(
                    "SELECT coalesce(max(start), 0) FROM chunks WHERE blob = ?1 AND start <= ?2",
                )?;
                Ok(Self {
                    from: last.query_row(params![blob, place(range.start)], |row| row.get(0))?,
                    to: place(range.end.max(range.start.saturating_add(1))),
                    ..all
                })
            }
            ArtifactRange::Lines { from, count } => {
                let before = from.saturating_sub(1);
                let lines_to = place(before.saturating_add(*count));
                let Some(ends) = before.checked_sub(1) else {
                    return Ok(Self { lines_to, ..all });
                };
                // The line before the first ends in the last piece before which
                // fewer lines ended.
                let mut last = connection.prepare_cached(
                    "SELECT coalesce(max(start), 0) FROM chunks WHERE blob = ?1 AND lines <= ?2",
                )?;
                Ok(Self {
                    from: last.query_row(params![blob, place(ends)], |row| row.get(0))?,
                    lines_to,
                    ..all
                })
            }
        }
    }
}

/// The same part, counted from where so many bytes and lines have ended.
fn shifted(part: &ArtifactRange, bytes: u64, lines: u64) -> ArtifactRange {
    match part {
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
