//! Responses and conversations of an owner in a file of JSON lines.
//!
//! The first line names the format. Then come the threads, each behind its parent, with their
//! items; then the responses and conversations in them. Background jobs that have not ended are
//! left out, and so are deliveries to webhooks, because the other store has webhooks of its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use adapters::responses::request::is_resource_id;
use rusqlite::{Connection, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::StoreError;
use super::inspection::{StoreReading, create_private};
use super::reading::StoreRead;
use super::threads::{self, NewItem};
use super::{contents, responses};
use crate::clock::MAX_DATE_MS;

/// The version of the format.
const FORMAT: u32 = 1;

/// The statuses of a response.
const STATUSES: [&str; 6] = [
    "completed",
    "incomplete",
    "failed",
    "cancelled",
    "in_progress",
    "queued",
];

/// Why responses cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The database cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// A line of the file is not what an export writes; nothing of the file was imported.
    #[error("line {0} is not of an export: {1}")]
    Line(usize, String),
}

impl From<rusqlite::Error> for TransferError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What was exported or imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Responses.
    pub responses: u64,
    /// Conversations.
    pub conversations: u64,
    /// Responses and conversations whose ids existed.
    pub skipped: u64,
}

/// A line of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ExportedLine {
    Export {
        format: u32,
    },
    Thread {
        number: i64,
        session: String,
        parent: Option<i64>,
        begins: i64,
        ends: i64,
    },
    Item {
        position: i64,
        id: String,
        json: String,
    },
    Response(ExportedResponse),
    Conversation {
        id: String,
        thread: i64,
        metadata: String,
        created: u64,
    },
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ExportedResponse {
    id: String,
    thread: Option<i64>,
    input: i64,
    output: i64,
    ends: i64,
    status: String,
    background: bool,
    head: String,
    tail: String,
    parameters: String,
    prefix: i64,
    created: u64,
    accessed: u64,
}

impl StoreReading {
    /// Writes the responses and conversations of an owner into a new file, which its owner alone
    /// can read. Blocks.
    pub fn export(&mut self, owner: &str, file: &Path) -> Result<ImportCounts, TransferError> {
        let mut out = BufWriter::new(create_private(file)?);
        let exported = export(self.connection(), owner, &mut out);
        let exported = exported.and_then(|counts| {
            out.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all()?;
            Ok(counts)
        });
        if exported.is_err() {
            // A part of an export is of no use.
            std::fs::remove_file(file).ok();
        }
        exported
    }
}

fn export(
    connection: &mut Connection,
    owner: &str,
    out: &mut impl Write,
) -> Result<ImportCounts, TransferError> {
    let snapshot = connection.transaction()?;
    let mut counts = ImportCounts::default();
    let mut write = |line: &ExportedLine| -> io::Result<()> {
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")
    };
    write(&ExportedLine::Export { format: FORMAT })?;
    // A parent has a smaller number.
    let mut select = snapshot.prepare(
        "SELECT number, session, parent, begins, ends FROM threads WHERE owner = ?1 ORDER BY number",
    )?;
    let mut rows = select.query([owner])?;
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        write(&ExportedLine::Thread {
            number,
            session: row.get(1)?,
            parent: row.get(2)?,
            begins: row.get(3)?,
            ends: row.get(4)?,
        })?;
        threads::each_item(
            &StoreRead::without_budget(&snapshot),
            number,
            |position, item| {
                Ok::<(), TransferError>(write(&ExportedLine::Item {
                    position,
                    id: item.id,
                    json: item.json,
                })?)
            },
        )?;
    }
    let mut select = snapshot.prepare(
        "SELECT id, thread, input, output, ends, status, background, head, tail, parameters, prefix,
                created, accessed
         FROM responses WHERE owner = ?1
             AND NOT EXISTS (SELECT 1 FROM jobs WHERE response = number AND state <> 'ended')
         ORDER BY number",
    )?;
    let mut rows = select.query([owner])?;
    while let Some(row) = rows.next()? {
        let parameters = contents::read(&StoreRead::without_budget(&snapshot), row.get(9)?)?;
        write(&ExportedLine::Response(ExportedResponse {
            id: row.get(0)?,
            thread: row.get(1)?,
            input: row.get(2)?,
            output: row.get(3)?,
            ends: row.get(4)?,
            status: row.get(5)?,
            background: row.get(6)?,
            head: row.get(7)?,
            tail: row.get(8)?,
            parameters,
            prefix: row.get(10)?,
            created: row.get(11)?,
            accessed: row.get(12)?,
        }))?;
        counts.responses += 1;
    }
    let mut select = snapshot.prepare(
        "SELECT id, thread, metadata, created FROM conversations WHERE owner = ?1 ORDER BY number",
    )?;
    let mut rows = select.query([owner])?;
    while let Some(row) = rows.next()? {
        write(&ExportedLine::Conversation {
            id: row.get(0)?,
            thread: row.get(1)?,
            metadata: row.get(2)?,
            created: row.get(3)?,
        })?;
        counts.conversations += 1;
    }
    Ok(counts)
}

