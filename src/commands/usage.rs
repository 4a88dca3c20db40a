//! `respondent usage`: what turns have used, by day, owner and model, as the database says: that of
//! the server which runs on the configured address, or else that of this shell.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use comfy_table::CellAlignment::{Left, Right};
use jiff::Span;
use jiff::civil::date;
use serde::Serialize;

use super::store::{data_dir, open};
use super::{print_json, print_text};
use crate::app::status::report::ModelUsage;
use crate::clock::{Clock as _, HOUR_SECONDS, System, local_day};
use crate::config::Config;
use crate::diagnostics::listing::short_route;
use crate::diagnostics::selection::TimeSpan;
use crate::log::{SafeText, table};
use crate::metrics::spent::DAY_SECONDS;
use crate::net::LOCAL_OWNER;
use crate::store::{KEPT_HOURS, UsageKey, UsagePeriod, UsageSum};

/// The characters of an owner in the table, so that its lines fit a terminal.
const MAX_OWNER_CHARS: usize = 10;

/// The characters of a route in the table.
const MAX_ROUTE_CHARS: usize = 18;

/// The label in front of the sums.
const ALL_DAYS: &str = "all days";

/// What was used on a day.
#[derive(Debug, PartialEq, Serialize)]
struct UsageRow {
    /// In the time zone of the server, such as `2026-11-24`.
    day: String,
    #[serde(flatten)]
    usage: ModelUsage,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct UsageListing {
    /// The newest day first.
    days: Vec<UsageRow>,
    /// The sum for each owner, under no model.
    owners: Vec<ModelUsage>,
}

/// How far back `respondent usage` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageSpan {
    /// So many whole days, today included.
    Days(i64),
    /// So long ago, counted in whole hours of the clock.
    Hours(TimeSpan),
}

impl FromStr for UsageSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let span: TimeSpan = text.parse()?;
        let seconds = span.0.as_secs();
        let days = i64::try_from(seconds / DAY_SECONDS).unwrap_or(i64::MAX);
        if text.ends_with('d') {
            return Ok(Self::Days(days));
        }
        if seconds > KEPT_HOURS.unsigned_abs() * HOUR_SECONDS {
            let kept = KEPT_HOURS / 24;
            return Err(format!(
                "the hours of the last {kept} days are known; for a longer time give days, such as {}d",
                days.saturating_add(1)
            ));
        }
        Ok(Self::Hours(span))
    }
}

impl fmt::Display for UsageSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Days(days) => write!(f, "{days}d"),
            Self::Hours(span) => span.fmt(f),
        }
    }
}

/// Prints what was used since then.
pub async fn run(config: &Config, since: UsageSpan, json: bool) -> anyhow::Result<()> {
    let now = System.unix();
    let store = open(&data_dir(config).await)?.reading;
    let sums = match since {
        UsageSpan::Days(days) => {
            let first = local_day(now).saturating_sub(days.saturating_sub(1));
            store.usage_since(UsagePeriod::Day, first)?
        }
        UsageSpan::Hours(span) => {
            let first = now.saturating_sub(span.0.as_secs()) / HOUR_SECONDS;
            let first = i64::try_from(first).unwrap_or(i64::MAX);
            by_day(&store.usage_since(UsagePeriod::Hour, first)?)
        }
    };
    let usage = UsageListing::new(&sums);
    if json {
        return print_json(&usage);
    }
    if usage.days.is_empty() {
        return print_text(&format!("No turns in {since}.\n"));
    }
    print_text(&usage.text())
}

/// The sums of hours by day, the newest first.
fn by_day(hours: &[(UsageKey, UsageSum)]) -> Vec<(UsageKey, UsageSum)> {
    let mut days = std::collections::BTreeMap::<_, UsageSum>::new();
    for (key, sum) in hours {
        let began = u64::try_from(key.hour).unwrap_or(0) * HOUR_SECONDS;
        let key = UsageKey {
            day: local_day(began),
            hour: 0,
            ..key.clone()
        };
        days.entry((Reverse(key.day), key)).or_default().add(sum);
    }
    days.into_iter().map(|((_, key), sum)| (key, sum)).collect()
}

impl UsageListing {
    fn new(sums: &[(UsageKey, UsageSum)]) -> Self {
        let days = sums.iter().map(|(key, sum)| UsageRow {
            day: day_name(key.day),
            usage: ModelUsage::new(&key.owner, (&key.provider, &key.model), sum),
        });
        let mut owners = std::collections::BTreeMap::<&str, UsageSum>::new();
        for (key, sum) in sums {
            owners.entry(&key.owner).or_default().add(sum);
        }
        let owners = owners.into_iter();
        let owners = owners.map(|(owner, sum)| ModelUsage::new(owner, ("", ""), &sum));
        Self {
            days: days.collect(),
            owners: owners.collect(),
        }
    }

