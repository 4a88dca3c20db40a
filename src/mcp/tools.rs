//! The definitions of the tools: name, description and arguments. A model knows only
//! these and the excerpts that it sees.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::error::{LIST, READ, SEARCH};
use super::list;
use super::read::{DEFAULT_CHARS, MAX_CHARS};
use super::search::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::artifacts::search::MAX_CONTEXT_LINES;

pub(crate) fn definitions() -> Vec<Tool> {
    vec![
        tool(
            READ,
            "Read an artifact",
            format!(
                "Read a tool output that was shortened in this conversation. Where an output was \
                 too long, you see an excerpt or a notice with an artifact id (art_ and 32 digits); \
                 this tool returns the original text, byte for byte, from the line or byte you \
                 name on. Use it instead of running a command again. One call returns at most \
                 max_chars characters ({DEFAULT_CHARS} by default); the last line tells how to read on. If \
                 you look for something specific, use artifact_search first: it gives line numbers \
                 to read from."
            ),
            json!({
                "id": {"type": "string", "description": "The artifact id as the excerpt shows it: art_ and 32 hexadecimal digits."},
                "from_line": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1. Leave out to read from the start."},
                "lines": {"type": "integer", "minimum": 1, "description": "How many lines to read at most. Leave out to read as much as fits."},
                "from_byte": {"type": "integer", "minimum": 0, "description": "Instead of from_line: first byte to read, counted from 0. For files with very long lines."},
                "max_chars": {"type": "integer", "minimum": 1, "maximum": MAX_CHARS, "description": format!("Characters to read at most; {DEFAULT_CHARS} when left out, {MAX_CHARS} at most.")},
            }),
            &["id"],
        ),
        tool(
            SEARCH,
            "Search artifacts",
            format!(
                "Search tool outputs that were shortened in this conversation, like grep -n: \
                 returns matching lines with their line numbers, in one artifact (give its id, \
                 art_..., from the excerpt) or in all recent ones (leave id out). The search is \
                 case-sensitive; in a regex, (?i) ignores case. Then read around a match with \
                 artifact_read and from_line, or from_byte where a match names a byte. At most \
                 {DEFAULT_LIMIT} matches are shown unless limit says otherwise."
            ),
            json!({
                "query": {"type": "string", "description": "The text to look for; with regex true, a regular expression, matched line by line."},
                "id": {"type": "string", "description": "The artifact to search: art_ and 32 hexadecimal digits. Leave out to search the recent artifacts, newest first."},
                "regex": {"type": "boolean", "description": "query is a regular expression (no look-around, no back references). False when left out."},
                "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT_LINES, "description": "Lines to show before and after each match; 0 when left out."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": format!("Matches to show at most; {DEFAULT_LIMIT} when left out.")},
                "from_byte": {"type": "integer", "minimum": 0, "description": "With id: search from this byte on, to continue a search that showed not all matches."},
            }),
            &["query"],
        ),
        tool(
            LIST,
            "List artifacts",
            "List the tool outputs that were kept whole because they were shortened in a \
             conversation, newest first, with id, kind, size, time and how they begin. Use it when \
             you need an output whose artifact id you no longer see; then artifact_read or \
             artifact_search."
                .to_owned(),
            json!({
                "limit": {"type": "integer", "minimum": 1, "maximum": list::MAX_LIMIT, "description": format!("How many to list; {} when left out.", list::DEFAULT_LIMIT)},
                "session": {"type": "string", "description": "Only outputs of this session, named as artifact_list shows it."},
            }),
            &[],
        ),
    ]
}

fn tool(
    name: &'static str,
    title: &str,
    description: String,
    properties: Value,
    required: &[&str],
) -> Tool {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), false.into());
    let annotations = ToolAnnotations::with_title(title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(name, description, Arc::new(schema))
        .with_title(title)
        .with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_only_read_and_say_what_they_take() {
        let tools = definitions();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, [READ, SEARCH, LIST]);
        for tool in &tools {
            let annotations = tool.annotations.as_ref().unwrap();
            assert_eq!(annotations.read_only_hint, Some(true), "{}", tool.name);
            assert_eq!(annotations.open_world_hint, Some(false), "{}", tool.name);
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}.{name}", tool.name);
            }
            assert!(tool.description.as_ref().unwrap().contains("shortened"));
        }
    }
}
