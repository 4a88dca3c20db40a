//! A workflow as its TOML file says.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::IntoStaticStr;

use crate::responses::request::TurnSource;
use crate::template_text::{TemplateText, is_name_byte};

/// The most nodes of a workflow.
const MAX_NODES: usize = 50;
/// The most calls of one node, and how many it has unless its file says otherwise.
const MAX_CALLS: usize = 10;
const SEARCHES: usize = 3;
const PAGES: usize = 4;
/// The longest id of a node.
const MAX_ID_BYTES: usize = 64;
/// The variable that stands for the input of the request.
pub(super) const INPUT: &str = "input";

/// A workflow. Read from a file when the configuration is loaded; a run keeps a copy of it, so that
/// it goes on as it began.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowDefinition {
    /// What it is for, for people.
    pub description: String,
    /// The model of the nodes that name none, if the request names none either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The values of variables that a request leaves out. `{{input}}` in them is its input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
    /// The nodes. The last one writes the answer, when all others have ended.
    pub nodes: Vec<WorkflowNode>,
}

/// A node of a workflow. Which fields it has depends on its kind. `{{name}}` in a text is a
/// variable of the request, its `input`, or the output of another node, for which it waits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowNode {
    /// Its name within the workflow.
    pub id: String,
    /// What it does.
    pub kind: NodeKind,
    /// Further nodes for which it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What the model is asked (`agent`, `write`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The instructions of the model (`agent`, `write`). They name no nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The model (`agent`, `write`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort of the model (`agent`, `write`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The most tokens of the model's answer (`agent`, `write`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The tools of the model, as in a request: `web_search` and `mcp` (`agent`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// What is searched for (`search`): a query a line, or a JSON list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<String>,
    /// The pages that are opened (`open`): the addresses in this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<String>,
    /// What is looked for in the pages (`open`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The most searches or pages (`search`, `open`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// What a person is asked to approve (`approve`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The answer of the workflow if the person refuses and the last node needs the approval
    /// (`approve`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The workflow goes on if it fails, as if its output were empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Whether it may run again if the server ended while it ran. Unless this says otherwise, a
    /// node with tools of MCP servers may not, because they may have effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<bool>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeKind {
    /// Asks a model, which may have tools.
    Agent,
    /// Searches the web.
    Search,
    /// Opens pages of the web.
    Open,
    /// Waits for the approval of a person.
    Approve,
    /// Asks a model without tools.
    Write,
}

impl NodeKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The fields that a node of this kind may have, besides those that all have. The first one is
    /// required.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &[
                "prompt",
                "instructions",
                "model",
                "effort",
                "max_output_tokens",
                "tools",
            ],
            Self::Write => &[
                "prompt",
                "instructions",
                "model",
                "effort",
                "max_output_tokens",
            ],
            Self::Search => &["queries", "max"],
            Self::Open => &["urls", "query", "max"],
            Self::Approve => &["question", "refused"],
        }
    }
}

impl WorkflowNode {
    /// The most searches or pages.
    pub fn max_calls(&self) -> usize {
        let usual = match self.kind {
            NodeKind::Search => SEARCHES,
            NodeKind::Open => PAGES,
            NodeKind::Agent | NodeKind::Approve | NodeKind::Write => 1,
        };
        self.max.unwrap_or(usual)
    }

    /// Whether it may run again after it was interrupted.
    pub fn may_rerun(&self) -> bool {
        let has_effects = || self.tools.iter().any(|tool| text_of(tool, "type") == "mcp");
        self.rerun.unwrap_or_else(|| !has_effects())
    }

