//! The rules by name, and the list of their breaches.

use std::fmt;

/// A rule of the stream or of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamRule {
    /// Each frame is `event: T`, `data: {"type":"T",…}` and a blank line, nothing else.
    Framing,
    /// `data: [DONE]` comes last, once.
    DoneMarker,
    /// `sequence_number` counts 0, 1, 2 … over every event.
    Sequence,
    /// Only event types that clients know.
    EventType,
    /// created, (queued,) in_progress, items, terminal.
    Order,
    /// Exactly one completed, incomplete or failed, and nothing after it.
    Terminal,
    /// A later in_progress is a heartbeat: it repeats the output so far, byte for byte.
    Heartbeat,
    /// The same `id` and `created_at` in all lifecycle events.
    ResponseIdentity,
    /// All 31 keys in every response object.
    ResponseKeys,
    /// Each key with its type; null only where null is allowed.
    ResponseTypes,
    /// `status` is the one of the event.
    ResponseStatus,
    /// All counts and details, summing up; null only before the end.
    Usage,
    /// `completed_at` is set if and only if completed.
    CompletedAt,
    /// A failed response, and no other, has `error` with code and message.
    ResponseError,
    /// An incomplete response, and no other, has `incomplete_details.reason`.
    IncompleteDetails,
    /// `output_index` counts items in opening order; events carry that of the open item.
    OutputIndex,
    /// An item is done before the next is added; item events fall between.
    OneItemAtATime,
    /// Item ids: prefix of the kind, unique, the same in every event of the item.
    ItemId,
    /// `call_id` is there, unique, and not the item's id.
    CallId,
    /// The item has the fields of its type, and only in allowed forms.
    ItemShape,
    /// in_progress when added; completed or incomplete when done, fitting the response.
    ItemStatus,
    /// A finished message says whether it is commentary or the final answer.
    Phase,
    /// A message of blanks alone is no message (upstreams send them between thinking and calls).
    BlankMessage,
    /// Deltas come between their part's added and done events, at the part's index.
    PartBracket,
    /// No delta is empty.
    EmptyDelta,
    /// Σ deltas = done = part = item.
    TextSum,
    /// `logprobs` is an array on text deltas, text done and text parts.
    Logprobs,
    /// `annotations` is an array on text parts and holds what was announced.
    Annotations,
    /// Optional fields are absent, not null (reasoning `content`, `encrypted_content`, obfuscation).
    AbsentNotNull,
    /// Reasoning goes out as raw text or as summary, never both.
    OneReasoningStream,
    /// The final `output` is the done items, byte for byte.
    FinalOutput,
    /// The `error` event carries both forms and precedes response.failed.
    ErrorEvent,
    /// async-openai can read it.
    ForeignTypes,
}

/// One breach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleViolation {
    /// The rule that was broken.
    pub rule: StreamRule,
    /// Which event, counted from 0; none for an object or for the stream as a whole.
    pub at: Option<usize>,
    /// What was found instead.
    pub what: String,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{:?} (event {at}): {}", self.rule, self.what),
            None => write!(f, "{:?}: {}", self.rule, self.what),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ViolationReport {
    pub(super) violations: Vec<RuleViolation>,
    pub(super) at: Option<usize>,
}

impl ViolationReport {
    pub(super) fn add(&mut self, rule: StreamRule, what: impl Into<String>) {
        self.violations.push(RuleViolation {
            rule,
            at: self.at,
            what: what.into(),
        });
    }

    pub(super) fn require(&mut self, holds: bool, rule: StreamRule, what: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, what());
        }
    }
}
