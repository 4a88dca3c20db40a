//! The answer of a model as data, from which the chunks of the upstream and the expected results of
//! a client are derived.

use serde_json::{Value, json};

use super::wire::json_string;

/// The script of an answer.
#[derive(Clone, Debug)]
pub struct Script {
    pub steps: Vec<Step>,
    pub end: End,
    pub usage: Option<[u64; 5]>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Text(SplitText, bool),
    Refusal(SplitText),
    Reasoning(SplitText),
    /// Only white space.
    Blank(String),
    Annotation,
    /// A chunk without content.
    Empty,
    Calls(Round),
}

/// A text and the offsets at which it is split, in UTF-16 units.
#[derive(Clone, Debug)]
pub struct SplitText {
    pub text: String,
    pub cuts: Vec<usize>,
    pub ascii: bool,
}

/// Parallel calls.
#[derive(Clone, Debug)]
pub struct Round {
    pub calls: Vec<Call>,
    pub id_style: CallIdStyle,
    /// The call that gets the next fragment; ignored where the id style requires calls in
    /// sequence.
    pub order: Vec<usize>,
    /// Text between the fragments.
    pub text_between: Option<SplitText>,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub tool: Tool,
    pub arguments: SplitText,
}

/// How the upstream identifies the call of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIdStyle {
    IndexAndId,
    /// The id is repeated on every piece.
    IdRepeated,
    /// No id at all.
    IndexAlone,
    /// Every call has the same id.
    SameId,
    /// No index: a new id is a new call.
    IdAlone,
    /// No index, and the id on every piece.
    OnEveryPiece,
    /// Every call has index 0.
    ZeroIndex,
    /// The name comes with the first arguments.
    LateName,
    /// The id comes with the first arguments.
    LateId,
    /// Each id is longer than clients accept.
    TooLong,
}

/// The tools that [`request`] offers, and one that it does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Function,
    Custom,
    Patch,
    Namespaced,
    NamespacedCustom,
    Search,
    LocalShell,
    Shell,
    ApplyPatch,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Finish(&'static str),
    /// The upstream closes without a finish reason.
    Silence,
    /// An error chunk comes after this many chunks.
    Error(usize),
    /// The connection ends after this many bytes.
    Cut(usize),
}

/// The call that a client must get.
#[derive(Clone, Debug)]
pub struct Expected {
    pub tool: Tool,
    pub arguments: String,
}

/// A request that offers every kind of tool.
pub fn request() -> String {
    json!({
        "model": "m", "stream": true, "input": "go",
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "tools": [
            {"type": "function", "name": "read", "parameters": {"type": "object"}},
            {"type": "custom", "name": "script", "format": {"type": "text"}},
            {"type": "custom", "name": "edit", "description": "Patches files.", "format": {
                "type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\"",
            }},
            {"type": "namespace", "name": "mcp__demo", "description": "d", "tools": [
                {"type": "function", "name": "echo", "parameters": {"type": "object"}},
                {"type": "custom", "name": "raw"},
            ]},
            {"type": "tool_search", "execution": "client", "description": "d"},
            {"type": "local_shell"},
            {"type": "shell"},
            {"type": "apply_patch"},
        ],
    })
    .to_string()
}

impl Tool {
    pub const ALL: [Self; 10] = [
        Self::Function,
        Self::Custom,
        Self::Patch,
        Self::Namespaced,
        Self::NamespacedCustom,
        Self::Search,
        Self::LocalShell,
        Self::Shell,
        Self::ApplyPatch,
        Self::Unknown,
    ];

