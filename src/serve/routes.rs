//! The routes of a server as a table, from which the router, the `Allow` headers and the list of
//! served paths are made.
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::routing::future::RouteFuture;
use axum::routing::{self, MethodRouter};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tower::{Service, ServiceExt as _};

use super::RefusalReason;
use super::body::RefusedBody;
use super::error::{internal, invalid_request, method_not_allowed, not_found, operators_only};
use super::guard::single;
use super::path::{PathForm, shown, without_trailing_slash};
use super::websocket::is_handshake;
use crate::net::Owner;

/// The routes of a server, each an [`Endpoint`] under one or several prefixes.
#[derive(Default)]
pub struct RouteTable {
    paths: Vec<PathRoutes>,
    /// Method and path of every endpoint, under its first prefix.
    served: Vec<String>,
}

/// One method of one path with its handler.
///
/// The path has the form of axum's paths: `{id}` takes one segment, `{*id}` one or more.
/// `GET` includes `HEAD`.
pub struct Endpoint<S> {
    method: Method,
    path: &'static str,
    handler: MethodRouter<S>,
    /// Answers the handshakes of WebSockets.
    websocket: Option<MethodRouter<S>>,
}

/// Makes a function that makes the endpoint of a path for one method.
macro_rules! endpoints {
    ($($(#[$doc:meta])* $name:ident: $method:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name<H, T, S>(path: &'static str, handler: H) -> Endpoint<S>
        where
            H: Handler<T, S>,
            T: 'static,
            S: Clone + Send + Sync + 'static,
        {
            Endpoint {
                method: $method,
                path,
                handler: routing::$name(handler),
                websocket: None,
            }
        }
    )*};
}

endpoints! {
    /// Serves `GET` and `HEAD` requests.
    get: Method::GET;
    /// Serves `POST` requests.
    post: Method::POST;
    /// Serves `DELETE` requests.
    delete: Method::DELETE;
}

impl<S: Clone + Send + Sync + 'static> Endpoint<S> {
    /// Answers clients with 403: the endpoint is about the whole server.
    #[must_use]
    pub fn for_operator(mut self) -> Self {
        self.handler = self.handler.route_layer(from_fn(require_operator));
        self
    }

    /// Lets this handler answer the WebSocket handshakes at this path.
    #[must_use]
    pub fn or_websocket<H, T>(mut self, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.websocket = Some(routing::get(handler));
        self
    }
}

/// Whether a request is a POST that is not JSON. A web page can send a form to any address.
fn is_form(request: &Request<Body>) -> bool {
    let headers = request.headers();
    request.method() == Method::POST && !is_json(headers) && !is_empty(headers)
}

