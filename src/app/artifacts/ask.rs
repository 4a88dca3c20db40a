//! What a request wants of the artifacts: the query of its URL, and its range.

use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadParameter {
    /// Its name; that of an unknown one is not repeated.
    pub(super) name: Option<&'static str>,
    /// What is wrong with it.
    pub(super) message: String,
}

impl BadParameter {
    pub(super) fn new(name: &'static str, wants: &str) -> Self {
        Self {
            name: Some(name),
            message: format!("{name} must be {wants}."),
        }
    }
}

/// The parameters of a query, all of which are known.
pub(super) struct Params(Vec<(&'static str, String)>);

impl Params {
    /// Those of this query, which may have these names.
    pub(super) fn of(query: &str, known: &[&'static str]) -> Result<Self, BadParameter> {
        let mut params = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().find(|known| **known == name) else {
                return Err(BadParameter {
                    name: None,
                    message: match known {
                        [] => "This takes no parameters.".to_owned(),
                        known => format!("Each parameter must be one of {}.", known.join(", ")),
                    },
                });
            };
            // A form writes a blank as a plus.
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value)
                .decode_utf8()
                .map_err(|_| BadParameter::new(name, "UTF-8"))?;
            params.push((*name, value.into_owned()));
        }
        Ok(Self(params))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| &**value)
    }

    /// A number in this range.
    pub(super) fn number(
        &self,
        name: &'static str,
        range: &RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, BadParameter> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let wants = format!("a number from {} to {}", range.start(), range.end());
            BadParameter::new(name, &wants)
        })
    }

    pub(super) fn switch(&self, name: &'static str) -> Result<bool, BadParameter> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(BadParameter::new(name, "true or false")),
        }
    }
}

/// `FROM-TO`, both of them in it, or `FROM-` for all from there on.
pub(super) fn span(text: &str) -> Option<(u64, Option<u64>)> {
    let (from, to) = text.split_once('-')?;
    let from = digits(from)?;
    if to.is_empty() {
        return Some((from, None));
    }
    let to = digits(to)?;
    (from <= to).then_some((from, Some(to)))
}

/// A range of the Range header (RFC 9110, 14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// From this byte to that one, or to the end.
    From(u64, Option<u64>),
    /// So many bytes before the end.
    Last(u64),
}

/// One range in bytes. Others are ignored, as the RFC allows: the answer is whole.
pub(super) fn range(header: &str) -> Option<Wanted> {
    let spec = header.trim().strip_prefix("bytes=")?.trim();
    if let Some(last) = spec.strip_prefix('-') {
        return digits(last).map(Wanted::Last);
    }
    span(spec).map(|(from, to)| Wanted::From(from, to))
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        for (header, wanted) in [
            ("bytes=0-99", Some(Wanted::From(0, Some(99)))),
            ("bytes=5-", Some(Wanted::From(5, None))),
            ("bytes=-500", Some(Wanted::Last(500))),
            ("bytes=9-5", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=+1-2", None),
            ("bytes=99999999999999999999-", None),
        ] {
            assert_eq!(range(header), wanted, "{header}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_known() {
        let params = Params::of(
            "q=a+b%2B%C3%A9&regex=true&limit=7",
            &["q", "regex", "limit"],
        );
        let params = params.ok().unwrap();
        assert_eq!(params.text("q"), Some("a b+é"));
        assert_eq!(params.switch("regex"), Ok(true));
        assert_eq!(params.number("limit", &(1..=10), 3), Ok(7));
        assert_eq!(params.number("other", &(1..=10), 3), Ok(3));
        let bad = params.number("limit", &(1..=5), 3).unwrap_err();
        assert_eq!(bad.message, "limit must be a number from 1 to 5.");
        let unknown = Params::of("quer=x", &["q"]).err().unwrap();
        assert_eq!(unknown.name, None);
        assert!(!unknown.message.contains("quer"));
        assert!(Params::of("q=%FF", &["q"]).is_err());
    }
}
