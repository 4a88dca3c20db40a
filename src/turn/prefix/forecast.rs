//! What a provider will count for the input of a request, and what it would have counted if nothing
//! had been shortened.

use adapters::event::Usage;

/// The forecast for one request. Made when it is sent, from the requests of its session that were
/// answered; the usage that comes back corrects it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::turn) struct BillForecast {
    /// The request as it is sent.
    pub(super) sent: InputForecast,
    /// The same request with nothing shortened; `None` if it would not fit the window.
    pub(super) unshortened: Option<InputForecast>,
    /// The part of the reusable tokens that the provider read from its cache lately, from 0 to 1.
    pub(super) hit_rate: f64,
}

/// Input tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InputForecast {
    /// All of them.
    pub(super) tokens: u64,
    /// The tokens at the beginning that an earlier request shares and that the provider caches.
    pub(super) reusable: u64,
    /// That request was so long ago that the provider may have forgotten it.
    pub(super) is_expired: bool,
}

impl InputForecast {
    /// The tokens that will be read from the cache if this part of the reusable ones is.
    fn cached(self, hit_rate: f64) -> u64 {
        if self.is_expired {
            return 0;
        }
        scaled(self.reusable, hit_rate).min(self.tokens)
    }
}

impl BillForecast {
    /// The tokens that will be read from the provider's cache.
    pub(in crate::turn) fn cached(&self) -> u64 {
        self.sent.cached(self.hit_rate)
    }

    /// What the provider would have counted for the unshortened request, now that it has counted
    /// this for the one that was sent. `None` if that would not have fitted the window.
    pub(in crate::turn) fn unshortened_usage(&self, counted: Usage) -> Option<Usage> {
        let unshortened = self.unshortened?;
        if unshortened == self.sent {
            return Some(counted);
        }
        let input = scaled(unshortened.tokens, ratio(counted.input, self.sent.tokens));
        let input = input.max(counted.input);
        let cached = match self.measured_hit_rate(counted) {
            Some(rate) => scaled(unshortened.reusable, rate),
            None => unshortened.cached(self.hit_rate),
        };
        // What was cached without an earlier request of this session would have been, too.
        let cached = cached.max(counted.cached).min(input);
        let cache_write = if counted.cache_write > 0 {
            input - cached
        } else {
            0
        };
        Some(Usage {
            input,
            cached,
            cache_write,
            ..counted
        })
    }

    /// Whether the window holds the unshortened request.
    pub(in crate::turn) fn fits_unshortened(&self) -> bool {
        self.unshortened.is_some()
    }

    /// The part of the reusable tokens that the provider has read from its cache; `None` if none
    /// were reusable.
    pub(super) fn measured_hit_rate(&self, counted: Usage) -> Option<f64> {
        let rate = ratio(counted.cached, self.sent.reusable);
        (self.sent.reusable > 0).then(|| rate.min(1.0))
    }
}

/// One count divided by another; 1 if there is nothing to divide by.
#[expect(clippy::cast_precision_loss, reason = "no request has 2^52 tokens")]
pub(super) fn ratio(one: u64, other: u64) -> f64 {
    if other == 0 {
        return 1.0;
    }
    one as f64 / other as f64
}

/// A count multiplied by a factor that is not negative, rounded.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no request has 2^52 tokens"
)]
pub(super) fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).round() as u64
}

#[cfg(test)]
impl BillForecast {
    /// A forecast of these tokens, each with those of them that are reusable.
    pub(in crate::turn) fn sample(
        tokens: u64,
        reusable: u64,
        unshortened: Option<(u64, u64)>,
    ) -> Self {
        let input = |(tokens, reusable)| InputForecast {
            tokens,
            reusable,
            is_expired: false,
        };
        Self {
            sent: input((tokens, reusable)),
            unshortened: unshortened.map(input),
            hit_rate: 1.0,
        }
    }
}
