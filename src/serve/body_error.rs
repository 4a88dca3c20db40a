//! The reasons for which a request body is refused.

use http::{Response, StatusCode};
use thiserror::Error;

use super::RefusalReason;
use super::error::{close, invalid_request, memory_full};
use crate::net::content_coding::CodingError;
use crate::net::memory::MemoryFull;
use axum::body::Body;

/// Why a body was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum BodyError {
    /// Larger than the limit: as announced, as sent or after decoding.
    #[error("The request body is too large")]
    TooLarge,
    /// Paused too long or arrived below the minimum rate.
    #[error("The request body came too slowly.")]
    TooSlow,
    /// An unknown content coding, or several.
    #[error("The content encoding is not supported. Use gzip, deflate, zstd or none.")]
    Coding,
    /// Incomplete, or contrary to its framing or coding.
    #[error("The request body is incomplete or does not match its encoding.")]
    Broken,
    /// Not UTF-8.
    #[error("The request body is not UTF-8.")]
    NotText,
    /// There is no memory for it now.
    #[error(transparent)]
    MemoryFull(#[from] MemoryFull),
}

impl From<CodingError> for BodyError {
    fn from(error: CodingError) -> Self {
        match error {
            CodingError::Unknown => Self::Coding,
            CodingError::Full => Self::TooLarge,
            CodingError::Broken => Self::Broken,
        }
    }
}

impl BodyError {
    /// The error response. The connection is closed after it, because the rest of the
    /// body is not read. `limit` is the largest size of a body in bytes.
    pub(super) fn respond(self, limit: usize) -> Response<Body> {
        let (status, code) = match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::Coding => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_encoding",
            ),
            Self::Broken => (StatusCode::BAD_REQUEST, "invalid_body"),
            Self::NotText => (StatusCode::BAD_REQUEST, "invalid_utf8"),
            Self::MemoryFull(full) => return close(memory_full(&full)),
        };
        let message = match self {
            Self::TooLarge => format!(
                "{self}: it has more than {}, the limit that body_limit in [server] sets.",
                size(limit)
            ),
            _ => self.to_string(),
        };
        close(invalid_request(status, code, &message))
    }

    /// The reason that the metrics count.
    pub(super) fn reason(self) -> RefusalReason {
        match self {
            Self::TooLarge => RefusalReason::TooLarge,
            Self::TooSlow => RefusalReason::TooSlow,
            Self::Coding => RefusalReason::ContentType,
            Self::Broken | Self::NotText => RefusalReason::Malformed,
            Self::MemoryFull(_) => RefusalReason::MemoryFull,
        }
    }
}

/// A size in words, in MiB if it is a whole number of them.
fn size(bytes: usize) -> String {
    const MIB: usize = 1 << 20;
    if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
    }
}
