//! Checks who may use the server, on every route and before the body is read.
//!
//! A web page can reach a port on loopback. DNS rebinding needs a name that an attacker controls,
//! and that name is in `Host`; a page of another site is visible in `Origin` and `Sec-Fetch-Site`;
//! a form post that needs no preflight is visible in its content type, at which the routes look.
//! Where a token is required, a page that was rebound does not have it, so `Host` says nothing
//! more. Only configured origins get a CORS permission, and never as `*`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use strum::IntoStaticStr;

use super::error::{invalid_request, several_owners, unauthorized};
use crate::net::{AdmittedBy, Owner};
use crate::secrets::{Redactor, Secret, Token, TokenHash};
use axum::body::Body;

/// Who may use the server. Replaced as a whole when the configuration changes.
#[derive(Debug, Clone, Default)]
pub struct GuardSettings {
    /// Allowed hosts besides loopback names and IP addresses: `name` for any port, or
    /// `name:port`.
    pub hosts: Vec<String>,
    /// Origins whose web pages may call, such as `http://localhost:3000`.
    pub origins: Vec<String>,
    /// The token that every route except `/healthz` requires.
    pub token: Option<Token>,
    /// The clients that may call besides, each with a token of its own.
    pub clients: Vec<ClientToken>,
    /// The configuration file, as a refusal names it.
    pub config_file: String,
    /// Redacts the names of hosts and origins, which may be a key that a client put there.
    pub redactor: Redactor,
}

/// The token of a client, known by its hash only.
#[derive(Debug, Clone)]
pub struct ClientToken {
    /// The name of the client, which owns what it stores.
    pub name: Arc<str>,
    /// The hash.
    pub hash: TokenHash,
}

impl GuardSettings {
    /// Whether every route but `/healthz` requires a token.
    fn needs_token(&self) -> bool {
        self.token.is_some() || !self.clients.is_empty()
    }
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
    /// Its owner has as many connections as others leave.
    Connections,
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
    /// The request goes on to its handler.
    Pass(Admitted),
    /// This is the complete response, to a preflight from an allowed origin.
    Answer(Response<Body>),
    /// The request is refused with this response. A refused host or origin is also logged.
    Refuse(RefusalReason, Response<Body>, Option<RefusedName>),
}

impl GuardVerdict {
    /// Whose request it is, if it goes on and that is known.
    pub(super) fn caller(&self) -> Option<&Identified> {
        match self {
            Self::Pass(admitted) => admitted.caller.as_ref(),
            Self::Answer(_) | Self::Refuse(..) => None,
        }
    }
}

/// A request that goes on to its handler.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// If a web page sent it, the response needs the CORS headers for this origin.
    pub(super) origin: Option<HeaderValue>,
    /// Whose request it is; `None` where no token is asked for although one is needed elsewhere.
    pub(super) caller: Option<Identified>,
}

/// Whose request it is, and how that is known.
#[derive(Debug)]
pub(super) struct Identified {
    pub(super) owner: Owner,
    /// The token, if it is that of a client.
    pub(super) client_token: Option<Secret>,
    pub(super) by: AdmittedBy,
}

/// A host or an origin that is refused.
#[derive(Debug)]
pub(super) struct RefusedName {
    /// The host without its port, or the origin; empty if the request does not say.
    pub(super) name: String,
    /// The message for the client and the log, which says how to allow it.
    pub(super) message: String,
}

impl RefusedName {
    fn unknown(message: &str) -> Self {
        Self {
            name: String::new(),
            message: message.to_owned(),
        }
    }
}

/// The most characters of a name that a message quotes.
const MAX_NAME_LENGTH: usize = 255;

/// The path that needs no token and answers to any host name, for process supervisors.
const OPEN_PATH: &str = "/healthz";

/// Checks everything of a request but its body.
pub(super) fn check(settings: &GuardSettings, head: &Parts) -> GuardVerdict {
    let is_open = needs_no_token(head.uri.path());
    if !is_open
        && !settings.needs_token()
        && let Err(refused) = check_host(settings, head)
    {
        return forbid(settings, RefusalReason::Host, "host_not_allowed", &refused);
    }
    let is_preflight = head.method == Method::OPTIONS;
    let of_page = if is_preflight {
        RefusalReason::Preflight
    } else {
        RefusalReason::Origin
    };
    let origin = match allowed_origin(settings, &head.headers) {
        Ok(origin) => origin,
        Err(refused) => return forbid(settings, of_page, "origin_not_allowed", &refused),
    };
    if is_preflight {
        return match &origin {
            Some(origin) => GuardVerdict::Answer(preflight(origin, &head.headers)),
            None => forbid(
                settings,
                of_page,
                "origin_not_allowed",
                &RefusedName::unknown("Preflight requests need an allowed origin."),
            ),
        };
    }
    let refuse = |reason, mut response: Response<Body>| {
        if let Some(origin) = &origin {
            add_cors_headers(response.headers_mut(), origin);
        }
        GuardVerdict::Refuse(reason, response, None)
    };
    let caller = if settings.needs_token() {
        identify(settings, &head.headers)
    } else {
        Ok(Identified {
            owner: Owner::local(),
            client_token: None,
            by: AdmittedBy(None),
        })
    };
    let caller = match caller {
        Err(unidentified) if !is_open => {
            return refuse(RefusalReason::Token, unidentified.response());
        }
        caller => caller.ok(),
    };
    GuardVerdict::Pass(Admitted { origin, caller })
}

