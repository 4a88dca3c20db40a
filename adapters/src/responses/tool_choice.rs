//! The parameter `tool_choice`, checked against the offered tools.

use std::borrow::Cow;
use std::collections::BTreeSet;

use registry::RelayToolKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::{self, only_from_object, string_value};
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
            // Which tools there are is known when the turn begins, or its servers offer none.
            "required" if toolbox.is_empty() && toolbox.runs_mcp() => Ok(ToolChoice::Auto),
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
    let fields = ToolChoiceFields::read(raw)?;
    if fields.kind.as_deref() == Some("allowed_tools") {
        let nested = fields.allowed_tools.map(ToolChoiceFields::read);
        return allowed_tools(&nested.transpose()?.unwrap_or(fields), toolbox, dropped);
    }
    if let Some(names) = names_if_search(&fields, toolbox) {
        if let Some(search) = toolbox.search_function() {
            return Ok(ToolChoice::Named(search.to_owned()));
        }
        // The search itself is no function. What it finds is called at once.
        let required = !names.is_empty();
        return Ok(if required {
            ToolChoice::Allowed { required, names }
        } else {
            ToolChoice::Auto
        });
    }
    if let Some(names) = mcp_tools(&fields, toolbox) {
        let required = !names.is_empty();
        return Ok(match names.first() {
            Some(only) if names.len() == 1 => ToolChoice::Named(only.clone()),
            Some(_) => ToolChoice::Allowed { required, names },
            None => ToolChoice::Auto,
        });
    }
    find_tool(&fields, toolbox)
        .map(ToolChoice::Named)
        .ok_or_else(|| missing_tool(&fields, "tool_choice"))
}

/// The choice as the response repeats it: in the form of the Responses API.
pub(super) fn echoed(raw: &RawValue) -> Cow<'_, str> {
    let is_object = raw.get().starts_with('{');
    let fields = is_object
        .then(|| ToolChoiceFields::read(raw).ok())
        .flatten();
    let flat = fields.and_then(|fields| fields.flattened());
    flat.map_or(Cow::Borrowed(raw.get()), Cow::Owned)
}

/// The object form of `tool_choice`; the entries of `allowed_tools` have the same fields. Chat
/// Completions has the name in an object `function` or `custom`, and the list in `allowed_tools`.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ToolChoiceFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    server_label: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    tools: Option<&'a RawValue>,
    function: Option<NamedTool<'a>>,
    custom: Option<NamedTool<'a>>,
    allowed_tools: Option<&'a RawValue>,
}
only_from_object!(ToolChoiceFields, "an object");

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct NamedTool<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}
only_from_object!(NamedTool, "an object");

impl<'a> ToolChoiceFields<'a> {
    fn read(raw: &'a RawValue) -> Result<Self, Fault> {
        serde_json::from_str(raw.get()).map_err(unreadable)
    }

