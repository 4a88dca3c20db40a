//! Which of the tools that a model has to search for it has found.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{ToolChoice, Toolbox};
use crate::json;
use crate::members::Members;
use crate::tools::OfferedFrom;
use crate::turn::{Item, ItemKind, Turn};

/// Takes back the offer of the tools for which the model has to search, until it has found or
/// called them, or the client names them in its choice.
pub(crate) fn withdraw_unfound(turn: &mut Turn<'_>) {
    let Some(search) = turn.tools.search_function() else {
        return;
    };
    let tools = &turn.tools;
    let mut found = FoundTools::new(tools);
    for item in &turn.items {
        match item.kind {
            ItemKind::ToolSearchOutput | ItemKind::ServerToolSearch => {
                found.add_output(item.tools());
            }
            ItemKind::McpCall | ItemKind::McpApprovalRequest => found.add_of_server(item),
            kind if kind.is_call() => found.add_called(&tools.called_name(item)),
            _ => {}
        }
    }
    // Behind what was found, whose places do not depend on the choice.
    match &turn.tool_choice {
        ToolChoice::Named(name) => found.add_called(name),
        ToolChoice::Allowed { names, .. } if !names.contains(search) => {
            for name in names {
                found.add_called(name);
            }
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Allowed { .. } => {
        }
    }
    let order = found.order;
    let deferred: Vec<usize> = tools.deferred().map(|(place, _)| place).collect();
    for place in deferred {
        if let Some(tool) = turn.tools.tools.get_mut(place) {
            let found = order.get(&place).copied();
            tool.offered_from = found.map_or(OfferedFrom::Never, OfferedFrom::Found);
        }
    }
}

/// The tools that were found, by their places.
struct FoundTools<'t, 'a> {
    tools: &'t Toolbox<'a>,
    by_wire_name: HashMap<&'t str, usize>,
    of_servers: HashMap<(&'t str, &'t str), usize>,
    order: HashMap<usize, usize>,
}

impl<'t, 'a> FoundTools<'t, 'a> {
    fn new(tools: &'t Toolbox<'a>) -> Self {
        let (mut by_wire_name, mut of_servers) = (HashMap::new(), HashMap::new());
        for (place, tool) in tools.deferred() {
            by_wire_name.insert(tool.wire_name.as_str(), place);
            if let Some(server) = tool.deferred_on_server {
                of_servers.insert((&*server.server_label, &*server.name), place);
            }
        }
        Self {
            tools,
            by_wire_name,
            of_servers,
            order: HashMap::new(),
        }
    }

    fn add(&mut self, place: Option<usize>) {
        let next = self.order.len();
        if let Some(place) = place {
            self.order.entry(place).or_insert(next);
        }
    }

    fn add_called(&mut self, wire_name: &str) {
        self.add(self.by_wire_name.get(wire_name).copied());
    }

    /// Adds what a search has found.
    fn add_output(&mut self, list: Option<&RawValue>) {
        for raw in json::list::<&RawValue>(list) {
            let Some(members) = Members::read(raw.get()) else {
                continue;
            };
            let name = members.text("name").unwrap_or_default();
            match members.text("type").as_deref() {
                Some("namespace") => {
                    for inside in json::list::<&RawValue>(members.get("tools")) {
                        let inside = Members::read(inside.get()).and_then(|it| it.text("name"));
                        self.add_named(Some(&name), &inside.unwrap_or_default());
                    }
                }
                Some("mcp") => {
                    let label = members.text("server_label").unwrap_or_default();
                    for tool in json::list::<Cow<'_, str>>(members.get("allowed_tools")) {
                        self.add(self.of_servers.get(&(&*label, &*tool)).copied());
                    }
                }
                _ => self.add_named(None, &name),
            }
        }
    }

    /// Adds the tool of an MCP server that a call names.
    fn add_of_server(&mut self, call: &Item<'_>) {
        let members = call.raw().and_then(Members::read).unwrap_or_default();
        let [label, name] = ["server_label", "name"].map(|it| members.text(it));
        let (label, name) = (label.unwrap_or_default(), name.unwrap_or_default());
        self.add(self.of_servers.get(&(&*label, &*name)).copied());
    }

    fn add_named(&mut self, namespace: Option<&str>, name: &str) {
        if let Some(tool) = self.tools.get(namespace, name) {
            self.add_called(&tool.wire_name);
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::RelayToolKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::responses::request::TurnSource;
    use crate::tools::{McpToolName, ProxyTool, Tool};

    fn search() -> ProxyTool {
        ProxyTool {
            name: "tool_search".to_owned(),
            description: "Finds tools.".to_owned(),
            parameters: "{}".to_owned(),
            finds_tools: true,
            ..ProxyTool::default()
        }
    }

    fn of_server(name: &str) -> ProxyTool {
        ProxyTool {
            name: format!("docs__{name}"),
            description: "Reads. ".repeat(1_000),
            parameters: "{}".to_owned(),
            in_place_of: Some(RelayToolKind::Mcp),
            deferred: Some(McpToolName {
                server_label: "docs".to_owned(),
                name: name.to_owned(),
            }),
            ..ProxyTool::default()
        }
    }

    fn found(tools: &Value) -> Value {
        json!({
            "type": "tool_search_output", "execution": "server", "call_id": null,
            "status": "completed", "tools": tools,
        })
    }

    /// The tools that are offered, in the order in which they are.
    fn offered(input: &Value) -> Vec<String> {
        let tools = json!([
            {"type": "mcp", "server_label": "docs", "server_url": "http://x", "defer_loading": true},
            {"type": "tool_search"},
        ]);
        let body = json!({"model": "m", "input": input, "tools": tools}).to_string();
        let tools = vec![
            search(),
            of_server("read"),
            of_server("write"),
            of_server("list"),
        ];
        let source = TurnSource::new(body).with_proxy_tools(tools);
        let source = source.with_mcp_listing(std::sync::Arc::default());
        let turn = source.turn().unwrap();
        let mut tools: Vec<&Tool<'_>> = turn.tools.iter().collect();
        tools.retain(|tool| tool.offered_from != OfferedFrom::Never);
        tools.sort_by_key(|tool| tool.offered_from);
        tools
            .into_iter()
            .map(|tool| tool.wire_name.clone())
            .collect()
    }

    #[test]
    fn tools_of_servers_are_offered_in_the_order_of_the_searches() {
        let user = json!({"role": "user", "content": "go"});
        let server = |names: Value| {
            found(&json!([{
                "type": "mcp", "server_label": "docs", "allowed_tools": names,
            }]))
        };
        for (input, expected) in [
            (json!([user]), "tool_search"),
            (
                json!([user, server(json!(["write"]))]),
                "tool_search docs__write",
            ),
            (
                json!([
                    user,
                    server(json!(["write"])),
                    server(json!(["read", "write"]))
                ]),
                "tool_search docs__write docs__read",
            ),
            (json!([user, server(json!(["other"]))]), "tool_search"),
            (
                json!([user, found(&json!([{"type": "mcp"}]))]),
                "tool_search",
            ),
        ] {
            assert_eq!(offered(&input).join(" "), expected, "{input}");
        }
    }
}
