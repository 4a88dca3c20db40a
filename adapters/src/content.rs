//! The content of messages and tool outputs as clients send it: a string, or a list
//! of parts.
//!
//! [`ContentPart`] is one part with its fields unread, which is enough to measure
//! or collect text. [`MessageContent`] is content that has been checked and can be
//! sent to a provider.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::{only_from_object, string_value};
use crate::notes::Notes;
use crate::text::Text;
use crate::text_files;
use crate::turn::Item;

/// One element of a content list. The fields stay raw JSON, and any of them may
/// be missing: which ones a part needs depends on its type.
#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
pub(crate) struct ContentPart<'a> {
    /// `type`; any JSON value.
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    /// A URL, or Chat's object with a `url`.
    pub(crate) image_url: Option<&'a RawValue>,
    pub(crate) detail: Option<&'a RawValue>,
    file_id: Option<&'a RawValue>,
    pub(crate) file_data: Option<&'a RawValue>,
    pub(crate) filename: Option<&'a RawValue>,
    /// An object with `data` and `format`.
    pub(crate) input_audio: Option<&'a RawValue>,
    /// Base64, in a part of MCP or in audio without an object around it.
    pub(crate) data: Option<&'a RawValue>,
    format: Option<&'a RawValue>,
    #[serde(rename = "mimeType")]
    mime_type: Option<&'a RawValue>,
    encrypted_content: Option<&'a RawValue>,
}
only_from_object!(ContentPart, "a content part, which is an object");

/// The types of parts that hold text.
const TEXT_TYPES: [&str; 7] = [
    "encrypted_content",
    "input_text",
    "output_text",
    "text",
    "summary_text",
    "reasoning_text",
    "refusal",
];

/// The other types of parts that are read.
const MEDIA_TYPES: [&str; 8] = [
    "input_image",
    "image_url",
    "computer_screenshot",
    "image",
    "input_file",
    "file",
    "input_audio",
    "audio",
];

impl<'a> ContentPart<'a> {
    /// The JSON value of the part's text: `text`, `refusal` of a refusal part, or what an agent
    /// of Codex says to another one. That is the argument of a call that the provider was not
    /// asked to encrypt.
    pub(crate) fn text(&self) -> Option<&'a RawValue> {
        let is_encrypted = |kind: &RawValue| kind.get() == r#""encrypted_content""#;
        let said = self.encrypted_content;
        let said = said.filter(|_| self.kind.is_some_and(is_encrypted));
        self.text.or(self.refusal).or(said)
    }

    /// The `type`; `None` without one.
    fn kind(&self) -> Option<Cow<'a, str>> {
        string_value(self.kind)
    }

    /// Whether it has the type of a part, be it one that cannot be sent, or is a bare text.
    fn is_content(&self) -> bool {
        match self.kind() {
            Some(kind) => {
                is_known(&kind) || kind.starts_with("input_") || kind.starts_with("output_")
            }
            None => self.kind.is_none() && self.text().is_some(),
        }
    }

    /// Whether it is of a type that is read, and has what that type needs.
    pub(crate) fn is_complete(&self) -> bool {
        let kind = self.kind().unwrap_or_default();
        let is_text = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get().starts_with('"'));
        match kind.as_ref() {
            "input_image" | "image_url" | "computer_screenshot" => self.image_url.is_some(),
            "input_file" | "file" => is_text(self.file_data),
            "input_audio" => self.input_audio.is_some(),
            "image" | "audio" => is_text(self.data) && is_text(self.mime_type),
            kind => TEXT_TYPES.contains(&kind) && is_text(self.text()),
        }
    }

    /// Whether it is a file or an image that may be text. The data are not read.
    pub(crate) fn is_text_file(&self) -> bool {
        text_files::may_be(self)
    }

    /// The URL of an image, as JSON.
    pub(crate) fn image(&self) -> Option<&'a RawValue> {
        #[derive(Deserialize)]
        #[serde(remote = "Self")]
        struct ImageUrl<'a> {
            #[serde(borrow)]
            url: &'a RawValue,
        }
        only_from_object!(ImageUrl, "an object");
        let image = self.image_url?;
        if !image.get().starts_with('{') {
            return Some(image);
        }
        let nested = serde_json::from_str::<ImageUrl<'a>>(image.get());
        Some(nested.map_or(image, |nested| nested.url))
    }
}

fn is_known(kind: &str) -> bool {
    TEXT_TYPES.contains(&kind) || MEDIA_TYPES.contains(&kind)
}

/// The parts of a list. A text in the list is a part too.
pub(crate) fn read_parts(json: &str) -> serde_json::Result<Vec<ContentPart<'_>>> {
    serde_json::from_str(json).or_else(|_| {
        let elements: Vec<&RawValue> = serde_json::from_str(json)?;
        let parts = elements.into_iter().map(|element| {
            if element.get().starts_with('"') {
                let text = Some(element);
                return Ok(ContentPart {
                    text,
                    ..ContentPart::default()
                });
            }
            serde_json::from_str(element.get())
        });
        parts.collect()
    })
}

