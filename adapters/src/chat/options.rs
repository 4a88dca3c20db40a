//! For which provider and model a Chat Completions request is encoded.

use std::ops::Deref;

use registry::{ChatQuirks, ContentForm};

use crate::encode_options::EncodeOptions;
use crate::image_texts::ImageTexts;
use crate::media::{AcceptedFiles, AcceptedImages, AcceptedMedia};

/// What the encoder has to know besides the turn and its plan: [`EncodeOptions`] with the quirks
/// of this wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChatOptions<'a> {
    pub(super) quirks: &'a ChatQuirks,
    pub(super) options: &'a EncodeOptions<'a>,
    /// What the model is told about tools that it does not get.
    pub(super) tool_notice: Option<&'a str>,
    /// See [`Turn::image_texts`](crate::turn::Turn::image_texts).
    pub(super) image_texts: Option<&'a ImageTexts>,
}

impl<'a> Deref for ChatOptions<'a> {
    type Target = EncodeOptions<'a>;

    fn deref(&self) -> &EncodeOptions<'a> {
        self.options
    }
}

impl<'a> ChatOptions<'a> {
    pub(super) fn accepted_media(&self) -> AcceptedMedia<'a> {
        let quirks = self.quirks;
        let is_text = quirks.content_form == ContentForm::String;
        AcceptedMedia {
            images: if is_text {
                AcceptedImages::None
            } else {
                AcceptedImages::of(self.model, quirks.image_urls)
            },
            image_texts: self.image_texts,
            left_out: self.left_out,
            images_without_text: !quirks.image_needs_text,
            // Most of these providers take PDFs alone.
            files: if quirks.files && !is_text {
                AcceptedFiles::Binary
            } else {
                AcceptedFiles::None
            },
            audio: self.model.audio && !is_text,
        }
    }
}
