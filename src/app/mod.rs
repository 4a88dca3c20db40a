//! The application behind the HTTP edge: the handlers of all routes.
//!
//! | module | handlers |
//! |---|---|
//! | `responses` | turns |
//! | `websocket` | turns over a WebSocket |
//! | [`models`] | the model list and its entries |
//! | `standalone_search` | searches and pages for Codex's own loop |
//! | `stored` | stored responses and conversations |
//! | [`artifacts`] | stored tool outputs, read back |
//! | [`diagnostics`] | recent turns |
//! | [`jobs`] | background responses |
//! | `openapi` | the description of all routes |
//! | [`status`] | what the server is doing and has done |
//! | [`store`] | deletes everything that is stored |
//! | [`web`] | searches of the web and its pages |

pub mod artifacts;
pub mod diagnostics;
pub mod jobs;
pub mod models;
mod openapi;
mod owner;
mod query;
mod responses;
mod routes;
mod standalone_search;
pub mod status;
pub mod store;
mod stored;
pub mod web;
mod websocket;

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::artifacts::owner::OwnerArtifacts;
use crate::diagnostics::capture::TurnCapture;
use crate::jobs::JobQueue;
use crate::log::SafeText;
use crate::metrics::usage::UsageLog;
use crate::net::memory::{CountedValue, ProcessMemory};
use crate::secrets::Secret;
use crate::serve::error::internal;
use crate::serve::{BodyIsCounted, DecodedRequest, RefusalObserver, RefusalReason};
use crate::tools::live::LiveWebTools;
use crate::turn::{Caller, Service};
use crate::upstream::discovery::keeper::DiscoveryKeeper;
use axum::body::Body;

use owner::RequestArtifacts;
pub use routes::{answer_artifact_request, routes};

/// The state that the handlers share. Cloning it is cheap.
#[derive(Clone)]
pub struct AppState {
    /// Runs turns.
    pub service: Arc<Service>,
    /// The recent turns.
    pub capture: TurnCapture,
    /// When the server started, in milliseconds since 1970.
    pub started_ms: u64,
    /// The memory budget of the process.
    pub memory: ProcessMemory,
    /// What turns have used.
    pub usage: UsageLog,
    /// Asks the providers for their models.
    pub discovery: Arc<DiscoveryKeeper>,
    /// The background responses, if responses are stored.
    pub jobs: Option<Arc<JobQueue>>,
    /// Whether the server ends with a program that `respondent run` runs.
    pub temporary: bool,
    /// Searches the web and reads its pages, as the configuration says.
    pub web: Arc<LiveWebTools>,
}

impl FromRef<AppState> for OwnerArtifacts {
    fn from_ref(app: &AppState) -> Self {
        app.service.artifacts()
    }
}

impl RefusalObserver for AppState {
    /// Codex repeats a request five times on any error status but 400, so it gets 400.
    fn refused(
        &self,
        reason: RefusalReason,
        request_headers: &HeaderMap,
        status: StatusCode,
    ) -> StatusCode {
        self.service.metrics.refused(reason.label());
        if Caller::from_headers(request_headers).codex && status.is_client_error() {
            StatusCode::BAD_REQUEST
        } else {
            status
        }
    }

    fn presented(&self, client_token: &Secret) {
        let config = &self.service.config;
        if !config.load().clients.has_seen(client_token.expose()) {
            config.rcu(|config| config.with_client_token(client_token));
        }
    }
}

/// The body of `GET /healthz`.
#[derive(Debug, Deserialize, Serialize)]
pub struct HealthReport {
    /// `ok`.
    pub status: Cow<'static, str>,
    /// The name of the program.
    pub name: Cow<'static, str>,
    /// The version of the program.
    pub version: Cow<'static, str>,
    /// Whether the server ends with a program that `respondent run` runs.
    #[serde(default)]
    pub temporary: bool,
}

/// `GET /healthz`.
async fn health(State(app): State<AppState>) -> Response<Body> {
    respond_with_json(&HealthReport {
        status: "ok".into(),
        name: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        temporary: app.temporary,
    })
}

/// `GET /`, for a user who opens the address in a browser.
async fn index(headers: HeaderMap) -> Response<Body> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let text = format!(
        "Respondent {} is running. It answers the OpenAI Responses API.\n\n\
         Base URL for clients: http://{}/v1\n\n\
         GET /v1/models       the models\n\
         GET /healthz         whether the server runs\n\
         GET /metrics         figures for Prometheus\n\
         GET /openapi.json    all routes\n\n\
         respondent codex setup    in a terminal sets Codex up for it\n\
         respondent status         what it does\n\
         respondent --help         all commands\n",
        env!("CARGO_PKG_VERSION"),
        SafeText::new(host.unwrap_or("localhost")),
    );
    respond_with("text/plain; charset=utf-8", text)
}

/// `GET /metrics`.
async fn metrics(State(app): State<AppState>) -> Response<Body> {
    let metrics = &app.service.metrics;
    metrics.set_memory(&app.memory);
    let runtime = tokio::runtime::Handle::current();
    metrics.set_tasks(runtime.metrics().num_alive_tasks());
    if let Some(jobs) = &app.jobs {
        let counts = jobs.counts();
        metrics.set_jobs(counts.queued, counts.running, counts.viewers);
    }
    respond_with(crate::metrics::CONTENT_TYPE, metrics.render())
}

/// `POST /mcp`.
async fn mcp(RequestArtifacts(owned): RequestArtifacts, request: DecodedRequest) -> Response<Body> {
    // Its memory counts until the answer is made.
    let _memory = request.memory;
    // A body that is sound already is not copied.
    let sound = match adapters::json::sound(&request.body) {
        Cow::Owned(sound) => Some(sound),
        Cow::Borrowed(_) => None,
    };
    let body = sound.unwrap_or(request.body);
    crate::mcp::answer(owned, request.head, body).await
}

fn respond_with(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    ([(CONTENT_TYPE, content_type)], body.into()).into_response()
}

/// A response whose body holds the share of its memory until the client has taken it.
fn respond_with_counted(
    content_type: &'static str,
    body: CountedValue<impl AsRef<[u8]> + Send + 'static>,
) -> Response<Body> {
    let mut response = respond_with(content_type, body.into_bytes());
    response.extensions_mut().insert(BodyIsCounted);
    response
}

fn respond_with_json(content: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(content) {
        Ok(json) => respond_with("application/json", json),
        Err(_) => internal(),
    }
}

/// Sets a header, unless the value cannot be one, such as a call id with line ends.
pub(super) fn set_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
