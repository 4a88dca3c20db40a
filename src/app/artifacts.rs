//! `/v1/artifacts`: what was shortened, read back.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/artifacts` | a [list](List), the newest first |
//! | `GET /v1/artifacts/{id}` | the text, or a part of it |
//! | `GET /v1/artifacts/{id}/search` | [what was found](Matches) |
//! | `DELETE /v1/artifacts/{id}` | it is forgotten |
//! | `DELETE /v1/artifacts/expired` | what is too old is forgotten |

mod ask;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_RANGES, CONTENT_RANGE, ETAG, RANGE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::{Deserialize, Serialize};

use self::ask::{BadParameter, Params, Wanted, range, span};
use super::reply;
use crate::artifacts::owner::{OwnerArtifacts, ReadError, is_artifact_id};
use crate::artifacts::search::{BadQuery, CONTEXT, Found, Limits, Line, Query};
use crate::serve::Body;
use crate::serve::error::{ErrorBody, INVALID_REQUEST, SERVER_ERROR, internal, not_found};
use crate::store::{ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText};

/// The code of the answer when there is no such artifact.
pub const NOT_FOUND: &str = "artifact_not_found";
/// The code of the answer when the store cannot be read.
pub const STORE_ERROR: &str = "artifact_store_error";

/// Seconds until a request to a store that failed is worth repeating.
const AGAIN: u32 = 1;

/// What is known of an artifact, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Known {
    /// `artifact`.
    pub object: String,
    /// Its id.
    pub id: String,
    /// What it is, such as `command_output`.
    pub kind: String,
    /// Unicode scalar values.
    pub characters: u64,
    /// Lines.
    pub lines: u64,
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// The session whose tool made it.
    pub session: String,
    /// The call that it answers.
    pub call_id: String,
    /// Seconds since 1970.
    pub created_at: u64,
    /// When it was last shown or read, in seconds since 1970.
    pub last_used_at: u64,
    /// It is on disk, not only in memory.
    pub persistent: bool,
}

/// A page of artifacts, in the shape of `OpenAI`'s lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct List {
    /// `list`.
    pub object: String,
    /// The newest first.
    pub data: Vec<Known>,
    /// There are more behind the last one.
    pub has_more: bool,
    /// The id of the first.
    pub first_id: Option<String>,
    /// The id of the last, the `after` of the next page.
    pub last_id: Option<String>,
}

/// A part of an artifact as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Read {
    /// What it is a part of.
    #[serde(flatten)]
    pub artifact: Known,
    /// The byte of the whole with which the text begins.
    pub from_byte: u64,
    /// The line of the whole in which the text begins; the first is 1.
    pub from_line: u64,
    /// The text.
    pub text: String,
}

/// What was found in an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Matches {
    /// `artifact.search`.
    pub object: String,
    /// The artifact.
    pub id: String,
    /// How many matches there are from `from_byte` on.
    pub matches: u64,
    /// How many of them are in `lines`.
    pub shown: u64,
    /// There are more: they begin at `next_byte`.
    pub has_more: bool,
    /// The `from_byte` of the next page.
    pub next_byte: Option<u64>,
    /// Matching lines and their context.
    pub lines: Vec<Line>,
}

/// What a sweep forgot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Sweep {
    /// `artifact.sweep`.
    pub object: String,
    /// Artifacts.
    pub artifacts: u64,
    /// Bytes of disk that are free again.
    pub bytes: u64,
}

/// Answers a request to the artifacts.
pub async fn answer(owned: &OwnerArtifacts, head: &Parts) -> Response<Body> {
    let below = head.uri.path().strip_prefix("/v1/artifacts");
    let below = below.map(|below| below.split('/').skip(1).collect::<Vec<_>>());
    let delete = head.method == Method::DELETE;
    let done = match (below.as_deref(), delete) {
        (Some([]), false) => list(owned, head).await,
        (Some(["expired"]), true) => sweep(owned, head).await,
        (Some([id]), true) => remove(owned, head, id).await,
        (Some([id]), false) => read(owned, head, id).await,
        (Some([id, "search"]), false) => search(owned, head, id).await,
        (_, _) => return not_found(),
    };
    done.unwrap_or_else(Refused::respond)
}

/// Why there is no answer.
enum Refused {
    Parameter(BadParameter),
    Unread(ReadError),
    /// A range beyond the end of so many bytes.
    Range(u64),
}

