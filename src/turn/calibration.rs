//! How many tokens the provider counted for the last request of a session, beside our estimate. The
//! ratio corrects later estimates of the session. It decides only how a summary is asked for, never
//! which part of a history is sent: plans have to stay the same from turn to turn.
//!
//! [`TokenRatios`] does the same for the estimates that clients ask for.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The estimated and the counted tokens of one request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenCalibration {
    /// The full name of its route: provider and model.
    pub route: String,
    /// Its input tokens, estimated from its bytes.
    pub estimated: u64,
    /// Its input tokens as the provider counted them.
    pub counted: u64,
}

impl TokenCalibration {
    /// Scales a byte-based token estimate by the ratio measured on this session's last request,
    /// plus two percent; unscaled on another route.
    pub(super) fn scale(&self, route: &str, estimate: u64) -> u64 {
        if self.route != route || self.estimated == 0 || self.counted == 0 {
            return estimate;
        }
        // No text has less than half of the estimated tokens, so a smaller count is wrong.
        let counted = self.counted.max(self.estimated / 2);
        let tokens = u128::from(estimate) * u128::from(counted) / u128::from(self.estimated);
        // The two percent allow for new text with another ratio.
        u64::try_from(tokens + tokens / 50).unwrap_or(u64::MAX)
    }
}

/// The most routes whose ratios are remembered.
const MAX_ROUTES: usize = 1_024;
/// The first turns of a route are all estimated.
const FIRST_TURNS: u32 = 4;
/// One of this many later turns is estimated.
const ONE_TURN_IN: u32 = 16;
/// The largest request that is estimated during a turn, in bytes: the client waits for it.
const MAX_BYTES: usize = 64 * 1024;

/// How many tokens providers count for a request, for each token of the neutral estimate. Lives as
/// long as the process.
#[derive(Debug, Default)]
pub(super) struct TokenRatios(Mutex<HashMap<String, RouteRatios>>);

/// The ratios of one route, by the binary logarithm of the estimate: what a provider puts around a
/// request weighs more in a small one.
#[derive(Debug, Default)]
struct RouteRatios {
    turns: u32,
    by_size: [Option<f64>; 32],
}

impl TokenRatios {
    /// Whether the request of a turn on this route, with `bytes` bytes, is to be estimated.
    pub(super) fn wants(&self, route: &str, bytes: usize) -> bool {
        let mut routes = self.0.lock();
        if bytes > MAX_BYTES || (routes.len() >= MAX_ROUTES && !routes.contains_key(route)) {
            return false;
        }
        let ratios = match routes.get_mut(route) {
            Some(ratios) => ratios,
            None => routes.entry(route.to_owned()).or_default(),
        };
        ratios.turns = ratios.turns.wrapping_add(1);
        ratios.turns <= FIRST_TURNS || ratios.turns.is_multiple_of(ONE_TURN_IN)
    }

    /// Remembers what the provider counted for a request.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn record(&self, route: &str, estimated: u64, counted: u64) {
        if let Some(ratios) = self.0.lock().get_mut(route)
            && let Some(ratio) = ratios.by_size.get_mut(size_class(estimated))
            && counted > 0
        {
            // A count that is far off is about something else than the text.
            let new = (counted as f64 / estimated.max(1) as f64).clamp(0.4, 2.5);
            *ratio = Some(ratio.map_or(new, |old| f64::midpoint(old, new)));
        }
    }

    /// The estimate as the provider is likely to count it, by the requests of the nearest size.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub(super) fn correct(&self, route: &str, estimate: u64) -> u64 {
        let routes = self.0.lock();
        let known = routes
            .get(route)
            .into_iter()
            .flat_map(|ratios| ratios.by_size.iter().enumerate())
            .filter_map(|(size, ratio)| Some((size, (*ratio)?)));
        let nearest = known.min_by_key(|(size, _)| size.abs_diff(size_class(estimate)));
        nearest.map_or(estimate, |(_, ratio)| {
            (estimate as f64 * ratio).round() as u64
        })
    }
}

fn size_class(estimate: u64) -> usize {
    let bits = u64::BITS - estimate.leading_zeros();
    usize::try_from(bits).unwrap_or_default().min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_corrected_by_requests_of_about_its_size() {
        let ratios = TokenRatios::default();
        assert_eq!(ratios.correct("a/m", 1_000), 1_000);
        assert!(ratios.wants("a/m", 100));
        ratios.record("a/m", 20, 40);
        ratios.record("a/m", 10_000, 12_000);
        for (estimate, corrected) in [(10, 20), (30, 60), (9_000, 10_800), (100_000, 120_000)] {
            assert_eq!(ratios.correct("a/m", estimate), corrected);
        }
        assert_eq!(ratios.correct("b/m", 1_000), 1_000, "another route");
        ratios.record("a/m", 9_000, 9_000 * 50);
        assert_eq!(
            ratios.correct("a/m", 9_000),
            9_000 * 185 / 100,
            "a wrong count"
        );
    }

    #[test]
    fn few_turns_of_a_busy_route_are_estimated() {
        let ratios = TokenRatios::default();
        let estimated = (0..100).filter(|_| ratios.wants("a/m", 100)).count();
        assert_eq!(estimated, 4 + 6);
        assert!(!ratios.wants("b/m", MAX_BYTES + 1));
    }

    fn calibration(counted: u64) -> TokenCalibration {
        TokenCalibration {
            route: "a/m".into(),
            estimated: 1_000,
            counted,
        }
    }

    #[test]
    fn estimates_are_scaled_by_the_last_request_of_the_session() {
        let last = calibration(500);
        assert_eq!(last.scale("a/m", 10_000), 5_100);
        assert_eq!(last.scale("b/m", 10_000), 10_000, "another route");
        assert_eq!(calibration(0).scale("a/m", 10_000), 10_000, "no count");
        assert_eq!(
            calibration(7).scale("a/m", 10_000),
            5_100,
            "a count that is too small"
        );
    }
}
