//! Images and files in content parts: which of them a provider accepts, the text
//! that replaces the others, and how many tokens they take.

use registry::Model;

use crate::content::{MessageContent, MessagePart};
use crate::json::string_value;
use crate::notes::Notes;

/// Which parts besides text the messages of a request may hold.
#[derive(Clone, Copy)]
pub(crate) struct AcceptedMedia {
    pub(crate) images: AcceptedImages,
    /// Whether a message may hold images and no text.
    pub(crate) images_without_text: bool,
    pub(crate) files: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptedImages {
    None,
    DataUrls,
    /// Data URLs, and http and https URLs.
    AllUrls,
}

impl AcceptedImages {
    /// The images that a model takes at a provider that may take URLs.
    pub(crate) fn of(model: &Model, urls: bool) -> Self {
        match (model.images, urls) {
            (false, _) => Self::None,
            (true, false) => Self::DataUrls,
            (true, true) => Self::AllUrls,
        }
    }
}

impl MessageContent<'_> {
    /// Leaves the images and files alone.
    pub(crate) fn only_media(mut self) -> Self {
        self.parts
            .retain(|part| !matches!(part, MessagePart::Text(_)));
        self
    }

    /// Replaces each part that the provider does not accept by a line of text.
    pub(crate) fn replace_unsupported(
        mut self,
        accepted: AcceptedMedia,
        notes: &mut Notes,
    ) -> Self {
        for part in &mut self.parts {
            if let Some(line) = part.replacement(accepted, notes) {
                *part = MessagePart::Text(line.into());
            }
        }
        self
    }

    /// Like [`Self::replace_unsupported`], for content that becomes a message of
    /// its own: images alone get a text where the provider needs one.
    pub(crate) fn fit_message(self, accepted: AcceptedMedia, notes: &mut Notes) -> Self {
        let mut fitted = self.replace_unsupported(accepted, notes);
        let has_text = |part: &MessagePart<'_>| matches!(part, MessagePart::Text(_));
        let lone = fitted.has_media() && !fitted.parts.iter().any(has_text);
        if lone && !accepted.images_without_text {
            fitted.parts.push(MessagePart::Text(" ".into()));
        }
        fitted
    }
}

impl MessagePart<'_> {
    /// The text that replaces this part if it cannot be sent.
    fn replacement(&self, accepted: AcceptedMedia, notes: &mut Notes) -> Option<String> {
        match self {
            MessagePart::Image(url, _) => match accepted.images {
                AcceptedImages::AllUrls => None,
                AcceptedImages::DataUrls => {
                    let url = string_value(Some(url)).filter(|url| is_http_url(url))?;
                    notes.add(
                        "image_dropped",
                        "the provider takes images by data URL only",
                    );
                    Some(format!(
                        "[The image {url} was left out: this model takes images as data URLs only.]"
                    ))
                }
                AcceptedImages::None => {
                    notes.add("image_dropped", "the model takes no images");
                    Some("[An image was left out: this model takes no images.]".to_owned())
                }
            },
            MessagePart::File(_, name) if !accepted.files => {
                let name = string_value(*name).unwrap_or_else(|| "a file".into());
                notes.add(
                    "file_dropped",
                    format!("{name}: the provider takes no files"),
                );
                Some(format!(
                    "[The file {name} was left out: this model takes no files.]"
                ))
            }
            MessagePart::File(..) | MessagePart::Text(_) => None,
        }
    }
}

fn is_http_url(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https"))
}

/// Estimated tokens of the images and files in a body. Their bytes are left out
/// of the estimate by bytes: the size of base64 data says little about tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MediaEstimate {
    bytes: usize,
    tokens: u64,
}

impl MediaEstimate {
    /// The tokens that an image counts as.
    pub(crate) const IMAGE_TOKENS: u64 = 1_000;

    /// Adds an image whose URL or data URL has this many bytes.
    pub(crate) fn add_image(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.tokens += Self::IMAGE_TOKENS;
    }

    /// Adds a file with this many bytes of base64. About 32 kB are one page, and
    /// a page takes as many tokens as an image.
    pub(crate) fn add_file(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.tokens += Self::IMAGE_TOKENS + u64::try_from(bytes).unwrap_or(u64::MAX) / 32;
    }

    /// The tokens of a body of `body` bytes that holds these images and files.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub(crate) fn tokens_of(self, body: usize, bytes_per_token: f32) -> u64 {
        let text = body.saturating_sub(self.bytes) as f64;
        let tokens = (text / f64::from(bytes_per_token.max(0.1))).ceil() as u64;
        tokens.saturating_add(self.tokens)
    }
}
