//! What a known refusal teaches: how the model wants to be spoken to.
//!
//! A mend changes what is known of the model, the request is encoded again from
//! the same turn, and is sent again if it came out different.

use registry::{MaxTokensField, Model, Quirks, ReasoningReplay};

/// One lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Input and output share this many tokens.
    Window(u64),
    /// The output limit is at most this.
    MaxOutput(u64),
    /// The output limit has this name.
    MaxTokensField(MaxTokensField),
    /// Assistant messages must carry their reasoning, in this form.
    Reasoning(ReasoningReplay),
}

impl Mend {
    /// Changes what is known of the model.
    pub fn apply(&self, quirks: &mut Quirks, model: &mut Model) {
        match self {
            Self::Window(tokens) => model.window = Some(*tokens),
            Self::MaxOutput(tokens) => model.max_output = Some(*tokens),
            Self::MaxTokensField(field) => quirks.max_tokens_field = *field,
            Self::Reasoning(replay) => quirks.reasoning_replay = *replay,
        }
    }
}

impl std::fmt::Display for Mend {
    /// The lesson in words, for the note `healed`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Window(tokens) => write!(f, "the window has {tokens} tokens"),
            Self::MaxOutput(tokens) => write!(f, "an answer has at most {tokens} tokens"),
            Self::MaxTokensField(_) => f.write_str("the output limit has another name"),
            Self::Reasoning(_) => f.write_str("earlier reasoning goes back"),
        }
    }
}
