//! The checks before a handler and the headers after it, the same for every request.
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use tower::{Service, ServiceExt};

use super::body::RefusedBody;
use super::counted_body::count_body;
use super::error::{close, internal, too_many_connections};
use super::guard::{Admitted, GuardVerdict, add_cors_headers, check};
use super::refused_names::RefusedNames;
use super::{BodyLimits, GuardSettings, RefusalReason};
use crate::net::fairness::FairPlaces;
use crate::net::{ClientConnection, RequestId};
use crate::secrets::Secret;

/// The outer service of every connection: it identifies the request, lets the guard
/// check it, and calls the inner service, which routes it to a handler. A panic there
/// costs only its own request.
#[derive(Clone)]
pub struct Edge<S> {
    service: S,
    shared: Arc<EdgeShared>,
}

/// Settings of the edge that can change while the server runs.
#[derive(Debug, Clone, Default)]
pub struct EdgeSettings {
    /// Who may talk to this server.
    pub guard: GuardSettings,
    /// How large and how slow a request body may be.
    pub body: BodyLimits,
    /// The connections, if no owner may take all of them.
    pub connections: Option<Arc<FairPlaces>>,
}

/// Learns of every request that the guard or a body limit refused.
pub trait RefusalObserver: Send + Sync + 'static {
    /// Takes note of a refusal. Returns the status to answer with, which is `status`
    /// except for clients that mistreat it.
    fn refused(
        &self,
        reason: RefusalReason,
        request_headers: &HeaderMap,
        status: StatusCode,
    ) -> StatusCode;

    /// Takes note of the token of a client that sends a request, so that it can be redacted.
    fn presented(&self, client_token: &Secret);
}

struct EdgeShared {
    settings: Arc<ArcSwap<EdgeSettings>>,
    refused_names: RefusedNames,
    observer: Box<dyn RefusalObserver>,
}

impl<S> Edge<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    /// An edge in front of this service, usually a [`RouteService`](super::RouteService).
    /// A change of the settings applies to the next request.
    pub fn new(
        service: S,
        settings: Arc<ArcSwap<EdgeSettings>>,
        observer: impl RefusalObserver,
    ) -> Self {
        let observer = Box::new(observer);
        Self {
            service,
            shared: Arc::new(EdgeShared {
                settings,
                refused_names: RefusedNames::default(),
                observer,
            }),
        }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let id = RequestId::random();
        request.extensions_mut().insert(id.clone());
        // An intermediary that reads the framing differently could hide a second request
        // behind a chunked body, so nothing is read after one.
        let chunked = request.headers().contains_key(TRANSFER_ENCODING);
        let answered = AssertUnwindSafe(self.guard(request)).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| internal());
        if chunked {
            response = close(response);
        }
        seal(response.headers_mut(), &id);
        response
    }

    async fn guard<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let settings = self.shared.settings.load_full();
        let (mut head, body) = request.into_parts();
        let verdict = check(&settings.guard, &head);
        if let Some(client) = head.extensions.get::<ClientConnection>() {
            client.set_identified(verdict.caller().is_some());
        }
        match verdict {
            GuardVerdict::Answer(response) => response,
            GuardVerdict::Refuse(reason, mut response, refused) => {
                if let Some(refused) = refused {
                    self.shared.refused_names.warn_once(&refused);
                }
                self.observe(reason, &head.headers, &mut response);
                response
            }
            GuardVerdict::Pass(Admitted { origin, caller }) => {
                let mut limits = settings.body.clone();
                if let Some(caller) = caller {
                    if let Some(token) = caller.client_token {
                        self.shared.observer.presented(&token);
                    }
                    let owner = &caller.owner.0;
                    if !has_connection(&settings, &head, owner) {
                        let mut response = close(too_many_connections(owner));
                        let reason = RefusalReason::Connections;
                        self.observe(reason, &head.headers, &mut response);
                        return response;
                    }
                    limits.memory = limits.memory.of_owner(owner);
                    head.extensions.insert(caller.owner);
                    head.extensions.insert(caller.by);
                }
                let memory = limits.memory.clone();
                head.extensions.insert(limits);
                let response = self.route(Request::from_parts(head, Body::new(body))).await;
                let mut response = count_body(response, &memory);
                if let Some(origin) = &origin {
                    add_cors_headers(response.headers_mut(), origin);
                }
                response
            }
        }
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let Ok(mut response) = self.service.clone().oneshot(request).await;
        if let Some(refused) = response.extensions_mut().remove::<RefusedBody>() {
            self.observe(refused.reason, &refused.request_headers, &mut response);
        }
        response
    }

    fn observe(
        &self,
        reason: RefusalReason,
        request_headers: &HeaderMap,
        response: &mut Response<Body>,
    ) {
        let observer = &self.shared.observer;
        *response.status_mut() = observer.refused(reason, request_headers, response.status());
    }
}

impl<S, B> hyper::service::Service<Request<B>> for Edge<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.answer(request).await) })
    }
}

/// Whether the connection of a request has a place among those of the owner.
fn has_connection(settings: &EdgeSettings, head: &Parts, owner: &Arc<str>) -> bool {
    let client = head.extensions.get::<ClientConnection>();
    match (client, &settings.connections) {
        (Some(client), Some(connections)) => client.belongs_to(owner, connections),
        _ => true,
    }
}

/// Sets the headers of every response. Responses hold conversations: no cache may keep
/// them, and no browser may guess their type.
fn seal(headers: &mut HeaderMap, id: &RequestId) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}
