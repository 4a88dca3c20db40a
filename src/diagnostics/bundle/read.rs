//! Unpacks a bundle into memory. The file may be anybody's: what is not exactly
//! a bundle is refused, and nothing here touches the disk but to read the file.

use std::cell::RefCell;
use std::fs::{File, metadata};
use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, Entries, EntryType};
use zstd::stream::read::Decoder;

use super::check::{check_numbers, check_sizes};
use super::entry::Entry;
use super::error::Shown;
use super::manifest::{Manifest, strange};
use super::write::compressed;
use super::{Bundle, BundleError, MOST_BYTES, MOST_COMPRESSED, MOST_JSON, Turn, WINDOW_LOG};

/// RFC 8878, 3.1.1.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const MOST_MANIFEST: u64 = 64 << 10;
/// Zeros at the end: `tar` fills up to 10 KiB.
const MOST_PADDING: u64 = 64 << 10;

impl Bundle {
    /// Reads a file. Nothing is written.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        // Before it is opened: opening a pipe would wait for its writer.
        regular(metadata(path))?;
        let file = File::open(path).map_err(BundleError::Unreadable)?;
        compressed(regular(file.metadata())?)?;
        let mut bytes = Vec::new();
        // It may have grown.
        file.take(MOST_COMPRESSED + 1)
            .read_to_end(&mut bytes)
            .map_err(BundleError::Unreadable)?;
        Self::from_bytes(&bytes)
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        Self::within(bytes, MOST_BYTES)
    }

    /// Reads a file that holds at most so many bytes.
    pub(super) fn within(bytes: &[u8], most: u64) -> Result<Self, BundleError> {
        compressed(bytes.len() as u64)?;
        if !bytes.starts_with(&MAGIC) {
            return Err(BundleError::NotABundle);
        }
        let mut decoder = Decoder::with_buffer(bytes)
            .map_err(BundleError::Unreadable)?
            .single_frame();
        decoder
            .window_log_max(WINDOW_LOG)
            .map_err(BundleError::Unreadable)?;
        let trouble = RefCell::new(None);
        let mut source = Source {
            decoder,
            most,
            left: most,
            trouble: &trouble,
        };
        let mut archive = Archive::new(&mut source);
        let bundle = unpack(&mut archive, &trouble)?;
        source.ends().map_err(|error| excuse(&trouble, &error))?;
        Ok(bundle)
    }
}

/// The size of a regular file.
fn regular(metadata: io::Result<std::fs::Metadata>) -> Result<u64, BundleError> {
    let metadata = metadata.map_err(BundleError::Unreadable)?;
    if !metadata.is_file() {
        return Err(BundleError::NotAFile);
    }
    Ok(metadata.len())
}

fn unpack<R: Read>(archive: &mut Archive<R>, trouble: &Trouble) -> Result<Bundle, BundleError> {
    let entries = archive
        .entries()
        .map_err(|error| excuse(trouble, &error))?
        // Extensions of tar are entries like others then, and refused.
        .raw(true);
    let mut unpacking = Unpacking { entries, trouble };
    let json = unpacking.take(Entry::Manifest)?;
    let manifest = Manifest::read(&json)?;
    let mut turns = Vec::new();
    for number in 1..=manifest.turns {
        let place = Entry::Turn(number);
        let json = unpacking.take(place)?;
        let mut turn: Turn = serde_json::from_slice(&json)
            .map_err(|error| strange(place, &error, &manifest.made_by))?;
        drop(json);
        check_numbers(&turn, number)?;
        for entry in Entry::bodies(number, turn.attempts.len()) {
            let body = unpacking.take(entry)?;
            if let Some(place) = turn.body_mut(entry) {
                *place = body;
            }
        }
        check_sizes(&turn, number)?;
        turns.push(turn);
    }
    unpacking.end()?;
    Ok(Bundle {
        made_by: manifest.made_by,
        images: manifest.images,
        encrypted: manifest.encrypted,
        turns,
    })
}

