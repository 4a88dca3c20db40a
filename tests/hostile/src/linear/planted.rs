//! Scanners of which it is known whether they are linear.

use std::hint::black_box;

/// Looks at each byte once.
pub(super) fn linear(input: &[u8]) {
    black_box(count(input));
}

/// Looks for each byte at all that follow it, as a scanner does that begins anew at each of them.
pub(super) fn quadratic(input: &[u8]) {
    for start in 0..input.len() {
        black_box(count(input.get(start..).unwrap_or_default()));
    }
}

fn count(input: &[u8]) -> usize {
    input
        .iter()
        .filter(|byte| **black_box(byte) == b'a')
        .count()
}
