//! Tools that the model does not get: it is told so, because it would make up what they return.

use std::borrow::Cow;

use registry::{EnumSet, RelayToolKind};
use serde_json::value::RawValue;

use super::{ToolDefinition, Toolbox};
use crate::members::Members;
use crate::turn::Turn;

/// At most this many names are told.
const MAX_NAMES: usize = 16;

/// The type of the hosted search, in notes.
pub(crate) const WEB_SEARCH: &str = "web_search";

/// Whether the upstream runs tools of this type.
fn runs(relayed: EnumSet<RelayToolKind>, kind: &str) -> bool {
    RelayToolKind::of_definition(kind).is_some_and(|kind| relayed.contains(kind))
}

/// The sentences that tell the model which tools it does not get: hosted tools that this provider
/// does not run, those named in `beyond`, which exceed the number that it takes, and tools of MCP
/// servers. They depend on the tools alone, so that they stay the same throughout a session. `None`
/// if nothing was left out.
pub(crate) fn notice(
    turn: &Turn<'_>,
    relayed: EnumSet<RelayToolKind>,
    beyond: &[&str],
) -> Option<String> {
    let sentences = [
        kinds_notice(turn, relayed, beyond),
        turn.mcp_notice.map(str::to_owned),
    ];
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn kinds_notice(
    turn: &Turn<'_>,
    relayed: EnumSet<RelayToolKind>,
    beyond: &[&str],
) -> Option<String> {
    let lacks_search = turn.tools.lacks_search(relayed).then_some(WEB_SEARCH);
    let hosted = turn
        .dropped_tools
        .iter()
        .map(String::as_str)
        .filter(|kind| !runs(relayed, kind))
        .chain(lacks_search);
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    let beyond = beyond
        .iter()
        .map(|name| Cow::Owned(format!("the tool '{name}'")));
    for name in hosted.filter_map(name_of).chain(beyond) {
        if names.len() < MAX_NAMES && !names.contains(&name) {
            names.push(name);
        }
    }
    let are = match names.as_slice() {
        [] => return None,
        [_] => "is",
        _ => "are",
    };
    let last = names.pop()?;
    let mut text = names.join(", ");
    if !text.is_empty() {
        text.push_str(" and ");
    }
    text.push_str(&last);
    let first = text.get(..1).map(str::to_ascii_uppercase)?;
    text.replace_range(..1, &first);
    Some(format!(
        "{text} {are} not available here. Say so where an answer needs more than you know, and make up no results."
    ))
}

/// What a type of tool is called; `None` for one that is not missed.
fn name_of(kind: &str) -> Option<Cow<'_, str>> {
    let name = match kind {
        "file_search" => "file search",
        "code_interpreter" => "the code interpreter",
        "image_generation" => "image generation",
        "mcp" => "the use of MCP servers",
        // All tools are offered at once.
        "tool_search" => return None,
        _ if kind.starts_with("web_search") => "web search",
        _ if kind.starts_with("computer") => "computer use",
        _ => return Some(format!("the tool '{kind}'").into()),
    };
    Some(name.into())
}

/// The definitions of the request's own list that stay in the response, if some do not.
pub(crate) fn kept_definitions<'t, 'a>(
    tools: &'t Toolbox<'a>,
    list: &RawValue,
    relayed: EnumSet<RelayToolKind>,
) -> Option<Vec<&'a RawValue>> {
    let start = list.get().as_ptr().addr();
    let range = start..start + list.get().len();
    let own =
        |definition: &&'t ToolDefinition<'a>| range.contains(&definition.raw.get().as_ptr().addr());
    let is_left_out = |definition: &ToolDefinition<'_>| {
        let kind = || Members::read(definition.raw.get())?.text("type");
        let is_search =
            |kind: &str| RelayToolKind::of_definition(kind) == Some(RelayToolKind::WebSearch);
        let lacks_search = tools.lacks_search(relayed);
        (definition.dropped && !kind().is_some_and(|kind| runs(relayed, &kind)))
            || (lacks_search && kind().is_some_and(|kind| is_search(&kind)))
    };
    let definitions = tools.definitions().iter().filter(own);
    definitions.clone().any(is_left_out).then(|| {
        let kept = definitions.filter(|definition| !is_left_out(definition));
        kept.map(|definition| definition.raw).collect()
    })
}
