//! Message content and tool outputs: a string, or a list of parts.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::encode::limit::Media;
use crate::fault::Fault;
use crate::json::{self, string_value};
use crate::notes::Notes;
use crate::text::Text;

/// The parts of some content in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Debug)]
pub(super) enum Part<'a> {
    Text(Text<'a>),
    /// URL or data URL, still as JSON string, and the detail level.
    Image(&'a RawValue, Option<&'a RawValue>),
    /// Base64 data and file name, as JSON strings.
    File(&'a RawValue, Option<&'a RawValue>),
}

/// What messages may hold besides text.
#[derive(Clone, Copy)]
pub(super) struct Takes {
    pub(super) images: Images,
    /// Images without text.
    pub(super) lone_images: bool,
    pub(super) files: bool,
}

/// The images that are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Images {
    None,
    /// By data URL.
    Data,
    /// By data URL or by an http or https URL.
    Any,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    file_id: Option<&'a RawValue>,
    #[serde(borrow)]
    file_url: Option<&'a RawValue>,
    #[serde(borrow)]
    file_data: Option<&'a RawValue>,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: &'a RawValue,
}

impl<'a> Content<'a> {
    /// The content of one text.
    pub(super) fn of(text: Text<'a>) -> Self {
        Self {
            parts: vec![Part::Text(text)],
        }
    }

    /// Reads content; `place` is the item's index, for messages.
    pub(super) fn read(
        raw: Option<&'a RawValue>,
        place: usize,
        notes: &mut Notes,
    ) -> Result<Self, Fault> {
        let Some(raw) = raw else {
            return Ok(Self::default());
        };
        if let Some(text) = Text::from_raw(raw) {
            return Ok(Self {
                parts: vec![Part::Text(text)],
            });
        }
        let fields: Vec<Fields<'a>> = match serde_json::from_str(raw.get()) {
            Ok(fields) => fields,
            Err(_) if !raw.get().starts_with('[') => {
                return Ok(Self {
                    parts: vec![Part::Text(raw.get().into())],
                });
            }
            Err(error) => {
                return Err(Fault::invalid(
                    format!("input[{place}]"),
                    format!("The content of input[{place}] cannot be read: {error}."),
                ));
            }
        };
        let mut parts = Vec::with_capacity(fields.len());
        for part in fields {
            parts.extend(read_part(&part, place, notes)?);
        }
        Ok(Self { parts })
    }

    /// Whether there is nothing to say.
    pub(super) fn is_empty(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, Part::Text(text) if text.is_empty()))
    }

    /// All text, separated, as the inside of a JSON string.
    pub(super) fn push_text(&self, out: &mut Vec<u8>, separator: &str) {
        let mut first = true;
        for part in &self.parts {
            if let Part::Text(text) = part
                && !text.is_empty()
            {
                if !first {
                    out.extend_from_slice(separator.as_bytes());
                }
                first = false;
                text.push_escaped(out);
            }
        }
    }

    /// Whether some part is not text.
    pub(super) fn has_media(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Text(_)))
    }

    /// Whether this is one text.
    pub(super) fn is_one_text(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text(_)])
    }

    /// Removes empty texts, which some providers refuse.
    pub(super) fn without_blanks(mut self, notes: &mut Notes) -> Self {
        let all = self.parts.len();
        self.parts
            .retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        if self.parts.len() < all && !self.parts.is_empty() {
            notes.add("empty_text_dropped", "a part of a message");
        }
        self
    }

    /// Puts a line of text in the place of what the model does not take.
    pub(super) fn told(mut self, takes: Takes, notes: &mut Notes) -> Self {
        for part in &mut self.parts {
            if let Some(line) = part.stand_in(takes, notes) {
                *part = Part::Text(line.into());
            }
        }
        self
    }

    /// The same, for a message of its own.
    pub(super) fn fitted(self, takes: Takes, notes: &mut Notes) -> Self {
        let mut fitted = self.told(takes, notes);
        let lone = fitted.has_media() && !fitted.parts.iter().any(|p| matches!(p, Part::Text(_)));
        if lone && !takes.lone_images {
            fitted.parts.push(Part::Text(" ".into()));
        }
        fitted
    }

    /// The parts as elements of a list.
    pub(super) fn push_parts(&self, out: &mut Vec<u8>, media: &mut Media) {
        for part in &self.parts {
            if out.last() != Some(&b'[') {
                out.push(b',');
            }
            part.push(out, media);
        }
    }
}

