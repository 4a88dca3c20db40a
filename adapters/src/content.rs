//! The content of messages and tool outputs as clients send it: a string, or a list
//! of parts.
//!
//! [`ContentPart`] is one part with its fields unread, which is enough to measure
//! or collect text. [`MessageContent`] is content that has been checked and can be
//! sent to a provider.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::string_value;
use crate::notes::Notes;
use crate::text::Text;

/// One element of a content list. The fields stay raw JSON, and any of them may
/// be missing: which ones a part needs depends on its type.
#[derive(Deserialize)]
#[serde(expecting = "struct Fields")]
pub(crate) struct ContentPart<'a> {
    /// `type`; any JSON value.
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    /// A URL, or Chat's object with a `url`.
    pub(crate) image_url: Option<&'a RawValue>,
    detail: Option<&'a RawValue>,
    file_id: Option<&'a RawValue>,
    file_url: Option<&'a RawValue>,
    pub(crate) file_data: Option<&'a RawValue>,
    filename: Option<&'a RawValue>,
    encrypted_content: Option<&'a RawValue>,
}

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
    /// URL or data URL, and the detail level; both are JSON strings.
    Image(&'a RawValue, Option<&'a RawValue>),
    /// Base64 data and file name; both are JSON strings.
    File(&'a RawValue, Option<&'a RawValue>),
}

impl<'a> MessageContent<'a> {
    pub(crate) fn from_text(text: Text<'a>) -> Self {
        Self {
            parts: vec![MessagePart::Text(text)],
        }
    }

    /// Reads the content of the item with this index; error messages name the
    /// index. Parts without anything that can be sent are skipped with a note.
    pub(crate) fn read(
        raw: Option<&'a RawValue>,
        item: usize,
        notes: &mut Notes,
    ) -> Result<Self, Fault> {
        let Some(raw) = raw else {
            return Ok(Self::default());
        };
        if let Some(text) = Text::from_raw(raw) {
            return Ok(Self::from_text(text));
        }
        let fields = match parse_parts(raw) {
            Ok(fields) => fields,
            Err(_) if !raw.get().starts_with('[') => {
                return Ok(Self::from_text(raw.get().into()));
            }
            Err(error) => {
                return Err(Fault::invalid(
                    format!("input[{item}]"),
                    format!("The content of input[{item}] cannot be read: {error}."),
                ));
            }
        };
        let mut parts = Vec::with_capacity(fields.len());
        for part in fields {
            parts.extend(read_part(&part, item, notes)?);
        }
        Ok(Self { parts })
    }

    /// Whether it holds nothing but empty texts.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, MessagePart::Text(text) if text.is_empty()))
    }

    /// Writes the texts that are not empty, with the separator between them, as
    /// the inside of a JSON string.
    pub(crate) fn push_text(&self, out: &mut Vec<u8>, separator: &str) {
        let mut first = true;
        for part in &self.parts {
            if let MessagePart::Text(text) = part
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
    pub(crate) fn has_media(&self) -> bool {
        self.parts
            .iter()
            .any(|part| !matches!(part, MessagePart::Text(_)))
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

/// Reads a list of parts. A part whose `type` is not a string is an error.
fn parse_parts(raw: &RawValue) -> serde_json::Result<Vec<ContentPart<'_>>> {
    #[derive(Deserialize)]
    #[serde(expecting = "struct Fields")]
    #[expect(dead_code, reason = "read for its error alone")]
    struct TypedPart<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
    }
    let parts: Vec<ContentPart<'_>> = serde_json::from_str(raw.get())?;
    let is_plain_string = |kind: &RawValue| {
        let json = kind.get();
        json.starts_with('"') && !json.contains('\\')
    };
    if !parts
        .iter()
        .all(|part| part.kind.is_none_or(is_plain_string))
    {
        serde_json::from_str::<Vec<TypedPart<'_>>>(raw.get())?;
    }
    Ok(parts)
}

fn read_part<'a>(
    part: &ContentPart<'a>,
    item: usize,
    notes: &mut Notes,
) -> Result<Option<MessagePart<'a>>, Fault> {
    #[derive(Deserialize)]
    struct ImageUrl<'a> {
        #[serde(borrow)]
        url: &'a RawValue,
    }
    let invalid = |message: &str| {
        Fault::invalid(
            format!("input[{item}].content"),
            format!("{message} (input[{item}])"),
        )
        .with_code("unsupported_content")
    };
    match string_value(part.kind).as_deref() {
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
            Ok(Some(MessagePart::Image(url, detail)))
        }
        Some("input_file" | "file") => match (part.file_data, part.file_id, part.file_url) {
            (Some(data), _, _) => Ok(Some(MessagePart::File(data, part.filename))),
            (None, Some(_), _) => Err(invalid(
                "There is no Files API here, so 'file_id' cannot be resolved: send the file in 'file_data'.",
            )),
            (None, None, _) => Err(invalid(
                "A file must be sent in 'file_data'; 'file_url' is not fetched.",
            )),
        },
        kind => {
            let text = part.text().and_then(Text::from_raw);
            if text.is_none() {
                notes.add("content_skipped", kind.unwrap_or("a part without type"));
            }
            Ok(text.map(MessagePart::Text))
        }
    }
}
