//! Builds the HTTP client of a provider. Redirects are never followed: a key must not be sent
//! to another host.

use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use registry::Provider;
use reqwest::Url;

use super::concurrency::ConcurrencyLimit;
use super::{KeyPlace, KeyRing, ProviderHealth, Upstream};
use crate::config::{KeyOrigin, address};
use crate::secrets::Secret;

/// How long a connection may be idle before it is probed.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// What the HTTP clients of all requests to others have in common. `url` is where the requests of
/// the client go, through `proxy` if there is one. Without one, the proxy of the environment is
/// used, but not for a server on this machine.
pub fn client_builder(
    connect_timeout: Duration,
    url: &Url,
    proxy: Option<reqwest::Proxy>,
) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("respondent/", env!("CARGO_PKG_VERSION")))
        // Without this header a server may use any coding.
        .default_headers(HeaderMap::from_iter([(
            ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        )]))
        .connect_timeout(connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        // After the machine has slept, the pool holds dead connections. Without keepalive a
        // turn would wait for one of them.
        .tcp_keepalive(KEEPALIVE)
        .http2_keep_alive_interval(KEEPALIVE)
        .http2_keep_alive_timeout(KEEPALIVE);
    match proxy {
        Some(proxy) => builder.no_proxy().proxy(proxy),
        None if !address::is_loopback(url) => builder,
        None if url.scheme() == "https" => builder.no_proxy(),
        // Reading the root certificates of the system takes time and memory, and there may be none.
        None => builder.no_proxy().tls_certs_only([]),
    }
}

/// Builds the connection to a provider. In a replay, `replay_origin` is where its requests go.
pub(super) fn build(
    provider: &Arc<Provider>,
    (keys, key_origin): (&[Secret], Option<&KeyOrigin>),
    replay_origin: Option<&str>,
    concurrency: Arc<ConcurrencyLimit>,
) -> Result<Upstream, Fault> {
    let base_url = base_url(provider, replay_origin)?;
    let proxy = provider.proxy.as_ref().map(reqwest::Proxy::all);
    let proxy = proxy
        .transpose()
        .map_err(|error| unusable(provider, "proxy", &error))?;
    let mut builder = client_builder(provider.timeouts.connect, &base_url, proxy);
    if let Some(path) = &provider.ca_file {
        let pem = std::fs::read(path).map_err(|error| unusable(provider, "ca_file", &error))?;
        let certificates = reqwest::Certificate::from_pem_bundle(&pem)
            .map_err(|error| unusable(provider, "ca_file", &error))?;
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(Upstream {
        provider: Arc::clone(provider),
        client: builder.build().map_err(|error| match provider.ca_file {
            Some(_) => unusable(provider, "ca_file", &error),
            None => no_certificates(provider, &error),
        })?,
        base_url,
        headers: headers(provider)?,
        key_place: key_place(provider)?,
        keys: KeyRing::new(keys, &provider.key_weights),
        key_origin: key_origin.cloned(),
        health: ProviderHealth::default(),
        concurrency,
    })
}

/// The base URL with the provider's query parameters, and with another origin in a replay.
fn base_url(provider: &Provider, replay_origin: Option<&str>) -> Result<Url, Fault> {
    let base_url = replay_origin.map_or_else(
        || provider.base_url.clone(),
        |origin| format!("{origin}{}", address::split_origin(&provider.base_url).1),
    );
    let mut url = Url::parse(&base_url).map_err(|error| unusable(provider, "base_url", &error))?;
    if !provider.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&provider.query);
    }
    Ok(url)
}

fn headers(provider: &Provider) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in &provider.headers {
        let name =
            HeaderName::try_from(name).map_err(|error| unusable(provider, "headers", &error))?;
        let mut value =
            HeaderValue::try_from(value).map_err(|error| unusable(provider, "headers", &error))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn key_place(provider: &Provider) -> Result<KeyPlace, Fault> {
    if let Some(name) = &provider.key_query {
        return Ok(KeyPlace::Query(name.clone()));
    }
    let (name, usual) = match &provider.key_header {
        Some(name) => {
            let name = HeaderName::try_from(name);
            let name = name.map_err(|error| unusable(provider, "key_header", &error))?;
            (name, None)
        }
        None => (AUTHORIZATION, Some("Bearer")),
    };
    let scheme = provider.key_scheme.as_deref().or(usual);
    let prefix = scheme.map_or_else(String::new, |scheme| format!("{scheme} "));
    Ok(KeyPlace::Header(name, prefix))
}

/// The fault of a client that cannot be built although its settings are valid.
fn no_certificates(provider: &Provider, error: &reqwest::Error) -> Fault {
    let message = format!(
        "The provider '{}' cannot be used: there are no root certificates on this machine. Install \
         the package ca-certificates, or name a file of certificates in SSL_CERT_FILE.",
        provider.id
    );
    let cause =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Fault::new(Kind::Internal, message).caused_by(cause)
}

fn unusable(provider: &Provider, setting: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(
        Kind::Internal,
        format!(
            "The provider '{}' cannot be used: check its '{setting}' with `respondent check`.",
            provider.id
        ),
    )
    .caused_by(error.to_string())
}
