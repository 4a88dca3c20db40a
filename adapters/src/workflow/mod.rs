//! Workflows: a request names one in its `prompt`, and the proxy runs its nodes, a directed graph,
//! in one response. The last node writes the answer.
//!
//! | module | what it has |
//! |---|---|
//! | `definition` | a workflow as its TOML file says |
//! | `catalog` | all workflows, and what a request gets of the one that it names |
//! | `run` | one run: its definition, variables and progress, as JSON |
//! | `progress` | what became of the nodes so far, and which may run next |
//! | `node_text` | what a node takes of texts: search queries and addresses |
//!
//! Nothing here runs a node: that is up to the server.

mod catalog;
mod definition;
mod node_text;
mod progress;
mod run;
#[cfg(test)]
mod tests;

pub use catalog::WorkflowCatalog;
pub use definition::{NodeKind, WorkflowDefinition, WorkflowNode};
pub use progress::{
    NodeProgress, NodeStatus, StateDetail, WorkflowProgress, WorkflowSnapshot, node_of_event,
};
pub use run::{
    APPROVAL_LABEL, WorkflowApproval, WorkflowDecisions, WorkflowRun, continued, decisions,
};
