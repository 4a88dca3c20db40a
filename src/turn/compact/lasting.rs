//! The outputs that a summary names: kept whole before it names them.

use adapters::compact;
use adapters::compaction_blob::ArtifactLine;
use adapters::plan::{Bounds, Plan, Retention};
use adapters::turn::Turn;

use super::Summarizer;
use crate::artifacts::New;

impl Summarizer<'_> {
    /// Keeps the outputs of a history that may be needed once it is gone, and tells of
    /// them and of those that earlier summaries told of.
    pub(super) async fn lasting(
        &self,
        turn: &Turn<'_>,
        plan: &Plan,
        bounds: &Bounds,
    ) -> Vec<ArtifactLine> {
        let artifacts = &self.history.shared.artifacts;
        let listed = match artifacts.keeping() {
            Retention::Nothing => Vec::new(),
            Retention::Disk | Retention::Memory => compact::listable_artifacts(turn, plan),
        };
        let (owner, session) = (&self.ctx.owner, &self.history.session.id);
        let new = listed.iter().filter_map(|listed| {
            let item = turn.items.get(listed.index)?;
            artifacts.lacks((owner, session), item, &listed.artifact)
        });
        let new: Vec<New> = new.collect();
        if !new.is_empty() {
            artifacts.keep(owner, session, new).done().await;
        }
        compact::artifact_lines(turn, &listed, bounds)
    }
}
