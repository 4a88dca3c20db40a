//! The descriptions that are known, in memory and in the store, if there is one.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adapters::image_texts::ImageTexts;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{SessionRow, Store};

/// The most images in memory, and the most bytes of their descriptions.
const MAX_IMAGES: usize = 4_096;
const MAX_BYTES: usize = 4 << 20;
/// An image that could not be described is tried again after this time, and after four times as
/// long whenever that fails.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(4);

/// The descriptions of all owners. They live as long as the process.
#[derive(Default)]
pub(in crate::turn) struct KnownImages {
    memory: Mutex<ImageMemory>,
    store: OnceLock<Arc<Store>>,
}

struct ImageMemory {
    images: LruCache<ImageKey, KnownImage>,
    bytes: usize,
}

/// An owner, and the image with the model that describes it.
type ImageKey = (Arc<str>, String);

#[derive(Clone)]
enum KnownImage {
    Described(Arc<str>),
    /// It could not be described. It is not tried again before this time.
    Failed {
        until: Instant,
        pause: Duration,
    },
}

impl Default for ImageMemory {
    fn default() -> Self {
        Self {
            images: LruCache::new(MAX_IMAGES),
            bytes: 0,
        }
    }
}

impl ImageMemory {
    fn insert(&mut self, key: ImageKey, known: KnownImage) {
        let bytes = |known: &KnownImage| match known {
            KnownImage::Described(text) => text.len(),
            KnownImage::Failed { .. } => 0,
        };
        if self.images.len() >= MAX_IMAGES
            && !self.images.contains_key(&key)
            && let Some((_, oldest)) = self.images.remove_lru()
        {
            self.bytes -= bytes(&oldest);
        }
        self.bytes += bytes(&known);
        if let Some(before) = self.images.insert(key, known) {
            self.bytes -= bytes(&before);
        }
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.images.remove_lru()
        {
            self.bytes -= bytes(&oldest);
        }
    }
}

impl KnownImages {
    /// Keeps them in the store as well.
    pub(in crate::turn) fn keep_in(&self, store: &Arc<Store>) {
        self.store.set(Arc::clone(store)).ok();
    }

    /// What they take in memory, in bytes.
    pub(in crate::turn) fn bytes(&self) -> usize {
        self.memory.lock().bytes
    }

    /// Takes over what a recorded turn was given.
    pub(in crate::turn) fn restore(&self, owner: &Arc<str>, texts: &ImageTexts) {
        for (image, text) in texts.iter() {
            self.described(owner, image, Arc::clone(text));
        }
    }

    /// The description of an image, if it is in memory.
    pub(super) fn get(&self, owner: &Arc<str>, image: &str) -> Option<Arc<str>> {
        let key = (Arc::clone(owner), image.to_owned());
        match self.memory.lock().images.get(&key)? {
            KnownImage::Described(text) => Some(Arc::clone(text)),
            KnownImage::Failed { .. } => None,
        }
    }

    /// Whether an image without a description may be tried now.
    pub(super) fn may_try(&self, owner: &Arc<str>, image: &str) -> bool {
        let key = (Arc::clone(owner), image.to_owned());
        match self.memory.lock().images.get(&key) {
            Some(KnownImage::Failed { until, .. }) => *until <= Instant::now(),
            Some(KnownImage::Described(_)) | None => true,
        }
    }

    /// The descriptions of these images that the store has, with the images. They are kept there
    /// for longer from `now`, in seconds since 1970.
    pub(super) async fn load(
        &self,
        owner: &Arc<str>,
        images: Vec<String>,
        now: u64,
    ) -> Vec<(String, Arc<str>)> {
        let Some(store) = self.store.get().filter(|_| !images.is_empty()) else {
            return Vec::new();
        };
        let found = match store.image_texts(owner, images).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("descriptions of images cannot be read: {error}");
                return Vec::new();
            }
        };
        let (found, _memory) = found.into_parts();
        let loaded = found.into_iter().map(|(image, text)| {
            let text = self.keep(owner, &image, text.into(), now);
            (image, text)
        });
        loaded.collect()
    }

    /// Keeps a description, at the time `now`, in seconds since 1970. Returns the one that holds:
    /// another turn may have been first.
    pub(super) fn keep(&self, owner: &Arc<str>, image: &str, text: Arc<str>, now: u64) -> Arc<str> {
        let text = self.described(owner, image, text);
        if let Some(store) = self.store.get() {
            store.note_image_text(SessionRow {
                owner: owner.to_string(),
                session: image.to_owned(),
                text: text.to_string(),
                accessed: now,
            });
        }
        text
    }

    /// An image could not be described.
    pub(super) fn fail(&self, owner: &Arc<str>, image: &str) {
        let key = (Arc::clone(owner), image.to_owned());
        let mut memory = self.memory.lock();
        let pause = match memory.images.get(&key) {
            Some(KnownImage::Described(_)) => return,
            Some(KnownImage::Failed { pause, .. }) => (*pause * 4).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        let until = Instant::now() + pause;
        memory.insert(key, KnownImage::Failed { until, pause });
    }

    fn described(&self, owner: &Arc<str>, image: &str, text: Arc<str>) -> Arc<str> {
        let key = (Arc::clone(owner), image.to_owned());
        let mut memory = self.memory.lock();
        if let Some(KnownImage::Described(first)) = memory.images.get(&key) {
            return Arc::clone(first);
        }
        memory.insert(key, KnownImage::Described(Arc::clone(&text)));
        text
    }
}

impl fmt::Debug for KnownImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownImages").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The first description of an image stays, within 4 MiB for all; one that could not
    /// be described is tried again after a minute, and then ever less often.
    #[tokio::test(start_paused = true)]
    async fn descriptions_stay_and_failures_are_tried_less_and_less() {
        let (known, owner): (KnownImages, Arc<str>) = (KnownImages::default(), "local".into());
        let keep = |image: &str, text: &str| known.keep(&owner, image, text.into(), 1);
        assert_eq!(&*keep("a", "first"), "first");
        assert_eq!(&*keep("a", "second"), "first");
        known.fail(&owner, "a");
        assert_eq!(known.get(&owner, "a").as_deref(), Some("first"));
        assert_eq!(known.get(&"other".into(), "a"), None);
        for pause in [1, 4, 16, 64, 240, 240] {
            assert!(known.may_try(&owner, "b"));
            known.fail(&owner, "b");
            tokio::time::advance(Duration::from_secs(60 * pause - 1)).await;
            assert!(!known.may_try(&owner, "b"), "{pause}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let long = "x".repeat(MAX_BYTES / 4);
        for image in ["c", "d", "e", "f", "g"] {
            keep(image, &long);
        }
        assert!(known.bytes() <= MAX_BYTES);
        assert_eq!(known.get(&owner, "c"), None);
        assert!(known.get(&owner, "g").is_some());
    }
}
