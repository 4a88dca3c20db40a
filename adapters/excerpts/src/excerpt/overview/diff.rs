//! The files that a diff changes, and its most important lines.

use super::{Spot, list, one_line, secrets, worth};
use crate::evidence::{BIT, Hunk};

/// A text is a diff only if its first hunk is within this many bytes.
const FIRST_BYTES: usize = 128 * 1024;

/// No more files are counted one by one.
const MAX_FILES: usize = 2_000;

/// No more places of one sort are kept.
const MAX_SPOTS: usize = 32;

const MAX_PATH_CHARS: usize = 80;

/// A file of a diff.
#[derive(Default)]
struct ChangedFile {
    path: String,
    added: usize,
    removed: usize,
    is_binary: bool,
}

/// The files of a diff with their changes.
#[derive(Default)]
pub(in crate::excerpt) struct ChangedFiles {
    files: Vec<ChangedFile>,
    count: usize,
    added: usize,
    removed: usize,
}

/// Whether a text is a unified diff, or begins with one.
pub(super) fn is_diff(text: &str) -> bool {
    let bytes = text.as_bytes();
    let start = bytes.get(..FIRST_BYTES).unwrap_or(bytes);
    start.starts_with(b"@@ -") || memchr::memmem::find(start, b"\n@@ -").is_some()
}

/// Reads a diff, and finds its binary files and what looks like a secret in its changes.
pub(super) fn read(text: &str) -> (ChangedFiles, Vec<Spot>) {
    let bytes = text.as_bytes();
    let mut files = ChangedFiles::default();
    let mut hunk = Hunk::default();
    let (mut binary, mut named) = (Vec::new(), Vec::new());
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
        let line = bytes.get(start..end).unwrap_or_default();
        let is_inside = hunk.is_inside();
        let is_unchanged = hunk.is_unchanged(line);
        match line.first() {
            _ if is_unchanged => {}
            Some(sign @ (b'+' | b'-')) if is_inside => {
                files.count_change(*sign == b'+');
                if named.len() < MAX_SPOTS
                    && let Some(at) = secrets::named(line)
                {
                    named.push((start, end, start + at));
                }
            }
            Some(b'd' | b'+' | b'-' | b'B' | b'G') => {
                let is_binary = files.read_header(text.get(start..end).unwrap_or_default());
                if is_binary && binary.len() < MAX_SPOTS {
                    binary.push((start, end, start));
                }
            }
            _ => {}
        }
        start = end + 1;
    }
    let known = secrets::tokens(bytes).filter_map(|at| {
        let line = memchr::memrchr(b'\n', bytes.get(..at)?).map_or(0, |line| line + 1);
        let is_changed = matches!(bytes.get(line), Some(b'+' | b'-'));
        let rest = bytes.get(at..)?;
        let end = at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        is_changed.then_some((line, end, at))
    });
    let known: Vec<_> = known.take(MAX_SPOTS).collect();
    let mut spots = Vec::new();
    for (found, score) in [(binary, 24 * BIT), (named, 30 * BIT), (known, 40 * BIT)] {
        let score = worth(score, found.len());
        spots.extend(found.iter().map(|(start, end, focus)| Spot {
            start: *start,
            end: *end,
            focus: *focus,
            score,
        }));
    }
    (files, spots)
}

impl ChangedFiles {
    fn count_change(&mut self, is_added: bool) {
        let (added, removed) = (usize::from(is_added), usize::from(!is_added));
        self.added += added;
        self.removed += removed;
        let is_counted = self.count <= MAX_FILES;
        if let Some(file) = self.files.last_mut().filter(|_| is_counted) {
            file.added += added;
            file.removed += removed;
        }
    }

    /// Reads a line between two hunks, and returns whether it says that a file is binary.
    fn read_header(&mut self, line: &str) -> bool {
        let line = line.trim_end_matches('\r');
        if let Some(paths) = line.strip_prefix("diff --git ") {
            // Both paths differ only in their first letter, unless the file was renamed.
            let new = paths.split_once(" b/").map_or(paths, |(_, new)| new);
            self.open(new);
        } else if let Some(old) = line.strip_prefix("--- ") {
            let path = path(old);
            if !self.is_open() {
                self.open(path);
            }
        } else if let Some(new) = line.strip_prefix("+++ ") {
            let path = path(new);
            let is_counted = self.count <= MAX_FILES;
            if path != "/dev/null"
                && let Some(file) = self.files.last_mut().filter(|_| is_counted)
            {
                path.clone_into(&mut file.path);
            }
        } else if line.starts_with("Binary files ") && line.ends_with(" differ")
            || line == "GIT binary patch"
        {
            if !self.is_open() {
                let paths = line.strip_prefix("Binary files ").unwrap_or(line);
                let new = paths.rsplit_once(" and ").map_or(paths, |(_, new)| new);
                self.open(new.trim_end_matches(" differ"));
            }
            if let Some(file) = self.files.last_mut() {
                file.is_binary = true;
            }
            return true;
        }
        false
    }

    /// Whether the newest file has no change yet, so that a header belongs to it.
    fn is_open(&self) -> bool {
        let file = self.files.last();
        file.is_some_and(|file| file.added + file.removed == 0 && !file.is_binary)
    }

    fn open(&mut self, path: &str) {
        self.count += 1;
        if self.files.len() < MAX_FILES {
            self.files.push(ChangedFile {
                path: path.to_owned(),
                ..ChangedFile::default()
            });
        }
    }

    pub(super) fn text(&self, room: usize) -> String {
        if self.count == 0 {
            return String::new();
        }
        let head = format!(
            "{} changed files, +{} -{}: ",
            self.count, self.added, self.removed
        );
        let mut files: Vec<&ChangedFile> = self.files.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse((file.is_binary, file.added + file.removed)));
        let name = |file: &&ChangedFile| {
            let path = one_line(&file.path, MAX_PATH_CHARS);
            if file.is_binary {
                format!("{path} (binary)")
            } else {
                format!("{path} +{} -{}", file.added, file.removed)
            }
        };
        let left = room.saturating_sub(head.len());
        let list = list(
            files.iter().map(name),
            self.count,
            "more, none larger",
            left,
        );
        format!("{head}{list}\n")
    }
}

/// The path in a header, without the letter before it and the time behind it.
fn path(header: &str) -> &str {
    let path = header.split('\t').next().unwrap_or(header);
    let bare = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/"));
    bare.unwrap_or(path)
}
