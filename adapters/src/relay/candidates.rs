//! The changes of a request to an upstream that speaks Responses that a clue suggests, those that
//! lose least first.

use registry::{EnumSet, RelayQuirks, RelayToolKind, ResponseFormat};
use serde_json::value::RawValue;

use crate::quirk_patch::{Parameter, QuirkPatch, RelayPatch, SharedPatch};
use crate::refusal::change::Change;
use crate::refusal::{Suggestions, lower_number, shared};

/// The member that has the history.
pub(crate) const HISTORY: &str = "input";

/// The changes for one of the names of a clue.
pub(crate) fn suggested(name: &str, asked: Suggestions<'_>, quirks: &RelayQuirks) -> Vec<Change> {
    let sent = asked.sent;
    let omit = |parameter| vec![SharedPatch::OmitParameter(parameter).into()];
    let patches: Vec<QuirkPatch> = match name {
        "include" => omit(Parameter::Include),
        "encryptedcontent" | "reasoningencryptedcontent" | "encrypted" => {
            vec![SharedPatch::NoReasoning.into()]
        }
        "reasoningsummary" | "summary" => omit(Parameter::ReasoningSummary),
        "reasoningeffort" => vec![SharedPatch::NoEffort.into()],
        "phase" => omit(Parameter::Phase),
        "maxoutputtokens" | "maxtokens" => {
            let lower = lower_number(asked, sent.number("max_output_tokens"));
            let lower = lower.map(QuirkPatch::from);
            lower
                .into_iter()
                .chain(omit(Parameter::MaxOutputTokens))
                .collect()
        }
        "text" | "textformat" | "format" | "responseformat" | "jsonschema" | "jsonobject"
        | "structuredoutputs" => response_format(sent.members.get("text").map(RawValue::get)),
        "agentmessage" | "callid" => vec![SharedPatch::NoAgentMessages.into()],
        _ => match tool_kind(name, asked, quirks) {
            Some(kind) => vec![RelayPatch::WithoutTools(EnumSet::empty().with(kind)).into()],
            None => Vec::new(),
        },
    };
    let mut changes: Vec<Change> = patches.into_iter().map(Change::from).collect();
    changes.extend(shared(name, asked));
    changes
}

/// The kind of tool that is meant, as far as it is sent as the client declares it.
fn tool_kind(name: &str, asked: Suggestions<'_>, quirks: &RelayQuirks) -> Option<RelayToolKind> {
    let Suggestions { sent, clue, .. } = asked;
    let kind_of = |kind: &str| RelayToolKind::of_definition(kind);
    let by_tool = clue
        .tool
        .and_then(|place| kind_of(&sent.tools.get(place)?.kind));
    let item = clue
        .item
        .and_then(|place| sent.items.get(place)?.text("type"));
    let by_item =
        item.and_then(|kind| kind_of(kind.split("_call").next()?.trim_end_matches("_tool")));
    let by_name = || {
        let plain = |kind: &str| kind.replace('_', "");
        let kinds = sent.tools.iter().map(|tool| tool.kind.as_ref());
        let mut kinds = kinds.filter(|kind| {
            plain(kind) == name
                || format!("{}toolcall", plain(kind)) == name
                || format!("{}call", plain(kind)) == name
        });
        kinds.next().and_then(kind_of)
    };
    let kind = by_tool.or(by_item).or_else(by_name)?;
    quirks.tools.contains(kind).then_some(kind)
}

fn response_format(text: Option<&str>) -> Vec<QuirkPatch> {
    let formats: &[ResponseFormat] = match text {
        Some(text) if text.contains("\"json_schema\"") => {
            &[ResponseFormat::JsonObject, ResponseFormat::None]
        }
        Some(text) if text.contains("\"json_object\"") => &[ResponseFormat::None],
        Some(_) | None => &[],
    };
    let formats = formats.iter();
    formats
        .map(|format| RelayPatch::ResponseFormat(*format).into())
        .collect()
}
