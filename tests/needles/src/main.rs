//! The command `respondent-needles`.

use clap::Parser;
use respondent_needles::{NeedlesOptions, run};

fn main() -> anyhow::Result<()> {
    run(&NeedlesOptions::parse())
}
