//! Reads and decodes a whole request body, within limits of size and speed.
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
use super::content_coding::BodyDecoder;
use crate::net::blocking::block_in_place_if_large;

/// Limits on the body of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest size in bytes, both on the wire and decoded.
    pub max: usize,
    /// Longest pause between two pieces.
    pub idle: Duration,
    /// Time before the minimum rate applies.
    pub grace: Duration,
    /// Bytes a second that must arrive on average after the grace.
    pub min_rate: u32,
}

impl Default for BodyLimits {
    /// 64 MiB, pauses of 30 s, 1 KiB a second after 30 s.
    fn default() -> Self {
        Self {
            max: 64 << 20,
            idle: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            min_rate: 1024,
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
}

impl<S: Send + Sync> FromRequest<S> for DecodedRequest {
    /// An error response that carries a `RefusedBody` for the edge.
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let (head, body) = request.into_parts();
        let limits = head.extensions.get().copied().unwrap_or_default();
        match read(&limits, &head.headers, body).await {
            Ok(body) => Ok(Self { head, body }),
            Err(error) => {
                let mut response = error.respond();
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

/// Reads and decodes a body. Peak memory is the decoded size, at most
/// [`BodyLimits::max`], plus one coding window (8 MiB).
async fn read<B>(limits: &BodyLimits, headers: &HeaderMap, body: B) -> Result<String, BodyError>
where
    B: HttpBody<Data = Bytes>,
{
    let announced = body.size_hint().exact().map(usize::try_from);
    let expected = match announced {
        None => 0,
        Some(Ok(length)) if length <= limits.max => length,
        Some(_) => return Err(BodyError::TooLarge),
    };
    let mut decoder = BodyDecoder::new(headers, limits.max, expected)?;
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
        decoder.push(&data)?;
    }
    let body = decoder.finish()?;
    block_in_place_if_large(body.len(), || String::from_utf8(body)).map_err(|_| BodyError::NotText)
}

/// The latest time for the next piece: before the pause is too long, and before the
/// received bytes fall below the minimum rate.
fn deadline(limits: &BodyLimits, start: Instant, received: usize) -> Instant {
    let earned = received as u64 / u64::from(limits.min_rate.max(1));
    let by_rate = start + limits.grace + Duration::from_secs(earned);
    by_rate.min(Instant::now() + limits.idle)
}
