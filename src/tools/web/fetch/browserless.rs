//! Asks Browserless for a page: a browser elsewhere, which runs the scripts of the page.
//!
//! `/content`: <https://docs.browserless.io/rest-apis/content>; what it waits for:
//! <https://docs.browserless.io/rest-apis/request-configuration>. `/unblock`:
//! <https://docs.browserless.io/rest-apis/unblock>. Both take the token in the query. The status of
//! the page is in `X-Response-Code`, and its address in `X-Response-URL`.

use std::fmt;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;
use url::Url;

use super::FetchedPage;
use crate::clock::milliseconds;
use crate::secrets::Secret;
use crate::tools::web::client::{WebClient, WebError, WebLimits, WebRequest, WebResponse};

/// The server, unless the operator names another one.
pub const BASE_URL: &str = "https://production-sfo.browserless.io";

/// How long the browser may take to load a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(20);

const RESPONSE_CODE: HeaderName = HeaderName::from_static("x-response-code");
const RESPONSE_URL: HeaderName = HeaderName::from_static("x-response-url");

/// How Browserless is reached, and what it waits for. The `Debug` output does not have the address,
/// which may have a password.
#[derive(Clone)]
pub struct BrowserlessSettings {
    /// The address of the server.
    pub base_url: Url,
    /// The token.
    pub token: Secret,
    /// It waits for an element with this CSS selector.
    pub wait_for_selector: Option<String>,
    /// It waits for this time after the page was loaded.
    pub wait_for_timeout: Option<Duration>,
}

impl fmt::Debug for BrowserlessSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserlessSettings")
            .field("host", &self.base_url.host_str())
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// Why Browserless has no page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrowserlessError {
    /// The server of the page refuses.
    #[error("the server of the page answered {0}")]
    Page(StatusCode),
    /// Browserless refuses.
    #[error("Browserless answered {0}")]
    Service(StatusCode),
    /// There is no answer.
    #[error(transparent)]
    NoAnswer(#[from] WebError),
    /// An answer of an unknown form.
    #[error("Browserless has answered something that cannot be read")]
    BadReply,
}

/// Gets pages from Browserless. Its client reaches the server that the operator has configured,
/// wherever it is.
pub struct Browserless {
    client: WebClient,
    settings: BrowserlessSettings,
    max_bytes: usize,
}

impl Browserless {
    /// Pages of up to this many bytes.
    pub fn new(client: WebClient, settings: BrowserlessSettings, max_bytes: usize) -> Self {
        Self {
            client,
            settings,
            max_bytes,
        }
    }

    /// The page as it is after its scripts have run. The address must have been checked.
    pub async fn content(&self, url: &Url) -> Result<FetchedPage, BrowserlessError> {
        let mut body = json!({
            "url": url.as_str(),
            "gotoOptions": {
                "waitUntil": "networkidle2",
                "timeout": milliseconds(PAGE_TIMEOUT),
            },
        });
        self.add_waits(&mut body);
        let response = self.post("content", &body).await?;
        let header = |name| {
            response
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let content_type = header(&CONTENT_TYPE).unwrap_or("text/html");
        Ok(FetchedPage {
            url: last_url(&response, url),
            content_type: content_type.to_ascii_lowercase(),
            body: response.body,
            memory: response.memory,
        })
    }

    /// The page, by ways around what keeps browsers of robots out. The address must have been
    /// checked.
    pub async fn unblock(&self, url: &Url) -> Result<FetchedPage, BrowserlessError> {
        #[derive(Deserialize)]
        struct Unblocked {
            content: String,
        }
        let mut body = json!({
            "url": url.as_str(),
            "content": true,
            "cookies": false,
            "screenshot": false,
            "browserWSEndpoint": false,
        });
        self.add_waits(&mut body);
        let response = self.post("unblock", &body).await?;
        let both = response.body.len() * 2;
        let memory = &response.memory;
        memory.grow(both).map_err(|_| WebError::NoMemory)?;
        let unblocked: Result<Unblocked, _> = serde_json::from_slice(&response.body);
        let unblocked = unblocked.map_err(|_| BrowserlessError::BadReply)?;
        Ok(FetchedPage {
            url: last_url(&response, url),
            content_type: "text/html; charset=utf-8".to_owned(),
            body: unblocked.content.into_bytes(),
            memory: response.memory,
        })
    }

    fn add_waits(&self, body: &mut Value) {
        let Some(body) = body.as_object_mut() else {
            return;
        };
        if let Some(selector) = &self.settings.wait_for_selector {
            let mut wait = Map::new();
            wait.insert("selector".to_owned(), json!(selector));
            wait.insert("timeout".to_owned(), json!(milliseconds(PAGE_TIMEOUT)));
            body.insert("waitForSelector".to_owned(), Value::Object(wait));
        }
        if let Some(time) = self.settings.wait_for_timeout {
            body.insert("waitForTimeout".to_owned(), json!(milliseconds(time)));
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<WebResponse, BrowserlessError> {
        let mut url = self.settings.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(path);
        }
        let token = self.settings.token.expose();
        url.query_pairs_mut().clear().append_pair("token", token);
        let json = HeaderValue::from_static("application/json");
        let request = WebRequest {
            method: Method::POST,
            url,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            body: body.to_string().into_bytes(),
        };
        let limits = WebLimits {
            bytes: self.max_bytes,
            head: FETCH_TIMEOUT,
            total: FETCH_TIMEOUT,
        };
        let response = self.client.send(request, limits).await?;
        let code = response.headers.get(RESPONSE_CODE);
        let code = code.and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
        match code {
            Some(code) if !code.is_success() => Err(BrowserlessError::Page(code)),
            _ if !response.status.is_success() => Err(BrowserlessError::Service(response.status)),
            _ => Ok(response),
        }
    }
}

/// Where the browser was at last.
fn last_url(response: &WebResponse, asked: &Url) -> Url {
    let url = response.headers.get(RESPONSE_URL);
    let url = url.and_then(|url| Url::parse(url.to_str().ok()?).ok());
    url.unwrap_or_else(|| asked.clone())
}