/// The parts of the output of a tool; `None` if it is some other JSON, which is sent as it is.
pub(crate) fn output_parts(json: &str) -> Option<Vec<ContentPart<'_>>> {
    if !json.starts_with('[') {
        return None;
    }
    let parts = read_parts(json).ok()?;
    let is_content = parts.is_empty() || parts.iter().any(ContentPart::is_content);
    is_content.then_some(parts)
}

/// The content of one item, in the order in which its parts came.
#[derive(Debug, Default)]
pub(crate) struct MessageContent<'a> {
    pub(crate) parts: Vec<MessagePart<'a>>,
}

/// A part that can be sent.
#[derive(Debug)]
pub(crate) enum MessagePart<'a> {
    Text(Text<'a>),
    /// URL or data URL, and the detail level, which is a JSON string.
    Image(Text<'a>, Option<&'a RawValue>),
    /// Base64 data and file name; both are JSON strings.
    File(&'a RawValue, Option<&'a RawValue>),
    /// Base64 data and format.
    Audio(Text<'a>, Text<'a>),
    /// A part of a type that is not known: its place in the content, its type and its text.
    Unknown(usize, Cow<'a, str>, Option<Text<'a>>),
}

impl<'a> MessagePart<'a> {
    /// The text of a part, whatever its type is.
    fn text(&self) -> Option<&Text<'a>> {
        match self {
            Self::Text(text) | Self::Unknown(_, _, Some(text)) => Some(text),
            _ => None,
        }
    }
}

impl<'a> MessageContent<'a> {
    pub(crate) fn from_text(text: Text<'a>) -> Self {
        Self {
            parts: vec![MessagePart::Text(text)],
        }
    }

    /// Reads the content of the item with this index; error messages name the index.
    pub(crate) fn read(raw: Option<&'a RawValue>, item: usize) -> Result<Self, Fault> {
        let Some(raw) = raw else {
            return Ok(Self::default());
        };
        if let Some(text) = Text::from_raw(raw) {
            return Ok(Self::from_text(text));
        }
        if !raw.get().starts_with('[') {
            return Ok(Self::from_text(raw.get().into()));
        }
        let fields = read_parts(raw.get()).and_then(|fields| {
            let is_typed = |part: &ContentPart<'_>| part.kind.is_none() || part.kind().is_some();
            match fields.iter().position(|part| !is_typed(part)) {
                Some(at) => Err(serde_json::Error::custom(format!(
                    "the 'type' of the part {at} is not a string"
                ))),
                None => Ok(fields),
            }
        });
        let fields = fields.map_err(|error| {
            let message = format!("The content of input[{item}] cannot be read: {error}.");
            Fault::invalid(format!("input[{item}]"), message)
        })?;
        Self::from_parts(&fields, item)
    }

    /// Reads the output of a tool. What is no list of parts is text.
    pub(crate) fn read_output(raw: &'a RawValue, item: usize) -> Result<Self, Fault> {
        match output_parts(raw.get()) {
            Some(parts) => Self::from_parts(&parts, item),
            None => Ok(Self::from_text(
                Text::from_raw(raw).unwrap_or_else(|| raw.get().into()),
            )),
        }
    }