    /// The fields that are set, besides those that all kinds have.
    fn set_fields(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            ("prompt", self.prompt.is_some()),
            ("instructions", self.instructions.is_some()),
            ("model", self.model.is_some()),
            ("effort", self.effort.is_some()),
            ("max_output_tokens", self.max_output_tokens.is_some()),
            ("tools", !self.tools.is_empty()),
            ("queries", self.queries.is_some()),
            ("urls", self.urls.is_some()),
            ("query", self.query.is_some()),
            ("max", self.max.is_some()),
            ("question", self.question.is_some()),
            ("refused", self.refused.is_some()),
        ];
        set.into_iter()
            .filter_map(|(name, is_set)| is_set.then_some(name))
    }

    /// The texts that are made when it begins, and that may name nodes.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [
            &self.prompt,
            &self.queries,
            &self.urls,
            &self.query,
            &self.question,
        ];
        texts.into_iter().flatten().map(String::as_str)
    }

    /// The parameters of the request to its model, without its input and its instructions.
    pub(super) fn parameters(&self) -> Map<String, Value> {
        let mut parameters = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            parameters.extend(value.map(|value| (name.to_owned(), value)));
        };
        let effort = self.effort.as_ref();
        set("model", self.model.clone().map(Value::from));
        set("reasoning", effort.map(|effort| json!({"effort": effort})));
        set("max_output_tokens", self.max_output_tokens.map(Value::from));
        set("tools", (!self.tools.is_empty()).then(|| json!(self.tools)));
        parameters
    }
}

impl WorkflowDefinition {
    /// A workflow with these fields. An error says what is wrong, as the rest of a sentence about
    /// the file.
    pub fn new(fields: Value) -> Result<Self, String> {
        let definition: Self = serde_json::from_value(fields).map_err(|error| error.to_string())?;
        definition.check()?;
        Ok(definition)
    }

    /// The node that writes the answer.
    pub fn last(&self) -> Option<&WorkflowNode> {
        self.nodes.last()
    }

    /// Whether nodes wait for a person.
    pub fn asks_a_person(&self) -> bool {
        self.nodes.iter().any(|node| node.kind == NodeKind::Approve)
    }

