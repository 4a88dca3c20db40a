//! The query of a request, and its Range header.

use std::ops::RangeInclusive;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use percent_encoding::percent_decode_str;

use crate::serve::error::{ErrorBody, INVALID_REQUEST};

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(in crate::app) struct ParameterError {
    /// Its name; `None` for an unknown one, because the name is the client's text.
    pub(in crate::app) name: Option<&'static str>,
    pub(in crate::app) message: String,
}

impl ParameterError {
    /// An error with the message that the parameter `name` must be `expected`.
    pub(in crate::app) fn new(name: &'static str, expected: &str) -> Self {
        Self {
            name: Some(name),
            message: format!("{name} must be {expected}."),
        }
    }
}

impl IntoResponse for ParameterError {
    fn into_response(self) -> Response {
        ErrorBody {
            message: &self.message,
            kind: INVALID_REQUEST,
            param: self.name,
            code: Some("invalid_value"),
        }
        .respond(StatusCode::BAD_REQUEST)
    }
}

pub(in crate::app) struct QueryParams(Vec<(&'static str, String)>);

impl QueryParams {
    /// Parses a query whose parameters may have these names.
    pub(in crate::app) fn parse(
        query: Option<&str>,
        known: &[&'static str],
    ) -> Result<Self, ParameterError> {
        Self::read(query, known, false)
    }

    /// Parses those parameters of a query that have these names, and ignores others.
    pub(in crate::app) fn parse_some(
        query: Option<&str>,
        known: &[&'static str],
    ) -> Result<Self, ParameterError> {
        Self::read(query, known, true)
    }

    fn read(
        query: Option<&str>,
        known: &[&'static str],
        ignores_others: bool,
    ) -> Result<Self, ParameterError> {
        let query = query.unwrap_or_default();
        let mut params = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().find(|known| **known == name) else {
                if ignores_others {
                    continue;
                }
                return Err(ParameterError {
                    name: None,
                    message: match known {
                        [] => "This takes no parameters.".to_owned(),
                        known => format!("Each parameter must be one of {}.", known.join(", ")),
                    },
                });
            };
            // HTML forms encode a space as a plus sign.
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value)
                .decode_utf8()
                .map_err(|_| ParameterError::new(name, "UTF-8"))?;
            params.push((*name, value.into_owned()));
        }
        Ok(Self(params))
    }

    /// The last value with this name.
    pub(in crate::app) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| &**value)
    }

    /// A number in this range.
    pub(in crate::app) fn number(
        &self,
        name: &'static str,
        range: &RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, ParameterError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let expected = format!("a number from {} to {}", range.start(), range.end());
            ParameterError::new(name, &expected)
        })
    }

    pub(in crate::app) fn flag(&self, name: &'static str) -> Result<bool, ParameterError> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(ParameterError::new(name, "true or false")),
        }
    }
}

/// Parses `FROM-TO`, where both are included, or `FROM-`, which goes to the end.
pub(in crate::app) fn from_to(text: &str) -> Option<(u64, Option<u64>)> {
    let (from, to) = text.split_once('-')?;
    let from = parse_decimal(from)?;
    if to.is_empty() {
        return Some((from, None));
    }
    let to = parse_decimal(to)?;
    (from <= to).then_some((from, Some(to)))
}

/// One range of a Range header (RFC 9110, 14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app) enum ByteRange {
    /// From this byte to that one, which is included, or to the end.
    From(u64, Option<u64>),
    /// The last bytes of the text, this many.
    Last(u64),
}

/// Parses a Range header with one range of bytes. All others are ignored, as the RFC
/// allows: the response is the whole text.
pub(in crate::app) fn byte_range(header: &str) -> Option<ByteRange> {
    let spec = header.trim().strip_prefix("bytes=")?.trim();
    if let Some(last) = spec.strip_prefix('-') {
        return parse_decimal(last).map(ByteRange::Last);
    }
    from_to(spec).map(|(from, to)| ByteRange::From(from, to))
}

fn parse_decimal(text: &str) -> Option<u64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_headers_are_parsed_as_the_rfc_says() {
        for (header, expected) in [
            ("bytes=0-99", Some(ByteRange::From(0, Some(99)))),
            ("bytes=5-", Some(ByteRange::From(5, None))),
            ("bytes=-500", Some(ByteRange::Last(500))),
            ("bytes=9-5", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=+1-2", None),
            ("bytes=99999999999999999999-", None),
        ] {
            assert_eq!(byte_range(header), expected, "{header}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_unknown_ones_refused() {
        let query = "q=a+b%2B%C3%A9&regex=true&limit=7";
        let params = QueryParams::parse(Some(query), &["q", "regex", "limit"]);
        let params = params.ok().unwrap();
        assert_eq!(params.text("q"), Some("a b+é"));
        assert_eq!(params.flag("regex"), Ok(true));
        assert_eq!(params.number("limit", &(1..=10), 3), Ok(7));
        assert_eq!(params.number("other", &(1..=10), 3), Ok(3));
        let bad = params.number("limit", &(1..=5), 3).unwrap_err();
        assert_eq!(bad.message, "limit must be a number from 1 to 5.");
        let unknown = QueryParams::parse(Some("quer=x"), &["q"]).err().unwrap();
        assert_eq!(unknown.name, None);
        assert!(!unknown.message.contains("quer"));
        assert!(QueryParams::parse(Some("q=%FF"), &["q"]).is_err());
    }
}
