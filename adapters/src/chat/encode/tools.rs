//! The tools that are offered, and `tool_choice`.

use std::ops::Range;

use registry::{ChatQuirks, ToolChoiceMode};

use crate::body_writer::BodyWriter;
use crate::encoded;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::schema;
use crate::tools::{Tool, ToolChoice, accepts_choice};
use crate::turn::Turn;

/// The tools to offer: none if the client forbids calls and the provider does not
/// accept `tool_choice: none`.
pub(super) fn offered_tools<'t, 'a>(
    turn: &'t Turn<'a>,
    quirks: &ChatQuirks,
    notes: &mut Notes,
) -> Vec<&'t Tool<'a>> {
    let choice = &turn.tool_choice;
    if choice.leaves_out_tools(quirks.tool_choice, &turn.tools, notes) {
        return Vec::new();
    }
    let tools = turn.tools.iter();
    match choice {
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
    body: &mut BodyWriter<'_>,
    tools: &[&Tool<'_>],
    turn: &Turn<'_>,
    quirks: &ChatQuirks,
    notes: &mut Notes,
) -> Result<Range<usize>, Fault> {
    let start = body.out.len();
    if tools.is_empty() {
        return Ok(start..start);
    }
    body.key("tools");
    body.out.push(b'[');
    for (position, tool) in tools.iter().enumerate() {
        if position > 0 {
            body.out.push(b',');
        }
        push_tool(&mut body.out, tool, quirks, notes);
        encoded::check_size(body.out.len(), "tools")?;
    }
    body.out.push(b']');
    let list = start..body.out.len();
    push_choice(body, &turn.tool_choice, quirks, notes);
    body.field_if(
        "parallel_tool_calls",
        turn.parallel_tool_calls,
        quirks.parallel_tool_calls,
        notes,
    );
    Ok(list)
}

fn push_choice(
    body: &mut BodyWriter<'_>,
    choice: &ToolChoice,
    quirks: &ChatQuirks,
    notes: &mut Notes,
) {
    match choice {
        ToolChoice::Auto
        | ToolChoice::Allowed {
            required: false, ..
        } => {}
        ToolChoice::None => body.field("tool_choice", "none"),
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
            if accepts_choice(
                quirks.tool_choice,
                ToolChoiceMode::Required,
                "required",
                notes,
            ) {
                body.field("tool_choice", "required");
            }
        }
        ToolChoice::Named(name) => {
            if accepts_choice(quirks.tool_choice, ToolChoiceMode::Named, name, notes) {
                body.key("tool_choice");
                let out = &mut body.out;
                out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
                json::push(out, name);
                out.extend_from_slice(b"}}");
            }
        }
    }
}

fn push_tool(out: &mut Vec<u8>, tool: &Tool<'_>, quirks: &ChatQuirks, notes: &mut Notes) {
    out.extend_from_slice(br#"{"type":"function","function":{"#);
    let parameters = tool.parameters;
    let fitted = parameters.and_then(|raw| schema::fit_parameters(raw, quirks.schema));
    tool.push_function(
        out,
        fitted.as_deref(),
        tool.strict,
        quirks.strict_tools,
        notes,
    );
    out.extend_from_slice(b"}}");
}
