//! Turns that somebody wants to have, from memory and from disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::redacted::{redacted_turn, scrubber};
use super::{RecordedTurn, TurnCapture};
use crate::config::Config;
use crate::diagnostics::bundle::{Bundle, BundleError, BundleFolder, StoredBundle};
use crate::diagnostics::redact::Keep;
use crate::diagnostics::selection::{BundleQuery, ListedTurn, Selection};

/// Where a turn is. What is in memory is whole.
enum TurnLocation {
    Memory(Arc<RecordedTurn>),
    Disk(PathBuf),
}

impl TurnCapture {
    /// All turns that are kept, the newest first. It reads files.
    pub fn list(&self, config: &Config) -> Vec<ListedTurn> {
        self.locate_all(config)
            .into_iter()
            .map(|(row, _)| row)
            .collect()
    }

    /// A bundle of the wanted turns, the oldest first; none if there is none such.
    /// It reads files, and redacts.
    pub fn bundle(
        &self,
        config: &Config,
        wanted: &BundleQuery,
    ) -> Result<Option<Vec<u8>>, BundleError> {
        let now = SystemTime::now();
        let most = match wanted.selection {
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
        let scrubber = scrubber(config, keep);
        let all = self.locate_all(config).into_iter();
        let chosen = all
            .filter(|(row, _)| row.matches(&wanted.selection, now))
            .take(most);
        for (_, place) in chosen {
            match place {
                TurnLocation::Memory(raw) => {
                    bundle.turns.push(scrubber.turn(&redacted_turn(&raw, keep)))
                }
                TurnLocation::Disk(path) => {
                    // It may have made room for another one meanwhile.
                    let Ok(kept) = Bundle::read(&path) else {
                        continue;
                    };
                    bundle.images &= kept.images;
                    bundle.encrypted &= kept.encrypted;
                    // A pattern may be newer than the file.
                    let turns = kept.turns.into_iter().map(|turn| scrubber.turn(&turn));
                    bundle.turns.extend(turns);
                }
            }
        }
        bundle.turns.reverse();
        if bundle.turns.is_empty() {
            return Ok(None);
        }
        bundle.to_bytes().map(Some)
    }

    fn locate_all(&self, config: &Config) -> Vec<(ListedTurn, TurnLocation)> {
        let recent = self.recent();
        if recent.is_empty() {
            // The newest turn may be one that memory had no room for.
            self.flush();
        }
        let kept = BundleFolder::from_config(config).list().unwrap_or_default();
        let is_kept = |id: &str| kept.iter().any(|kept| kept.request_id == id);
        let mut all: Vec<(ListedTurn, TurnLocation)> = recent
            .into_iter()
            .map(|raw| {
                (
                    raw.listed(is_kept(&raw.request_id)),
                    TurnLocation::Memory(raw),
                )
            })
            .collect();
        let in_memory: Vec<String> = all.iter().map(|(row, _)| row.request_id.clone()).collect();
        let only_kept = kept
            .iter()
            .filter(|kept| !in_memory.contains(&kept.request_id));
        all.extend(only_kept.filter_map(read_listed));
        all.sort_by_key(|(row, _)| std::cmp::Reverse(row.began_ms));
        all
    }
}

/// A file that cannot be read is no reason to hide the others.
fn read_listed(kept: &StoredBundle) -> Option<(ListedTurn, TurnLocation)> {
    let bundle = Bundle::read(&kept.path).ok()?;
    let row = bundle.turns.first().map(ListedTurn::from_bundle_turn)?;
    Some((row, TurnLocation::Disk(kept.path.clone())))
}

impl RecordedTurn {
    fn listed(&self, disk: bool) -> ListedTurn {
        let ended = self.end.as_ref();
        let last = self.attempts.last();
        let begun = self.status.is_some_and(|status| status.is_success());
        let id = self.random.first().filter(|_| begun);
        ListedTurn {
            request_id: self.request_id.to_string(),
            response_id: id.map(|bits| format!("resp_{bits:032x}")),
            began_ms: self.began_ms,
            took_us: self.took_us,
            outcome: ended.map(|ended| ended.outcome),
            route: last.map(|attempt| attempt.route.clone()),
            failed: self.is_failure(),
            memory: true,
            disk,
        }
    }
}
