//! Reads a bundle as a tar of files, independently of the program's own reader, because
//! the format is documented for other tools.
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

/// The files of a bundle, in order.
pub struct BundleFiles {
    files: Vec<(String, Vec<u8>)>,
}

impl BundleFiles {
    pub fn read(path: &Path) -> Self {
        let packed = std::fs::read(path).unwrap();
        let unpacked = zstd::decode_all(packed.as_slice()).unwrap();
        let mut archive = tar::Archive::new(unpacked.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (name, bytes)
        });
        let files = entries.collect();
        Self { files }
    }

    /// Packs the files as a bundle again.
    pub fn write(&self, path: &Path) {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, bytes) in &self.files {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o600);
            header.set_size(bytes.len() as u64);
            archive
                .append_data(&mut header, name, bytes.as_slice())
                .unwrap();
        }
        let unpacked = archive.into_inner().unwrap();
        let packed = zstd::encode_all(unpacked.as_slice(), 3).unwrap();
        std::fs::write(path, packed).unwrap();
    }

    /// The number of turns.
    pub fn len(&self) -> usize {
        self.turns().count()
    }

    /// The `turn.json` of each turn.
    pub fn turns(&self) -> impl Iterator<Item = Value> {
        self.files
            .iter()
            .filter(|(name, _)| name.ends_with("/turn.json"))
            .map(|(_, bytes)| serde_json::from_slice(bytes).unwrap())
    }

    pub fn file(&self, name: &str) -> &[u8] {
        let mut files = self.files.iter();
        &files.find(|(other, _)| other == name).unwrap().1
    }

    /// The kinds of all faults, including those that the turn recovered from.
    pub fn fault_kinds(&self) -> BTreeSet<String> {
        let faults = self.turns().flat_map(|turn| {
            let attempts = turn["attempts"].as_array().unwrap().clone();
            let own = turn["fault"].clone();
            attempts
                .into_iter()
                .map(|attempt| attempt["fault"].clone())
                .chain([own])
        });
        faults
            .filter_map(|fault| fault["kind"].as_str().map(str::to_owned))
            .collect()
    }

    /// Changes a JSON file.
    pub fn edit_json(&mut self, file: &str, change: impl FnOnce(&mut Value)) {
        let (_, bytes) = self
            .files
            .iter_mut()
            .find(|(name, _)| name == file)
            .unwrap_or_else(|| panic!("there is no {file}"));
        let mut json = serde_json::from_slice(bytes).unwrap();
        change(&mut json);
        *bytes = serde_json::to_vec(&json).unwrap();
    }

    /// Replaces a text in one file; the text must be there.
    pub fn replace_text(&mut self, file: &str, from: &str, to: &str) {
        let (_, bytes) = self
            .files
            .iter_mut()
            .find(|(name, _)| name == file)
            .unwrap_or_else(|| panic!("there is no {file}"));
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(from), "no {from} in {file}: {text}");
        *bytes = text.replacen(from, to, 1).into_bytes();
    }
}
