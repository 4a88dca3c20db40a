//! What was found in an artifact, or in the latest ones.

use std::fmt::Write;

use serde::Deserialize;

use super::call::Unanswered;
use super::read::head;
use crate::artifacts::owner::{OwnerArtifacts, ReadError};
use crate::artifacts::search::{Found, Limits, Query, printed};
use crate::store::{ArtifactEntry, ArtifactFilter};

/// Matches that are shown when the call does not say.
pub(super) const LIMIT: usize = 30;
/// Matches that are shown at most.
pub(super) const LIMIT_MOST: usize = 200;

/// Bytes of all lines that are shown: line numbers come on top.
const BYTES: usize = 16_000;
/// Characters of a query that the first line repeats.
const NAMED: usize = 80;

/// How many artifacts are searched where none is named.
const RECENT: usize = 50;
/// And how many bytes of them.
const RECENT_BYTES: u64 = 128 << 20;
/// Matches of each that are shown then.
const EACH: usize = 10;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    query: String,
    id: Option<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    from_byte: Option<u64>,
}

/// A line that says what it is, then matches as grep prints them.
pub(super) async fn find(owned: &OwnerArtifacts, ask: Ask) -> Result<String, Unanswered> {
    let mut query = Query::new(&ask.query, ask.regex, false)?;
    query.context = ask.context;
    query.limits = Limits {
        matches: ask.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MOST),
        bytes: BYTES,
    };
    let Some(id) = &ask.id else {
        if ask.from_byte.is_some() {
            let why = "from_byte needs an id";
            return Err(Unanswered::Arguments(why.to_owned()));
        }
        return recent(owned, &ask.query, query).await;
    };
    query.from = ask.from_byte.unwrap_or(0);
    let (entry, found) = owned.search(id, &query).await?;
    let mut out = section(&entry, &ask.query, &found);
    if let Some(next) = found.next {
        let _ = write!(
            out,
            "[Shown: {} of {} matches. Search on with from_byte {next}, or for less.]",
            found.shown, found.matches
        );
    }
    Ok(out)
}

fn section(entry: &ArtifactEntry, query: &str, found: &Found) -> String {
    let matches = match found.matches {
        1 => "1 match".to_owned(),
        count => format!("{count} matches"),
    };
    let mut out = head(&entry.id, &format!("search {}: {matches}", quoted(query)));
    out.push_str(&printed(&found.lines));
    out
}

/// The query in one line.
fn quoted(query: &str) -> String {
    let short: String = query.chars().take(NAMED).collect();
    let more = if short.len() < query.len() { "..." } else { "" };
    // A string is always JSON.
    serde_json::to_string(&(short + more)).unwrap_or_default()
}

async fn recent(
    owned: &OwnerArtifacts,
    text: &str,
    mut query: Query,
) -> Result<String, Unanswered> {
    let filter = ArtifactFilter {
        limit: RECENT + 1,
        ..ArtifactFilter::default()
    };
    let entries = owned.list(&filter).await?;
    let all = query.limits;
    let (mut out, mut others) = (String::new(), String::new());
    let (mut searched, mut bytes, mut shown, mut hidden) = (0_usize, 0, 0_usize, false);
    for entry in entries.iter().take(RECENT) {
        bytes += entry.bytes;
        if bytes > RECENT_BYTES {
            break;
        }
        query.limits = Limits {
            matches: all.matches.saturating_sub(shown).clamp(1, EACH),
            bytes: all.bytes.saturating_sub(out.len()),
        };
        let (entry, found) = match owned.search(&entry.id, &query).await {
            Ok(found) => found,
            // It went since the list was made.
            Err(ReadError::Missing { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        searched += 1;
        if found.matches == 0 {
            continue;
        }
        if shown >= all.matches || out.len() >= all.bytes {
            others.push_str(&section(
                &entry,
                text,
                &Found {
                    lines: Vec::new(),
                    ..found
                },
            ));
            continue;
        }
        shown += usize::try_from(found.shown).unwrap_or(usize::MAX);
        hidden |= found.next.is_some();
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
    use crate::mcp::call::ask;

    async fn found(owned: &OwnerArtifacts, arguments: Value) -> String {
        let outcome = ask(owned, "artifact_search", arguments).await;
        assert!(!outcome.failed, "{outcome:?}");
        assert!(outcome.text.len() < 40_000, "{} bytes", outcome.text.len());
        outcome.text
    }

    // S2-Dc
    #[tokio::test]
    async fn matches_stand_below_their_artifact() {
        let (owned, ids) = owner_with_texts(&["one\ntwo\nthree two\n", "nothing"]).await;
        let said = found(&owned, json!({"id": ids[0], "query": "two"})).await;
        let line = format!("[artifact {} search \"two\": 2 matches]\n", ids[0]);
        assert_eq!(said, format!("{line}2: two\n3: three two\n"));
        assert!(output::is_read_back(&said));
        let regex = json!({"id": ids[0], "query": "^(?i)ONE", "regex": true, "context": 1});
        let said = found(&owned, regex).await;
        assert!(said.ends_with(": 1 match]\n1: one\n2- two\n"), "{said}");
        let none = found(&owned, json!({"id": ids[1], "query": "two\n"})).await;
        assert_eq!(
            none,
            format!("[artifact {} search \"two\\n\": 0 matches]\n", ids[1])
        );
    }

    #[tokio::test]
    async fn a_search_goes_on() {
        let text: String = "hit x\n".repeat(500);
        let (owned, ids) = owner_with_texts(&[&text]).await;
        let mut arguments = json!({"id": ids[0], "query": "hit", "limit": 150});
        let mut lines = 0;
        loop {
            let said = found(&owned, arguments.clone()).await;
            lines += said.lines().filter(|line| line.contains(": hit ")).count();
            let Some((_, next)) = said.split_once("Search on with from_byte ") else {
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
        let said = found(&owned, json!({"query": "needle"})).await;
        assert!(output::is_read_back(&said), "{said}");
        let newest = said.find(&*ids[2]).unwrap();
        assert!(newest < said.find(&*ids[0]).unwrap());
        assert!(!said.contains(&*ids[1]));
        assert!(
            said.contains("search \"needle\": 100 matches]\n1: needle x\n"),
            "{said}"
        );
        assert!(said.contains("1: a needle\n"), "{said}");
        assert!(
            said.ends_with("[Searched: the newest 3 artifacts.]"),
            "{said}"
        );
        let few = found(&owned, json!({"query": "needle", "limit": 5})).await;
        assert!(
            few.contains(&format!("{} search \"needle\": 1 match]\n[Not all", ids[0])),
            "{few}"
        );
        let none = found(&owned, json!({"query": "absent"})).await;
        assert!(none.starts_with("[no artifact has \"absent\"]\n"), "{none}");
    }
}
