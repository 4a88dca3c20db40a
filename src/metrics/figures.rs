//! The figures of one finished turn, as the metrics take them.

use std::time::Duration;

/// One finished turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnFigures<'a> {
    /// The provider's id.
    pub provider: &'a str,
    /// The provider's name of the model.
    pub model: &'a str,
    /// How the turn ended: the label of its outcome.
    pub outcome: &'static str,
    /// The time from the head of the request to the last event.
    pub duration: Duration,
    /// The time from the head of the request to the first event, if there was one.
    pub first_event: Option<Duration>,
    /// The tokens it used.
    pub tokens: Tokens,
    /// The cost in US dollars, if the price is known.
    pub cost: Option<f64>,
    /// Our estimate of the input tokens, if the provider counted them.
    pub estimated: Option<u64>,
    /// How its request compares with the previous one of the session.
    pub prefix: Option<PrefixFigures>,
}

/// How much of a request is a prefix that the previous request of its session had too.
#[derive(Debug, Clone, Copy)]
pub struct PrefixFigures {
    /// The size of the request in bytes.
    pub sent: u64,
    /// The size of the shared prefix in bytes.
    pub shared: u64,
    /// The label of the reason why the prefix is not longer.
    pub reason: &'static str,
}

/// The tokens of a turn, counted as in the usage object of the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All input, cached included.
    pub input: u64,
    /// The cached part of the input.
    pub cached: u64,
    /// All output, reasoning included.
    pub output: u64,
    /// The reasoning part of the output.
    pub reasoning: u64,
}
