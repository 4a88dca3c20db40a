//! Checks whether a model's answer is a usable summary.

use adapters::compact::{is_usable_summary, strip_wrapping};
use serde::Deserialize;

/// The fields of the final response object that are read.
#[derive(Deserialize)]
struct FinalResponse {
    output: Vec<FinalItem>,
}

#[derive(Deserialize)]
struct FinalItem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Option<Vec<FinalItemPart>>,
}

#[derive(Deserialize)]
struct FinalItemPart {
    #[serde(default)]
    text: String,
}

/// The summary in a final response object, or the reason why there is no usable one.
pub(super) fn summary_text(response: &[u8]) -> Result<String, &'static str> {
    let response: FinalResponse =
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
    let text: String = parts.map(|part| part.text.as_str()).collect();
    let summary = strip_wrapping(&text);
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

    fn check(output: &Value) -> Result<String, &'static str> {
        summary_text(json!({"output": output}).to_string().as_bytes())
    }

    #[test]
    fn only_useful_text_without_calls_is_a_summary() {
        let reasoning =
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
        let text = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
        let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        let useful = "The user wants the parser fixed; src/parse.rs is done, the tests are next.";
        assert_eq!(
            check(&json!([reasoning, text(useful)])).as_deref(),
            Ok(useful)
        );
        for (output, reason) in [
            (json!([]), "the summary is empty"),
            (json!([reasoning]), "the summary is empty"),
            (json!([text(" \n")]), "the summary is empty"),
            (json!([text(useful), call]), "the model called a tool"),
        ] {
            assert_eq!(check(&output), Err(reason), "{output}");
        }
        assert!(summary_text(b"{").is_err());
    }
}
