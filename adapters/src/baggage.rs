//! Provider state that the client keeps for the proxy.
//!
//! Some providers require their reasoning text, or signatures of it, in later requests. The proxy
//! is stateless in this respect: it seals them into the `encrypted_content` of a reasoning item
//! (`rsp1.<crc32>.<base64 of JSON>`), which clients send back unchanged. The JSON is an object of
//! texts: `r` is the reasoning, `o` its origin, and any other letter a [`ReasoningStateForm`].

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::event::ReasoningStateForm;
use crate::sealed;

const VERSION: &str = "rsp1";

/// The letter of the reasoning text in a blob.
pub(crate) const REASONING: char = 'r';
/// The letter of the origin in a blob.
pub(crate) const ORIGIN: char = 'o';

/// The provider state of one reasoning item or call. The
/// [`crate::responses::assembler::Assembler`] seals it into the item; an encoder opens it
/// when the item comes back in a later request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baggage {
    /// The reasoning text as the provider sent it.
    pub reasoning: String,
    /// The provider and model that produced it, as `provider/model`.
    pub origin: String,
    /// The state of the reasoning, or of the call that follows the item.
    pub states: KeptStates,
}

/// State that is kept for later requests: one blob of each form, which only the wire of the form
/// understands.
pub type KeptStates = Vec<(ReasoningStateForm, String)>;

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

impl Serialize for Baggage {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let texts = [(REASONING, &self.reasoning), (ORIGIN, &self.origin)];
        let states = self.states.iter();
        let states = states.map(|(form, blob)| (form.letter(), blob));
        let mut map = to.serialize_map(None)?;
        for (letter, text) in texts.into_iter().chain(states) {
            if !text.is_empty() {
                map.serialize_entry(&letter, text)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Baggage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(BaggageVisitor)
    }
}

/// Reads the object. Keys that are no letters are unknown, and ignored.
struct BaggageVisitor;

/// A key of the object.
#[derive(serde::Deserialize)]
struct BaggageKey<'k>(#[serde(borrow)] Cow<'k, str>);

impl<'de> Visitor<'de> for BaggageVisitor {
    type Value = Baggage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Baggage, A::Error> {
        let mut baggage = Baggage::default();
        while let Some(BaggageKey(key)) = map.next_key()? {
            let [letter @ b'a'..=b'z'] = key.as_bytes() else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let text = map.next_value()?;
            match char::from(*letter) {
                REASONING => baggage.reasoning = text,
                ORIGIN => baggage.origin = text,
                letter => baggage.states.push((ReasoningStateForm::new(letter), text)),
            }
        }
        Ok(baggage)
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
            states: vec![
                (ReasoningStateForm::new('b'), r#"[{"signed":"a"}]"#.into()),
                (ReasoningStateForm::new('a'), "opaque \"state\"".into()),
            ],
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
