//! The tools of a turn.
//!
//! The client's tools may have namespaces and names of any characters; providers accept
//! flat function names only. A [`Toolbox`] gives each tool a wire name, the request is
//! encoded with these names, and [`ToolNames`] maps the names in the provider's calls
//! back to the client's tools.

mod called_name;
mod deferred;
mod definitions;
mod found_tools;
mod hosted_search;
pub(crate) mod left_out;
mod mcp_definition;
mod mcp_listing;
mod proxy_tools;
mod web_search_definition;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use registry::{EnumSet, RelayToolKind, SchemaRule};
use serde_json::value::RawValue;
use strum::EnumCount;

pub(crate) use self::deferred::OfferedFrom;
pub use self::deferred::{DeferredTool, DeferredTools};
pub(crate) use self::found_tools::withdraw_unfound;
pub(crate) use self::hosted_search::HostedSearch;
pub use self::mcp_definition::{
    McpApproval, McpDefinition, McpMention, McpSecrets, McpToolFilter, take_secrets,
};
pub use self::mcp_listing::{ListedMcpServer, McpListing};
pub use self::proxy_tools::{McpToolName, ProviderToolUse, ProxyTool};
pub(crate) use self::proxy_tools::{ProxyToolUse, extend_artifact_tools};
pub use self::web_search_definition::WebSearchDefinition;
use crate::json;
use crate::members::Members;
use crate::notes::Notes;
use crate::refusal::change::LeftOut;
use crate::schema::{self, ReferenceRoom};
use crate::text::Text;
use crate::turn::{Item, ItemKind};

/// The tool name that is sent for a call without a name.
pub const UNKNOWN_TOOL: &str = "unknown_tool";

/// The longest function name that providers accept, in characters.
const NAME_LIMIT: usize = 64;

/// The most tools of a request. OpenAI takes 128; a client with many MCP servers sends a few
/// hundred.
pub(crate) const MAX_TOOLS: usize = 2_000;

/// One tool that the model may call.
#[derive(Debug)]
pub struct Tool<'a> {
    /// The function name on the wire: `[A-Za-z0-9_-]{1,64}`.
    pub wire_name: String,
    /// The client's tool.
    pub target: ToolTarget,
    /// The description for the model.
    pub description: Option<Text<'a>>,
    /// The JSON Schema of the arguments, as the client sent it.
    pub parameters: Option<&'a RawValue>,
    /// Whether the arguments must follow the schema exactly.
    pub strict: Option<bool>,
    /// Whether a search has to find it first, or has found it.
    pub(crate) is_deferred: bool,
    /// Its server and its name there, if it is a tool of an MCP server that a search has to find
    /// first, or has found. `is_deferred` is false then.
    pub(crate) deferred_on_server: Option<&'a McpToolName>,
    /// When it is offered, where the model searches for tools.
    pub(crate) offered_from: OfferedFrom,
    /// Whether it runs in the proxy, and in place of which hosted tool.
    pub(crate) proxy: Option<ProxyToolUse>,
}

/// A tool as the client knows it: how a call of it is written to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTarget {
    /// The type of the call item.
    pub kind: ToolKind,
    /// The name without the namespace.
    pub name: String,
    /// The namespace in which the tool was offered. A call of a tool that a search finds always has
    /// one: if the tool was offered without a namespace, it is the tool's own name.
    pub namespace: Option<String>,
}

/// The types of call items that a tool's calls become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount)]
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
    /// `mcp_approval_request`: the namespace is the label of the server.
    McpApproval,
}

/// Which tools the model may or must call: `tool_choice` of the Responses API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any tool, or none.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool with this wire name.
    Named(String),
    /// Only some of the tools may be called.
    Allowed {
        /// Whether the model must call one of them.
        required: bool,
        /// The wire names of these tools.
        names: BTreeSet<String>,
    },
}

