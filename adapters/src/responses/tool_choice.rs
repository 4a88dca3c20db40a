//! The parameter `tool_choice`, checked against the offered tools.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::string_value;
use crate::tools::{ToolChoice, ToolKind, Toolbox};

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
    let fields: ToolChoiceFields<'_> = serde_json::from_str(raw.get()).map_err(|error| {
        invalid(format!(
            "The parameter 'tool_choice' cannot be read: {error}."
        ))
    })?;
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
    #[serde(default)]
    tools: Vec<ToolChoiceFields<'a>>,
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
    let mut names = Vec::new();
    for tool in &fields.tools {
        match find_tool(tool, toolbox) {
            Some(name) => names.push(name),
            None if tool
                .kind
                .as_deref()
                .is_some_and(|kind| dropped.iter().any(|d| d == kind)) => {}
            None => return Err(missing_tool(tool)),
        }
    }
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
        "custom" => toolbox.find(&[ToolKind::Custom, ToolKind::Patch], Some(name?)),
        "tool_search" => toolbox.find(&[ToolKind::ToolSearch], None),
        "local_shell" => toolbox.find(&[ToolKind::LocalShell], None),
        "shell" => toolbox.find(&[ToolKind::Shell], None),
        "apply_patch" => toolbox.find(&[ToolKind::ApplyPatch], None),
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

fn invalid(message: String) -> Fault {
    Fault::invalid("tool_choice", message)
}
