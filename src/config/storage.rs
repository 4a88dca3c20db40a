//! The tables about what is stored for clients: `[responses]`, `[history]` and `[jobs]`.

use std::time::Duration;

use adapters::stored_history::HistoryMode;
use registry::duration::{self, DurationText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where responses and conversations are stored, and for how long: `[responses]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ResponseConfig {
    /// On disk, or nowhere; as the artifacts if nothing is set.
    pub mode: Option<ResponseMode>,
    /// Days after its last use until a response is deleted.
    pub keep_days: u32,
    /// Maximum bytes of responses and conversations on disk. Beyond it owners who have more than an
    /// equal part lose the responses that they did not use for the longest time. Conversations are
    /// kept until they are deleted, and those owners can add nothing to them.
    pub keep_size: u64,
    /// Maximum bytes of one owner, whatever the others have; no other limit than `keep_size` if
    /// nothing is set.
    pub keep_size_per_owner: Option<u64>,
}

impl Default for ResponseConfig {
    fn default() -> Self {
        Self {
            mode: None,
            keep_days: 30,
            keep_size: 4 << 30,
            keep_size_per_owner: None,
        }
    }
}

/// Where responses are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseMode {
    /// They are not stored.
    Off,
    /// In the database in the data directory.
    Disk,
}

/// How much of a stored history is sent to a model: `[history]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct HistoryConfig {
    /// Which items are sent.
    pub mode: HistoryKind,
    /// The most items, for the mode `items`.
    pub max_items: usize,
    /// The most messages, for the mode `text`.
    pub max_messages: usize,
    /// The most characters of all messages together, for the mode `text`.
    pub max_chars: usize,
    /// The most characters of a user message that is added to a stored history; 0 for no limit.
    /// Unless it is set, 10,000 for the modes `items` and `text`, and no limit for `full`.
    pub max_message_chars: Option<usize>,
}

/// Which items of a stored history are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryKind {
    /// All.
    #[default]
    Full,
    /// The newest ones.
    Items,
    /// The newest messages, as one text.
    Text,
}

/// The longest user message of a chat, in characters.
const CHAT_MESSAGE_CHARS: usize = 10_000;

impl Default for HistoryConfig {
    fn default() -> Self {
        Self {
            mode: HistoryKind::default(),
            max_items: 50,
            max_messages: 20,
            max_chars: 4_000,
            max_message_chars: None,
        }
    }
}

impl HistoryConfig {
    /// Which items are sent.
    pub fn selection(&self) -> HistoryMode {
        match self.mode {
            HistoryKind::Full => HistoryMode::Full,
            HistoryKind::Items => HistoryMode::Items {
                max_items: self.max_items,
            },
            HistoryKind::Text => HistoryMode::Text {
                max_messages: self.max_messages,
                max_chars: self.max_chars,
            },
        }
    }

    /// The most characters of a user message that is added to a stored history.
    pub fn message_limit(&self) -> Option<usize> {
        let usual = match self.mode {
            HistoryKind::Full => 0,
            HistoryKind::Items | HistoryKind::Text => CHAT_MESSAGE_CHARS,
        };
        Some(self.max_message_chars.unwrap_or(usual)).filter(|limit| *limit > 0)
    }
}

/// How background responses run: `[jobs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct JobConfig {
    /// How many run at the same time.
    pub running: usize,
    /// How many may wait; further ones are refused.
    pub queued: usize,
    /// How long one may run.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub timeout: Duration,
    /// What becomes of the calls of functions of the client, which may not be there to run them.
    pub client_tools: ClientToolMode,
}

/// What becomes of a call of a function of the client in a background response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientToolMode {
    /// It ends the response, and the client sends the result with its next request.
    #[default]
    Surface,
    /// The model gets an error in place of a result, and goes on.
    Error,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            running: 20,
            queued: 1_000,
            timeout: Duration::from_mins(5),
            client_tools: ClientToolMode::default(),
        }
    }
}
