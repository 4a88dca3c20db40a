//! What the requests of all search engines have in common.

use std::fmt;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value};
use url::Url;
use zeroize::Zeroizing;

use super::{SearchError, WebQuery, WebRequest};
use crate::secrets::Secret;

/// How a search engine is reached. The `Debug` output has only the host of the address, which may
/// have a password.
#[derive(Clone)]
pub struct EngineSettings {
    /// The address of its API, without the path of the search.
    pub base_url: Url,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The model that searches, for OpenRouter alone. Without it the user's default is asked.
    pub model: Option<String>,
    /// How much Perplexity sends; no other search engine can be told.
    pub limits: ResultLimits,
    /// What a search costs that it answers, in US dollars.
    pub price: f64,
}

/// How much a search engine sends. What is absent follows from the number of results that are asked
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultLimits {
    /// The most results.
    pub results: Option<u32>,
    /// The most tokens of all results.
    pub tokens: Option<u32>,
    /// The most tokens of a result.
    pub tokens_per_page: Option<u32>,
}

impl fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSettings")
            .field("host", &self.base_url.host_str())
            .field("key", &self.key)
            .field("model", &self.model)
            .field("limits", &self.limits)
            .field("price", &self.price)
            .finish()
    }
}

impl EngineSettings {
    /// The address of an endpoint below the base address.
    pub(super) fn endpoint(&self, path: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // An address that has no path is that of no server.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// The key. A search engine would answer 401 to a request without one.
    pub(super) fn key(&self) -> Result<&Secret, SearchError> {
        let missing = SearchError::Key(StatusCode::UNAUTHORIZED);
        self.key.as_ref().ok_or(missing)
    }
}

impl WebRequest {
    /// A GET request that wants JSON.
    pub(super) fn get(url: Url) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self {
            method: Method::GET,
            url,
            headers,
            body: Vec::new(),
        }
    }

    /// A POST request with JSON, which wants JSON.
    pub(super) fn post(url: Url, body: Map<String, Value>) -> Self {
        let mut request = Self::get(url);
        request.method = Method::POST;
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(CONTENT_TYPE, json);
        request.body = Value::Object(body).to_string().into_bytes();
        request
    }

    /// The request with the key in a header.
    pub(super) fn with_key(mut self, name: HeaderName, key: &Secret) -> Result<Self, SearchError> {
        self.headers.insert(name, header_of(key.expose())?);
        Ok(self)
    }

    /// The request with the key as a bearer token.
    pub(super) fn with_bearer(mut self, key: &Secret) -> Result<Self, SearchError> {
        let token = Zeroizing::new(format!("Bearer {}", key.expose()));
        self.headers.insert(AUTHORIZATION, header_of(&token)?);
        Ok(self)
    }
}

/// A header value that is never printed. A key with characters that no header can hold is a wrong
/// key.
fn header_of(secret: &str) -> Result<HeaderValue, SearchError> {
    let value = HeaderValue::from_str(secret);
    let mut value = value.map_err(|_| SearchError::Key(StatusCode::UNAUTHORIZED))?;
    value.set_sensitive(true);
    Ok(value)
}

/// How many results are asked for, if the query says so, with the maximum of the search engine.
pub(super) fn count(query: &WebQuery, max: usize) -> Option<usize> {
    (query.results > 0).then(|| query.results.min(max))
}

/// The country of the user, in capital letters, if it is one of ISO 3166-1.
pub(super) fn country(query: &WebQuery) -> Option<String> {
    let country = query.location.as_ref()?.country.as_deref()?.trim();
    let is_code = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_code.then(|| country.to_ascii_uppercase())
}
