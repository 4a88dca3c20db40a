//! Routes, and what happens to each request around its handler.
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, TRANSFER_ENCODING, UPGRADE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body as HttpBody;

use super::body::read;
use super::error::{close, internal, method_not_allowed, not_found, upgrade_required};
use super::guard::{Verdict, check, permit};
use super::{Body, BodyLimits, GuardSettings, Reason};

/// What answers behind the edge. A panic in any of these costs its request alone.
pub trait App: Send + Sync + 'static {
    /// `POST /v1/responses`, with the body decoded. Dropped when the client goes away.
    fn responses(&self, head: Parts, body: String) -> impl Future<Output = Response<Body>> + Send;

    /// `POST /v1/responses/compact`, with the body decoded.
    fn compact(&self, head: Parts, body: String) -> impl Future<Output = Response<Body>> + Send {
        let _ = (head, body);
        std::future::ready(not_found())
    }

    /// `POST /v1/responses/input_tokens`, with the body decoded.
    fn input_tokens(
        &self,
        head: Parts,
        body: String,
    ) -> impl Future<Output = Response<Body>> + Send {
        let _ = (head, body);
        std::future::ready(not_found())
    }

    /// `GET` and `DELETE` of `/v1/artifacts` and what lies below it.
    fn artifacts(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send {
        let _ = head;
        std::future::ready(not_found())
    }

    /// `POST /mcp`, with the body decoded.
    fn mcp(&self, head: Parts, body: String) -> impl Future<Output = Response<Body>> + Send {
        let _ = (head, body);
        std::future::ready(not_found())
    }

    /// `GET /v1/models`.
    fn models(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send;

    /// `GET /healthz`, which asks for no token.
    fn healthz(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send;

    /// `GET /metrics`.
    fn metrics(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send;

    /// `GET /diagnostics/turns`: which turns are kept.
    fn turns(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send;

    /// `GET /diagnostics/bundle`: some of them in a file.
    fn bundle(&self, head: Parts) -> impl Future<Output = Response<Body>> + Send;

    /// Told of each request that the edge refused, with the answer to it, which may
    /// be changed for callers that treat a status in their own way.
    fn refused(&self, _reason: Reason, _head: &Parts, _answer: &mut Response<Body>) {}
}

/// What can change while running.
#[derive(Debug, Clone, Default)]
pub struct EdgeSettings {
    /// Who may talk to us.
    pub guard: GuardSettings,
    /// How large and slow a body may be.
    pub body: BodyLimits,
}

/// The id of a request, in the extensions of its head and in `x-request-id` of
/// every answer: `req_` and 32 hexadecimal digits of randomness.
#[derive(Debug, Clone)]
pub struct RequestId(
    /// The id itself.
    pub Arc<str>,
);

/// The service of every connection: guard, route, body, [`App`].
pub struct Edge<A> {
    inner: Arc<Inner<A>>,
}

struct Inner<A> {
    app: A,
    settings: Arc<ArcSwap<EdgeSettings>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Responses,
    Compact,
    InputTokens,
    Artifacts,
    Mcp,
    Models,
    Healthz,
    Metrics,
    Turns,
    Bundle,
}

impl Route {
    /// The route of a path, compared as it was sent: an escaped slash or a dot
    /// segment never names anything.
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/responses" | "/responses" | "/openai/v1/responses" => Self::Responses,
            "/v1/responses/compact" | "/responses/compact" | "/openai/v1/responses/compact" => {
                Self::Compact
            }
            "/v1/responses/input_tokens"
            | "/responses/input_tokens"
            | "/openai/v1/responses/input_tokens" => Self::InputTokens,
            "/mcp" => Self::Mcp,
            "/v1/artifacts" => Self::Artifacts,
            below if below.starts_with("/v1/artifacts/") => Self::Artifacts,
            "/v1/models" | "/models" | "/openai/v1/models" => Self::Models,
            "/healthz" => Self::Healthz,
            "/metrics" => Self::Metrics,
            "/diagnostics/turns" => Self::Turns,
            "/diagnostics/bundle" => Self::Bundle,
            _ => return None,
        })
    }

    fn allow(self) -> &'static str {
        match self {
            Self::Responses | Self::Compact | Self::InputTokens | Self::Mcp => "POST",
            Self::Artifacts => "GET, HEAD, DELETE",
            Self::Models | Self::Healthz | Self::Metrics | Self::Turns | Self::Bundle => {
                "GET, HEAD"
            }
        }
    }

    fn takes(self, method: &Method) -> bool {
        match self {
            Self::Responses | Self::Compact | Self::InputTokens | Self::Mcp => {
                method == Method::POST
            }
            Self::Artifacts => {
                method == Method::GET || method == Method::HEAD || method == Method::DELETE
            }
            Self::Models | Self::Healthz | Self::Metrics | Self::Turns | Self::Bundle => {
                method == Method::GET || method == Method::HEAD
            }
        }
    }
}