/// Why the source stopped, which the reader of the tar does not know.
type Trouble = RefCell<Option<BundleError>>;

struct Unpacking<'a, 'b, R: Read> {
    entries: Entries<'a, R>,
    trouble: &'b Trouble,
}

impl<R: Read> Unpacking<'_, '_, R> {
    /// What the next entry holds, which must be this one.
    fn take(&mut self, wanted: Entry) -> Result<Vec<u8>, BundleError> {
        let mut entry = match self.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return Err(self.no_entry(wanted, &error)),
            None if wanted == Entry::Manifest => return Err(BundleError::NotABundle),
            None => return Err(BundleError::Lacks(Shown::new(wanted))),
        };
        let name = entry.header().path_bytes();
        let found = Entry::parse(&name);
        if found.is_none() || entry.header().entry_type() != EntryType::Regular {
            let name = String::from_utf8_lossy(&name);
            return Err(BundleError::Foreign(Shown::new(name)));
        }
        if found != Some(wanted) {
            return Err(BundleError::Lacks(Shown::new(wanted)));
        }
        let size = entry.size();
        let most = match wanted {
            Entry::Manifest => MOST_MANIFEST,
            Entry::Turn(_) => MOST_JSON,
            Entry::Request(_)
            | Entry::Plan(_)
            | Entry::AttemptRequest(..)
            | Entry::AttemptAnswer(..)
            | Entry::Answer(_) => MOST_BYTES,
        };
        if size > most {
            return Err(BundleError::TooLarge {
                what: "the bytes of an entry",
                most,
            });
        }
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .map_err(|error| excuse(self.trouble, &error))?;
        if bytes.len() as u64 != size {
            return Err(BundleError::Damaged(Shown::new("it ends too early")));
        }
        Ok(bytes)
    }

    /// After the last entry there is none.
    fn end(&mut self) -> Result<(), BundleError> {
        match self.entries.next() {
            None => Ok(()),
            Some(Ok(entry)) => {
                let name = entry.header().path_bytes();
                let name = String::from_utf8_lossy(&name);
                Err(BundleError::Foreign(Shown::new(name)))
            }
            Some(Err(error)) => Err(excuse(self.trouble, &error)),
        }
    }

    fn no_entry(&self, wanted: Entry, error: &io::Error) -> BundleError {
        // What decompresses well and is no tar was never a bundle.
        if wanted == Entry::Manifest && self.trouble.borrow().is_none() {
            return BundleError::NotABundle;
        }
        excuse(self.trouble, error)
    }
}

fn excuse(trouble: &Trouble, error: &io::Error) -> BundleError {
    let known = trouble.borrow_mut().take();
    known.unwrap_or_else(|| BundleError::Damaged(Shown::new(error)))
}

/// The tar in the file, up to the limit.
struct Source<'a, 'b> {
    decoder: Decoder<'static, &'a [u8]>,
    most: u64,
    left: u64,
    trouble: &'b Trouble,
}

impl Source<'_, '_> {
    /// Nothing but zeros is left in the tar, and nothing behind it. The checksum
    /// of the whole is at its end.
    fn ends(mut self) -> io::Result<()> {
        let mut rest = Vec::new();
        (&mut self).take(MOST_PADDING + 1).read_to_end(&mut rest)?;
        let only_padding = rest.len() as u64 <= MOST_PADDING && rest.iter().all(|byte| *byte == 0);
        if only_padding && self.decoder.finish().is_empty() {
            return Ok(());
        }
        Err(io::Error::other("more bytes than there should be"))
    }
}

impl Read for Source<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer).inspect_err(|error| {
            let damaged = BundleError::Damaged(Shown::new(error));
            *self.trouble.borrow_mut() = Some(damaged);
        })?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            *self.trouble.borrow_mut() = Some(BundleError::TooLarge {
                what: "the bytes in it",
                most: self.most,
            });
            return Err(io::Error::other("too large"));
        };
        self.left = left;
        Ok(count)
    }
}
