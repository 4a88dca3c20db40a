//! Timestamps in file names: `20260807-060504`, in UTC.

/// The last second of the year 9999, in seconds since 1970.
pub(super) const MAX_SECOND: u64 = 253_402_300_799;

const DAY_SECONDS: u64 = 24 * 3600;

/// The timestamp of a second since 1970, at most [`MAX_SECOND`].
pub(super) fn format_timestamp(unix: u64) -> String {
    let unix = unix.min(MAX_SECOND);
    let (year, month, day) = date_of_day(unix / DAY_SECONDS);
    let second = unix % DAY_SECONDS;
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// The second since 1970 of a timestamp; `None` if the text is not exactly one.
pub(super) fn parse_timestamp(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<u64> { text.get(from..to)?.parse().ok() };
    let days = day_of_date(number(0, 4)?, number(4, 6)?, number(6, 8)?)?;
    let time = number(9, 11)? * 3600 + number(11, 13)? * 60 + number(13, 15)?;
    let unix = days * DAY_SECONDS + time;
    // Formatting again rejects signs and days such as the 30th of February.
    (format_timestamp(unix) == text).then_some(unix)
}

/// Year, month and day of a day since 1970. The calculation lets the year begin in
/// March, so that the leap day is its last day; the months are then 30.6 days long on
/// average. 400 years have 146,097 days.
fn date_of_day(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year, month + 3)
    } else {
        (year + 1, month - 9)
    };
    (era * 400 + year, month, day)
}

/// The inverse of [`date_of_day`], for the years from 1970 on.
fn day_of_date(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year.checked_sub(1)?, month + 9)
    };
    let (era, year) = (year / 400, year % 400);
    let day = (153 * month + 2) / 5 + day.checked_sub(1)?;
    let day = 365 * year + year / 4 - year / 100 + day;
    (era * 146_097 + day).checked_sub(719_468)
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
        for day in (0..=MAX_SECOND / DAY_SECONDS).step_by(13) {
            let second = day * DAY_SECONDS + day % DAY_SECONDS;
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
