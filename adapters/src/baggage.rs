//! Provider state that the client keeps for the proxy.
//!
//! Some providers require their reasoning text, `reasoning_details` or thought signatures
//! in later requests. The proxy is stateless in this respect: it seals them into the
//! `encrypted_content` of a reasoning item (`rsp1.<crc32>.<base64 of JSON>`), which clients
//! send back unchanged.

use serde::{Deserialize, Serialize};

use crate::sealed;

const VERSION: &str = "rsp1";

/// The provider state of one reasoning item or call. The
/// [`crate::responses::assembler::Assembler`] seals it into the item; an encoder opens it
/// when the item comes back in a later request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baggage {
    /// The reasoning text as the provider sent it.
    #[serde(rename = "r", default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The provider and model that produced it, as `provider/model`.
    #[serde(rename = "o", default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The `reasoning_details` array as JSON (OpenRouter's API).
    #[serde(rename = "d", default, skip_serializing_if = "String::is_empty")]
    pub reasoning_details: String,
    /// The `extra_content` of the call that follows the item, as JSON (Gemini's thought
    /// signature).
    #[serde(rename = "x", default, skip_serializing_if = "String::is_empty")]
    pub extra_content: String,
}

impl Baggage {
    /// The blob for `encrypted_content`. It needs no escapes in a JSON string.
    pub fn seal(&self) -> String {
        sealed::seal(VERSION, self)
    }

    /// The content of a blob that [`Self::seal`] made; `None` for any other string, also a
    /// damaged blob.
    pub fn open(blob: &str) -> Option<Self> {
        sealed::open(VERSION, blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_damaged_blobs_do_not_open() {
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
