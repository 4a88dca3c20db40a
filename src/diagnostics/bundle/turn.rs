//! The data of one recorded turn: everything that a replay needs.
//!
//! The fields are those of `turn.json` and keep their names there. Times are
//! microseconds since the turn began. Bodies are skipped by serde: each is an entry
//! of its own in the bundle.
//!
//! The types have no `Debug`: they contain conversations.

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use registry::{RegistrySnapshot, Window};
use serde::{Deserialize, Serialize};

use crate::net::{LOCAL_OWNER, local_owner};
use crate::turn::Outcome;
use crate::turn::TurnState;

/// One turn, made from a recording or read from a bundle. Also the result of a replay.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BundleTurn {
    /// The id of the HTTP request.
    pub request_id: String,
    /// The owner of the turn: the name of a client, or `local`.
    #[serde(default = "local_owner", skip_serializing_if = "is_local")]
    pub owner: String,
    /// The version of the program that ran the turn.
    pub version: String,
    /// Hash of the configuration's text, 16 hexadecimal digits.
    pub config_digest: String,
    /// When the turn began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long the turn took.
    pub took_us: u64,
    /// How the turn ended; `None` if it was still running.
    pub outcome: Option<Outcome>,
    /// Why the turn failed.
    pub fault: Option<Fault>,
    /// The notes of the turn, as (code, detail).
    pub notes: Vec<(String, String)>,
    /// Token counts.
    pub usage: Option<Usage>,
    /// When the turn was ended because the program was shutting down.
    pub ending_us: Option<u64>,
    /// The client's request.
    pub request: BundleRequest,
    /// The response to the client.
    pub answer: BundleResponse,
    /// The requests to providers, in order.
    pub attempts: Vec<BundleAttempt>,
    /// The model name that was asked for, and the routes with their dialects, models and
    /// timeouts.
    pub settings: RegistrySnapshot,
    /// `heartbeat` of the configuration, in milliseconds.
    pub heartbeat_ms: u64,
    /// `commit_after` of the configuration, in milliseconds.
    pub commit_after_ms: u64,
    /// `turn_timeout` of the configuration, in milliseconds; the default one if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_timeout_ms: Option<u64>,
    /// Indices of those chunks of the answer that are heartbeats sent while no attempt was running,
    /// because the server waited for something else, such as a write to its store. Ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heartbeats_between_attempts: Vec<usize>,
    /// The state of the server before the turn: learned quirks, stored items, the health of
    /// the providers.
    pub state_before: TurnState,
    /// Clock readings that differ from the one before: the number of earlier readings,
    /// and seconds since 1970.
    pub clock: Vec<(u64, u64)>,
    /// Random values that the turn used: 32 hexadecimal digits each.
    pub random: Vec<String>,
    /// Bodies that are not whole: a response of a provider was too large to be recorded, or the
    /// turn could not be run again when the bundle was written.
    pub omitted: Vec<OmittedPart>,
    /// What running the turn again showed when the bundle was written.
    pub rerun: RerunReport,
    /// The plan of the first attempt as JSON; empty if there was no attempt.
    #[serde(skip)]
    pub plan: Vec<u8>,
}

/// Whether a turn need not name its owner.
pub(in crate::diagnostics) fn is_local(owner: &str) -> bool {
    owner == LOCAL_OWNER
}

/// The client's request of a [`BundleTurn`].
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BundleRequest {
    /// Path and query of the URL.
    pub path: String,
    /// Pairs of lower-case name and value. Redaction keeps the values of a few only.
    pub headers: Vec<(String, String)>,
    /// The JSON body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// The response to the client of a [`BundleTurn`].
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BundleResponse {
    /// The HTTP status; 0 if the client left before it was sent.
    pub status: u16,
    /// Pairs of lower-case name and value.
    pub headers: Vec<(String, String)>,
    /// The chunks in which `body` was sent.
    pub pieces: Vec<BodyChunk>,
    /// Server-sent events, or a JSON document.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// One request to a provider and the response to it.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BundleAttempt {
    /// When the attempt began.
    pub at_us: u64,
    /// When the attempt was over.
    pub end_us: u64,
    /// `provider/model`, with the provider's own model name.
    pub route: String,
    /// Scheme, host, path and query. Redaction hides the values of the query.
    pub url: String,
    /// Pairs of lower-case name and value, without the header of the API key.
    pub headers: Vec<(String, String)>,
    /// Index of the API key in the provider's list.
    pub key: Option<usize>,
    /// The context window that was assumed for the model.
    pub window: Option<Window>,
    /// The ratio that token counts were estimated with.
    pub bytes_per_token: f32,
    /// Estimated size of the input in tokens.
    pub estimated_input: u64,
    /// The head of the response; `None` if the provider was not reached or did not
    /// respond.
    pub head: Option<BundleResponseHead>,
    /// The chunks in which `answer` arrived.
    pub pieces: Vec<BodyChunk>,
    /// Whether the body of the response ended properly.
    pub ended: bool,
    /// Why the attempt failed.
    pub fault: Option<Fault>,
    /// The JSON body of the request.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// The body of the response as it arrived.
    #[serde(skip)]
    pub answer: Vec<u8>,
}

/// The head of a provider's response.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BundleResponseHead {
    /// When it arrived.
    pub at_us: u64,
    /// The HTTP status.
    pub status: u16,
    /// Pairs of lower-case name and value.
    pub headers: Vec<(String, String)>,
}