    /// Item type, name and namespace of the client's call.
    pub fn identity(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::Function => ("function_call", "read", None),
            Self::Custom => ("custom_tool_call", "script", None),
            Self::Patch => ("custom_tool_call", "edit", None),
            Self::Namespaced => ("function_call", "echo", Some("mcp__demo")),
            Self::NamespacedCustom => ("custom_tool_call", "raw", Some("mcp__demo")),
            Self::Search => ("tool_search_call", "", None),
            Self::LocalShell => ("local_shell_call", "", None),
            Self::Shell => ("shell_call", "", None),
            Self::ApplyPatch => ("apply_patch_call", "", None),
            Self::Unknown => ("function_call", "never_offered", None),
        }
    }

    /// The name that the model calls.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Function => "read",
            Self::Custom => "script",
            Self::Patch => "edit",
            Self::Namespaced => "mcp__demo__echo",
            Self::NamespacedCustom => "mcp__demo__raw",
            Self::Search => "tool_search",
            Self::LocalShell => "local_shell",
            Self::Shell => "shell",
            Self::ApplyPatch => "apply_patch",
            Self::Unknown => "never_offered",
        }
    }

    pub fn is_custom(self) -> bool {
        matches!(self, Self::Custom | Self::Patch | Self::NamespacedCustom)
    }

    /// Whether the call is sent to the client while its arguments arrive.
    pub fn streams(self) -> bool {
        !matches!(
            self,
            Self::Patch | Self::Search | Self::LocalShell | Self::Shell | Self::ApplyPatch
        )
    }

    /// The arguments as the client gets them, if they are a complete document or empty.
    pub fn client_arguments(self, arguments: &str) -> String {
        let given: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let or_null = |key: &str| given.get(key).cloned().unwrap_or(Value::Null);
        let or_empty = |key: &str| given.get(key).cloned().unwrap_or_else(|| json!([]));
        match self {
            Self::Function | Self::Namespaced | Self::Unknown => match arguments {
                "" => "{}".to_owned(),
                _ => arguments.to_owned(),
            },
            Self::Custom | Self::Patch | Self::NamespacedCustom => given
                .get("input")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            Self::Search => given.to_string(),
            Self::LocalShell => json!({
                "type": "exec",
                "command": or_empty("command"),
                "env": {},
                "timeout_ms": or_null("timeout_ms"),
                "working_directory": or_null("working_directory"),
            })
            .to_string(),
            Self::Shell => json!({
                "commands": or_empty("commands"),
                "timeout_ms": or_null("timeout_ms"),
                "max_output_length": or_null("max_output_length"),
            })
            .to_string(),
            Self::ApplyPatch => json!({
                "type": "update_file",
                "path": given.get("path").and_then(Value::as_str).unwrap_or_default(),
                "diff": given.get("diff").and_then(Value::as_str).unwrap_or_default(),
            })
            .to_string(),
        }
    }
}

impl CallIdStyle {
    pub const ALL: [Self; 10] = [
        Self::LateName,
        Self::LateId,
        Self::IndexAndId,
        Self::IdRepeated,
        Self::IndexAlone,
        Self::SameId,
        Self::IdAlone,
        Self::OnEveryPiece,
        Self::ZeroIndex,
        Self::TooLong,
    ];

    fn interleaves(self) -> bool {
        !matches!(self, Self::IdAlone | Self::ZeroIndex)
    }

    fn index(self, number: usize) -> Option<usize> {
        match self {
            Self::IdAlone | Self::OnEveryPiece => None,
            Self::ZeroIndex => Some(0),
            _ => Some(number),
        }
    }

    fn id(self, number: usize, piece: usize) -> Option<String> {
        let always = matches!(self, Self::IdRepeated | Self::OnEveryPiece);
        match self {
            Self::IndexAlone => None,
            _ if piece != usize::from(self == Self::LateId) && !always => None,
            Self::SameId => Some("call_same".to_owned()),
            Self::TooLong => Some(format!("call_{number}_{}", "x".repeat(70))),
            _ => Some(format!("call_{number}")),
        }
    }
}

impl SplitText {
    /// The JSON strings of the pieces.
    fn pieces(&self) -> Vec<String> {
        let units: Vec<u16> = self.text.encode_utf16().collect();
        let mut cuts: Vec<usize> = self
            .cuts
            .iter()
            .map(|cut| cut % (units.len() + 1))
            .chain([0, units.len()])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let pieces = cuts
            .windows(2)
            .map(|pair| json_string(&units[pair[0]..pair[1]], self.ascii));
        pieces.collect()
    }
}

impl Script {
    /// The data of the chunks, the end included.
    pub fn chunks(&self) -> Vec<String> {
        let mut chunks = vec![delta(r#"{"role":"assistant","content":""}"#)];
        let mut calls = 0;
        for step in &self.steps {
            match step {
                Step::Text(text, logprobs) => chunks.extend(text.pieces().iter().map(|piece| {
                    let logprobs = if *logprobs { &logprob(piece) } else { "" };
                    chunk(&format!(
                        r#"{{"index":0,"delta":{{"content":{piece}}}{logprobs},"finish_reason":null}}"#
                    ))
                })),
                Step::Refusal(text) => chunks.extend(fields("refusal", text)),
                Step::Reasoning(text) => chunks.extend(fields("reasoning_content", text)),
                Step::Blank(text) => chunks.push(delta(&json!({"content": text}).to_string())),
                Step::Annotation => chunks.push(delta(r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"https://example.org","title":"t","start_index":0,"end_index":1}}]}"#)),
                Step::Empty => chunks.push(delta(r#"{"content":"","reasoning_content":null,"refusal":null,"tool_calls":[]}"#)),
                Step::Calls(round) => {
                    round.push(calls, &mut chunks);
                    calls += round.calls.len();
                }
            }
        }
        if let End::Finish(reason) = self.end {
            chunks.push(chunk(&format!(
                r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#
            )));
        }
        if let Some([input, cached, write, output, reasoning]) = self.usage {
            chunks.push(format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":{write}}},"completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}}}"#, input + output));
        }
        if let End::Error(after) = self.end {
            chunks.truncate(after % (chunks.len() + 1));
            chunks.push(r#"{"error":{"message":"the engine stopped","code":502}}"#.to_owned());
        }
        chunks
    }

    /// The calls in the order in which they begin.
    pub fn calls(&self) -> Vec<Expected> {
        let rounds = self.steps.iter().filter_map(|step| match step {
            Step::Calls(round) => Some(round),
            _ => None,
        });
        rounds
            .flat_map(|round| {
                let mut begun: Vec<usize> = Vec::new();
                for (lane, piece) in round.merged() {
                    let Some(call) = round.calls.get(lane) else {
                        continue;
                    };
                    // A call begins with its name.
                    let late = round.id_style == CallIdStyle::LateName
                        && !call.arguments.text.is_empty()
                        && piece == 0;
                    if !late && !begun.contains(&lane) {
                        begun.push(lane);
                    }
                }
                begun.into_iter().map(|lane| Expected {
                    tool: round.calls[lane].tool,
                    arguments: round.calls[lane].arguments.text.clone(),
                })
            })
            .collect()
    }

    /// All text of one kind.
    pub fn text_of(&self, wanted: fn(&Step) -> Option<&str>) -> String {
        self.steps.iter().filter_map(wanted).collect()
    }

    /// Whether white space may be dropped or moved: it is a step of its own, or text comes
    /// between calls.
    pub fn has_loose_blanks(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Blank(_) => true,
            Step::Calls(round) => round.text_between.is_some(),
            _ => false,
        })
    }

    /// Whether text comes while calls are open.
    pub fn is_interleaved(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Calls(round) if round.text_between.is_some()))
    }
}

