//! Checks who may use the server, on every route and before the body is read.
//!
//! A web page can reach a port on loopback. DNS rebinding is visible in `Host`; a page
//! of another site is visible in `Origin` and `Sec-Fetch-Site`; a form post that needs
//! no preflight is visible in its content type. Only configured origins get a CORS
//! permission, and never as `*`.
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use strum::IntoStaticStr;

use super::Token;
use super::error::{invalid_request, unauthorized};
use axum::body::Body;

/// Who may use the server. Replaced as a whole when the configuration changes.
#[derive(Debug, Clone, Default)]
pub struct GuardSettings {
    /// Allowed hosts in addition to the loopback names: `name` for any port, or
    /// `name:port`.
    pub hosts: Vec<String>,
    /// The port that the server listens on; loopback names must have it.
    pub port: u16,
    /// Origins whose web pages may call, such as `http://localhost:3000`.
    pub origins: Vec<String>,
    /// The token that every route except `/healthz` requires.
    pub token: Option<Token>,
}

/// Why a request was refused, as counted in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RefusalReason {
    /// `Host` or the target names another server.
    Host,
    /// It comes from a web page whose origin is not allowed.
    Origin,
    /// It is a CORS preflight from an origin that is not allowed.
    Preflight,
    /// The token is missing or wrong.
    Token,
    /// It is a POST that is not JSON, or its content coding is unknown.
    ContentType,
    /// The body is too large, also after decoding.
    TooLarge,
    /// The body arrived too slowly.
    TooSlow,
    /// The body cannot be decoded.
    Malformed,
    /// There is no memory for the body now.
    MemoryFull,
}

impl RefusalReason {
    /// The label in the metrics.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The decision of the guard about one request.
#[derive(Debug)]
pub(super) enum GuardVerdict {
    /// The request goes on to its handler. If a web page sent it, the response needs
    /// the CORS headers for this origin.
    Pass(Option<HeaderValue>),
    /// This is the complete response, to a preflight from an allowed origin.
    Answer(Response<Body>),
    /// The request is refused with this response.
    Refuse(RefusalReason, Response<Body>),
}

/// The path that needs no token, for process supervisors.
const OPEN_PATH: &str = "/healthz";

/// Checks everything of a request but its body.
pub(super) fn check(settings: &GuardSettings, head: &Parts) -> GuardVerdict {
    let forbid = |reason, code, message| {
        GuardVerdict::Refuse(
            reason,
            invalid_request(StatusCode::FORBIDDEN, code, message),
        )
    };
    if !host_allowed(settings, head) {
        return forbid(
            RefusalReason::Host,
            "host_not_allowed",
            "The Host header names a host that is not served here; add it to allowed_hosts.",
        );
    }
    let is_preflight = head.method == Method::OPTIONS;
    let origin = match allowed_origin(settings, &head.headers) {
        Ok(origin) => origin,
        Err(reason) => {
            return forbid(
                if is_preflight {
                    RefusalReason::Preflight
                } else {
                    reason
                },
                "origin_not_allowed",
                "Web pages of this origin may not call this server.",
            );
        }
    };
    if is_preflight {
        return match &origin {
            Some(origin) => GuardVerdict::Answer(preflight(origin, &head.headers)),
            None => forbid(
                RefusalReason::Preflight,
                "origin_not_allowed",
                "Preflight requests need an allowed origin.",
            ),
        };
    }
    let refuse = |reason, mut response: Response<Body>| {
        if let Some(origin) = &origin {
            add_cors_headers(response.headers_mut(), origin);
        }
        GuardVerdict::Refuse(reason, response)
    };
    if let Some(token) = &settings.token
        && !needs_no_token(head.uri.path())
        && !token_presented(token, &head.headers)
    {
        return refuse(RefusalReason::Token, unauthorized());
    }
    if head.method == Method::POST && !is_json(&head.headers) {
        return refuse(
            RefusalReason::ContentType,
            invalid_request(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_type",
                "The content type must be application/json.",
            ),
        );
    }
    GuardVerdict::Pass(origin)
}

/// One trailing slash makes no difference, as on every route.
fn needs_no_token(path: &str) -> bool {
    path.strip_suffix('/').unwrap_or(path) == OPEN_PATH
}

/// Adds the CORS headers that let a page of this origin read the response.
pub(super) fn add_cors_headers(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("x-request-id, retry-after"),
    );
}