    /// Whether nodes search the web, or open its pages.
    pub fn uses_the_web(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| matches!(node.kind, NodeKind::Search | NodeKind::Open))
    }

    /// The node of this id.
    pub fn node(&self, id: &str) -> Option<&WorkflowNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The nodes for which a node waits.
    pub fn needs(&self, node: &WorkflowNode) -> BTreeSet<&str> {
        let of_texts = node.texts().flat_map(variables);
        let named = node.needs.iter().cloned().chain(of_texts);
        let named: BTreeSet<String> = named.collect();
        let nodes = self.nodes.iter().map(|node| node.id.as_str());
        nodes.filter(|id| named.contains(*id)).collect()
    }

    /// The variables that a request may give.
    pub fn variables(&self) -> BTreeSet<String> {
        let nodes = self.nodes.iter();
        let others = nodes.flat_map(|node| node.instructions.iter().chain(&node.refused));
        let texts = self.nodes.iter().flat_map(WorkflowNode::texts);
        let all = texts.chain(others.map(String::as_str)).flat_map(variables);
        all.filter(|name| name != INPUT && self.node(name).is_none())
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() || self.nodes.len() > MAX_NODES {
            return Err(format!("it needs 1 to {MAX_NODES} `nodes`"));
        }
        let mut known = BTreeSet::new();
        for node in &self.nodes {
            let id = &node.id;
            let is_id = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_name_byte);
            if !is_id || id == INPUT {
                return Err(format!(
                    "a node cannot have the id '{id}': an id has 1 to {MAX_ID_BYTES} letters, digits, `-` and `_`, and is not '{INPUT}'"
                ));
            }
            if !known.insert(id.as_str()) {
                return Err(format!("two nodes have the id '{id}'"));
            }
            self.check_node(node)
                .map_err(|why| format!("the node '{id}' {why}"))?;
        }
        self.check_graph()?;
        let unused = self
            .defaults
            .keys()
            .find(|name| !self.variables().contains(*name));
        if let Some(unused) = unused {
            return Err(format!("`defaults` has '{unused}', which no node names"));
        }
        let of_defaults = self.defaults.values().flat_map(|text| variables(text));
        if let Some(other) = of_defaults.into_iter().find(|name| name != INPUT) {
            return Err(format!(
                "`defaults` names '{other}': a default value can only name '{INPUT}'"
            ));
        }
        Ok(())
    }

    fn check_node(&self, node: &WorkflowNode) -> Result<(), String> {
        let kind = node.kind.name();
        let fields = node.kind.fields();
        let has_required = node.set_fields().any(|name| Some(&name) == fields.first());
        if let Some(required) = fields.first().filter(|_| !has_required) {
            return Err(format!(
                "needs `{required}`, because it is of the kind {kind}"
            ));
        }
        if let Some(other) = node.set_fields().find(|name| !fields.contains(name)) {
            return Err(format!(
                "has `{other}`, which a node of the kind {kind} cannot have; it can have {}",
                fields.join(", ")
            ));
        }
        if node.max.is_some_and(|max| max == 0 || max > MAX_CALLS) {
            return Err(format!("has a `max` that is not from 1 to {MAX_CALLS}"));
        }
        if let Some(unknown) = node.needs.iter().find(|id| self.node(id).is_none()) {
            return Err(format!("needs '{unknown}', which is not a node"));
        }
        let instructions = node.instructions.iter().flat_map(|text| variables(text));
        if let Some(other) = instructions
            .into_iter()
            .find(|name| self.node(name).is_some())
        {
            return Err(format!(
                "names the node '{other}' in its `instructions`: outputs of nodes belong in its `prompt`"
            ));
        }
        if node.kind == NodeKind::Approve && node.optional {
            return Err("cannot be optional, because it is of the kind approve".to_owned());
        }
        for tool in &node.tools {
            check_tool(tool)?;
        }
        let mut body = node.parameters();
        body.insert("input".to_owned(), "x".into());
        body.entry("model").or_insert_with(|| "m".into());
        let body = TurnSource::new(Value::Object(body).to_string());
        let checked = body.turn().map(|_| ());
        checked.map_err(|fault| format!("is not a valid request: {}", fault.client_message()))
    }

    /// Checks that the last node can write the answer, and that no node waits for itself.
    fn check_graph(&self) -> Result<(), String> {
        let Some(last) = self.last() else {
            return Ok(());
        };
        if !matches!(last.kind, NodeKind::Agent | NodeKind::Write) || last.optional {
            return Err(format!(
                "the last node, '{}', writes the answer: it must be of the kind write or agent, and cannot be optional",
                last.id
            ));
        }
        let mut left: Vec<&WorkflowNode> = self.nodes.iter().collect();
        while !left.is_empty() {
            let waiting: BTreeSet<&str> = left.iter().map(|node| node.id.as_str()).collect();
            let before = left.len();
            left.retain(|node| self.needs(node).iter().any(|id| waiting.contains(id)));
            if left.len() == before {
                let ids: Vec<&str> = waiting.into_iter().collect();
                return Err(format!(
                    "nodes wait for each other in a circle: {}",
                    ids.join(", ")
                ));
            }
        }
        let needs_last = |node: &&WorkflowNode| self.needs(node).contains(last.id.as_str());
        match self.nodes.iter().find(needs_last) {
            Some(node) => Err(format!(
                "the node '{}' needs '{}', which is the last one and writes the answer",
                node.id, last.id
            )),
            None => Ok(()),
        }
    }
}

/// The variables of a text.
fn variables(text: &str) -> Vec<String> {
    let text = TemplateText::new(text);
    text.variables().map(str::to_owned).collect()
}

/// A text in a tool.
fn text_of<'t>(tool: &'t Value, name: &str) -> &'t str {
    tool.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Checks a tool of a node: it has to run here, and nobody is there who could approve its calls.
fn check_tool(tool: &Value) -> Result<(), String> {
    let mut secrets = ["authorization", "headers"].into_iter();
    if let Some(secret) = secrets.find(|name| tool.get(name).is_some()) {
        return Err(format!(
            "has `{secret}` in a tool, and files of workflows have no secrets: set up the server in [tools.mcp.servers], and name it with `server_label`"
        ));
    }
    let kind = text_of(tool, "type");
    match kind {
        "mcp" if text_of(tool, "require_approval") == "never" => Ok(()),
        "mcp" => Err(
            "has a tool of the type mcp without `require_approval = \"never\"`: put a node of the kind approve before it where a person has to decide"
                .to_owned(),
        ),
        kind if kind.starts_with("web_search") => Ok(()),
        other => Err(format!(
            "has a tool of the type '{other}': the tools of a workflow run on the server, which are web_search and mcp"
        )),
    }
}