/// The tools of a turn in the order in which the client offered them, without
/// duplicates.
#[derive(Debug, Default)]
pub struct Toolbox<'a> {
    tools: Vec<Tool<'a>>,
    /// The place of each tool in `tools`, by its namespace, which is empty without one, and then
    /// by its name.
    by_name: HashMap<String, HashMap<String, usize>>,
    wire_names: HashSet<String>,
    /// The next number behind a wire name that several tools would have.
    next_numbers: HashMap<String, usize>,
    /// The place of the first tool of each kind.
    first_of_kind: [Option<usize>; ToolKind::COUNT],
    /// The definitions as the client sent them, also of tools that only some providers have.
    definitions: Vec<ToolDefinition<'a>>,
    /// While a list is read: the places in it of the tools that cannot run here.
    dropped_places: Vec<usize>,
    /// The kinds of hosted tools that can run in the proxy.
    runnable: EnumSet<RelayToolKind>,
    /// The kinds of them that the client offers.
    hosted: EnumSet<RelayToolKind>,
    /// Whether the proxy connects to the MCP servers of the request.
    runs_mcp: bool,
    /// When the provider runs these itself.
    provider_tools: ProviderToolUse,
    has_short_function: bool,
    /// Whether the client offers a search for tools that it does not run itself.
    has_hosted_search: bool,
    /// The tools that a search of the history has found, by the namespaces and names of their
    /// calls.
    found: HashSet<(String, String)>,
}

/// A definition of a tool or of a namespace, as the client sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolDefinition<'a> {
    /// The definition as JSON.
    pub(crate) raw: &'a RawValue,
    /// Whether a search of the model found it, so that it is in the output of the search.
    pub(crate) found: bool,
    /// Whether a tool of this type cannot run here.
    pub(crate) dropped: bool,
}

impl<'a> Toolbox<'a> {
    /// Adds a tool under a unique wire name. If a tool of the same name and namespace
    /// is there already, nothing changes.
    pub fn add(
        &mut self,
        target: ToolTarget,
        description: Option<Text<'a>>,
        parameters: Option<&'a RawValue>,
        strict: Option<bool>,
    ) {
        let namespace = target.namespace.as_deref();
        if self.get(namespace, &target.name).is_some() {
            return;
        }
        let wire_name = self.free_wire_name(&target);
        let place = self.tools.len();
        let namespace = namespace.unwrap_or_default().to_owned();
        let names = self.by_name.entry(namespace).or_default();
        names.insert(target.name.clone(), place);
        if let Some(first) = self.first_of_kind.get_mut(target.kind as usize) {
            first.get_or_insert(place);
        }
        self.wire_names.insert(wire_name.clone());
        self.tools.push(Tool {
            wire_name,
            target,
            description,
            parameters,
            strict,
            is_deferred: false,
            deferred_on_server: None,
            offered_from: OfferedFrom::Beginning,
            proxy: None,
        });
    }

    /// A wire name that no tool has yet: the usual one, else one with a hash, else that one with
    /// a number.
    fn free_wire_name(&mut self, target: &ToolTarget) -> String {
        let flat = wire_name(target.namespace.as_deref(), &target.name);
        if !self.wire_names.contains(&flat) {
            return flat;
        }
        let hashed = hashed_name(&flat, target);
        if !self.wire_names.contains(&hashed) {
            return hashed;
        }
        let mut number = self.next_numbers.get(&hashed).copied().unwrap_or(2);
        loop {
            let numbered = numbered_name(&hashed, number);
            number += 1;
            if !self.wire_names.contains(&numbered) {
                self.next_numbers.insert(hashed, number);
                return numbered;
            }
        }
    }

