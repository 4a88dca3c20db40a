//! What a provider wants back, carried by the client for us.
//!
//! A reasoning item's `encrypted_content` is `rsp1.<crc32>.<base64 of JSON>`:
//! versioned, so that a later form can be told apart, and checksummed, so that
//! a blob of somebody else or a damaged one is never taken for ours.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

const VERSION: &str = "rsp1";

/// The content of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baggage {
    /// The reasoning as the provider gave it.
    #[serde(rename = "r", default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Provider and model that it is from, as `provider/model`.
    #[serde(rename = "o", default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The `reasoning_details` array, as JSON.
    #[serde(rename = "d", default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// The `extra_content` of the call that follows the item, as JSON.
    #[serde(rename = "x", default, skip_serializing_if = "String::is_empty")]
    pub call_extra: String,
}

impl Baggage {
    /// The blob for a reasoning item. It needs no escape in a JSON string.
    pub fn seal(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let sum = crc32fast::hash(&json);
        format!("{VERSION}.{sum:08x}.{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// The content of a blob that we sealed; `None` for any other string.
    pub fn open(blob: &str) -> Option<Self> {
        let (sum, encoded) = blob
            .strip_prefix(VERSION)?
            .strip_prefix('.')?
            .split_once('.')?;
        let json = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let expected = u32::from_str_radix(sum, 16).ok()?;
        (crc32fast::hash(&json) == expected).then_some(())?;
        serde_json::from_slice(&json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_intact_blob_of_ours_opens() {
        let baggage = Baggage {
            reasoning: "first\n\"then\" 漢".into(),
            origin: "acme/m-1".into(),
            details: r#"[{"type":"reasoning.text"}]"#.into(),
            call_extra: r#"{"google":{}}"#.into(),
        };
        let blob = baggage.seal();
        assert_eq!(Baggage::open(&blob), Some(baggage));
        let mut damaged = blob.clone();
        damaged.pop();
        for foreign in [
            damaged.as_str(),
            "",
            "gAAAAAB",
            "rsp1.00000000.e30",
            "rsp2.x.y",
        ] {
            assert_eq!(Baggage::open(foreign), None, "{foreign}");
        }
    }
}
