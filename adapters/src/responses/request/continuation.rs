//! What a request continues: the ids, and the faults of those that lead nowhere.

use serde_json::value::RawValue;

use crate::fault::{CONVERSATION_NOT_FOUND, Fault};
use crate::json::{only_from_object, string_value};
use crate::responses::request_body::RequestBody;
use crate::turn::Continuation;

/// The stored response or conversation that the request continues. An id that none can have is
/// refused here.
pub(super) fn read_continuation(body: &RequestBody<'_>) -> Result<Option<Continuation>, Fault> {
    let conversation = match body.conversation {
        None => None,
        Some(raw) => Some(conversation_id(raw)?),
    };
    let Some(raw) = body.previous_response_id else {
        return Ok(conversation.map(Continuation::Conversation));
    };
    let Some(id) = string_value(Some(raw)) else {
        let message = "The parameter 'previous_response_id' must be a string.";
        return Err(Fault::invalid("previous_response_id", message));
    };
    if conversation.is_some() {
        let message = "Send either 'previous_response_id' or 'conversation': a response that belongs to a conversation is continued with the conversation.";
        return Err(Fault::invalid("previous_response_id", message)
            .with_code("mutually_exclusive_parameters"));
    }
    if !is_resource_id(&id, "resp_") {
        return Err(response_not_found(&id));
    }
    Ok(Some(Continuation::Response(id.into_owned())))
}

fn conversation_id(raw: &RawValue) -> Result<String, Fault> {
    #[derive(serde::Deserialize)]
    #[serde(remote = "Self")]
    struct ConversationObject<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    only_from_object!(ConversationObject, "an object");
    let object: Option<ConversationObject<'_>> = serde_json::from_str(raw.get()).ok();
    let id = string_value(Some(raw)).or_else(|| string_value(object?.id));
    let Some(id) = id else {
        let message = "The parameter 'conversation' must be the id of a conversation, or an object with its id.";
        return Err(Fault::invalid("conversation", message));
    };
    if !is_resource_id(&id, "conv_") {
        return Err(conversation_not_found(&id));
    }
    Ok(id.into_owned())
}

/// Whether a text can be the id of a stored resource: a prefix, and 1 to 64 letters and digits.
pub fn is_resource_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|token| {
        (1..=64).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The fault of a request that continues a response which is not stored.
pub fn response_not_found(id: &str) -> Fault {
    let id = shown_id(id);
    let message = format!(
        "Previous response with id '{id}' not found: it is not stored here (any more). Send the whole input instead."
    );
    Fault::invalid("previous_response_id", message).with_code("previous_response_not_found")
}

/// The fault of a request that continues a response and has a result of a call that neither has.
pub fn call_not_found(index: usize, call_id: &str) -> Fault {
    let call_id = shown_id(call_id);
    let message = format!(
        "No call found for the output with the call_id '{call_id}': the response that is continued has none with this id, and neither has the input."
    );
    Fault::invalid(format!("input[{index}].call_id"), message).with_code("call_not_found")
}

/// The fault of a request that continues a conversation which is not stored.
pub fn conversation_not_found(id: &str) -> Fault {
    let id = shown_id(id);
    let message =
        format!("Conversation with id '{id}' not found: it is not stored here (any more).");
    Fault::invalid("conversation", message).with_code(CONVERSATION_NOT_FOUND)
}

/// The beginning of an id that a client sent.
fn shown_id(id: &str) -> String {
    id.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::is_resource_id;

    #[test]
    fn an_id_has_at_most_64_letters_and_digits() {
        for (length, is_id) in [(0, false), (1, true), (64, true), (65, false)] {
            let id = format!("conv_{}", "a".repeat(length));
            assert_eq!(is_resource_id(&id, "conv_"), is_id, "{length}");
            assert!(!is_resource_id(&id, "resp_"));
        }
        for id in ["conv_a-b", "conv_ä", "conv_a%", "a", "conv_ a"] {
            assert!(!is_resource_id(id, "conv_"), "{id}");
        }
    }
}
