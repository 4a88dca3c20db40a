//! Stores the tool outputs that a summary names, before it names them.

use adapters::compact::{self, ListedArtifact};
use adapters::compaction_blob::ArtifactLine;
use adapters::plan::{Bounds, Plan, Retention};
use adapters::turn::Turn;

use crate::store::NewArtifact;
use crate::turn::context::TurnContext;
use crate::turn::routed_history::RoutedHistory;

/// Stores the outputs of a history that may be needed when it is gone. Returns the summary's list
/// of them, together with the outputs that earlier summaries listed.
pub(super) async fn store_outputs(
    ctx: &TurnContext,
    history: &RoutedHistory,
    turn: &Turn<'_>,
    plan: &Plan,
    bounds: &Bounds,
) -> Vec<ArtifactLine> {
    let artifacts = &history.shared.artifacts;
    let mut listed = match artifacts.retention() {
        Retention::Nothing => Vec::new(),
        Retention::Disk | Retention::Memory => compact::listable_artifacts(turn, plan),
    };
    let (owner, session) = (&ctx.owner, &history.session.id);
    let new = listed.iter().filter_map(|listed| {
        let item = turn.items.get(listed.index)?;
        artifacts.missing_artifact((owner, session), item, &listed.artifact)
    });
    let new: Vec<NewArtifact> = new.collect();
    if !new.is_empty() {
        let ids = |listed: &ListedArtifact| listed.artifact.id.clone();
        let named = listed.iter().map(ids).collect();
        let commit = artifacts.keep(owner, session, new, named);
        let unkept = commit.wait().await;
        listed.retain(|listed| !unkept.contains(&listed.artifact.id));
    }
    compact::artifact_lines(turn, &listed, bounds)
}
