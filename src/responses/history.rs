//! The stored history that a request continues.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::responses::request::{conversation_not_found, response_not_found};
use adapters::shared_text::SharedText;
use adapters::stored_history::select;
use adapters::turn::Continuation;
use serde::{Deserialize, Serialize};

use super::{ResponseBacking, ResponseStore, storage_fault};
use crate::config::HistoryConfig;
use crate::net::memory::{CountedValue, MemoryShare};
use crate::store::{Store, StoredHistory, StoredOrigin};

/// A history that was loaded for a turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedHistory {
    /// The items that are sent, as a JSON list.
    pub items: SharedText,
    /// The session of the turns before.
    pub session: String,
    /// The most characters of a user message that is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_message_chars: Option<usize>,
}

impl LoadedHistory {
    /// Whether it has all items for certain: the modes that leave some out limit messages.
    pub fn has_all_items(&self) -> bool {
        self.max_message_chars.is_none()
    }
}

impl ResponseStore {
    /// Loads what a request continues, with memory for a copy of it. An error says that there is no
    /// such thing, or that it cannot be read.
    pub async fn load(
        &self,
        owner: &str,
        continues: &Continuation,
        settings: HistoryConfig,
        now: u64,
    ) -> Result<(LoadedHistory, Option<MemoryShare>), Fault> {
        if let Some(fault) = self.unusable_fault() {
            return Err(fault);
        }
        let store = match &self.backing {
            ResponseBacking::Nowhere | ResponseBacking::Unusable(_) => {
                return Err(not_found(continues));
            }
            ResponseBacking::Recorded { history, .. } => {
                let history = history.clone().ok_or_else(|| not_found(continues));
                return Ok((history?, None));
            }
            ResponseBacking::Disk(store) => store,
        };
        let origin = origin(continues);
        let found = store.history(owner, &origin).await;
        let Some(history) = found.map_err(|error| storage_fault(&error))? else {
            if let Continuation::Response(id) = continues
                && is_background(store, owner, id).await?
            {
                let message = format!(
                    "The response '{id}' has not ended: continue it when its status is final."
                );
                return Err(Fault {
                    param: Some("previous_response_id".into()),
                    code: Some("previous_response_not_ended".into()),
                    ..Fault::new(Kind::InvalidRequest, message)
                });
            }
            return Err(not_found(continues));
        };
        if let Continuation::Response(id) = continues {
            store.mark_response_used(owner, id, now);
        }
        let copy = history.memory().split(history.items.list.len());
        let (StoredHistory { items, session }, memory) = history.into_parts();
        let items = select(items.list, &items.ranges, settings.selection());
        memory.set(items.capacity());
        let history = LoadedHistory {
            items: SharedText::new(Arc::new(CountedValue::new(items, memory))),
            session,
            max_message_chars: settings.message_limit(),
        };
        Ok((history, Some(copy)))
    }

    /// The stored items with these ids, as JSON. Those that are unknown are missing.
    pub async fn items(
        &self,
        owner: &str,
        ids: BTreeSet<String>,
    ) -> Result<HashMap<String, SharedText>, Fault> {
        if let Some(fault) = self.unusable_fault()
            && !ids.is_empty()
        {
            return Err(fault);
        }
        let ResponseBacking::Disk(store) = &self.backing else {
            return Ok(HashMap::new());
        };
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let found = store.items_by_id(owner, ids).await;
        let found = found.map_err(|error| storage_fault(&error))?;
        let (found, memory) = found.into_parts();
        let counted = |json| SharedText::new(Arc::new(CountedValue::new(json, memory.clone())));
        let found = found.into_iter().map(|item| (item.id, counted(item.json)));
        Ok(found.collect())
    }
}

/// Whether there is such a background response. One without a history has not ended.
async fn is_background(store: &Store, owner: &str, id: &str) -> Result<bool, Fault> {
    let found = store.job(owner, id).await;
    let found = found.map_err(|error| storage_fault(&error))?;
    Ok(found.is_some())
}

/// What the store calls a continuation.
pub(super) fn origin(continues: &Continuation) -> StoredOrigin {
    match continues {
        Continuation::Response(id) => StoredOrigin::Response(id.clone()),
        Continuation::Conversation(id) => StoredOrigin::Conversation(id.clone()),
    }
}

fn not_found(continues: &Continuation) -> Fault {
    match continues {
        Continuation::Response(id) => response_not_found(id),
        Continuation::Conversation(id) => conversation_not_found(id),
    }
}
