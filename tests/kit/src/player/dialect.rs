//! How an upstream says what it says: every departure from the plain Chat Completions wire that a
//! provider is known for, as a switch. The default is the plain wire.

use serde::Deserialize;

/// The switches of one reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct ChatDialect {
    /// Where thinking stands.
    pub reasoning: ReasoningPlacement,
    /// The ids of calls.
    pub ids: CallIdPlacement,
    /// The `index` of calls.
    pub index: CallIndexing,
    /// The names of calls.
    pub names: CallNamePlacement,
    /// The arguments of calls.
    pub arguments: ArgumentsForm,
    /// Neighbouring calls are sent piece by piece in turns.
    pub interleaved: bool,
    /// Where token counts stand.
    pub usage: UsagePlacement,
    /// What becomes of the finish reason.
    pub finish: FinishReasonForm,
    /// Every delta has its role.
    pub role_everywhere: bool,
    /// What is absent is null.
    pub nulls: bool,
    /// A first chunk without choices, with a filter's verdict on the prompt.
    pub chunk_without_choices: bool,
    /// How the events are spelled.
    pub framing: EventFraming,
    /// Whether the reply is streamed.
    pub form: ReplyForm,
    /// The content type says the other of events and document.
    pub mislabelled: bool,
    /// How an error step comes.
    pub error: StreamErrorForm,
    /// `[DONE]` follows an error.
    pub error_done: bool,
}

/// Where thinking stands in a delta or a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningPlacement {
    /// `reasoning_content`
    #[default]
    ReasoningContent,
    /// `reasoning`
    Reasoning,
    /// `reasoning_content` and `reasoning`, the same text.
    BothNames,
    /// `reasoning_details` of type `reasoning.text`.
    ReasoningDetails,
    /// `reasoning` and `reasoning_details`, the same text.
    ReasoningAndDetails,
    /// `content` is a list with parts of type `thinking`.
    ContentList,
    /// Between `<think>` and `</think>` in front of the text; the tags are torn.
    ThinkTags,
    /// The same without the opening tag.
    UnopenedThink,
}

/// The ids of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdPlacement {
    /// On the first piece.
    #[default]
    First,
    /// None.
    Missing,
    /// Empty on the first piece.
    Empty,
    /// On the first piece; empty on the others.
    EmptyLater,
    /// On the second piece, if there is one.
    Late,
    /// On every piece.
    Repeated,
}

/// The `index` of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIndexing {
    /// 0, 1, 2, …
    #[default]
    Counted,
    /// 1, 2, 3, …
    FromOne,
    /// Always 0.
    Zero,
    /// None.
    Missing,
}

/// The names of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallNamePlacement {
    /// On the first piece.
    #[default]
    First,
    /// On the second piece, if there is one.
    Late,
    /// On every piece.
    Repeated,
    /// On the first piece; empty on the others.
    EmptyLater,
}

/// The arguments of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentsForm {
    /// An empty string with the head of the call, then the pieces.
    #[default]
    Pieces,
    /// The first piece comes with the head.
    PiecesAtOnce,
    /// The call is one piece.
    Whole,
    /// The same, and the arguments are an object instead of its text.
    Object,
}

/// Where token counts stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlacement {
    /// In a last chunk whose `choices` are empty, if the request asked.
    #[default]
    Apart,
    /// Beside the choice that finishes.
    OnFinish,
    /// In the choice that finishes.
    InChoice,
    /// In `x_groq` of the chunk that finishes.
    XGroq,
    /// The count so far on every chunk, the last one on the chunk that finishes.
    EveryChunk,
    /// Nowhere.
    Nowhere,
}

/// What becomes of the finish reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReasonForm {
    /// It is null until the end.
    #[default]
    NullBefore,
    /// The key is absent until the end.
    AbsentBefore,
    /// It is an empty string until the end.
    EmptyBefore,
    /// The end comes twice.
    Repeated,
    /// `stop` although calls were made.
    StopAlways,
    /// A word of the provider's own instead of `stop` and `tool_calls`.
    Unknown,
    /// It never comes.
    Missing,
}

/// Freedoms of the event stream format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent freedoms of a format"
)]
pub struct EventFraming {
    /// What ends a line.
    pub line_end: LineEnding,
    /// A byte order mark comes first.
    pub bom: bool,
    /// No blank behind `data:`.
    pub tight: bool,
    /// A comment before every event.
    pub comments: bool,
    /// Every event has a name and an id.
    pub named: bool,
    /// Every chunk stands on two data lines.
    pub two_lines: bool,
    /// No `[DONE]`.
    pub no_done: bool,
}

/// What ends a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnding {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`
    Cr,
}

impl LineEnding {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// Whether a reply is streamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// As the request says.
    #[default]
    Asked,
    /// Never.
    Document,
    /// Always.
    Events,
}

/// How an error step comes in a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamErrorForm {
    /// `{"error": …}`
    #[default]
    Chunk,
    /// A chunk with `error` whose choice finishes with `error`.
    InChunk,
    /// An event named `error`.
    Event,
    /// `[{"error": …}]`
    List,
    /// The error itself with `"object": "error"`.
    Bare,
    /// If it comes first: a document with this error and status 200.
    Document,
    /// If it comes first: an HTML page with status 200.
    Html,
}
