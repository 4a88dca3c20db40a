//! The tool forms of the Responses API become functions; `tool_choice` is read
//! against them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::text::Text;
use crate::tools::{ToolChoice, ToolKind, ToolTarget, Toolbox};
use crate::turn::string;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    strict: Option<&'a RawValue>,
    #[serde(borrow)]
    format: Option<Grammar<'a>>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    execution: Option<Cow<'a, str>>,
}

/// A custom tool's `format`; the lark and regex forms carry a definition.
#[derive(Deserialize)]
struct Grammar<'a> {
    #[serde(borrow)]
    syntax: Option<Cow<'a, str>>,
    #[serde(borrow)]
    definition: Option<Cow<'a, str>>,
}

/// Adds the tools of a JSON list. Types that nobody here can run go to
/// `dropped`.
pub(super) fn collect<'a>(
    list: &'a RawValue,
    toolbox: &mut Toolbox<'a>,
    dropped: &mut Vec<String>,
) -> Result<(), Fault> {
    add_all(list, None, toolbox, dropped)
}

/// The wire names of the tools of a JSON list, for a message that names them.
pub(crate) fn wire_names(list: &RawValue) -> Vec<String> {
    let mut toolbox = Toolbox::default();
    let read = collect(list, &mut toolbox, &mut Vec::new());
    read.map(|()| toolbox.iter().map(|tool| tool.wire_name.clone()).collect())
        .unwrap_or_default()
}

fn add_all<'a>(
    list: &'a RawValue,
    namespace: Option<&str>,
    toolbox: &mut Toolbox<'a>,
    dropped: &mut Vec<String>,
) -> Result<(), Fault> {
    let tools: Vec<Fields<'a>> = serde_json::from_str(list.get()).map_err(|error| {
        Fault::invalid(
            "tools",
            format!("The parameter 'tools' cannot be read: {error}."),
        )
    })?;
    for tool in &tools {
        add(tool, namespace, toolbox, dropped)?;
    }
    Ok(())
}

fn add<'a>(
    tool: &Fields<'a>,
    namespace: Option<&str>,
    toolbox: &mut Toolbox<'a>,
    dropped: &mut Vec<String>,
) -> Result<(), Fault> {
    let kind = tool.kind.as_deref().unwrap_or("function");
    let name = string(tool.name).filter(|name| !name.is_empty());
    let named = || {
        name.as_deref().map(str::to_owned).ok_or_else(|| {
            Fault::invalid("tools", format!("A tool of type '{kind}' has no 'name'."))
        })
    };
    let target = |kind: ToolKind, name: String| ToolTarget {
        kind,
        name,
        namespace: namespace.map(str::to_owned),
    };
    let description = tool.description.and_then(Text::from_raw);
    match kind {
        "function" => {
            let strict = tool.strict.and_then(|raw| serde_json::from_str(raw.get()).ok());
            toolbox.add(target(ToolKind::Function, named()?), description, tool.parameters, strict);
        }
        "custom" => {
            let name = named()?;
            let grammar = tool.format.as_ref().and_then(|format| format.definition.as_deref());
            let kind = if is_patch(&name, grammar) { ToolKind::Patch } else { ToolKind::Custom };
            let text = custom_description(description.as_ref(), tool.format.as_ref());
            toolbox.add(target(kind, name), Some(text.into()), constant(CUSTOM_PARAMETERS), None);
        }
        // One inside another has no name on the wire, and depth is the client's.
        "namespace" if namespace.is_none() => {
            let name = named()?;
            if let Some(tools) = tool.tools {
                add_all(tools, Some(&name), toolbox, dropped)?;
            }
        }
        "tool_search" if tool.execution.as_deref() == Some("client") => {
            let parameters = tool.parameters.or(constant(SEARCH_PARAMETERS));
            toolbox.add(target(ToolKind::ToolSearch, "tool_search".into()), description, parameters, None);
        }
        "local_shell" => toolbox.add(
            target(ToolKind::LocalShell, "local_shell".into()),
            Some("Runs one command on the user's machine and returns its output.".into()),
            constant(LOCAL_SHELL_PARAMETERS),
            None,
        ),
        "shell" => toolbox.add(
            target(ToolKind::Shell, "shell".into()),
            Some("Runs shell commands on the user's machine, each on its own, and returns their outputs.".into()),
            constant(SHELL_PARAMETERS),
            None,
        ),
        "apply_patch" => toolbox.add(
            target(ToolKind::ApplyPatch, "apply_patch".into()),
            Some("Creates, updates or deletes one file. For create_file and update_file, `diff` holds the V4A hunks: lines starting with '+', '-' or a blank, sections introduced by '@@'.".into()),
            constant(APPLY_PATCH_PARAMETERS),
            None,
        ),
        other => dropped.push(other.to_owned()),
    }
    Ok(())
}

/// Codex's patch tool, by name or by its grammar.
fn is_patch(name: &str, grammar: Option<&str>) -> bool {
    name == "apply_patch" || grammar.is_some_and(|grammar| grammar.contains("*** Begin Patch"))
}

