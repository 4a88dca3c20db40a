//! Tool definitions of the Responses API as functions.
//!
//! Chat Completions has function tools only. A custom tool becomes a function with one string
//! argument, `input`; the built-in client tools (`local_shell`, `shell`, `apply_patch`, client-side
//! `tool_search`) become functions with fixed schemas; a namespace prefixes the names of its tools.
//! A search that the client does not run needs no function where few tools are deferred: all are
//! offered, and the assembler writes its items. Other hosted tools, such as web search, run in the
//! proxy where it can run them, and are dropped elsewhere.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{MAX_TOOLS, ToolDefinition, ToolKind, ToolTarget, Toolbox};
use crate::fault::Fault;
use crate::json::{self, only_from_object, string_value};
use crate::text::Text;

/// The longest name of a tool or of a namespace, in bytes. OpenAI takes 64 characters.
const MAX_NAME_BYTES: usize = 1_024;

/// The fields of all tool types.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ToolFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    name: Option<&'a RawValue>,
    description: Option<&'a RawValue>,
    parameters: Option<&'a RawValue>,
    strict: Option<&'a RawValue>,
    format: Option<ToolFormat<'a>>,
    tools: Option<&'a RawValue>,
    /// Where Chat Completions has the other fields.
    function: Option<&'a RawValue>,
    /// Whether the tool is not offered until a search finds it.
    defer_loading: Option<&'a RawValue>,
    #[serde(borrow)]
    execution: Option<Cow<'a, str>>,
}
only_from_object!(ToolFields, "a tool, which is an object");

/// The `format` of a custom tool; the types `lark` and `regex` have a definition.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct ToolFormat<'a> {
    #[serde(borrow)]
    syntax: Option<Cow<'a, str>>,
    #[serde(borrow)]
    definition: Option<Cow<'a, str>>,
}
only_from_object!(ToolFormat, "an object");

impl<'a> Toolbox<'a> {
    /// Adds the tools of a JSON list of tool definitions, which is the request's own, that of
    /// an `additional_tools` item, or what a search found. The types of tools that cannot run
    /// here are appended to `dropped`. An error names the parameter `tools`; one is that there
    /// are more than [`MAX_TOOLS`]. What a search found beyond them is left out, because the
    /// client cannot take back what an earlier search of the session found.
    pub(crate) fn add_definitions(
        &mut self,
        list: &'a RawValue,
        found: bool,
        dropped: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let listed = ListedDefinitions {
            namespace: None,
            is_found: found,
            is_deferred: found,
        };
        match add_all(list, listed, self, dropped) {
            Err(fault) if found && fault.code() == Some(TOO_MANY) => {
                dropped.push("tool of a search".to_owned());
            }
            added => added?,
        }
        let definitions: Vec<&'a RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
        let dropped_places = std::mem::take(&mut self.dropped_places);
        let definitions = definitions.into_iter().enumerate();
        self.definitions
            .extend(definitions.map(|(place, raw)| ToolDefinition {
                raw,
                found,
                dropped: dropped_places.binary_search(&place).is_ok(),
            }));
        Ok(())
    }
}

/// What the tools of a list have in common.
#[derive(Clone, Copy)]
struct ListedDefinitions<'l> {
    namespace: Option<&'l str>,
    /// Whether a search has found them.
    is_found: bool,
    /// Whether a search has to find them, or has found them.
    is_deferred: bool,
}

fn add_all<'a>(
    list: &'a RawValue,
    listed: ListedDefinitions<'_>,
    toolbox: &mut Toolbox<'a>,
    dropped: &mut Vec<String>,
) -> Result<(), Fault> {
    let mut place = 0;
    json::read_each(list.get(), |tool: ToolFields<'a>| {
        if toolbox.len() + dropped.len() >= MAX_TOOLS {
            return Err(too_many_tools());
        }
        place += 1;
        let before = toolbox.len();
        let is_deferred = listed.is_deferred || json::is_true(tool.defer_loading);
        let of_tool = ListedDefinitions {
            is_deferred,
            ..listed
        };
        add(&tool, of_tool, place - 1, toolbox, dropped)?;
        if listed.is_found
            && let Some(name) = string_value(tool.name)
        {
            let namespace = listed.namespace.unwrap_or(&name).to_owned();
            toolbox.found.insert((namespace, name.into_owned()));
        }
        if is_deferred {
            for tool in toolbox.tools.iter_mut().skip(before) {
                tool.is_deferred = true;
            }
        }
        Ok(())
    })
    .map_err(|error| {
        Fault::invalid(
            "tools",
            format!("The parameter 'tools' cannot be read: {error}."),
        )
    })?
}

