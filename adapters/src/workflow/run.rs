//! One run of a workflow. It is a member of the body of its request, so that what is queued,
//! recorded and replayed has the workflow as it was when it was asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::definition::{INPUT, NodeKind, WorkflowDefinition, WorkflowNode};
use super::node_text::{addresses, queries};
use super::progress::{NodeStatus, WorkflowProgress, WorkflowSnapshot};
use crate::json;
use crate::members::{Members, rewrite};
use crate::template_text::{TemplatePiece, TemplateText};
use crate::tools::ProxyTool;

/// The member of a request body that has the run. It is no parameter of the API: one that a client
/// sends is dropped.
pub(super) const MEMBER: &str = "respondent_workflow";
/// The `server_label` of the items with which a workflow asks a person.
pub const APPROVAL_LABEL: &str = "workflow";
/// The most characters of a variable in a request without input.
const MAX_SHOWN_CHARS: usize = 500;
/// The most bytes of a text that is made for a node.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// A run of a workflow. Made when a request names the workflow, or when a person has answered the
/// question for which an earlier run waits; it ends with the response.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct WorkflowRun {
    /// The id of the workflow.
    pub id: String,
    /// The workflow.
    pub definition: Arc<WorkflowDefinition>,
    /// The values of all variables.
    pub variables: BTreeMap<String, String>,
    /// The text of the request's input.
    pub input: String,
    /// The model that the request names.
    pub model: Option<String>,
    /// What an earlier response has done of it.
    #[serde(default)]
    pub progress: WorkflowProgress,
    /// What a person has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<WorkflowApproval>,
}

/// What a person has decided on a node of the kind `approve`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct WorkflowApproval {
    /// The node that asked; empty until the run is found that waits for the decision.
    #[serde(default)]
    pub node: String,
    /// The id of the item that asked.
    pub request: String,
    /// Whether the person has approved.
    pub approve: bool,
    /// Why, if the person says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A call that a node makes: the name of the tool, and its arguments as JSON.