impl Part<'_> {
    /// The text that stands for this part where it cannot be sent.
    fn stand_in(&self, takes: Takes, notes: &mut Notes) -> Option<String> {
        match self {
            Part::Image(url, _) => match takes.images {
                Images::Any => None,
                Images::Data => {
                    let url = string_value(Some(url)).filter(|url| is_web(url))?;
                    notes.add(
                        "image_dropped",
                        "the provider takes images by data URL only",
                    );
                    Some(format!(
                        "[The image {url} was left out: this model takes images as data URLs only.]"
                    ))
                }
                Images::None => {
                    notes.add("image_dropped", "the model takes no images");
                    Some("[An image was left out: this model takes no images.]".to_owned())
                }
            },
            Part::File(_, name) if !takes.files => {
                let name = string_value(*name).unwrap_or_else(|| "a file".into());
                notes.add(
                    "file_dropped",
                    format!("{name}: the provider takes no files"),
                );
                Some(format!(
                    "[The file {name} was left out: this model takes no files.]"
                ))
            }
            Part::File(..) | Part::Text(_) => None,
        }
    }

    /// The part as an object.
    pub(super) fn push(&self, out: &mut Vec<u8>, media: &mut Media) {
        match self {
            Part::Text(text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                text.push_json(out);
                out.push(b'}');
            }
            Part::Image(url, detail) => {
                media.image(url.get().len());
                out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{");
                json::raw_field(out, "url", url.get());
                if let Some(detail) = detail.filter(|detail| is_chat_detail(detail)) {
                    json::raw_field(out, "detail", detail.get());
                }
                out.extend_from_slice(b"}}");
            }
            Part::File(data, name) => {
                media.file(data.get().len());
                out.extend_from_slice(b"{\"type\":\"file\",\"file\":{");
                if let Some(name) = name {
                    json::raw_field(out, "filename", name.get());
                }
                json::raw_field(out, "file_data", data.get());
                out.extend_from_slice(b"}}");
            }
        }
    }
}

fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https"))
}

fn read_part<'a>(
    part: &Fields<'a>,
    place: usize,
    notes: &mut Notes,
) -> Result<Option<Part<'a>>, Fault> {
    let invalid = |message: &str| {
        Fault::invalid(
            format!("input[{place}].content"),
            format!("{message} (input[{place}])"),
        )
        .with_code("unsupported_content")
    };
    match part.kind.as_deref() {
        Some("input_image" | "image_url" | "computer_screenshot") => {
            let Some(image) = part.image_url else {
                return Err(invalid(
                    "There is no Files API here: send the image as a data URL or an https URL in 'image_url'.",
                ));
            };
            let url = serde_json::from_str::<ImageUrl<'a>>(image.get())
                .map_or(image, |nested| nested.url);
            let detail = part
                .detail
                .filter(|detail| string_value(Some(detail)).is_some());
            Ok(Some(Part::Image(url, detail)))
        }
        Some("input_file" | "file") => match (part.file_data, part.file_id, part.file_url) {
            (Some(data), _, _) => Ok(Some(Part::File(data, part.filename))),
            (None, Some(_), _) => Err(invalid(
                "There is no Files API here, so 'file_id' cannot be resolved: send the file in 'file_data'.",
            )),
            (None, None, _) => Err(invalid(
                "A file must be sent in 'file_data'; 'file_url' is not fetched.",
            )),
        },
        kind => {
            let text = part.text.or(part.refusal).and_then(Text::from_raw);
            if text.is_none() {
                notes.add("content_skipped", kind.unwrap_or("a part without type"));
            }
            Ok(text.map(Part::Text))
        }
    }
}

/// Chat knows these levels; the Responses API has more.
fn is_chat_detail(detail: &RawValue) -> bool {
    matches!(detail.get(), "\"auto\"" | "\"low\"" | "\"high\"")
}
