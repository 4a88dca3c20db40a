//! Turns in files: through the commands and the running server.
mod cli;
mod corpus;
mod hostile;
mod witnesses;

use libtest_mimic::Trial;

/// All of them.
pub fn trials() -> Vec<Trial> {
    [
        cli::trials(),
        corpus::trials(),
        hostile::trials(),
        witnesses::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
