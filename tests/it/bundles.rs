//! Turns in files: through the commands and the running server.
mod cli;
mod corpus;
mod witnesses;

use libtest_mimic::Trial;

/// All of them.
pub fn trials() -> Vec<Trial> {
    [cli::trials(), corpus::trials(), witnesses::trials()]
        .into_iter()
        .flatten()
        .collect()
}
