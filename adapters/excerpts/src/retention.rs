//! Where outputs are kept.

use serde::{Deserialize, Serialize};

/// Where the whole text of a shortened output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// On disk.
    Disk,
    /// In memory, until the program ends or needs the memory for other outputs.
    Memory,
    /// Nowhere.
    #[default]
    Nothing,
}
