//! Packs a bundle. Equal bundles become equal bytes.

use std::io::{self, Write};

use serde::Serialize;
use tar::{Builder, EntryType, Header};
use zstd::stream::write::Encoder;

use super::check::{check_bodies, check_metadata};
use super::entry::{MANIFEST, turn_json};
use super::manifest::{Manifest, check_turn_count};
use super::{Bundle, BundleError, MAX_FILE_BYTES, MAX_TAR_BYTES, MAX_TURN_JSON_BYTES};

const COMPRESSION_LEVEL: i32 = 3;

impl Bundle {
    /// Encodes the bundle as the bytes of a file.
    ///
    /// # Errors
    ///
    /// Fails for every bundle that [`Bundle::from_bytes`] would refuse.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BundleError> {
        check_turn_count(self.turns.len())?;
        let encoder = Encoder::new(Vec::new(), COMPRESSION_LEVEL).and_then(|mut encoder| {
            encoder.include_checksum(true)?;
            Ok(encoder)
        });
        let mut tar = TarWriter {
            builder: Builder::new(encoder.map_err(BundleError::PackFailed)?),
            // The two empty blocks at the end of a tar.
            size: 1024,
        };
        tar.add_json(MANIFEST, &Manifest::from_bundle(self))?;
        for (turn, number) in self.turns.iter().zip(1..) {
            check_metadata(turn, number)?;
            check_bodies(turn, number)?;
            tar.add_json(&turn_json(number), turn)?;
            for (name, body) in turn.body_names(number).iter().zip(turn.bodies()) {
                tar.add(name, body)?;
            }
        }
        let bytes = tar
            .builder
            .into_inner()
            .and_then(Encoder::finish)
            .map_err(BundleError::PackFailed)?;
        check_file_size(bytes.len() as u64)?;
        Ok(bytes)
    }
}

pub(super) fn check_file_size(bytes: u64) -> Result<(), BundleError> {
    if bytes > MAX_FILE_BYTES {
        return Err(BundleError::TooLarge {
            what: "the bytes of the file",
            limit: MAX_FILE_BYTES,
        });
    }
    Ok(())
}

struct TarWriter<W: Write> {
    builder: Builder<W>,
    size: u64,
}

impl<W: Write> TarWriter<W> {
    fn add_json(&mut self, name: &str, value: &impl Serialize) -> Result<(), BundleError> {
        let mut json = serde_json::to_vec_pretty(value)
            .map_err(|error| BundleError::PackFailed(error.into()))?;
        json.push(b'\n');
        if json.len() as u64 > MAX_TURN_JSON_BYTES {
            return Err(BundleError::TooLarge {
                what: "the bytes of a turn.json",
                limit: MAX_TURN_JSON_BYTES,
            });
        }
        self.add(name, &json)
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        self.size += 512 + (bytes.len() as u64).next_multiple_of(512);
        if self.size > MAX_TAR_BYTES {
            return Err(BundleError::TooLarge {
                what: "the bytes in it",
                limit: MAX_TAR_BYTES,
            });
        }
        self.append(name, bytes).map_err(BundleError::PackFailed)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
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
