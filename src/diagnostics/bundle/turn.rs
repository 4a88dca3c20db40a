//! One turn with everything that it takes to run it again.
//!
//! Times are microseconds since the turn began. Bytes stand apart from what is
//! told of them: the writer gives each its own file in the bundle.
//!
//! Nothing here has `Debug`: it holds what was said.

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use registry::{RegistrySnapshot, Window};
use serde::{Deserialize, Serialize};

use crate::metrics::Outcome;
use crate::turn::Given;

/// One turn.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The id of the HTTP request.
    pub request_id: String,
    /// The version of the program that ran it.
    pub version: String,
    /// Of the configuration's text, 16 hexadecimal digits.
    pub config_digest: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took.
    pub took_us: u64,
    /// How it ended; a turn that is not over has none.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub fault: Option<Fault>,
    /// What was changed on the way, as (code, detail).
    pub notes: Vec<(String, String)>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// When the program wanted to stop and ended the turn.
    pub ending_us: Option<u64>,
    /// What the client sent.
    pub request: Request,
    /// What the client got.
    pub answer: Answer,
    /// The requests to providers, in their order.
    pub attempts: Vec<Attempt>,
    /// Routes, dialects and models; times of a stream.
    pub settings: RegistrySnapshot,
    /// Milliseconds: see `heartbeat` in the configuration.
    pub heartbeat_ms: u64,
    /// Milliseconds: see `commit_after` in the configuration.
    pub commit_after_ms: u64,
    /// What was known before the turn.
    pub given: Given,
    /// Readings of the clock that differ from the one before: how many came
    /// before it, and seconds since 1970.
    pub clock: Vec<(u64, u64)>,
    /// Readings of the randomness: 32 hexadecimal digits each.
    pub random: Vec<String>,
    /// What was too large to be kept. A turn that lacks something cannot be
    /// replayed.
    pub omitted: Vec<Omitted>,
    /// The plan of the first attempt as JSON; empty when there was none.
    #[serde(skip)]
    pub plan: Vec<u8>,
}

/// The client's request.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The path of the URL.
    pub path: String,
    /// Names in lower case and values; the values of few are kept.
    pub headers: Vec<(String, String)>,
    /// The JSON body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// Our answer to the client.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The HTTP status; 0 when the client left before it.
    pub status: u16,
    /// Names in lower case and values.
    pub headers: Vec<(String, String)>,
    /// How `body` was cut.
    pub pieces: Vec<Piece>,
    /// Server-sent events, or a JSON document.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// One request to a provider.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// When it began.
    pub at_us: u64,
    /// When it was over.
    pub end_us: u64,
    /// Provider, slash, the provider's name of the model.
    pub route: String,
    /// Scheme, host, path; the values of the query are hidden.
    pub url: String,
    /// Names in lower case and values, the key's apart.
    pub headers: Vec<(String, String)>,
    /// The place of the key in the provider's ring.
    pub key: Option<usize>,
    /// The model's window that was reckoned with.
    pub window: Option<Window>,
    /// Bytes of text a token that were reckoned with.
    pub bytes_per_token: f32,
    /// The input's size in tokens by our estimate.
    pub estimated_input: u64,
    /// The head of the answer. None came: the provider was not reached, or did
    /// not answer.
    pub head: Option<Head>,
    /// How `answer` was cut.
    pub pieces: Vec<Piece>,
    /// Whether the answer's body ended by itself.
    pub ended: bool,
    /// What it ended with.
    pub fault: Option<Fault>,
    /// The JSON body of the request.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// The body of the answer as it came.
    #[serde(skip)]
    pub answer: Vec<u8>,
}

/// The head of a provider's answer.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// When it came.
    pub at_us: u64,
    /// Its status.
    pub status: u16,
    /// Names in lower case and values.
    pub headers: Vec<(String, String)>,
}

/// A piece of a body, as a pair in JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(from = "(u64, usize)", into = "(u64, usize)")]
pub struct Piece {
    /// When it passed.
    pub at_us: u64,
    /// Its bytes.
    pub length: usize,
}

/// Something that was not kept whole.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Omitted {
    /// What it is: `request`, `attempt 1 request`, `attempt 1 answer`, `answer`.
    pub what: String,
    /// Its bytes.
    pub total: u64,
    /// Those of them that were kept, from the start.
    pub kept: u64,
}

impl Turn {
    /// The id of the response, if one was begun.
    pub fn response_id(&self) -> Option<String> {
        // The first randomness of a turn is its response id.
        let first = self.random.first()?;
        (200..300)
            .contains(&self.answer.status)
            .then(|| format!("resp_{first}"))
    }

    /// Whether it ended in a failure, of whatever side.
    pub fn failed(&self) -> bool {
        self.outcome.is_some_and(Outcome::is_failure)
    }

    /// Whether all of it was kept.
    pub fn is_whole(&self) -> bool {
        self.omitted.is_empty()
    }

    /// Takes the notes over.
    pub fn note(&mut self, notes: &Notes) {
        self.notes = notes
            .iter()
            .map(|note| (note.code.to_owned(), note.detail.clone()))
            .collect();
    }
}

impl From<(u64, usize)> for Piece {
    fn from((at_us, length): (u64, usize)) -> Self {
        Self { at_us, length }
    }
}

impl From<Piece> for (u64, usize) {
    fn from(piece: Piece) -> Self {
        (piece.at_us, piece.length)
    }
}
