//! What a provider wants back, carried by the client for us.
//!
//! A reasoning item's `encrypted_content` is a blob of ours
//! (`rsp1.<crc32>.<base64 of JSON>`).

use serde::{Deserialize, Serialize};

use crate::sealed;

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
    pub reasoning_details: String,
    /// The `extra_content` of the call that follows the item, as JSON.
    #[serde(rename = "x", default, skip_serializing_if = "String::is_empty")]
    pub extra_content: String,
}

impl Baggage {
    /// The blob for a reasoning item. It needs no escape in a JSON string.
    pub fn seal(&self) -> String {
        sealed::seal(VERSION, self)
    }

    /// The content of a blob that we sealed; `None` for any other string.
    pub fn open(blob: &str) -> Option<Self> {
        sealed::open(VERSION, blob)
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
            reasoning_details: r#"[{"type":"reasoning.text"}]"#.into(),
            extra_content: r#"{"google":{}}"#.into(),
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