const TOO_MANY: &str = "too_many_tools";

fn too_many_tools() -> Fault {
    let message = format!(
        "The request offers more than {MAX_TOOLS} tools: leave out those that are not needed, such as the tools of an MCP server."
    );
    Fault::invalid("tools", message).with_code(TOO_MANY)
}

fn add<'a>(
    tool: &ToolFields<'a>,
    listed: ListedDefinitions<'_>,
    place: usize,
    toolbox: &mut Toolbox<'a>,
    dropped: &mut Vec<String>,
) -> Result<(), Fault> {
    let ListedDefinitions { namespace, .. } = listed;
    let kind = tool.kind.as_deref().unwrap_or("function");
    let name = string_value(tool.name).filter(|name| !name.is_empty());
    if name
        .as_ref()
        .is_some_and(|name| name.len() > MAX_NAME_BYTES)
    {
        let message =
            format!("The name of a tool or of a namespace is longer than {MAX_NAME_BYTES} bytes.");
        return Err(Fault::invalid("tools", message));
    }
    let named = || {
        name.as_deref().map(str::to_owned).ok_or_else(|| {
            let param = match namespace {
                Some(namespace) => format!("tools of '{namespace}'[{place}].name"),
                None => format!("tools[{place}].name"),
            };
            let hint = match tool.function {
                Some(_) => " In the Responses API, 'name', 'description' and 'parameters' stand beside 'type', not in 'function'.",
                None => "",
            };
            let message = format!("Missing required parameter: '{param}'.{hint}");
            Fault::invalid(param, message).with_code("missing_required_parameter")
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
            let strict: Option<bool> = tool.strict.and_then(|raw| serde_json::from_str(raw.get()).ok());
            toolbox.note_function(description.is_some() && tool.parameters.is_some() && strict.is_some());
            toolbox.add(target(ToolKind::Function, named()?), description, tool.parameters, strict);
        }
        "custom" => {
            let name = named()?;
            let grammar = tool.format.as_ref().and_then(|format| format.definition.as_deref());
            let kind = if is_patch(&name, grammar) { ToolKind::Patch } else { ToolKind::Custom };
            let text = custom_description(description.as_ref(), tool.format.as_ref());
            toolbox.add(target(kind, name), Some(text.into()), constant(CUSTOM_PARAMETERS), None);
        }
        // A namespace inside a namespace has no wire name, and the client could nest them
        // arbitrarily deep.
        "namespace" if namespace.is_none() => {
            let name = named()?;
            if let Some(tools) = tool.tools {
                let inside = ListedDefinitions {
                    namespace: Some(&name),
                    ..listed
                };
                add_all(tools, inside, toolbox, dropped)?;
            }
        }
        "tool_search" if tool.execution.as_deref() == Some("client") => {
            let parameters = tool.parameters.or(constant(SEARCH_PARAMETERS));
            toolbox.add(target(ToolKind::ToolSearch, "tool_search".into()), description, parameters, None);
        }
        "tool_search" => toolbox.has_hosted_search = true,
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
        // It only names a server of the request and some of its tools.
        "mcp" if listed.is_found => {}
        other if namespace.is_none() && toolbox.takes_hosted(other) => {}
        other => {
            if namespace.is_none() {
                toolbox.dropped_places.push(place);
            }
            dropped.push(other.to_owned());
        }
    }
    Ok(())
}

/// Whether a custom tool is Codex's patch tool, recognised by its name or its grammar.
fn is_patch(name: &str, grammar: Option<&str>) -> bool {
    name == "apply_patch" || grammar.is_some_and(|grammar| grammar.contains("*** Begin Patch"))
}

/// The description of the function for a custom tool. It explains the argument `input`
/// and contains the grammar, because providers do not enforce one.
fn custom_description(description: Option<&Text<'_>>, format: Option<&ToolFormat<'_>>) -> String {
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
        Toolbox::default()
            .add_definitions(list, false, &mut dropped)
            .unwrap();
        assert_eq!(dropped, ["namespace"]);
    }
}
