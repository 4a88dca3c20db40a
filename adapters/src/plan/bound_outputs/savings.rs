//! What shortening has saved in a session, by the sizes of its requests and of the same requests
//! with nothing shortened. A function of the history, like all that decides about it: what the
//! provider really counted would change the bytes of a history.

/// The bytes of a request that is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSizes {
    /// As it is sent.
    pub(super) sent: usize,
    /// Those of them that begin the request before.
    pub(super) reused: usize,
    /// With nothing shortened.
    pub(super) whole: usize,
}

/// What shortening has saved and cost in a session so far, in bytes that no cache knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Savings {
    /// The price of a cached byte, in relation to one that is not cached; `None` if it is not
    /// known.
    cached_price: Option<f64>,
    /// The bytes beyond which nothing would have fitted with nothing shortened, whatever the
    /// tokens.
    max_whole: usize,
    saved: f64,
    /// What all requests would have cost with nothing shortened.
    whole_cost: f64,
    /// The last request with nothing shortened.
    whole_before: usize,
    /// What it cost since the last epoch to repeat the outputs that one would replace.
    repeated: f64,
}

/// The part of what a session would have cost with nothing shortened that an epoch may take in
/// advance. It comes back within the next requests, unless there are none.
const ADVANCE: f64 = 0.1;

impl Savings {
    pub(super) fn new(cached_price: Option<f64>, max_whole: usize) -> Self {
        Self {
            cached_price,
            max_whole,
            saved: 0.0,
            whole_cost: 0.0,
            whole_before: 0,
            repeated: 0.0,
        }
    }

    /// Whether it is known what an epoch costs.
    pub(super) fn are_known(&self) -> bool {
        self.cached_price.is_some()
    }

    /// Counts the bytes that an epoch would replace, which this request repeats.
    pub(super) fn repeat(&mut self, bytes: usize) {
        self.repeated += cost(bytes, bytes, self.cached_price.unwrap_or_default());
    }

    /// Whether an epoch that leaves `kept` bytes of outputs may be worth it: it costs more than
    /// reading these again. Quicker than [`Self::pay_for`].
    pub(super) fn may_pay_for(&self, kept: usize) -> bool {
        let price = self.cached_price.unwrap_or_default();
        self.repeated >= cost(kept, 0, price) - cost(kept, kept, price)
    }

    /// Whether an epoch is worth it, after which this request is sent with `new` bytes of new
    /// outputs: to repeat what it replaces has cost as much as the provider charges for reading the
    /// rest again, so that a session never costs more than twice the least, and what is spent in
    /// advance is little.
    pub(super) fn pay_for(&self, sizes: RequestSizes, new: usize) -> bool {
        let Some(price) = self.cached_price else {
            return true;
        };
        let known = sizes.sent.saturating_sub(new);
        let read_again = cost(known, sizes.reused, price) - cost(known, known, price);
        let advance = ADVANCE * self.whole_cost;
        let whole = cost_of_whole(self, sizes, price);
        self.repeated >= read_again
            && (sizes.whole > self.max_whole
                || self.saved + advance + whole >= cost(sizes.sent, sizes.reused, price))
    }

    /// An epoch was made.
    pub(super) fn begin_again(&mut self) {
        self.repeated = 0.0;
    }

    /// Counts a request.
    pub(super) fn add(&mut self, sizes: RequestSizes) {
        if let Some(price) = self.cached_price {
            let whole = cost_of_whole(self, sizes, price);
            self.saved += whole - cost(sizes.sent, sizes.reused, price);
            self.whole_cost += whole;
        }
        self.whole_before = sizes.whole;
    }
}

fn cost_of_whole(savings: &Savings, sizes: RequestSizes, price: f64) -> f64 {
    cost(sizes.whole, savings.whole_before.min(sizes.whole), price)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "an estimate; no request has 2^52 bytes"
)]
fn cost(bytes: usize, cached: usize, price: f64) -> f64 {
    let cached = cached.min(bytes);
    (bytes - cached) as f64 + price * cached as f64
}
