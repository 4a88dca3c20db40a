//! The result of a call as text for a model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The most bytes of a result.
const MAX_BYTES: usize = 2 << 20;

/// The text of a result, or of the failure that it tells. Images, recordings and files become
/// lines, because the result of a function is text.
pub(super) fn text_of(result: &CallToolResult) -> Result<String, String> {
    let mut parts: Vec<String> = result.content.iter().map(part).collect();
    if parts.is_empty()
        && let Some(structured) = &result.structured_content
    {
        parts.push(structured.to_string());
    }
    let text = cut(parts.join("\n"));
    if result.is_error == Some(true) {
        return Err(if text.is_empty() {
            "The tool has failed without a reason.".to_owned()
        } else {
            text
        });
    }
    Ok(text)
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => left_out("An image", &image.mime_type),
        ContentBlock::Audio(audio) => left_out("An audio recording", &audio.mime_type),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, .. } => left_out(
                &format!("The file {uri}"),
                mime_type.as_deref().unwrap_or_default(),
            ),
            // What later versions of the protocol have.
            _ => left_out("A resource", ""),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => left_out("A content", ""),
    }
}

fn left_out(what: &str, mime_type: &str) -> String {
    let of_type = if mime_type.is_empty() {
        String::new()
    } else {
        format!(" ({mime_type})")
    };
    format!("[{what}{of_type} was left out: the result of this tool is text.]")
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push_str("\n[The result was cut off here.]");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(value: Value) -> Result<String, String> {
        text_of(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn every_content_becomes_text() {
        let content = json!([
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "b"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
            {"type": "resource_link", "name": "d", "uri": "https://d.example"},
        ]);
        let expected = "a\n\
            [An image (image/png) was left out: the result of this tool is text.]\n\
            [An audio recording (audio/wav) was left out: the result of this tool is text.]\n\
            [file:///a]\nb\n\
            [The file file:///c was left out: the result of this tool is text.]\n\
            [d: https://d.example]";
        assert_eq!(text(json!({"content": content})).unwrap(), expected);
        let structured = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(text(structured).unwrap(), r#"{"a":1}"#);
        let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
        assert_eq!(text(failed).unwrap_err(), "no");
        let long = json!({"content": [{"type": "text", "text": "é".repeat(MAX_BYTES)}]});
        let cut = text(long).unwrap();
        assert!(cut.len() < MAX_BYTES + 100 && cut.ends_with("cut off here.]"));
    }
}
