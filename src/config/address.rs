//! Checks of addresses: which ones are safe to send keys to, and which listen addresses
//! other machines can reach.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use adapters::wire;
use registry::Wire;
use reqwest::Url;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Unexpected, Visitor};
use strum::VariantArray as _;

use crate::secrets::Secret;

/// The port that the server listens on unless another one is configured.
pub const DEFAULT_PORT: u16 = 9797;

/// What a listen address looks like, for messages.
pub const LISTEN_FORM: &str = "ADDRESS:PORT such as 127.0.0.1:9797";

/// Parses a listen address: an IP address or `localhost` with a port, or a port alone, which
/// means the loopback address.
pub fn parse_listen(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let is_port = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = |name| text.strip_prefix(name);
    let port = name("localhost:").or_else(|| name(":")).unwrap_or(text);
    match Some(port)
        .filter(is_port)
        .and_then(|port| port.parse().ok())
    {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse().ok(),
    }
}

/// A listen address in TOML, for the schema of the configuration.
pub(super) struct ListenText;

impl JsonSchema for ListenText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ListenText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "minimum": 0, "maximum": u16::MAX})
    }
}

/// Reads a listen address from TOML: a string as [`parse_listen`] takes it, or a port.
pub fn deserialize_listen<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    struct ListenVisitor;
    impl Visitor<'_> for ListenVisitor {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(LISTEN_FORM)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
            parse_listen(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }

        fn visit_i64<E: de::Error>(self, port: i64) -> Result<SocketAddr, E> {
            match u16::try_from(port) {
                Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
                Err(_) => Err(E::invalid_value(Unexpected::Signed(port), &self)),
            }
        }
    }
    from.deserialize_any(ListenVisitor)
}

/// The end of a base URL that names an endpoint of the API instead of the API, such as
/// `/chat/completions`; such an end is a mistake, because the program appends its own.
pub fn endpoint_in_base_url(base_url: &str) -> Option<&'static str> {
    let base_url = base_url.trim_end_matches('/');
    let ends = |end: &&str| base_url.ends_with(end);
    // Elsewhere these two words may be part of an address.
    let below_version = |end: &&str| {
        let before = base_url.strip_suffix(end);
        before.is_some_and(|before| before.ends_with("/v1"))
    };
    let mut endpoints = Wire::VARIANTS.iter().map(|wire| wire::endpoint(*wire));
    let endpoint = endpoints.find(ends);
    endpoint.or_else(|| ["/completions", "/models"].into_iter().find(below_version))
}

/// Why a provider's base URL is refused; `None` if it is accepted. `http` to another host
/// needs `allow_http`, because keys and prompts would travel unencrypted.
pub fn base_url_error(base_url: &str, allow_http: bool) -> Option<&'static str> {
    if !base_url.contains("://")
        && let Ok(url) = Url::parse(&format!("http://{base_url}"))
        && (base_url.contains('.') || is_loopback(&url))
    {
        return Some(if is_loopback(&url) {
            "base_url has no scheme: write http:// before it"
        } else {
            "base_url has no scheme: write https:// before it"
        });
    }
    let Ok(url) = Url::parse(base_url) else {
        return Some("base_url is not a URL such as \"https://host/v1\"");
    };
    if has_credentials(&url) {
        return Some("base_url contains a user or password; give it as api_key or in headers");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Some("base_url contains a query or fragment; give it in query");
    }
    match UrlScheme::of(&url, allow_http) {
        UrlScheme::Allowed => None,
        UrlScheme::PlainToAnotherHost => {
            Some("base_url is http to another host; use https or set allow_http = true")
        }
        UrlScheme::Other => Some("base_url must begin with https:// or http://"),
    }
}

/// Why the URL of a webhook is refused; `None` if it is accepted. Plain `http` to another host
/// needs `allow_http`.
pub fn webhook_url_error(url: &str, allow_http: bool) -> Option<&'static str> {
    let Ok(url) = Url::parse(url) else {
        return Some("url is not a URL such as \"https://host/hook\"");
    };
    if has_credentials(&url) {
        return Some("url contains a user or password; the receiver checks the signature instead");
    }
    match UrlScheme::of(&url, allow_http) {
        UrlScheme::Allowed => None,
        UrlScheme::PlainToAnotherHost => {
            Some("url is http to another host; use https or set allow_http = true")
        }
        UrlScheme::Other => Some("url must begin with https:// or http://"),
    }
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// How a request to a URL would travel.
enum UrlScheme {
    /// Encrypted, on this machine only, or unencrypted because that is allowed.
    Allowed,
    /// Unencrypted to another machine.
    PlainToAnotherHost,
    /// Not over HTTP.
    Other,
}

impl UrlScheme {
    fn of(url: &Url, allow_http: bool) -> Self {
        match url.scheme() {
            "https" => Self::Allowed,
            "http" if allow_http || is_loopback(url) => Self::Allowed,
            "http" => Self::PlainToAnotherHost,
            _ => Self::Other,
        }
    }
}

/// Splits a URL before its path. It need not be valid: a redacted one may not be.
pub fn split_origin(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let tail = url.get(host..).unwrap_or_default();
    let path = tail.find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    url.split_at_checked(path).unwrap_or((url, ""))
}

