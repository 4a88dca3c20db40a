//! Which recorded turns exist, as rows of a list, and which of them a user asks for:
//! the query of `GET /diagnostics/bundle` and the flags of `respondent bundle create`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bundle::{BundleTurn, is_local};
use crate::net::local_owner;
use crate::turn::Outcome;

/// Which turns a user asks for. [`ListedTurn::matches`] applies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The newest turn of an agent that failed; if there is none, the newest request that was
    /// refused.
    #[default]
    Failed,
    /// The newest turn.
    Last,
    /// The turn of the response with this id.
    Response(String),
    /// The turn of the HTTP request with this id.
    Request(String),
    /// All turns that began at most this long ago.
    Since(Duration),
}

/// One recorded turn in a list, without any of its contents. It is an element of the
/// JSON of `GET /diagnostics/turns`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the JSON"
)]
pub struct ListedTurn {
    /// The id of the HTTP request.
    pub request_id: String,
    /// The owner of the turn: the name of a client, or `local`.
    #[serde(default = "local_owner", skip_serializing_if = "is_local")]
    pub owner: String,
    /// The id of the response; `None` if none was started.
    pub response_id: Option<String>,
    /// When the turn began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long the turn took, in microseconds.
    pub took_us: u64,
    /// How the turn ended; `None` while it is running.
    pub outcome: Option<Outcome>,
    /// `provider/model` of the last attempt, with the provider's own model name; `None`
    /// if there was no attempt.
    pub route: Option<String>,
    /// Whether the turn failed, no matter whose fault it was.
    pub failed: bool,
    /// Whether it was sent to a provider, or is Codex's: no request that somebody has mistyped.
    #[serde(default)]
    pub agent: bool,
    /// Whether the turn is in memory, not redacted.
    pub memory: bool,
    /// Whether the turn is in the folder of stored bundles, redacted.
    pub disk: bool,
}

/// The query of `GET /diagnostics/bundle`, such as `select=since:3600&images=1`: which
/// turns to pack, and what of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleQuery {
    /// The turns to pack.
    pub selection: Selection,
    /// Whether images are kept whole; otherwise only their hash.
    pub images: bool,
    /// Whether encrypted contents are kept whole; otherwise only their hash.
    pub encrypted: bool,
}

/// A query parameter of `GET /diagnostics/bundle` that is unknown or malformed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{parameter} must be {expected}.")]
pub struct BadBundleQuery {
    /// The name of the parameter. The name of an unknown parameter is not repeated.
    pub parameter: &'static str,
    /// The values that the parameter accepts.
    pub expected: &'static str,
}

const BAD_SELECT: BadBundleQuery = BadBundleQuery {
    parameter: "select",
    expected: "failed, last, response:ID, request:ID or since:SECONDS",
};

impl BundleQuery {
    /// Parses the query of a URL, without the question mark.
    pub fn from_query(query: &str) -> Result<Self, BadBundleQuery> {
        let mut wanted = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "select" => {
                    wanted.selection = Selection::from_query_value(value).ok_or(BAD_SELECT)?;
                }
                "images" => wanted.images = parse_flag(value, "images")?,
                "encrypted" => wanted.encrypted = parse_flag(value, "encrypted")?,
                _ => {
                    return Err(BadBundleQuery {
                        parameter: "each parameter",
                        expected: "one of select, images and encrypted",
                    });
                }
            }
        }
        Ok(wanted)
    }

    /// Encodes the query of a URL, without the question mark.
    pub fn to_query(&self) -> String {
        let mut query = format!("select={}", self.selection);
        for (name, on) in [("images", self.images), ("encrypted", self.encrypted)] {
            if on {
                query.push('&');
                query.push_str(name);
                query.push_str("=1");
            }
        }
        query
    }
}

fn parse_flag(value: &str, name: &'static str) -> Result<bool, BadBundleQuery> {
    match value {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(BadBundleQuery {
            parameter: name,
            expected: "0 or 1",
        }),
    }
}

impl Selection {
    fn from_query_value(value: &str) -> Option<Self> {
        Some(match value.split_once(':') {
            None if value == "failed" => Self::Failed,
            None if value == "last" => Self::Last,
            Some(("response", id)) => Self::Response(id.parse::<TurnId>().ok()?.0),
            Some(("request", id)) => Self::Request(id.parse::<TurnId>().ok()?.0),
            Some(("since", seconds)) => Self::Since(Duration::from_secs(seconds.parse().ok()?)),
            None | Some(_) => return None,
        })
    }

    /// The selection as a noun phrase that can follow "no", such as "turn that failed".
    pub fn describe(&self) -> String {
        match self {
            Self::Failed => "turn that failed".to_owned(),
            Self::Last => "turn".to_owned(),
            Self::Response(id) => format!("turn with the response {id}"),
            Self::Request(id) => format!("turn with the request {id}"),
            Self::Since(time) => format!("turn of the last {}", TimeSpan(*time)),
        }
    }
}

/// The value of the query parameter `select`.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("failed"),
            Self::Last => f.write_str("last"),
            Self::Response(id) => write!(f, "response:{id}"),
            Self::Request(id) => write!(f, "request:{id}"),
            Self::Since(time) => write!(f, "since:{}", time.as_secs()),
        }
    }
}

impl ListedTurn {
    /// The row of a turn in the folder of stored bundles.
    pub fn from_bundle_turn(turn: &BundleTurn) -> Self {
        Self {
            request_id: turn.request_id.clone(),
            owner: turn.owner.clone(),
            response_id: turn.response_id(),
            began_ms: turn.began_ms,
            took_us: turn.took_us,
            outcome: turn.outcome,
            route: turn.attempts.last().map(|attempt| attempt.route.clone()),
            failed: turn.is_failure(),
            agent: !turn.attempts.is_empty() || is_codex(&turn.request.headers),
            memory: false,
            disk: true,
        }
    }

