//! The tools with which a model reads artifacts, for clients without the MCP server that has them:
//! they run in the turn. Offered where the model sees the id of an artifact.

use std::sync::Arc;
use std::time::Duration;

use adapters::plan::output::without_cut_line;
use adapters::responses::assembler::{HostedItem, McpCallError, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use arc_swap::ArcSwap;
use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::artifacts::Artifacts;
use crate::artifacts::owner::OwnerArtifacts;
use crate::config::Config;
use crate::mcp;
use crate::turn::{ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext, TurnTools};

/// The name of the server in the items that clients see of the calls.
const SERVER_LABEL: &str = "respondent";

/// A call is not given fewer characters than these, as long as any are left.
const MIN_CHARS: usize = 1_000;
/// The most characters of a list, or of what a search has found.
const MAX_FOUND_CHARS: usize = 16_000;

/// How long a call may take: a search has 30 seconds, and a little to say so.
const TIMEOUT: Duration = Duration::from_secs(32);

/// Reads artifacts for all turns. Made with the server.
pub struct ArtifactTools {
    artifacts: Artifacts,
    config: Arc<ArcSwap<Config>>,
    definitions: Arc<[ProxyTool]>,
}

impl ArtifactTools {
    /// The tools over these artifacts. They are offered while `artifacts` in `[tools]` is true.
    pub fn new(artifacts: Artifacts, config: Arc<ArcSwap<Config>>) -> Self {
        Self {
            artifacts,
            config,
            definitions: definitions().into(),
        }
    }
}

impl ToolRunner for ArtifactTools {
    fn fixed(&self) -> Arc<[ProxyTool]> {
        if self.config.load().tools.artifacts {
            Arc::clone(&self.definitions)
        } else {
            Arc::default()
        }
    }

    fn begin(&self, ctx: &TurnContext, _: &Turn<'_>, session: &str) -> Arc<dyn TurnTools> {
        let config = self.config.load();
        let keep_days = config.artifacts.keep_days;
        let owned = OwnerArtifacts::local(self.artifacts.clone(), keep_days);
        let max_chars = config.tools.max_artifact_chars;
        Arc::new(ArtifactTurn {
            artifacts: owned.of(Arc::clone(&ctx.owner)).of_session(session),
            max_chars,
            chars_left: Mutex::new(max_chars),
        })
    }
}

/// The tools of the MCP server. A list has the artifacts of the session alone, so that it takes no
/// other.
fn definitions() -> Vec<ProxyTool> {
    let tools = mcp::definitions().into_iter();
    tools
        .map(|tool| {
            let mut schema = (*tool.input_schema).clone();
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            if let Some(properties) = properties {
                properties.remove("session");
            }
            ProxyTool {
                name: tool.name.into_owned(),
                description: tool.description.unwrap_or_default().into_owned(),
                parameters: Value::Object(schema).to_string(),
                reads_artifacts: true,
                ..ProxyTool::default()
            }
        })
        .collect()
}

/// The tools of one turn.
struct ArtifactTurn {
    artifacts: OwnerArtifacts,
    /// The most characters that an answer may read.
    max_chars: usize,
    /// The characters that may still be read. Reads wait for one another, because each has to know
    /// what the others have left of it.
    chars_left: Mutex<usize>,
}

impl ArtifactTurn {
    async fn call(&self, call: &WithheldCall) -> ToolResult {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
        let result = if call.name == mcp::READ {
            self.read(arguments).await
        } else {
            self.find(&call.name, arguments).await
        };
        ended(call, result)
    }

    /// Reads a part of an artifact, no longer than may still be read.
    async fn read(&self, mut arguments: Map<String, Value>) -> Result<String, String> {
        let asked = arguments.get("max_chars").and_then(Value::as_u64);
        let asked = asked.and_then(|chars| usize::try_from(chars).ok());
        let mut left = self.chars_left.lock().await;
        let chars = asked.unwrap_or(mcp::DEFAULT_CHARS).min(self.room(*left)?);
        arguments.insert("max_chars".to_owned(), chars.into());
        let text = self.answer(mcp::READ, arguments).await?;
        *left = left.saturating_sub(text.chars().count());
        Ok(text)
    }

    /// Lists artifacts or searches them, of which more may run at the same time.
    async fn find(&self, name: &str, arguments: Map<String, Value>) -> Result<String, String> {
        self.room(*self.chars_left.lock().await)?;
        let text = self.answer(name, arguments).await?;
        let mut left = self.chars_left.lock().await;
        let text = cut(text, self.room(*left)?.min(MAX_FOUND_CHARS));
        *left = left.saturating_sub(text.chars().count());
        Ok(text)
    }

    /// The most characters of the next result, if this many are left. The error is for the model.
    fn room(&self, left: usize) -> Result<usize, String> {
        if left > 0 {
            return Ok(left.max(MIN_CHARS));
        }
        let most = self.max_chars;
        Err(format!(
            "Not read: the limit of {most} characters that an answer may read of artifacts is reached. Answer with what you have."
        ))
    }

    /// Answers as the MCP server does.
    async fn answer(&self, name: &str, arguments: Map<String, Value>) -> Result<String, String> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        mcp::call::answer(&self.artifacts, request).await
    }
}

/// A list, or what a search has found, within this many characters.
fn cut(text: String, chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(chars) else {
        return text;
    };
    let shown = without_cut_line(text.get(..end).unwrap_or_default());
    format!("{shown}\n[There is more: ask for less.]")
}

/// The result of a call, and what the client sees of it.
fn ended(call: &WithheldCall, result: Result<String, String>) -> ToolResult {
    let item = item(call, Some(&result));
    let (text, failed) = match result {
        Ok(text) => (text, false),
        Err(why) => (why, true),
    };
    ToolResult {
        text,
        failed,
        item: Some(item),
        ..ToolResult::default()
    }
}

/// A call as the client sees it.
fn item(call: &WithheldCall, result: Option<&Result<String, String>>) -> HostedItem {
    HostedItem::McpCall {
        server_label: SERVER_LABEL.to_owned(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        output: result.and_then(|result| result.as_ref().ok().cloned()),
        error: result
            .and_then(|result| result.as_ref().err().cloned())
            .map(McpCallError::Execution),
        approval_request_id: None,
    }
}

impl TurnTools for ArtifactTurn {
    fn has(&self, name: &str) -> bool {
        mcp::NAMES.contains(&name)
    }

    fn effect(&self, _: &str) -> ToolEffect {
        ToolEffect {
            timeout: TIMEOUT,
            ..ToolEffect::READ_ONLY
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        Some(item(call, None))
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.call(call))
    }
}
