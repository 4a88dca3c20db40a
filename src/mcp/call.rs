//! Checks the arguments of a tool call and answers it.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::search::unsearchable;
use super::tools::{LIST, READ, SEARCH};
use super::{list, read, search};
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::artifacts::search::InvalidQuery;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments, not yet checked.
    pub arguments: Map<String, Value>,
}

/// The result of a call. A failure also has a text, from which the model learns how to
/// correct the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallResult {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ToolCallError {
    #[error("There is no tool of this name; there are {READ}, {SEARCH} and {LIST}.")]
    NoTool,
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    #[error("{}", unsearchable("query", .0))]
    Query(#[from] InvalidQuery),
    #[error("{0} {advice}", advice = advice(.0))]
    Unread(#[from] ReadError),
}

/// Tells the model how to go on.
fn advice(unread: &ReadError) -> &'static str {
    match unread {
        ReadError::Missing { .. } => {
            "artifact_list shows which there are; else run the command again."
        }
        ReadError::MalformedId => "Copy the id from the excerpt, or call artifact_list.",
        ReadError::SearchTimeout => "Then read around what it finds.",
        ReadError::Store(_) => "Nothing is known to be lost.",
    }
}

impl ToolCall {
    /// Answers the call from these artifacts.
    pub async fn answer(self, owned: &OwnerArtifacts) -> ToolCallResult {
        let result = match &*self.name {
            READ => with_arguments(self.arguments, |arguments| read::read(owned, arguments)).await,
            SEARCH => {
                with_arguments(self.arguments, |arguments| search::search(owned, arguments)).await
            }
            LIST => with_arguments(self.arguments, |arguments| list::list(owned, arguments)).await,
            _ => Err(ToolCallError::NoTool),
        };
        match result {
            Ok(text) => ToolCallResult {
                text,
                failed: false,
            },
            Err(error) => {
                if let ToolCallError::Unread(ReadError::Store(error)) = &error {
                    tracing::error!("artifacts cannot be read: {error}");
                }
                ToolCallResult::failure(&error)
            }
        }
    }
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
    // Strict schemas make models write null for an argument that they leave out.
    let non_null = arguments.into_iter().filter(|(_, value)| !value.is_null());
    let arguments = serde_json::from_value(Value::Object(non_null.collect()))
        .map_err(|error| ToolCallError::Arguments(error.to_string()))?;
    tool(arguments).await
}

impl ToolCallResult {
    /// A failure with this text.
    pub fn failure(why: &impl ToString) -> Self {
        Self {
            text: why.to_string(),
            failed: true,
        }
    }
}

impl From<ToolCallResult> for CallToolResponse {
    fn from(result: ToolCallResult) -> Self {
        let content = vec![ContentBlock::text(result.text)];
        Self::Complete(if result.failed {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        })
    }
}

#[cfg(test)]
pub(super) async fn call_tool(
    owned: &OwnerArtifacts,
    name: &str,
    arguments: Value,
) -> ToolCallResult {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let name = name.to_owned();
    ToolCall { name, arguments }.answer(owned).await
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
            let result = call_tool(&owned, name, arguments).await;
            assert!(result.failed, "{result:?}");
            assert!(result.text.contains(advice), "{advice}: {}", result.text);
        }
        let null = json!({"id": ids[0], "from_line": null, "lines": null});
        assert!(!call_tool(&owned, READ, null).await.failed);
    }
}
