//! Patches of quirks: what the proxy learns from a provider that refuses a request.
//!
//! A refusal with a known reason is read by [`crate::provider_error`] into a
//! [`QuirkPatch`]. The patch is applied to the quirks and the model
//! ([`crate::wire::apply_patch`]), the same turn is encoded again, and is sent again if the
//! request came out different.
//!
//! | part | changes |
//! |---|---|
//! | [`ModelPatch`] | the model |
//! | [`SharedPatch`] | quirks that every wire has; each wire applies it to its own |
//! | [`ChatPatch`] | quirks that only Chat Completions has |

use std::fmt;
use std::mem::discriminant;

use registry::serde_names;
use serde::de::value::EnumAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize};

pub use self::model::ModelPatch;
pub use self::shared::{Parameter, SharedPatch};
pub use crate::chat::patch::ChatPatch;
pub use crate::effort::EffortLevels;

mod model;
mod shared;

/// One change of a model's quirks or limits. Made by the rules of a wire when its provider
/// refuses a request, so that it fits that wire. It is `Copy` and needs no heap, because every
/// [`crate::fault::Fault`] has room for one. Bundles store it as its part alone, so that no two
/// parts may have a name in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum QuirkPatch {
    /// A change of the model.
    Model(ModelPatch),
    /// A change of a quirk that every wire has.
    Shared(SharedPatch),
    /// A change of a quirk of Chat Completions.
    Chat(ChatPatch),
}

impl QuirkPatch {
    /// Whether both change the same thing, be it to another value.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Model(one), Self::Model(other)) => discriminant(one) == discriminant(other),
            (Self::Shared(one), Self::Shared(other)) => discriminant(one) == discriminant(other),
            (Self::Chat(one), Self::Chat(other)) => discriminant(one) == discriminant(other),
            (Self::Model(_) | Self::Shared(_) | Self::Chat(_), _) => false,
        }
    }
}

impl From<ModelPatch> for QuirkPatch {
    fn from(patch: ModelPatch) -> Self {
        Self::Model(patch)
    }
}

impl From<SharedPatch> for QuirkPatch {
    fn from(patch: SharedPatch) -> Self {
        Self::Shared(patch)
    }
}

impl From<ChatPatch> for QuirkPatch {
    fn from(patch: ChatPatch) -> Self {
        Self::Chat(patch)
    }
}

/// The text of the note `healed`.
impl fmt::Display for QuirkPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(patch) => patch.fmt(f),
            Self::Shared(patch) => patch.fmt(f),
            Self::Chat(patch) => patch.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for QuirkPatch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_enum("QuirkPatch", &[], QuirkPatchVisitor)
    }
}

/// Reads the name of a patch first, because it says which part has it.
struct QuirkPatchVisitor;

impl<'de> Visitor<'de> for QuirkPatchVisitor {
    type Value = QuirkPatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quirk patch")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<QuirkPatch, A::Error> {
        let (name, value) = data.variant::<String>()?;
        let parts = [
            serde_names::<ModelPatch>(),
            serde_names::<SharedPatch>(),
            serde_names::<ChatPatch>(),
        ];
        let [of_model, of_shared, of_chat] = parts.map(|names| names.contains(&name.as_str()));
        if !(of_model || of_shared || of_chat) {
            return Err(A::Error::custom(format!(
                "unknown quirk patch `{name}`, expected one of `{}`",
                parts.concat().join("`, `")
            )));
        }
        let part = EnumAccessDeserializer::new(NamedVariant { name, value });
        if of_model {
            ModelPatch::deserialize(part).map(QuirkPatch::from)
        } else if of_shared {
            SharedPatch::deserialize(part).map(QuirkPatch::from)
        } else {
            ChatPatch::deserialize(part).map(QuirkPatch::from)
        }
    }
}

/// An enum of which the name of the variant has been read, and the value has not.
struct NamedVariant<V> {
    name: String,
    value: V,
}

impl<'de, V: serde::de::VariantAccess<'de>> EnumAccess<'de> for NamedVariant<V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, V), V::Error> {
        let name = seed.deserialize(self.name.into_deserializer())?;
        Ok((name, self.value))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use registry::{CallIds, EnumSet, MaxTokensField};
    use serde_json::json;

    use super::*;

    /// The fields of a struct that differ in the second one, as `name: value`.
    pub(crate) fn changed_fields<T: fmt::Debug>(old: &T, new: &T) -> Vec<String> {
        let [old, new] = [old, new].map(|fields| format!("{fields:#?}"));
        new.lines()
            .filter(|line| !old.lines().any(|known| known == *line))
            .map(|line| line.trim().trim_end_matches(',').to_owned())
            .collect()
    }

    #[test]
    fn a_bundle_stores_the_part_alone() {
        let rules = EnumSet::empty().with(registry::SchemaRule::LoneRefs);
        for (patch, stored) in [
            (ModelPatch::NoSampling.into(), json!("no_sampling")),
            (ModelPatch::Window(8_192).into(), json!({"window": 8192})),
            (
                SharedPatch::OmitParameter(Parameter::Strict).into(),
                json!({"without": "strict"}),
            ),
            (
                SharedPatch::Schema(rules).into(),
                json!({"schema": ["lone_refs"]}),
            ),
            (ChatPatch::NoCallStreaming.into(), json!("whole_calls")),
            (
                ChatPatch::CallIds(CallIds::Word).into(),
                json!({"call_ids": "word"}),
            ),
        ] {
            let patch: QuirkPatch = patch;
            assert_eq!(serde_json::to_value(patch).unwrap(), stored);
            assert_eq!(
                serde_json::from_value::<QuirkPatch>(stored.clone()).unwrap(),
                patch
            );
            let text = stored.to_string();
            assert_eq!(serde_json::from_str::<QuirkPatch>(&text).unwrap(), patch);
        }
    }

    #[test]
    fn each_part_has_names_of_its_own() {
        let parts = [
            serde_names::<ModelPatch>(),
            serde_names::<SharedPatch>(),
            serde_names::<ChatPatch>(),
        ];
        let mut names = parts.concat();
        assert_eq!(names.len(), 28);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 28);
    }

    #[test]
    fn what_is_no_patch_is_an_error_that_says_so() {
        for (stored, reason) in [
            (
                json!("no_manners"),
                "unknown quirk patch `no_manners`, expected one of `window`, ",
            ),
            (
                json!({"window": "wide"}),
                "invalid type: string \"wide\", expected u32",
            ),
            (json!({"call_ids": "long"}), "unknown variant `long`"),
            (json!("window"), "expected newtype variant"),
            (json!(7), "invalid type: integer `7`"),
        ] {
            let error = serde_json::from_value::<QuirkPatch>(stored).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn patches_of_one_kind_change_the_same_thing() {
        let patches: [QuirkPatch; 5] = [
            ModelPatch::Window(1).into(),
            ModelPatch::MaxOutput(1).into(),
            SharedPatch::NoEffort.into(),
            SharedPatch::NoFiles.into(),
            ChatPatch::MaxTokensField(MaxTokensField::None).into(),
        ];
        for (at, patch) in patches.iter().enumerate() {
            for (other_at, other) in patches.iter().enumerate() {
                assert_eq!(
                    patch.is_same_kind(other),
                    at == other_at,
                    "{patch}, {other}"
                );
            }
        }
        assert!(
            QuirkPatch::from(ModelPatch::Window(1)).is_same_kind(&ModelPatch::Window(2).into())
        );
    }

    #[test]
    fn a_patch_is_small() {
        assert_eq!(size_of::<Option<QuirkPatch>>(), 8);
    }
}
