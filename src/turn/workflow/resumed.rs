//! A run that an earlier process has begun, and that goes on in this one.

use adapters::responses::assembler::QUEUE_EVENTS;
use adapters::workflow::{NodeProgress, NodeStatus, WorkflowRun};

/// What is known of a background response that goes on after a restart. Made from the log of its
/// events; taken when its turn is prepared.
#[derive(Clone, Debug, Default)]
pub struct ResumedResponse {
    /// The number of the next event.
    pub sequence: u64,
    /// The finished items, each with its id and as JSON.
    pub items: Vec<(String, String)>,
    /// How many sources and calls of tools are stored of it.
    pub tool_places: (usize, usize),
    /// What became of the nodes, in the order in which it was told.
    pub nodes: Vec<NodeProgress>,
}

/// How often a node begins, because the server ended each time, until it is given up.
const MAX_STARTS: usize = 5;

impl ResumedResponse {
    /// Whether the answer had begun when the process ended.
    pub(in crate::turn) fn has_begun(&self) -> bool {
        self.sequence > QUEUE_EVENTS
    }

    /// A node that was running each time the server ended, and too often for another try.
    pub(in crate::turn) fn worn_out(&self) -> Option<String> {
        let has_status = |node: &&NodeProgress| node.status == NodeStatus::Running;
        let last = self.nodes.iter().rfind(has_status)?;
        let mut same = self.nodes.iter().filter(|node| node.id == last.id);
        let starts = same.clone().filter(has_status).count();
        let goes_on = same.next_back().is_some_and(|node| has_status(&node));
        (goes_on && starts >= MAX_STARTS).then(|| last.id.clone())
    }

    /// Brings a run to where it was.
    pub(in crate::turn) fn apply(&self, run: &mut WorkflowRun) {
        for node in &self.nodes {
            run.progress.put(node.clone());
        }
    }
}
