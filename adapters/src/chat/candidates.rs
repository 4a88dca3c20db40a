//! The changes of a request in Chat Completions that a clue suggests, those that lose least first.

use registry::{
    CallArguments, CallContent, CallIds, ChatQuirks, ContentForm, MaxTokensField,
    ReasoningRequired, ResponseFormat,
};
use serde_json::value::RawValue;

use crate::members::Members;
use crate::quirk_patch::{ChatPatch, Parameter, QuirkPatch, SharedPatch};
use crate::refusal::change::Change;
use crate::refusal::{RefusedRequest, Suggestions, lower_number, shared};

/// The member that has the history.
pub(crate) const HISTORY: &str = "messages";

/// No provider has a smaller limit of the characters of a message.
const MIN_MESSAGE_LIMIT: u64 = 512;

/// The changes for one of the names of a clue.
pub(crate) fn suggested(name: &str, asked: Suggestions<'_>, quirks: &ChatQuirks) -> Vec<Change> {
    let sent = asked.sent;
    let patches: Vec<QuirkPatch> = match name {
        "streamoptions" | "includeusage" => {
            vec![SharedPatch::OmitParameter(Parameter::StreamOptions).into()]
        }
        "stream" | "streaming" | "streamed" if !sent.tools.is_empty() => vec![
            ChatPatch::NoCallStreaming.into(),
            SharedPatch::OmitParameter(Parameter::Stream).into(),
        ],
        "cachecontrol" | "promptcaching" | "cachepoint" | "caching" => {
            vec![SharedPatch::OmitParameter(Parameter::CacheControl).into()]
        }
        "maxtokens"
        | "maxcompletiontokens"
        | "maxoutputtokens"
        | "maximumtokens"
        | "maxnewtokens" => max_tokens(asked),
        "responseformat" | "jsonschema" | "jsonobject" | "responsemimetype" | "jsonmode"
        | "structuredoutput" | "structuredoutputs" => {
            let formats = response_format(sent).into_iter().map(Change::from);
            return formats.chain(shared("schema", asked)).collect();
        }
        "temperature" => {
            let lower = temperature(asked).into_iter().map(Change::from);
            return lower.chain(shared(name, asked)).collect();
        }
        "thinking" | "enablethinking" | "chattemplatekwargs" => {
            vec![
                ChatPatch::NoThinkingSwitch.into(),
                SharedPatch::NoEffort.into(),
            ]
        }
        "reasoningcontent" | "reasoningdetails" => reasoning(asked),
        "reasoning" if asked.clue.item.is_some() => reasoning(asked),
        "thoughtsignature" | "extracontent" => vec![
            ChatPatch::RequireSignatures.into(),
            ChatPatch::NoSignatures.into(),
        ],
        "type" if asked.clue.names.iter().any(|it| it == "content") => {
            return ["image", "file", "audio"]
                .into_iter()
                .flat_map(|part| shared(part, asked))
                .chain(content(asked, quirks).into_iter().map(Change::from))
                .collect();
        }
        "content" | "contents" | "text" | "null" => content(asked, quirks),
        "message" | "messages" => {
            let mut patches = order(asked, quirks);
            patches.extend(content(asked, quirks));
            patches
        }
        "arguments" | "functionarguments" => arguments(sent),
        "id" | "toolcallid" | "toolcalls" | "toolcall" | "callid" | "tooluse" | "tooluseid" => {
            calls(asked, quirks)
        }
        "name" | "toolname" if asked.clue.tool.is_none() => vec![ChatPatch::ToolNames.into()],
        "user" | "assistant" | "tool" if names_roles(asked) => {
            let order = order(asked, quirks).into_iter().map(Change::from);
            return order.chain(shared(name, asked)).collect();
        }
        "role" | "roles" | "order" | "turn" | "turns" | "conversation" => {
            let order = order(asked, quirks).into_iter().map(Change::from);
            let mut changes = shared(name, asked);
            changes.extend(order);
            return changes;
        }
        _ => return shared(name, asked),
    };
    patches.into_iter().map(Change::from).collect()
}

