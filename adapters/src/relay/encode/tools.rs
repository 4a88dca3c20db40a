//! The tools that are offered, and `tool_choice`.

use std::collections::HashSet;
use std::ops::Range;

use registry::{RelayQuirks, RelayToolKind};

use crate::body_writer::BodyWriter;
use crate::encoded::check_size;
use crate::fault::Fault;
use crate::json;
use crate::members::Members;
use crate::notes::Notes;
use crate::plan::Plan;
use crate::refusal::change::LeftOut;
use crate::schema::{self, ReferenceRoom};
use crate::tools::{
    OfferedFrom, ProxyToolUse, Tool, ToolChoice, ToolDefinition, ToolKind, extend_artifact_tools,
};
use crate::turn::Turn;

/// Writes the tools and `tool_choice`. Returns the range of the list in the body, and the names of
/// the tools that are left out because the list would exceed the provider's limit. Fails if the
/// list is too long, which schemas with references can make it.
pub(super) fn push(
    body: &mut BodyWriter<'_, '_>,
    plan: &Plan,
    quirks: &RelayQuirks,
) -> Result<(Range<usize>, Vec<String>), Fault> {
    let turn = body.turn;
    let leaves_out = body.leaves_out_tools(plan, quirks.tool_choice);
    let mut list = ToolList {
        turn,
        quirks,
        notes: &mut body.notes,
        reference_room: &mut body.reference_room,
        left_out: body.left_out,
        out: Vec::new(),
        written: HashSet::new(),
        room: quirks.max_tools.map_or(usize::MAX, usize::from),
        beyond: Vec::new(),
        has_forced: false,
        artifact_tools: 0..0,
        searches: searches(turn, quirks),
    };
    if !leaves_out {
        for definition in turn.tools.definitions() {
            list.push_definition(definition)?;
        }
        list.push_proxy_tools(plan);
        list.push_found_tools();
    }
    let part = list.artifact_tools;
    let (list, beyond, start) = (list.out, list.beyond, body.out.len());
    if let Some(most) = quirks.max_tools
        && !beyond.is_empty()
    {
        body.note_cut_tools(beyond.len(), usize::from(most));
    }
    if list.is_empty() {
        return Ok((start..start, beyond));
    }
    body.key("tools");
    body.out.push(b'[');
    let first = body.out.len();
    body.out.extend_from_slice(&list);
    body.out.push(b']');
    let tools = start..body.out.len();
    if !part.is_empty() {
        body.set_artifact_tools(&tools, first + part.start..first + part.end);
    }
    push_choice(body, quirks);
    let parallel = turn.parallel_tool_calls;
    body.field_if("parallel_tool_calls", parallel, quirks.parallel_tool_calls);
    Ok((tools, beyond))
}

/// The kind of tool whose calls these are, if the provider may take it as it is.
pub(super) fn relay_kind(kind: ToolKind) -> Option<RelayToolKind> {
    match kind {
        ToolKind::Function | ToolKind::McpApproval => None,
        ToolKind::Custom | ToolKind::Patch => Some(RelayToolKind::Custom),
        ToolKind::ToolSearch => Some(RelayToolKind::ToolSearch),
        ToolKind::LocalShell => Some(RelayToolKind::LocalShell),
        ToolKind::Shell => Some(RelayToolKind::Shell),
        ToolKind::ApplyPatch => Some(RelayToolKind::ApplyPatch),
    }
}

/// The list of tools while it is written.
struct ToolList<'l, 'a> {
    turn: &'l Turn<'a>,
    quirks: &'l RelayQuirks,
    notes: &'l mut Notes,
    reference_room: &'l mut ReferenceRoom,
    left_out: Option<&'l LeftOut>,
    out: Vec<u8>,
    /// The wire names and the namespaces that are in the list.
    written: HashSet<String>,
    /// How many more tools the provider takes, and the names of those beyond.
    room: usize,
    beyond: Vec<String>,
    /// Whether the list has the tool that must be called.
    has_forced: bool,
    /// The part of the list that has the tools which read artifacts.
    artifact_tools: Range<usize>,
    /// Whether the provider knows searches for tools, so that the proxy runs none.
    searches: bool,
}

