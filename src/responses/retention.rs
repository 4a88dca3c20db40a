//! How long responses are kept.

use super::{ResponseBacking, ResponseStore};
use crate::config::ResponseConfig;
use crate::store::ResponseLimits;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

impl ResponseStore {
    /// Deletes the responses that were not used for longer than they are kept, and those beyond
    /// the size limit, and returns how many. A failure is logged.
    pub async fn expire(&self, settings: ResponseConfig, now: u64) -> u64 {
        let ResponseBacking::Disk(store) = &self.backing else {
            return 0;
        };
        let kept = u64::from(settings.keep_days) * SECONDS_PER_DAY;
        let limits = ResponseLimits {
            used_since: now.saturating_sub(kept),
            max_bytes: settings.keep_size,
        };
        let mut deleted = 0;
        loop {
            match store.expire_responses(limits).await {
                Ok(step) => {
                    deleted += step.deleted;
                    if !step.more {
                        return deleted;
                    }
                }
                Err(error) => {
                    tracing::warn!("old responses cannot be deleted now: {error}");
                    return deleted;
                }
            }
        }
    }
}
