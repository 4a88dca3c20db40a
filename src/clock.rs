//! The sources of what would differ if the same work were done again: the wall clock and
//! randomness. Code that needs either takes a trait object, so that a replay can pass in what was
//! recorded.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Seconds since 1970.
    fn unix(&self) -> u64;
}

/// A source of randomness.
pub trait Random: Send + Sync {
    /// 128 random bits.
    fn bits(&self) -> u128;
}

/// The clock and the randomness of the operating system.
#[derive(Debug)]
pub struct System;

impl Clock for System {
    fn unix(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.as_secs())
    }
}

impl System {
    /// Milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, milliseconds)
    }
}

impl Random for System {
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        // Without randomness ids would repeat, which is worse than a panic; the panic costs this
        // request alone.
        #[expect(
            clippy::expect_used,
            reason = "an id that repeats would mix up responses"
        )]
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        u128::from_le_bytes(bytes)
    }
}

/// The seconds of an hour.
pub const HOUR_SECONDS: u64 = 3600;

/// The day of a moment in the local time zone, in days since 1970. `unix` is in seconds since 1970.
pub fn local_day(unix: u64) -> i64 {
    let seconds = i64::try_from(unix).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let offset = jiff::tz::TimeZone::system().to_offset(moment);
    moment
        .as_second()
        .saturating_add(i64::from(offset.seconds()))
        .div_euclid(24 * 60 * 60)
}

/// The whole milliseconds of a time.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 as an HTTP date, which names its time zone.
pub fn http_date(ms: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(ms.min(MAX_DATE_MS)))
}

/// The last moment that an HTTP date can express: the end of the year 9999.
pub(crate) const MAX_DATE_MS: u64 = 253_402_300_799_000;
