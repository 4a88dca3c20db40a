//! Checks the arguments of a tool call and answers it.

use rmcp::model::CallToolRequestParams;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::{LIST, READ, SEARCH, ToolCallError};
use super::{list, read, search};
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::turn::tool_arguments_from_object;

/// Answers a call from these artifacts, with a text for the model. A failure is a text too, from
/// which the model learns how to correct the call.
pub async fn answer(owned: &OwnerArtifacts, call: CallToolRequestParams) -> Result<String, String> {
    let arguments = call.arguments.unwrap_or_default();
    let result = match &*call.name {
        READ => with_arguments(arguments, |arguments| read::read(owned, arguments)).await,
        SEARCH => with_arguments(arguments, |arguments| search::search(owned, arguments)).await,
        LIST => with_arguments(arguments, |arguments| list::list(owned, arguments)).await,
        _ => Err(ToolCallError::NoTool),
    };
    if let Err(ToolCallError::Unread(ReadError::Store(error))) = &result {
        tracing::error!("artifacts cannot be read: {error}");
    }
    result.map_err(|error| error.to_string())
}

/// Parses the arguments and runs the tool with them.
async fn with_arguments<A, F>(
    arguments: Map<String, Value>,
    tool: impl FnOnce(A) -> F,
) -> Result<String, ToolCallError>
where
    A: DeserializeOwned,
    F: Future<Output = Result<String, ToolCallError>>,
{
    let arguments = tool_arguments_from_object(arguments)
        .map_err(|error| ToolCallError::Arguments(error.to_string()))?;
    tool(arguments).await
}

#[cfg(test)]
pub(super) async fn call_tool(
    owned: &OwnerArtifacts,
    name: &'static str,
    arguments: Value,
) -> Result<String, String> {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let call = CallToolRequestParams::new(name).with_arguments(arguments);
    answer(owned, call).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::artifacts::owner::owner_with_texts;

    #[tokio::test]
    async fn failures_tell_the_model_how_to_go_on() {
        let (owned, ids) = owner_with_texts(&["text"]).await;
        let unknown = format!("art_{:032x}", 77);
        for (name, arguments, advice) in [
            ("artifact_write", json!({}), "artifact_read"),
            (READ, json!({}), "missing field `id`"),
            (READ, json!({"id": ids[0], "lines": "many"}), "invalid type"),
            (
                READ,
                json!({"id": ids[0], "line": 3}),
                "unknown field `line`",
            ),
            (READ, json!({"id": "art_1"}), "Copy the id"),
            (READ, json!({"id": unknown}), "30 days after their last use"),
            (
                READ,
                json!({"id": ids[0], "from_line": 1, "from_byte": 1}),
                "not both",
            ),
            (
                SEARCH,
                json!({"query": "(", "regex": true}),
                "unclosed group",
            ),
            (SEARCH, json!({"query": ""}), "empty"),
            (
                SEARCH,
                json!({"query": "x", "id": unknown}),
                "artifact_list shows",
            ),
            (SEARCH, json!({"query": "x", "from_byte": 3}), "needs an id"),
        ] {
            let failure = call_tool(&owned, name, arguments).await.unwrap_err();
            assert!(failure.contains(advice), "{advice}: {failure}");
        }
        let null = json!({"id": ids[0], "from_line": null, "lines": null});
        call_tool(&owned, READ, null).await.unwrap();
    }
}
