//! Histories that become summaries: through every door, whatever the provider does,
//! and the session that goes on behind them.
//!
//! | module | what is in it |
//! |---|---|
//! | `session` | a client's session, and how it compacts at each door |
//! | `cache` | what of the request the provider has in its cache |
//! | `trouble` | providers that write no summary |
//! | `founding` | a session that asked for more than its window to be compacted |
//! | `small` | windows that are smaller than what a client keeps |
//! | `threshold` | compaction inside a turn |
mod cache;
mod founding;
mod session;
mod small;
mod threshold;
mod trouble;

use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    [
        cache::trials(),
        founding::trials(),
        small::trials(),
        threshold::trials(),
        trouble::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
