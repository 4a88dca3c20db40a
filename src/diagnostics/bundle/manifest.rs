//! `bundle.json`: what the file is.

use serde::{Deserialize, Serialize};

use super::error::Shown;
use super::{Bundle, BundleError, MOST_TURNS, VERSION};

const FORMAT: &str = "respondent-bundle";

/// `bundle.json` of layout 1.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u64,
    /// The version of the program that made the bundle.
    pub(super) made_by: String,
    /// Whether images are whole.
    pub(super) images: bool,
    /// Whether encrypted contents are whole.
    pub(super) encrypted: bool,
    /// How many turns follow.
    pub(super) turns: usize,
}

/// What every layout has.
#[derive(Deserialize)]
struct Common {
    format: String,
    version: u64,
    #[serde(default)]
    made_by: String,
}

impl Manifest {
    pub(super) fn of(bundle: &Bundle) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            made_by: bundle.made_by.clone(),
            images: bundle.images,
            encrypted: bundle.encrypted,
            turns: bundle.turns.len(),
        }
    }

    pub(super) fn read(json: &[u8]) -> Result<Self, BundleError> {
        let common: Common =
            serde_json::from_slice(json).map_err(|_error| BundleError::NotABundle)?;
        if common.format != FORMAT || common.version == 0 {
            return Err(BundleError::NotABundle);
        }
        if common.version > VERSION {
            return Err(BundleError::Newer {
                version: common.version,
                made_by: Shown::new(common.made_by),
            });
        }
        let manifest: Self = serde_json::from_slice(json)
            .map_err(|error| strange("bundle.json", &error, &common.made_by))?;
        count(manifest.turns)?;
        Ok(manifest)
    }
}

/// Says no to a number of turns that no bundle has.
pub(super) fn count(turns: usize) -> Result<(), BundleError> {
    match turns {
        0 => Err(BundleError::Empty),
        1..=MOST_TURNS => Ok(()),
        _ => Err(BundleError::TooLarge {
            what: "its turns",
            most: MOST_TURNS as u64,
        }),
    }
}

/// JSON that does not say what it should: what another version wrote may be
/// right, what this one wrote is damaged.
pub(super) fn strange(
    entry: impl std::fmt::Display,
    error: &serde_json::Error,
    made_by: &str,
) -> BundleError {
    if error.is_data() && made_by != env!("CARGO_PKG_VERSION") {
        BundleError::Strange {
            entry: Shown::new(entry),
            reason: Shown::new(error),
            made_by: Shown::new(made_by),
        }
    } else {
        BundleError::Damaged(Shown::new(format_args!("{entry}: {error}")))
    }
}