    /// As text for a terminal of the usual width. If there are clients, each day has a line of its
    /// own, and those below it name the client.
    fn text(&self) -> String {
        let has_clients = self.owners.iter().any(|it| it.owner != LOCAL_OWNER);
        let row = |first: &str, route: &str, usage: &ModelUsage| {
            let first = SafeText::up_to(first, MAX_OWNER_CHARS).to_string();
            let route = short_route(route, MAX_ROUTE_CHARS);
            let [turns, input, cached, output, cost] = usage.cells();
            [first, route, turns, input, cached, output, cost]
        };
        let mut last_day = "";
        let mut rows = Vec::new();
        for it in &self.days {
            let is_new = it.day != last_day;
            last_day = &it.day;
            if is_new && has_clients {
                rows.push(heading(&it.day));
            }
            let first = match (has_clients, is_new) {
                (true, _) => &it.usage.owner,
                (false, true) => &it.day,
                (false, false) => "",
            };
            let route = format!("{}/{}", it.usage.provider, it.usage.model);
            rows.push(row(first, &route, &it.usage));
        }
        if has_clients {
            rows.push(heading(ALL_DAYS));
        }
        for it in &self.owners {
            let first = if has_clients {
                it.owner.as_str()
            } else {
                ALL_DAYS
            };
            rows.push(row(first, "", it));
        }
        let columns = [
            ("day", Left, 10),
            ("model", Left, 5),
            ("turns", Right, 5),
            ("tokens in", Right, 9),
            ("cached", Right, 6),
            ("tokens out", Right, 10),
            ("cost", Right, 6),
        ];
        let mut text = table(columns, rows.into_iter());
        if self.days.iter().any(|it| it.usage.turns_without_price > 0) {
            text += "+ Without the turns whose price is unknown.\n";
        }
        text
    }
}

/// A line of the table with nothing but its first cell.
fn heading(text: &str) -> [String; 7] {
    [text, "", "", "", "", "", ""].map(str::to_owned)
}

/// A day since 1970 as a date.
pub(super) fn day_name(day: i64) -> String {
    let first = date(1970, 1, 1);
    let span = Span::new().try_days(day);
    let date = span.and_then(|span| first.checked_add(span));
    date.map_or_else(|_| day.to_string(), |date| date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(day: i64, owner: &str, model: &str, unpriced: u64) -> (UsageKey, UsageSum) {
        let key = UsageKey {
            day,
            hour: 0,
            owner: owner.to_owned(),
            provider: "openrouter".to_owned(),
            model: model.to_owned(),
        };
        let sum = UsageSum {
            turns: 12,
            input: 123_456_789,
            cached: 100_000_000,
            output: 98_765,
            cost: 123.45,
            unpriced,
            ..UsageSum::default()
        };
        (key, sum)
    }

    /// Promise: `respondent usage` shows what turns have used, by day, client and model, with a sum
    /// for each client, out of the database, also while the server runs. `respondent status`, `jobs
    /// list` and `bundle list` name the client of what is not the operator's.
    #[test]
    fn usage_is_shown_by_day_owner_and_model_with_sums() {
        let sums = [
            used(
                20_781,
                "a-client-with-a-long-name",
                "vendor/a-model-with-a-long-name",
                1,
            ),
            used(20_781, "local", "small", 0),
            used(20_780, "local", "small", 0),
        ];
        let usage = UsageListing::new(&sums);
        let text = usage.text();
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("2026-11-24") && text.contains("2026-11-23"),
            "{text}"
        );
        let (days, all) = text.split_once("all days").unwrap();
        assert_eq!(days.matches("local").count(), 2, "{text}");
        let sum = all.lines().find(|line| line.starts_with("local")).unwrap();
        assert!(sum.contains(" 24 ") && sum.ends_with("$246.90"), "{text}");
        assert!(text.contains("$123.45+") && text.contains("+ Without the turns"));
        let alone = UsageListing::new(&sums[1..]).text();
        assert!(
            !alone.contains("local") && !alone.contains("client"),
            "{alone}"
        );
        assert!(!alone.contains("Without the turns"), "{alone}");
    }

    /// Promise: `respondent usage --since 3h` counts the last hours, not the whole day.
    #[test]
    fn hours_are_hours_and_days_are_days() {
        for (typed, span) in [
            ("7d", Ok(UsageSpan::Days(7))),
            ("3h", Ok(UsageSpan::Hours("3h".parse().unwrap()))),
            ("90m", Ok(UsageSpan::Hours("90m".parse().unwrap()))),
            ("168h", Ok(UsageSpan::Hours("168h".parse().unwrap()))),
        ] {
            assert_eq!(typed.parse(), span, "{typed}");
        }
        let long = "200h".parse::<UsageSpan>().unwrap_err();
        assert!(long.ends_with("such as 9d"), "{long}");
        let at = |hour: i64| {
            let (key, sum) = used(0, "local", "small", 0);
            (UsageKey { hour, ..key }, sum)
        };
        let noon = 20_781 * 24 + 12;
        let days = by_day(&[at(noon), at(noon - 1), at(noon - 48)]);
        let turns: Vec<_> = days.iter().map(|(_, sum)| sum.turns).collect();
        assert_eq!(turns, [24, 12]);
        assert!(days[0].0.day > days[1].0.day);
    }
}
