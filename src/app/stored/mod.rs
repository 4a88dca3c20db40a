//! The handlers of stored responses and conversations.
//!
//! | module | handlers |
//! |---|---|
//! | `responses` | the list of `/v1/responses`; `/v1/responses/{id}`: read, deleted, cancelled, its events |
//! | `conversations` | `/v1/conversations` |
//! | `sources` | `/v1/responses/{id}/sources` |
//! | `items` | lists |
//! | `error` | why such a request fails |

pub(in crate::app) mod conversations;
pub(super) mod error;
pub(in crate::app) mod items;
pub(in crate::app) mod responses;
pub(in crate::app) mod sources;

use std::sync::Arc;

use adapters::responses::request::is_resource_id;
use axum::body::Body;
use http::Response;

use self::error::StoredHttpError;
use super::AppState;
use crate::store::Store;

/// The response to such a request.
type StoredReply = Result<Response<Body>, StoredHttpError>;

/// Refuses an id that nothing stored can have, without a query.
fn check_id(id: &str, prefix: &str, kind: &'static str) -> Result<(), StoredHttpError> {
    if is_resource_id(id, prefix) {
        Ok(())
    } else {
        Err(StoredHttpError::MalformedId(kind))
    }
}

/// The store of responses.
fn store(app: &AppState) -> Result<&Arc<Store>, StoredHttpError> {
    let responses = app.service.responses();
    if let Some(fault) = responses.unusable_fault() {
        return Err(fault.into());
    }
    responses.store().ok_or(StoredHttpError::NotStored)
}
