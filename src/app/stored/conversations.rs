//! `/v1/conversations` and what is below it.

use adapters::json;
use adapters::stored_history::{items_to_store, push_listed_item};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use http::Response;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::error::StoredHttpError;
use super::{StoredReply, items, store};
use crate::app::owner::RequestOwner;
use crate::app::{AppState, respond_with, respond_with_json};
use crate::clock::{Clock, Random, System};
use crate::net::Owner;
use crate::net::memory::{CountedValue, MemoryShare, SharedMemory};
use crate::responses::memory_fault;
use crate::serve::DecodedRequest;
use crate::store::{ItemListOf, ListedItems, NewItem, StoredConversation};

/// The most items that one request adds.
const MAX_NEW_ITEMS: usize = 20;

/// The body of a request that creates or changes a conversation, or adds items to one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConversationBody<'a> {
    #[serde(borrow)]
    items: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

impl<'a> ConversationBody<'a> {
    fn read(body: &'a str) -> Result<Self, StoredHttpError> {
        if body.trim().is_empty() {
            return Ok(Self::default());
        }
        // serde would read a list as the fields in their order.
        if !body.trim_start().starts_with('{') {
            return Err(StoredHttpError::Body {
                param: "body".to_owned(),
                message: "The request body must be a JSON object.".to_owned(),
            });
        }
        serde_json::from_str(body).map_err(|error| StoredHttpError::Body {
            param: "body".to_owned(),
            message: format!(
                "The request body is not one JSON object with 'items' or 'metadata': {error}."
            ),
        })
    }

    /// The items, with ids, and the metadata, both checked.
    fn parts(&self, owner_id: &str) -> Result<(Vec<NewItem>, String), StoredHttpError> {
        let items = self.items.map_or("[]", RawValue::get);
        let metadata = self.metadata.map_or("{}", RawValue::get);
        let found = items_to_store(items, metadata, owner_id)?;
        if found.len() > MAX_NEW_ITEMS {
            return Err(StoredHttpError::Body {
                param: "items".to_owned(),
                message: format!("One request adds at most {MAX_NEW_ITEMS} items."),
            });
        }
        let found = found.into_iter().map(NewItem::from);
        Ok((found.collect(), metadata.to_owned()))
    }
}