pub(super) type NodeCall = (&'static str, String);

impl WorkflowRun {
    /// The run in a request body, if it has one.
    pub fn read(body: &str) -> Option<Self> {
        // Most bodies need no look at their members.
        if !json::may_have(body, MEMBER) {
            return None;
        }
        let run = Members::read(body)?.present(MEMBER)?;
        serde_json::from_str(run.get()).ok()
    }

    /// Its JSON, for the request body or the store.
    pub fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// The workflow and what became of its nodes so far.
    pub fn snapshot(&self) -> WorkflowSnapshot {
        WorkflowSnapshot {
            id: self.id.clone(),
            definition: Arc::clone(&self.definition),
            progress: self.progress.clone(),
        }
    }

    /// The calls of a node before the last one. An error says why there are none.
    pub fn calls(&self, node: &WorkflowNode) -> Result<Vec<NodeCall>, String> {
        let max = node.max_calls();
        match node.kind {
            NodeKind::Search => {
                let text = self.fill(node.queries.as_deref().unwrap_or_default())?;
                let found = queries(&text, max);
                if found.is_empty() {
                    return Err("its `queries` name nothing to search for".to_owned());
                }
                let calls = found.iter().map(|query| json!({"query": query}));
                Ok(calls
                    .map(|it| (ProxyTool::SEARCH, it.to_string()))
                    .collect())
            }
            NodeKind::Open => {
                let template = TemplateText::new(node.urls.as_deref().unwrap_or_default());
                let found = addresses(&self.parts(&template), max);
                if found.is_empty() {
                    return Err("its `urls` have no address of a page".to_owned());
                }
                let query = node.query.as_deref().map(|query| self.fill(query));
                let query = query.transpose()?;
                let calls = found.iter().map(|url| match &query {
                    Some(query) => json!({"url": url, "query": query}),
                    None => json!({"url": url}),
                });
                Ok(calls
                    .map(|it| (ProxyTool::OPEN_PAGE, it.to_string()))
                    .collect())
            }
            NodeKind::Agent | NodeKind::Write => {
                Ok(vec![(ProxyTool::WORKFLOW_AGENT, self.agent_request(node)?)])
            }
            NodeKind::Approve => Ok(Vec::new()),
        }
    }

    /// The body of the request that a node sends to its model.
    fn agent_request(&self, node: &WorkflowNode) -> Result<String, String> {
        let mut body = node.parameters();
        if let Some(model) = self.usual_model() {
            body.entry("model").or_insert_with(|| model.into());
        }
        if let Some(instructions) = &node.instructions {
            body.insert("instructions".to_owned(), self.fill(instructions)?.into());
        }
        body.insert("input".to_owned(), self.prompt(node)?.into());
        body.insert("store".to_owned(), false.into());
        Ok(Value::Object(body).to_string())
    }

    /// What a node asks its model.
    fn prompt(&self, node: &WorkflowNode) -> Result<String, String> {
        self.fill(node.prompt.as_deref().unwrap_or_default())
    }

    /// What the last node asks its model, as an item of the history.
    pub fn last_message(&self) -> Result<String, String> {
        let last = self.definition.last();
        let prompt = last.map(|node| self.prompt(node)).transpose()?;
        let message = json!({
            "type": "message",
            "role": "user",
            "content": prompt.unwrap_or_default(),
        });
        Ok(message.to_string())
    }

    /// The answer if the last node is left out: what the nodes that were refused say of it.
    pub fn refusal(&self) -> Result<String, String> {
        let mut texts = Vec::new();
        for refused in self.progress.with_status(NodeStatus::Refused) {
            let node = self.definition.node(&refused.id);
            let text = node.and_then(|node| node.refused.as_deref());
            texts.push(match text {
                Some(text) => self.fill(text)?,
                None => format!(
                    "'{}' was not approved, so the work ended there.",
                    refused.id
                ),
            });
        }
        Ok(texts.join("\n\n"))
    }

    /// The arguments of an item that asks a person, as JSON.
    pub fn approval_arguments(&self, node: &WorkflowNode) -> Result<String, String> {
        let question = self.fill(node.question.as_deref().unwrap_or_default())?;
        Ok(json!({"workflow": self.id, "question": question}).to_string())
    }

    /// A text with the values of its variables.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let template = TemplateText::new(text);
        let filled = template.fill(MAX_TEXT_BYTES, |name| self.value(name));
        filled.ok_or_else(|| format!("a text of it has more than {} MiB", MAX_TEXT_BYTES >> 20))
    }

    /// What stands for a variable.
    fn value<'v>(&'v self, name: &str) -> Cow<'v, str> {
        if name == INPUT {
            return Cow::Borrowed(&self.input);
        }
        match self.progress.of(name).map(|node| node.output.as_slice()) {
            Some([only]) => Cow::Borrowed(only),
            Some(several) => several.join("\n\n").into(),
            None => {
                let value = self.variables.get(name).map(String::as_str);
                Cow::Borrowed(value.unwrap_or_default())
            }
        }
    }

    /// The texts of which a filled text is made: a node with several outputs has several.
    fn parts<'t>(&'t self, template: &'t TemplateText) -> Vec<&'t str> {
        let mut parts = Vec::new();
        for piece in template.pieces() {
            match piece {
                TemplatePiece::Literal(text) => parts.push(text.as_str()),
                TemplatePiece::Variable(name) if name == INPUT => parts.push(&self.input),
                TemplatePiece::Variable(name) => match self.progress.of(name) {
                    Some(node) => parts.extend(node.output.iter().map(String::as_str)),
                    None => parts.extend(self.variables.get(name).map(String::as_str)),
                },
            }
        }
        parts
    }

    /// The input of a request that sends none. Without it a conversation would not tell what the
    /// answer was about.
    fn asked(&self) -> String {
        let given = self.variables.iter();
        let given = given.map(|(name, value)| {
            let value: String = value.chars().take(MAX_SHOWN_CHARS).collect();
            format!("\n{name}: {value}")
        });
        let given: String = given.collect();
        format!("Run the workflow '{}'.{given}", self.id)
    }

    /// The changes that make a request body one of this run.
    pub(super) fn changes(
        &self,
        body: &Members<'_>,
        prompt: String,
    ) -> Result<Vec<(&'static str, Option<String>)>, String> {
        let mut changes = BTreeMap::from([
            (MEMBER, Some(self.to_json())),
            ("prompt", Some(prompt)),
            ("instructions", None),
            ("tools", None),
        ]);
        if body.present("input").is_none() {
            changes.insert("input", Some(json::quoted(&self.asked())));
        }
        if let Some(model) = self.usual_model() {
            changes.insert("model", Some(json::quoted(model)));
        }
        if let Some(last) = self.definition.last() {
            if let Some(instructions) = &last.instructions {
                let text = self.fill(instructions)?;
                changes.insert("instructions", Some(json::quoted(&text)));
            }
            let parameters = last.parameters();
            for name in ["model", "reasoning", "max_output_tokens", "tools"] {
                if let Some(value) = parameters.get(name) {
                    changes.insert(name, Some(value.to_string()));
                }
            }
        }
        Ok(changes.into_iter().collect())
    }

    /// The model of the nodes that name none.
    fn usual_model(&self) -> Option<&str> {
        self.model.as_deref().or(self.definition.model.as_deref())
    }
}

