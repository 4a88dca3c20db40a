//! For which provider and model a Chat Completions request is encoded.

use std::collections::HashMap;

use registry::{ChatQuirks, Model};

use crate::media::{AcceptedImages, AcceptedMedia};
use crate::wire::EncodeOptions;

/// What the encoder has to know besides the turn and its plan: [`EncodeOptions`] with the quirks
/// of this wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChatOptions<'a> {
    quirks: &'a ChatQuirks,
    /// Extra fields of the body, as (name, JSON text).
    pub(super) fixed_fields: &'a [(String, String)],
    /// See [`EncodeOptions::model`].
    pub(super) model: &'a Model,
    /// See [`EncodeOptions::upstream_model`].
    pub(super) upstream_model: &'a str,
    /// See [`EncodeOptions::origin`].
    pub(super) origin: &'a str,
    /// See [`EncodeOptions::known_baggage`].
    pub(super) known_baggage: Option<&'a HashMap<String, String>>,
}

impl<'a> ChatOptions<'a> {
    pub(super) fn new(options: &EncodeOptions<'a>, quirks: &'a ChatQuirks) -> Self {
        Self {
            quirks,
            fixed_fields: &options.dialect.body,
            model: options.model,
            upstream_model: options.upstream_model,
            origin: options.origin,
            known_baggage: options.known_baggage,
        }
    }

    pub(super) fn quirks(&self) -> &'a ChatQuirks {
        self.quirks
    }

    pub(super) fn accepted_media(&self) -> AcceptedMedia {
        let quirks = self.quirks;
        AcceptedMedia {
            images: AcceptedImages::of(self.model, quirks.image_urls),
            images_without_text: !quirks.image_needs_text,
            files: quirks.files,
        }
    }
}
