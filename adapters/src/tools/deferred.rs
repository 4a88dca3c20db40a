//! Tools that the model searches for: those that the client defers, where the proxy runs the
//! search. The model gets one function, which finds them, and from then on those that it has found.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::{Tool, ToolKind, ToolTarget, Toolbox};
use crate::json;
use crate::members::{Members, rewrite};
use crate::text::Text;
use crate::tools::{ProxyTool, ProxyToolUse};

/// If all deferred tools together take fewer bytes, they are offered at once, because a search
/// takes one more request to the model.
const MIN_SEARCHED_BYTES: usize = 6_000;
/// The most bytes that the names of tools take in the description of the search.
const MAX_NAMES_BYTES: usize = 4_000;
/// The most bytes of the description of a namespace or server there.
const MAX_SOURCE_BYTES: usize = 160;
/// When the list of names and descriptions has more bytes, it names no further source.
const MAX_LIST_BYTES: usize = 8_000;

/// When a tool is offered to the model. Later ones are offered behind earlier ones, so that the
/// list of tools grows at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfferedFrom {
    /// From the beginning.
    #[default]
    Beginning,
    /// Since it was found; this many were found before it.
    Found(usize),
    /// Not yet: the model has to find it.
    Never,
}

/// The tools that a search can find. Made when a turn begins in which the model searches for tools.
#[derive(Clone, Debug, Default)]
pub struct DeferredTools {
    /// The tools in the order in which the client offers them.
    pub tools: Vec<DeferredTool>,
    /// The definitions of the namespaces.
    namespaces: HashMap<String, String>,
}

/// A tool that a search can find.
#[derive(Clone, Debug, Default)]
pub struct DeferredTool {
    /// The name of the function with which the model calls it.
    pub wire_name: String,
    /// Its name in its namespace, or on its server.
    pub name: String,
    /// Its namespace, or the label of its MCP server.
    pub source: Option<String>,
    /// What the client says of that.
    pub source_description: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: String,
    /// The definition as the client sent it; `None` for a tool of an MCP server.
    definition: Option<String>,
}

impl DeferredTools {
    /// The `tools` of the `tool_search_output` that finds these tools, as a JSON list: functions,
    /// namespaces with the tools that were found in them, and MCP servers with the names of those.
    pub fn definitions(&self, found: &[usize]) -> String {
        let mut list: Vec<String> = Vec::new();
        let mut sources: Vec<&str> = Vec::new();
        let found: Vec<&DeferredTool> = found.iter().filter_map(|at| self.tools.get(*at)).collect();
        for tool in &found {
            let Some(source) = tool.source.as_deref() else {
                list.extend(tool.definition.clone());
                continue;
            };
            if sources.contains(&source) {
                continue;
            }
            sources.push(source);
            let of_source = found
                .iter()
                .filter(|tool| tool.source.as_deref() == Some(source));
            let Some(namespace) = self.namespaces.get(source) else {
                let names: Vec<&str> = of_source.map(|tool| tool.name.as_str()).collect();
                let server = serde_json::json!({
                    "type": "mcp",
                    "server_label": source,
                    "allowed_tools": names,
                    "defer_loading": true,
                });
                list.push(server.to_string());
                continue;
            };
            let inside: Vec<&str> = of_source
                .filter_map(|tool| tool.definition.as_deref())
                .collect();
            if let Some(members) = Members::read(namespace) {
                let mut out = Vec::new();
                let tools = format!("[{}]", inside.join(","));
                rewrite(&mut out, &members, &[("tools", Some(tools))]);
                list.push(String::from_utf8_lossy(&out).into_owned());
            }
        }
        format!("[{}]", list.join(","))
    }
}

impl<'a> Toolbox<'a> {
    /// The name of the function with which the model searches for tools, if it does.
    pub(crate) fn search_function(&self) -> Option<&str> {
        let search = Some(ProxyToolUse::ToolSearch);
        let mut tools = self.tools.iter();
        tools
            .find(|tool| tool.proxy == search)
            .map(|tool| tool.wire_name.as_str())
    }

    /// Whether the model searches for tools of MCP servers, which no provider can find.
    pub(crate) fn searches_servers(&self) -> bool {
        let mut tools = self.tools.iter();
        self.search_function().is_some() && tools.any(|tool| tool.deferred_on_server.is_some())
    }

    /// Adds the function with which the model searches for tools, if the client offers a search
    /// that it does not run itself, and defers tools that are worth one. Returns its name.
    pub(crate) fn add_search_function(&mut self, tool: &'a ProxyTool) -> Option<String> {
        if !self.has_hosted_search {
            return None;
        }
        let bytes: usize = self.deferred().map(|(_, tool)| tool.bytes()).sum();
        if bytes < MIN_SEARCHED_BYTES {
            return None;
        }
        let names = [
            tool.name.clone(),
            format!("{}{}", ProxyTool::RENAMED, tool.name),
        ];
        let target = ToolTarget {
            kind: ToolKind::Function,
            name: names
                .into_iter()
                .find(|name| self.get(None, name).is_none())?,
            namespace: None,
        };
        let name = target.name.clone();
        let description = format!("{}{}", tool.description, self.names_of_deferred());
        let parameters = serde_json::from_str(&tool.parameters).ok();
        self.add(
            target,
            Some(Text::Owned(description.into())),
            parameters,
            None,
        );
        self.tools.last_mut()?.proxy = Some(ProxyToolUse::ToolSearch);
        Some(name)
    }