/// Why the address of an MCP server is refused; `None` if it is accepted.
pub fn mcp_url_error(url: &str, allow_http: bool) -> Option<&'static str> {
    let Ok(url) = Url::parse(url) else {
        return Some("`url` is not a URL such as \"https://host/mcp\"");
    };
    if has_credentials(&url) {
        return Some(
            "`url` contains a user or password; name the variable of a token with token_env",
        );
    }
    match UrlScheme::of(&url, allow_http) {
        UrlScheme::Allowed => None,
        UrlScheme::PlainToAnotherHost => {
            Some("`url` is http to another host; use https or set allow_http = true")
        }
        UrlScheme::Other => Some("`url` must begin with https:// or http://"),
    }
}

/// Why a proxy URL is refused; `None` if it is accepted.
pub fn proxy_error(proxy: &str) -> Option<&'static str> {
    match Url::parse(proxy) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => None,
        _ => Some("proxy must be a URL such as \"http://host:3128\""),
    }
}

/// Whether clients on other machines could connect to this listen address.
pub fn accepts_remote_clients(listen: SocketAddr) -> bool {
    !listen.ip().to_canonical().is_loopback()
}

/// The address at which a client on this machine reaches a server that listens on `listen`.
pub fn local_client_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The password in the user info of a URL, if there is one.
pub fn password_in_url(url: &str) -> Option<Secret> {
    Secret::new(Url::parse(url).ok()?.password()?)
}

/// Whether the host of a URL is `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_may_be_a_port_alone() {
        for (text, expected) in [
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("[::1]:2", Some("[::1]:2")),
            ("0.0.0.0:3", Some("0.0.0.0:3")),
            ("localhost:4", Some("127.0.0.1:4")),
            ("5", Some("127.0.0.1:5")),
            (":6", Some("127.0.0.1:6")),
            ("", None),
            (":", None),
            ("localhost", None),
            ("127.0.0.1", None),
            ("example.com:7", None),
            ("+8", None),
            ("99999", None),
        ] {
            let address = parse_listen(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_missing_scheme_is_named() {
        for (url, scheme) in [
            ("localhost:11434/v1", Some("http")),
            ("127.0.0.1:8080/v1", Some("http")),
            ("api.example/v1", Some("https")),
            ("10.0.0.7:8000/v1", Some("https")),
            ("nonsense", None),
            ("mailto:me", None),
        ] {
            let expected = scheme.map(|scheme| format!("write {scheme}:// before it"));
            let error = base_url_error(url, false).unwrap();
            match expected {
                Some(expected) => assert!(error.ends_with(&expected), "{url}: {error}"),
                None => assert!(!error.contains("before it"), "{url}: {error}"),
            }
        }
    }

    #[test]
    fn the_end_of_an_endpoint_is_found() {
        for (url, end) in [
            (
                "https://a.example/v1/chat/completions/",
                Some("/chat/completions"),
            ),
            ("https://a.example/v1/responses", Some("/responses")),
            ("https://a.example/v1/completions", Some("/completions")),
            ("https://a.example/v1/models", Some("/models")),
            ("https://a.example/models", None),
            ("https://a.example/v1", None),
        ] {
            assert_eq!(endpoint_in_base_url(url), end, "{url}");
        }
    }

    #[test]
    fn safe_addresses_are_accepted() {
        for url in [
            "https://api.example/v1",
            "http://127.0.0.1:8080/v1",
            "http://localhost:8000/v1",
            "http://[::1]:8000/v1",
        ] {
            assert_eq!(base_url_error(url, false), None, "{url}");
        }
    }

    /// Promise: Provider addresses are refused if they contain user information, use plain HTTP to
    /// another machine, or use any other scheme.
    #[test]
    fn unsafe_addresses_are_refused() {
        for url in [
            "http://10.0.0.7:8000/v1",
            "http://localhost.example/v1",
            "file:///etc/passwd",
            "https://user:pw@api.example/v1",
            "https://api.example/v1?key=1",
            "api.example/v1",
            "",
        ] {
            assert!(base_url_error(url, false).is_some(), "{url}");
        }
    }

    #[test]
    fn allow_http_allows_plain_http_and_nothing_else() {
        assert_eq!(base_url_error("http://10.0.0.7:8000/v1", true), None);
        assert!(base_url_error("file:///etc/passwd", true).is_some());
        assert!(base_url_error("http://user:pw@10.0.0.7/v1", true).is_some());
    }

    #[test]
    fn unsafe_addresses_of_webhooks_are_refused() {
        for url in [
            "https://hooks.example/a?token=1",
            "http://127.0.0.1:8080/hook",
        ] {
            assert_eq!(webhook_url_error(url, false), None, "{url}");
        }
        for url in [
            "http://10.0.0.7/hook",
            "file:///etc/passwd",
            "https://user:pw@hooks.example/a",
            "hooks.example/a",
            "",
        ] {
            assert!(webhook_url_error(url, false).is_some(), "{url}");
        }
        assert_eq!(webhook_url_error("http://10.0.0.7/hook", true), None);
    }

    #[test]
    fn only_loopback_addresses_refuse_remote_clients() {
        for (listen, expected) in [
            ("127.0.0.1:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.168.1.2:1", true),
        ] {
            let accepts = accepts_remote_clients(listen.parse().unwrap());
            assert_eq!(accepts, expected, "{listen}");
        }
    }

    #[test]
    fn a_local_client_reaches_an_unspecified_address_through_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            let address = local_client_address(listen.parse().unwrap());
            assert_eq!(address.to_string(), expected);
        }
    }
}
