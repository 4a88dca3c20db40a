//! What was found and read for a response, and the calls of tools of the proxy that did it. Both
//! are written with the response, those of a background response while it goes on, and deleted with
//! it. No prompt is made of them.

use std::collections::BTreeSet;

use adapters::responses::assembler::CALL_INTERRUPTED;
use rusqlite::{Connection, OptionalExtension, Row, params};
use strum::{EnumString, IntoStaticStr};
use url::Url;

use super::error::StoreError;
use super::page::{COPIES, PAGE_BYTES, StoredPage};
use super::reading::StoreRead;
use super::responses::find;
use super::{ListPage, Store};
use crate::net::memory::CountedValue;

/// The most sources of a response. Later ones are not kept.
pub const MAX_SOURCES: usize = 200;
/// The most bytes of the address of a source. One with a longer address is not kept.
const MAX_ADDRESS_BYTES: usize = 2_000;
/// The most characters that are kept of a title.
const MAX_TITLE_CHARS: usize = 500;
/// The most characters that are kept of a page.
pub const MAX_BODY_CHARS: usize = 12_000;
/// What a row takes besides its texts, in bytes, about.
const ROW_BASE: usize = 128;

/// What is known of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SourceStatus {
    /// A search has found it.
    Found,
    /// It was read.
    Read,
    /// It could not be read.
    Failed,
    /// The input of the request names it: an earlier answer has found or cited it.
    Input,
}

/// A page that was found or read for a response.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSource {
    /// The call that found it first, if it was one of this response.
    pub call_id: Option<String>,
    /// Its address.
    pub url: String,
    /// Its title; may be empty.
    pub title: String,
    /// The host of its address.
    pub domain: String,
    /// What is known of it.
    pub status: SourceStatus,
    /// Why it could not be read.
    pub error: Option<String>,
    /// How well it fits, from 0 to 1, as the search engine says.
    pub relevance: Option<f64>,
    /// Whether it fits badly.
    pub has_low_relevance: bool,
    /// At most [`MAX_BODY_CHARS`] characters of a page that was read.
    pub body: Option<String>,
    /// The characters of the whole page.
    pub chars: Option<u64>,
    /// The SHA-256 of the whole page, in hexadecimal.
    pub sha256: Option<String>,
    /// The artifact that has the whole page.
    pub artifact_id: Option<String>,
    /// What the model saw of it, if that is kept.
    pub shown: Option<String>,
}

impl NewSource {
    /// A page of which nothing but its address and title is known.
    pub fn new(status: SourceStatus, url: &str, title: &str) -> Self {
        let parsed = Url::parse(url).ok();
        let domain = parsed.as_ref().and_then(Url::host_str).unwrap_or_default();
        Self {
            call_id: None,
            url: url.to_owned(),
            title: title.chars().take(MAX_TITLE_CHARS).collect(),
            domain: domain.to_owned(),
            status,
            error: None,
            relevance: None,
            has_low_relevance: false,
            body: None,
            chars: None,
            sha256: None,
            artifact_id: None,
            shown: None,
        }
    }

    fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        ROW_BASE
            + self.url.len()
            + self.title.len()
            + length(&self.error)
            + length(&self.body)
            + length(&self.shown)
    }
}

/// What became of a call of a tool that runs in the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ToolRunStatus {
    /// It has effects, and is about to begin or goes on.
    Running,
    /// It has a result.
    Completed,
    /// It failed.
    Failed,
    /// It was not run.
    Skipped,
    /// It got the result of an equal call.
    Repeated,
}

/// What is stored of a call that ran when its answer ended, or when the process did.
const INTERRUPTED: &str = "interrupted";

/// A call of a tool that runs in the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToolRun {
    /// The round of the answer, from 1.
    pub round: u32,
    /// The call id.
    pub call_id: String,
    /// The name of the tool.
    pub name: String,
    /// What became of it.
    pub status: ToolRunStatus,
    /// When it began and ended, in milliseconds since 1970.
    pub started_ms: u64,
    /// See `started_ms`.
    pub ended_ms: u64,
    /// The bytes of its result.
    pub bytes: usize,
    /// The artifact that has what it read.
    pub artifact_id: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The search engines that were asked, as JSON.
    pub attempts: Option<String>,
}

