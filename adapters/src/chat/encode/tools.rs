//! The tools that are offered, and `tool_choice`.

use std::ops::Range;

use registry::{ChatQuirks, ProviderSearch, RelayToolKind};

use crate::body_writer::BodyWriter;
use crate::chat::provider_search;
use crate::encoded;
use crate::fault::Fault;
use crate::json;
use crate::plan::Plan;
use crate::tools::{OfferedFrom, ProxyToolUse, Tool, ToolChoice, extend_artifact_tools};
use crate::turn::Turn;

/// The tools to offer, and the provider's own search in place of those that search: none if the
/// client forbids calls and the provider does not accept `tool_choice: none`.
pub(super) fn offered_tools<'t, 'a>(
    body: &mut BodyWriter<'t, 'a>,
    plan: &Plan,
    quirks: &ChatQuirks,
) -> (Vec<&'t Tool<'a>>, Option<ProviderSearch>) {
    if body.leaves_out_tools(plan, quirks.tool_choice) {
        return (Vec::new(), None);
    }
    let search = provider_search::used(body.turn, body.model, quirks);
    let tools = body.turn.tools.iter().filter(|tool| match tool.proxy {
        _ if tool.offered_from == OfferedFrom::Never => false,
        None | Some(ProxyToolUse::Always | ProxyToolUse::ToolSearch) => true,
        Some(ProxyToolUse::InPlaceOf(_)) => search.is_none(),
        Some(ProxyToolUse::Echo(_)) => false,
        Some(ProxyToolUse::WithArtifacts) => plan.artifact_tools,
    });
    let mut tools: Vec<&Tool<'_>> = match &body.turn.tool_choice {
        ToolChoice::Allowed { names, .. } => tools
            .filter(|tool| names.contains(&tool.wire_name))
            .collect(),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Named(_) => {
            tools.collect()
        }
    };
    tools.sort_by_key(|tool| tool.offered_from);
    (tools, search)
}

/// Writes the tools and `tool_choice`. Returns the range of the list in the body. Fails if the
/// schemas become too large.
pub(super) fn push(
    body: &mut BodyWriter<'_, '_>,
    tools: &[&Tool<'_>],
    search: Option<ProviderSearch>,
    quirks: &ChatQuirks,
) -> Result<Range<usize>, Fault> {
    let start = body.out.len();
    if tools.is_empty() && search.is_none() {
        return Ok(start..start);
    }
    body.key("tools");
    body.out.push(b'[');
    let mut artifact_tools = 0..0;
    for tool in tools {
        let before = body.out.len();
        json::separate(&mut body.out);
        push_tool(body, tool, quirks);
        extend_artifact_tools(&mut artifact_tools, tool, before..body.out.len());
        encoded::check_size(body.out.len(), "tools")?;
    }
    if let Some(search) = search {
        json::separate(&mut body.out);
        json::push(
            &mut body.out,
            &provider_search::definition(search, body.turn),
        );
    }
    body.out.push(b']');
    let list = start..body.out.len();
    if !artifact_tools.is_empty() {
        body.set_artifact_tools(&list, artifact_tools);
    }
    if search.is_some() && is_search_forced(body.turn) {
        let detail = "the provider's search: the model is free to call";
        body.notes.add("tool_choice_dropped", detail);
    } else {
        body.push_tool_choice(quirks.tool_choice, |out, name| {
            out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
            json::push(out, name);
            out.extend_from_slice(b"}}");
        });
    }
    let parallel = body.turn.parallel_tool_calls;
    body.field_if("parallel_tool_calls", parallel, quirks.parallel_tool_calls);
    Ok(list)
}

/// Whether the client says that the model has to search.
fn is_search_forced(turn: &Turn<'_>) -> bool {
    match &turn.tool_choice {
        ToolChoice::Named(name) => {
            let mut functions = turn.tools.in_place_of(RelayToolKind::WebSearch);
            functions.any(|function| function == name)
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Allowed { .. } => {
            false
        }
    }
}

fn push_tool(body: &mut BodyWriter<'_, '_>, tool: &Tool<'_>, quirks: &ChatQuirks) {
    let (out, room) = (&mut body.out, &mut body.reference_room);
    out.extend_from_slice(br#"{"type":"function","function":{"#);
    let fitted = tool.fitted_parameters(quirks.schema, body.left_out, room);
    let (strict, takes_strict) = (tool.fitted_strict(body.left_out), quirks.strict_tools);
    let notes = &mut body.notes;
    tool.push_function(out, fitted.as_deref(), strict, takes_strict, notes);
    out.extend_from_slice(b"}}");
}
