//! Redacts headers and URLs. Values are hidden unless the header is listed as harmless.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::Scrubber;
use crate::secrets::constant_regex;

/// Replaces a hidden value.
const HIDDEN: &str = "[redacted]";

/// Headers whose values are kept, except for secrets in them.
const KEPT: &str = r"(?x)^(?:
      accept | accept-encoding | accept-language | age | allow | cache-control | connection
    | content-(?:encoding|language|length|type) | date | expires | host | http-referer
    | originator | cf-ray | request-id | retry-after | retry-after-ms | server | session[-_]id
    | thread-id | traceparent | transfer-encoding | user-agent | vary | version | via
    | x-client-request-id | x-request-id | x-should-retry | x-title
    | (?: anthropic-ratelimit- | openai- | ratelimit | x-codex- | x-ratelimit | x-rate-limit
        | x-respondent- | x-stainless- ) .*
    )$";

/// A header whose name contains one of these is hidden even if it is listed above, except for the
/// headers about limits.
const SENSITIVE_WORDS: [&str; 5] = ["token", "key", "secret", "auth", "cookie"];

static KEPT_NAMES: LazyLock<Regex> = LazyLock::new(|| constant_regex(KEPT));

fn is_kept(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_listed = KEPT_NAMES.is_match(name.as_bytes());
    is_listed && (name.contains("limit") || !SENSITIVE_WORDS.iter().any(|word| name.contains(word)))
}

impl Scrubber {
    /// Hides the values of all headers that are not listed as harmless.
    pub(super) fn headers(&self, headers: &mut [(String, String)]) {
        for (name, value) in headers {
            if is_kept(name) {
                self.string(value);
            } else {
                HIDDEN.clone_into(value);
            }
        }
    }

    /// Hides the values of query parameters.
    pub(super) fn query(&self, query: &mut [(String, String)]) {
        for (name, value) in query {
            *value = self.parameter(name, value);
        }
    }

    /// Keeps versions and formats: they are no secrets and determine the response.
    fn parameter(&self, name: &str, value: &str) -> String {
        match name {
            "api-version" | "api_version" | "version" | "alt" | "beta" => {
                self.text(value).into_owned()
            }
            _ => HIDDEN.to_owned(),
        }
    }

    /// Redacts a URL or a path: hides user, password, fragment and the values of the query.
    pub(super) fn url(&self, url: &mut String) {
        let (rest, fragment) = match url.split_once('#') {
            Some((rest, _)) => (rest, "#"),
            None => (url.as_str(), ""),
        };
        let (address, query) = match rest.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (rest, None),
        };
        let mut clean = match address.split_once("://") {
            Some((scheme, after)) => {
                let path_at = after.find('/').unwrap_or(after.len());
                let (host, path) = after.split_at_checked(path_at).unwrap_or((after, ""));
                let host = match host.rsplit_once('@') {
                    Some((_, host)) => format!("{HIDDEN}@{host}"),
                    None => host.to_owned(),
                };
                format!("{scheme}://{host}{path}")
            }
            None => address.to_owned(),
        };
        self.string(&mut clean);
        if let Some(query) = query {
            let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, value)) => {
                    format!("{}={}", self.text(name), self.parameter(name, value))
                }
                None => HIDDEN.to_owned(),
            });
            let pairs: Vec<String> = pairs.collect();
            clean = format!("{clean}?{}", pairs.join("&"));
        }
        *url = clean + fragment;
    }
}
