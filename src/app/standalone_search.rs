//! `POST /v1/alpha/search`: what Codex asks for when its model calls `web.run`.
//!
//! Codex sends the commands of the model as they are, and gives it the `output`. An error status
//! becomes the text that the model gets; on those from 500 on Codex asks four times more.

use axum::body::Body;
use axum::extract::State;
use http::Response;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::owner::RequestOwner;
use super::stored::error::StoredHttpError;
use super::web::{parsed, search_is_off, wrong};
use super::{AppState, respond_with_json};
use crate::net::{Owner, bounded_id};
use crate::serve::DecodedRequest;
use crate::tools::page_artifacts::PageArtifacts;
use crate::tools::web::commands::{CommandSettings, ReferencedResult, WebCommands, run_commands};
use crate::tools::web::search::UserLocation;
use crate::tools::web::shown::SearchContext;

/// The tokens of an answer when the request does not say.
const DEFAULT_TOKENS: u64 = 2_500;
/// The most tokens of an answer.
const MAX_TOKENS: u64 = 12_500;
/// How many bytes are counted as a token, as Codex does it.
const BYTES_OF_TOKEN: usize = 4;

/// The most bytes of the commands, and of the settings: they take more memory once they are read.
const MAX_PART: usize = 256 << 10;

/// The request. What Codex sends besides, such as the last messages, is not needed.
#[derive(Deserialize)]
struct StandaloneSearch {
    /// The session.
    id: String,
    commands: Option<Box<RawValue>>,
    settings: Option<Box<RawValue>>,
    max_output_tokens: Option<u64>,
}

/// What the user has set in Codex.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SearchSettings {
    user_location: Option<UserLocation>,
    search_context_size: Option<SearchContext>,
    filters: Option<DomainFilters>,
    /// Whether the web may be asked. A mode by name allows an index of the provider, which this
    /// server does not have.
    external_web_access: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DomainFilters {
    allowed_domains: Option<Vec<String>>,
    blocked_domains: Option<Vec<String>>,
}

/// The response. Codex shows the results to the user.
#[derive(Serialize)]
struct StandaloneSearchReply {
    output: String,
    encrypted_output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<Vec<ReferencedResult>>,
}

/// `POST /v1/alpha/search`. Dropped when the client goes away, which ends what is on its way.
pub(super) async fn run(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Result<Response<Body>, StoredHttpError> {
    // Its memory counts until the answer is made.
    let _memory = request.memory;
    let asked: StandaloneSearch = parsed(&request.body)?;
    let commands: WebCommands = part("commands", asked.commands.as_deref())?;
    let settings: SearchSettings = part("settings", asked.settings.as_deref())?;
    let _slot = app.service.admit(&owner, &app.service.config.load())?;
    let Some(tools) = app.web.of_owner(&owner) else {
        return Ok(search_is_off());
    };
    let filters = settings.filters.unwrap_or_default();
    let tokens = asked
        .max_output_tokens
        .unwrap_or(DEFAULT_TOKENS)
        .min(MAX_TOKENS);
    let settings = CommandSettings {
        cache_only: settings
            .external_web_access
            .is_some_and(|access| access != Value::Bool(true)),
        allowed_domains: filters.allowed_domains.unwrap_or_default(),
        blocked_domains: filters.blocked_domains.unwrap_or_default(),
        location: settings.user_location,
        results: settings.search_context_size.unwrap_or_default().results(),
        max_bytes: usize::try_from(tokens).unwrap_or(usize::MAX) * BYTES_OF_TOKEN,
    };
    let session = bounded_id(asked.id.into());
    let references = &app.web.references;
    let mut call = references.begin_call(&owner, &session).await;
    let pages = PageArtifacts::new(app.service.all_artifacts(), &owner, &session);
    let output = run_commands(&tools, &pages, &mut call, &commands, &settings).await;
    references.keep(&owner, &session, &call).await;
    if let Some(refused) = output.refused {
        return Err(refused.into());
    }
    Ok(respond_with_json(&StandaloneSearchReply {
        output: output.text,
        encrypted_output: None,
        results: output.results,
    }))
}

/// A part of the request, or what it is without one.
fn part<T: Default + DeserializeOwned>(
    name: &str,
    part: Option<&RawValue>,
) -> Result<T, StoredHttpError> {
    let json = part.map_or("null", RawValue::get);
    if json.len() > MAX_PART {
        return Err(wrong(name, &format!("may have {MAX_PART} bytes.")));
    }
    let read: Option<T> = serde_json::from_str(json)
        .map_err(|error| wrong(name, &format!("cannot be used: {error}.")))?;
    Ok(read.unwrap_or_default())
}
