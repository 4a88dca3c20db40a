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

/// The savings of a session so far, in bytes that no cache knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Savings {
    /// The price of a cached byte, in relation to one that is not cached; `None` if it is not
    /// known.
    cached_price: Option<f64>,
    /// The bytes beyond which nothing would have fitted with nothing shortened, whatever the
    /// tokens.
    max_whole: usize,
    saved: f64,
    /// The last request with nothing shortened.
    whole_before: usize,
}

/// An epoch has to be paid this many times, because sizes are only about what is billed.
const MARGIN: f64 = 1.1;

impl Savings {
    pub(super) fn new(cached_price: Option<f64>, max_whole: usize) -> Self {
        Self {
            cached_price,
            max_whole,
            saved: 0.0,
            whole_before: 0,
        }
    }

    /// Whether the session would still cost no more than with nothing shortened if it sent this
    /// request.
    pub(super) fn pay_for(&self, sizes: RequestSizes) -> bool {
        let Some(price) = self.cached_price else {
            return true;
        };
        let cost = cost(sizes.sent, sizes.reused, price);
        sizes.whole > self.max_whole
            || self.saved + cost_of_whole(self, sizes, price) >= MARGIN * cost
    }

    /// Counts a request.
    pub(super) fn add(&mut self, sizes: RequestSizes) {
        if let Some(price) = self.cached_price {
            let cost = cost(sizes.sent, sizes.reused, price);
            self.saved += cost_of_whole(self, sizes, price) - cost;
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
