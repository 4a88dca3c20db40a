//! Reads a request body whole, within limits of size and speed.
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::decode::Decoding;
use super::error::{close, invalid_request};
use super::{Body, Reason};
use crate::net::blocking::block_in_place_if_large;

/// Limits on the body of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most bytes, on the wire and decoded.
    pub max: usize,
    /// Longest silence between two pieces.
    pub idle: Duration,
    /// Time in which no minimum rate is asked for.
    pub grace: Duration,
    /// Bytes a second that must come on average after the grace.
    pub min_rate: u32,
}

impl Default for BodyLimits {
    /// 64 MiB, 30 s of silence, 1 KiB a second after 30 s.
    fn default() -> Self {
        Self {
            max: 64 << 20,
            idle: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            min_rate: 1024,
        }
    }
}

/// Why a body was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BodyFault {
    /// Over the limit, as announced, sent or decoded.
    #[error("the request body is too large")]
    TooLarge,
    /// Stopped, or came slower than the least rate.
    #[error("the request body came too slowly")]
    TooSlow,
    /// A content coding that is not spoken here, or several.
    #[error("the content encoding is not supported; use gzip, deflate, zstd or none")]
    Coding,
    /// Cut off, or not what its framing or coding says.
    #[error("the request body is incomplete or does not match its encoding")]
    Broken,
    /// Not UTF-8.
    #[error("the request body is not UTF-8")]
    NotText,
}

impl BodyFault {
    /// The refusal. The connection is closed after it, since the rest of the body
    /// is not read.
    pub fn respond(self) -> Response<Body> {
        let (status, code) = match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::Coding => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_encoding",
            ),
            Self::Broken => (StatusCode::BAD_REQUEST, "invalid_body"),
            Self::NotText => (StatusCode::BAD_REQUEST, "invalid_utf8"),
        };
        close(invalid_request(status, code, &self.to_string()))
    }

    /// The label in the metrics.
    pub fn reason(self) -> Reason {
        match self {
            Self::TooLarge => Reason::TooLarge,
            Self::TooSlow => Reason::TooSlow,
            Self::Coding => Reason::ContentType,
            Self::Broken | Self::NotText => Reason::Malformed,
        }
    }
}

/// Reads and decodes a body. Peak memory is the decoded size, at most
/// [`BodyLimits::max`], plus one coding window (8 MiB).
pub async fn read<B>(limits: &BodyLimits, head: &Parts, body: B) -> Result<String, BodyFault>
where
    B: HttpBody<Data = Bytes>,
{
    let announced = body.size_hint().exact().map(usize::try_from);
    let expected = match announced {
        None => 0,
        Some(Ok(length)) if length <= limits.max => length,
        Some(_) => return Err(BodyFault::TooLarge),
    };
    let mut decoding = Decoding::new(&head.headers, limits.max, expected)?;
    let start = Instant::now();
    let mut received: usize = 0;
    let mut body = std::pin::pin!(body);
    while let Some(frame) = timeout_at(deadline(limits, start, received), body.frame())
        .await
        .map_err(|_| BodyFault::TooSlow)?
    {
        // Trailers carry nothing that is wanted here.
        let Ok(data) = frame.map_err(|_| BodyFault::Broken)?.into_data() else {
            continue;
        };
        received = received.saturating_add(data.len());
        if received > limits.max {
            return Err(BodyFault::TooLarge);
        }
        decoding.push(&data)?;
    }
    let body = decoding.finish()?;
    block_in_place_if_large(body.len(), || String::from_utf8(body)).map_err(|_| BodyFault::NotText)
}

/// When the next piece must be there: before the silence is too long, and before
/// what was received so far falls under the least rate.
fn deadline(limits: &BodyLimits, start: Instant, received: usize) -> Instant {
    let earned = received as u64 / u64::from(limits.min_rate.max(1));
    let by_rate = start + limits.grace + Duration::from_secs(earned);
    by_rate.min(Instant::now() + limits.idle)
}
