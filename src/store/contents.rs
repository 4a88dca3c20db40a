//! JSON that several rows share, stored once and compressed. Rows count as its users; triggers
//! delete what has none.

use std::io::Cursor;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use zstd::bulk::Decompressor;

use super::error::StoreError;
use super::reading::StoreRead;
use crate::net::memory::MemoryFull;

/// The level of zstd: a fast one, because everything else that is written waits meanwhile.
const COMPRESSION_LEVEL: i32 = 1;

/// Stores JSON for one more user. Returns its row number.
pub(super) fn put(connection: &Connection, json: &str) -> Result<i64, StoreError> {
    let hash = Sha256::digest(json.as_bytes());
    let mut update = connection
        .prepare_cached("UPDATE contents SET uses = uses + 1 WHERE hash = ?1 RETURNING number")?;
    let known = update
        .query_row([hash.as_slice()], |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    let body = zstd::bulk::compress(json.as_bytes(), COMPRESSION_LEVEL)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO contents (hash, uses, bytes, stored, body) VALUES (?1, 1, ?2, ?3, ?4)",
    )?;
    let number = insert.insert(params![hash.as_slice(), json.len(), body.len(), body])?;
    Ok(number)
}

/// The JSON of a row.
pub(super) fn read(reading: &StoreRead<'_>, number: i64) -> Result<String, StoreError> {
    let mut json = Vec::new();
    ContentReader::default().read(reading, number, &mut json)?;
    text_of(json)
}

/// Reads rows one after the other, with a decompressor that is allocated once.
#[derive(Default)]
pub(super) struct ContentReader {
    decompressor: Option<Decompressor<'static>>,
}

impl ContentReader {
    /// Appends the JSON of a row. It is not checked to be text.
    pub(super) fn read(
        &mut self,
        reading: &StoreRead<'_>,
        number: i64,
        text: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut select =
            reading.prepare_cached("SELECT bytes, stored, body FROM contents WHERE number = ?1")?;
        let mut rows = select.query([number])?;
        let row = rows
            .next()?
            .ok_or(StoreError::Damaged("a content is missing"))?;
        let bytes: usize = row.get(0)?;
        // SQLite copies the frame out of its pages.
        let stored: usize = row.get(1)?;
        reading.reserve(stored)?;
        let body = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        self.decompress(reading, body, bytes, text)?;
        reading.give_back(stored);
        Ok(())
    }

    /// Appends the content of a zstd frame, which has `bytes` bytes. It is decompressed where it
    /// stays, because a copy of a large text takes long.
    fn decompress(
        &mut self,
        reading: &StoreRead<'_>,
        body: &[u8],
        bytes: usize,
        text: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            unused @ None => unused.insert(Decompressor::new()?),
        };
        let start = text.len();
        reserve(reading, text, bytes)?;
        let mut end = Cursor::new(text);
        end.set_position(start as u64);
        let written = decompressor
            .decompress_to_buffer(body, &mut end)
            .map_err(|_| StoreError::Damaged("a content cannot be decompressed"))?;
        if written == bytes {
            Ok(())
        } else {
            Err(StoreError::Damaged("a content is not complete"))
        }
    }
}

/// The text in a zstd frame, which has `bytes` bytes.
pub(super) fn decompressed(
    reading: &StoreRead<'_>,
    body: &[u8],
    bytes: usize,
) -> Result<String, StoreError> {
    let mut text = Vec::new();
    ContentReader::default().decompress(reading, body, bytes, &mut text)?;
    text_of(text)
}

/// Makes room for `bytes` more bytes of a text that is read, with memory for them. A text that has
/// room already needs no more memory.
pub(super) fn reserve(
    reading: &StoreRead<'_>,
    text: &mut Vec<u8>,
    bytes: usize,
) -> Result<(), StoreError> {
    let before = text.capacity();
    if before - text.len() >= bytes {
        return reading.reserve(0);
    }
    // What is appended in many pieces is not copied for each of them.
    let wanted = (text.len() + bytes).max(text.len() + text.len() / 2);
    reading.reserve(wanted - before)?;
    let full = |_| StoreError::NoMemory {
        needed: wanted,
        full: MemoryFull::InUse,
    };
    text.try_reserve_exact(wanted - text.len()).map_err(full)
}

/// What was read from the database as text.
pub(super) fn text_of(bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|_| StoreError::Damaged("a content is not text"))
}
