//! The tools of a turn under the flat names that every wire understands, and
//! the way back to what the client offered.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::text::Text;

/// The longest function name that providers accept.
const NAME_LIMIT: usize = 64;

/// One tool that the model may call.
#[derive(Debug)]
pub struct Tool<'a> {
    /// The function name on the wire: `[A-Za-z0-9_-]{1,64}`.
    pub wire_name: String,
    /// What the client calls it, and how its calls look.
    pub target: ToolTarget,
    /// What it does, for the model.
    pub description: Option<Text<'a>>,
    /// JSON Schema of the arguments.
    pub parameters: Option<&'a RawValue>,
    /// Whether the schema is to be kept to strictly.
    pub strict: Option<bool>,
}

/// What a call on the wire means to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTarget {
    /// The form of the client's call item.
    pub kind: ToolKind,
    /// The tool's own name.
    pub name: String,
    /// The namespace it came in.
    pub namespace: Option<String>,
}

/// The forms of call items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// `function_call` with JSON arguments.
    Function,
    /// `custom_tool_call` with free text.
    Custom,
    /// `custom_tool_call` whose text is a V4A patch.
    Patch,
    /// `tool_search_call`.
    ToolSearch,
    /// `local_shell_call`.
    LocalShell,
    /// `shell_call`.
    Shell,
    /// `apply_patch_call`.
    ApplyPatch,
}

/// Which tools the model must or may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It is free to.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call some tool.
    Required,
    /// It must call this one (wire name).
    Named(String),
    /// It is free to call one of these (wire names), or must.
    Allowed {
        /// Whether it must.
        required: bool,
        /// Wire names.
        names: Vec<String>,
    },
}

/// The tools of a turn, each once.
#[derive(Debug, Default)]
pub struct Toolbox<'a> {
    tools: Vec<Tool<'a>>,
}

impl<'a> Toolbox<'a> {
    /// Adds a tool under a wire name of its own. A tool that was offered
    /// before stays as it was.
    pub fn add(
        &mut self,
        target: ToolTarget,
        description: Option<Text<'a>>,
        parameters: Option<&'a RawValue>,
        strict: Option<bool>,
    ) {
        if self.tools.iter().any(|tool| tool.target.same_tool(&target)) {
            return;
        }
        let flat = wire_name(target.namespace.as_deref(), &target.name);
        let taken = self.tools.iter().any(|tool| tool.wire_name == flat);
        let wire_name = if taken {
            hashed_name(&flat, &target)
        } else {
            flat
        };
        self.tools.push(Tool {
            wire_name,
            target,
            description,
            parameters,
            strict,
        });
    }

    /// The tools in the order in which they were offered.
    pub fn iter(&self) -> impl Iterator<Item = &Tool<'a>> {
        self.tools.iter()
    }

    /// Whether no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The wire name of a tool by the client's names, offered or not: a call
    /// in the history is written as the tool is offered now.
    pub fn wire_name(&self, namespace: Option<&str>, name: &str) -> Cow<'_, str> {
        self.tools
            .iter()
            .find(|tool| tool.target.name == name && tool.target.namespace.as_deref() == namespace)
            .map_or_else(
                || Cow::Owned(wire_name(namespace, name)),
                |tool| Cow::Borrowed(tool.wire_name.as_str()),
            )
    }

    /// The wire name of the first tool of this kind and, if given, name.
    pub fn find(&self, kinds: &[ToolKind], name: Option<&str>) -> Option<&str> {
        self.tools
            .iter()
            .find(|tool| {
                kinds.contains(&tool.target.kind)
                    && name.is_none_or(|name| tool.target.name == name)
            })
            .map(|tool| tool.wire_name.as_str())
    }

    /// The way back, owned: it outlives the request.
    pub fn names(&self) -> ToolNames {
        ToolNames {
            by_wire_name: self
                .tools
                .iter()
                .map(|tool| (tool.wire_name.clone(), tool.target.clone()))
                .collect(),
        }
    }
}

