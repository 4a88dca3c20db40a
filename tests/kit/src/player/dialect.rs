//! Switches for the known ways in which providers depart from the plain Chat Completions wire. The
//! default is the plain wire. Fields and variants are keys of a script.

use super::http::PlayerRequest;
use serde::Deserialize;
use serde_json::Value;

/// How one reply is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a wire"
)]
pub struct ChatDialect {
    /// Where the reasoning is.
    pub reasoning: ReasoningPlacement,
    /// The field of a request that turns reasoning off.
    pub reasoning_switch: Option<ReasoningSwitch>,
    /// Which fragments of a call have its id.
    pub ids: CallIdPlacement,
    /// The `index` of calls.
    pub index: CallIndexing,
    /// Which fragments of a call have its name.
    pub names: CallNamePlacement,
    /// How the arguments of calls are sent.
    pub arguments: ArgumentsForm,
    /// The fragments of consecutive calls are interleaved.
    pub interleaved: bool,
    /// Where the token counts are.
    pub usage: UsagePlacement,
    /// How the finish reason is sent.
    pub finish: FinishReasonForm,
    /// Every delta has a role.
    pub role_everywhere: bool,
    /// Absent keys are sent as null.
    pub nulls: bool,
    /// The first chunk has no choices, but the result of a content filter on the prompt.
    pub chunk_without_choices: bool,
    /// How the events are framed.
    pub framing: EventFraming,
    /// Whether the reply is streamed.
    pub form: ReplyForm,
    /// The content types of streams and documents are swapped.
    pub mislabelled: bool,
    /// How an error step is sent.
    pub error: StreamErrorForm,
    /// `[DONE]` follows an error.
    pub error_done: bool,
}

/// Where the reasoning is in a delta or a message.
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
    /// Between `<think>` and `</think>` in front of the text, the tags split over two chunks.
    ThinkTags,
    /// The same without the opening tag.
    UnopenedThink,
}

/// A field of a request that turns reasoning off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningSwitch {
    /// `thinking: {"type": "disabled"}`
    Thinking,
    /// `reasoning_effort: "none"`
    Effort,
    /// `enable_thinking: false`
    EnableThinking,
    /// `reasoning: {"enabled": false}`
    Reasoning,
    /// `chat_template_kwargs: {"enable_thinking": false}`
    TemplateSwitch,
}

impl ReasoningSwitch {
    /// Whether a request turns reasoning off.
    fn is_off(self, request: &PlayerRequest) -> bool {
        let (at, off) = match self {
            Self::Thinking => ("/thinking/type", Value::from("disabled")),
            Self::Effort => ("/reasoning_effort", Value::from("none")),
            Self::EnableThinking => ("/enable_thinking", Value::from(false)),
            Self::Reasoning => ("/reasoning/enabled", Value::from(false)),
            Self::TemplateSwitch => ("/chat_template_kwargs/enable_thinking", Value::from(false)),
        };
        request.json.pointer(at) == Some(&off)
    }
}

impl ChatDialect {
    /// Whether the answer to this request has no reasoning.
    pub(super) fn is_without_reasoning(&self, request: &PlayerRequest) -> bool {
        self.reasoning_switch
            .is_some_and(|switch| switch.is_off(request))
    }
}

/// Which fragments of a call have its id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdPlacement {
    /// The first.
    #[default]
    First,
    /// None.
    Missing,
    /// The first has an empty one.
    Empty,
    /// The first; the others have an empty one.
    EmptyLater,
    /// The second, if there is one.
    Late,
    /// All.
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

/// Which fragments of a call have its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallNamePlacement {
    /// The first.
    #[default]
    First,
    /// The second, if there is one.
    Late,
    /// All.
    Repeated,
    /// The first; the others have an empty one.
    EmptyLater,
}

/// How the arguments of calls are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentsForm {
    /// The first fragment has an empty string, the others the pieces.
    #[default]
    Pieces,
    /// The first fragment has the first piece.
    PiecesAtOnce,
    /// The call is one fragment.
    Whole,
    /// The call is one fragment, and the arguments are a JSON object instead of a string.
    Object,
}

/// Where the token counts are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlacement {
    /// In a last chunk with empty `choices`, if the request asks for them.
    #[default]
    Apart,
    /// In the chunk with the finish reason.
    OnFinish,
    /// In the choice with the finish reason.
    InChoice,
    /// In `x_groq` of the chunk with the finish reason.
    XGroq,
    /// The counts so far in every chunk, the last in the chunk with the finish reason.
    EveryChunk,
    /// Nowhere.
    Nowhere,
}

/// How the finish reason is sent.
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
    /// The chunk with the finish reason is sent twice.
    Repeated,
    /// `stop` also behind calls.
    StopAlways,
    /// A non-standard word instead of `stop` and `tool_calls`.
    Unknown,
    /// It is never sent.
    Missing,
}

/// Variations that the event stream format allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent variations of a format"
)]
pub struct EventFraming {
    /// The line end.
    pub line_end: LineEnding,
    /// The stream begins with a byte order mark.
    pub bom: bool,
    /// There is no blank behind `data:`.
    pub tight: bool,
    /// There is a comment before every event.
    pub comments: bool,
    /// Every event has a name and an id.
    pub named: bool,
    /// Every chunk is split over two data lines.
    pub two_lines: bool,
    /// There is no `[DONE]`.
    pub no_done: bool,
}

/// The line end.
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
    /// If the request asks for it.
    #[default]
    Asked,
    /// Never.
    Document,
    /// Always.
    Events,
}

/// How an error step is sent in a stream.
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
    /// If it is the first step: as a document with status 200.
    Document,
    /// If it is the first step: as an HTML page with status 200.
    Html,
}