    /// The tool with this name in this namespace.
    pub(crate) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Tool<'a>> {
        let names = self.by_name.get(namespace.unwrap_or_default())?;
        self.tools.get(*names.get(name)?)
    }

    /// The tool that a call with this name and namespace calls.
    pub(crate) fn called(&self, namespace: Option<&str>, name: &str) -> Option<&Tool<'a>> {
        let own = || self.get(None, name).filter(|tool| tool.is_deferred);
        self.get(namespace, name)
            .or_else(|| own().filter(|_| namespace == Some(name)))
    }

    /// The wire names of the tools that the search which the client does not run itself can find.
    /// `None` if the client offers no such search.
    pub(crate) fn searchable(&self) -> Option<BTreeSet<String>> {
        let names = self.deferred().map(|(_, tool)| tool.wire_name.clone());
        self.has_hosted_search.then(|| names.collect())
    }

    /// How many tools there are.
    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    /// The tools in the order in which the client offered them.
    pub fn iter(&self) -> impl Iterator<Item = &Tool<'a>> {
        self.tools.iter()
    }

    /// The definitions as the client sent them, in their order.
    pub(crate) fn definitions(&self) -> &[ToolDefinition<'a>] {
        &self.definitions
    }

    /// Whether a function was defined without a description, parameters or `strict`. A response
    /// must name all three.
    pub(crate) fn has_short_function(&self) -> bool {
        self.has_short_function
    }

    /// Notes that a function was defined, with all that a response must name or without.
    fn note_function(&mut self, complete: bool) {
        self.has_short_function |= !complete;
    }

    /// Whether the client offers no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The wire name of the tool with this name and namespace, whether or not it is
    /// offered: a call in the history gets the name under which the tool is offered in
    /// this request.
    pub fn wire_name(&self, namespace: Option<&str>, name: &str) -> Cow<'_, str> {
        match self.called(namespace, name) {
            Some(tool) => Cow::Borrowed(tool.wire_name.as_str()),
            None if namespace == Some(name) => Cow::Owned(wire_name(None, name)),
            None => Cow::Owned(wire_name(namespace, name)),
        }
    }

    /// The wire name of the tool that a call in the history calls.
    pub(crate) fn called_name(&self, call: &Item<'_>) -> String {
        if let Some((kind, name)) = fixed_tool(call.kind) {
            return self.first_of(kind).unwrap_or(name).to_owned();
        }
        let Some(name) = call.name().filter(|name| !name.is_empty()) else {
            return UNKNOWN_TOOL.to_owned();
        };
        let namespace = match call.kind {
            ItemKind::McpCall | ItemKind::McpApprovalRequest => call
                .raw()
                .and_then(Members::read)
                .and_then(|it| it.text("server_label")),
            _ => call.namespace(),
        };
        self.wire_name(namespace.as_deref(), &name).into_owned()
    }

    /// The wire name of the first tool of this kind.
    pub fn first_of(&self, kind: ToolKind) -> Option<&str> {
        let place = self.first_of_kind.get(kind as usize).copied().flatten()?;
        self.tools.get(place).map(|tool| tool.wire_name.as_str())
    }

    /// The mapping from wire names to tools, as an owned value that outlives the request.
    pub fn names(&self) -> ToolNames {
        ToolNames {
            by_wire_name: self
                .tools
                .iter()
                .map(|tool| (tool.wire_name.clone(), tool.called_target()))
                .collect(),
            has_search: self.first_of(ToolKind::ToolSearch).is_some(),
            hosted_search: HostedSearch::of(self).map(Box::new),
        }
    }
}

/// The tool of an item type that does not name one, and the default name.
fn fixed_tool(kind: ItemKind) -> Option<(ToolKind, &'static str)> {
    match kind {
        ItemKind::ToolSearchCall => Some((ToolKind::ToolSearch, "tool_search")),
        ItemKind::LocalShellCall => Some((ToolKind::LocalShell, "local_shell")),
        ItemKind::ShellCall => Some((ToolKind::Shell, "shell")),
        ItemKind::ApplyPatchCall => Some((ToolKind::ApplyPatch, "apply_patch")),
        _ => None,
    }
}