/// Whether the refusal speaks of several roles.
fn names_roles(asked: Suggestions<'_>) -> bool {
    let roles = ["user", "assistant", "tool", "system", "developer"];
    let named = roles.iter().filter(|role| asked.text.has_word(role));
    named.count() > 1
}

/// A lower limit, the other name of it, or none.
fn max_tokens(asked: Suggestions<'_>) -> Vec<QuirkPatch> {
    let sent = asked.sent;
    let (field, other) = if sent.members.get("max_tokens").is_some() {
        ("max_tokens", MaxTokensField::MaxCompletionTokens)
    } else {
        ("max_completion_tokens", MaxTokensField::MaxTokens)
    };
    let Some(limit) = sent.number(field) else {
        return Vec::new();
    };
    let lower = lower_number(asked, Some(limit)).map(QuirkPatch::from);
    let others = [other, MaxTokensField::None];
    let others = others.map(|field| ChatPatch::MaxTokensField(field).into());
    lower.into_iter().chain(others).collect()
}

fn response_format(sent: &RefusedRequest<'_>) -> Vec<QuirkPatch> {
    let formats: &[ResponseFormat] = match sent.text("response_format", "type").as_deref() {
        Some("json_schema") => &[ResponseFormat::JsonObject, ResponseFormat::None],
        Some(_) => &[ResponseFormat::None],
        None => &[],
    };
    let formats = formats.iter();
    formats
        .map(|format| ChatPatch::ResponseFormat(*format).into())
        .collect()
}

/// A lower temperature, if the one that was sent is above those that everybody takes.
fn temperature(asked: Suggestions<'_>) -> Option<QuirkPatch> {
    let sent = asked.sent.members.get("temperature")?;
    let sent: f64 = sent.get().parse().ok()?;
    (sent > 1.0).then(|| ChatPatch::MaxTemperature(100).into())
}

/// Reasoning goes back, or stays here: by whether the message that is meant has any.
fn reasoning(asked: Suggestions<'_>) -> Vec<QuirkPatch> {
    let has_any = |item: &Members<'_>| {
        let fields = ["reasoning_content", "reasoning", "reasoning_details"];
        fields.iter().any(|field| item.get(field).is_some())
    };
    let is_sent = asked.sent.named(asked.clue.item).any(has_any);
    let required = [ReasoningRequired::Calls, ReasoningRequired::Always];
    let required = required.map(|which| ChatPatch::RequireReasoning(which).into());
    let refused = SharedPatch::NoReasoning.into();
    if is_sent {
        [refused].into_iter().chain(required).collect()
    } else {
        required.into_iter().chain([refused]).collect()
    }
}

/// Another form of what is in the messages that are meant, then another order of them. What the
/// refusal says of lists comes first if it does.
fn content(asked: Suggestions<'_>, quirks: &ChatQuirks) -> Vec<QuirkPatch> {
    const LISTS: [&str; 6] = ["array", "list", "parts", "sequence", "string", "str"];
    let Suggestions { sent, clue, text } = asked;
    let mut empty: Vec<QuirkPatch> = Vec::new();
    let mut listed: Vec<QuirkPatch> = Vec::new();
    let mut longest = 0;
    for item in sent.named(clue.item) {
        let content = item.get("content").map(RawValue::get);
        let is_answer = item.text("role").as_deref() == Some("assistant");
        match content {
            None | Some("null" | "\"\"") if is_answer && empty.is_empty() => {
                let forms = [CallContent::Empty, CallContent::Omitted, CallContent::Text];
                let others = forms
                    .into_iter()
                    .filter(|form| *form != quirks.call_content);
                empty.extend(others.map(|form| QuirkPatch::from(ChatPatch::CallContent(form))));
            }
            Some(list) if list.starts_with('[') && listed.is_empty() => {
                listed = vec![
                    SharedPatch::OmitParameter(Parameter::CacheControl).into(),
                    ChatPatch::ContentForm(ContentForm::JoinedText).into(),
                    ChatPatch::ContentForm(ContentForm::String).into(),
                    ChatPatch::ImageNeedsText.into(),
                ];
            }
            Some(text) if !is_answer => longest = longest.max(text.chars().count()),
            None | Some(_) => {}
        }
    }
    let longest = u64::try_from(longest).unwrap_or(u64::MAX);
    let limits = text.numbers();
    let limit = limits.filter(|number| (MIN_MESSAGE_LIMIT..longest).contains(number));
    let limit = limit
        .max()
        .and_then(|limit| u16::try_from(limit / 100).ok());
    let limit = limit.map(|limit| ChatPatch::MessageLimit(limit).into());
    let says_null = ["null", "none", "nil", "NoneType", "empty"];
    let is_list = LISTS.iter().any(|word| text.has_word(word))
        && !says_null.iter().any(|word| text.has_word(word));
    let (first, second) = if is_list {
        (listed, empty)
    } else {
        (empty, listed)
    };
    let order = order(asked, quirks);
    limit
        .into_iter()
        .chain(first)
        .chain(second)
        .chain(order)
        .collect()
}

