//! The search for tools that OpenAI runs itself, where the model does not search: it is offered all
//! tools, and when it calls one that was deferred, the client gets the items of the search that
//! would have found it.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{Tool, Toolbox};
use crate::json;
use crate::members::{Members, rewrite};

/// The deferred tools that no search has found yet. Made with [`super::ToolNames`]; the assembler
/// takes a definition out when it writes the search that finds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostedSearch {
    /// The paths that a search can ask for, a namespace or a function: the definitions that it
    /// finds, as JSON.
    by_path: HashMap<String, Vec<String>>,
    /// The path of each tool, by the namespace and the name of its calls.
    paths: HashMap<(String, String), String>,
}

impl HostedSearch {
    /// The search over these tools; `None` if the client offers none, or runs it itself.
    pub(super) fn of(toolbox: &Toolbox<'_>) -> Option<Self> {
        if !toolbox.has_hosted_search {
            return None;
        }
        let is_wanted = |tool: &Tool<'_>| {
            let target = tool.called_target();
            let called = (target.namespace.unwrap_or_default(), target.name);
            tool.is_deferred && !toolbox.found.contains(&called)
        };
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
            let (tools, found): (Vec<_>, Vec<_>) = found.unzip();
            let mut json = Vec::new();
            let list = format!("[{}]", found.join(","));
            rewrite(&mut json, &members, &[("tools", Some(list))]);
            search.add(&name, tools, String::from_utf8_lossy(&json).into_owned());
        }
        Some(search)
    }

    /// Adds a definition and the tools that it defines, if there are any.
    fn add<'t>(&mut self, path: &str, tools: impl IntoIterator<Item = &'t Tool<'t>>, json: String) {
        let mut has_tools = false;
        for tool in tools {
            let target = tool.called_target();
            let called = (target.namespace.unwrap_or_default(), target.name);
            self.paths.insert(called, path.to_owned());
            has_tools = true;
        }
        if has_tools {
            self.by_path.entry(path.to_owned()).or_default().push(json);
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
                self.paths.remove(&(name.to_string(), tool));
            }
        }
    }

    /// Takes out what a search finds that finds this tool: its path, and a JSON list of
    /// definitions. `None` if it was found before, or needs no search.
    pub(crate) fn find(&mut self, namespace: &str, name: &str) -> Option<(String, String)> {
        let path = self.paths.get(&(namespace.to_owned(), name.to_owned()))?;
        let (path, list) = self.by_path.remove_entry(path)?;
        Some((path, format!("[{}]", list.join(","))))
    }
}
