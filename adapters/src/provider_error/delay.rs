//! The pause that a provider asks for, in headers, details or text.

use std::time::{Duration, SystemTime};

use super::find;

/// A number of seconds above this is a Unix time: as a date it is in 2001 or later, as a pause it
/// would be 31 years.
const MIN_UNIX_TIME: f64 = 1e9;

/// The longest pause that is accepted.
const MAX_WAIT: Duration = Duration::from_hours(24);

/// The pause that the headers of an error reply ask for. `header` returns a
/// header's value by its name in lower case; `now` is the time to which dates are
/// compared.
///
/// In this order: `retry-after-ms`, `retry-after` in seconds or as a date, which some servers write
/// as a Unix time, and, for limits with nothing remaining, the time of the reset. That is
/// `x-ratelimit-reset-requests` and `-tokens` as `1m10.3s`, `120ms` or seconds at OpenAI, Groq and
/// Azure, and `x-ratelimit-reset` as a Unix time at OpenRouter.
pub fn from_headers<'h>(
    header: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    if let Some(ms) = number("retry-after-ms") {
        return if ms > MIN_UNIX_TIME * 1000.0 {
            parse_reset(&ms.to_string(), now)
        } else {
            bounded(ms / 1000.0)
        };
    }
    if let Some(text) = header("retry-after") {
        let text = text.trim();
        return match httpdate::parse_http_date(text) {
            Ok(date) => until(date, now),
            Err(_) => parse_reset(text, now),
        };
    }
    ["", "-requests", "-tokens"]
        .into_iter()
        .filter(|limit| number(&format!("x-ratelimit-remaining{limit}")) == Some(0.0))
        .filter_map(|limit| parse_reset(header(&format!("x-ratelimit-reset{limit}"))?.trim(), now))
        .max()
}

/// A reset time: a Unix time in seconds or milliseconds, else a duration.
fn parse_reset(text: &str, now: SystemTime) -> Option<Duration> {
    let Ok(number) = text.parse::<f64>() else {
        return parse_duration(text);
    };
    let unix = if number > 1e11 {
        number / 1000.0
    } else {
        number
    };
    if unix < MIN_UNIX_TIME {
        return bounded(number);
    }
    let date = SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(unix).ok()?;
    until(date, now)
}

fn until(date: SystemTime, now: SystemTime) -> Option<Duration> {
    bounded(date.duration_since(now).ok()?.as_secs_f64())
}

/// Seconds as a pause; `None` for zero and for invalid numbers.
fn bounded(seconds: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    (!wait.is_zero()).then(|| wait.min(MAX_WAIT))
}

/// The pause in a text: `Please try again in 6m0s`, `Please retry in 48.9s`,
/// `Please retry after 26 seconds`.
pub(super) fn from_text(lower: &str) -> Option<Duration> {
    const PHRASES: [&str; 7] = [
        "try again in ",
        "try again after ",
        "retry in ",
        "retry after ",
        "retry again in ",
        "please wait ",
        "resets in ",
    ];
    PHRASES
        .into_iter()
        .find_map(|phrase| parse_duration(lower.split_once(phrase)?.1))
}

/// Parses a duration at the beginning of a text: `37s`, `1m10.3s`, `120ms`, `26
/// seconds`, `2 minutes`. A number without a unit is in seconds.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut seconds = None;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        // A period at the end of a sentence is not a decimal point.
        let (number, after) = rest.split_at_checked(digits)?;
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else {
            break;
        };
        if number > MIN_UNIX_TIME {
            break;
        }
        let after = after.trim_start();
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let Some(scale) = unit_seconds(unit) else {
            // `5 requests` is not a duration.
            break;
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * scale);
        rest = after;
    }
    bounded(seconds?)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    let scale = match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "us" | "µs" => 0.000_001,
        "ns" => 0.000_000_001,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some(scale)
}

/// Whether a limit is per day or month, so that waiting for it is pointless.
pub(super) fn is_day_or_longer(lower: &str) -> bool {
    find::contains_any(lower, &["perday", "per-day", "permonth", "per-month"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22 01:00:00 UTC
    const NOW: u64 = 1_795_309_200;

    fn waits(headers: &[(&str, &'static str)]) -> Option<u64> {
        let header = |name: &str| {
            headers
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value)
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let wait = from_headers(header, now)?;
        u64::try_from(wait.as_millis()).ok()
    }

    #[test]
    fn pauses_are_read_from_headers() {
        for (headers, milliseconds) in [
            (&[][..], None),
            (&[("retry-after", "7")], Some(7_000)),
            (&[("retry-after", " 0.5 ")], Some(500)),
            (&[("retry-after", "0")], None),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "nan")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "1e300")], None),
            (&[("retry-after", "99999999")], Some(86_400_000)),
            // A Unix time, in seconds, with a fraction, in milliseconds, and one that has passed.
            (&[("retry-after", "1795309220")], Some(20_000)),
            (&[("retry-after", "1795309220.5")], Some(20_500)),
            (&[("retry-after", "1795309220000")], Some(20_000)),
            (&[("retry-after", "1795309100")], None),
            (&[("retry-after-ms", "1795309220000")], Some(20_000)),
            (
                &[("retry-after", "Sun, 22 Nov 2026 01:00:30 GMT")],
                Some(30_000),
            ),
            (&[("retry-after", "Sun, 22 Nov 2026 00:00:00 GMT")], None),
            (
                &[("retry-after-ms", "1500"), ("retry-after", "9")],
                Some(1_500),
            ),
            // Only the exhausted limit counts.
            (
                &[
                    ("x-ratelimit-remaining-requests", "12"),
                    ("x-ratelimit-reset-requests", "6m0s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "1m10.3s"),
                ],
                Some(70_300),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "53"),
                ],
                Some(53_000),
            ),
            (
                &[
                    ("retry-after", "2"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "53"),
                ],
                Some(2_000),
            ),
            (
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1795309215000"),
                ],
                Some(15_000),
            ),
            (&[("x-ratelimit-reset", "1795309215")], None),
        ] {
            assert_eq!(waits(headers), milliseconds, "{headers:?}");
        }
    }

    #[test]
    fn pauses_are_read_from_texts() {
        for (text, milliseconds) in [
            ("please try again in 1.2s. need more tokens?", Some(1_200)),
            ("please try again in 6m0s.", Some(360_000)),
            ("try again in 20ms", Some(20)),
            ("please retry in 48.939935699s.", Some(48_939)),
            ("please retry after 26 seconds.", Some(26_000)),
            ("retry after 2 minutes", Some(120_000)),
            ("try again in 14m24.5s", Some(864_500)),
            ("please wait 5 and try", None),
            ("please retry after 1795309220", None),
            ("please try again in a moment", None),
            ("please try again later", None),
            ("5s", None),
        ] {
            let pause = from_text(text).map(|wait| wait.as_millis());
            assert_eq!(pause, milliseconds, "{text}");
        }
    }
}
