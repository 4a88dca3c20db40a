//! Content parts as Chat Completions has them.

use serde_json::value::RawValue;

use crate::content::{MessageContent, MessagePart};
use crate::json;
use crate::media::{MediaEstimate, push_audio};

impl MessageContent<'_> {
    /// Writes the parts as elements of a list that has been opened.
    pub(super) fn push_parts(&self, out: &mut Vec<u8>, media: &mut MediaEstimate) {
        for part in &self.parts {
            json::separate(out);
            part.push(out, media);
        }
    }
}

impl MessagePart<'_> {
    /// Writes the part as an object.
    pub(super) fn push(&self, out: &mut Vec<u8>, media: &mut MediaEstimate) {
        match self {
            MessagePart::Text(text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                text.push_json(out);
                out.push(b'}');
            }
            MessagePart::Image(url, detail) => {
                out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
                let start = out.len();
                url.push_json(out);
                media.add_image(out.len() - start);
                if let Some(detail) = detail.filter(|detail| is_chat_detail(detail)) {
                    json::raw_field(out, "detail", detail.get());
                }
                out.extend_from_slice(b"}}");
            }
            MessagePart::File(data, name) => {
                media.add_file(data.get().len());
                out.extend_from_slice(b"{\"type\":\"file\",\"file\":{");
                if let Some(name) = name {
                    json::raw_field(out, "filename", name.get());
                }
                json::raw_field(out, "file_data", data.get());
                out.extend_from_slice(b"}}");
            }
            MessagePart::Audio(data, format) => push_audio(out, data, format, media),
            // `replace_unsupported` has put a line of text in its place.
            MessagePart::Unknown(..) => out.extend_from_slice(br#"{"type":"text","text":" "}"#),
        }
    }
}

/// Chat Completions has these levels; the Responses API has more.
fn is_chat_detail(detail: &RawValue) -> bool {
    matches!(detail.get(), "\"auto\"" | "\"low\"" | "\"high\"")
}