impl Tool<'_> {
    /// The tool as its calls name it.
    pub(crate) fn called_target(&self) -> ToolTarget {
        let mut target = self.target.clone();
        if self.is_deferred {
            target.namespace.get_or_insert(target.name.clone());
        }
        target
    }

    /// Its parameters by these rules, if they have to change; plain ones if the provider has
    /// refused its schema in this session.
    pub(crate) fn fitted_parameters(
        &self,
        rules: EnumSet<SchemaRule>,
        left_out: Option<&LeftOut>,
        room: &mut ReferenceRoom,
    ) -> Option<String> {
        let own = self.parameters?;
        if !left_out.is_some_and(|it| it.plain_schemas.contains(&self.wire_name)) {
            return schema::fit_parameters(own, rules, room);
        }
        let plain = schema::plain_parameters(own);
        let raw = serde_json::from_str::<&RawValue>(&plain).ok();
        let fitted = raw.and_then(|raw| schema::fit_parameters(raw, rules, room));
        fitted.or(Some(plain))
    }

    /// Its `strict`, which a plain schema cannot have.
    pub(crate) fn fitted_strict(&self, left_out: Option<&LeftOut>) -> Option<bool> {
        let is_plain = left_out.is_some_and(|it| it.plain_schemas.contains(&self.wire_name));
        self.strict.filter(|_| !is_plain)
    }

    /// Appends the fields of a function, from the name on. `fitted` are the parameters, if they had
    /// to change; `strict` is sent where the provider takes it.
    pub(crate) fn push_function(
        &self,
        out: &mut Vec<u8>,
        fitted: Option<&str>,
        strict: Option<bool>,
        takes_strict: bool,
        notes: &mut Notes,
    ) {
        json::field(out, "name", &self.wire_name);
        if let Some(description) = &self.description {
            json::key(out, "description");
            description.push_json(out);
        }
        if fitted.is_some() {
            notes.add("schema_changed", self.wire_name.as_str());
        }
        let own = self.parameters.map(RawValue::get);
        let parameters = fitted.or(own).unwrap_or(schema::NO_PARAMETERS);
        json::raw_field(out, "parameters", parameters);
        match strict {
            Some(strict) if takes_strict => json::field(out, "strict", &strict),
            // False is the default of providers without this field.
            Some(true) => notes.add("strict_dropped", self.wire_name.as_str()),
            Some(false) | None => {}
        }
    }
}

impl ToolChoice {
    /// The choice for the rounds after the first: a tool that had to be called was called.
    #[must_use]
    pub(crate) fn relaxed(self) -> Self {
        match self {
            Self::Required | Self::Named(_) | Self::Auto => Self::Auto,
            Self::None => Self::None,
            Self::Allowed { names, .. } => Self::Allowed {
                required: false,
                names,
            },
        }
    }
}

/// Maps wire names in the provider's calls to the client's tools. Made by
/// [`Toolbox::names`] and owned by the [`crate::responses::assembler::Assembler`].
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    by_wire_name: HashMap<String, ToolTarget>,
    /// Whether the client has more tools, which a search finds.
    has_search: bool,
    /// The search that the client does not run itself.
    hosted_search: Option<Box<HostedSearch>>,
}

impl ToolNames {
    /// Forgets a tool that is not offered.
    pub(crate) fn remove(&mut self, wire_name: &str) {
        self.by_wire_name.remove(wire_name);
    }

