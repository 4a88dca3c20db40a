//! Lists recorded turns and packs selected ones into a bundle, from memory and from
//! the folder of stored bundles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::finished::FinishedTurn;
use super::redacted::{redacted_again, redacted_turn, scrubber};
use super::{CaptureWork, TurnCapture};
use crate::config::Config;
use crate::diagnostics::bundle::{Bundle, BundleError, BundleFolder, StoredBundle};
use crate::diagnostics::redact::Keep;
use crate::diagnostics::selection::{BundleQuery, ListedTurn, Selection};
use crate::net::Owner;

/// How long a query waits for turns that are not on disk yet.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a recorded turn is. The copy in memory is preferred: it is not redacted yet,
/// so its images and encrypted contents can still be kept.
enum TurnLocation {
    Memory(Arc<FinishedTurn>),
    Disk(PathBuf),
}

impl TurnCapture {
    /// The recorded turns that this owner may see, newest first; not all of them if the work is
    /// stopped. Blocks: it reads files.
    pub fn list(&self, config: &Config, owner: &Owner, work: &mut CaptureWork) -> Vec<ListedTurn> {
        self.locate_all(config, owner, work)
            .into_iter()
            .map(|(listed, _)| listed)
            .collect()
    }

    /// The bytes of a bundle with the selected turns that this owner may see, oldest first; `None`
    /// if no turn matches. Blocks: it reads files and redacts.
    pub fn bundle(
        &self,
        config: &Config,
        owner: &Owner,
        wanted: &BundleQuery,
        work: &mut CaptureWork,
    ) -> Result<Option<Vec<u8>>, BundleError> {
        let now = SystemTime::now();
        let limit = match wanted.selection {
            Selection::Since(_) => usize::MAX,
            Selection::Failed
            | Selection::Last
            | Selection::Response(_)
            | Selection::Request(_) => 1,
        };
        let mut bundle = Bundle {
            made_by: env!("CARGO_PKG_VERSION").to_owned(),
            images: wanted.images || config.capture.images,
            encrypted: wanted.encrypted || config.capture.encrypted,
            turns: Vec::new(),
        };
        let keep = Keep {
            images: bundle.images,
            encrypted: bundle.encrypted,
        };
        let current = scrubber(config, keep);
        let mut all = self.locate_all(config, owner, work);
        all.sort_by_key(|(listed, _)| !listed.is_preferred(&wanted.selection));
        let chosen = all
            .into_iter()
            .filter(|(listed, _)| listed.matches(&wanted.selection, now))
            .take(limit);
        for (_, location) in chosen {
            work.check()?;
            match location {
                TurnLocation::Memory(turn) => {
                    // The configuration of the turn knows its own secrets.
                    let own = scrubber(&turn.config, keep);
                    work.begin_turn(turn.body_bytes());
                    let turn = redacted_turn(&turn, &[&own, &current], &work.stop);
                    work.keep_turn(turn.body_bytes());
                    bundle.turns.push(turn);
                }
                TurnLocation::Disk(path) => {
                    // The file may have been deleted in favour of a newer one.
                    let Ok(kept) = Bundle::read(&path) else {
                        continue;
                    };
                    bundle.images &= kept.images;
                    bundle.encrypted &= kept.encrypted;
                    for turn in kept.turns {
                        work.check()?;
                        work.begin_turn(turn.body_bytes());
                        let turn = redacted_again(turn, &current, &work.stop);
                        work.keep_turn(turn.body_bytes());
                        bundle.turns.push(turn);
                    }
                }
            }
        }
        work.check()?;
        bundle.turns.reverse();
        if bundle.turns.is_empty() {
            return Ok(None);
        }
        bundle.to_bytes().map(Some)
    }

    fn locate_all(
        &self,
        config: &Config,
        owner: &Owner,
        work: &mut CaptureWork,
    ) -> Vec<(ListedTurn, TurnLocation)> {
        let recent = self.recent();
        if recent.is_empty() {
            // The newest turn may have been too large for memory and still be queued for
            // writing.
            self.0.writer.flush(FLUSH_TIMEOUT, &work.stop);
        }
        let kept = BundleFolder::from_config(config).list().unwrap_or_default();
        let is_kept = |id: &str| kept.iter().any(|kept| kept.request_id == id);
        let mut all: Vec<(ListedTurn, TurnLocation)> = recent
            .into_iter()
            .map(|turn| {
                let mut listed = turn.listed.clone();
                listed.disk = is_kept(&listed.request_id);
                (listed, TurnLocation::Memory(turn))
            })
            .collect();
        let in_memory: Vec<String> = all
            .iter()
            .map(|(listed, _)| listed.request_id.clone())
            .collect();
        let only_kept = kept
            .iter()
            .filter(|kept| !in_memory.contains(&kept.request_id));
        let only_kept = only_kept.take_while(|_| work.check().is_ok());
        all.extend(only_kept.filter_map(read_listed));
        all.retain(|(listed, _)| owner.is_operator() || *listed.owner == *owner.0);
        all.sort_by_key(|(listed, _)| std::cmp::Reverse(listed.began_ms));
        all
    }
}

/// `None` for a file that cannot be read: the others are still listed.
fn read_listed(kept: &StoredBundle) -> Option<(ListedTurn, TurnLocation)> {
    let bundle = Bundle::read(&kept.path).ok()?;
    let listed = bundle.turns.first().map(ListedTurn::from_bundle_turn)?;
    Some((listed, TurnLocation::Disk(kept.path.clone())))
}