impl<'a> ToolList<'_, 'a> {
    fn push_definition(&mut self, definition: &ToolDefinition<'a>) -> Result<(), Fault> {
        let searches = self.searches;
        let plain = schema::without_encryption(definition.raw.get());
        let json = plain.as_deref().unwrap_or(definition.raw.get());
        let Some(members) = Members::read(json) else {
            return Ok(());
        };
        let kind = members.text("type").unwrap_or_else(|| "function".into());
        let name = members.text("name").unwrap_or_else(|| kind.clone());
        // A tool that was found by a search is in the output of that search. Of a server only names
        // were found.
        if definition.found && (searches || kind == "mcp") {
            return Ok(());
        }
        // A tool that the model has to search for is written by `push_found_tools` once it is
        // found.
        let tool = self.turn.tools.get(None, &name);
        if tool.is_some_and(|tool| !self.is_offered_at_once(tool)) {
            return Ok(());
        }
        // Where nothing is searched for, all tools are offered from the beginning.
        let is_flat = |kind: RelayToolKind| {
            let mut tools = self.turn.tools.iter();
            let is_inside = |tool: &Tool<'_>| tool.target.namespace.as_deref() == Some(&name);
            kind == RelayToolKind::Namespace
                && !searches
                && tools.any(|tool| tool.is_deferred && is_inside(tool))
        };
        let relayed = RelayToolKind::of_definition(&kind);
        let takes = |kind: RelayToolKind| {
            let is_search = kind == RelayToolKind::ToolSearch;
            self.quirks.tools.contains(kind) && !is_flat(kind) && (searches || !is_search)
        };
        let relayed = relayed.filter(|kind| takes(*kind));
        match relayed {
            Some(relayed) if relayed.is_hosted() => {
                self.notes.remove("tool_dropped", &kind);
                self.push_raw(&name, json);
            }
            Some(_) => {
                if self.written.insert(format!("{kind} {name}")) {
                    self.push_raw(&name, json);
                }
            }
            None if kind == "namespace" => {
                if self.written.insert(format!("namespace {name}")) {
                    let turn = self.turn;
                    let is_inside =
                        |tool: &&Tool<'_>| tool.target.namespace.as_deref() == Some(name.as_ref());
                    for tool in turn.tools.iter().filter(is_inside) {
                        self.push_function(tool, definition);
                        check_size(self.out.len(), "tools")?;
                    }
                }
            }
            // The functions in its place follow.
            None if RelayToolKind::of_definition(&kind).is_some_and(RelayToolKind::is_hosted) => {}
            None => {
                // The search of the proxy has the name of the definition that it stands for.
                let tool = self.turn.tools.get(None, &name);
                if let Some(tool) = tool.filter(|tool| tool.proxy.is_none()) {
                    self.push_function(tool, definition);
                    check_size(self.out.len(), "tools")?;
                }
            }
        }
        Ok(())
    }

    /// Writes the tools that run in the proxy, but for those in place of what the provider runs.
    fn push_proxy_tools(&mut self, plan: &Plan) {
        let turn = self.turn;
        for tool in turn.tools.iter() {
            let is_wanted = match tool.proxy {
                None | Some(ProxyToolUse::Echo(_)) => false,
                Some(ProxyToolUse::Always) => true,
                Some(ProxyToolUse::InPlaceOf(kind)) => {
                    !self.quirks.tools.contains(kind) && self.is_offered_at_once(tool)
                }
                Some(ProxyToolUse::ToolSearch) => !self.searches,
                // One place is left for a tool that has to be called.
                Some(ProxyToolUse::WithArtifacts) => plan.artifact_tools && self.room > 1,
            };
            if is_wanted
                && is_allowed(tool, turn, self.quirks)
                && self.written.insert(tool.wire_name.clone())
            {
                let before = self.out.len();
                self.push_new_function(tool, None);
                let at = before..self.out.len();
                extend_artifact_tools(&mut self.artifact_tools, tool, at);
            }
        }
    }

    /// Writes the tools that a search of the proxy has found, in the order of the searches.
    fn push_found_tools(&mut self) {
        let is_found = |tool: &&Tool<'_>| matches!(tool.offered_from, OfferedFrom::Found(_));
        let turn = self.turn;
        let mut found: Vec<&Tool<'a>> = turn.tools.iter().filter(is_found).collect();
        found.sort_by_key(|tool| tool.offered_from);
        for tool in found {
            if is_allowed(tool, turn, self.quirks)
                && !self.searches
                && self.written.insert(tool.wire_name.clone())
            {
                let fitted = self.fitted(tool);
                self.push_new_function(tool, fitted.as_deref());
            }
        }
    }

    /// Whether the model gets a tool without a search of the proxy.
    fn is_offered_at_once(&self, tool: &Tool<'_>) -> bool {
        tool.offered_from == OfferedFrom::Beginning || self.searches
    }

    fn push_raw(&mut self, name: &str, json: &str) {
        if self.left_out.is_some_and(|it| it.has_tool(name)) {
            self.notes.add("tool_dropped", name);
            self.beyond.push(name.to_owned());
            return;
        }
        let forced = match &self.turn.tool_choice {
            ToolChoice::Named(forced) => Some(forced.as_str()),
            _ => None,
        };
        // The tool that has to be called has its place in any case.
        let is_forced = forced == Some(name);
        let kept = usize::from(forced.is_some() && !self.has_forced);
        if self.room <= kept && !is_forced {
            self.beyond.push(name.to_owned());
            return;
        }
        self.has_forced |= is_forced;
        self.room = self.room.saturating_sub(1);
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        json::push_one_line(&mut self.out, json);
    }

    /// Writes a tool as a function, with the client's bytes if nothing has to change.
    fn push_function(&mut self, tool: &Tool<'a>, definition: &ToolDefinition<'a>) {
        if !is_allowed(tool, self.turn, self.quirks)
            || !self.is_offered_at_once(tool)
            || !self.written.insert(tool.wire_name.clone())
        {
            return;
        }
        let target = &tool.target;
        let is_same = target.kind == ToolKind::Function
            && target.namespace.is_none()
            && target.name == tool.wire_name
            && tool.parameters.is_some()
            && (!tool.is_deferred || self.searches);
        let fitted = self.fitted(tool);
        let drops_strict = tool.strict.is_some() && !self.quirks.strict_tools;
        if is_same && fitted.is_none() && !drops_strict {
            return self.push_raw(&tool.wire_name, definition.raw.get());
        }
        self.push_new_function(tool, fitted.as_deref());
    }

    fn fitted(&mut self, tool: &Tool<'_>) -> Option<String> {
        tool.fitted_parameters(self.quirks.schema, self.left_out, self.reference_room)
    }

    /// Writes a tool as a function of our own bytes. `fitted` are its parameters, if they had to
    /// change.
    fn push_new_function(&mut self, tool: &Tool<'a>, fitted: Option<&str>) {
        let mut out = br#"{"type":"function""#.to_vec();
        // OpenAI's default is true, and these schemas may not be strict.
        let strict = tool.fitted_strict(self.left_out).or(Some(false));
        let takes_strict = self.quirks.strict_tools;
        tool.push_function(&mut out, fitted, strict, takes_strict, self.notes);
        out.push(b'}');
        self.push_raw(&tool.wire_name, &String::from_utf8_lossy(&out));
    }
}

