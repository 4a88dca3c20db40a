//! Attacks on the HTTP edge, through its real listener and over raw sockets.
mod bodies;
mod callers;
mod framing;
mod memory;
mod routes;
mod server;
mod slow;
mod stopping;

use libtest_mimic::Trial;
pub use server::read_to_close;

/// All tests of the edge.
pub fn trials() -> Vec<Trial> {
    [
        bodies::trials(),
        callers::trials(),
        framing::trials(),
        memory::trials(),
        routes::trials(),
        slow::trials(),
        stopping::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