/// A function carries free text in one string: the description tells the model
/// how, and holds the grammar that nobody enforces.
fn custom_description(description: Option<&Text<'_>>, format: Option<&Grammar<'_>>) -> String {
    let mut text = description
        .map(|text| text.decoded().into_owned())
        .unwrap_or_default();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Call it with one argument, `input`: the tool's whole input as plain text. Where this description says not to wrap the input in JSON, that is about the text inside `input`.");
    if let Some(definition) = format.and_then(|format| format.definition.as_deref()) {
        let syntax = format
            .and_then(|format| format.syntax.as_deref())
            .unwrap_or("lark");
        text.push_str("\n\nThe text of `input` must follow this ");
        text.push_str(syntax);
        text.push_str(" grammar:\n");
        text.push_str(definition);
        if definition.contains("*** Begin Patch") {
            text.push_str(PATCH_RULES);
        }
    }
    text
}

const PATCH_RULES: &str = "\n\nRules: the first line is `*** Begin Patch`, the last `*** End Patch`. A file starts with `*** Add File: <path>`, `*** Update File: <path>` or `*** Delete File: <path>`. In an added file every line starts with `+`. In an update, `@@ <line>` names the function or class where a change lies; then come lines that start with a blank (context, copied exactly), `-` (removed) or `+` (added), with about three lines of context on both sides. No markdown fences.";

const CUSTOM_PARAMETERS: &str = r#"{"type":"object","properties":{"input":{"type":"string","description":"The whole input as plain text."}},"required":["input"],"additionalProperties":false}"#;
const SEARCH_PARAMETERS: &str = r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"],"additionalProperties":false}"#;
const LOCAL_SHELL_PARAMETERS: &str = r#"{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments."},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},"required":["command"],"additionalProperties":false}"#;
const SHELL_PARAMETERS: &str = r#"{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},"required":["commands"],"additionalProperties":false}"#;
const APPLY_PATCH_PARAMETERS: &str = r#"{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},"diff":{"type":"string"}},"required":["type","path"],"additionalProperties":false}"#;

fn constant(json: &'static str) -> Option<&'static RawValue> {
    serde_json::from_str(json).ok()
}

/// Reads `tool_choice` in all its forms. A hosted tool that nobody can run is
/// refused when the choice forces it.
pub(super) fn choice(
    raw: Option<&RawValue>,
    toolbox: &Toolbox<'_>,
    dropped: &[String],
) -> Result<ToolChoice, Fault> {
    let Some(raw) = raw else {
        return Ok(ToolChoice::Auto);
    };
    if let Some(mode) = string(Some(raw)) {
        return match mode.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" if toolbox.is_empty() => Err(wrong(if dropped.is_empty() {
                "The tool choice 'required' needs tools.".to_owned()
            } else {
                format!(
                    "The tool choice 'required' needs a tool that can be run here; {} cannot.",
                    dropped.join(", ")
                )
            })),
            "required" => Ok(ToolChoice::Required),
            other => Err(wrong(format!(
                "The tool choice '{other}' is not known: use auto, none, required or an object."
            ))),
        };
    }
    let form: Form<'_> = serde_json::from_str(raw.get()).map_err(|error| {
        wrong(format!(
            "The parameter 'tool_choice' cannot be read: {error}."
        ))
    })?;
    if form.kind.as_deref() == Some("allowed_tools") {
        return allowed(&form, toolbox, dropped);
    }
    find(&form, toolbox)
        .map(ToolChoice::Named)
        .ok_or_else(|| missing(&form))
}

#[derive(Deserialize)]
struct Form<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tools: Vec<Form<'a>>,
}

fn allowed(
    form: &Form<'_>,
    toolbox: &Toolbox<'_>,
    dropped: &[String],
) -> Result<ToolChoice, Fault> {
    let required = match form.mode.as_deref() {
        None | Some("auto") => false,
        Some("required") => true,
        Some(other) => {
            return Err(wrong(format!(
                "The mode '{other}' of 'allowed_tools' is not known: use auto or required."
            )));
        }
    };
    let mut names = Vec::new();
    for tool in &form.tools {
        match find(tool, toolbox) {
            Some(name) => names.push(name),
            None if tool
                .kind
                .as_deref()
                .is_some_and(|kind| dropped.iter().any(|d| d == kind)) => {}
            None => return Err(missing(tool)),
        }
    }
    if required && names.is_empty() {
        return Err(wrong(
            "None of the allowed tools can be run here, but one is required.".to_owned(),
        ));
    }
    Ok(ToolChoice::Allowed { required, names })
}

/// The wire name of the tool that a choice names.
fn find(form: &Form<'_>, toolbox: &Toolbox<'_>) -> Option<String> {
    let name = form.name.as_deref();
    let found = match form.kind.as_deref()? {
        "function" => {
            let name = name?;
            return toolbox
                .iter()
                .find(|tool| {
                    tool.target.kind == ToolKind::Function
                        && (tool.target.name == name || tool.wire_name == name)
                        && form
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

fn missing(form: &Form<'_>) -> Fault {
    let kind = form.kind.as_deref().unwrap_or("?");
    match &form.name {
        Some(name) => wrong(format!(
            "The tool choice names the {kind} tool '{name}', which is not among the tools."
        )),
        None => wrong(format!(
            "The tool choice forces '{kind}', which cannot be run here. Leave the choice to 'auto' or offer a function instead."
        )),
    }
}

fn wrong(message: String) -> Fault {
    Fault::invalid("tool_choice", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_do_not_nest() {
        let depth = 100_000;
        let json = r#"[{"type":"namespace","name":"n","tools":"#.repeat(depth)
            + "[]"
            + &"}]".repeat(depth);
        let list: &RawValue = serde_json::from_str(&json).unwrap();
        let mut dropped = Vec::new();
        collect(list, &mut Toolbox::default(), &mut dropped).unwrap();
        assert_eq!(dropped, ["namespace"]);
    }
}
