//! What became of the nodes of a run, and which of them may run next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::definition::{NodeKind, WorkflowDefinition, WorkflowNode};
use crate::cited_source::CitedSource;

/// What an event about a node begins with.
const NODE_EVENT: &str = "{\"type\":\"response.workflow.node.";

/// What became of the nodes that have begun, in the order in which they began. Changes with each
/// event about a node, from which it can be made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WorkflowProgress {
    nodes: Vec<Arc<NodeProgress>>,
}

/// What became of a node that has begun, or was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeProgress {
    /// The node.
    pub id: String,
    /// Its kind.
    pub kind: NodeKind,
    /// What became of it.
    pub status: NodeStatus,
    /// When it began, in Unix seconds.
    pub started_at: u64,
    /// When it ended, in Unix seconds.
    pub ended_at: Option<u64>,
    /// What it returned: a text for each search or page, else one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// The pages that it has found or read, which the answer may cite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<CitedSource>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It goes on.
    Running,
    /// It waits for a person.
    AwaitingApproval,
    /// It has ended.
    Completed,
    /// It has failed.
    Failed,
    /// It is of the kind `approve`, and the person has refused.
    Refused,
    /// It was left out, because a node that it needs was refused or left out.
    Skipped,
}

impl NodeStatus {
    /// The name of the event that tells of it.
    pub fn event_name(self) -> &'static str {
        match self {
            Self::Running => "response.workflow.node.started",
            Self::AwaitingApproval => "response.workflow.node.awaiting_approval",
            Self::Completed => "response.workflow.node.completed",
            Self::Failed => "response.workflow.node.failed",
            Self::Refused => "response.workflow.node.refused",
            Self::Skipped => "response.workflow.node.skipped",
        }
    }
}

/// The node that an event is about, if it is an event about a node. `event` is its JSON as the
/// assembler writes it.
pub fn node_of_event(event: &str) -> Option<NodeProgress> {
    #[derive(Deserialize)]
    struct NodeEvent {
        node: NodeProgress,
    }
    if !event.starts_with(NODE_EVENT) {
        return None;
    }
    let event: NodeEvent = serde_json::from_str(event).ok()?;
    Some(event.node)
}

impl NodeProgress {
    /// A node that begins now.
    pub fn begun(node: &WorkflowNode, status: NodeStatus, now: u64) -> Self {
        Self {
            id: node.id.clone(),
            kind: node.kind,
            status,
            started_at: now,
            ended_at: None,
            output: Vec::new(),
            sources: Vec::new(),
            error: None,
        }
    }

    /// The same when it has ended now.
    #[must_use]
    pub fn ended(self, status: NodeStatus, now: u64) -> Self {
        Self {
            status,
            ended_at: Some(now.max(self.started_at)),
            ..self
        }
    }
}

impl WorkflowProgress {
    /// Whether no node has begun.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Takes what became of a node.
    pub fn put(&mut self, node: NodeProgress) {
        let node = Arc::new(node);
        match self.nodes.iter_mut().find(|known| known.id == node.id) {
            Some(known) => *known = node,
            None => self.nodes.push(node),
        }
    }

    /// What became of a node, if it has begun.
    pub fn of(&self, id: &str) -> Option<&NodeProgress> {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.map(|node| &**node)
    }

    /// The bytes of what the nodes have returned.
    pub fn output_bytes(&self) -> usize {
        let texts = self.nodes.iter().flat_map(|node| &node.output);
        texts.map(String::len).sum()
    }

    /// The pages that the nodes have found or read.
    pub fn sources(&self) -> impl Iterator<Item = &CitedSource> {
        self.nodes.iter().flat_map(|node| &node.sources)
    }

    /// The nodes that have this status.
    pub fn with_status(&self, status: NodeStatus) -> impl Iterator<Item = &NodeProgress> {
        let nodes = self.nodes.iter().map(|node| &**node);
        nodes.filter(move |node| node.status == status)
    }

