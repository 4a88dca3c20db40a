//! Descriptions of images, for models that take none: the engine has another model write them, and
//! they are sent in the places of the images.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::text::Text;

/// The descriptions of the images of a turn, by [`TurnImage::key`]. Made when the turn begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ImageTexts(BTreeMap<String, Arc<str>>);

/// An image of a turn. Made by [`Turn::images`](crate::turn::Turn::images).
#[derive(Clone, Debug)]
pub struct TurnImage<'a> {
    /// A hash of its URL, which stands for it where its description is kept.
    pub key: String,
    /// Its URL or data URL.
    pub url: Text<'a>,
}

impl ImageTexts {
    /// Adds the description of the image with this key.
    pub fn insert(&mut self, key: String, text: Arc<str>) {
        self.0.insert(key, text);
    }

    /// Whether there is no description.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All keys with their descriptions.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Arc<str>)> {
        self.0.iter()
    }

    /// The same, to change the descriptions.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut Arc<str>)> {
        self.0.iter_mut()
    }

    /// Takes out the description of the image with this key.
    pub fn remove(&mut self, key: &str) -> Option<Arc<str>> {
        self.0.remove(key)
    }

    /// The description of the image with this URL.
    pub(crate) fn of(&self, url: &str) -> Option<&Arc<str>> {
        // The key of a screenshot takes a hash of megabytes.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&TurnImage::key_of(url))
    }
}

impl TurnImage<'_> {
    /// The key of the image with this URL.
    pub(crate) fn key_of(url: &str) -> String {
        format!("{:032x}", xxh3_128(url.as_bytes()))
    }
}
