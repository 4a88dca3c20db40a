//! Timestamps in file names: `20260807-060504`, in UTC.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// The last second of the year 9999, in seconds since 1970.
pub(super) const MAX_SECOND: u64 = 253_402_300_799;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const FORMAT: &str = "%Y%m%d-%H%M%S";

/// The timestamp of a second since 1970, at most [`MAX_SECOND`].
pub(super) fn format_timestamp(unix: u64) -> String {
    let seconds = i64::try_from(unix).unwrap_or(i64::MAX);
    let time = EPOCH.saturating_add(SignedDuration::from_secs(seconds));
    time.strftime(FORMAT).to_string()
}

/// The second since 1970 of a timestamp; `None` if the text is not exactly one.
pub(super) fn parse_timestamp(text: &str) -> Option<u64> {
    let time = DateTime::strptime(FORMAT, text).ok()?;
    let unix = u64::try_from(time.duration_since(EPOCH).as_secs()).ok()?;
    // Formatting again rejects signs, spaces and missing digits.
    (format_timestamp(unix) == text).then_some(unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_calendar() {
        for (seconds, text) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_786_082_704, "20260807-060504"),
            (4_107_542_399, "21000228-235959"),
            (4_107_542_400, "21000301-000000"),
            (MAX_SECOND, "99991231-235959"),
        ] {
            assert_eq!(format_timestamp(seconds), text);
            assert_eq!(parse_timestamp(text), Some(seconds));
        }
        assert_eq!(format_timestamp(u64::MAX), "99991231-235959");
    }

    #[test]
    fn a_formatted_timestamp_is_parsed_back() {
        for day in (0..=MAX_SECOND / 86_400).step_by(13) {
            let second = day * 86_400 + day % 86_400;
            assert_eq!(
                parse_timestamp(&format_timestamp(second)),
                Some(second),
                "{day}"
            );
        }
    }

    #[test]
    fn other_texts_are_no_timestamps() {
        for text in [
            "",
            "20260807",
            "20260807060504",
            "20260807-06050",
            "20260807-0605040",
            "20260807_060504",
            "20260230-000000",
            "20261301-000000",
            "20260800-000000",
            "20260007-000000",
            "20260807-240000",
            "20260807-006000",
            "+2026087-060504",
            "19691231-235959",
            "00000101-000000",
            "2026080é-06050",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
