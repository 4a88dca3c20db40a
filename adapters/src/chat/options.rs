//! For which provider and model a request is encoded.

use std::collections::HashMap;

use registry::{Dialect, Model, Quirks};

use super::media::{AcceptedImages, AcceptedMedia};

/// Everything that the encoder has to know besides the turn and its plan.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions<'a> {
    /// The quirks of the provider or model, and its fixed fields.
    pub dialect: &'a Dialect,
    /// The model's window, limits and abilities.
    pub model: &'a Model,
    /// The model's name in the request.
    pub upstream_model: &'a str,
    /// Provider and model of the route, as in
    /// [`crate::baggage::Baggage::origin`]. Opaque reasoning data is sent back
    /// only to the origin that made it.
    pub origin: &'a str,
    /// Sealed baggage ([`crate::baggage::Baggage::seal`]) by call id, for clients
    /// that do not send reasoning items back. Several blobs of one call are
    /// separated by spaces.
    pub known_baggage: Option<&'a HashMap<String, String>>,
}

impl<'a> EncodeOptions<'a> {
    /// Options with an empty origin and without known baggage.
    pub fn new(dialect: &'a Dialect, model: &'a Model, upstream_model: &'a str) -> Self {
        Self {
            dialect,
            model,
            upstream_model,
            origin: "",
            known_baggage: None,
        }
    }

    pub(super) fn quirks(&self) -> &'a Quirks {
        &self.dialect.quirks
    }

    pub(super) fn accepted_media(&self) -> AcceptedMedia {
        let quirks = self.quirks();
        AcceptedMedia {
            images: match (self.model.images, quirks.image_urls) {
                (false, _) => AcceptedImages::None,
                (true, false) => AcceptedImages::DataUrls,
                (true, true) => AcceptedImages::AllUrls,
            },
            images_without_text: !quirks.image_needs_text,
            files: quirks.files,
        }
    }
}
