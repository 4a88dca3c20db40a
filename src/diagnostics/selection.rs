//! Which turns are wanted: as a query of `GET /diagnostics/bundle` and as flags of
//! `respondent bundle create`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bundle::BundleTurn;
use crate::metrics::Outcome;

/// Which turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The newest that failed.
    #[default]
    Failed,
    /// The newest.
    Last,
    /// That of the response with this id.
    Response(String),
    /// That of the HTTP request with this id.
    Request(String),
    /// All that began so long ago at most.
    Since(Duration),
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedTurn {
    /// The id of the HTTP request.
    pub request_id: String,
    /// The id of the response, if one was begun.
    pub response_id: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took.
    pub took_us: u64,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Provider, slash, the provider's name of the model; none was reached.
    pub route: Option<String>,
    /// Whether it ended in a failure, of whatever side.
    pub failed: bool,
    /// Whether it is in memory, whole.
    pub memory: bool,
    /// Whether it is in the folder, redacted.
    pub disk: bool,
}

/// What is wanted of them: the query of `GET /diagnostics/bundle`, such as
/// `select=since:3600&images=1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleQuery {
    /// Which turns.
    pub selection: Selection,
    /// Images are kept whole, else their hash.
    pub images: bool,
    /// Encrypted contents are kept whole, else their hash.
    pub encrypted: bool,
}

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} must be {wants}.")]
pub struct BadBundleQuery {
    /// Its name; that of an unknown one is not repeated.
    pub name: &'static str,
    /// What it takes.
    pub wants: &'static str,
}

const BAD_SELECT: BadBundleQuery = BadBundleQuery {
    name: "select",
    wants: "failed, last, response:ID, request:ID or since:SECONDS",
};

impl BundleQuery {
    /// The query of a URL, without the question mark.
    pub fn from_query(query: &str) -> Result<Self, BadBundleQuery> {
        let mut wanted = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "select" => {
                    wanted.selection = Selection::from_query_value(value).ok_or(BAD_SELECT)?
                }
                "images" => wanted.images = parse_flag(value, "images")?,
                "encrypted" => wanted.encrypted = parse_flag(value, "encrypted")?,
                _ => {
                    return Err(BadBundleQuery {
                        name: "each parameter",
                        wants: "one of select, images and encrypted",
                    });
                }
            }
        }
        Ok(wanted)
    }

    /// The query of a URL, without the question mark.
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
            name,
            wants: "0 or 1",
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

    /// What there is none of, in words that follow "no".
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

/// As in a query.
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
    /// A turn in the folder.
    pub fn from_bundle_turn(turn: &BundleTurn) -> Self {
        Self {
            request_id: turn.request_id.clone(),
            response_id: turn.response_id(),
            began_ms: turn.began_ms,
            took_us: turn.took_us,
            outcome: turn.outcome,
            route: turn.attempts.last().map(|attempt| attempt.route.clone()),
            failed: turn.is_failure(),
            memory: false,
            disk: true,
        }
    }

    /// Whether it is selected, of rows that come newest first: the newest that
    /// is, or all of a time.
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

/// An id that a query and a file name can carry as it is.
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

/// A time span in words: `90s`, `15m`, `1h`, `2d`.
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

/// In the largest unit that says it exactly.
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
    fn a_query_says_what_is_wanted() {
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
    fn what_is_written_is_read_again() {
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
    fn a_bad_query_is_told_its_parameter() {
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
            let bad = BundleQuery::from_query(query).map_err(|bad| bad.name);
            assert_eq!(bad, Err(name), "{query}");
        }
    }

    #[test]
    fn times_are_read_and_told() {
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