/// What a request body decides on questions of workflows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowDecisions {
    /// The id in its `prompt`, if it has one. If it is that of another workflow, a new run begins.
    pub prompt: Option<String>,
    /// What a person has decided. Decisions that an earlier response has acted on are left out.
    pub approvals: Vec<WorkflowApproval>,
}

/// The decisions in a request body.
pub fn decisions(body: &str) -> WorkflowDecisions {
    #[derive(Deserialize)]
    struct DecisionItem {
        #[serde(rename = "type")]
        kind: Option<String>,
        role: Option<String>,
        approval_request_id: Option<String>,
        approve: Option<bool>,
        reason: Option<String>,
    }
    let mut decisions = WorkflowDecisions::default();
    if memchr::memmem::find(body.as_bytes(), b"mcp_approval_response").is_none() {
        return decisions;
    }
    let members = Members::read(body).unwrap_or_default();
    let prompt = members.present("prompt").map(RawValue::get);
    let prompt = prompt.and_then(Members::read);
    decisions.prompt = prompt.map(|prompt| prompt.text("id").unwrap_or_default().into_owned());
    let input = members.present("input").map_or("[]", RawValue::get);
    let items: Vec<&RawValue> = serde_json::from_str(input).unwrap_or_default();
    for item in items {
        let Ok(item) = serde_json::from_str::<DecisionItem>(item.get()) else {
            continue;
        };
        let kind = item.kind.as_deref().unwrap_or("message");
        if let ("mcp_approval_response", Some(request), Some(approve)) =
            (kind, item.approval_request_id, item.approve)
        {
            decisions.approvals.push(WorkflowApproval {
                node: String::new(),
                request,
                approve,
                reason: item.reason,
            });
        } else if kind == "mcp_call" || item.role.as_deref() == Some("assistant") {
            decisions.approvals.clear();
        }
    }
    decisions
}

/// The body of a request that goes on with a run that waits for a person.
pub fn continued(body: &str, mut run: WorkflowRun, approval: WorkflowApproval) -> Option<String> {
    let mut waiting = run.progress.with_status(NodeStatus::AwaitingApproval);
    let node = waiting.next()?.id.clone();
    run.approval = Some(WorkflowApproval { node, ..approval });
    let members = Members::read(body)?;
    let prompt = prompt_json(&run.id, &json!(run.variables).to_string());
    let changes = run.changes(&members, prompt).ok()?;
    let mut out = Vec::new();
    rewrite(&mut out, &members, &changes);
    String::from_utf8(out).ok()
}

/// The `prompt` of a response that runs a workflow.
pub(super) fn prompt_json(id: &str, variables: &str) -> String {
    format!(
        r#"{{"id":{},"version":null,"variables":{variables}}}"#,
        json::quoted(id)
    )
}
