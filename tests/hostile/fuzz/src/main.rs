//! Runs the fuzz target that `RESPONDENT_FUZZ_TARGET` names. All other arguments are those of
//! libFuzzer.
#![no_main]

use std::sync::LazyLock;

use hostile::targets::{self, FuzzTarget};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("RESPONDENT_FUZZ_TARGET").unwrap_or_default();
    targets::named(&name).unwrap_or_else(|| panic!("no target is named {name:?}"))
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