    /// Nodes that had begun and have not ended begin again, unless they may not: the first of those
    /// is returned.
    pub fn restart<'d>(&mut self, definition: &'d WorkflowDefinition) -> Option<&'d WorkflowNode> {
        let interrupted = |node: &&WorkflowNode| {
            let known = self.of(&node.id);
            known.is_some_and(|known| known.status == NodeStatus::Running)
        };
        let mut nodes = definition.nodes.iter().filter(interrupted);
        let stuck = nodes.find(|node| !node.may_rerun());
        if stuck.is_none() {
            self.nodes.retain(|node| node.status != NodeStatus::Running);
        }
        stuck
    }

    /// Forgets the questions that no person has answered, so that they are asked again. The answer
    /// to that of the node `decided` is there.
    pub fn ask_again(&mut self, decided: Option<&str>) {
        self.nodes.retain(|node| {
            node.status != NodeStatus::AwaitingApproval || Some(node.id.as_str()) == decided
        });
    }

    /// A node that has failed, for which the workflow fails.
    pub fn failed(&self, definition: &WorkflowDefinition) -> Option<&NodeProgress> {
        let mut failed = self.with_status(NodeStatus::Failed);
        failed.find(|node| !self.is_done(definition, &node.id))
    }

    /// Whether the last node may begin: all others have ended, and none that it needs is missing.
    pub fn may_end(&self, definition: &WorkflowDefinition) -> bool {
        let others = definition.nodes.len().saturating_sub(1);
        let mut others = definition.nodes.iter().take(others);
        let has_ended = |node: &WorkflowNode| {
            let known = self.of(&node.id);
            known.is_some_and(|known| known.ended_at.is_some())
        };
        let needs_are_done = definition.last().is_some_and(|last| {
            let needs = definition.needs(last);
            needs.iter().all(|id| self.is_done(definition, id))
        });
        others.all(has_ended) && needs_are_done
    }

    /// The nodes that are left out, because one that they need was refused or left out.
    pub fn to_skip<'d>(&self, definition: &'d WorkflowDefinition) -> Vec<&'d WorkflowNode> {
        let is_out = |id: &&str| {
            let status = self.of(id).map(|node| node.status);
            matches!(status, Some(NodeStatus::Refused | NodeStatus::Skipped))
        };
        let left = definition
            .nodes
            .iter()
            .filter(|node| self.of(&node.id).is_none());
        left.filter(|node| definition.needs(node).iter().any(is_out))
            .collect()
    }

    /// The nodes before the last one that may begin.
    pub fn ready<'d>(&self, definition: &'d WorkflowDefinition) -> Vec<&'d WorkflowNode> {
        let last = definition.nodes.len().saturating_sub(1);
        let left = definition.nodes.iter().take(last);
        left.filter(|node| self.of(&node.id).is_none())
            .filter(|node| {
                let needs = definition.needs(node);
                needs.iter().all(|id| self.is_done(definition, id))
            })
            .collect()
    }

    /// Whether a node has ended so that others may use its output.
    fn is_done(&self, definition: &WorkflowDefinition, id: &str) -> bool {
        let is_optional = || definition.node(id).is_some_and(|node| node.optional);
        match self.of(id).map(|node| node.status) {
            Some(NodeStatus::Completed) => true,
            Some(NodeStatus::Failed) => is_optional(),
            Some(
                NodeStatus::Running
                | NodeStatus::AwaitingApproval
                | NodeStatus::Refused
                | NodeStatus::Skipped,
            )
            | None => false,
        }
    }

    /// Writes what became of the nodes to a `workflow_state`.
    pub fn write_to(&self, state: &mut Map<String, Value>, detail: StateDetail) {
        let mut failed = Value::Null;
        let nodes = state.get_mut("nodes").and_then(Value::as_object_mut);
        if let Some(nodes) = nodes {
            for known in &self.nodes {
                let Some(node) = nodes.get_mut(&known.id).and_then(Value::as_object_mut) else {
                    continue;
                };
                known.write_to(node, detail);
                if known.status == NodeStatus::Failed && !node.contains_key("optional") {
                    failed = known.id.as_str().into();
                }
            }
        }
        let ids = |status| {
            let nodes = self.with_status(status);
            nodes.map(|node| node.id.as_str()).collect::<Vec<_>>()
        };
        let order: Vec<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let current = match detail {
            StateDetail::Brief | StateDetail::Full => ids(NodeStatus::Running),
            StateDetail::Final => Vec::new(),
        };
        let waiting = ids(NodeStatus::AwaitingApproval);
        for (name, value) in [
            ("order", json!(order)),
            ("current", json!(current)),
            ("awaiting_approval", json!(waiting.first())),
            ("failed_node", failed),
        ] {
            state.insert(name.to_owned(), value);
        }
    }
}

/// How much a `workflow_state` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateDetail {
    /// No outputs, so that events stay small.
    Brief,
    /// The outputs as well.
    Full,
    /// The same of an answer that has ended: nodes that were running are `stopped`.
    Final,
}

impl NodeProgress {
    fn write_to(&self, state: &mut Map<String, Value>, detail: StateDetail) {
        let mut set = |name: &str, value: Value| state.insert(name.to_owned(), value);
        let is_stopped = self.status == NodeStatus::Running && detail == StateDetail::Final;
        set(
            "status",
            if is_stopped {
                "stopped".into()
            } else {
                json!(self.status)
            },
        );
        set("started_at", self.started_at.into());
        set("ended_at", self.ended_at.into());
        if detail != StateDetail::Brief && !self.output.is_empty() {
            set("output", self.output.join("\n\n").into());
        }
        if let Some(error) = &self.error {
            set("error", error.as_str().into());
        }
    }
}

/// A workflow and what became of its nodes at one moment. Made of a run; cheap to copy.
#[derive(Clone, Debug)]
pub struct WorkflowSnapshot {
    pub(super) id: String,
    pub(super) definition: Arc<WorkflowDefinition>,
    pub(super) progress: WorkflowProgress,
}

impl WorkflowSnapshot {
    /// The `workflow_state` of a response, as JSON: the workflow, what became of each of its nodes,
    /// and in which order they began.
    pub fn state(&self, detail: StateDetail) -> String {
        let mut nodes = Map::new();
        for node in &self.definition.nodes {
            let mut state = Map::new();
            state.insert("kind".to_owned(), json!(node.kind));
            state.insert("status".to_owned(), "pending".into());
            if node.optional {
                state.insert("optional".to_owned(), true.into());
            }
            nodes.insert(node.id.clone(), state.into());
        }
        let mut state = Map::new();
        state.insert("workflow".to_owned(), self.id.as_str().into());
        state.insert("nodes".to_owned(), nodes.into());
        self.progress.write_to(&mut state, detail);
        Value::Object(state).to_string()
    }
}
