//! An index of tools, ranked with BM25 by the full-text search of SQLite, in memory.

use adapters::tools::DeferredTool;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::lexicon::Lexicon;
use super::patterns::pattern_words;
use super::words::{search_words, words};

/// The columns, each with the weight of a word in it. What a tool is called says more than what is
/// said of it; a word of the same meaning says less than the word itself.
const COLUMNS: [(&str, f64); 6] = [
    ("name", 8.0),
    ("source", 2.0),
    ("description", 2.5),
    ("parameters", 0.5),
    ("name_meanings", 5.0),
    ("other_meanings", 1.2),
];
/// The most words of a query that count.
const MAX_QUERY_WORDS: usize = 200;
/// The most bytes of the description and of the parameters of a tool that are read.
const MAX_TEXT: usize = 8_000;
/// The deepest schema inside a schema that is read.
const MAX_DEPTH: usize = 8;

/// The tools of a turn, by their words.
pub(super) struct ToolIndex {
    database: Connection,
    /// The names under which a tool can be asked for exactly.
    names: Vec<[String; 2]>,
}

impl ToolIndex {
    /// Indexes these tools. An error is one of SQLite, such as that there is no memory.
    pub(super) fn new(tools: &[DeferredTool]) -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        let columns = COLUMNS.map(|(name, _)| name).join(", ");
        database.execute_batch(&format!(
            "CREATE VIRTUAL TABLE tools USING fts5({columns}, tokenize = 'porter unicode61 remove_diacritics 2')"
        ))?;
        let mut insert = database.prepare("INSERT INTO tools VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let meanings = |text: &str| Lexicon::get().meanings(&words(text), text);
        for tool in tools {
            let source = tool.source.as_deref().unwrap_or_default();
            let source_text = format!("{source} {}", tool.source_description);
            let description = beginning(&tool.description);
            let parameters = parameters_text(&tool.parameters);
            let parameters = beginning(&parameters);
            let others = format!("{source} {description} {parameters}");
            insert.execute(params![
                words(&tool.name).join(" "),
                words(&source_text).join(" "),
                words(description).join(" "),
                words(parameters).join(" "),
                meanings(&tool.name).join(" "),
                meanings(&others).join(" "),
            ])?;
        }
        drop(insert);
        let names = tools
            .iter()
            .map(|tool| [tool.wire_name.clone(), tool.name.clone()]);
        Ok(Self {
            names: names.collect(),
            database,
        })
    }

    /// The places of the tools that fit a query best: those that it names come first.
    pub(super) fn search(&self, query: &str, limit: usize) -> rusqlite::Result<Vec<usize>> {
        let query = beginning(query);
        let is_separator = |sign: char| sign.is_whitespace() || ",;:()[]\"'`".contains(sign);
        let asked: Vec<&str> = query.split(is_separator).collect();
        let named = self.names.iter().enumerate();
        let named = named.filter(|(_, names)| names.iter().any(|name| asked.contains(&&**name)));
        let mut found: Vec<usize> = named.map(|(place, _)| place).collect();
        found.truncate(limit);
        for place in self.ranked(query, limit)? {
            if found.len() < limit && !found.contains(&place) {
                found.push(place);
            }
        }
        Ok(found)
    }

    fn ranked(&self, query: &str, limit: usize) -> rusqlite::Result<Vec<usize>> {
        let mut terms = search_words(query);
        terms.extend(pattern_words(query).map(str::to_owned));
        terms.extend(Lexicon::get().meanings(&terms, query));
        let mut each: Vec<String> = Vec::new();
        for term in terms {
            let quoted = format!("\"{term}\"");
            if each.len() < MAX_QUERY_WORDS && !each.contains(&quoted) {
                each.push(quoted);
            }
        }
        if each.is_empty() {
            return Ok(Vec::new());
        }
        let weights = COLUMNS.map(|(_, weight)| weight.to_string()).join(", ");
        let mut select = self.database.prepare_cached(&format!(
            "SELECT rowid FROM tools WHERE tools MATCH ?1 ORDER BY bm25(tools, {weights}) LIMIT ?2"
        ))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = select.query_map(params![each.join(" OR "), limit], |row| {
            row.get::<_, i64>(0)
        })?;
        rows.map(|row| Ok(usize::try_from(row? - 1).unwrap_or(usize::MAX)))
            .collect()
    }
}

/// The names, descriptions and values of the parameters of a tool.
fn parameters_text(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let mut text = String::new();
    push_schema(&schema, &mut text, 0);
    text
}

fn push_schema(schema: &Value, text: &mut String, depth: usize) {
    if depth > MAX_DEPTH || text.len() > MAX_TEXT {
        return;
    }
    let mut push = |word: &str| {
        text.push_str(word);
        text.push(' ');
    };
    if let Some(description) = schema.get("description").and_then(Value::as_str) {
        push(description);
    }
    let values = schema.get("enum").and_then(Value::as_array);
    for value in values.into_iter().flatten().filter_map(Value::as_str) {
        push(value);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        text.push_str(name);
        text.push(' ');
        push_schema(property, text, depth + 1);
    }
    if let Some(items) = schema.get("items") {
        push_schema(items, text, depth + 1);
    }
}

fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT))
        .unwrap_or_default()
}
