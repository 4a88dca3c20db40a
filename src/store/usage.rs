//! What turns have used, summed by day or hour, owner and model. The sums are limited in number and
//! age.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::Store;
use super::error::StoreError;
use super::time_in_use::SELECT_DAY;
use crate::net::LOCAL_OWNER;

/// The most models of one day or hour and owner that have sums of their own; later ones share one.
/// A client chooses the name of a model where a provider takes any.
const MAX_MODELS_A_DAY: u64 = 256;

/// The provider and the model of the sums that are shared.
pub const OTHER_MODELS: &str = "other";

/// How many days the sums of days are kept.
const KEPT_DAYS: i64 = 366;

/// How many hours the sums of hours are kept.
pub const KEPT_HOURS: i64 = 7 * 24;

/// The largest number in a sum, so that sums never overflow and are exact in JSON.
const MAX_NUMBER: u64 = 1 << 53;

/// Whose turns are summed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    /// Days since 1970, in the time zone of the server.
    pub day: i64,
    /// Hours since 1970; 0 in the sum of a day.
    pub hour: i64,
    /// The owner.
    pub owner: String,
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
}

/// What a number of turns have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageSum {
    /// The number of turns.
    pub turns: u64,
    /// Input tokens, with the cached ones.
    pub input: u64,
    /// Input tokens that the provider had cached.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// US dollars, of the turns whose price is known.
    pub cost: f64,
    /// What these turns would have cost with nothing shortened, in US dollars.
    pub unshortened: f64,
    /// The turns that used tokens and whose price is unknown.
    pub unpriced: u64,
    /// The turns that the window would not have held with nothing shortened.
    pub too_long: u64,
    /// The turns without a known price with nothing shortened.
    pub unreckoned: u64,
}

impl Store {
    /// Adds sums of hours to what turns have used. Each has a key of its own.
    pub async fn add_usage(&self, sums: Vec<(UsageKey, UsageSum)>) -> Result<(), StoreError> {
        self.write_with(move |writer| add(&mut writer.connection, &sums))
            .await
    }

    /// What the turns of all owners have used from a day on, the newest first. The day is in days
    /// since 1970.
    pub async fn usage_since(&self, day: i64) -> Result<Vec<(UsageKey, UsageSum)>, StoreError> {
        self.read_small(LOCAL_OWNER, move |reading, _| {
            since(reading, UsagePeriod::Day, day)
        })
        .await
    }
}

impl UsageSum {
    /// Adds what other turns have used.
    pub fn add(&mut self, other: &Self) {
        for (number, more) in [
            (&mut self.turns, other.turns),
            (&mut self.input, other.input),
            (&mut self.cached, other.cached),
            (&mut self.output, other.output),
            (&mut self.unpriced, other.unpriced),
            (&mut self.too_long, other.too_long),
            (&mut self.unreckoned, other.unreckoned),
        ] {
            *number = number.saturating_add(more).min(MAX_NUMBER);
        }
        self.cost += other.cost;
        self.unshortened += other.unshortened;
    }
}

/// The time that is summed up in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsagePeriod {
    /// A day in the time zone of the server.
    Day,
    /// An hour.
    Hour,
}

impl UsagePeriod {
    /// The table and its column with the number of the period.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Day => ("usage", "day"),
            Self::Hour => ("usage_hours", "hour"),
        }
    }

    fn number(self, key: &UsageKey) -> i64 {
        match self {
            Self::Day => key.day,
            Self::Hour => key.hour,
        }
    }

    /// How many periods are kept, and how many of them are a day.
    fn kept(self) -> (i64, i64) {
        match self {
            Self::Day => (KEPT_DAYS, 1),
            Self::Hour => (KEPT_HOURS, 24),
        }
    }
}

/// The columns with the numbers of a sum.
const SUM: &str = "turns, input, cached, output, cost, unpriced, unshortened, too_long, unreckoned";

