//! What is said of a route: its name in logs, and what a request on it costs.

use std::borrow::Cow;

use adapters::event::Usage;
use registry::{Price, Route};

use crate::config::Config;

/// The cost of a request in US dollars.
pub(super) fn cost_of(price: &Price, usage: Usage) -> f64 {
    price.cost(usage.input, usage.cached, usage.cache_write, usage.output)
}

/// The full name of a route without secrets: [`Route::full_name`]. The client chooses the name of a
/// model that is not listed.
pub(super) fn redacted_route_name(config: &Config, route: &Route) -> String {
    let name = route.full_name();
    if route.model.unlisted
        && let Cow::Owned(redacted) = config.redactor().redact_known(&name)
    {
        return redacted;
    }
    name
}
