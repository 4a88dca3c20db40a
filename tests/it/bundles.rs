//! Turns in files: through the commands and the running server.
mod cli;

use libtest_mimic::Trial;

/// All of them.
pub fn trials() -> Vec<Trial> {
    cli::trials()
}
