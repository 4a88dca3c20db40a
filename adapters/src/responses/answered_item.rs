//! What is read of the items of an answer by whoever has asked for it here: the text of its
//! messages, and what that cites.

use serde::Deserialize;

/// An item of the `output` of a response. Of other items than messages nothing is read.
#[derive(Debug, Deserialize)]
pub struct AnsweredItem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Vec<AnsweredPart>,
}

/// A part of a message.
#[derive(Debug, Deserialize)]
pub struct AnsweredPart {
    /// Its text; empty for a refusal.
    #[serde(default)]
    pub text: String,
    /// What the text cites.
    #[serde(default)]
    pub annotations: Vec<AnsweredCitation>,
}

/// An annotation of a text.
#[derive(Debug, Deserialize)]
pub struct AnsweredCitation {
    /// The address, if it cites a page.
    pub url: Option<String>,
    /// The title of the page.
    #[serde(default)]
    pub title: String,
}

impl AnsweredItem {
    /// The parts of the messages among these items.
    pub fn parts_of_messages(
        items: impl IntoIterator<Item = Self>,
    ) -> impl Iterator<Item = AnsweredPart> {
        let messages = items.into_iter().filter(|item| item.kind == "message");
        messages.flat_map(|message| message.content)
    }
}