    /// Whether a function without a namespace has this name.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        let mut targets = self.by_wire_name.values();
        targets.any(|target| {
            target.kind == ToolKind::Function && target.namespace.is_none() && target.name == name
        })
    }

    /// Takes the search that the client does not run itself, if it offers one.
    pub(crate) fn take_search(&mut self) -> Option<Box<HostedSearch>> {
        self.hosted_search.take()
    }

    /// The tool that a call of `wire_name` means. Models often leave out the namespace, join it in
    /// their own way or leave parts of their format in the name, so that a name that was not
    /// offered means the only tool whose name it can be, if there is exactly one. If the client has
    /// tools that a search finds, `mcp__server__tool` means one of these even before it was found:
    /// the client can run it under its namespace. Any other name is passed to the client as a
    /// function.
    pub fn resolve(&self, wire_name: &str) -> ResolvedTool {
        if let Some(target) = self.by_wire_name.get(wire_name) {
            return ResolvedTool {
                target: target.clone(),
                name_repaired: false,
            };
        }
        if let Some(target) = called_name::forms(wire_name).find_map(|name| self.only_tool(name)) {
            return ResolvedTool {
                target: target.clone(),
                name_repaired: true,
            };
        }
        let deferred = self.has_search.then(|| mcp_namespace(wire_name)).flatten();
        ResolvedTool {
            target: ToolTarget {
                kind: ToolKind::Function,
                name: deferred.map_or(wire_name, |(_, name)| name).to_owned(),
                namespace: deferred.map(|(namespace, _)| namespace.to_owned()),
            },
            name_repaired: deferred.is_some(),
        }
    }

    /// The only tool that this name can mean: by its wire name, else by its bare name, else by one
    /// of these without regard to case and to the signs in it. `None` if there are several.
    fn only_tool(&self, name: &str) -> Option<&ToolTarget> {
        if let Some(target) = self.by_wire_name.get(name) {
            return Some(target);
        }
        let named = || {
            self.by_wire_name
                .values()
                .filter(|target| target.name == name)
        };
        if named().next().is_some() {
            return only(named());
        }
        let alike = self.by_wire_name.iter().filter(|(wire_name, target)| {
            let namespace = target.namespace.as_deref().unwrap_or_default();
            let short = namespace.strip_prefix("mcp__").unwrap_or(namespace);
            let mut prefixes = [namespace, short, ""].into_iter();
            called_name::is_alike(name, "", wire_name)
                || prefixes.any(|prefix| called_name::is_alike(name, prefix, &target.name))
        });
        only(alike.map(|(_, target)| target))
    }
}

/// The only one, if there is exactly one.
fn only<'t>(mut targets: impl Iterator<Item = &'t ToolTarget>) -> Option<&'t ToolTarget> {
    let first = targets.next()?;
    targets.next().is_none().then_some(first)
}

/// The namespace of the server and the bare name, if this is the full name of an MCP tool.
fn mcp_namespace(name: &str) -> Option<(&str, &str)> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let namespace = name.get(.."mcp__".len() + server.len())?;
    (!server.is_empty() && !tool.is_empty()).then_some((namespace, tool))
}

/// The tool that a wire name means.
#[derive(Debug)]
pub struct ResolvedTool {
    /// The client's tool.
    pub target: ToolTarget,
    /// Whether the name differs from the offered wire name.
    pub name_repaired: bool,
}

/// The wire names of the tools in a JSON list of tool definitions, for a message that
/// names them. Empty if the list cannot be read.
pub(crate) fn wire_names(list: &RawValue) -> Vec<String> {
    let mut toolbox = Toolbox::default();
    match toolbox.add_definitions(list, true, &mut Vec::new()) {
        Ok(()) => toolbox.iter().map(|tool| tool.wire_name.clone()).collect(),
        Err(_) => Vec::new(),
    }
}

/// `namespace__name` with every character that providers refuse replaced by `_`. If that
/// changes the name or it is too long, a hash makes it unique.
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

/// `clean`, cut to leave room for a hash of name and namespace. The same tool always
/// gets the same name.
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