impl<A: App> Edge<A> {
    /// An edge in front of this app. Later changes of the settings hold for the
    /// next request.
    pub fn new(app: A, settings: Arc<ArcSwap<EdgeSettings>>) -> Self {
        Self {
            inner: Arc::new(Inner { app, settings }),
        }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
    {
        let (mut head, body) = request.into_parts();
        let id = RequestId(request_id().into());
        head.extensions.insert(id.clone());
        // An intermediary that reads framing another way could hide a second
        // request behind a chunked body, so nothing is read after one.
        let chunked = head.headers.contains_key(TRANSFER_ENCODING);
        let answered = AssertUnwindSafe(self.inner.pass(head, body))
            .catch_unwind()
            .await;
        let mut response = answered.unwrap_or_else(|_| internal());
        if chunked {
            response = close(response);
        }
        seal(response.headers_mut(), &id);
        response
    }
}

impl<A: App> Inner<A> {
    async fn pass<B>(&self, head: Parts, body: B) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
    {
        let settings = self.settings.load_full();
        match check(&settings.guard, &head) {
            Verdict::Answer(response) => response,
            Verdict::Refuse(reason, mut response) => {
                self.app.refused(reason, &head, &mut response);
                response
            }
            Verdict::Pass(origin) => {
                let mut response = self.dispatch(&settings.body, head, body).await;
                if let Some(origin) = &origin {
                    permit(response.headers_mut(), origin);
                }
                response
            }
        }
    }

    async fn dispatch<B>(&self, limits: &BodyLimits, head: Parts, body: B) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
    {
        let Some(route) = Route::of(head.uri.path()) else {
            return not_found();
        };
        if route == Route::Responses && head.method == Method::GET && wants_websocket(&head.headers)
        {
            return upgrade_required();
        }
        if !route.takes(&head.method) {
            return method_not_allowed(route.allow());
        }
        match route {
            Route::Responses | Route::Compact | Route::InputTokens | Route::Mcp => {
                match read(limits, &head, body).await {
                    Ok(body) => match route {
                        Route::Compact => self.app.compact(head, body).await,
                        Route::InputTokens => self.app.input_tokens(head, body).await,
                        Route::Mcp => self.app.mcp(head, body).await,
                        _ => self.app.responses(head, body).await,
                    },
                    Err(fault) => {
                        let mut response = fault.respond();
                        self.app.refused(fault.reason(), &head, &mut response);
                        response
                    }
                }
            }
            Route::Artifacts => self.app.artifacts(head).await,
            Route::Models => self.app.models(head).await,
            Route::Healthz => self.app.healthz(head).await,
            Route::Metrics => self.app.metrics(head).await,
            Route::Turns => self.app.turns(head).await,
            Route::Bundle => self.app.bundle(head).await,
        }
    }
}

impl<A: App, B> hyper::service::Service<Request<B>> for Edge<A>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.answer(request).await) })
    }
}

impl<A> Clone for Edge<A> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

fn wants_websocket(headers: &HeaderMap) -> bool {
    headers
        .get_all(UPGRADE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

/// The headers of every answer: answers hold conversations, which no cache keeps
/// and no browser guesses a type for.
fn seal(headers: &mut HeaderMap, id: &RequestId) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}

fn request_id() -> String {
    let mut bytes = [0; 16];
    // The id only ties a log line to an answer: without randomness it is zero, and
    // the request goes on.
    let _ = getrandom::fill(&mut bytes);
    format!("req_{:032x}", u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{Route, request_id};

    // R29
    #[test]
    fn only_the_literal_paths_are_routes() {
        assert_eq!(Route::of("/v1/responses"), Some(Route::Responses));
        assert_eq!(Route::of("/openai/v1/models"), Some(Route::Models));
        for path in [
            "",
            "/",
            "*",
            "/v1",
            "/v1/responses/",
            "//v1/responses",
            "/v1%2fresponses",
            "/v1/../v1/responses",
            "/V1/responses",
            "/v1/responses%00",
            "/v1/./models",
            "/v1/responses/..%2f..%2fetc",
        ] {
            assert_eq!(Route::of(path), None, "{path}");
        }
    }

    #[test]
    fn ids_are_random_and_of_one_shape() {
        let (one, two) = (request_id(), request_id());
        assert_ne!(one, two);
        assert_eq!(one.len(), 36);
        assert!(one.starts_with("req_"));
    }
}
