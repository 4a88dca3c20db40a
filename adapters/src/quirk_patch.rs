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
//! | [`RelayPatch`] | quirks that only a Responses upstream has |

use std::fmt;
use std::mem::discriminant;

use serde::{Deserialize, Serialize};

pub use self::chat::ChatPatch;
pub use self::model::ModelPatch;
pub use self::relay::RelayPatch;
pub use self::shared::{Parameter, SharedPatch};
pub use crate::effort::EffortLevels;

mod chat;
mod effect;
mod model;
mod relay;
mod shared;

/// One change of a model's quirks or limits. Made by the rules of a wire when its provider
/// refuses a request, so that it fits that wire. It is `Copy` and needs no heap, because every
/// [`crate::fault::Fault`] has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuirkPatch {
    /// A change of the model.
    Model(ModelPatch),
    /// A change of a quirk that every wire has.
    Shared(SharedPatch),
    /// A change of a quirk of Chat Completions.
    Chat(ChatPatch),
    /// A change of a quirk of a Responses upstream.
    Relay(RelayPatch),
}

impl QuirkPatch {
    /// Whether both change the same thing, be it to another value.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Model(one), Self::Model(other)) => discriminant(one) == discriminant(other),
            // Each parameter is one of its own.
            (
                Self::Shared(SharedPatch::OmitParameter(one)),
                Self::Shared(SharedPatch::OmitParameter(other)),
            ) => one == other,
            (Self::Shared(one), Self::Shared(other)) => discriminant(one) == discriminant(other),
            (Self::Chat(one), Self::Chat(other)) => discriminant(one) == discriminant(other),
            (Self::Relay(one), Self::Relay(other)) => discriminant(one) == discriminant(other),
            (Self::Model(_) | Self::Shared(_) | Self::Chat(_) | Self::Relay(_), _) => false,
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

impl From<RelayPatch> for QuirkPatch {
    fn from(patch: RelayPatch) -> Self {
        Self::Relay(patch)
    }
}

/// The text of the note `healed`.
impl fmt::Display for QuirkPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(patch) => patch.fmt(f),
            Self::Shared(patch) => patch.fmt(f),
            Self::Chat(patch) => patch.fmt(f),
            Self::Relay(patch) => patch.fmt(f),
        }
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
    fn a_bundle_stores_the_part_and_its_change() {
        let rules = EnumSet::empty().with(registry::SchemaRule::LoneRefs);
        for (patch, stored) in [
            (
                ModelPatch::NoSampling.into(),
                json!({"model": "no_sampling"}),
            ),
            (
                SharedPatch::OmitParameter(Parameter::Strict).into(),
                json!({"shared": {"omit_parameter": "strict"}}),
            ),
            (
                SharedPatch::Schema(rules).into(),
                json!({"shared": {"schema": ["lone_refs"]}}),
            ),
            (
                ChatPatch::CallIds(CallIds::Word).into(),
                json!({"chat": {"call_ids": "word"}}),
            ),
        ] {
            let patch: QuirkPatch = patch;
            assert_eq!(serde_json::to_value(patch).unwrap(), stored);
            assert_eq!(serde_json::from_value::<QuirkPatch>(stored).unwrap(), patch);
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