impl Refused {
    fn respond(self) -> Response<Body> {
        let (kind, code, param, status, message) = match &self {
            Self::Parameter(bad) => (
                INVALID_REQUEST,
                "invalid_value",
                bad.name,
                StatusCode::BAD_REQUEST,
                bad.message.clone(),
            ),
            Self::Unread(unread @ (ReadError::Missing { .. } | ReadError::MalformedId)) => (
                INVALID_REQUEST,
                NOT_FOUND,
                None,
                StatusCode::NOT_FOUND,
                unread.to_string(),
            ),
            Self::Unread(unread @ ReadError::SearchTimeout) => (
                INVALID_REQUEST,
                "search_too_slow",
                Some("q"),
                StatusCode::BAD_REQUEST,
                unread.to_string(),
            ),
            Self::Unread(unread @ ReadError::Store(_)) => (
                SERVER_ERROR,
                STORE_ERROR,
                None,
                StatusCode::SERVICE_UNAVAILABLE,
                unread.to_string(),
            ),
            Self::Range(bytes) => (
                INVALID_REQUEST,
                "range_not_satisfiable",
                None,
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("The artifact has {bytes} bytes."),
            ),
        };
        let mut response = ErrorBody {
            message: &message,
            kind,
            param,
            code: Some(code),
        }
        .respond(status);
        match self {
            Self::Unread(ReadError::Store(error)) => {
                tracing::error!("artifacts cannot be read: {error}");
                let again = HeaderValue::from(AGAIN);
                response.headers_mut().insert(RETRY_AFTER, again);
            }
            Self::Range(bytes) => {
                let range = format!("bytes */{bytes}");
                put(response.headers_mut(), CONTENT_RANGE, &range);
            }
            Self::Unread(
                ReadError::Missing { .. } | ReadError::MalformedId | ReadError::SearchTimeout,
            )
            | Self::Parameter(_) => {}
        }
        response
    }
}

impl From<BadParameter> for Refused {
    fn from(bad: BadParameter) -> Self {
        Self::Parameter(bad)
    }
}

impl From<ReadError> for Refused {
    fn from(unread: ReadError) -> Self {
        Self::Unread(unread)
    }
}

async fn list(owned: &OwnerArtifacts, head: &Parts) -> Result<Response<Body>, Refused> {
    let params = params(head, &["limit", "after", "session"])?;
    let limit = params.number("limit", &(1..=100), 20)?;
    let limit = usize::try_from(limit).unwrap_or(100);
    let after = params.text("after").map(str::to_owned);
    if !after.as_deref().is_none_or(is_artifact_id) {
        return Err(BadParameter::new("after", "the id of an artifact").into());
    }
    let filter = ArtifactFilter {
        session: params.text("session").map(str::to_owned),
        // One more tells whether there are more.
        limit: limit + 1,
        after,
    };
    let mut entries = owned.list(&filter).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let data: Vec<Known> = entries.into_iter().map(Known::from).collect();
    Ok(json(&List {
        object: "list".to_owned(),
        has_more,
        first_id: data.first().map(|known| known.id.clone()),
        last_id: data.last().map(|known| known.id.clone()),
        data,
    }))
}

async fn read(owned: &OwnerArtifacts, head: &Parts, id: &str) -> Result<Response<Body>, Refused> {
    let params = params(head, &["bytes", "lines", "format"])?;
    let as_json = wants_json(&params, &head.headers)?;
    let asked = |name: &'static str| match params.text(name) {
        None => Ok(None),
        Some(text) => match span(text) {
            None => Err(BadParameter::new(name, "FROM-TO, both included, or FROM-")),
            found => Ok(found),
        },
    };
    let (part, ranged) = match (asked("bytes")?, asked("lines")?) {
        (Some(_), Some(_)) => {
            return Err(BadParameter::new("bytes", "left out where lines is given").into());
        }
        (Some((from, to)), None) => (bytes(from, to), false),
        (None, Some((0, _))) => {
            return Err(BadParameter::new("lines", "counted from 1").into());
        }
        (None, Some((from, to))) => {
            let count = to.map_or(u64::MAX, |to| (to - from).saturating_add(1));
            (ArtifactRange::Lines { from, count }, false)
        }
        (None, None) => match wanted(owned, &head.headers, id).await? {
            Some(part) => (part, true),
            None => (ArtifactRange::Whole, false),
        },
    };
    let piece = owned.read(id, &part).await?;
    if ranged && piece.text.is_empty() {
        return Err(Refused::Range(piece.entry.bytes));
    }
    if as_json {
        return Ok(json(&Read::from(piece)));
    }
    Ok(text(piece, part == ArtifactRange::Whole, ranged))
}

/// The part that the Range header asks for.
async fn wanted(
    owned: &OwnerArtifacts,
    headers: &HeaderMap,
    id: &str,
) -> Result<Option<ArtifactRange>, Refused> {
    let header = headers.get(RANGE).and_then(|value| value.to_str().ok());
    Ok(match header.and_then(range) {
        None => None,
        Some(Wanted::From(from, to)) => Some(bytes(from, to)),
        Some(Wanted::Last(count)) => {
            let size = owned
                .read(id, &ArtifactRange::Bytes(0..0))
                .await?
                .entry
                .bytes;
            Some(ArtifactRange::Bytes(size.saturating_sub(count)..size))
        }
    })
}

fn bytes(from: u64, to: Option<u64>) -> ArtifactRange {
    ArtifactRange::Bytes(from..to.map_or(u64::MAX, |to| to.saturating_add(1)))
}