/// Whether there is exactly one `Host` header, it is allowed, and it equals the host of
/// the request target if that has one.
fn host_allowed(settings: &GuardSettings, head: &Parts) -> bool {
    let Some(host) = single(&head.headers, &HOST).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let same_target = head
        .uri
        .authority()
        .is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host));
    same_target && name_allowed(settings, host)
}

fn name_allowed(settings: &GuardSettings, host: &str) -> bool {
    // User information in a Host header is an attack or a mistake, and so is a port with a sign.
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if host.contains('@')
        || authority
            .port()
            .is_some_and(|port| !is_number(port.as_str()))
    {
        return false;
    }
    let name = authority.host();
    let loopback = ["127.0.0.1", "localhost", "[::1]"];
    // Clients omit the default port of the scheme.
    let has_port = |port: u16| authority.port_u16().unwrap_or(80) == port;
    if loopback.iter().any(|own| own.eq_ignore_ascii_case(name)) && has_port(settings.port) {
        return true;
    }
    settings
        .hosts
        .iter()
        .filter_map(|entry| entry.parse::<Authority>().ok())
        .any(|entry| {
            entry.host().eq_ignore_ascii_case(name) && entry.port_u16().is_none_or(has_port)
        })
}

/// The allowed origin that sends the request; `None` for programs other than browsers.
fn allowed_origin(
    settings: &GuardSettings,
    headers: &HeaderMap,
) -> Result<Option<HeaderValue>, RefusalReason> {
    if headers.contains_key(ORIGIN) {
        let origin = single(headers, &ORIGIN).ok_or(RefusalReason::Origin)?;
        let known = settings.origins.iter().any(|allowed| {
            allowed != "*" && allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes())
        });
        return if known {
            Ok(Some(origin.clone()))
        } else {
            Err(RefusalReason::Origin)
        };
    }
    // Browsers send no Origin with plain GETs, but Sec-Fetch-Site.
    let site = HeaderName::from_static("sec-fetch-site");
    let foreign = headers
        .get_all(site)
        .iter()
        .any(|value| !matches!(value.as_bytes(), b"same-origin" | b"none"));
    if foreign {
        Err(RefusalReason::Origin)
    } else {
        Ok(None)
    }
}

fn preflight(origin: &HeaderValue, request: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    add_cors_headers(headers, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE"),
    );
    // SDKs send a dozen headers of their own, so all requested headers are allowed.
    let allowed = request
        .get(ACCESS_CONTROL_REQUEST_HEADERS)
        .cloned()
        .unwrap_or_else(|| HeaderValue::from_static("authorization, content-type"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    let private = HeaderName::from_static("access-control-request-private-network");
    if request.contains_key(private) {
        headers.insert(
            HeaderName::from_static("access-control-allow-private-network"),
            HeaderValue::from_static("true"),
        );
    }
    response
}

fn token_presented(token: &Token, headers: &HeaderMap) -> bool {
    // Without a usable header the comparison still runs, with an empty token.
    let presented = single(headers, &AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
    });
    token.matches(presented.unwrap_or_default())
}

fn is_json(headers: &HeaderMap) -> bool {
    single(headers, &CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// The value of a header that occurs exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{GuardSettings, name_allowed};

    // S31
    #[test]
    fn hosts() {
        let settings = GuardSettings {
            hosts: vec![
                "box.lan".into(),
                "proxy.lan:9000".into(),
                "[fd00::1]".into(),
            ],
            port: 8787,
            ..GuardSettings::default()
        };
        for good in [
            "127.0.0.1:8787",
            "localhost:8787",
            "LOCALHOST:8787",
            "[::1]:8787",
            "box.lan",
            "BOX.lan:1234",
            "proxy.lan:9000",
            "[fd00::1]:8787",
        ] {
            assert!(name_allowed(&settings, good), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1",
            "127.0.0.1:8788",
            "localhost",
            "localhost.:8787",
            "evil.example:8787",
            "127.0.0.1.evil.example:8787",
            "proxy.lan",
            "proxy.lan:8787",
            "user@localhost:8787",
            "localhost:8787@evil.example",
            "0.0.0.0:8787",
            "127.1:8787",
            "[::ffff:127.0.0.1]:8787",
            "localhost:8787/",
            "box.lan.evil.example",
            "[::1",
            "localhost:",
            "localhost:99999",
            "localhost:+8787",
            "box.lan:+1234",
        ] {
            assert!(!name_allowed(&settings, bad), "{bad}");
        }
    }

    #[test]
    fn the_port_may_be_left_out_where_it_is_80() {
        let settings = GuardSettings {
            port: 80,
            ..GuardSettings::default()
        };
        assert!(name_allowed(&settings, "localhost"));
    }
}
