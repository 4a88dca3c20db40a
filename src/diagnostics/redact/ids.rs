//! Artifact ids are hashes of content, so an output that contained a secret has another
//! id after redaction. The old ids are replaced wherever they occur.

use std::collections::HashMap;

use adapters::plan::output;
use adapters::turn::Turn;
use memchr::memmem;

use super::opaque;
use super::strings::BodyStrings;

const HEAD: &[u8] = b"art_";
/// Length of an id in bytes.
const SIZE: usize = 36;

/// Changed ids by their old id. All have the same length.
#[derive(Default, PartialEq, Eq)]
pub(super) struct ChangedArtifactIds(HashMap<Vec<u8>, Vec<u8>>);

impl ChangedArtifactIds {
    /// The ids of the outputs that differ between the original and the redacted turn.
    pub(super) fn between(old: &Turn<'_>, new: &Turn<'_>) -> Self {
        let pairs = old.items.iter().zip(&new.items);
        let changed = pairs.filter_map(|(old, new)| {
            let (old, new) = (output::text(old)?, output::text(new)?);
            (old != new).then(|| {
                (
                    output::artifact_id(&old).into(),
                    output::artifact_id(&new).into(),
                )
            })
        });
        Self(changed.collect())
    }

    /// Replaces old ids in a body, also where an id is spread over stream events or inside
    /// the proxy's own sealed blobs.
    pub(super) fn renamed(&self, mut text: Vec<u8>) -> Vec<u8> {
        if self.0.is_empty() {
            return text;
        }
        self.rename(&mut text);
        for part in opaque::blobs(&text) {
            let Some(blob) = text.get_mut(part) else {
                continue;
            };
            let sealed = std::str::from_utf8(blob)
                .ok()
                .and_then(|blob| opaque::resealed(blob, &|text| self.string(text)));
            if let Some(sealed) = sealed.filter(|sealed| sealed.len() == blob.len()) {
                blob.copy_from_slice(sealed.as_bytes());
            }
        }
        let strings = BodyStrings::of(&text);
        if strings.events {
            for values in strings.texts() {
                let parts = values.iter().map(|value| value.part.clone());
                let places: Vec<usize> = parts.flatten().collect();
                let bytes = places.iter().filter_map(|at| text.get(*at).copied());
                let mut together: Vec<u8> = bytes.collect();
                self.rename(&mut together);
                for (at, byte) in places.into_iter().zip(together) {
                    if let Some(old) = text.get_mut(at) {
                        *old = byte;
                    }
                }
            }
        }
        text
    }

    pub(super) fn string(&self, text: String) -> String {
        if self.0.is_empty() {
            return text;
        }
        // Ids are ASCII, so the text stays valid UTF-8.
        String::from_utf8(self.renamed(text.into_bytes())).unwrap_or_default()
    }

    fn rename(&self, text: &mut [u8]) {
        let places: Vec<usize> = memmem::find_iter(text, HEAD).collect();
        for at in places {
            if let Some(id) = text.get_mut(at..at + SIZE)
                && let Some(new) = self.0.get(&*id)
                && new.len() == id.len()
            {
                id.copy_from_slice(new);
            }
        }
    }
}