async fn search(owned: &OwnerArtifacts, head: &Parts, id: &str) -> Result<Response<Body>, Refused> {
    let names = ["q", "regex", "ignore_case", "context", "limit", "from_byte"];
    let params = params(head, &names)?;
    let pattern = params.text("q").unwrap_or_default();
    let (regex, any_case) = (params.switch("regex")?, params.switch("ignore_case")?);
    let mut query = Query::new(pattern, regex, any_case).map_err(|bad| BadParameter {
        name: Some("q"),
        message: sentence(&bad),
    })?;
    let context = params.number("context", &(0..=CONTEXT as u64), 0)?;
    query.context = usize::try_from(context).unwrap_or(CONTEXT);
    query.limits = Limits {
        matches: usize::try_from(params.number("limit", &(1..=1000), 50)?).unwrap_or(1000),
        bytes: 200_000,
    };
    query.from = params.number("from_byte", &(0..=u64::MAX), 0)?;
    let (entry, found) = owned.search(id, &query).await?;
    Ok(json(&Matches::of(entry.id, found)))
}

async fn remove(owned: &OwnerArtifacts, head: &Parts, id: &str) -> Result<Response<Body>, Refused> {
    #[derive(Serialize)]
    struct Gone<'a> {
        id: &'a str,
        object: &'a str,
        deleted: bool,
    }
    params(head, &[])?;
    owned.delete(id).await?;
    Ok(json(&Gone {
        id,
        object: "artifact.deleted",
        deleted: true,
    }))
}

async fn sweep(owned: &OwnerArtifacts, head: &Parts) -> Result<Response<Body>, Refused> {
    params(head, &[])?;
    let swept = owned.sweep().await?;
    Ok(json(&Sweep {
        object: "artifact.sweep".to_owned(),
        artifacts: swept.artifacts,
        bytes: swept.bytes,
    }))
}

fn params(head: &Parts, known: &[&'static str]) -> Result<Params, BadParameter> {
    Params::of(head.uri.query().unwrap_or_default(), known)
}

/// Whether JSON is wanted rather than the text.
fn wants_json(params: &Params, headers: &HeaderMap) -> Result<bool, BadParameter> {
    match params.text("format") {
        Some("json") => Ok(true),
        Some("text") => Ok(false),
        Some(_) => Err(BadParameter::new("format", "json or text")),
        None => {
            let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
            let accept = accept.unwrap_or_default().to_ascii_lowercase();
            Ok(accept.contains("application/json") && !accept.contains("text/"))
        }
    }
}

/// The text itself. What is known of it stands in the headers.
fn text(piece: ArtifactText, whole: bool, ranged: bool) -> Response<Body> {
    let ArtifactText {
        entry,
        bytes,
        first_line,
        text,
    } = piece;
    let mut response = reply("text/plain; charset=utf-8", Bytes::from(text));
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    put(headers, ETAG, &format!("\"{}\"", entry.id));
    let last = bytes.end.saturating_sub(1);
    let place = format!("bytes {}-{last}/{}", bytes.start, entry.bytes);
    if ranged {
        put(headers, CONTENT_RANGE, &place);
    }
    let known = [
        ("x-artifact-id", entry.id),
        ("x-artifact-kind", entry.kind.name().to_owned()),
        ("x-artifact-characters", entry.chars.to_string()),
        ("x-artifact-lines", entry.lines.to_string()),
        ("x-artifact-bytes", entry.bytes.to_string()),
        ("x-artifact-session", entry.session),
        ("x-artifact-call-id", entry.call_id),
        ("x-artifact-created", entry.created.to_string()),
        ("x-artifact-persistent", entry.persistent.to_string()),
    ];
    for (name, value) in known {
        put(headers, HeaderName::from_static(name), &value);
    }
    if !whole {
        put(headers, HeaderName::from_static("x-artifact-range"), &place);
        let line = first_line.to_string();
        put(
            headers,
            HeaderName::from_static("x-artifact-first-line"),
            &line,
        );
    }
    if ranged {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

/// Sets a header. A value that no header can have, such as a call id with line
/// ends, is left out.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn json(answer: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(answer) {
        Ok(json) => reply("application/json", json),
        Err(_) => internal(),
    }
}

fn sentence(bad: &BadQuery) -> String {
    format!("q cannot be searched for: {bad}.")
}

impl From<ArtifactEntry> for Known {
    fn from(entry: ArtifactEntry) -> Self {
        Self {
            object: "artifact".to_owned(),
            id: entry.id,
            kind: entry.kind.name().to_owned(),
            characters: entry.chars,
            lines: entry.lines,
            bytes: entry.bytes,
            session: entry.session,
            call_id: entry.call_id,
            created_at: entry.created,
            last_used_at: entry.accessed,
            persistent: entry.persistent,
        }
    }
}

impl From<ArtifactText> for Read {
    fn from(piece: ArtifactText) -> Self {
        Self {
            artifact: piece.entry.into(),
            from_byte: piece.bytes.start,
            from_line: piece.first_line,
            text: piece.text,
        }
    }
}

impl Matches {
    fn of(id: String, found: Found) -> Self {
        Self {
            object: "artifact.search".to_owned(),
            id,
            matches: found.matches,
            shown: found.shown,
            has_more: found.next.is_some(),
            next_byte: found.next,
            lines: found.lines,
        }
    }
}

#[cfg(test)]
mod tests;
