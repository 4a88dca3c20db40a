//! Reads and decodes a whole request body, within limits of size and speed.
use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::RefusalReason;
use super::body_error::BodyError;
use crate::net::blocking::block_in_place_if_large;
use crate::net::content_coding::{CODED_PIECE, ContentCoding, ContentDecoder};
use crate::net::memory::{self, MemoryKind, MemoryShare, ProcessMemory};

/// Limits on the body of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest size in bytes, both on the wire and decoded.
    pub max: usize,
    /// Longest pause between two pieces.
    pub idle: Duration,
    /// Time before the minimum rate applies.
    pub grace: Duration,
    /// Bytes a second that must arrive on average after the grace.
    pub min_rate: u32,
    /// The budget in which the memory of bodies counts.
    pub memory: ProcessMemory,
}

impl Default for BodyLimits {
    /// 64 MiB, pauses of 30 s, 1 KiB a second after 30 s, memory without a limit.
    fn default() -> Self {
        Self {
            max: 64 << 20,
            idle: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            min_rate: 1024,
            memory: ProcessMemory::unlimited(),
        }
    }
}

/// A request whose body is complete and decoded text: an extractor for handlers.
///
/// The limits are the [`BodyLimits`] in the extensions of the request, where
/// [`Edge`](super::Edge) puts them, else the default ones.
#[derive(Debug)]
pub struct DecodedRequest {
    /// Everything but the body.
    pub head: Parts,
    /// The decoded body.
    pub body: String,
    /// The memory of the body, and of a working copy of it.
    pub memory: MemoryShare,
}

impl<S: Send + Sync> FromRequest<S> for DecodedRequest {
    /// An error response that carries a `RefusedBody` for the edge.
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let (head, body) = request.into_parts();
        let limits: BodyLimits = head.extensions.get().cloned().unwrap_or_default();
        match read(&limits, &head.headers, body).await {
            Ok((body, memory)) => Ok(Self { head, body, memory }),
            Err(error) => {
                let mut response = error.respond(limits.max);
                response.extensions_mut().insert(RefusedBody {
                    reason: error.reason(),
                    request_headers: head.headers,
                });
                Err(response)
            }
        }
    }
}

/// Tells the edge, in the extensions of a response, that a body was refused.
#[derive(Debug, Clone)]
pub(super) struct RefusedBody {
    pub(super) reason: RefusalReason,
    pub(super) request_headers: HeaderMap,
}

/// After this many decoded bytes other tasks have their turn.
const DECODED_PIECE: usize = 1 << 20;

/// How much larger a body of unknown size may be than its coded form, for its first share of
/// memory.
const USUAL_RATIO: usize = 4;

/// Reads and decodes a body. Peak memory is the decoded size, at most [`BodyLimits::max`], plus one
/// coding window (8 MiB). The share has room for [`WORKING_COPIES`] of the body as well. All of it
/// is taken before anything is read, so that bodies which wait hold nothing that others need.
async fn read<B>(
    limits: &BodyLimits,
    headers: &HeaderMap,
    body: B,
) -> Result<(String, MemoryShare), BodyError>
where
    B: HttpBody<Data = Bytes>,
{
    let announced = body.size_hint().exact().map(usize::try_from);
    let expected = match announced {
        None => None,
        Some(Ok(length)) if length <= limits.max => Some(length),
        Some(_) => return Err(BodyError::TooLarge),
    };
    let mut share = limits.memory.share(MemoryKind::Requests);
    let coding = ContentCoding::of(headers)?;
    // A few bytes of it may become more than the share has room for.
    if coding == ContentCoding::Brotli {
        return Err(BodyError::Coding);
    }
    let mut decoder = ContentDecoder::new(coding, limits.max, expected)?;
    let ratio = if decoder.is_coded() { USUAL_RATIO } else { 1 };
    let likely = expected.unwrap_or(0).saturating_mul(ratio).min(limits.max);
    share.request(memory_of(likely, likely)).await?;
    let start = Instant::now();
    let mut received: usize = 0;
    let mut body = std::pin::pin!(body);
    while let Some(frame) = timeout_at(deadline(limits, start, received), body.frame())
        .await
        .map_err(|_| BodyError::TooSlow)?
    {
        // Trailers are ignored.
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        received = received.saturating_add(data.len());
        if received > limits.max {
            return Err(BodyError::TooLarge);
        }
        let piece = if decoder.is_coded() {
            CODED_PIECE
        } else {
            data.len().max(1)
        };
        let mut unbroken = 0;
        for piece in data.chunks(piece) {
            let before = decoder.decoded();
            decoder.push(piece)?;
            share.request(decoder.memory()).await?;
            unbroken += decoder.decoded() - before;
            if unbroken > DECODED_PIECE {
                unbroken = 0;
                tokio::task::yield_now().await;
            }
        }
    }
    let body = decoder.finish()?;
    share
        .request(memory_of(body.capacity(), body.len()))
        .await?;
    let size = body.len();
    let bytes = match block_in_place_if_large(size, || String::from_utf8(body)) {
        Ok(text) => return Ok((text, share)),
        Err(error) => error.into_bytes(),
    };
    let escaped = limits.max.min(bytes.len().saturating_mul(ESCAPE_BYTES));
    let with_both = bytes.capacity() + escaped;
    share.request(memory_of(with_both, escaped)).await?;
    let text = block_in_place_if_large(size, || with_escapes(&bytes, limits.max))?;
    drop(bytes);
    share
        .request(memory_of(text.capacity(), text.len()))
        .await?;
    Ok((text, share))
}

/// How many copies are made of a body: its texts without their escapes, and the request for a
/// provider.
pub(super) const WORKING_COPIES: usize = 2;

/// The memory for a body in a buffer of this capacity and for its copies, in bytes.
fn memory_of(capacity: usize, length: usize) -> usize {
    capacity + WORKING_COPIES * length + memory::STEP
}

/// The length of the escape that takes the place of a byte.
const ESCAPE_BYTES: usize = r"\udc80".len();

/// JSON whose bytes are not all UTF-8, with the escape of half a surrogate pair for what is no
/// text: the parser of the body replaces it and says so. The halves of a pair that were encoded one
/// by one are the pair again.
fn with_escapes(bytes: &[u8], limit: usize) -> Result<String, BodyError> {
    if !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(BodyError::NotText);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(chunk) = rest.utf8_chunks().next() {
        text.push_str(chunk.valid());
        rest = rest.get(chunk.valid().len()..).unwrap_or_default();
        let (unit, length) = match *rest {
            [0xED, high @ 0xA0..=0xBF, low @ 0x80..=0xBF, ..] => {
                let bits = u32::from(high & 0x3F) << 6 | u32::from(low & 0x3F);
                (0xD000 | bits, 3)
            }
            [] => break,
            _ => (0xDC80, chunk.invalid().len()),
        };
        // Writing to a string does not fail.
        let _ = write!(text, "\\u{unit:04x}");
        rest = rest.get(length..).unwrap_or_default();
        if text.len() > limit {
            return Err(BodyError::TooLarge);
        }
    }
    Ok(text)
}

/// The latest time for the next piece: before the pause is too long, and before the
/// received bytes fall below the minimum rate.
pub(super) fn deadline(limits: &BodyLimits, start: Instant, received: usize) -> Instant {
    let earned = received as u64 / u64::from(limits.min_rate.max(1));
    let by_rate = start + limits.grace + Duration::from_secs(earned);
    by_rate.min(Instant::now() + limits.idle)
}