impl ToolTarget {
    fn same_tool(&self, other: &Self) -> bool {
        self.name == other.name && self.namespace == other.namespace
    }
}

/// From wire names back to the client's tools.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    by_wire_name: HashMap<String, ToolTarget>,
}

impl ToolNames {
    /// What a call of `wire_name` means. A name that was not offered is first
    /// taken for the bare name of exactly one tool in a namespace, which
    /// models write often, then for a function that the client may know.
    pub fn resolve(&self, wire_name: &str) -> ResolvedTool {
        if let Some(target) = self.by_wire_name.get(wire_name) {
            return ResolvedTool {
                target: target.clone(),
                name_repaired: false,
            };
        }
        let mut bare = self.by_wire_name.values().filter(|target| {
            target.name == wire_name
                || target
                    .namespace
                    .as_deref()
                    .and_then(|namespace| wire_name.strip_prefix(namespace))
                    .and_then(|rest| rest.strip_prefix(['.', '/', ':']))
                    .is_some_and(|rest| rest == target.name)
        });
        match (bare.next(), bare.next()) {
            (Some(target), None) => ResolvedTool {
                target: target.clone(),
                name_repaired: true,
            },
            _ => ResolvedTool {
                target: ToolTarget {
                    kind: ToolKind::Function,
                    name: wire_name.to_owned(),
                    namespace: None,
                },
                name_repaired: false,
            },
        }
    }
}

/// The tool behind a name of the wire.
#[derive(Debug)]
pub struct ResolvedTool {
    /// The client's tool.
    pub target: ToolTarget,
    /// Whether the name was not the one that was offered.
    pub name_repaired: bool,
}

/// `namespace__name`, only in characters that providers accept, at most 64.
fn wire_name(namespace: Option<&str>, name: &str) -> String {
    let full = match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    };
    let clean: String = full
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if clean == full && (1..=NAME_LIMIT).contains(&clean.len()) {
        clean
    } else {
        let target = ToolTarget {
            kind: ToolKind::Function,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        hashed_name(&clean, &target)
    }
}

/// `clean` cut and marked with a hash of the full name: the same every time.
fn hashed_name(clean: &str, target: &ToolTarget) -> String {
    let full = format!(
        "{}\0{}",
        target.namespace.as_deref().unwrap_or_default(),
        target.name
    );
    let hash = crc32fast::hash(full.as_bytes());
    let head: String = clean.chars().take(NAME_LIMIT - 9).collect();
    format!("{head}_{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(namespace: Option<&str>, name: &str) -> ToolTarget {
        ToolTarget {
            kind: ToolKind::Function,
            name: name.into(),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn every_wire_name_is_legal_unique_and_leads_back() {
        let long = "n".repeat(80);
        let targets = [
            target(None, "exec_command"),
            target(Some("mcp__demo"), "echo_1"),
            target(None, "mcp__demo__echo_1"),
            target(Some("mcp__demo"), "dots.and spaces"),
            target(Some(&long), "a"),
            target(Some(&long), "b"),
            target(None, "漢字"),
        ];
        let mut toolbox = Toolbox::default();
        for target in &targets {
            toolbox.add(target.clone(), None, None, None);
            toolbox.add(target.clone(), None, None, None);
        }
        let names = toolbox.names();
        assert_eq!(toolbox.iter().count(), targets.len());
        for target in &targets {
            let wire = toolbox.wire_name(target.namespace.as_deref(), &target.name);
            assert!(!wire.is_empty() && wire.len() <= 64, "{wire}");
            assert!(
                wire.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            );
            assert_eq!(names.resolve(&wire).target, *target);
        }
    }

    #[test]
    fn a_bare_name_finds_its_only_namespace() {
        let mut toolbox = Toolbox::default();
        toolbox.add(target(Some("mcp__demo"), "echo"), None, None, None);
        let names = toolbox.names();
        for called in ["echo", "mcp__demo.echo"] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(Some("mcp__demo"), "echo"));
            assert!(resolved.name_repaired);
        }
        assert_eq!(names.resolve("other").target, target(None, "other"));
    }
}
