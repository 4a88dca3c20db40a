//! Why a bundle cannot be read or written, and what to do.

use std::fmt::{self, Display};
use std::io;

use super::FORMAT_VERSION;
use crate::diagnostics::line::Line;

/// Why a bundle cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file system says no.
    #[error("the file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// A folder, a pipe, a device.
    #[error("this is no regular file: name a file that `respondent bundle create` wrote")]
    NotAFile,
    /// Something else.
    #[error("this is no bundle: name a file that `respondent bundle create` wrote")]
    NotABundle,
    /// The layout is of a later version.
    #[error(
        "the bundle has layout {version}, and this program knows layouts up to {FORMAT_VERSION}: \
         use respondent {made_by}, which made it, or a newer one"
    )]
    NewerFormat {
        /// Its layout.
        version: u64,
        /// The version of the program that made it.
        made_by: PrintableText,
    },
    /// The layout is known, and yet something in it is not.
    #[error(
        "{entry} says what this program does not understand ({reason}): \
         use respondent {made_by}, which made the bundle"
    )]
    UnknownContent {
        /// Where.
        entry: PrintableText,
        /// What.
        reason: PrintableText,
        /// The version of the program that made it.
        made_by: PrintableText,
    },
    /// Bytes are missing or are others.
    #[error("the bundle is damaged ({0}): get it again from where it came from")]
    Damaged(PrintableText),
    /// An entry is not there.
    #[error("the bundle is damaged ({0} is missing): get it again from where it came from")]
    MissingEntry(PrintableText),
    /// No bundle has such an entry.
    #[error(
        "\"{0}\" has no business in a bundle: do not trust this file, \
         nothing of it was used"
    )]
    ForeignEntry(PrintableText),
    /// Its size, or the size of something in it.
    #[error("the bundle is too large ({what} are more than {most}): put fewer turns into it")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: u64,
    },
    /// There is no turn in it.
    #[error("the bundle holds no turn: make another one")]
    NoTurns,
    /// What is told of a turn cannot be.
    #[error("turn {turn} does not agree with itself ({what}): make the bundle again")]
    Inconsistent {
        /// Its place, from 1.
        turn: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It cannot be packed.
    #[error("the bundle cannot be packed: {0}")]
    PackFailed(#[source] io::Error),
}

/// A text from outside, fit to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintableText(String);

impl PrintableText {
    pub(super) fn new(text: impl Display) -> Self {
        Self(Line::new(&text.to_string()).to_string())
    }
}

impl Display for PrintableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