/// Adds sums of hours to the stored ones of their days and hours, and deletes those that are too
/// old. Each has a key of its own.
pub(super) fn add(
    connection: &mut Connection,
    sums: &[(UsageKey, UsageSum)],
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for period in [UsagePeriod::Day, UsagePeriod::Hour] {
        for (key, sum) in sums {
            let mut key = key.clone();
            let mut stored = read(&transaction, period, &key)?;
            if stored.is_none() && models_of(&transaction, period, &key)? >= MAX_MODELS_A_DAY {
                OTHER_MODELS.clone_into(&mut key.provider);
                OTHER_MODELS.clone_into(&mut key.model);
                stored = read(&transaction, period, &key)?;
            }
            let mut total = stored.unwrap_or_default();
            total.add(sum);
            write(&transaction, period, &key, &total)?;
        }
        let ((table, column), (kept, a_day)) = (period.names(), period.kept());
        if let Some(newest) = sums.iter().map(|(key, _)| period.number(key)).max() {
            transaction
                .prepare_cached(&format!(
                    "DELETE FROM {table}
                     WHERE {column} <= min(?1, coalesce({SELECT_DAY} * {a_day} - ?2, ?1))"
                ))?
                .execute([newest.saturating_sub(kept), kept])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The sums of all owners from a day or an hour on: the newest first, then by owner, provider and
/// model. Those of hours have the day 0.
pub(super) fn since(
    connection: &Connection,
    period: UsagePeriod,
    first: i64,
) -> Result<Vec<(UsageKey, UsageSum)>, StoreError> {
    let (table, column) = period.names();
    let mut select = connection.prepare_cached(&format!(
        "SELECT {SUM}, {column}, owner, provider, model
         FROM {table} WHERE {column} >= ?1 ORDER BY {column} DESC, owner, provider, model"
    ))?;
    let rows = select.query_map([first], |row| {
        let number = row.get(9)?;
        let (day, hour) = match period {
            UsagePeriod::Day => (number, 0),
            UsagePeriod::Hour => (0, number),
        };
        let key = UsageKey {
            day,
            hour,
            owner: row.get(10)?,
            provider: row.get(11)?,
            model: row.get(12)?,
        };
        Ok((key, sum(row)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(
    connection: &Connection,
    period: UsagePeriod,
    key: &UsageKey,
) -> Result<Option<UsageSum>, StoreError> {
    let (table, column) = period.names();
    let mut select = connection.prepare_cached(&format!(
        "SELECT {SUM} FROM {table}
         WHERE {column} = ?1 AND owner = ?2 AND provider = ?3 AND model = ?4"
    ))?;
    let names = params![period.number(key), key.owner, key.provider, key.model];
    Ok(select.query_row(names, sum).optional()?)
}

fn sum(row: &rusqlite::Row<'_>) -> rusqlite::Result<UsageSum> {
    Ok(UsageSum {
        turns: row.get(0)?,
        input: row.get(1)?,
        cached: row.get(2)?,
        output: row.get(3)?,
        cost: row.get(4)?,
        unpriced: row.get(5)?,
        unshortened: row.get(6)?,
        too_long: row.get(7)?,
        unreckoned: row.get(8)?,
    })
}

fn models_of(
    connection: &Connection,
    period: UsagePeriod,
    key: &UsageKey,
) -> Result<u64, StoreError> {
    let (table, column) = period.names();
    let mut select = connection.prepare_cached(&format!(
        "SELECT count(*) FROM {table} WHERE {column} = ?1 AND owner = ?2"
    ))?;
    Ok(select.query_row(params![period.number(key), key.owner], |row| row.get(0))?)
}

fn write(
    connection: &Connection,
    period: UsagePeriod,
    key: &UsageKey,
    sum: &UsageSum,
) -> Result<(), StoreError> {
    let (table, column) = period.names();
    let mut insert = connection.prepare_cached(&format!(
        "INSERT OR REPLACE INTO {table} ({column}, owner, provider, model, {SUM})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    ))?;
    insert.execute(params![
        period.number(key),
        key.owner,
        key.provider,
        key.model,
        sum.turns,
        sum.input,
        sum.cached,
        sum.output,
        sum.cost,
        sum.unpriced,
        sum.unshortened,
        sum.too_long,
        sum.unreckoned
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::*;

    fn key(day: i64, model: &str) -> UsageKey {
        UsageKey {
            day,
            hour: 0,
            owner: "local".to_owned(),
            provider: "acme".to_owned(),
            model: model.to_owned(),
        }
    }

    fn turn(input: u64) -> UsageSum {
        UsageSum {
            turns: 1,
            input,
            cost: 0.5,
            unshortened: 1.5,
            too_long: 1,
            ..UsageSum::default()
        }
    }

    #[test]
    fn turns_of_a_day_and_a_model_are_one_row() {
        let mut connection = in_memory();
        let mut other = key(20_000, "m");
        "other".clone_into(&mut other.owner);
        for sums in [
            vec![(key(20_000, "m"), turn(100))],
            vec![
                (key(20_000, "m"), turn(u64::MAX)),
                (key(20_001, "m"), turn(7)),
                (other.clone(), turn(5)),
            ],
        ] {
            add(&mut connection, &sums).unwrap();
        }
        let mut both = turn(MAX_NUMBER);
        (both.turns, both.cost, both.unshortened) = (2, 1.0, 3.0);
        both.too_long = 2;
        assert_eq!(
            since(&connection, UsagePeriod::Day, 20_000).unwrap(),
            [
                (key(20_001, "m"), turn(7)),
                (key(20_000, "m"), both),
                (other, turn(5)),
            ]
        );
        assert_eq!(
            since(&connection, UsagePeriod::Day, 20_001).unwrap().len(),
            1
        );
    }

    #[test]
    fn hours_are_summed_up_apart_and_for_some_days_only() {
        let mut connection = in_memory();
        let at = |hour: i64| UsageKey {
            hour,
            ..key(hour / 24, "m")
        };
        let first = 480_000;
        for hour in [first, first + 1, first + 1] {
            add(&mut connection, &[(at(hour), turn(5))]).unwrap();
        }
        let inputs = |from: i64| -> Vec<(i64, u64)> {
            let sums = since(&connection, UsagePeriod::Hour, from).unwrap();
            sums.iter()
                .map(|(key, sum)| (key.hour, sum.input))
                .collect()
        };
        assert_eq!(inputs(0), [(first + 1, 10), (first, 5)]);
        assert_eq!(inputs(first + 1), [(first + 1, 10)]);
        let days = since(&connection, UsagePeriod::Day, 0).unwrap();
        assert_eq!((days.len(), days[0].1.input), (1, 15));
        add(&mut connection, &[(at(first + KEPT_HOURS + 1), turn(5))]).unwrap();
        let left = since(&connection, UsagePeriod::Hour, 0).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(since(&connection, UsagePeriod::Day, 0).unwrap().len(), 2);
    }

    /// Promise: What the status stores is limited in rows and days, and no turn waits for it.
    #[test]
    fn the_rows_of_a_day_and_the_days_are_limited() {
        let mut connection = in_memory();
        for day in [20_000, 20_001] {
            let models = (0..MAX_MODELS_A_DAY * 2).map(|n| (key(day, &format!("m{n}")), turn(1)));
            add(&mut connection, &models.collect::<Vec<_>>()).unwrap();
        }
        let first = since(&connection, UsagePeriod::Day, 0).unwrap();
        assert_eq!(first.len() as u64, 2 * (MAX_MODELS_A_DAY + 1));
        let rest = first.iter().find(|(key, _)| key.model == OTHER_MODELS);
        assert_eq!(rest.unwrap().1.turns, MAX_MODELS_A_DAY);
        add(&mut connection, &[(key(20_000 + KEPT_DAYS, "m"), turn(1))]).unwrap();
        let days = since(&connection, UsagePeriod::Day, 0).unwrap();
        assert!(days.iter().all(|(key, _)| key.day > 20_000), "{days:?}");
        // A clock that jumps forward deletes nothing.
        let time = "INSERT INTO time_in_use VALUES (1, 20001 * 86400)";
        connection.execute_batch(time).unwrap();
        add(&mut connection, &[(key(30_000, "m"), turn(1))]).unwrap();
        assert_eq!(
            since(&connection, UsagePeriod::Day, 0).unwrap().len(),
            days.len() + 1
        );
    }
}
