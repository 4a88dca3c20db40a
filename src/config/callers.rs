//! The host names and origins in `[server]` that may call the server, brought into the form in
//! which requests have them.

use http::uri::Authority;
use reqwest::Url;

/// The entry of `allowed_hosts` that allows every name.
pub(super) const EVERY_HOST: &str = "*";

/// A host name as a `Host` header has it: `name`, or `name:port`. An address such as
/// `http://name/` is cut to that. Fails with what is wrong.
pub(super) fn normalize_host(entry: &str, has_token: bool) -> Result<String, String> {
    let text = entry.trim();
    if text == EVERY_HOST {
        return if has_token {
            Ok(text.to_owned())
        } else {
            Err("allowed_hosts may be \"*\" only if clients need a token".to_owned())
        };
    }
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.strip_suffix('/').unwrap_or(text);
    let is_bare_ipv6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let bracketed = format!("[{text}]");
    let text = if is_bare_ipv6 { &bracketed } else { text };
    let refused = || {
        format!(
            "allowed_hosts: {entry:?} is not a host name such as \"box.lan\" or \"box.lan:8080\""
        )
    };
    let authority: Authority = text.parse().map_err(|_| refused())?;
    let has_port = text.len() > authority.host().len();
    let is_name = !authority.host().is_empty() && !text.contains(['@', '*']);
    if is_name && has_port == authority.port_u16().is_some() {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(refused())
    }
}

/// An origin as browsers send it: a scheme and a host, with a port unless it is the usual one.
/// A slash at its end is cut. Fails with what is wrong.
pub(super) fn normalize_origin(entry: &str) -> Result<String, String> {
    let text = entry.trim().trim_end_matches('/');
    let refused = |hint: &str| {
        let form = "an origin such as \"http://localhost:3000\"";
        format!("allowed_origins: {entry:?} is not {form}{hint}")
    };
    if text == "*" || text.eq_ignore_ascii_case("null") {
        return Err(refused("; write each origin that may send requests"));
    }
    let Some((_, rest)) = text.split_once("://") else {
        return Err(refused("; its scheme is missing"));
    };
    let has_host_only = !rest.is_empty() && !rest.contains(['/', '?', '#', '@', '*', ' ']);
    match Url::parse(text) {
        Ok(url) if has_host_only && matches!(url.scheme(), "http" | "https") => {
            Ok(url.origin().ascii_serialization())
        }
        Ok(_) if has_host_only => Ok(text.to_ascii_lowercase()),
        Ok(_) | Err(_) => Err(refused("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_or_without_a_port() {
        for (entry, expected) in [
            ("foo.lan", Some("foo.lan")),
            ("Foo.LAN:8080", Some("foo.lan:8080")),
            ("http://foo.lan", Some("foo.lan")),
            ("https://foo.lan:8443/", Some("foo.lan:8443")),
            ("foo.lan/", Some("foo.lan")),
            ("fd00::1", Some("[fd00::1]")),
            ("[fd00::1]:80", Some("[fd00::1]:80")),
            ("", None),
            ("*.lan", None),
            ("me@foo.lan", None),
            ("foo.lan/v1", None),
            ("foo.lan:", None),
            ("foo.lan:99999", None),
            ("foo lan", None),
        ] {
            assert_eq!(
                normalize_host(entry, true).ok().as_deref(),
                expected,
                "{entry:?}"
            );
        }
        assert_eq!(normalize_host("*", true).as_deref(), Ok("*"));
        assert!(
            normalize_host("*", false)
                .unwrap_err()
                .contains("need a token")
        );
    }

    #[test]
    fn origins_have_a_scheme_and_no_path() {
        for (entry, expected) in [
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("http://localhost:3000/", Some("http://localhost:3000")),
            ("HTTPS://App.Example", Some("https://app.example")),
            ("https://App.Example:443", Some("https://app.example")),
            ("tauri://localhost", Some("tauri://localhost")),
            ("app://obsidian.md", Some("app://obsidian.md")),
            ("localhost:3000", None),
            ("*", None),
            ("null", None),
            ("http://*.example", None),
            ("http://a.example/app", None),
            ("http://", None),
        ] {
            assert_eq!(normalize_origin(entry).ok().as_deref(), expected, "{entry}");
        }
        let why = normalize_origin("localhost:3000").unwrap_err();
        assert!(why.ends_with("its scheme is missing"), "{why}");
    }
}
