//! `respondent replay`: a recorded turn once more.

use std::path::Path;

use super::bundle::{read, turn};
use super::{say, seams};
use crate::cli::{DIFFERENT, SAME};

/// Runs the turn of a bundle with this number, or all, and compares: the exit
/// code.
pub fn replay(file: &Path, number: Option<usize>, events: bool) -> anyhow::Result<u8> {
    let bundle = read(file)?;
    let numbers = match number {
        Some(number) => number..=number,
        None => 1..=bundle.turns.len(),
    };
    let mut code = SAME;
    for number in numbers {
        let recorded = turn(file, &bundle, number)?;
        let again = seams::replay(recorded)?;
        if events {
            say(&String::from_utf8_lossy(&again.answer.body))?;
        }
        let differences = seams::compare(recorded, &again);
        if differences.is_empty() {
            say(&format!("turn {number} ({}): equal\n", recorded.request_id))?;
        } else {
            code = DIFFERENT;
            for line in differences {
                say(&format!("turn {number}: {line}\n"))?;
            }
        }
    }
    Ok(code)
}
