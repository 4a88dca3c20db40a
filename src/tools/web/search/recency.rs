//! The days of a search. Some search engines take the first day, others the name of a period.

use jiff::ToSpan as _;
use jiff::civil::Date;

/// The periods that search engines know.
#[derive(Clone, Copy)]
pub(super) enum Recency {
    /// The last day.
    Day,
    /// The last 7 days.
    Week,
    /// The last 31 days.
    Month,
    /// The last 366 days.
    Year,
}

impl Recency {
    /// The shortest period that holds all these days. `None` if there is none: then pages of all
    /// times are wanted rather than none.
    pub(super) fn of(days: u32) -> Option<Self> {
        Some(match days {
            0 | 1 => Self::Day,
            2..=7 => Self::Week,
            8..=31 => Self::Month,
            32..=366 => Self::Year,
            367.. => return None,
        })
    }

    /// `day`, `week`, `month` or `year`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The first letter of the name, by which Google and DuckDuckGo know the period.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "m",
            Self::Year => "y",
        }
    }
}

/// The first of the last days.
pub(super) fn first_day(today: Date, days: u32) -> Date {
    // No page of the web is older than a hundred years.
    today.saturating_sub(i64::from(days.min(36_500)).days())
}