    /// The tools that a search of the proxy can find; `None` if the model does not search for
    /// tools.
    pub fn searchable_tools(&self) -> Option<DeferredTools> {
        self.search_function()?;
        let (definitions, descriptions) = (self.raw_definitions(), self.source_descriptions());
        let mut namespaces = HashMap::new();
        let tools = self.deferred().map(|(_, tool)| {
            let source = tool.source();
            let namespace = match tool.deferred_on_server {
                Some(_) => None,
                None => tool.target.namespace.as_deref(),
            };
            if let Some(raw) = namespace.and_then(|it| definitions.get(&(None, it.to_owned()))) {
                let name = namespace.unwrap_or_default().to_owned();
                namespaces.insert(name, raw.get().to_owned());
            }
            let place = (namespace.map(str::to_owned), tool.target.name.clone());
            let definition = definitions
                .get(&place)
                .filter(|_| tool.deferred_on_server.is_none());
            DeferredTool {
                wire_name: tool.wire_name.clone(),
                name: tool.own_name().to_owned(),
                source: source.map(str::to_owned),
                source_description: source
                    .and_then(|source| descriptions.get(source))
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                description: tool
                    .description
                    .as_ref()
                    .map(|text| text.decoded().into_owned())
                    .unwrap_or_default(),
                parameters: tool.parameters.map_or("{}", RawValue::get).to_owned(),
                definition: definition.map(|raw| raw.get().to_owned()),
            }
        });
        let tools = tools.collect();
        Some(DeferredTools { tools, namespaces })
    }

    /// The tools that a search can find, with their places.
    pub(super) fn deferred(&self) -> impl Iterator<Item = (usize, &Tool<'a>)> {
        let tools = self.tools.iter().enumerate();
        tools.filter(|(_, tool)| tool.is_deferred || tool.deferred_on_server.is_some())
    }

    /// The definitions of functions and namespaces, by namespace and name.
    fn raw_definitions(&self) -> HashMap<(Option<String>, String), &'a RawValue> {
        let mut all = HashMap::new();
        for definition in &self.definitions {
            let Some(members) = Members::read(definition.raw.get()) else {
                continue;
            };
            let name = members.text("name").unwrap_or_default().into_owned();
            for raw in json::list::<&RawValue>(members.get("tools")) {
                let inside = Members::read(raw.get()).and_then(|it| it.text("name"));
                let place = (Some(name.clone()), inside.unwrap_or_default().into_owned());
                all.entry(place).or_insert(raw);
            }
            all.entry((None, name)).or_insert(definition.raw);
        }
        all
    }

    /// What the client says of namespaces and of MCP servers.
    fn source_descriptions(&self) -> HashMap<String, Cow<'a, str>> {
        let described = self.definitions.iter().filter_map(|definition| {
            let members = Members::read(definition.raw.get())?;
            let (name, text) = match &*members.text("type")? {
                "namespace" => ("name", "description"),
                "mcp" => ("server_label", "server_description"),
                _ => return None,
            };
            Some((members.text(name)?.into_owned(), members.text(text)?))
        });
        described.collect()
    }

    /// The names of all deferred tools, as far as there is room, with the places they are from.
    fn names_of_deferred(&self) -> String {
        let mut sources: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
        let mut places: HashMap<Option<&str>, usize> = HashMap::new();
        for (_, tool) in self.deferred() {
            let source = tool.source();
            let place = *places.entry(source).or_insert(sources.len());
            if place == sources.len() {
                sources.push((source, Vec::new()));
            }
            if let Some((_, names)) = sources.get_mut(place) {
                names.push(tool.own_name());
            }
        }
        let descriptions = self.source_descriptions();
        let share = MAX_NAMES_BYTES / sources.len().max(1);
        let mut text = String::from("\n\nThese can be found:");
        for (at, (source, names)) in sources.iter().enumerate() {
            if text.len() > MAX_LIST_BYTES {
                let _ = write!(text, "\n- tools of {} others", sources.len() - at);
                break;
            }
            text.push_str("\n- ");
            if let Some(source) = source {
                text.push_str(source);
                let about = descriptions.get(*source);
                if let Some(about) = about.filter(|about| !about.is_empty()) {
                    let line = about.lines().next().unwrap_or_default();
                    let end = line.floor_char_boundary(MAX_SOURCE_BYTES);
                    let _ = write!(text, " ({})", line.get(..end).unwrap_or_default());
                }
                text.push_str(": ");
            }
            let mut room = share;
            let fit = names.iter().take_while(|name| {
                let fits = name.len() + 2 <= room;
                room = room.saturating_sub(name.len() + 2);
                fits
            });
            let fit: Vec<&str> = fit.copied().collect();
            text.push_str(&fit.join(", "));
            match names.len() - fit.len() {
                0 => {}
                others if fit.is_empty() => {
                    let _ = write!(text, "{others} tools");
                }
                others => {
                    let _ = write!(text, " and {others} more");
                }
            }
        }
        text
    }
}

impl Tool<'_> {
    /// Its namespace, or the label of its MCP server.
    fn source(&self) -> Option<&str> {
        match self.deferred_on_server {
            Some(server) => Some(&server.server_label),
            None => self.target.namespace.as_deref(),
        }
    }

    /// Its name in its namespace, or on its server.
    fn own_name(&self) -> &str {
        self.deferred_on_server
            .map_or(self.target.name.as_str(), |server| &server.name)
    }

    /// About how many bytes of a request it takes.
    fn bytes(&self) -> usize {
        let description = self.description.as_ref().map_or(0, Text::escaped_len);
        let parameters = self.parameters.map_or(0, |raw| raw.get().len());
        self.wire_name.len() + description + parameters
    }
}
