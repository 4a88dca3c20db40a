//! What a model wrote instead of a summary, or as one.

use adapters::compact::{is_usable_summary, strip_wrapping};
use serde::Deserialize;

/// The final response object, as far as it matters.
#[derive(Deserialize)]
struct Response {
    output: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// The summary in a final response object, or why there is none.
pub(super) fn summary(response: &[u8]) -> Result<String, &'static str> {
    let response: Response =
        serde_json::from_slice(response).map_err(|_| "the answer cannot be read")?;
    if response
        .output
        .iter()
        .any(|item| item.kind.ends_with("_call"))
    {
        return Err("the model called a tool");
    }
    let messages = response.output.iter().filter(|item| item.kind == "message");
    let parts = messages.filter_map(|item| item.content.as_ref()).flatten();
    let said: String = parts.map(|part| part.text.as_str()).collect();
    let summary = strip_wrapping(&said);
    if summary.trim().is_empty() {
        Err("the summary is empty")
    } else if is_usable_summary(summary) {
        Ok(summary.to_owned())
    } else {
        Err("the summary is of no use")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(output: &Value) -> Result<String, &'static str> {
        summary(json!({"output": output}).to_string().as_bytes())
    }

    #[test]
    fn only_text_alone_is_a_summary() {
        let thought =
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
        let text = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
        let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        let useful = "The user wants the parser fixed; src/parse.rs is done, the tests are next.";
        assert_eq!(
            judged(&json!([thought, text(useful)])).as_deref(),
            Ok(useful)
        );
        for (output, why) in [
            (json!([]), "the summary is empty"),
            (json!([thought]), "the summary is empty"),
            (json!([text(" \n")]), "the summary is empty"),
            (json!([text(useful), call]), "the model called a tool"),
        ] {
            assert_eq!(judged(&output), Err(why), "{output}");
        }
        assert!(summary(b"{").is_err());
    }
}
