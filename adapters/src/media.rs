//! Images, files and audio in content parts: which of them a provider accepts, the text
//! that replaces the others, and how many tokens they take.

use std::sync::Arc;

use registry::Model;

use crate::content::{MessageContent, MessagePart};
use crate::image_texts::{ImageTexts, TurnImage};
use crate::json::string_value;
use crate::notes::Notes;
use crate::refusal::change::LeftOut;
use crate::text::Text;
use crate::text_files;

/// Which parts besides text the messages of a request may hold.
#[derive(Clone, Copy)]
pub(crate) struct AcceptedMedia<'t> {
    pub(crate) images: AcceptedImages,
    /// Descriptions of the images, if the model takes none.
    pub(crate) image_texts: Option<&'t ImageTexts>,
    /// The contents that the session leaves out.
    pub(crate) left_out: Option<&'t LeftOut>,
    /// Whether a message may hold images and no text.
    pub(crate) images_without_text: bool,
    pub(crate) files: AcceptedFiles,
    pub(crate) audio: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptedFiles {
    None,
    /// A file that is text has to go as text.
    Binary,
    All,
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
    /// Leaves only what is not text.
    pub(crate) fn only_media(mut self) -> Self {
        self.parts
            .retain(|part| !matches!(part, MessagePart::Text(_)));
        self
    }

    /// Replaces each part that the provider does not accept by a line of text.
    pub(crate) fn replace_unsupported(
        mut self,
        accepted: AcceptedMedia<'_>,
        notes: &mut Notes,
    ) -> Self {
        for part in &mut self.parts {
            if let Some(text) = part.replacement(accepted, notes) {
                *part = MessagePart::Text(text);
            }
        }
        self
    }

    /// The descriptions of its images, if the model takes none.
    pub(crate) fn image_texts(
        &self,
        accepted: AcceptedMedia<'_>,
    ) -> impl Iterator<Item = Arc<str>> {
        let is_needed = accepted.images == AcceptedImages::None;
        let texts = accepted.image_texts.filter(|_| is_needed);
        self.parts.iter().filter_map(move |part| match part {
            MessagePart::Image(url, _) => texts?.of(&url.decoded()).cloned(),
            _ => None,
        })
    }

    /// Like [`Self::replace_unsupported`], for content that becomes a message of
    /// its own: images alone get a text where the provider needs one.
    pub(crate) fn fit_message(self, accepted: AcceptedMedia<'_>, notes: &mut Notes) -> Self {
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
    fn replacement(&self, accepted: AcceptedMedia<'_>, notes: &mut Notes) -> Option<Text<'static>> {
        let line = match self {
            MessagePart::Image(url, _) => {
                if let Some(text) = text_files::of_image(url) {
                    notes.add("image_as_text", "an SVG image");
                    return Some(text.into());
                }
                let is_left_out = |left_out: &LeftOut| {
                    !left_out.images.is_empty()
                        && left_out.images.contains(&TurnImage::key_of(&url.decoded()))
                };
                if accepted.images != AcceptedImages::None
                    && accepted.left_out.is_some_and(is_left_out)
                {
                    notes.add("image_dropped", "the provider refused it");
                    return Some("[An image was left out: the provider refused it.]".into());
                }
                match accepted.images {
                    AcceptedImages::AllUrls => return None,
                    AcceptedImages::DataUrls => {
                        let url = Some(url.decoded()).filter(|url| is_http_url(url))?;
                        notes.add(
                            "image_dropped",
                            "the provider takes images by data URL only",
                        );
                        format!(
                            "[The image {url} was left out: this model takes images as data URLs only.]"
                        )
                    }
                    AcceptedImages::None => {
                        let texts = accepted.image_texts;
                        if let Some(text) = texts.and_then(|texts| texts.of(&url.decoded())) {
                            notes.add("image_described", "the model takes no images");
                            return Some(Text::Owned(Arc::clone(text)));
                        }
                        notes.add("image_dropped", "the model takes no images");
                        "[An image was left out: this model takes no images.]".to_owned()
                    }
                }
            }
            MessagePart::File(data, name) => {
                if accepted.files == AcceptedFiles::All {
                    return None;
                }
                let text = text_files::of_file(data, *name);
                let name = string_value(*name).unwrap_or_else(|| "a file".into());
                if let Some(text) = text {
                    notes.add("file_as_text", name);
                    return Some(text.into());
                }
                if accepted.files == AcceptedFiles::Binary {
                    return None;
                }
                notes.add(
                    "file_dropped",
                    format!("{name}: the provider takes no files"),
                );
                format!("[The file {name} was left out: this model takes no files.]")
            }
            MessagePart::Audio(..) if !accepted.audio => {
                notes.add("audio_dropped", "the model takes no audio");
                "[An audio recording was left out: this model takes no audio.]".to_owned()
            }
            MessagePart::Unknown(_, kind, text) => {
                let what = match kind.as_ref() {
                    "" => "part without a type".to_owned(),
                    kind => format!("part of the type '{kind}'"),
                };
                notes.add("content_skipped", format!("a {what}"));
                match text {
                    Some(text) => return Some(text.decoded().into_owned().into()),
                    None => format!("[A {what} was left out: it cannot be sent to this model.]"),
                }
            }
            MessagePart::Audio(..) | MessagePart::Text(_) => return None,
        };
        Some(line.into())
    }
}

/// Writes a part with audio, which has one form on every wire.
pub(crate) fn push_audio(
    out: &mut Vec<u8>,
    data: &Text<'_>,
    format: &Text<'_>,
    media: &mut MediaEstimate,
) {
    out.extend_from_slice(br#"{"type":"input_audio","input_audio":{"data":"#);
    let start = out.len();
    data.push_json(out);
    media.add_audio(out.len() - start);
    out.extend_from_slice(br#","format":"#);
    format.push_json(out);
    out.extend_from_slice(b"}}");
}

fn is_http_url(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https"))
}

/// Estimated tokens of the images, files and recordings in a body. Their bytes are left out
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

    /// Adds a recording with this many bytes of base64. A second takes up to 32 tokens, and
    /// compressed speech at least 5 kB.
    pub(crate) fn add_audio(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.tokens += u64::try_from(bytes).unwrap_or(u64::MAX) / 160;
    }

    /// Whether there are any.
    pub(crate) fn has_any(self) -> bool {
        self.bytes > 0
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
