//! The time of planning, by kind of output.

use super::{case, kind::NeedleKind};
use crate::{
    measure,
    plan::{self, PlanBench},
    print_line,
};

const OUTPUT_BYTES: usize = 8_000_000;

/// Prints how fast outputs of these kinds are planned. The result is always true.
pub(super) fn run(kinds: &[NeedleKind], window: u64, seed: u64) -> anyhow::Result<bool> {
    let bench = PlanBench::new(5, window);
    print_line(&measure::machine());
    print_line(&format!(
        "seed {seed}, median CPU of 5 rounds, one thread; window of {window} tokens\n"
    ));
    print_line(plan::HEAD);
    let mixed: Vec<String> = (0..100_u64)
        .zip(kinds.iter().cycle())
        .map(|(output, kind)| case::output_of(*kind, 40_000, seed + output))
        .collect();
    bench.measure("100 outputs of 40 KB", &mixed)?;
    for kind in kinds {
        let output = case::output_of(*kind, OUTPUT_BYTES, seed);
        bench.measure(&format!("8 MB: {}", kind.name()), &[output])?;
    }
    Ok(true)
}