    fn from_parts(fields: &[ContentPart<'a>], item: usize) -> Result<Self, Fault> {
        let parts = fields
            .iter()
            .enumerate()
            .map(|(at, part)| read_part(part, at, item));
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
        })
    }

    /// The fault of a part whose type is not known, in the words of OpenAI.
    pub(crate) fn unknown_part(&self, item: usize) -> Option<Fault> {
        self.parts.iter().find_map(|part| {
            let MessagePart::Unknown(at, kind, _) = part else {
                return None;
            };
            let message = format!(
                "Invalid value: '{kind}'. Supported values are: 'input_text', 'input_image', 'input_file', 'input_audio', 'output_text', 'refusal', 'summary_text', and 'computer_screenshot'."
            );
            let fault = Fault::invalid(format!("input[{item}].content[{at}]"), message);
            Some(fault.with_code("invalid_value"))
        })
    }

    /// Whether it holds nothing but empty texts.
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty = |part: &MessagePart<'_>| part.text().is_some_and(Text::is_empty);
        self.parts.iter().all(is_empty)
    }

    /// Writes the texts that are not empty, with the separator between them, as
    /// the inside of a JSON string.
    pub(crate) fn push_text(&self, out: &mut Vec<u8>, separator: &str) {
        let mut first = true;
        for part in &self.parts {
            if let Some(text) = part.text()
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

    /// Reads the text of the reasoning item with this index: of its content, else of its summary.
    pub(crate) fn read_reasoning(reasoning: &Item<'a>, item: usize) -> Result<Self, Fault> {
        let content = Self::read(reasoning.content(), item)?.only_texts();
        if !content.is_empty() {
            return Ok(content);
        }
        Ok(Self::read(reasoning.summary(), item)?.only_texts())
    }

    /// Keeps only the texts, whatever the types of their parts are.
    fn only_texts(mut self) -> Self {
        self.parts.retain(|part| part.text().is_some());
        self
    }

    /// Takes white space off its end.
    pub(crate) fn trim_end(&mut self) {
        while let Some(MessagePart::Text(text)) = self.parts.last_mut() {
            let decoded = text.decoded();
            let trimmed = decoded.trim_end();
            if trimmed.is_empty() {
                self.parts.pop();
            } else {
                if trimmed.len() < decoded.len() {
                    *text = Text::from(trimmed.to_owned());
                }
                return;
            }
        }
    }

    /// Whether some part is not text.
    pub(crate) fn has_media(&self) -> bool {
        let is_text = |part: &MessagePart<'_>| matches!(part, MessagePart::Text(_));
        !self.parts.iter().all(is_text)
    }

    pub(crate) fn is_one_text(&self) -> bool {
        matches!(self.parts.as_slice(), [MessagePart::Text(_)])
    }

    /// The same with its texts joined, behind this heading.
    pub(crate) fn with_texts_joined(mut self, heading: Option<&str>) -> Self {
        let mut joined = heading.map_or_else(String::new, |heading| format!("{heading}:\n"));
        self.parts.retain(|part| {
            if let MessagePart::Text(text) = part {
                joined.push_str(&text.decoded());
            }
            !matches!(part, MessagePart::Text(_))
        });
        self.parts.insert(0, MessagePart::Text(joined.into()));
        self
    }

    /// Removes empty texts, which some providers refuse.
    pub(crate) fn without_empty_texts(mut self, notes: &mut Notes) -> Self {
        let all = self.parts.len();
        self.parts
            .retain(|part| !matches!(part, MessagePart::Text(text) if text.is_empty()));
        if self.parts.len() < all && !self.parts.is_empty() {
            notes.add("empty_text_dropped", "a part of a message");
        }
        self
    }
}

fn read_part<'a>(part: &ContentPart<'a>, at: usize, item: usize) -> Result<MessagePart<'a>, Fault> {
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct AudioData<'a> {
        #[serde(borrow)]
        data: Option<&'a RawValue>,
        format: Option<&'a RawValue>,
    }
    only_from_object!(AudioData, "an object");
    let invalid = |message: &str| {
        Fault::invalid(
            format!("input[{item}].content"),
            format!("{message} (input[{item}])"),
        )
        .with_code("unsupported_content")
    };
    let kind = part.kind();
    let media = part
        .data
        .and_then(Text::from_raw)
        .zip(string_value(part.mime_type));
    match (kind.as_deref(), media) {
        (Some("input_image" | "image_url" | "computer_screenshot"), _) => {
            let Some(url) = part.image() else {
                return Err(invalid(
                    "There is no Files API here: send the image as a data URL or an https URL in 'image_url'.",
                ));
            };
            let detail = part
                .detail
                .filter(|detail| string_value(Some(detail)).is_some());
            let url = Text::from_raw(url).unwrap_or_else(|| url.get().into());
            Ok(MessagePart::Image(url, detail))
        }
        (Some("image"), Some((data, mime))) => {
            let url = format!("data:{mime};base64,{}", data.decoded());
            Ok(MessagePart::Image(url.into(), None))
        }
        (Some("audio"), Some((data, mime))) => {
            let format = mime.rsplit('/').next().unwrap_or_default();
            Ok(MessagePart::Audio(
                data,
                format.trim_start_matches("x-").into(),
            ))
        }
        (Some("input_audio"), _) => {
            let audio = part
                .input_audio
                .and_then(|raw| serde_json::from_str::<AudioData<'a>>(raw.get()).ok());
            let data = audio.as_ref().and_then(|audio| audio.data).or(part.data);
            let Some(data) = data.and_then(Text::from_raw) else {
                return Err(invalid(
                    "Audio must be sent as base64 in 'data' of 'input_audio', beside its 'format'.",
                ));
            };
            let format = audio.and_then(|audio| audio.format).or(part.format);
            let format = format.and_then(Text::from_raw);
            Ok(MessagePart::Audio(
                data,
                format.unwrap_or_else(|| "wav".into()),
            ))
        }
        (Some("input_file" | "file"), _) => match (part.file_data, part.file_id) {
            (Some(data), _) => Ok(MessagePart::File(data, part.filename)),
            (None, Some(_)) => Err(invalid(
                "There is no Files API here, so 'file_id' cannot be resolved: send the file in 'file_data'.",
            )),
            (None, None) => Err(invalid(
                "A file must be sent in 'file_data'; 'file_url' is not fetched.",
            )),
        },
        (kind, _) => {
            let text = part.text().and_then(Text::from_raw);
            match (kind, text) {
                (None, Some(text)) => Ok(MessagePart::Text(text)),
                (Some(kind), Some(text)) if TEXT_TYPES.contains(&kind) => {
                    Ok(MessagePart::Text(text))
                }
                (kind, text) => {
                    let kind = kind.map_or(Cow::Borrowed(""), |kind| kind.to_owned().into());
                    Ok(MessagePart::Unknown(at, kind, text))
                }
            }
        }
    }
}
