//! `GET /v1/artifacts/{id}`: the text or a part of it.
//!
//! A part is named by `bytes` or `lines` in the query, or by a Range header. The answer
//! is the text itself, with the properties of the artifact in headers, or JSON.
use axum::extract::RawQuery;
use http::header::{ACCEPT, ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::ArtifactId;
use super::error::ArtifactHttpError;
use crate::app::owner::RequestArtifacts;
use crate::app::query::{ByteRange, ParameterError, QueryParams, byte_range, from_to};
use crate::app::{respond_with, respond_with_json, set_header};
use crate::artifacts::OpenArtifact;
use crate::artifacts::owner::OwnerArtifacts;
use crate::store::{ArtifactEntry, ArtifactRange};
use axum::body::Body;

/// A part of an artifact as JSON.
#[derive(Serialize)]
struct ArtifactTextObject<'a> {
    #[serde(flatten)]
    artifact: ArtifactEntry,
    /// The byte of the artifact at which the text begins.
    from_byte: u64,
    /// The line of the artifact in which the text begins; the first is 1.
    from_line: u64,
    text: &'a str,
}

/// Reads an artifact, with the parameters `bytes`, `lines` and `format`.
pub(in crate::app) async fn read(
    RequestArtifacts(owned): RequestArtifacts,
    ArtifactId(id): ArtifactId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response<Body>, ArtifactHttpError> {
    let params = QueryParams::parse(query.as_deref(), &["bytes", "lines", "format"])?;
    let as_json = wants_json(&params, &headers)?;
    let (part, is_range) = match part_of_query(&params)? {
        Some(part) => (part, false),
        None => match part_of_range_header(&owned, &headers, &id).await? {
            Some(part) => (part, true),
            None => (ArtifactRange::Whole, false),
        },
    };
    if as_json {
        let piece = owned.read(&id, &part).await?;
        if is_range && piece.text.is_empty() {
            return Err(ArtifactHttpError::Range(piece.entry.bytes));
        }
        return Ok(respond_with_json(&ArtifactTextObject {
            artifact: piece.entry,
            from_byte: piece.bytes.start,
            from_line: piece.first_line,
            text: &piece.text,
        }));
    }
    let opened = owned.open(&id, &part).await?;
    if is_range && opened.bytes.is_empty() {
        return Err(ArtifactHttpError::Range(opened.entry.bytes));
    }
    Ok(text_response(
        opened,
        part == ArtifactRange::Whole,
        is_range,
    ))
}

fn part_of_query(params: &QueryParams) -> Result<Option<ArtifactRange>, ParameterError> {
    let parameter = |name: &'static str| match params.text(name) {
        None => Ok(None),
        Some(text) => match from_to(text) {
            None => Err(ParameterError::new(
                name,
                "FROM-TO, both included, or FROM-",
            )),
            found => Ok(found),
        },
    };
    match (parameter("bytes")?, parameter("lines")?) {
        (Some(_), Some(_)) => Err(ParameterError::new(
            "bytes",
            "left out where lines is given",
        )),
        (Some((from, to)), None) => Ok(Some(bytes(from, to))),
        (None, Some((0, _))) => Err(ParameterError::new("lines", "the first line is 1")),
        (None, Some((from, to))) => {
            let count = to.map_or(u64::MAX, |to| (to - from).saturating_add(1));
            Ok(Some(ArtifactRange::Lines { from, count }))
        }
        (None, None) => Ok(None),
    }
}

async fn part_of_range_header(
    owned: &OwnerArtifacts,
    headers: &HeaderMap,
    id: &str,
) -> Result<Option<ArtifactRange>, ArtifactHttpError> {
    let header = headers.get(RANGE).and_then(|value| value.to_str().ok());
    Ok(match header.and_then(byte_range) {
        None => None,
        Some(ByteRange::From(from, to)) => Some(bytes(from, to)),
        Some(ByteRange::Last(count)) => {
            let size = owned
                .read(id, &ArtifactRange::Bytes(0..0))
                .await?
                .entry
                .bytes;
            Some(ArtifactRange::Bytes(size.saturating_sub(count)..size))
        }
    })
}

/// The bytes from one to another, both included, or to the end.
fn bytes(from: u64, to: Option<u64>) -> ArtifactRange {
    ArtifactRange::Bytes(from..to.map_or(u64::MAX, |to| to.saturating_add(1)))
}

fn wants_json(params: &QueryParams, headers: &HeaderMap) -> Result<bool, ParameterError> {
    match params.text("format") {
        Some("json") => Ok(true),
        Some("text") => Ok(false),
        Some(_) => Err(ParameterError::new("format", "json or text")),
        None => {
            let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
            let accept = accept.unwrap_or_default().to_ascii_lowercase();
            Ok(accept.contains("application/json") && !accept.contains("text/"))
        }
    }
}

/// The text itself, read as the client takes it, with the properties of the artifact in headers.
fn text_response(opened: OpenArtifact, is_whole: bool, is_range: bool) -> Response<Body> {
    let (entry, bytes, first_line) = (
        opened.entry.clone(),
        opened.bytes.clone(),
        opened.first_line,
    );
    let body = Body::from_stream(opened.into_pieces());
    let mut response = respond_with("text/plain; charset=utf-8", body);
    let headers = response.headers_mut();
    let length = bytes.end.saturating_sub(bytes.start);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set_header(headers, ETAG, &format!("\"{}\"", entry.id));
    let last = bytes.end.saturating_sub(1);
    let range = format!("bytes {}-{last}/{}", bytes.start, entry.bytes);
    if is_range {
        set_header(headers, CONTENT_RANGE, &range);
    }
    let properties = [
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
    for (name, value) in properties {
        set_header(headers, HeaderName::from_static(name), &value);
    }
    if !is_whole {
        let name = HeaderName::from_static("x-artifact-range");
        set_header(headers, name, &range);
        let name = HeaderName::from_static("x-artifact-first-line");
        set_header(headers, name, &first_line.to_string());
    }
    if is_range {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}
