//! `bundle.json`: format, version and number of turns of a bundle.

use serde::{Deserialize, Serialize};

use super::entry::MANIFEST;
use super::error::printable;
use super::{Bundle, BundleError, FORMAT_VERSION, MAX_TURNS};

const FORMAT: &str = "respondent-bundle";
/// The programs that read the format versions 1 and 2.
const READER_OF_VERSION_1: &str = "0.1.0";
const READER_OF_VERSION_2: &str = "0.2.0";

/// `bundle.json` of [`FORMAT_VERSION`].
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u64,
    /// See [`Bundle::made_by`].
    pub(super) made_by: String,
    pub(super) images: bool,
    pub(super) encrypted: bool,
    /// The number of turns in the file.
    pub(super) turns: usize,
}

/// The fields that every format version has.
#[derive(Deserialize)]
struct VersionHeader {
    format: String,
    version: u64,
    #[serde(default)]
    made_by: String,
}

impl Manifest {
    pub(super) fn from_bundle(bundle: &Bundle) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            made_by: bundle.made_by.clone(),
            images: bundle.images,
            encrypted: bundle.encrypted,
            turns: bundle.turns.len(),
        }
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, BundleError> {
        let common: VersionHeader =
            serde_json::from_slice(json).map_err(|_error| BundleError::NotABundle)?;
        if common.format != FORMAT || common.version == 0 {
            return Err(BundleError::NotABundle);
        }
        let version = common.version;
        if version != FORMAT_VERSION {
            let program = match version {
                1 => format!("{READER_OF_VERSION_1}, which reads it"),
                2 => format!("{READER_OF_VERSION_2}, which reads it"),
                _ => format!(
                    "{}, which made it, or a newer one",
                    printable(&common.made_by)
                ),
            };
            return Err(BundleError::OtherFormat { version, program });
        }
        let manifest: Self = serde_json::from_slice(json)
            .map_err(|error| json_error(MANIFEST, &error, &common.made_by))?;
        check_turn_count(manifest.turns)?;
        Ok(manifest)
    }
}

/// Rejects a bundle without turns, or with too many.
pub(super) fn check_turn_count(turns: usize) -> Result<(), BundleError> {
    match turns {
        0 => Err(BundleError::NoTurns),
        1..=MAX_TURNS => Ok(()),
        _ => Err(BundleError::TooLarge {
            what: "its turns",
            limit: MAX_TURNS as u64,
        }),
    }
}

/// The error for a JSON file that does not parse. If another version of the program
/// made the bundle, unknown content is plausible; otherwise the file is damaged.
pub(super) fn json_error(entry: &str, error: &serde_json::Error, made_by: &str) -> BundleError {
    if error.is_data() && made_by != env!("CARGO_PKG_VERSION") {
        BundleError::UnknownContent {
            entry: entry.to_owned(),
            reason: printable(error),
            made_by: printable(made_by),
        }
    } else {
        BundleError::damaged(format_args!("{entry}: {error}"))
    }
}
