//! Who may talk to a server on loopback: checked on every route before the body
//! is read.
//!
//! A web page can reach a local port. DNS rebinding shows in `Host`; a page of
//! another site shows in `Origin` and `Sec-Fetch-Site`; a form post that needs no
//! preflight shows in its content type. A CORS permission is given to configured
//! origins alone and never as `*`.
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::error::{invalid_request, unauthorized};
use super::{Body, Token};

/// What the guard lets in. Replaced as a whole when the configuration changes.
#[derive(Debug, Clone, Default)]
pub struct GuardSettings {
    /// Hosts beside the loopback names: `name` for any port, or `name:port`.
    pub hosts: Vec<String>,
    /// The port that is listened on; loopback names must carry it.
    pub port: u16,
    /// Origins of web pages that may call, such as `http://localhost:3000`.
    pub origins: Vec<String>,
    /// The token every route but `/healthz` asks for.
    pub token: Option<Token>,
}

/// Why a request was refused; a label in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `Host` or the target names another server.
    Host,
    /// A web page of an origin that is not allowed.
    Origin,
    /// A CORS preflight of an origin that is not allowed.
    Preflight,
    /// The token is missing or wrong.
    Token,
    /// A POST that is not JSON.
    ContentType,
    /// The body is too large, also after decoding.
    TooLarge,
    /// The body came too slowly.
    TooSlow,
    /// The body cannot be decoded.
    Malformed,
}

impl Reason {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Preflight => "preflight",
            Self::Token => "token",
            Self::ContentType => "content_type",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::Malformed => "malformed",
        }
    }
}

/// What the guard says of a request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Go on; the answer gets these CORS headers if a page of an allowed origin asks.
    Pass(Option<HeaderValue>),
    /// This is the whole answer, and no refusal: a preflight of an allowed origin.
    Answer(Response<Body>),
    /// Refused.
    Refuse(Reason, Response<Body>),
}

/// The path that answers without a token, for supervisors.
pub(super) const OPEN_PATH: &str = "/healthz";

/// Checks the head of a request.
pub(super) fn check(settings: &GuardSettings, head: &Parts) -> Verdict {
    if !host_allowed(settings, head) {
        return Verdict::Refuse(
            Reason::Host,
            forbidden(
                "host_not_allowed",
                "The Host header names a host that is not served here; add it to allowed_hosts.",
            ),
        );
    }
    let origin = match allowed_origin(settings, &head.headers) {
        Ok(origin) => origin,
        Err(reason) => {
            return Verdict::Refuse(
                if head.method == Method::OPTIONS {
                    Reason::Preflight
                } else {
                    reason
                },
                forbidden(
                    "origin_not_allowed",
                    "Web pages of this origin may not call this server.",
                ),
            );
        }
    };
    if head.method == Method::OPTIONS {
        return match &origin {
            Some(origin) => Verdict::Answer(preflight(origin, &head.headers)),
            None => Verdict::Refuse(
                Reason::Preflight,
                forbidden(
                    "origin_not_allowed",
                    "Preflight requests need an allowed origin.",
                ),
            ),
        };
    }
    let refuse = |reason, mut response: Response<Body>| {
        if let Some(origin) = &origin {
            permit(response.headers_mut(), origin);
        }
        Verdict::Refuse(reason, response)
    };
    if let Some(token) = &settings.token
        && head.uri.path() != OPEN_PATH
        && !token_presented(token, &head.headers)
    {
        return refuse(Reason::Token, unauthorized());
    }
    if head.method == Method::POST && !is_json(&head.headers) {
        return refuse(
            Reason::ContentType,
            invalid_request(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_type",
                "The content type must be application/json.",
            ),
        );
    }
    Verdict::Pass(origin)
}

/// Adds the permission for an allowed origin to an answer.
pub(super) fn permit(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("x-request-id, retry-after"),
    );
}

fn forbidden(code: &str, message: &str) -> Response<Body> {
    invalid_request(StatusCode::FORBIDDEN, code, message)
}

/// Exactly one `Host`, allowed, and the same as the target's host if it has one.
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
    // User information in a Host header is always an attack or an accident.
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if host.contains('@') {
        return false;
    }
    let name = authority.host();
    let loopback = ["127.0.0.1", "localhost", "[::1]"];
    // Clients leave the port out when it is the scheme's own.
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

/// The allowed origin that asks, `None` for programs that are no browser.
fn allowed_origin(
    settings: &GuardSettings,
    headers: &HeaderMap,
) -> Result<Option<HeaderValue>, Reason> {
    if headers.contains_key(ORIGIN) {
        let origin = single(headers, &ORIGIN).ok_or(Reason::Origin)?;
        let known = settings.origins.iter().any(|allowed| {
            allowed != "*" && allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes())
        });
        return if known {
            Ok(Some(origin.clone()))
        } else {
            Err(Reason::Origin)
        };
    }
    // Browsers send no Origin with plain GETs, but they say where these come from.
    let site = HeaderName::from_static("sec-fetch-site");
    let foreign = headers
        .get_all(site)
        .iter()
        .any(|value| !matches!(value.as_bytes(), b"same-origin" | b"none"));
    if foreign {
        Err(Reason::Origin)
    } else {
        Ok(None)
    }
}

fn preflight(origin: &HeaderValue, asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    permit(headers, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST"),
    );
    // SDKs send a dozen headers of their own, so the list asked for is granted.
    let granted = asked
        .get(ACCESS_CONTROL_REQUEST_HEADERS)
        .cloned()
        .unwrap_or_else(|| HeaderValue::from_static("authorization, content-type"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, granted);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    let private = HeaderName::from_static("access-control-request-private-network");
    if asked.contains_key(private) {
        headers.insert(
            HeaderName::from_static("access-control-allow-private-network"),
            HeaderValue::from_static("true"),
        );
    }
    response
}

fn token_presented(token: &Token, headers: &HeaderMap) -> bool {
    // Without a usable header the comparison still runs, against nothing.
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

/// The value of a header that came exactly once.
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