    /// The same in the form of the Responses API; `None` for what has that form.
    fn flattened(&self) -> Option<String> {
        if let Some(nested) = self.allowed_tools {
            let nested = Self::read(nested).ok()?;
            let tools = nested.tools.map_or("[]", RawValue::get);
            let tools = nested.flat_tools().unwrap_or_else(|| tools.to_owned());
            let mode = nested.mode.as_deref().unwrap_or("auto");
            let mode = json::quoted(mode);
            return Some(format!(
                r#"{{"type":"allowed_tools","mode":{mode},"tools":{tools}}}"#
            ));
        }
        self.function.as_ref().or(self.custom.as_ref())?;
        let [kind, name] = [self.kind.as_deref()?, self.name()?].map(json::quoted);
        Some(format!(r#"{{"type":{kind},"name":{name}}}"#))
    }

    /// The list of `allowed_tools`, each in the form of the Responses API.
    fn flat_tools(&self) -> Option<String> {
        let tools: Vec<&RawValue> = serde_json::from_str(self.tools?.get()).ok()?;
        let flat = tools.into_iter().map(|tool| {
            let flat = Self::read(tool).ok()?.flattened();
            Some(flat.unwrap_or_else(|| tool.get().to_owned()))
        });
        let flat: Option<Vec<String>> = flat.collect();
        Some(format!("[{}]", flat?.join(",")))
    }

    fn name(&self) -> Option<&str> {
        let nested = || self.function.as_ref().or(self.custom.as_ref());
        let name = self.name.as_deref();
        name.or_else(|| nested()?.name.as_deref())
            .filter(|name| !name.is_empty())
    }
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
        if let Some(searched) = names_if_search(&tool, toolbox) {
            names.extend(searched);
            return Ok(());
        }
        if let Some(of_server) = mcp_tools(&tool, toolbox) {
            names.extend(of_server);
            return Ok(());
        }
        names.extend(in_place_of(&tool, toolbox).map(str::to_owned));
        match find_tool(&tool, toolbox) {
            Some(name) => names.extend([name]),
            None if tool.kind.as_deref().is_some_and(is_dropped) => {}
            None => return Err(missing_tool(&tool, &format!("tool_choice.tools[{}]", count - 1))),
        }
        Ok(())
    })
    .map_err(unreadable)??;
    let required = required && !(names.is_empty() && toolbox.runs_mcp());
    if required && names.is_empty() {
        return Err(invalid(
            "None of the allowed tools can be run here, but one is required.".to_owned(),
        ));
    }
    Ok(ToolChoice::Allowed { required, names })
}

/// The tools that a search can find, if `fields` describe one that the client does not run.
fn names_if_search(
    fields: &ToolChoiceFields<'_>,
    toolbox: &Toolbox<'_>,
) -> Option<BTreeSet<String>> {
    let is_search = fields.kind.as_deref() == Some("tool_search");
    let runs_at_client = toolbox.first_of(ToolKind::ToolSearch).is_some();
    if !is_search || runs_at_client {
        return None;
    }
    let mut names = toolbox.searchable()?;
    names.extend(toolbox.search_function().map(str::to_owned));
    Some(names)
}

/// The tools of an MCP server, if `fields` describe one to which the proxy connects. A server that
/// could not be asked has none.
fn mcp_tools(fields: &ToolChoiceFields<'_>, toolbox: &Toolbox<'_>) -> Option<BTreeSet<String>> {
    if fields.kind.as_deref() != Some("mcp") || !toolbox.runs_mcp() {
        return None;
    }
    let label = fields.server_label.as_deref().unwrap_or_default();
    Some(toolbox.of_mcp_server(label, fields.name()))
}

/// The wire name of the tool that `fields` describe.
fn find_tool(fields: &ToolChoiceFields<'_>, toolbox: &Toolbox<'_>) -> Option<String> {
    let name = fields.name();
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
                            .is_none_or(|ns| tool.called_target().namespace.as_deref() == Some(ns))
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
        // A search has to be made first.
        _ => in_place_of(fields, toolbox).next(),
    };
    found.map(str::to_owned)
}

/// The functions that the model has in place of the hosted tool that `fields` describe.
fn in_place_of<'t>(
    fields: &ToolChoiceFields<'_>,
    toolbox: &'t Toolbox<'_>,
) -> impl Iterator<Item = &'t str> {
    let kind = fields
        .kind
        .as_deref()
        .and_then(RelayToolKind::of_definition);
    let functions = kind.map(|kind| toolbox.in_place_of(kind));
    functions.into_iter().flatten()
}

/// The fault of a choice that means no tool of the request. `place` is its place in the request.
fn missing_tool(fields: &ToolChoiceFields<'_>, place: &str) -> Fault {
    let missing = |member: &str| Fault::missing(format!("{place}.{member}"));
    let Some(kind) = fields.kind.as_deref() else {
        return missing("type");
    };
    match (kind, fields.name()) {
        ("function" | "custom", None) => missing("name"),
        ("function" | "custom", Some(name)) => invalid(format!(
            "The tool choice names the {kind} tool '{name}', which is not among the tools."
        )),
        ("local_shell" | "shell" | "apply_patch" | "tool_search", _) => invalid(format!(
            "The tool choice names the tool '{kind}', which is not among the tools."
        )),
        _ => invalid(format!(
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
