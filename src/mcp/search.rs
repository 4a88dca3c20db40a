//! The tool that searches one artifact or the most recent ones.

use std::fmt::Write;

use serde::Deserialize;

use super::error::ToolCallError;
use super::read::header_line;
use crate::artifacts::owner::{OwnerArtifacts, ReadError, within_search_timeout};
use crate::artifacts::search::{FoundLines, SearchLimits, SearchQuery, format_lines};
use crate::store::{ArtifactEntry, ArtifactFilter};

/// Matches shown when the call does not say.
pub(super) const DEFAULT_LIMIT: usize = 30;
/// Largest number of matches shown.
pub(super) const MAX_LIMIT: usize = 200;

/// Bytes of all lines that are shown, line numbers not included.
const MAX_BYTES: usize = 16_000;
/// Characters of the query that the first line repeats.
const QUERY_CHARS: usize = 80;

/// How many artifacts are searched when the call names none.
const MAX_RECENT: usize = 50;
/// How many bytes of them are searched.
const MAX_RECENT_BYTES: u64 = 128 << 20;
/// Matches shown of each of them.
const MAX_OF_EACH: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    query: String,
    id: Option<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    from_byte: Option<u64>,
}

/// Searches. The result is a line that describes it and the matches as grep prints them.
pub(super) async fn search(
    owned: &OwnerArtifacts,
    arguments: SearchArguments,
) -> Result<String, ToolCallError> {
    let mut query = SearchQuery::new(&arguments.query, arguments.regex, false)?;
    query.context = arguments.context;
    query.limits = SearchLimits {
        matches: arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        bytes: MAX_BYTES,
    };
    let Some(id) = &arguments.id else {
        if arguments.from_byte.is_some() {
            let why = "from_byte needs an id";
            return Err(ToolCallError::Arguments(why.to_owned()));
        }
        let searches = search_recent(owned, &arguments.query, query);
        return within_search_timeout(searches).await;
    };
    query.from_byte = arguments.from_byte.unwrap_or(0);
    let (entry, found) = owned.search(id, &query).await?;
    let mut out = section(&entry, &arguments.query, &found);
    if let Some(next) = found.next_byte {
        let _ = write!(
            out,
            "[Shown: {} of {} matches. Search on with from_byte {next}, or for less.]",
            found.shown, found.matches
        );
    }
    Ok(out)
}

/// The matches in one artifact below a line that names it.
fn section(entry: &ArtifactEntry, query: &str, found: &FoundLines) -> String {
    let matches = match found.matches {
        1 => "1 match".to_owned(),
        count => format!("{count} matches"),
    };
    let mut out = header_line(&entry.id, &format!("search {}: {matches}", quoted(query)));
    out.push_str(&format_lines(&found.lines));
    if let Some(limit) = found.match_limit {
        let _ = writeln!(
            out,
            "[A line is so long that only matches of up to {limit} bytes are sure to be found in it.]"
        );
    }
    out
}

/// The beginning of the query as JSON, which is one line.
fn quoted(query: &str) -> String {
    let short: String = query.chars().take(QUERY_CHARS).collect();
    let more = if short.len() < query.len() { "..." } else { "" };
    // A string always serializes.
    serde_json::to_string(&(short + more)).unwrap_or_default()
}

