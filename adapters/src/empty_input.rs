//! A request must have something that a model can answer: providers and chat templates refuse one
//! without messages, with a system message alone, and some one that ends with an answer.

use crate::fault::Fault;
use crate::notes::Notes;

/// The text of a message of the user that has none, and of the one beside instructions alone.
/// Constant, so that the bytes of a history do not change.
pub(crate) const EMPTY_MESSAGE: &str = "(The message is empty.)";

/// What the user says behind an answer where the provider wants the last word to be the user's.
pub(crate) const GO_ON: &str = "Continue.";

/// The fault of a request of whose input nothing is left. `notes` say what was left out.
pub(crate) fn nothing_to_send(notes: &Notes) -> Fault {
    let is_about_input = |code: &str| code.ends_with("_skipped") || code == "empty_message_dropped";
    let dropped: Vec<&str> = notes
        .iter()
        .filter(|note| is_about_input(note.code))
        .map(|note| note.detail.as_str())
        .take(8)
        .collect();
    let why = match dropped.as_slice() {
        [] => "it has no message".to_owned(),
        dropped => format!("left out were: {}", dropped.join("; ")),
    };
    let message = format!(
        "Nothing of the input can be sent to the model ({why}). Send a message with a text."
    );
    Fault::invalid("input", message)
}
