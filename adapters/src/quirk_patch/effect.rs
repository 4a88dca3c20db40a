//! What a patch takes away, and which patches it makes needless.

use registry::{ContentForm, MaxTokensField};

use super::{ChatPatch, ModelPatch, Parameter, QuirkPatch, RelayPatch, SharedPatch};

impl QuirkPatch {
    /// Whether with this patch everything is still sent that somebody has said, be it in another
    /// form.
    pub fn keeps_everything(&self) -> bool {
        match self {
            QuirkPatch::Model(patch) => {
                matches!(patch, ModelPatch::Window(_) | ModelPatch::MaxOutput(_))
            }
            QuirkPatch::Shared(patch) => match patch {
                SharedPatch::OmitParameter(parameter) => matches!(
                    parameter,
                    Parameter::Stream
                        | Parameter::StreamOptions
                        | Parameter::CacheControl
                        | Parameter::Phase
                ),
                SharedPatch::SystemRole(_)
                | SharedPatch::EndWithUser
                | SharedPatch::NoAgentMessages => true,
                SharedPatch::NoReasoning
                | SharedPatch::NoEffort
                | SharedPatch::WithoutToolChoice(_)
                | SharedPatch::NoImageUrls
                | SharedPatch::NoFiles
                | SharedPatch::MaxTools(_)
                | SharedPatch::Schema(_) => false,
            },
            QuirkPatch::Chat(patch) => !matches!(
                patch,
                ChatPatch::MaxTokensField(MaxTokensField::None)
                    | ChatPatch::NoSignatures
                    | ChatPatch::NoThinkingSwitch
                    | ChatPatch::MaxTemperature(_)
                    | ChatPatch::ResponseFormat(_)
                    | ChatPatch::ContentForm(ContentForm::String)
            ),
            QuirkPatch::Relay(_) => false,
        }
    }

    /// Whether this patch makes an earlier one needless.
    pub(crate) fn replaces(self, earlier: Self) -> bool {
        match (self, earlier) {
            (
                QuirkPatch::Model(ModelPatch::NoSampling),
                QuirkPatch::Chat(ChatPatch::MaxTemperature(_))
                | QuirkPatch::Shared(SharedPatch::OmitParameter(
                    Parameter::TopP | Parameter::Temperature,
                )),
            )
            | (
                QuirkPatch::Chat(ChatPatch::MaxTokensField(MaxTokensField::None)),
                QuirkPatch::Model(ModelPatch::MaxOutput(_)),
            )
            | (
                QuirkPatch::Shared(SharedPatch::NoEffort),
                QuirkPatch::Model(ModelPatch::Efforts(_)),
            )
            | (
                QuirkPatch::Model(ModelPatch::NoImages),
                QuirkPatch::Shared(SharedPatch::NoImageUrls),
            )
            | (
                QuirkPatch::Shared(SharedPatch::OmitParameter(Parameter::Stream)),
                QuirkPatch::Chat(ChatPatch::NoCallStreaming),
            ) => true,
            // These add up, unless one says what the other says.
            (
                QuirkPatch::Shared(SharedPatch::Schema(one)),
                QuirkPatch::Shared(SharedPatch::Schema(other)),
            ) => other.difference(one).is_empty(),
            (
                QuirkPatch::Shared(SharedPatch::WithoutToolChoice(one)),
                QuirkPatch::Shared(SharedPatch::WithoutToolChoice(other)),
            ) => other.difference(one).is_empty(),
            (
                QuirkPatch::Relay(RelayPatch::WithoutTools(one)),
                QuirkPatch::Relay(RelayPatch::WithoutTools(other)),
            ) => other.difference(one).is_empty(),
            (one, other) => one.is_same_kind(&other),
        }
    }
}
