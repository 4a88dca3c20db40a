//! The search for tools: where the client defers many tools, the model gets a function that finds
//! them by what they do, and then those that it has found.
//!
//! [`index`] ranks the tools with BM25; [`words`] makes words of texts, [`patterns`] knows an
//! address or an amount by its form, and [`lexicon`] which words of thirteen languages mean the
//! same.

mod index;
mod lexicon;
mod patterns;
#[cfg(test)]
mod tests;
mod words;

use std::fmt::Write as _;
use std::sync::Arc;

use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::{DeferredTool, DeferredTools, ProxyTool};
use adapters::turn::Turn;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use self::index::ToolIndex;
use crate::net::blocking::block_in_place_if_large;
use crate::turn::{
    ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext, TurnTools, parse_tool_arguments,
    whole_number,
};

/// The name of the function.
const NAME: &str = "tool_search";
/// How many tools a search finds, unless the model wants more or fewer, and the most.
const USUAL_RESULTS: usize = 15;
const MAX_RESULTS: usize = 20;
/// The longest description of a tool in a result, in bytes.
const MAX_DESCRIPTION: usize = 120;

/// Searches for tools.
pub struct ToolSearch {
    functions: Arc<[ProxyTool]>,
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self {
            functions: [function()].into(),
        }
    }
}

impl ToolRunner for ToolSearch {
    fn fixed(&self) -> Arc<[ProxyTool]> {
        Arc::clone(&self.functions)
    }

    fn begin(&self, _: &TurnContext, turn: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        Arc::new(ToolSearchTurn {
            tools: turn.tools.searchable_tools().unwrap_or_default(),
            index: Mutex::default(),
        })
    }
}

fn function() -> ProxyTool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "A few English words for what the tool does, or names of tools.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_RESULTS,
                "description": format!("How many tools to find; {USUAL_RESULTS} if left out."),
            },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    ProxyTool {
        name: NAME.to_owned(),
        description: "Finds tools that you do not have yet. Those that it finds are yours from then on. Search before you say that something cannot be done.".to_owned(),
        parameters: parameters.to_string(),
        finds_tools: true,
        ..ProxyTool::default()
    }
}

/// The search of one turn.
struct ToolSearchTurn {
    tools: DeferredTools,
    /// Made for the first search.
    index: Mutex<Option<ToolIndex>>,
}

#[derive(Deserialize)]
struct ToolSearchArguments {
    query: String,
    #[serde(default, deserialize_with = "whole_number")]
    limit: u32,
}

impl ToolSearchTurn {
    /// The places of the tools that fit the arguments of a call best. An error tells the model what
    /// is wrong.
    fn find(&self, arguments: &str) -> Result<Vec<usize>, String> {
        let asked: ToolSearchArguments = parse_tool_arguments(arguments)
            .map_err(|error| format!("The arguments cannot be read: {error}."))?;
        let limit = match usize::try_from(asked.limit) {
            Ok(0) | Err(_) => USUAL_RESULTS,
            Ok(limit) => limit.min(MAX_RESULTS),
        };
        let unusable = |error| format!("The tools cannot be searched: {error}.");
        let mut index = self.index.lock();
        if index.is_none() {
            *index = Some(ToolIndex::new(&self.tools.tools).map_err(unusable)?);
        }
        let found = index.as_ref().map(|it| it.search(&asked.query, limit));
        found
            .transpose()
            .map_err(unusable)
            .map(Option::unwrap_or_default)
    }

    fn search(&self, arguments: &str) -> ToolResult {
        let found = match self.find(arguments) {
            Ok(found) => found,
            Err(why) => return ToolResult::unusable(why),
        };
        let tools: Vec<&DeferredTool> = found
            .iter()
            .filter_map(|place| self.tools.tools.get(*place))
            .collect();
        let mut paths: Vec<String> = Vec::new();
        for tool in &tools {
            let path = tool.source.as_ref().unwrap_or(&tool.name);
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        ToolResult {
            text: result_text(&tools),
            item: Some(HostedItem::ToolSearchCall {
                paths,
                tools: self.tools.definitions(&found),
            }),
            ..ToolResult::default()
        }
    }
}

/// What the model reads of a search.
fn result_text(tools: &[&DeferredTool]) -> String {
    if tools.is_empty() {
        return "No tool fits. Search with other words, or with names from the list in the description of this tool.".to_owned();
    }
    let mut text = "You can call these tools from now on:".to_owned();
    for tool in tools {
        let line = tool.description.lines().next().unwrap_or_default();
        let end = line.floor_char_boundary(MAX_DESCRIPTION);
        let line = line.get(..end).unwrap_or_default();
        let _ = write!(text, "\n- {}: {line}", tool.wire_name);
    }
    text
}

impl TurnTools for ToolSearchTurn {
    fn has(&self, name: &str) -> bool {
        name == NAME && !self.tools.tools.is_empty()
    }

    fn effect(&self, _: &str) -> ToolEffect {
        ToolEffect::READ_ONLY
    }

    fn shown(&self, _: &WithheldCall) -> Option<HostedItem> {
        Some(HostedItem::ToolSearchCall {
            paths: Vec::new(),
            tools: "[]".to_owned(),
        })
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(async {
            let schemas = self.tools.tools.iter().map(|tool| tool.parameters.len());
            block_in_place_if_large(schemas.sum(), || self.search(&call.arguments))
        })
    }
}
