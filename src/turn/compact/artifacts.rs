//! Stores the tool outputs that a summary names, before it names them.

use adapters::compact::{self, Line};
use adapters::plan::{Bounds, Keeping, Plan};
use adapters::turn::Turn;

use crate::store::NewArtifact;
use crate::turn::context::TurnContext;
use crate::turn::prepared::RoutedHistory;

/// Stores the outputs of a history that may be needed when it is gone. Returns the summary's list
/// of them, together with the outputs that earlier summaries listed.
pub(super) async fn store_outputs(
    ctx: &TurnContext,
    history: &RoutedHistory,
    turn: &Turn<'_>,
    plan: &Plan,
    bounds: &Bounds,
) -> Vec<Line> {
    let artifacts = &history.shared.artifacts;
    let listed = match artifacts.keeping() {
        Keeping::Nothing => Vec::new(),
        Keeping::Disk | Keeping::Memory => compact::artifacts(turn, plan),
    };
    let (owner, session) = (&ctx.owner, &history.session.id);
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