/// Whether the provider itself searches for tools, or leaves it to the client. It cannot find those
/// of MCP servers to which the proxy connects.
fn searches(turn: &Turn<'_>, quirks: &RelayQuirks) -> bool {
    quirks.tools.contains(RelayToolKind::ToolSearch) && !turn.tools.searches_servers()
}

/// Whether `allowed_tools` has the tool. A provider that takes tools as they are gets the
/// list unchanged and the choice beside it, which keeps its prompt cache.
fn is_allowed(tool: &Tool<'_>, turn: &Turn<'_>, quirks: &RelayQuirks) -> bool {
    match &turn.tool_choice {
        ToolChoice::Allowed { names, .. } => {
            passes_choice(quirks) || names.contains(&tool.wire_name)
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Named(_) => true,
    }
}

fn passes_choice(quirks: &RelayQuirks) -> bool {
    let all = [RelayToolKind::Custom, RelayToolKind::Namespace];
    all.into_iter().all(|kind| quirks.tools.contains(kind))
}

fn push_choice(body: &mut BodyWriter<'_, '_>, quirks: &RelayQuirks) {
    let turn = body.turn;
    let own = turn.echo.tool_choice.as_deref();
    if matches!(turn.tool_choice, ToolChoice::Allowed { .. }) && passes_choice(quirks) {
        if let Some(own) = own {
            body.raw_field("tool_choice", own);
        }
        return;
    }
    body.push_tool_choice(quirks.tool_choice, |out, name| {
        let tool = turn.tools.iter().find(|tool| tool.wire_name == name);
        let kind = tool.and_then(|tool| {
            let hosted = tool.proxy.and_then(ProxyToolUse::hosted);
            hosted.or_else(|| relay_kind(tool.target.kind))
        });
        let is_native = kind.is_some_and(|kind| quirks.tools.contains(kind));
        if let Some(own) = own.filter(|_| is_native) {
            json::push_one_line(out, own);
        } else {
            out.extend_from_slice(br#"{"type":"function","name":"#);
            json::push(out, name);
            out.push(b'}');
        }
    });
}