fn forbid(
    settings: &GuardSettings,
    reason: RefusalReason,
    code: &str,
    refused: &RefusedName,
) -> GuardVerdict {
    let redact = |text: &str| settings.redactor.redact(text).into_owned();
    let refused = RefusedName {
        name: redact(&refused.name),
        message: redact(&refused.message),
    };
    let response = invalid_request(StatusCode::FORBIDDEN, code, &refused.message);
    GuardVerdict::Refuse(reason, response, Some(refused))
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

/// Checks that there is exactly one `Host` header, that it is allowed, and that it equals the
/// host of the request target if that has one.
fn check_host(settings: &GuardSettings, head: &Parts) -> Result<(), RefusedName> {
    let host = single(&head.headers, &HOST).and_then(|value| value.to_str().ok());
    let same_target = |host: &&str| {
        let target = head.uri.authority();
        target.is_none_or(|target| target.as_str().eq_ignore_ascii_case(host))
    };
    let host = host
        .filter(same_target)
        .and_then(|host| Some((host, parse_host(host)?)));
    let Some((host, authority)) = host else {
        return Err(RefusedName::unknown(
            "A request needs one Host header, with a valid name of a host.",
        ));
    };
    if host_allowed(settings, &authority) {
        return Ok(());
    }
    let (host, name) = (shortened(host), shortened(authority.host()));
    Err(RefusedName {
        name: name.to_ascii_lowercase(),
        message: format!(
            "This server does not answer to the host name {host:?}. Add {name:?} to \
             allowed_hosts under [server] in {}.",
            settings.config_file
        ),
    })
}

/// The parts of a `Host` header. User information is an attack or a mistake, and so is a port
/// with a sign.
fn parse_host(host: &str) -> Option<Authority> {
    let authority: Authority = host.parse().ok()?;
    let after_name = host.strip_prefix(authority.host())?;
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_valid = match after_name.strip_prefix(':') {
        Some(port) => is_port(port),
        None => after_name.is_empty(),
    };
    (is_valid && !authority.host().is_empty()).then_some(authority)
}

/// Whether a host is no name that an attacker could control: a loopback name, an IP address, or
/// a configured name.
fn host_allowed(settings: &GuardSettings, host: &Authority) -> bool {
    let name = host.host();
    let lower = name.to_ascii_lowercase();
    let bare = lower
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_address = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => lower.parse::<Ipv4Addr>().is_ok(),
    };
    // Names below `localhost` belong to nobody (RFC 6761, 6.3).
    let below_localhost = lower.strip_suffix(".localhost");
    if is_address || lower == "localhost" || below_localhost.is_some_and(|name| !name.is_empty()) {
        return true;
    }
    // Clients leave out the usual port of the scheme.
    let port = host.port_u16().unwrap_or(80);
    let entries = settings.hosts.iter();
    entries
        .filter_map(|entry| entry.parse::<Authority>().ok())
        .any(|entry| {
            entry.host().eq_ignore_ascii_case(name)
                && entry.port_u16().is_none_or(|allowed| allowed == port)
        })
}

/// A name for a message: a client can send one of any length.
fn shortened(name: &str) -> &str {
    name.get(..MAX_NAME_LENGTH).unwrap_or(name)
}

/// The allowed origin that sends the request; `None` for programs other than browsers.
fn allowed_origin(
    settings: &GuardSettings,
    headers: &HeaderMap,
) -> Result<Option<HeaderValue>, RefusedName> {
    if headers.contains_key(ORIGIN) {
        let origin = single(headers, &ORIGIN);
        let Some(origin) = origin.filter(|origin| !origin.is_empty()) else {
            return Err(RefusedName::unknown(
                "A request needs at most one Origin header, with one origin.",
            ));
        };
        let known = settings.origins.iter().any(|allowed| {
            allowed != "*" && allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes())
        });
        return if known {
            Ok(Some(origin.clone()))
        } else {
            Err(foreign_origin(settings, origin))
        };
    }
    // Browsers send no Origin with plain GETs, but Sec-Fetch-Site.
    let site = HeaderName::from_static("sec-fetch-site");
    let foreign = headers
        .get_all(site)
        .iter()
        .any(|value| !matches!(value.as_bytes(), b"same-origin" | b"none"));
    if foreign {
        Err(RefusedName::unknown(
            "A web page of another site sent this request without saying which one.",
        ))
    } else {
        Ok(None)
    }
}

