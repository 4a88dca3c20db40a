//! Errors of reading and writing bundles. Each message says what to do about it.

use std::fmt::Display;
use std::io;

use super::FORMAT_VERSION;
use crate::log::SafeText;

/// Why a bundle cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be opened or read.
    #[error("the file cannot be read: {0}")]
    Unreadable(io::Error),
    /// The path is a folder, a pipe or a device.
    #[error("this is not a regular file: name a file that `respondent bundle create` wrote")]
    NotAFile,
    /// The file is something else than a bundle.
    #[error("this is not a bundle: name a file that `respondent bundle create` wrote")]
    NotABundle,
    /// The bundle has another format version.
    #[error(
        "the bundle has format {version}, and this program knows format {FORMAT_VERSION}: \
         use respondent {program}"
    )]
    OtherFormat {
        /// The format version of the bundle.
        version: u64,
        /// Which version of the program reads it.
        program: String,
    },
    /// The format version is known, but a JSON file has a field or value that is not. The
    /// bundle was made by another version of the program.
    #[error(
        "{entry} contains something that this program does not understand ({reason}): \
         use respondent {made_by}, which made the bundle"
    )]
    UnknownContent {
        /// The name of the JSON file in the bundle.
        entry: String,
        /// The error of the JSON parser.
        reason: String,
        /// The version of the program that made the bundle.
        made_by: String,
    },
    /// Bytes are missing or changed; the text says how that was noticed.
    #[error("the bundle is damaged ({0}): get it again from where it came from")]
    Damaged(String),
    /// There is an entry that no bundle has: another name, a link, a device.
    #[error(
        "\"{0}\" does not belong in a bundle: do not trust this file, \
         nothing of it was used"
    )]
    ForeignEntry(String),
    /// The bundle, or a part of it, exceeds a limit.
    #[error("the bundle is too large ({what} are more than {limit}): put fewer turns into it")]
    TooLarge {
        /// The part that exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The bundle contains no turn.
    #[error("the bundle contains no turn: make another one")]
    NoTurns,
    /// The metadata of a turn is impossible or contradicts its bodies.
    #[error("turn {turn} contradicts itself ({what}): make the bundle again")]
    Inconsistent {
        /// The number of the turn, from 1.
        turn: usize,
        /// The problem.
        what: &'static str,
    },
    /// The client does not wait for the bundle any more.
    #[error("the work on the bundle was stopped")]
    Stopped,
    /// Compressing or encoding failed.
    #[error("the bundle cannot be packed")]
    PackFailed(#[source] io::Error),
}

impl BundleError {
    /// Says how it was noticed that the bundle is damaged.
    pub(super) fn damaged(how: impl Display) -> Self {
        Self::Damaged(printable(how))
    }
}

/// The error of a reader: one of ours that [`io::Error::other`] wraps, or what tar finds wrong.
impl From<io::Error> for BundleError {
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(Self::damaged)
    }
}

/// A text from an untrusted file, escaped and shortened so that it can be printed on one line.
pub(super) fn printable(text: impl Display) -> String {
    SafeText::new(&text.to_string()).to_string()
}