/// `POST /v1/conversations`.
pub(in crate::app) async fn create(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> StoredReply {
    let store = store(&app)?;
    let id = format!("conv_{:032x}", System.bits());
    let (items, metadata, _memory) = read_items(request, &id)?;
    let conversation = StoredConversation {
        id,
        metadata,
        created: System.unix(),
    };
    check_room(&app, &owner, &items, conversation.metadata.len()).await?;
    let shown = shown(&conversation);
    store
        .create_conversation(&owner, conversation, items)
        .await?;
    Ok(shown)
}

/// `GET /v1/conversations/{id}`.
pub(in crate::app) async fn retrieve(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
) -> StoredReply {
    check_id(&id)?;
    let found = store(&app)?.conversation(&owner, &id).await?;
    Ok(shown(&found.ok_or_else(|| missing(&id))?))
}

/// `POST /v1/conversations/{id}`: replaces the metadata.
pub(in crate::app) async fn update(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
    request: DecodedRequest,
) -> StoredReply {
    check_id(&id)?;
    let store = store(&app)?;
    let body = json::sound(&request.body);
    let body = ConversationBody::read(&body)?;
    if body.metadata.is_none() {
        return Err(StoredHttpError::Body {
            param: "metadata".to_owned(),
            message: "The parameter 'metadata' is required: nothing else of a conversation can be changed.".to_owned(),
        });
    }
    // This route adds no items.
    let of_metadata = ConversationBody {
        items: None,
        ..body
    };
    let (_, metadata) = of_metadata.parts(&id)?;
    if !store.update_conversation(&owner, &id, metadata).await? {
        return Err(missing(&id));
    }
    let found = store.conversation(&owner, &id).await?;
    Ok(shown(&found.ok_or_else(|| missing(&id))?))
}

/// `DELETE /v1/conversations/{id}`.
pub(in crate::app) async fn remove(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
) -> StoredReply {
    check_id(&id)?;
    if !store(&app)?.delete_conversation(&owner, &id).await? {
        return Err(missing(&id));
    }
    Ok(respond_with_json(
        &json!({"id": id, "object": "conversation.deleted", "deleted": true}),
    ))
}

/// `POST /v1/conversations/{id}/items`.
pub(in crate::app) async fn add_items(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
    request: DecodedRequest,
) -> StoredReply {
    check_id(&id)?;
    let store = store(&app)?;
    // Their ids must differ from those of items that were added before.
    let new = format!("item_{:032x}", System.bits());
    let (items, _, memory) = read_items(request, &new)?;
    check_room(&app, &owner, &items, 0).await?;
    let added = ListedItems {
        items,
        has_more: false,
    };
    let shown = items::list_json(&added);
    if !store
        .add_conversation_items(&owner, &id, added.items)
        .await?
    {
        return Err(missing(&id));
    }
    let shown = CountedValue::new(shown, SharedMemory::new(memory));
    Ok(items::respond_with_made(shown))
}

/// The items with ids and the metadata of a body, and its share, which has room for what is made
/// of the items.
fn read_items(
    mut request: DecodedRequest,
    owner_id: &str,
) -> Result<(Vec<NewItem>, String, MemoryShare), StoredHttpError> {
    let needed = request.body.len().saturating_mul(items::COPIES);
    let grown = request.memory.grow(needed);
    grown.map_err(|full| memory_fault(&full))?;
    let (items, metadata) = ConversationBody::read(&json::sound(&request.body))?.parts(owner_id)?;
    Ok((items, metadata, request.memory))
}

/// `GET /v1/conversations/{id}/items`.
pub(in crate::app) async fn list_items(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> StoredReply {
    check_id(&id)?;
    let page = items::page(query.as_deref())?;
    let store = store(&app)?;
    let list = ItemListOf::Conversation(id.clone());
    match store.list_items(&owner, &list, &page).await? {
        Some(listed) => Ok(items::list(listed)),
        None if store.conversation(&owner, &id).await?.is_some() => Err(items::unknown_after()),
        None => Err(missing(&id)),
    }
}

/// `GET /v1/conversations/{id}/items/{item}`.
pub(in crate::app) async fn retrieve_item(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path((id, item)): Path<(String, String)>,
) -> StoredReply {
    check_id(&id)?;
    let list = ItemListOf::Conversation(id);
    let found = store(&app)?.item(&owner, &list, &item).await?;
    let json = found.ok_or_else(|| missing_item(&item))?;
    Ok(items::respond_with_made(json.map(|json| {
        let mut listed = Vec::new();
        push_listed_item(&mut listed, &json);
        listed
    })))
}

/// `DELETE /v1/conversations/{id}/items/{item}`: the conversation.
pub(in crate::app) async fn remove_item(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path((id, item)): Path<(String, String)>,
) -> StoredReply {
    check_id(&id)?;
    let store = store(&app)?;
    if !store.delete_conversation_item(&owner, &id, &item).await? {
        return Err(missing_item(&item));
    }
    let found = store.conversation(&owner, &id).await?;
    Ok(shown(&found.ok_or_else(|| missing(&id))?))
}

/// Refuses items and metadata for which the owner has no room.
async fn check_room(
    app: &AppState,
    owner: &str,
    items: &[NewItem],
    metadata: usize,
) -> Result<(), StoredHttpError> {
    let bytes: usize = items.iter().map(|item| item.json.len()).sum();
    let settings = app.service.config.load().responses;
    let responses = app.service.responses();
    let added = (bytes + metadata) as u64;
    Ok(responses.check_room(owner, added, settings).await?)
}

fn shown(conversation: &StoredConversation) -> Response<Body> {
    let StoredConversation {
        id,
        metadata,
        created,
    } = conversation;
    respond_with(
        "application/json",
        format!(
            r#"{{"id":"{id}","object":"conversation","created_at":{created},"metadata":{metadata}}}"#
        ),
    )
}

fn check_id(id: &str) -> Result<(), StoredHttpError> {
    super::check_id(id, "conv_", "conversation")
}

fn missing(id: &str) -> StoredHttpError {
    StoredHttpError::Missing {
        kind: "Conversation",
        id: id.to_owned(),
    }
}

fn missing_item(id: &str) -> StoredHttpError {
    StoredHttpError::Missing {
        kind: "Item",
        id: id.chars().take(80).collect(),
    }
}
