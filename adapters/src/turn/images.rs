//! The images of a turn, wherever they are.

use std::collections::HashSet;

use super::{ItemKind, Turn};
use crate::content::{MessageContent, MessagePart};
use crate::image_texts::TurnImage;
use crate::result_text::output_has_parts;
use crate::text_files::is_svg;

impl Turn<'_> {
    /// The images in its messages and outputs, each once, the newest first. SVG images are left
    /// out, because they are text.
    pub fn images(&self) -> Vec<TurnImage<'_>> {
        let mut known = HashSet::new();
        let mut images = Vec::new();
        for (index, item) in self.items.iter().enumerate().rev() {
            let content = match item.kind {
                ItemKind::Message => MessageContent::read(item.content(), index),
                kind if output_has_parts(kind) => match item.output() {
                    Some(output) => MessageContent::read_output(output, index),
                    None => continue,
                },
                _ => continue,
            };
            // What cannot be read is refused where it is sent.
            for part in content.unwrap_or_default().parts.into_iter().rev() {
                let MessagePart::Image(url, _) = part else {
                    continue;
                };
                if is_svg(&url) {
                    continue;
                }
                let key = TurnImage::key_of(&url.decoded());
                if known.insert(key.clone()) {
                    images.push(TurnImage { key, url });
                }
            }
        }
        images
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::responses::request::TurnSource;

    #[test]
    fn images_are_found_wherever_they_are() {
        let image = |url: &str| json!({"type": "input_image", "image_url": url});
        let svg = "data:image/svg+xml;base64,PHN2Zy8+";
        let body = json!({"model": "m", "input": [
            {"role": "user", "content": [image("data:a"), {"type": "input_text", "text": "x"}]},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [image("https://b"), image(svg)]},
            {"role": "user", "content": [image("data:a"), image("data:c")]},
            {"role": "user", "content": "no list"},
        ]});
        let source = TurnSource::new(body.to_string());
        let turn = source.turn().unwrap();
        let urls: Vec<String> = turn
            .images()
            .iter()
            .map(|it| it.url.decoded().into_owned())
            .collect();
        assert_eq!(urls, ["data:c", "data:a", "https://b"]);
    }
}