/// What tools of the proxy have done for a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolRecord {
    /// What was found and read, once for each address.
    pub sources: Vec<NewSource>,
    /// The calls, in their order.
    pub runs: Vec<NewToolRun>,
    /// The places of the sources that are not written as they are now.
    unwritten_sources: BTreeSet<usize>,
    /// How many of the calls are written, and have ended.
    written_runs: usize,
    /// How many sources and calls an earlier process has written.
    places_before: (usize, usize),
}

/// What is to be written of a [`ToolRecord`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolChanges {
    /// Sources with their places, from 0.
    pub sources: Vec<(usize, NewSource)>,
    /// Calls with their places, from 0.
    pub runs: Vec<(usize, NewToolRun)>,
}

impl ToolChanges {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.runs.is_empty()
    }
}

impl ToolRecord {
    /// Adds a call, or the end of the last one if that runs.
    pub fn put_run(&mut self, run: NewToolRun) {
        let is_it = |last: &&mut NewToolRun| {
            last.status == ToolRunStatus::Running && last.call_id == run.call_id
        };
        match self.runs.last_mut().filter(is_it) {
            Some(last) => *last = run,
            None => self.runs.push(run),
        }
    }

    /// A record that goes on after these numbers of sources and calls, which an earlier process has
    /// written.
    pub fn after(places_before: (usize, usize)) -> Self {
        Self {
            places_before,
            ..Self::default()
        }
    }

    /// What is not written yet.
    pub fn unwritten(&self) -> ToolChanges {
        let sources = self.unwritten_sources.iter();
        let (first_source, first_run) = self.places_before;
        let sources =
            sources.filter_map(|at| Some((first_source + at, self.sources.get(*at)?.clone())));
        let runs = self.runs.iter().enumerate().skip(self.written_runs);
        ToolChanges {
            sources: sources.collect(),
            runs: runs
                .map(|(at, run)| (first_run + at, run.clone()))
                .collect(),
        }
    }

    /// What [`Self::unwritten`] has returned is written, and nothing was added meanwhile.
    pub fn mark_written(&mut self) {
        self.unwritten_sources.clear();
        let has_ended = |run: &NewToolRun| run.status != ToolRunStatus::Running;
        self.written_runs = self.runs.iter().take_while(|run| has_ended(run)).count();
    }

    /// Adds a source, or what is new of one that is there. `asked` is the address under which a
    /// page was asked for. Returns its place, unless there are too many or its address is too long.
    pub fn add(&mut self, asked: &str, source: NewSource) -> Option<usize> {
        if source.url.len() > MAX_ADDRESS_BYTES {
            return None;
        }
        let place_of = |url: &str| self.sources.iter().position(|known| known.url == url);
        let Some(at) = place_of(&source.url).or_else(|| place_of(asked)) else {
            return self.add_new(source);
        };
        let known = self.sources.get_mut(at)?;
        let is_news = match source.status {
            SourceStatus::Read | SourceStatus::Failed => true,
            SourceStatus::Found | SourceStatus::Input => false,
        };
        if is_news {
            *known = NewSource {
                call_id: known.call_id.take(),
                relevance: known.relevance,
                has_low_relevance: known.has_low_relevance,
                title: if source.title.is_empty() {
                    std::mem::take(&mut known.title)
                } else {
                    source.title
                },
                shown: known.shown.take(),
                ..source
            };
            self.unwritten_sources.insert(at);
        }
        Some(at)
    }

    /// Adds a source of a new address. Where there is no room, a page that was read takes the place
    /// of the last one that was only found.
    fn add_new(&mut self, source: NewSource) -> Option<usize> {
        if self.sources.len() < MAX_SOURCES {
            let at = self.sources.len();
            self.sources.push(source);
            self.unwritten_sources.insert(at);
            return Some(at);
        }
        let is_found = |known: &NewSource| known.status == SourceStatus::Found;
        let at = self.sources.iter().rposition(is_found);
        let at = at.filter(|_| source.status == SourceStatus::Read)?;
        *self.sources.get_mut(at)? = source;
        self.unwritten_sources.insert(at);
        Some(at)
    }

