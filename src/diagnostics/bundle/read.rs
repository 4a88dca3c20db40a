//! Unpacks a bundle into memory. The file is untrusted: anything that is not exactly
//! a bundle is refused as a whole, and nothing is written to disk.

use std::cell::RefCell;
use std::fs::{File, metadata};
use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, Entries, EntryType};
use zstd::stream::read::Decoder;

use super::check::{check_bodies, check_metadata};
use super::entry::BundleEntry;
use super::error::PrintableText;
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
        let stream_error = RefCell::new(None);
        let mut source = TarStream {
            decoder,
            max_bytes,
            bytes_left: max_bytes,
            error: &stream_error,
        };
        let mut archive = Archive::new(&mut source);
        let bundle = unpack(&mut archive, &stream_error)?;
        source
            .check_end()
            .map_err(|error| take_error(&stream_error, &error))?;
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

fn unpack<R: Read>(
    archive: &mut Archive<R>,
    stream_error: &StreamErrorSlot,
) -> Result<Bundle, BundleError> {
    let entries = archive
        .entries()
        .map_err(|error| take_error(stream_error, &error))?
        // Shows extension headers of tar as entries, so that they are refused.
        .raw(true);
    let mut unpacking = Unpacker {
        entries,
        stream_error,
    };
    let json = unpacking.read_entry(BundleEntry::Manifest)?;
    let manifest = Manifest::parse(&json)?;
    let mut turns = Vec::new();
    for number in 1..=manifest.turns {
        let turn_entry = BundleEntry::Turn(number);
        let json = unpacking.read_entry(turn_entry)?;
        let mut turn: BundleTurn = serde_json::from_slice(&json)
            .map_err(|error| json_error(turn_entry, &error, &manifest.made_by))?;
        drop(json);
        check_metadata(&turn, number)?;
        let entries = BundleEntry::bodies(number, turn.attempts.len());
        for (entry, body) in entries.zip(turn.bodies_mut()) {
            *body = unpacking.read_entry(entry)?;
        }
        check_bodies(&turn, number)?;
        turns.push(turn);
    }
    unpacking.expect_end()?;
    Ok(Bundle {
        made_by: manifest.made_by,
        images: manifest.images,
        encrypted: manifest.encrypted,
        turns,
    })
}

/// The error that ended the decompressed stream. The tar reader only passes on an
/// `io::Error`, which hides the cause.
type StreamErrorSlot = RefCell<Option<BundleError>>;

struct Unpacker<'a, 'b, R: Read> {
    entries: Entries<'a, R>,
    stream_error: &'b StreamErrorSlot,
}

impl<R: Read> Unpacker<'_, '_, R> {
    /// Reads the next entry, which must be `wanted`.
    fn read_entry(&mut self, wanted: BundleEntry) -> Result<Vec<u8>, BundleError> {
        let mut entry = match self.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return Err(self.entry_error(wanted, &error)),
            None if wanted == BundleEntry::Manifest => return Err(BundleError::NotABundle),
            None => return Err(BundleError::MissingEntry(PrintableText::new(wanted))),
        };
        let name = entry.header().path_bytes();
        let found = BundleEntry::parse(&name);
        if found.is_none() || entry.header().entry_type() != EntryType::Regular {
            let name = String::from_utf8_lossy(&name);
            return Err(BundleError::ForeignEntry(PrintableText::new(name)));
        }
        if found != Some(wanted) {
            return Err(BundleError::MissingEntry(PrintableText::new(wanted)));
        }
        let size = entry.size();
        let limit = match wanted {
            BundleEntry::Manifest => MAX_MANIFEST_BYTES,
            BundleEntry::Turn(_) => MAX_TURN_JSON_BYTES,
            BundleEntry::Request(_)
            | BundleEntry::Plan(_)
            | BundleEntry::AttemptRequest(..)
            | BundleEntry::AttemptAnswer(..)
            | BundleEntry::Answer(_) => MAX_TAR_BYTES,
        };
        if size > limit {
            return Err(BundleError::TooLarge {
                what: "the bytes of an entry",
                limit,
            });
        }
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .map_err(|error| take_error(self.stream_error, &error))?;
        if bytes.len() as u64 != size {
            return Err(BundleError::Damaged(PrintableText::new(
                "it ends too early",
            )));
        }
        Ok(bytes)
    }

    /// Fails if there is another entry.
    fn expect_end(&mut self) -> Result<(), BundleError> {
        match self.entries.next() {
            None => Ok(()),
            Some(Ok(entry)) => {
                let name = entry.header().path_bytes();
                let name = String::from_utf8_lossy(&name);
                Err(BundleError::ForeignEntry(PrintableText::new(name)))
            }
            Some(Err(error)) => Err(take_error(self.stream_error, &error)),
        }
    }

    fn entry_error(&self, wanted: BundleEntry, error: &io::Error) -> BundleError {
        // A stream that decompresses but is not a tar was never a bundle.
        if wanted == BundleEntry::Manifest && self.stream_error.borrow().is_none() {
            return BundleError::NotABundle;
        }
        take_error(self.stream_error, error)
    }
}

fn take_error(stream_error: &StreamErrorSlot, error: &io::Error) -> BundleError {
    let known = stream_error.borrow_mut().take();
    known.unwrap_or_else(|| BundleError::Damaged(PrintableText::new(error)))
}

/// The decompressed tar, up to a number of bytes.
struct TarStream<'a, 'b> {
    decoder: Decoder<'static, &'a [u8]>,
    max_bytes: u64,
    bytes_left: u64,
    error: &'b StreamErrorSlot,
}

impl TarStream<'_, '_> {
    /// Checks that only zeros are left in the tar, and nothing after the zstd frame.
    /// Reading to the end also verifies the checksum of the frame.
    fn check_end(mut self) -> io::Result<()> {
        let mut rest = Vec::new();
        (&mut self)
            .take(MAX_PADDING_BYTES + 1)
            .read_to_end(&mut rest)?;
        let only_padding =
            rest.len() as u64 <= MAX_PADDING_BYTES && rest.iter().all(|byte| *byte == 0);
        if only_padding && self.decoder.finish().is_empty() {
            return Ok(());
        }
        Err(io::Error::other("more bytes than there should be"))
    }
}

impl Read for TarStream<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer).inspect_err(|error| {
            let damaged = BundleError::Damaged(PrintableText::new(error));
            *self.error.borrow_mut() = Some(damaged);
        })?;
        let Some(left) = self.bytes_left.checked_sub(count as u64) else {
            *self.error.borrow_mut() = Some(BundleError::TooLarge {
                what: "the bytes in it",
                limit: self.max_bytes,
            });
            return Err(io::Error::other("too large"));
        };
        self.bytes_left = left;
        Ok(count)
    }
}
