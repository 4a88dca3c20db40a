//! The plan of an output, made in this process.

use super::{case::Case, rig};
use crate::plan::PlanBench;

/// Plans and encodes cases as the proxy does for a model that is not listed.
pub(super) struct Planner(PlanBench);

impl Planner {
    /// A planner for a model with a window of so many tokens.
    pub(super) fn new(window: u64) -> Self {
        Self(PlanBench::new(1, window))
    }

    /// The text of the case's output in the upstream request.
    pub(super) fn shown(&self, case: &Case) -> anyhow::Result<String> {
        let body = self.0.encoded(rig::request(case).to_string())?;
        rig::tool_output(&body)
    }
}