impl Round {
    /// The pieces as (call, piece); the text in between counts as a further call.
    fn merged(&self) -> Vec<(usize, usize)> {
        let mut lanes: Vec<usize> = self
            .calls
            .iter()
            .map(|call| call.arguments.pieces().len() + 1)
            .collect();
        lanes.extend(self.text_between.as_ref().map(|text| text.pieces().len()));
        let mut next = vec![0; lanes.len()];
        let mut merged = Vec::new();
        let mut order = self.order.iter().cycle();
        while let Some(alive) = Some(open_lanes(&next, &lanes)).filter(|alive| !alive.is_empty()) {
            let pick = order.next().copied().unwrap_or(0) % alive.len();
            let sequential = !self.id_style.interleaves();
            let lane = alive[if sequential { 0 } else { pick }];
            merged.push((lane, next[lane]));
            next[lane] += 1;
        }
        merged
    }

    fn push(&self, before: usize, chunks: &mut Vec<String>) {
        for (lane, piece) in self.merged() {
            let Some(call) = self.calls.get(lane) else {
                let text_between = self
                    .text_between
                    .as_ref()
                    .map(SplitText::pieces)
                    .unwrap_or_default();
                chunks.push(delta(&format!(r#"{{"content":{}}}"#, text_between[piece])));
                continue;
            };
            let number = before + lane;
            let mut fields = Vec::new();
            if let Some(index) = self.id_style.index(number) {
                fields.push(format!(r#""index":{index}"#));
            }
            if let Some(id) = self.id_style.id(number, piece) {
                fields.push(format!(r#""id":"{id}","type":"function""#));
            }
            // The first fragment begins the call, the others have arguments.
            let pieces = call.arguments.pieces();
            let arguments = match piece {
                0 => "\"\"",
                _ => pieces[piece - 1].as_str(),
            };
            let late = usize::from(self.id_style == CallIdStyle::LateName && !pieces.is_empty());
            fields.push(if piece == late {
                let name = call.tool.wire_name();
                format!(r#""function":{{"name":"{name}","arguments":{arguments}}}"#)
            } else {
                format!(r#""function":{{"arguments":{arguments}}}"#)
            });
            chunks.push(delta(&format!(
                r#"{{"tool_calls":[{{{}}}]}}"#,
                fields.join(",")
            )));
        }
    }
}

fn open_lanes(next: &[usize], lanes: &[usize]) -> Vec<usize> {
    (0..lanes.len())
        .filter(|lane| next[*lane] < lanes[*lane])
        .collect()
}

fn fields(name: &str, text: &SplitText) -> Vec<String> {
    let pieces = text.pieces();
    let deltas = pieces
        .iter()
        .map(|piece| delta(&format!(r#"{{"{name}":{piece}}}"#)));
    deltas.collect()
}

/// The log probabilities of a piece; half a character has none.
fn logprob(piece: &str) -> String {
    let token: String = serde_json::from_str(piece).unwrap_or_else(|_| "?".to_owned());
    let entry =
        json!({"token": token, "logprob": -0.5, "bytes": token.as_bytes(), "top_logprobs": []});
    format!(r#","logprobs":{{"content":[{entry}]}}"#)
}

fn delta(delta: &str) -> String {
    chunk(&format!(
        r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#
    ))
}

fn chunk(choice: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choice}]}}"#
    )
}