/// `name`, cut to leave room for this number.
fn numbered_name(name: &str, number: usize) -> String {
    let suffix = format!("_{number}");
    let head: String = name.chars().take(NAME_LIMIT - suffix.len()).collect();
    head + &suffix
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
    fn wire_names_are_valid_unique_and_map_back_to_their_tools() {
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

    // The names differ in their ends alone, and their checksums are equal.
    #[test]
    fn tools_with_one_checksum_get_names_of_their_own() {
        let long = "n".repeat(64);
        let targets = ["plumless", "buckeroo"].map(|end| target(None, &format!("{long}{end}")));
        let hashes = targets.each_ref().map(|target| hashed_name(&long, target));
        assert_eq!(hashes[0], hashes[1]);
        let mut toolbox = Toolbox::default();
        for target in &targets {
            toolbox.add(target.clone(), None, None, None);
        }
        let names = toolbox.names();
        for target in &targets {
            let wire = toolbox.wire_name(None, &target.name);
            assert!(wire.len() <= 64, "{wire}");
            assert_eq!(names.resolve(&wire).target, *target);
        }
        let wire = |at: usize| toolbox.wire_name(None, &targets[at].name);
        assert_eq!(wire(1), format!("{}_2", wire(0).get(..62).unwrap()));
    }

    #[test]
    fn a_name_without_namespace_means_the_only_tool_of_that_name() {
        let mut toolbox = Toolbox::default();
        toolbox.add(target(Some("mcp__demo"), "echo"), None, None, None);
        let names = toolbox.names();
        for called in ["echo", "mcp__demo.echo"] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(Some("mcp__demo"), "echo"));
            assert!(resolved.name_repaired);
        }
        assert_eq!(names.resolve("other").target, target(None, "other"));
        let full = "mcp__other__get";
        assert_eq!(names.resolve(full).target, target(None, full));
    }

    #[test]
    fn a_name_that_was_not_offered_means_the_only_tool_that_it_can_be() {
        let mut toolbox = Toolbox::default();
        toolbox.add(target(None, "exec_command"), None, None, None);
        toolbox.add(target(Some("mcp__fs"), "read"), None, None, None);
        toolbox.add(target(Some("mcp__fs"), "list"), None, None, None);
        toolbox.add(target(Some("mcp__git"), "list"), None, None, None);
        let names = toolbox.names();
        for called in [
            "exec_command<|channel|>commentary",
            "<|start|>exec_command",
            "commentary to=functions.exec_command <|constrain|>json",
            "functions.exec_command",
            "functions.exec_command:0",
            "functions::exec_command",
            "default_api.exec_command",
            "tools.functions.exec_command<|message|>",
            " exec_command\n",
            "\"exec_command\"",
            "Exec_Command",
            "exec-command",
            "exec_command()",
        ] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(None, "exec_command"), "{called}");
            assert!(resolved.name_repaired);
        }
        for called in [
            "mcp__fs_read",
            "fs.read",
            "fs/read",
            "fs:read",
            "fs__read",
            "functions.fs.read",
            "READ",
        ] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(Some("mcp__fs"), "read"), "{called}");
        }
        for called in [
            "list",
            "functions.list",
            "write",
            "<|channel|>",
            "commentary to=",
            ".",
        ] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(None, called), "{called}");
            assert!(!resolved.name_repaired);
        }
    }

    #[test]
    fn a_tool_that_a_search_would_find_has_its_namespace() {
        let mut toolbox = Toolbox::default();
        let search = ToolTarget {
            kind: ToolKind::ToolSearch,
            ..target(None, "tool_search")
        };
        toolbox.add(search, None, None, None);
        toolbox.add(target(Some("mcp__demo"), "echo"), None, None, None);
        let names = toolbox.names();
        for (called, namespace, name, is_repaired) in [
            ("mcp__demo__echo", Some("mcp__demo"), "echo", false),
            (
                "mcp__mails__find__all",
                Some("mcp__mails"),
                "find__all",
                true,
            ),
            ("mcp____find", None, "mcp____find", false),
            ("mcp__mails__", None, "mcp__mails__", false),
            ("exec", None, "exec", false),
        ] {
            let resolved = names.resolve(called);
            assert_eq!(resolved.target, target(namespace, name), "{called}");
            assert_eq!(resolved.name_repaired, is_repaired, "{called}");
        }
    }
}
