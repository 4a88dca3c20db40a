//! What a patch takes away, and which patches it makes needless.

use registry::{ContentForm, MaxTokensField, SystemRole};

use super::{ChatPatch, ModelPatch, Parameter, QuirkPatch, RelayPatch, SharedPatch};

impl QuirkPatch {
    /// Whether with this patch everything is still sent that somebody has said, be it in another
    /// form.
    pub fn keeps_everything(&self) -> bool {
        match self {
            Self::Model(patch) => {
                matches!(patch, ModelPatch::Window(_) | ModelPatch::MaxOutput(_))
            }
            Self::Shared(patch) => match patch {
                SharedPatch::OmitParameter(parameter) => matches!(
                    parameter,
                    Parameter::Stream
                        | Parameter::StreamOptions
                        | Parameter::CacheControl
                        | Parameter::Phase
                ),
                SharedPatch::SystemRole(SystemRole::System | SystemRole::Developer)
                | SharedPatch::EndWithUser
                | SharedPatch::NoAgentMessages => true,
                // What the user says has less weight.
                SharedPatch::SystemRole(SystemRole::User)
                | SharedPatch::NoReasoning
                | SharedPatch::NoEffort
                | SharedPatch::WithoutToolChoice(_)
                | SharedPatch::NoImageUrls
                | SharedPatch::NoFiles
                | SharedPatch::MaxTools(_)
                | SharedPatch::Schema(_) => false,
            },
            Self::Chat(patch) => !matches!(
                patch,
                ChatPatch::MaxTokensField(MaxTokensField::None)
                    | ChatPatch::NoSignatures
                    | ChatPatch::NoThinkingSwitch
                    | ChatPatch::MaxTemperature(_)
                    | ChatPatch::ResponseFormat(_)
                // A number that was read wrong would cut the messages of all.
                | ChatPatch::MessageLimit(_)
                    | ChatPatch::ContentForm(ContentForm::String)
            ),
            Self::Relay(_) => false,
        }
    }

    /// Whether this patch makes an earlier one needless.
    pub(crate) fn replaces(self, earlier: Self) -> bool {
        match (self, earlier) {
            (
                Self::Model(ModelPatch::NoSampling),
                Self::Chat(ChatPatch::MaxTemperature(_))
                | Self::Shared(SharedPatch::OmitParameter(Parameter::TopP | Parameter::Temperature)),
            )
            | (
                Self::Chat(ChatPatch::MaxTokensField(MaxTokensField::None)),
                Self::Model(ModelPatch::MaxOutput(_)),
            )
            | (Self::Shared(SharedPatch::NoEffort), Self::Model(ModelPatch::Efforts(_)))
            | (Self::Model(ModelPatch::NoImages), Self::Shared(SharedPatch::NoImageUrls))
            | (
                Self::Shared(SharedPatch::OmitParameter(Parameter::Stream)),
                Self::Chat(ChatPatch::NoCallStreaming),
            ) => true,
            // These add up, unless one says what the other says.
            (Self::Shared(SharedPatch::Schema(one)), Self::Shared(SharedPatch::Schema(other))) => {
                other.difference(one).is_empty()
            }
            (
                Self::Shared(SharedPatch::WithoutToolChoice(one)),
                Self::Shared(SharedPatch::WithoutToolChoice(other)),
            ) => other.difference(one).is_empty(),
            (
                Self::Relay(RelayPatch::WithoutTools(one)),
                Self::Relay(RelayPatch::WithoutTools(other)),
            ) => other.difference(one).is_empty(),
            (one, other) => one.is_same_kind(&other),
        }
    }
}
