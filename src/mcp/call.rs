//! A call of a tool: its arguments, checked, and its answer.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::tools::{LIST, READ, SEARCH};
use super::{find, list, read};
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::artifacts::search::BadQuery;

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Of this tool.
    pub name: String,
    /// With these arguments.
    pub arguments: Map<String, Value>,
}

/// What a call ended with. A failure is a text too: the model can mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the model reads.
    pub text: String,
    /// It went wrong.
    pub failed: bool,
}

/// Why a call cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("There is no tool of this name; there are {READ}, {SEARCH} and {LIST}.")]
    NoTool,
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    #[error("query cannot be searched for: {0}.")]
    Query(#[from] BadQuery),
    #[error("{0} {advice}", advice = advice(.0))]
    Unread(#[from] ReadError),
}

/// What the model can do about it.
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

impl Call {
    /// Answers it from these artifacts.
    pub async fn answer(self, owned: &OwnerArtifacts) -> Outcome {
        let answered = match &*self.name {
            READ => answered(self.arguments, |ask| read::read(owned, ask)).await,
            SEARCH => answered(self.arguments, |ask| find::find(owned, ask)).await,
            LIST => answered(self.arguments, |ask| list::list(owned, ask)).await,
            _ => Err(Unanswered::NoTool),
        };
        match answered {
            Ok(text) => Outcome {
                text,
                failed: false,
            },
            Err(error) => {
                if let Unanswered::Unread(ReadError::Store(error)) = &error {
                    tracing::error!("artifacts cannot be read: {error}");
                }
                Outcome::failed(&error)
            }
        }
    }
}

async fn answered<A, F>(
    arguments: Map<String, Value>,
    answer: impl FnOnce(A) -> F,
) -> Result<String, Unanswered>
where
    A: DeserializeOwned,
    F: Future<Output = Result<String, Unanswered>>,
{
    // A null stands for what is left out: strict schemas make models write them.
    let given = arguments.into_iter().filter(|(_, value)| !value.is_null());
    let ask = serde_json::from_value(Value::Object(given.collect()))
        .map_err(|error| Unanswered::Arguments(error.to_string()))?;
    answer(ask).await
}

impl Outcome {
    /// A failure.
    pub fn failed(why: &impl ToString) -> Self {
        Self {
            text: why.to_string(),
            failed: true,
        }
    }
}

impl From<Outcome> for CallToolResponse {
    fn from(outcome: Outcome) -> Self {
        let content = vec![ContentBlock::text(outcome.text)];
        Self::Complete(if outcome.failed {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        })
    }
}

#[cfg(test)]
pub(super) async fn ask(owned: &OwnerArtifacts, name: &str, arguments: Value) -> Outcome {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let name = name.to_owned();
    Call { name, arguments }.answer(owned).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::artifacts::owner::owner_with_texts;

    #[tokio::test]
    async fn failures_say_what_to_do() {
        let (owned, ids) = owner_with_texts(&["text"]).await;
        let unknown = format!("art_{:032x}", 77);
        for (name, arguments, told) in [
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
            let outcome = ask(&owned, name, arguments).await;
            assert!(outcome.failed, "{outcome:?}");
            assert!(outcome.text.contains(told), "{told}: {}", outcome.text);
        }
        let null = json!({"id": ids[0], "from_line": null, "lines": null});
        assert!(!ask(&owned, READ, null).await.failed);
    }
}
