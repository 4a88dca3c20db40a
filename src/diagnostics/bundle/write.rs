//! Packs a bundle. The same bundle gives the same bytes.

use std::io::{self, Write};

use serde::Serialize;
use tar::{Builder, EntryType, Header};
use zstd::stream::write::Encoder;

use super::check::{check_numbers, check_sizes};
use super::entry::Entry;
use super::manifest::{Manifest, count};
use super::pretty::to_json;
use super::{Bundle, BundleError, MOST_BYTES, MOST_COMPRESSED, MOST_JSON};

const LEVEL: i32 = 3;

impl Bundle {
    /// The bytes of the file.
    ///
    /// # Errors
    ///
    /// What [`Bundle::from_bytes`] would refuse is not written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BundleError> {
        count(self.turns.len())?;
        let encoder = Encoder::new(Vec::new(), LEVEL).and_then(|mut encoder| {
            encoder.include_checksum(true)?;
            Ok(encoder)
        });
        let mut tar = Tar {
            builder: Builder::new(encoder.map_err(BundleError::Unpacked)?),
            // The end of a tar.
            size: 1024,
        };
        tar.json(Entry::Manifest, &Manifest::of(self))?;
        for (turn, number) in self.turns.iter().zip(1..) {
            check_numbers(turn, number)?;
            check_sizes(turn, number)?;
            tar.json(Entry::Turn(number), turn)?;
            for entry in Entry::bodies(number, turn.attempts.len()) {
                let body = turn.body(entry).map_or(&[][..], Vec::as_slice);
                tar.add(entry, body)?;
            }
        }
        let bytes = tar
            .builder
            .into_inner()
            .and_then(Encoder::finish)
            .map_err(BundleError::Unpacked)?;
        compressed(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// Says no to a file that is too large.
pub(super) fn compressed(bytes: u64) -> Result<(), BundleError> {
    if bytes > MOST_COMPRESSED {
        return Err(BundleError::TooLarge {
            what: "the bytes of the file",
            most: MOST_COMPRESSED,
        });
    }
    Ok(())
}

struct Tar<W: Write> {
    builder: Builder<W>,
    size: u64,
}

impl<W: Write> Tar<W> {
    fn json(&mut self, entry: Entry, value: &impl Serialize) -> Result<(), BundleError> {
        let json = to_json(value).map_err(|error| BundleError::Unpacked(error.into()))?;
        if json.len() as u64 > MOST_JSON {
            return Err(BundleError::TooLarge {
                what: "the bytes of a turn.json",
                most: MOST_JSON,
            });
        }
        self.add(entry, &json)
    }

    fn add(&mut self, entry: Entry, bytes: &[u8]) -> Result<(), BundleError> {
        self.size += 512 + (bytes.len() as u64).next_multiple_of(512);
        if self.size > MOST_BYTES {
            return Err(BundleError::TooLarge {
                what: "the bytes in it",
                most: MOST_BYTES,
            });
        }
        self.append(entry, bytes).map_err(BundleError::Unpacked)
    }

    fn append(&mut self, entry: Entry, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(entry.to_string())?;
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        self.builder.append(&header, bytes)
    }
}
