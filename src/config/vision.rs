//! The model that describes images to models that take none: `[vision]`.

use std::time::Duration;

use registry::duration::{self, DurationText};
use schemars::JsonSchema;
use serde::Deserialize;

/// The model and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct VisionConfig {
    /// The model that describes images, by any name that a request may give; without one, models
    /// that take no images are told that there was one.
    pub model: Option<String>,
    /// How many images of a conversation are described, the newest ones. Each is described once.
    pub max_images: usize,
    /// How long the descriptions for a request may take. What is missing then is left out.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub timeout: Duration,
}

impl Default for VisionConfig {
    fn default() -> Self {
        Self {
            model: None,
            max_images: 8,
            timeout: Duration::from_mins(1),
        }
    }
}
