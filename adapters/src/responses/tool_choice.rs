//! The parameter `tool_choice`, checked against the offered tools.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::{self, string_value};
use crate::tools::{MAX_TOOLS, ToolChoice, ToolKind, Toolbox};

/// Reads `tool_choice`: a mode, one tool, or `allowed_tools`. `dropped` holds the types
/// of the offered tools that cannot run here; a choice that forces such a tool is an
/// error.
pub(super) fn read_tool_choice(
    raw: Option<&RawValue>,
    toolbox: &Toolbox<'_>,
    dropped: &[String],
) -> Result<ToolChoice, Fault> {
    let Some(raw) = raw else {
        return Ok(ToolChoice::Auto);
    };
    if let Some(mode) = string_value(Some(raw)) {
        return match mode.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" if toolbox.is_empty() => Err(invalid(if dropped.is_empty() {
                "The tool choice 'required' needs tools.".to_owned()
            } else {
                format!(
                    "The tool choice 'required' needs a tool that can be run here; {} cannot.",
                    dropped.join(", ")
                )
            })),
            "required" => Ok(ToolChoice::Required),
            other => Err(invalid(format!(
                "The tool choice '{other}' is not known: use auto, none, required or an object."
            ))),
        };
    }
    let fields: ToolChoiceFields<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    if fields.kind.as_deref() == Some("allowed_tools") {
        return allowed_tools(&fields, toolbox, dropped);
    }
    find_tool(&fields, toolbox)
        .map(ToolChoice::Named)
        .ok_or_else(|| missing_tool(&fields))
}

/// The object form of `tool_choice`; the entries of `allowed_tools` have the same fields.
#[derive(Deserialize)]
#[serde(expecting = "struct Form")]
struct ToolChoiceFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    tools: Option<&'a RawValue>,
}

fn allowed_tools(
    fields: &ToolChoiceFields<'_>,
    toolbox: &Toolbox<'_>,
    dropped: &[String],
) -> Result<ToolChoice, Fault> {
    let required = match fields.mode.as_deref() {
        None | Some("auto") => false,
        Some("required") => true,
        Some(other) => {
            return Err(invalid(format!(
                "The mode '{other}' of 'allowed_tools' is not known: use auto or required."
            )));
        }
    };
    let mut names = BTreeSet::new();
    let mut count = 0;
    let list = fields.tools.map_or("[]", RawValue::get);
    json::read_each(list, |tool: ToolChoiceFields<'_>| {
        count += 1;
        if count > MAX_TOOLS {
            return Err(invalid(format!(
                "'allowed_tools' names more than {MAX_TOOLS} tools: leave out those that are not offered."
            )));
        }
        let is_dropped = |kind: &str| dropped.iter().any(|dropped| dropped == kind);
        match find_tool(&tool, toolbox) {
            Some(name) => names.extend([name]),
            None if tool.kind.as_deref().is_some_and(is_dropped) => {}
            None => return Err(missing_tool(&tool)),
        }
        Ok(())
    })
    .map_err(unreadable)??;
    if required && names.is_empty() {
        return Err(invalid(
            "None of the allowed tools can be run here, but one is required.".to_owned(),
        ));
    }
    Ok(ToolChoice::Allowed { required, names })
}

/// The wire name of the tool that `fields` describe.
fn find_tool(fields: &ToolChoiceFields<'_>, toolbox: &Toolbox<'_>) -> Option<String> {
    let name = fields.name.as_deref();
    let found = match fields.kind.as_deref()? {
        "function" => {
            let name = name?;
            return toolbox
                .iter()
                .find(|tool| {
                    tool.target.kind == ToolKind::Function
                        && (tool.target.name == name || tool.wire_name == name)
                        && fields
                            .namespace
                            .as_deref()
                            .is_none_or(|ns| tool.target.namespace.as_deref() == Some(ns))
                })
                .map(|tool| tool.wire_name.clone());
        }
        "custom" => {
            let name = name?;
            let mut tools = toolbox.iter();
            let is_custom = |kind| matches!(kind, ToolKind::Custom | ToolKind::Patch);
            let tool = tools.find(|tool| is_custom(tool.target.kind) && tool.target.name == name);
            tool.map(|tool| tool.wire_name.as_str())
        }
        "tool_search" => toolbox.first_of(ToolKind::ToolSearch),
        "local_shell" => toolbox.first_of(ToolKind::LocalShell),
        "shell" => toolbox.first_of(ToolKind::Shell),
        "apply_patch" => toolbox.first_of(ToolKind::ApplyPatch),
        _ => None,
    };
    found.map(str::to_owned)
}

fn missing_tool(fields: &ToolChoiceFields<'_>) -> Fault {
    let kind = fields.kind.as_deref().unwrap_or("?");
    match &fields.name {
        Some(name) => invalid(format!(
            "The tool choice names the {kind} tool '{name}', which is not among the tools."
        )),
        None => invalid(format!(
            "The tool choice forces '{kind}', which cannot be run here. Leave the choice to 'auto' or offer a function instead."
        )),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn unreadable(error: serde_json::Error) -> Fault {
    invalid(format!(
        "The parameter 'tool_choice' cannot be read: {error}."
    ))
}

fn invalid(message: String) -> Fault {
    Fault::invalid("tool_choice", message)
}