    /// Whether this turn is taken before all that are not, whatever their age.
    pub fn is_preferred(&self, select: &Selection) -> bool {
        *select == Selection::Failed && self.failed && self.agent
    }

    /// Whether the selection includes this turn. For every selection but
    /// [`Selection::Since`] the caller takes only the newest turn that matches.
    pub fn matches(&self, select: &Selection, now: SystemTime) -> bool {
        match select {
            Selection::Failed => self.failed,
            Selection::Last => true,
            Selection::Response(id) => self.response_id.as_ref() == Some(id),
            Selection::Request(id) => self.request_id == *id,
            Selection::Since(span) => now
                .checked_sub(*span)
                .and_then(|from| from.duration_since(UNIX_EPOCH).ok())
                .is_none_or(|from| u128::from(self.began_ms) >= from.as_millis()),
        }
    }
}

/// Whether these headers are Codex's.
pub(in crate::diagnostics) fn is_codex(headers: &[(String, String)]) -> bool {
    let headers = headers.iter();
    let is_own = |name: &str| name == "originator" || name == "user-agent";
    headers
        .filter(|(name, _)| is_own(name))
        .any(|(_, value)| value.starts_with("codex"))
}

/// The id of a response or of an HTTP request as a user types it, safe in a query and
/// in a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnId(
    /// 1 to 128 ASCII letters, digits, `_` and `-`.
    pub String,
);

impl FromStr for TurnId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=128).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err("an id is made of letters, digits, '_' and '-'")
        }
    }
}

/// A length of time as a user types it: `90s`, `15m`, `1h`, `2d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(
    /// Whole seconds.
    pub Duration,
);

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

impl FromStr for TimeSpan {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        UNITS
            .iter()
            .find_map(|(unit, seconds)| {
                let number = text.strip_suffix(*unit)?;
                // `parse` alone would take a plus sign.
                let number: u64 = number
                    .bytes()
                    .all(|byte| byte.is_ascii_digit())
                    .then(|| number.parse().ok())??;
                let seconds = number
                    .checked_mul(*seconds)
                    .filter(|seconds| *seconds > 0)?;
                Some(Self(Duration::from_secs(seconds)))
            })
            .ok_or("a time is a number and s, m, h or d, such as 90s, 15m, 1h or 2d")
    }
}

/// In the largest unit that divides the span evenly.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let exact = UNITS
            .iter()
            .find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
        match exact {
            Some((name, unit)) => write!(f, "{}{name}", seconds / unit),
            None => write!(f, "{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(select: Selection) -> BundleQuery {
        BundleQuery {
            selection: select,
            ..BundleQuery::default()
        }
    }

    #[test]
    fn a_query_is_parsed() {
        for (query, expected) in [
            ("", Selection::Failed),
            ("select=failed", Selection::Failed),
            ("select=last", Selection::Last),
            (
                "select=response:resp_1",
                Selection::Response("resp_1".into()),
            ),
            (
                "select=request:req_a-1",
                Selection::Request("req_a-1".into()),
            ),
            (
                "select=since:3600",
                Selection::Since(Duration::from_hours(1)),
            ),
        ] {
            assert_eq!(
                BundleQuery::from_query(query),
                Ok(wanted(expected)),
                "{query}"
            );
        }
        let all = BundleQuery {
            selection: Selection::Last,
            images: true,
            encrypted: true,
        };
        assert_eq!(
            BundleQuery::from_query("images=1&select=last&encrypted=1"),
            Ok(all)
        );
        assert_eq!(
            BundleQuery::from_query("images=0"),
            Ok(BundleQuery::default())
        );
    }

    #[test]
    fn an_encoded_query_is_parsed_back() {
        for select in [
            Selection::Failed,
            Selection::Last,
            Selection::Response("resp_1".into()),
            Selection::Request("req_1".into()),
            Selection::Since(Duration::from_secs(90)),
        ] {
            for (images, encrypted) in [(false, false), (true, false), (false, true)] {
                let wanted = BundleQuery {
                    selection: select.clone(),
                    images,
                    encrypted,
                };
                assert_eq!(BundleQuery::from_query(&wanted.to_query()), Ok(wanted));
            }
        }
    }

    #[test]
    fn a_bad_query_names_its_parameter() {
        for (query, name) in [
            ("select", "select"),
            ("select=all", "select"),
            ("select=last:1", "select"),
            ("select=response:", "select"),
            ("select=response:../../x", "select"),
            ("select=response:a%20b", "select"),
            ("select=since:", "select"),
            ("select=since:-1", "select"),
            ("select=since:1h", "select"),
            ("images=yes", "images"),
            ("images", "images"),
            ("encrypted=2", "encrypted"),
            ("Select=last", "each parameter"),
        ] {
            let bad = BundleQuery::from_query(query).map_err(|bad| bad.parameter);
            assert_eq!(bad, Err(name), "{query}");
        }
    }

    #[test]
    fn time_spans_are_parsed_and_printed() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.0.as_secs(), seconds);
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("60m".parse::<TimeSpan>().unwrap().to_string(), "1h");
        for bad in [
            "",
            "h",
            "1",
            "1w",
            "-1h",
            "+1h",
            "1.5h",
            "1 h",
            "0s",
            "1hh",
            "é",
            "99999999999999999999d",
            "999999999999999999d",
        ] {
            assert!(bad.parse::<TimeSpan>().is_err(), "{bad}");
        }
    }
}