/// The changes of the order of messages that would make a difference.
fn order(asked: Suggestions<'_>, quirks: &ChatQuirks) -> Vec<QuirkPatch> {
    let Suggestions { sent, clue, .. } = asked;
    let roles: Vec<_> = (0..sent.items.len())
        .map(|place| sent.role(place))
        .collect();
    let is_near = |second: usize| {
        clue.item
            .is_none_or(|place| place == second || place + 1 == second)
    };
    let follows = |first: &str, second: &str| {
        let pairs = roles.windows(2).enumerate();
        let mut pairs = pairs.filter(|(place, _)| is_near(place + 1));
        pairs.any(|(_, pair)| pair == [first, second])
    };
    let is_system = |role: &str| matches!(role, "system" | "developer");
    let mut later = roles.iter().enumerate().skip(1);
    let has_late_system = later.any(|(place, role)| is_system(role) && is_near(place));
    let ends_with_answer = roles.last().is_some_and(|role| role == "assistant");
    // What the refusal speaks of comes first.
    let says = |words: &[&str]| words.iter().any(|word| asked.text.has_word(word));
    let mut patches: Vec<(bool, QuirkPatch)> = Vec::new();
    if has_late_system {
        let is_said = says(&["system", "developer", "first", "beginning"]);
        patches.push((is_said, ChatPatch::SystemFirst.into()));
    }
    if follows("tool", "user") && !quirks.answer_after_tool {
        patches.push((says(&["tool"]), ChatPatch::AnswerAfterTool.into()));
    }
    if follows("user", "user") && !quirks.merge_user {
        patches.push((says(&["user"]), ChatPatch::MergeUser.into()));
    }
    if ends_with_answer {
        let is_said = says(&["last", "prefill", "assistant"]);
        patches.push((is_said, SharedPatch::EndWithUser.into()));
    }
    // The sort keeps the order of those that are as likely.
    patches.sort_by_key(|(is_said, _)| !is_said);
    patches.into_iter().map(|(_, patch)| patch).collect()
}

fn arguments(sent: &RefusedRequest<'_>) -> Vec<QuirkPatch> {
    let has_calls = sent
        .named(None)
        .any(|item| item.get("tool_calls").is_some());
    let form = ChatPatch::CallArguments(CallArguments::Object);
    has_calls.then(|| form.into()).into_iter().collect()
}

/// Another form of the calls in the history: what else of them the refusal names comes first.
fn calls(asked: Suggestions<'_>, quirks: &ChatQuirks) -> Vec<QuirkPatch> {
    let says = |words: &[&str]| words.iter().any(|word| asked.text.has_word(word));
    let mut patches: Vec<QuirkPatch> = Vec::new();
    if says(&["single", "parallel", "multiple"]) {
        patches.push(SharedPatch::OmitParameter(Parameter::ParallelToolCalls).into());
    }
    if says(&["arguments"]) {
        patches.extend(arguments(asked.sent));
    }
    if says(&["content"]) {
        patches.extend(content(asked, quirks));
    }
    let forms = [CallIds::Word, CallIds::NineAlphanumeric];
    patches.extend(forms.map(|form| QuirkPatch::from(ChatPatch::CallIds(form))));
    patches.push(ChatPatch::ToolNames.into());
    patches
}
