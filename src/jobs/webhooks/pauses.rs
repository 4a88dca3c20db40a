//! How long a delivery waits after an attempt that failed: 5 s, then four times as long each time,
//! at most 8 hours; ten attempts in about a day.

use std::time::Duration;

/// The most attempts of one delivery.
pub(super) const MAX_ATTEMPTS: u32 = 10;
/// Deliveries are abandoned this long after the response ended. A webhook may ask for longer
/// pauses, or may have been away from the configuration.
pub(super) const LIFETIME: Duration = Duration::from_hours(72);
/// The pause after the first attempt.
const FIRST: Duration = Duration::from_secs(5);
/// The factor from one pause to the next.
const GROWTH: u32 = 4;
/// The longest pause of our own.
const LONGEST: Duration = Duration::from_hours(8);

/// The pause after this number of attempts. It differs from others by up to a fifth, so that
/// deliveries that failed together are not tried together. At least what the webhook has asked for.
/// `None` after the last attempt.
pub(super) fn after(attempts: u32, asked: Option<Duration>, random_bits: u128) -> Option<Duration> {
    if attempts >= MAX_ATTEMPTS {
        return None;
    }
    let grown = GROWTH.saturating_pow(attempts.saturating_sub(1));
    let pause = FIRST.saturating_mul(grown).min(LONGEST);
    // 80 to 120 percent.
    let percent = 80 + u32::try_from(random_bits % 41).unwrap_or(0);
    let pause = pause.saturating_mul(percent) / 100;
    Some(pause.max(asked.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_attempts_take_about_a_day() {
        let pauses: Vec<u64> = (1..MAX_ATTEMPTS)
            .map(|attempts| after(attempts, None, 20).unwrap().as_secs())
            .collect();
        assert_eq!(pauses, [5, 20, 80, 320, 1280, 5120, 20_480, 28_800, 28_800]);
        assert_eq!(pauses.iter().sum::<u64>() / 3600, 23);
        assert_eq!(after(MAX_ATTEMPTS, Some(FIRST), 20), None);
    }

    #[test]
    fn pauses_differ_and_a_webhook_can_ask_for_longer_ones() {
        let of = |bits| after(5, None, bits).unwrap().as_secs();
        assert_eq!([of(0), of(40), of(41)], [1024, 1536, 1024]);
        let asked = |seconds| after(1, Some(Duration::from_secs(seconds)), 20).unwrap();
        assert_eq!(asked(3).as_secs(), 5);
        assert_eq!(asked(600).as_secs(), 600);
    }
}
