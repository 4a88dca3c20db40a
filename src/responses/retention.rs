//! How long responses are kept, and how much of them.

use std::collections::BTreeMap;

use adapters::fault::{Fault, Kind};

use super::{ResponseBacking, ResponseStore, storage_fault};
use crate::config::ResponseConfig;
use crate::log::SafeText;
use crate::store::ResponseLimits;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

impl ResponseStore {
    /// Deletes the responses that were not used for longer than they are kept, and those beyond
    /// the size limits. Logs how many, and a failure.
    pub async fn expire(&self, settings: ResponseConfig, now: u64) {
        let ResponseBacking::Disk(store) = &self.backing else {
            return;
        };
        let limits = limits(settings, store.time_in_use(now));
        let mut unused = 0;
        let mut over_limit = BTreeMap::<String, u64>::new();
        let kept;
        loop {
            match store.expire_responses(limits).await {
                Ok(step) => {
                    unused += step.unused;
                    for (owner, count) in step.over_limit {
                        *over_limit.entry(owner).or_default() += count;
                    }
                    if !step.more {
                        kept = format!("; {} kept", step.kept);
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!("old responses cannot be deleted now: {error}");
                    kept = String::new();
                    break;
                }
            }
        }
        if unused > 0 {
            let days = settings.keep_days;
            tracing::info!("deleted {unused} responses that were not used for {days} days{kept}");
        }
        for (owner, count) in over_limit {
            tracing::info!(
                "deleted the oldest {count} responses of {}, whose responses and conversations exceed what they may take (keep_size and keep_size_per_owner in [responses]){kept}",
                SafeText::up_to(&owner, 64)
            );
        }
    }

    /// Refuses `added` more bytes in the conversations of an owner if they would exceed the limit
    /// of the configuration.
    pub async fn check_room(
        &self,
        owner: &str,
        added: u64,
        settings: ResponseConfig,
    ) -> Result<(), Fault> {
        let ResponseBacking::Disk(store) = &self.backing else {
            return Ok(());
        };
        let exceeded = store
            .exceeded_limit(owner, added, limits(settings, 0))
            .await;
        let Some(most) = exceeded.map_err(|error| storage_fault(&error))? else {
            return Ok(());
        };
        let message = format!(
            "The conversations of '{owner}' would take more than the {most} bytes that they may take on this server (keep_size and keep_size_per_owner in [responses]). Delete conversations or their items, or raise the limit."
        );
        Err(Fault {
            param: Some("conversation".into()),
            ..Fault::new(Kind::InvalidRequest, message).with_code("storage_limit_exceeded")
        })
    }
}

fn limits(settings: ResponseConfig, now: u64) -> ResponseLimits {
    let kept = u64::from(settings.keep_days) * SECONDS_PER_DAY;
    ResponseLimits {
        used_since: now.saturating_sub(kept),
        max_bytes: settings.keep_size,
        max_owner_bytes: settings.keep_size_per_owner,
    }
}
