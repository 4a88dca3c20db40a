//! Pages that tools of the proxy have found or read, which answers may cite.

use serde::{Deserialize, Serialize};

/// A page that a tool of the proxy has found or read. Made by the tool; the answer may cite it, and
/// so may later answers of a conversation that has the result of the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CitedSource {
    /// The address.
    pub url: String,
    /// The title.
    pub title: String,
    /// Where the whole page is kept, if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<PageArtifact>>,
}

/// A page that was read, and that is kept whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PageArtifact {
    /// Where it was at last, after redirects.
    pub url: String,
    /// When it was published, as the page says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The artifact of the session that has its text.
    pub artifact_id: String,
    /// When it was read, in seconds since 1970.
    pub read: u64,
}

impl CitedSource {
    /// Its texts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, |kept| {
            let published = kept.published.as_ref().map_or(0, String::len);
            size_of::<PageArtifact>() + kept.url.len() + kept.artifact_id.len() + published
        });
        self.url.len() + self.title.len() + kept
    }

    /// Its texts, to be changed.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let kept = self.kept.iter_mut().flat_map(|kept| {
            let PageArtifact {
                url,
                published,
                artifact_id,
                read: _,
            } = &mut **kept;
            [url, artifact_id].into_iter().chain(published)
        });
        [&mut self.url, &mut self.title].into_iter().chain(kept)
    }
}
