//! The search for tools that OpenAI runs itself, emulated: when the model calls a deferred tool
//! that it did not search for, the client gets the items of the search that would have found it. A
//! model that does not search is offered all tools.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{Tool, Toolbox};
use crate::json;
use crate::members::{Members, rewrite};

/// The deferred tools that no search has found yet. Made with [`super::ToolNames`]; the assembler
/// takes a definition out when it writes the search that finds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostedSearch {
    /// What each search finds: the path that it asks for, a namespace or a function, and the
    /// definitions, as JSON. `None` once it was made.
    found: Vec<Option<(String, Vec<String>)>>,
    /// The place of the search that finds a tool, by the namespace and the name of its calls.
    places: HashMap<(String, String), usize>,
}

impl HostedSearch {
    /// The search over these tools; `None` if the client offers none, or runs it itself.
    pub(super) fn of(toolbox: &Toolbox<'_>) -> Option<Self> {
        if !toolbox.has_hosted_search {
            return None;
        }
        let is_wanted =
            |tool: &Tool<'_>| tool.is_deferred && !toolbox.found.contains(&called(tool));
        let mut search = Self::default();
        for definition in &toolbox.definitions {
            let Some(members) = Members::read(definition.raw.get()) else {
                continue;
            };
            let name = members.text("name").unwrap_or_default();
            let is_namespace = members.text("type").is_some_and(|kind| kind == "namespace");
            if !is_namespace {
                let tool = toolbox.get(None, &name).filter(|tool| is_wanted(tool));
                search.add(&name, tool, definition.raw.get().to_owned());
                continue;
            }
            let all: Vec<&RawValue> = json::list(members.get("tools"));
            let deferred = |raw: &RawValue| {
                let tool = Members::read(raw.get())?;
                let tool = toolbox.get(Some(name.as_ref()), &tool.text("name")?)?;
                is_wanted(tool).then_some(tool)
            };
            let found = all
                .into_iter()
                .filter_map(|raw| Some((deferred(raw)?, raw.get())));
            let found: Vec<(&Tool<'_>, &str)> = found.collect();
            // A model that searches calls some tools by their names alone. The others of their
            // namespaces stay unfound.
            let at_once = if toolbox.search_function().is_some() {
                1
            } else {
                found.len().max(1)
            };
            for some in found.chunks(at_once) {
                let (tools, found): (Vec<_>, Vec<_>) = some.iter().copied().unzip();
                let mut json = Vec::new();
                let list = format!("[{}]", found.join(","));
                rewrite(&mut json, &members, &[("tools", Some(list))]);
                search.add(&name, tools, String::from_utf8_lossy(&json).into_owned());
            }
        }
        Some(search)
    }

    /// Adds a definition and the tools that it defines, if there are any.
    fn add<'t>(&mut self, path: &str, tools: impl IntoIterator<Item = &'t Tool<'t>>, json: String) {
        let mut tools = tools.into_iter().peekable();
        let Some(first) = tools.peek() else {
            return;
        };
        // Another definition of the same tools is found with the first.
        let known = self.places.get(&called(first)).copied();
        let place = known.unwrap_or(self.found.len());
        match self.found.get_mut(place) {
            Some(Some((_, list))) => list.push(json),
            Some(None) => {}
            None => self.found.push(Some((path.to_owned(), vec![json]))),
        }
        for tool in tools {
            self.places.insert(called(tool), place);
        }
    }

    /// Takes out the tools that the model itself has found, by the `tools` of a
    /// `tool_search_output`.
    pub(crate) fn forget(&mut self, list: &str) {
        let list: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
        for definition in list.into_iter().filter_map(|raw| Members::read(raw.get())) {
            let name = definition.text("name").unwrap_or_default();
            let inside = json::list::<&RawValue>(definition.get("tools"));
            let inside = inside.into_iter().filter_map(|raw| {
                let tool = Members::read(raw.get())?;
                Some(tool.text("name")?.into_owned())
            });
            for tool in inside.chain([name.to_string()]) {
                self.places.remove(&(name.to_string(), tool));
            }
        }
    }

    /// Takes out what a search finds that finds this tool: its path, and a JSON list of
    /// definitions. `None` if it was found before, or needs no search.
    pub(crate) fn find(&mut self, namespace: &str, name: &str) -> Option<(String, String)> {
        let place = self.places.get(&(namespace.to_owned(), name.to_owned()))?;
        let (path, list) = self.found.get_mut(*place)?.take()?;
        Some((path, format!("[{}]", list.join(","))))
    }
}

/// The namespace and the name of the calls of a tool.
fn called(tool: &Tool<'_>) -> (String, String) {
    let target = tool.called_target();
    (target.namespace.unwrap_or_default(), target.name)
}