/// Imports a file, all of it or nothing.
pub(super) fn import(
    connection: &mut Connection,
    owner: &str,
    file: &Path,
) -> Result<ImportCounts, TransferError> {
    let lines = BufReader::new(File::open(file)?).lines();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut import = StoreImport {
        connection: &transaction,
        owner,
        threads: HashMap::new(),
        newest: None,
        conversations: HashSet::new(),
        counts: ImportCounts::default(),
    };
    let mut is_first = true;
    for (line, number) in lines.zip(1..) {
        let line = serde_json::from_str(&line?);
        let line = line.map_err(|error| TransferError::Line(number, error.to_string()))?;
        let is_header = matches!(&line, ExportedLine::Export { format: FORMAT });
        if is_header != is_first {
            let why = "it has another format".to_owned();
            return Err(TransferError::Line(number, why));
        }
        is_first = false;
        import.line(line).map_err(|error| error.at(number))?;
    }
    if is_first {
        return Err(TransferError::Line(1, "the file is empty".to_owned()));
    }
    let counts = import.end()?;
    transaction.commit()?;
    Ok(counts)
}

impl TransferError {
    /// The error with the line at which it occurred.
    fn at(self, line: usize) -> Self {
        match self {
            Self::Line(_, why) => Self::Line(line, why),
            other => other,
        }
    }
}

/// An import that goes on.
struct StoreImport<'c> {
    connection: &'c Connection,
    owner: &'c str,
    /// The threads: the number in the file, and the one here.
    threads: HashMap<i64, i64>,
    /// The thread to which the items belong that come next, here.
    newest: Option<i64>,
    /// The threads of conversations, here.
    conversations: HashSet<i64>,
    counts: ImportCounts,
}

