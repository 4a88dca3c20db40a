//! Unpacks a bundle into memory. The file is untrusted: anything that is not exactly
//! a bundle is refused as a whole, and nothing is written to disk.

use std::fs::{File, metadata};
use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, Entries, EntryType};
use zstd::stream::read::Decoder;

use super::check::{check_bodies, check_metadata};
use super::entry::{MANIFEST, is_entry, turn_json};
use super::error::printable;
use super::manifest::{Manifest, json_error};
use super::write::check_file_size;
use super::{
    Bundle, BundleError, BundleTurn, MAX_FILE_BYTES, MAX_TAR_BYTES, MAX_TURN_JSON_BYTES,
    MAX_WINDOW_LOG,
};

/// The magic number of a zstd frame: RFC 8878, 3.1.1.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const MAX_MANIFEST_BYTES: u64 = 64 << 10;
/// Maximum number of zeros after the tar: `tar` pads archives to 10 KiB.
const MAX_PADDING_BYTES: u64 = 64 << 10;

impl Bundle {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        // Checked before opening: opening a pipe would wait for its writer.
        regular_file_size(metadata(path))?;
        let file = File::open(path).map_err(BundleError::Unreadable)?;
        check_file_size(regular_file_size(file.metadata())?)?;
        let mut bytes = Vec::new();
        // The file may have grown since.
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(BundleError::Unreadable)?;
        Self::from_bytes(&bytes)
    }

    /// Unpacks the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        Self::from_bytes_limited(bytes, MAX_TAR_BYTES)
    }

    /// Unpacks the bytes of a file whose tar has at most `max_bytes`.
    pub(super) fn from_bytes_limited(bytes: &[u8], max_bytes: u64) -> Result<Self, BundleError> {
        check_file_size(bytes.len() as u64)?;
        if !bytes.starts_with(&ZSTD_MAGIC) {
            return Err(BundleError::NotABundle);
        }
        let mut decoder = Decoder::with_buffer(bytes)
            .map_err(BundleError::Unreadable)?
            .single_frame();
        decoder
            .window_log_max(MAX_WINDOW_LOG)
            .map_err(BundleError::Unreadable)?;
        let mut source = TarStream {
            decoder,
            max_bytes,
            bytes_left: max_bytes,
        };
        let bundle = unpack(&mut Archive::new(&mut source))?;
        source.check_end()?;
        Ok(bundle)
    }
}

fn regular_file_size(metadata: io::Result<std::fs::Metadata>) -> Result<u64, BundleError> {
    let metadata = metadata.map_err(BundleError::Unreadable)?;
    if !metadata.is_file() {
        return Err(BundleError::NotAFile);
    }
    Ok(metadata.len())
}

fn unpack<R: Read>(archive: &mut Archive<R>) -> Result<Bundle, BundleError> {
    // `raw` shows extension headers of tar as entries, so that they are refused.
    let mut entries = archive.entries()?.raw(true);
    let manifest = Manifest::parse(&read_entry(&mut entries, MANIFEST, MAX_MANIFEST_BYTES)?)?;
    let mut turns = Vec::new();
    for number in 1..=manifest.turns {
        let name = turn_json(number);
        let json = read_entry(&mut entries, &name, MAX_TURN_JSON_BYTES)?;
        let mut turn: BundleTurn = serde_json::from_slice(&json)
            .map_err(|error| json_error(&name, &error, &manifest.made_by))?;
        drop(json);
        check_metadata(&turn, number)?;
        let names = turn.body_names(number);
        for (name, body) in names.iter().zip(turn.bodies_mut()) {
            *body = read_entry(&mut entries, name, MAX_TAR_BYTES)?;
        }
        check_bodies(&turn, number)?;
        turns.push(turn);
    }
    if let Some(entry) = entries.next() {
        return Err(foreign(&entry?.header().path_bytes()));
    }
    Ok(Bundle {
        made_by: manifest.made_by,
        images: manifest.images,
        encrypted: manifest.encrypted,
        turns,
    })
}

/// Reads the next entry, which must have this name.
fn read_entry<R: Read>(
    entries: &mut Entries<'_, R>,
    wanted: &str,
    limit: u64,
) -> Result<Vec<u8>, BundleError> {
    let missing = || BundleError::damaged(format_args!("{wanted} is missing"));
    let mut entry = match entries.next() {
        Some(Ok(entry)) => entry,
        // A stream that decompresses but is not a tar was never a bundle.
        Some(Err(error)) if wanted == MANIFEST => {
            return Err(error.downcast().unwrap_or(BundleError::NotABundle));
        }
        Some(Err(error)) => return Err(error.into()),
        None if wanted == MANIFEST => return Err(BundleError::NotABundle),
        None => return Err(missing()),
    };
    let name = entry.header().path_bytes();
    if !is_entry(&name) || entry.header().entry_type() != EntryType::Regular {
        return Err(foreign(&name));
    }
    if *name != *wanted.as_bytes() {
        return Err(missing());
    }
    let size = entry.size();
    if size > limit {
        return Err(BundleError::TooLarge {
            what: "the bytes of an entry",
            limit,
        });
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    if bytes.len() as u64 != size {
        return Err(BundleError::damaged("it ends too early"));
    }
    Ok(bytes)
}

fn foreign(name: &[u8]) -> BundleError {
    BundleError::ForeignEntry(printable(String::from_utf8_lossy(name)))
}

/// The decompressed tar, up to a number of bytes. Its errors wrap a [`BundleError`].
struct TarStream<'a> {
    decoder: Decoder<'static, &'a [u8]>,
    max_bytes: u64,
    bytes_left: u64,
}

impl TarStream<'_> {
    /// Checks that only zeros are left in the tar, and nothing after the zstd frame.
    /// Reading to the end also verifies the checksum of the frame.
    fn check_end(mut self) -> Result<(), BundleError> {
        let mut rest = Vec::new();
        (&mut self)
            .take(MAX_PADDING_BYTES + 1)
            .read_to_end(&mut rest)?;
        let only_padding =
            rest.len() as u64 <= MAX_PADDING_BYTES && rest.iter().all(|byte| *byte == 0);
        if only_padding && self.decoder.finish().is_empty() {
            return Ok(());
        }
        Err(BundleError::damaged("more bytes than there should be"))
    }
}

impl Read for TarStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer);
        let count = count.map_err(|error| io::Error::other(BundleError::damaged(error)))?;
        let left = self.bytes_left.checked_sub(count as u64);
        self.bytes_left = left.ok_or_else(|| {
            io::Error::other(BundleError::TooLarge {
                what: "the bytes in it",
                limit: self.max_bytes,
            })
        })?;
        Ok(count)
    }
}
