//! `respondent replay`: a recorded turn once more.

use std::path::Path;

use super::bundle::{Unusable, read, turn};
use super::say;
use crate::cli::{DIFFERENT, SAME};
use crate::config::Config;
use crate::diagnostics::replay;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The bundle.
    pub file: &'a Path,
    /// The turn in it, from 1; else all.
    pub turn: Option<usize>,
    /// Print the events of the run.
    pub events: bool,
}