impl StoreImport<'_> {
    fn line(&mut self, line: ExportedLine) -> Result<(), TransferError> {
        match line {
            ExportedLine::Export { .. } => {}
            ExportedLine::Thread {
                number,
                session,
                parent,
                begins,
                ends,
            } => {
                let parent = parent.map(|parent| self.thread(parent)).transpose()?;
                let span = begins..ends;
                let within = match parent {
                    Some(parent) => threads::span(self.connection, parent)?,
                    None => 0..0,
                };
                if begins < within.start || begins > within.end {
                    return Err(wrong("it begins outside its parent"));
                }
                if ends < begins || ends > threads::MAX_POSITION {
                    return Err(wrong("its positions are in no order"));
                }
                let thread = threads::import(self.connection, self.owner, &session, parent, span)?;
                if self.threads.insert(number, thread).is_some() {
                    return Err(wrong("its number is that of another thread"));
                }
                self.newest = Some(thread);
            }
            ExportedLine::Item { position, id, json } => {
                let thread = self.newest.ok_or_else(|| wrong("it is in no thread"))?;
                if !is_object(&json) {
                    return Err(wrong("the item is no JSON object"));
                }
                let item = NewItem { id, json };
                if !threads::import_item(self.connection, thread, position, &item)? {
                    return Err(wrong("its position is not in its thread, or taken"));
                }
            }
            ExportedLine::Response(response) => self.response(&response)?,
            ExportedLine::Conversation {
                id,
                thread,
                metadata,
                created,
            } => {
                if serde_json::from_str::<BTreeMap<String, String>>(&metadata).is_err() {
                    return Err(wrong("its metadata is no JSON object of strings"));
                }
                if !is_resource_id(&id, "conv_") {
                    return Err(wrong("its id is not that of a conversation"));
                }
                check_time(created)?;
                let thread = self.thread(thread)?;
                if !self.conversations.insert(thread) {
                    return Err(wrong("its thread is that of another conversation"));
                }
                let mut insert = self.connection.prepare_cached(
                    "INSERT INTO conversations (id, owner, thread, metadata, created)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO NOTHING",
                )?;
                let inserted =
                    insert.execute(params![id, self.owner, thread, metadata, created])?;
                if inserted > 0 {
                    self.counts.conversations += 1;
                } else {
                    self.counts.skipped += 1;
                }
            }
        }
        Ok(())
    }

    fn response(&mut self, response: &ExportedResponse) -> Result<(), TransferError> {
        let positions = [0, response.input, response.output, response.ends];
        if !positions.is_sorted() || response.thread.is_none() {
            return Err(wrong("its items are in no order"));
        }
        check_response(response)?;
        let thread = response
            .thread
            .map(|thread| self.thread(thread))
            .transpose()?;
        if let Some(thread) = thread
            && threads::end(self.connection, thread)?.position < response.ends
        {
            return Err(wrong("its items are not in its thread"));
        }
        let mut known = self
            .connection
            .prepare_cached("SELECT 1 FROM responses WHERE id = ?1")?;
        if known.exists([&response.id])? {
            self.counts.skipped += 1;
            return Ok(());
        }
        let parameters = contents::put(self.connection, &response.parameters)?;
        let bytes = responses::text_bytes(&response.head, &response.tail);
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO responses (id, owner, thread, input, output, ends, status, background, head,
                                    tail, parameters, prefix, bytes, created, accessed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?;
        insert.execute(params![
            response.id,
            self.owner,
            thread,
            response.input,
            response.output,
            response.ends,
            response.status,
            response.background,
            response.head,
            response.tail,
            parameters,
            response.prefix,
            bytes,
            response.created,
            response.accessed
        ])?;
        self.counts.responses += 1;
        Ok(())
    }

    fn thread(&self, number: i64) -> Result<i64, TransferError> {
        let known = self.threads.get(&number).copied();
        known.ok_or_else(|| wrong("its thread is missing"))
    }

    /// Deletes the threads and items that nothing refers to, because what had them existed here.
    fn end(self) -> Result<ImportCounts, TransferError> {
        let mut threads: Vec<i64> = self.threads.into_values().collect();
        // Those that part from others come before them.
        threads.sort_unstable_by(|one, other| other.cmp(one));
        for thread in threads {
            threads::trim(self.connection, thread)?;
        }
        Ok(self.counts)
    }
}

/// Whether a text is a JSON object.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Checks what a response says of itself. Its pieces must be one JSON object with the items in its
/// output.
fn check_response(response: &ExportedResponse) -> Result<(), TransferError> {
    if !is_resource_id(&response.id, "resp_") {
        return Err(wrong("its id is not that of a response"));
    }
    if !STATUSES.contains(&&*response.status) {
        return Err(wrong("its status is unknown"));
    }
    check_time(response.created)?;
    check_time(response.accessed)?;
    let (head, tail, parameters) = (&response.head, &response.tail, &response.parameters);
    let item = serde_json::json!({"type": "message"});
    let rest = responses::joined(tail, parameters);
    let whole: Option<Value> = serde_json::from_str(&format!("{head}{item},{item}{rest}")).ok();
    let output = whole.as_ref().and_then(|whole| whole.get("output"));
    let is_whole = output == Some(&Value::from(vec![item.clone(), item]));
    if !is_whole || tail.split('\n').count() != parameters.split('\n').count() {
        return Err(wrong("its pieces are no response"));
    }
    Ok(())
}

fn check_time(seconds: u64) -> Result<(), TransferError> {
    if seconds > MAX_DATE_MS / 1000 {
        return Err(wrong("its time is later than the year 9999"));
    }
    Ok(())
}

/// An error of a line whose number is not known yet.
fn wrong(why: &str) -> TransferError {
    TransferError::Line(0, why.to_owned())
}
