//! The unchanged lines of a unified diff, which are no evidence: they are there to find the place.

/// How many lines of the hunk of a diff are still to come, before and after the change.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hunk {
    old: u32,
    new: u32,
}

impl Hunk {
    /// Whether the next line belongs to the hunk.
    #[inline]
    pub(crate) fn is_inside(self) -> bool {
        self.old > 0 || self.new > 0
    }

    /// Reads the next line of a text, and tells whether a change left it as it was.
    #[inline]
    pub(crate) fn is_unchanged(&mut self, line: &[u8]) -> bool {
        let first = line.first();
        if self.old == 0 && self.new == 0 {
            if first == Some(&b'@') {
                *self = Self::of_header(line).unwrap_or_default();
            }
            return false;
        }
        let (old, new) = match first {
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            Some(b' ') => (1, 1),
            // No line at the end of a file, or something that is no diff.
            Some(b'\\') => (0, 0),
            _ => (self.old, self.new),
        };
        self.old = self.old.saturating_sub(old);
        self.new = self.new.saturating_sub(new);
        (old, new) == (1, 1)
    }

    /// The lines of the hunk below `@@ -1,2 +3,4 @@`. A file without lines has one number.
    fn of_header(line: &[u8]) -> Option<Self> {
        let start = line.get(..line.len().min(64)).unwrap_or_default();
        let header = start.utf8_chunks().next()?.valid().strip_prefix("@@ -")?;
        let (old, rest) = header.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        Some(Self {
            old: lines(old)?,
            new: lines(new)?,
        })
    }
}

/// The number of lines of a range such as `12,7`, or `12` for one line.
fn lines(range: &str) -> Option<u32> {
    match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => Some(1),
    }
}
