//! The folder of bundles.

use std::path::PathBuf;

/// The folder of bundles.
pub struct Folder(PathBuf);

impl Folder {
    /// At this path.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The files, the newest first.
    pub fn list(&self) -> std::io::Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        files.reverse();
        Ok(files)
    }
}