/// The refusal of an origin. Any page can have the origin `null`, so it cannot be allowed.
fn foreign_origin(settings: &GuardSettings, origin: &HeaderValue) -> RefusedName {
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let origin: String = origin.chars().take(MAX_NAME_LENGTH).collect();
    let refusal = format!("Web pages of the origin {origin:?} may not call this server.");
    let message = if origin.contains("://") {
        let file = &settings.config_file;
        format!("{refusal} Add it to allowed_origins under [server] in {file}.")
    } else {
        refusal
    };
    RefusedName {
        name: origin,
        message,
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

/// Whose token one of the headers holds in which clients send an API key.
fn identify(settings: &GuardSettings, headers: &HeaderMap) -> Result<Identified, Unidentified> {
    let bearer = single(headers, &AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
    });
    let bare = ["x-api-key", "api-key"].map(|name| {
        let value = single(headers, &HeaderName::from_static(name));
        value.map(HeaderValue::as_bytes)
    });
    let presented = bare.into_iter().chain([bearer]).flatten();
    // What is there is compared with every token, so that the time says nothing about them.
    let mut found: Vec<Identified> = Vec::new();
    for presented in presented.filter(|it| !it.is_empty()) {
        let token = settings.token.as_ref();
        let hash = TokenHash::of(presented);
        let by = AdmittedBy(Some(hash));
        if token.is_some_and(|token| token.matches(presented)) {
            found.push(Identified {
                owner: Owner::local(),
                client_token: None,
                by,
            });
        }
        for client in &settings.clients {
            if client.hash.matches(&hash) {
                let text = String::from_utf8_lossy(presented);
                found.push(Identified {
                    owner: Owner(Arc::clone(&client.name)),
                    client_token: Secret::new(&text),
                    by,
                });
            }
        }
    }
    let caller = found.pop().ok_or(Unidentified::NoToken)?;
    if found.iter().any(|other| other.owner != caller.owner) {
        return Err(Unidentified::SeveralOwners);
    }
    Ok(caller)
}

/// Why it is unknown whose request this is.
enum Unidentified {
    /// It has no token that is known here.
    NoToken,
    /// It has the tokens of several owners, so none is chosen.
    SeveralOwners,
}

impl Unidentified {
    fn response(&self) -> Response<Body> {
        match self {
            Self::NoToken => unauthorized(),
            Self::SeveralOwners => several_owners(),
        }
    }
}

/// The value of a header that occurs exactly once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(settings: &GuardSettings, host: &str) -> bool {
        parse_host(host).is_some_and(|host| host_allowed(settings, &host))
    }

    /// Promise: A header without a token is nobody's, and the hash of an empty text is no token.
    #[test]
    fn a_header_without_a_token_is_nobody() {
        let nobody = ClientToken {
            name: "eve".into(),
            hash: TokenHash::of(b""),
        };
        let settings = GuardSettings {
            clients: vec![nobody],
            ..GuardSettings::default()
        };
        for header in [
            None,
            Some(("authorization", "Bearer ")),
            Some(("authorization", "Basic eve")),
            Some(("authorization", "")),
            Some(("x-api-key", "")),
            Some(("api-key", "wrong")),
        ] {
            let headers = header.into_iter().map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            assert!(
                identify(&settings, &headers.collect()).is_err(),
                "{header:?}"
            );
        }
    }

    #[test]
    fn hosts() {
        let hosts = ["box.lan", "proxy.lan:9000"].map(str::to_owned);
        let settings = GuardSettings {
            hosts: hosts.into(),
            ..GuardSettings::default()
        };
        for good in [
            "127.0.0.1",
            "127.0.0.1:9797",
            "127.0.0.1:8080",
            "localhost",
            "localhost:1",
            "LOCALHOST:9797",
            "app.localhost:9797",
            "[::1]",
            "[::1]:9797",
            "[::ffff:127.0.0.1]:9797",
            "[fd00::1]:9797",
            "0.0.0.0:9797",
            "192.0.2.2:9797",
            "box.lan",
            "BOX.lan:1234",
            "proxy.lan:9000",
        ] {
            assert!(is_allowed(&settings, good), "{good}");
        }
        for bad in [
            "",
            "localhost.",
            "localhost.evil.example",
            ".localhost",
            "evillocalhost",
            "127.0.0.1.evil.example:9797",
            "127.1:9797",
            "0x7f.1",
            "2130706433",
            "proxy.lan",
            "proxy.lan:9797",
            "evil.example:9797",
            "user@localhost:9797",
            "localhost:9797@evil.example",
            "localhost:9797/",
            "box.lan.evil.example",
            "[::1",
            "[::1%25lo]",
            "[localhost]",
            "localhost:",
            "localhost:99999",
            "localhost:+9797",
            "box.lan:+1234",
        ] {
            assert!(!is_allowed(&settings, bad), "{bad}");
        }
    }
}