async fn search_recent(
    owned: &OwnerArtifacts,
    text: &str,
    mut query: SearchQuery,
) -> Result<String, ToolCallError> {
    let filter = ArtifactFilter {
        limit: MAX_RECENT + 1,
        ..ArtifactFilter::default()
    };
    let entries = owned.list(&filter).await?;
    let total = query.limits;
    let (mut out, mut others) = (String::new(), String::new());
    let (mut searched, mut bytes, mut shown, mut hidden) = (0_usize, 0, 0_usize, false);
    for entry in entries.iter().take(MAX_RECENT) {
        bytes += entry.bytes;
        if bytes > MAX_RECENT_BYTES {
            break;
        }
        query.limits = SearchLimits {
            matches: total.matches.saturating_sub(shown).clamp(1, MAX_OF_EACH),
            bytes: total.bytes.saturating_sub(out.len()),
        };
        let (entry, found) = match owned.search(&entry.id, &query).await {
            Ok(found) => found,
            // It was deleted after the list was made.
            Err(ReadError::Missing { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        searched += 1;
        if found.matches == 0 {
            continue;
        }
        if shown >= total.matches || out.len() >= total.bytes {
            others.push_str(&section(
                &entry,
                text,
                &FoundLines {
                    lines: Vec::new(),
                    ..found
                },
            ));
            continue;
        }
        shown += usize::try_from(found.shown).unwrap_or(usize::MAX);
        hidden |= found.next_byte.is_some();
        out.push_str(&section(&entry, text, &found));
    }
    if out.is_empty() {
        out = format!("[no artifact has {}]\n", quoted(text));
    }
    out.push_str(&others);
    if hidden || !others.is_empty() {
        out.push_str(
            "[Not all matches are shown: search one artifact by its id for the others.]\n",
        );
    }
    let more = if entries.len() > searched {
        ", there are older ones"
    } else {
        ""
    };
    let _ = write!(out, "[Searched: the newest {searched} artifacts{more}.]");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use adapters::plan::output;
    use serde_json::{Value, json};

    use super::*;
    use crate::artifacts::owner::owner_with_texts;
    use crate::mcp::call::call_tool;

    async fn search(owned: &OwnerArtifacts, arguments: Value) -> String {
        let result = call_tool(owned, "artifact_search", arguments).await;
        let text = result.unwrap();
        assert!(text.len() < 40_000, "{} bytes", text.len());
        text
    }

    #[tokio::test]
    async fn matches_are_listed_below_their_artifact() {
        let (owned, ids) = owner_with_texts(&["one\ntwo\nthree two\n", "nothing"]).await;
        let text = search(&owned, json!({"id": ids[0], "query": "two"})).await;
        let line = format!("[artifact {} search \"two\": 2 matches]\n", ids[0]);
        assert_eq!(text, format!("{line}2: two\n3: three two\n"));
        assert!(output::is_read_back(&text));
        let regex = json!({"id": ids[0], "query": "^(?i)ONE", "regex": true, "context": 1});
        let text = search(&owned, regex).await;
        assert!(text.ends_with(": 1 match]\n1: one\n2- two\n"), "{text}");
        let none = search(&owned, json!({"id": ids[1], "query": "two\n"})).await;
        assert_eq!(
            none,
            format!("[artifact {} search \"two\\n\": 0 matches]\n", ids[1])
        );
    }

    #[tokio::test]
    async fn a_search_can_be_continued() {
        let lines_of_hits: String = "hit x\n".repeat(500);
        let (owned, ids) = owner_with_texts(&[&lines_of_hits]).await;
        let mut arguments = json!({"id": ids[0], "query": "hit", "limit": 150});
        let mut lines = 0;
        loop {
            let text = search(&owned, arguments.clone()).await;
            lines += text.lines().filter(|line| line.contains(": hit ")).count();
            let Some((_, next)) = text.split_once("Search on with from_byte ") else {
                break;
            };
            let next: u64 = next.split_once(',').unwrap().0.parse().unwrap();
            arguments["from_byte"] = next.into();
        }
        assert_eq!(lines, 500);
    }

    #[tokio::test]
    async fn all_recent_artifacts_are_searched_newest_first() {
        let many: String = "needle x\n".repeat(100);
        let (owned, ids) = owner_with_texts(&["a needle", "hay", &many]).await;
        let text = search(&owned, json!({"query": "needle"})).await;
        assert!(output::is_read_back(&text), "{text}");
        let newest = text.find(&*ids[2]).unwrap();
        assert!(newest < text.find(&*ids[0]).unwrap());
        assert!(!text.contains(&*ids[1]));
        assert!(
            text.contains("search \"needle\": 100 matches]\n1: needle x\n"),
            "{text}"
        );
        assert!(text.contains("1: a needle\n"), "{text}");
        assert!(
            text.ends_with("[Searched: the newest 3 artifacts.]"),
            "{text}"
        );
        let few = search(&owned, json!({"query": "needle", "limit": 5})).await;
        assert!(
            few.contains(&format!("{} search \"needle\": 1 match]\n[Not all", ids[0])),
            "{few}"
        );
        let none = search(&owned, json!({"query": "absent"})).await;
        assert!(none.starts_with("[no artifact has \"absent\"]\n"), "{none}");
    }
}