/// One chunk of a streamed body. In JSON it is the pair `[at_us, length]`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(from = "(u64, usize)", into = "(u64, usize)")]
pub struct BodyChunk {
    /// When the chunk was sent or received.
    pub at_us: u64,
    /// Its length in bytes.
    pub length: usize,
}

/// What running a turn again showed when its bundle was written. While a turn runs, only the hashes
/// of what it sends are recorded. So it is run again, before redaction to be compared with the
/// hashes, and after it to make what the bundle holds.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RerunReport {
    /// Why the turn could not be run again; what it sent is then omitted.
    pub failed: Option<String>,
    /// The events that the client got with other bytes, by `sequence_number`; the first hundred.
    pub events: Vec<usize>,
    /// What else was different, such as `attempt 1 request` and `outcome`.
    pub parts: Vec<String>,
}

/// A body that was not kept whole.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OmittedPart {
    /// Its name: `request`, `attempt 1 request`, `attempt 1 answer` or `answer`.
    pub what: String,
    /// Its length in bytes.
    pub total: u64,
    /// How many of its bytes were kept, from the start.
    pub kept: u64,
}

impl OmittedPart {
    /// The name of the response to the client.
    pub(crate) const ANSWER: &str = "answer";

    /// The name of the request of an attempt, numbered from 1.
    pub(crate) fn request(attempt: usize) -> String {
        format!("attempt {attempt} request")
    }

    /// The name of a provider's response.
    pub(crate) fn answer(attempt: usize) -> String {
        format!("attempt {attempt} answer")
    }

    /// Whether this is an input of the turn, without which it cannot be replayed.
    pub fn is_input(&self) -> bool {
        self.what == "request" || self.what.ends_with(" answer")
    }
}

impl BundleTurn {
    /// The id of the response; `None` if none was started.
    pub fn response_id(&self) -> Option<String> {
        // The first random value of a turn becomes its response id.
        let first = self.random.first()?;
        (200..300)
            .contains(&self.answer.status)
            .then(|| format!("resp_{first}"))
    }

    /// Whether the turn failed, no matter whose fault it was.
    pub fn is_failure(&self) -> bool {
        self.outcome.is_some_and(Outcome::is_failure)
    }

    /// The bytes of all bodies.
    pub(crate) fn body_bytes(&self) -> usize {
        let attempts = self.attempts.iter();
        let attempts = attempts.map(|attempt| attempt.body.len() + attempt.answer.len());
        self.request.body.len() + self.answer.body.len() + attempts.sum::<usize>()
    }

    /// Whether every body was kept whole.
    pub fn is_complete(&self) -> bool {
        self.omitted.is_empty()
    }

    /// The body that [`OmittedPart::what`] names; `None` if no turn, or not this one, has it.
    pub(crate) fn named_body(&self, what: &str) -> Option<&Vec<u8>> {
        match what {
            "request" => return Some(&self.request.body),
            OmittedPart::ANSWER => return Some(&self.answer.body),
            _ => {}
        }
        let (number, part) = what.strip_prefix("attempt ")?.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        let attempt = self.attempts.get(number.checked_sub(1)?)?;
        match part {
            "request" => Some(&attempt.body),
            "answer" => Some(&attempt.answer),
            _ => None,
        }
    }

    /// Corrects the lengths in [`Self::omitted`] after the bodies were changed.
    pub(crate) fn correct_omitted(&mut self) {
        let lengths: Vec<Option<usize>> = self
            .omitted
            .iter()
            .map(|part| self.named_body(&part.what).map(Vec::len))
            .collect();
        for (part, length) in self.omitted.iter_mut().zip(lengths) {
            if let Some(length) = length {
                let lost = part.total.saturating_sub(part.kept);
                part.kept = length as u64;
                part.total = part.kept + lost;
            }
        }
    }

    /// Sets [`Self::notes`].
    pub fn set_notes(&mut self, notes: &Notes) {
        self.notes = notes
            .iter()
            .map(|note| (note.code.to_owned(), note.detail.clone()))
            .collect();
    }
}

impl BodyChunk {
    /// The length of all chunks together.
    pub(crate) fn total(chunks: &[Self]) -> usize {
        let lengths = chunks.iter().map(|chunk| chunk.length);
        lengths.fold(0, usize::saturating_add)
    }
}

impl From<(u64, usize)> for BodyChunk {
    fn from((at_us, length): (u64, usize)) -> Self {
        Self { at_us, length }
    }
}

impl From<BodyChunk> for (u64, usize) {
    fn from(piece: BodyChunk) -> Self {
        (piece.at_us, piece.length)
    }
}
