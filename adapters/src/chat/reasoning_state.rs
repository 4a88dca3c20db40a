//! The reasoning state that this wire keeps for later requests, in two forms.

use std::borrow::Cow;

use crate::event::{ReasoningStateForm, ReasoningStateMember};

/// `reasoning_details` (OpenRouter's API). A piece is some of their objects as JSON, separated by
/// commas; what is kept is the array of all.
pub(super) const REASONING_DETAILS: ReasoningStateForm = ReasoningStateForm::new('d');

/// The `extra_content` of a call as JSON: Gemini's thought signature in its OpenAI-compatible API.
pub(super) const EXTRA_CONTENT: ReasoningStateForm = ReasoningStateForm::new('x');

/// The members of both forms in which servers put their state.
pub(crate) const MEMBERS: [ReasoningStateMember; 3] = [
    ReasoningStateMember {
        name: "signature",
        beside: None,
    },
    ReasoningStateMember {
        name: "thought_signature",
        beside: None,
    },
    // Of the type `reasoning.encrypted`. In other objects it may be a file.
    ReasoningStateMember {
        name: "data",
        beside: Some("encrypted"),
    },
];

/// All forms of this wire.
pub(crate) const FORMS: [ReasoningStateForm; 2] = [REASONING_DETAILS, EXTRA_CONTENT];

/// See [`crate::wire::join_state`].
pub(crate) fn join(form: ReasoningStateForm, kept: &mut String, piece: Cow<'_, str>) {
    if form == REASONING_DETAILS {
        kept.reserve(piece.len() + 2);
        // The bracket at the end of what is kept.
        let is_first = kept.pop().is_none();
        kept.push(if is_first { '[' } else { ',' });
        kept.push_str(&piece);
        kept.push(']');
    } else {
        *kept = piece.into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_details_become_one_array_and_a_call_has_its_last_state() {
        for (form, pieces, expected) in [
            (REASONING_DETAILS, &[r#"{"a":1}"#][..], r#"[{"a":1}]"#),
            (
                REASONING_DETAILS,
                &["{}", r#"{"b":[]},{}"#, "{}"],
                r#"[{},{"b":[]},{},{}]"#,
            ),
            (EXTRA_CONTENT, &["{}"], "{}"),
            (EXTRA_CONTENT, &["{}", r#"{"a":1}"#], r#"{"a":1}"#),
        ] {
            let mut kept = String::new();
            for piece in pieces {
                join(form, &mut kept, (*piece).into());
            }
            assert_eq!(kept, expected);
        }
    }
}
