//! The requests that run turns, over whatever connection they came.

use std::sync::Arc;

use http::{HeaderMap, Uri};

use crate::net::{AdmittedBy, ClientConnection, LOCAL_OWNER};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEndpoint {
    /// A response: `POST /v1/responses`, a message of a WebSocket, or a job.
    Responses,
    /// A compacted history: `POST /v1/responses/compact`.
    Compact,
}

/// A request that runs a turn, without its body. Made by the HTTP handlers, by a WebSocket for each
/// message, by the queue of background responses, by a replay, and by the doctor.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// What it asks for.
    pub endpoint: TurnEndpoint,
    /// Its id, which the log and the response name; empty if it has none.
    pub id: Arc<str>,
    /// Whose request it is.
    pub owner: Arc<str>,
    /// The token that let it in.
    pub by: AdmittedBy,
    /// Its path and query. They are recorded; nothing depends on them.
    pub uri: Uri,
    /// The headers of the client.
    pub headers: HeaderMap,
    /// The connection that it came on; `None` if nobody waits on one.
    pub client: Option<ClientConnection>,
    /// Whether another turn waits for it, which counts for the limits of the owner already.
    pub is_part_of_turn: bool,
}

impl TurnEndpoint {
    /// What a request to this path asks for.
    pub fn of_path(path: &str) -> Self {
        if path.ends_with("/compact") {
            Self::Compact
        } else {
            Self::Responses
        }
    }
}

/// A request of whoever runs the server to `POST /v1/responses`, without headers.
impl Default for TurnRequest {
    fn default() -> Self {
        Self {
            endpoint: TurnEndpoint::Responses,
            id: "".into(),
            owner: LOCAL_OWNER.into(),
            by: AdmittedBy::default(),
            uri: Uri::from_static("/v1/responses"),
            headers: HeaderMap::new(),
            client: None,
            is_part_of_turn: false,
        }
    }
}
