//! The outputs that a summary names: kept whole before it names them.

use adapters::compact::{self, Line};
use adapters::plan::{Bounds, Keeping, Plan};
use adapters::turn::Turn;

use super::Summarizer;
use crate::store::NewArtifact;

impl Summarizer<'_> {
    /// Keeps the outputs of a history that may be needed once it is gone, and tells of
    /// them and of those that earlier summaries told of.
    pub(super) async fn lasting(&self, turn: &Turn<'_>, plan: &Plan, bounds: &Bounds) -> Vec<Line> {
        let artifacts = &self.history.shared.artifacts;
        let listed = match artifacts.keeping() {
            Keeping::Nothing => Vec::new(),
            Keeping::Disk | Keeping::Memory => compact::artifacts(turn, plan),
        };
        let (owner, session) = (&self.ctx.owner, &self.history.session.id);
        let new = listed.iter().filter_map(|listed| {
            let item = turn.items.get(listed.index)?;
            artifacts.missing_artifact((owner, session), item, &listed.artifact)
        });
        let new: Vec<NewArtifact> = new.collect();
        if !new.is_empty() {
            artifacts.keep(owner, session, new).wait().await;
        }
        compact::list(turn, &listed, bounds)
    }
}
