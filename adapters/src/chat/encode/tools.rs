//! The tools that are offered, and `tool_choice`.

use std::ops::Range;

use registry::ChatQuirks;

use crate::body_writer::BodyWriter;
use crate::encoded;
use crate::fault::Fault;
use crate::json;
use crate::schema;
use crate::tools::{Tool, ToolChoice};

/// The tools to offer: none if the client forbids calls and the provider does not
/// accept `tool_choice: none`.
pub(super) fn offered_tools<'t, 'a>(
    body: &mut BodyWriter<'t, 'a>,
    quirks: &ChatQuirks,
) -> Vec<&'t Tool<'a>> {
    if body.leaves_out_tools(quirks.tool_choice) {
        return Vec::new();
    }
    let tools = body.turn.tools.iter();
    match &body.turn.tool_choice {
        ToolChoice::Allowed { names, .. } => tools
            .filter(|tool| names.contains(&tool.wire_name))
            .collect(),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Named(_) => {
            tools.collect()
        }
    }
}

/// Writes the tools and `tool_choice`. Returns the range of the list in the body. Fails if the
/// schemas become too large.
pub(super) fn push(
    body: &mut BodyWriter<'_, '_>,
    tools: &[&Tool<'_>],
    quirks: &ChatQuirks,
) -> Result<Range<usize>, Fault> {
    let start = body.out.len();
    if tools.is_empty() {
        return Ok(start..start);
    }
    body.key("tools");
    body.out.push(b'[');
    for tool in tools {
        json::separate(&mut body.out);
        push_tool(body, tool, quirks);
        encoded::check_size(body.out.len(), "tools")?;
    }
    body.out.push(b']');
    let list = start..body.out.len();
    body.push_tool_choice(quirks.tool_choice, |out, name| {
        out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
        json::push(out, name);
        out.extend_from_slice(b"}}");
    });
    let parallel = body.turn.parallel_tool_calls;
    body.field_if("parallel_tool_calls", parallel, quirks.parallel_tool_calls);
    Ok(list)
}

fn push_tool(body: &mut BodyWriter<'_, '_>, tool: &Tool<'_>, quirks: &ChatQuirks) {
    let (out, room) = (&mut body.out, &mut body.reference_room);
    out.extend_from_slice(br#"{"type":"function","function":{"#);
    let parameters = tool.parameters;
    let fitted = parameters.and_then(|raw| schema::fit_parameters(raw, quirks.schema, room));
    let takes_strict = quirks.strict_tools;
    let notes = &mut body.notes;
    tool.push_function(out, fitted.as_deref(), tool.strict, takes_strict, notes);
    out.extend_from_slice(b"}}");
}