async fn refuse_form(request: Request<Body>) -> Response<Body> {
    let mut response = invalid_request(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_content_type",
        "The content type must be application/json; with curl, add -H 'content-type: application/json'.",
    );
    response.extensions_mut().insert(RefusedBody {
        reason: RefusalReason::ContentType,
        request_headers: request.headers().clone(),
    });
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    single(headers, &CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a request has neither a body nor a content type, as those that cancel a response. A
/// form always names a type.
fn is_empty(headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    !headers.contains_key(CONTENT_TYPE)
        && !headers.contains_key(TRANSFER_ENCODING)
        && lengths.all(|length| length == "0")
}

/// Lets only the operator of the server pass.
async fn require_operator(request: Request<Body>, next: Next) -> Response<Body> {
    match request.extensions().get::<Owner>() {
        Some(owner) if owner.is_operator() => next.run(request).await,
        Some(_) => operators_only(),
        None => internal(),
    }
}

/// All endpoints of one path.
struct PathRoutes {
    path: String,
    methods: Vec<Method>,
    handlers: MethodRouter,
    websocket: Option<MethodRouter>,
}

impl RouteTable {
    /// A table without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds these endpoints under each of these prefixes, such as `/v1` or an empty one.
    /// Their handlers get `state`. Error messages name the paths with the first prefix.
    #[must_use]
    pub fn under<S>(
        mut self,
        prefixes: &[&str],
        state: &S,
        endpoints: impl IntoIterator<Item = Endpoint<S>>,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
    {
        for endpoint in endpoints {
            let handler = endpoint.handler.with_state(state.clone());
            let websocket = endpoint.websocket.map(|it| it.with_state(state.clone()));
            if let Some(prefix) = prefixes.first() {
                let path = endpoint.path.replace("{*", "{");
                self.served
                    .push(format!("{} {prefix}{path}", endpoint.method));
            }
            for prefix in prefixes {
                self.add(PathRoutes {
                    path: format!("{prefix}{}", endpoint.path),
                    methods: vec![endpoint.method.clone()],
                    handlers: handler.clone(),
                    websocket: websocket.clone(),
                });
            }
        }
        self
    }

    fn add(&mut self, routes: PathRoutes) {
        let mut paths = self.paths.iter_mut();
        if let Some(known) = paths.find(|known| known.path == routes.path) {
            known.methods.extend(routes.methods);
            known.handlers = std::mem::take(&mut known.handlers).merge(routes.handlers);
            known.websocket = known.websocket.take().or(routes.websocket);
        } else {
            self.paths.push(routes);
        }
    }

    /// The service of these routes. `not_found_message` writes the message of a 404: it
    /// gets the path that was asked for, in a form that can be shown, and the list of
    /// what is served.
    pub fn into_service(
        self,
        not_found_message: fn(path: &str, served: &str) -> String,
    ) -> RouteService {
        let served: Arc<str> = self.served.join(", ").into();
        let fallback = move |request: Request<Body>| {
            let path = match request.extensions().get::<PathBeforeRewrite>() {
                Some(PathBeforeRewrite(path)) => shown(path),
                None => shown(request.uri().path()),
            };
            ready(not_found(&not_found_message(&path, &served)))
        };
        let unroutable = Router::new().fallback(fallback.clone());
        let mut router = Router::new().fallback(fallback.clone());
        let mut forms = Router::new().fallback(fallback);
        for path in self.paths {
            forms = forms.route(&path.path, refusal_of_forms(&path));
            router = router.route(&path.path.clone(), handlers(path));
        }
        RouteService {
            router,
            forms,
            unroutable,
        }
    }
}

/// What a path answers to a POST that is not JSON.
fn refusal_of_forms(path: &PathRoutes) -> MethodRouter {
    let other_methods = other_methods(path);
    if path.methods.contains(&Method::POST) {
        other_methods.merge(routing::post(refuse_form))
    } else {
        other_methods
    }
}

/// Made with [`routing::any`], because axum adds an `Allow` header of its own to other fallbacks,
/// the answers to handshakes included.
fn other_methods(path: &PathRoutes) -> MethodRouter {
    let allow: Arc<str> = allow(&path.methods).into();
    routing::any(move || ready(method_not_allowed(&allow)))
}

/// The handlers of a path: for its methods, for all others, and for the handshakes of WebSockets,
/// which have the method `GET`.
fn handlers(path: PathRoutes) -> MethodRouter {
    let methods = other_methods(&path).merge(path.handlers);
    let Some(websocket) = path.websocket else {
        return methods;
    };
    routing::any(move |request: Request<Body>| async move {
        let is_handshake = is_handshake(request.method(), request.headers());
        let handler = if is_handshake { websocket } else { methods };
        let Ok(response) = handler.oneshot(request).await;
        response
    })
}

/// The value of an `Allow` header.
fn allow(methods: &[Method]) -> String {
    let names = methods.iter().map(|method| match *method {
        Method::GET => "GET, HEAD",
        ref other => other.as_str(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Routes requests to the handlers of a [`RouteTable`], which makes it. It checks the
/// form of the path as it was sent, and removes one trailing slash.
#[derive(Clone)]
pub struct RouteService {
    router: Router,
    /// Answers every POST that is not JSON.
    forms: Router,
    /// Answers the paths that no route may match.
    unroutable: Router,
}

/// The path of a request before its trailing slash was removed.
#[derive(Clone)]
struct PathBeforeRewrite(String);

impl Service<Request<Body>> for RouteService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match PathForm::of(request.uri().path()) {
            PathForm::Plain => {}
            PathForm::TrailingSlash => {
                if let Some(uri) = without_trailing_slash(request.uri()) {
                    let sent = std::mem::replace(request.uri_mut(), uri);
                    let sent = PathBeforeRewrite(sent.path().to_owned());
                    request.extensions_mut().insert(sent);
                }
            }
            PathForm::Unroutable => return self.unroutable.call(request),
        }
        if is_form(&request) {
            return self.forms.call(request);
        }
        self.router.call(request)
    }
}
