//! The rules by name, and their violations.

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
    /// Repeated tools, reasoning and text format have the keys that a client may leave out.
    ResponseSettings,
    /// `status` is the one of the event.
    ResponseStatus,
    /// All counts and details, which add up; null only before the end.
    Usage,
    /// `completed_at` is set if and only if completed.
    CompletedAt,
    /// A failed response, and no other, has `error` with code and message.
    ResponseError,
    /// An incomplete response, and no other, has `incomplete_details.reason`.
    IncompleteDetails,
    /// `output_index` counts items in the order in which they are added; events have that of the
    /// open item.
    OutputIndex,
    /// An item is done before the next is added; its events come between.
    OneItemAtATime,
    /// Item ids have the prefix of their kind, are unique, and the same in every event of the item.
    ItemId,
    /// `call_id` is present, unique, and differs from the item's id.
    CallId,
    /// The item has the fields of its type, in the allowed forms.
    ItemShape,
    /// in_progress when added; completed or incomplete when done, in agreement with the response.
    ItemStatus,
    /// A finished message has a phase: commentary or final answer.
    Phase,
    /// No message consists of blanks alone (upstreams send blanks between reasoning and calls).
    BlankMessage,
    /// Deltas come between the added and done events of their part, with its index.
    PartBracket,
    /// No delta is empty.
    EmptyDelta,
    /// The concatenated deltas equal the text of done, part and item.
    TextSum,
    /// `logprobs` is an array on text deltas, text done and text parts.
    Logprobs,
    /// `annotations` is an array on text parts and holds the annotations of the events.
    Annotations,
    /// Optional fields are absent, not null (reasoning `content`, `encrypted_content`,
    /// obfuscation).
    AbsentNotNull,
    /// Reasoning is sent as raw text or as a summary, never both.
    OneReasoningStream,
    /// The final `output` is the list of done items, byte for byte.
    FinalOutput,
    /// The `error` event has its fields on both levels and precedes response.failed.
    ErrorEvent,
    /// async-openai can parse it.
    ForeignTypes,
}

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleViolation {
    /// The rule.
    pub rule: StreamRule,
    /// The event, counted from 0; `None` for an object or for the stream as a whole.
    pub at: Option<usize>,
    /// What was found.
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
