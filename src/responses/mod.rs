//! Stored responses and conversations: what a turn loads before it begins and stores when it ends.
//!
//! | module | contents |
//! |---|---|
//! | `connection` | the responses of a WebSocket that are stored nowhere |
//! | `input_sources` | the sources that the input of a request names |
//! | `history` | the stored history that a request continues |
//! | `commit` | what is stored of a turn |
//! | `retention` | how long responses are kept |
//!
//! Without a store nothing is kept, and requests that need it are refused with the reason.

mod commit;
mod connection;
mod history;
mod input_sources;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adapters::fault::{Fault, Kind};
use parking_lot::Mutex;

use crate::net::memory::MemoryFull;
use crate::store::{Store, StoreError};

pub use commit::{StoredTurn, response_text, unstarted_record};
pub use connection::{ConnectionResponses, ConnectionTurn, HistoryBefore};
pub use history::LoadedHistory;

/// Owners and ids of conversations.
type BusyConversations = Arc<Mutex<HashSet<(Arc<str>, String)>>>;

/// Where responses and conversations are stored. Cloning it is cheap.
#[derive(Clone, Default)]
pub struct ResponseStore {
    backing: ResponseBacking,
    /// The conversations in which a turn is running.
    busy: BusyConversations,
}

#[derive(Clone, Default)]
enum ResponseBacking {
    /// Nothing is stored.
    #[default]
    Nowhere,
    /// In a database that cannot be opened, because of this.
    Unusable(Arc<str>),
    /// In the database of the server.
    Disk(Arc<Store>),
    /// A replay: the history comes from the recording, and nothing is written.
    Recorded {
        history: Option<LoadedHistory>,
        /// Whether the turn was stored. The history of one that was not may be that of a
        /// connection.
        is_available: bool,
    },
}

/// A conversation in which a turn is running. Made when the turn is prepared; the next one may
/// begin when it is dropped.
pub struct BusyConversation {
    all: BusyConversations,
    key: (Arc<str>, String),
}

impl Drop for BusyConversation {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

impl ResponseStore {
    /// Stores responses in this database, or nowhere.
    pub fn new(store: Option<Arc<Store>>) -> Self {
        Self {
            backing: store.map_or(ResponseBacking::Nowhere, ResponseBacking::Disk),
            busy: Arc::default(),
        }
    }

    /// Stores nothing, and knows nothing of what was stored before, for this reason.
    pub fn unusable(reason: &str) -> Self {
        Self {
            backing: ResponseBacking::Unusable(reason.into()),
            busy: Arc::default(),
        }
    }

    /// The fault of a request for something stored, if the database cannot be opened.
    pub fn unusable_fault(&self) -> Option<Fault> {
        let ResponseBacking::Unusable(reason) = &self.backing else {
            return None;
        };
        let message = "What is stored cannot be read, because this server cannot open its database; its log says why.";
        Some(Fault::new(Kind::Storage, message).caused_by(reason.to_string()))
    }

    /// The store of a replay: the history that the turn continued, and whether the turn was stored.
    pub fn recorded(history: Option<LoadedHistory>, is_available: bool) -> Self {
        Self {
            backing: ResponseBacking::Recorded {
                history,
                is_available,
            },
            busy: Arc::default(),
        }
    }

    /// Whether responses are stored.
    pub fn is_available(&self) -> bool {
        match self.backing {
            ResponseBacking::Nowhere | ResponseBacking::Unusable(_) => false,
            ResponseBacking::Disk(_) => true,
            ResponseBacking::Recorded { is_available, .. } => is_available,
        }
    }

    /// The database.
    pub fn store(&self) -> Option<&Arc<Store>> {
        match &self.backing {
            ResponseBacking::Disk(store) => Some(store),
            ResponseBacking::Nowhere
            | ResponseBacking::Unusable(_)
            | ResponseBacking::Recorded { .. } => None,
        }
    }

    /// Takes a conversation for one turn.
    pub fn begin_turn(&self, owner: &Arc<str>, id: &str) -> Result<BusyConversation, Fault> {
        let key = (Arc::clone(owner), id.to_owned());
        if !self.busy.lock().insert(key.clone()) {
            let message = format!(
                "Another request is running in conversation '{id}': send this one again when that has ended."
            );
            return Err(Fault {
                param: Some("conversation".into()),
                ..Fault::new(Kind::Busy, message)
            });
        }
        Ok(BusyConversation {
            all: Arc::clone(&self.busy),
            key,
        })
    }
}

/// The fault of a request for which there is no memory.
pub fn memory_fault(full: &MemoryFull) -> Fault {
    let kind = match full {
        MemoryFull::InUse => Kind::Storage,
        MemoryFull::TooLarge { .. } => Kind::InvalidRequest,
    };
    Fault::new(kind, full.to_string()).with_code("server_memory_full")
}

/// Reports once that responses cannot be stored.
pub fn report_unstored(error: &StoreError) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "RESPONSES_NOT_STORED: a response cannot be stored ({error}), and says \"store\": false. This is reported once."
        );
    }
}

/// The fault of a store that cannot be read or written now.
pub fn storage_fault(error: &StoreError) -> Fault {
    if let StoreError::NoMemory { full, .. } = error {
        return memory_fault(full);
    }
    let message = "The store of responses cannot be read or written at the moment; send the same request again.";
    Fault::new(Kind::Storage, message).caused_by(error.to_string())
}
