//! A log file that does not grow without limit.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest size of a log file in bytes. As much is kept of what was logged before.
const MAX_BYTES: u64 = 8 << 20;

/// A log file, which is continued. When it is full it is renamed, in place of the one that was
/// renamed before, and a new one begins. Made at the start of the log, and lives as long.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    max_bytes: u64,
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Opens the file; it and its folder are made if they do not exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::open_limited(path, MAX_BYTES)
    }

    fn open_limited(path: &Path, max_bytes: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            max_bytes,
            file,
            bytes,
        })
    }

    /// The open file.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Continues in a new file. Another process may have begun one, or deleted the old one.
    fn begin_anew(&mut self) -> io::Result<()> {
        if is_at(&self.file, &self.path) {
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
        }
        self.file = open(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }
}

impl Write for LogFile {
    /// Writes a record, which is passed as a whole.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        if self.bytes >= self.max_bytes {
            self.begin_anew()?;
        }
        self.file.write_all(record)?;
        self.bytes += record.len() as u64;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether the file at the path is this open one.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_kept_once_and_a_new_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/run.log");
        for record in ["one\n", "two\n", "three\n", "four\n"] {
            let mut log = LogFile::open_limited(&path, 8).unwrap();
            log.write_all(record.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\nfour\n");
        let mut log = LogFile::open_limited(&path, 8).unwrap();
        log.write_all(b"five\n").unwrap();
        log.write_all(b"six\n").unwrap();
        log.write_all(b"seven\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "seven\n");
        let old = fs::read_to_string(folder.path().join("data/run.log.old")).unwrap();
        assert_eq!(old, "five\nsix\n");
        // Somebody deletes the file, or another process begins it anew.
        log.write_all(b"eight\n").unwrap();
        fs::remove_file(&path).unwrap();
        log.write_all(b"nine\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "nine\n");
        let mut other = LogFile::open_limited(&path, 8).unwrap();
        for record in ["ten\n", "eleven\n"] {
            other.write_all(record.as_bytes()).unwrap();
        }
        log.bytes = 8;
        log.write_all(b"twelve\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "eleven\ntwelve\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