    /// Keeps what the model saw of a source, behind what it saw of it before.
    pub fn add_shown(&mut self, at: usize, text: &str) {
        if let Some(source) = self.sources.get_mut(at) {
            self.unwritten_sources.insert(at);
            match &mut source.shown {
                Some(shown) => {
                    shown.push_str("\n\n");
                    shown.push_str(text);
                }
                None => source.shown = Some(text.to_owned()),
            }
        }
    }
}

/// A source as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSource {
    /// Its number in the answer, from 1.
    pub place: u64,
    /// The source; in a list without its texts.
    pub source: NewSource,
}

/// The sources of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedSources {
    /// The sources, without their texts.
    pub sources: Vec<StoredSource>,
    /// Whether sources follow.
    pub has_more: bool,
}

impl Store {
    /// A page of the sources of a response; `None` if the owner has no such response, or it has no
    /// source with the number after which the page begins.
    pub async fn list_sources(
        &self,
        owner: &str,
        id: &str,
        page: &ListPage,
    ) -> Result<Option<CountedValue<ListedSources>>, StoreError> {
        let (id, page) = (id.to_owned(), page.clone());
        let read = move |reading: &StoreRead<'_>, owner: &str| list(reading, owner, &id, &page);
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// A source of a response with its texts; `None` if the owner has no such response, or it has
    /// no such source.
    pub async fn source(
        &self,
        owner: &str,
        id: &str,
        place: u64,
    ) -> Result<Option<CountedValue<StoredSource>>, StoreError> {
        let id = id.to_owned();
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            let Some(response) = find(reading, owner, &id)? else {
                return Ok(None);
            };
            let mut select = reading.prepare_cached(&select("= ?2", "body, shown", "ASC"))?;
            let mut rows = select.query(params![response.number, place, i64::MAX])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            let source = read_source(row)?;
            reading.reserve(source.source.bytes().saturating_mul(COPIES + 1))?;
            Ok(Some(source))
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }
}

/// The sources of response ?1 with numbers as `which` says and below ?3.
fn select(which: &str, texts: &str, order: &str) -> String {
    format!(
        "SELECT place, call_id, url, title, domain, status, error, relevance, low_relevance, chars,
                sha256, artifact_id, {texts}
         FROM sources WHERE response = ?1 AND place {which} AND place < ?3 ORDER BY place {order}"
    )
}

fn read_source(row: &Row<'_>) -> Result<StoredSource, StoreError> {
    let status: String = row.get(5)?;
    let status = status.parse();
    Ok(StoredSource {
        place: row.get(0)?,
        source: NewSource {
            call_id: row.get(1)?,
            url: row.get(2)?,
            title: row.get(3)?,
            domain: row.get(4)?,
            status: status.map_err(|_| StoreError::Damaged("a source has an unknown status"))?,
            error: row.get(6)?,
            relevance: row.get(7)?,
            has_low_relevance: row.get(8)?,
            chars: row.get(9)?,
            sha256: row.get(10)?,
            artifact_id: row.get(11)?,
            body: row.get(12)?,
            shown: row.get(13)?,
        },
    })
}

fn list(
    reading: &StoreRead<'_>,
    owner: &str,
    id: &str,
    page: &ListPage,
) -> Result<Option<ListedSources>, StoreError> {
    let Some(response) = find(reading, owner, id)? else {
        return Ok(None);
    };
    let (mut above, mut below) = (0, i64::MAX);
    if let Some(after) = &page.after {
        let after: Option<i64> = after.parse().ok();
        let mut known = reading
            .prepare_cached("SELECT place FROM sources WHERE response = ?1 AND place = ?2")?;
        let known = known.query_row(params![response.number, after], |row| row.get(0));
        let Some(known) = known.optional()? else {
            return Ok(None);
        };
        if page.newest_first {
            below = known;
        } else {
            above = known;
        }
    }
    let order = if page.newest_first { "DESC" } else { "ASC" };
    let mut select = reading.prepare_cached(&select("> ?2", "NULL, NULL", order))?;
    let mut rows = select.query(params![response.number, above, below])?;
    let mut sources = StoredPage::new(page, PAGE_BYTES);
    let mut has_more = false;
    while let Some(row) = rows.next()? {
        let is_added = sources.add(reading, |reading| {
            let source = read_source(row)?;
            let bytes = source.source.bytes();
            reading.reserve(bytes)?;
            Ok((source, bytes))
        })?;
        if !is_added {
            has_more = true;
            break;
        }
    }
    let sources = sources.entries;
    Ok(Some(ListedSources { sources, has_more }))
}

/// The bytes of all sources and calls of response ?1.
const SELECT_BYTES: &str = "SELECT
    (SELECT coalesce(sum(?2 + octet_length(url) + octet_length(title)
        + coalesce(octet_length(error), 0) + coalesce(octet_length(body), 0)
        + coalesce(octet_length(shown), 0)), 0) FROM sources WHERE response = ?1)
    + (SELECT coalesce(sum(?2 + coalesce(octet_length(attempts), 0)), 0)
        FROM tool_runs WHERE response = ?1)";

fn bytes_of(connection: &Connection, response: i64) -> Result<i64, StoreError> {
    let mut select = connection.prepare_cached(SELECT_BYTES)?;
    Ok(select.query_row(params![response, ROW_BASE], |row| row.get(0))?)
}

/// Writes what tools have done for a response, in place of what was written of the same sources and
/// calls before.
pub(super) fn put(
    connection: &Connection,
    response: i64,
    changes: &ToolChanges,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let before = bytes_of(connection, response)?;
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO sources
             (response, place, call_id, url, title, domain, status, error, relevance,
              low_relevance, body, chars, sha256, artifact_id, shown)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    for (at, source) in &changes.sources {
        let status: &str = source.status.into();
        insert.execute(params![
            response,
            at + 1,
            source.call_id,
            source.url,
            source.title,
            source.domain,
            status,
            source.error,
            source.relevance,
            source.has_low_relevance,
            source.body,
            source.chars,
            source.sha256,
            source.artifact_id,
            source.shown
        ])?;
    }
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO tool_runs
             (response, place, round, call_id, name, status, started, ended, bytes, artifact_id,
              error, attempts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    for (at, run) in &changes.runs {
        let status: &str = run.status.into();
        insert.execute(params![
            response,
            at + 1,
            run.round,
            run.call_id,
            run.name,
            status,
            run.started_ms,
            run.ended_ms,
            run.bytes,
            run.artifact_id,
            run.error,
            run.attempts
        ])?;
    }
    let after = bytes_of(connection, response)?;
    connection
        .prepare_cached("UPDATE responses SET bytes = bytes + ?2 WHERE number = ?1")?
        .execute(params![response, after - before])?;
    Ok(())
}

/// How many sources and calls are written of a response.
pub(super) fn count(connection: &Connection, response: i64) -> Result<(usize, usize), StoreError> {
    let mut count = connection.prepare_cached(
        "SELECT (SELECT count(*) FROM sources WHERE response = ?1),
                (SELECT count(*) FROM tool_runs WHERE response = ?1)",
    )?;
    Ok(count.query_row([response], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Ends the calls of a response that has ended: one that ran was cut off. `now` is in seconds since
/// 1970.
pub(super) fn interrupt_runs(
    connection: &Connection,
    response: i64,
    now: u64,
) -> Result<(), StoreError> {
    let running: &str = ToolRunStatus::Running.into();
    connection
        .prepare_cached(
            "UPDATE tool_runs SET status = ?3, error = ?4, ended = max(started, ?5)
             WHERE response = ?1 AND status = ?2",
        )?
        .execute(params![
            response,
            running,
            INTERRUPTED,
            CALL_INTERRUPTED,
            now.saturating_mul(1_000)
        ])?;
    Ok(())
}
