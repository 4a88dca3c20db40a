//! Placeholder for what comes from elsewhere.
#![allow(missing_docs)]
use crate::diagnostics::bundle::{Bundle, Turn};

pub fn show(bundle: &Bundle) -> String {
    format!("{} turns\n", bundle.turns.len())
}

pub fn compare(a: &Turn, b: &Turn) -> Vec<String> {
    if a == b {
        Vec::new()
    } else {
        vec!["differ".to_owned()]
    }
}

pub fn replay(turn: &Turn) -> anyhow::Result<Turn> {
    Ok(turn.clone())
}
