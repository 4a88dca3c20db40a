//! How many tokens the provider counted for the last request of a session, beside our estimate. The ratio corrects later estimates of the session. It decides only how a summary is
//! asked for, never which part of a history is sent: plans have to stay the same from turn to turn.

use serde::{Deserialize, Serialize};

/// The estimated and the counted tokens of one request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "struct Weighed")]
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

#[cfg(test)]
mod tests {
    use super::*;

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
