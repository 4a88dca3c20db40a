//! Rules for the paths of requests.
//!
//! Paths are compared as they were sent, without decoding. An escaped character can
//! therefore match only a parameter of a route, and the handler that takes the
//! parameter decodes and checks it.
use http::Uri;
use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Characters of a path that an error message repeats.
const SHOWN: usize = 200;

/// How a path can be looked up among the routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathForm {
    /// As it is.
    Plain,
    /// Without its last slash: one trailing slash is accepted on every route.
    TrailingSlash,
    /// Not at all: it has an empty segment, a dot segment or an escaped control
    /// character, which other programs on the way may read differently.
    Unroutable,
}

impl PathForm {
    pub(super) fn of(path: &str) -> Self {
        let Some(below) = path.strip_prefix('/') else {
            return Self::Unroutable;
        };
        let (below, form) = match below.strip_suffix('/') {
            Some(below) => (below, Self::TrailingSlash),
            None => (below, Self::Plain),
        };
        // The root has one empty segment.
        let root = below.is_empty() && form == Self::Plain;
        if !root && below.split('/').any(|s| matches!(s, "" | "." | "..")) {
            return Self::Unroutable;
        }
        if has_escaped_control(below) {
            return Self::Unroutable;
        }
        form
    }
}

fn has_escaped_control(path: &str) -> bool {
    let bytes = path.as_bytes();
    memchr::memchr_iter(b'%', bytes).any(|at| match bytes.get(at + 1..at + 3) {
        Some([b'0' | b'1', digit]) => digit.is_ascii_hexdigit(),
        Some([b'7', digit]) => digit.eq_ignore_ascii_case(&b'f'),
        Some(_) | None => false,
    })
}

/// The same address without the last slash of its path.
pub(super) fn without_trailing_slash(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix('/')?;
    let path_and_query: PathAndQuery = match uri.query() {
        Some(query) => format!("{path}?{query}").parse().ok()?,
        None => path.parse().ok()?,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query);
    Uri::from_parts(parts).ok()
}

/// A path as a message may show it: printable ASCII without quotes and backslashes, cut
/// after 200 characters.
pub(super) fn shown(path: &str) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'\'')
        .add(b'`')
        .add(b'\\')
        .add(b'<')
        .add(b'>');
    let mut characters = utf8_percent_encode(path, ESCAPED).flat_map(str::chars);
    let mut shown: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_can_be_routes() {
        for path in ["/", "/v1", "/v1/models/a%2Fb", "/V1/x;y", "/%68ealthz"] {
            assert_eq!(PathForm::of(path), PathForm::Plain, "{path}");
        }
        for path in ["/v1/", "/v1/responses/"] {
            assert_eq!(PathForm::of(path), PathForm::TrailingSlash, "{path}");
        }
        for path in [
            "",
            "*",
            "v1",
            "//",
            "///",
            "//v1",
            "/v1//",
            "/v1//models",
            "/v1/../v1/models",
            "/v1/./models",
            "/..",
            "/../",
            "/v1/models%00",
            "/v1/models/%1b[31m",
            "/v1/models/%1B",
            "/v1/%7F/",
        ] {
            assert_eq!(PathForm::of(path), PathForm::Unroutable, "{path}");
        }
    }

    #[test]
    fn a_trailing_slash_is_removed_before_the_query() {
        for (address, expected) in [
            ("/v1/models/", "/v1/models"),
            ("/v1/models/?a=b/", "/v1/models?a=b/"),
            ("http://localhost:1/a/?q", "http://localhost:1/a?q"),
        ] {
            let address: Uri = address.parse().unwrap();
            let without = without_trailing_slash(&address).unwrap();
            assert_eq!(without, expected.parse::<Uri>().unwrap());
        }
        assert_eq!(without_trailing_slash(&"/a".parse().unwrap()), None);
    }

    #[test]
    fn a_shown_path_has_no_quotes_no_controls_and_an_end() {
        assert_eq!(shown("/v1/chat/completions"), "/v1/chat/completions");
        assert_eq!(shown("/%1b[31m"), "/%1b[31m");
        assert_eq!(
            shown("/\"'`\\<>\u{1b}\u{9b}\u{202e}ä"),
            "/%22%27%60%5C%3C%3E%1B%C2%9B%E2%80%AE%C3%A4"
        );
        let long = shown(&format!("/{}", "x".repeat(1000)));
        assert_eq!(long.len(), 203);
        assert!(long.ends_with("x..."));
    }
}
