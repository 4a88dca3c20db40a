//! Why a WebSocket ends, and the code that tells the client.

use thiserror::Error;

use crate::net::websocket_frame::FrameKind;
use crate::serve::RefusalReason;

/// The code of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(
    /// The number, as in RFC 6455 and the registry of IANA.
    pub u16,
);

impl CloseCode {
    const NORMAL: Self = Self(1000);
    const PROTOCOL: Self = Self(1002);
    const UNSUPPORTED: Self = Self(1003);
    const NOT_TEXT: Self = Self(1007);
    const POLICY: Self = Self(1008);
    const TOO_LARGE: Self = Self(1009);
    const RESTART: Self = Self(1012);
    const TRY_LATER: Self = Self(1013);

    /// Whether a client may send this code.
    fn is_allowed(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// Why a connection ends. The text is the reason in the close frame, of at most 123 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SocketEnd {
    /// The client has closed it, with this code if it gave one.
    #[error("closed by the client")]
    ByClient(Option<CloseCode>),
    /// The connection is broken, or closed without a close frame.
    #[error("the connection broke")]
    Gone,
    /// The client has not answered pings.
    #[error("no answer to pings")]
    Silent,
    /// A frame is contrary to RFC 6455.
    #[error("a frame is contrary to RFC 6455")]
    Protocol,
    /// A message is binary.
    #[error("messages must be text")]
    Binary,
    /// A message is not UTF-8.
    #[error("a message is not UTF-8")]
    NotText,
    /// A message is larger than the limit.
    #[error("a message is larger than body_limit in [server]")]
    TooLarge,
    /// A message arrives too slowly.
    #[error("a message came too slowly")]
    TooSlow,
    /// There is no memory for a message now.
    #[error("the memory for requests is in use; connect again in a few seconds")]
    MemoryFull,
    /// The client sends nothing but control frames.
    #[error("too many control frames")]
    TooManyControlFrames,
    /// It has lasted as long as it may.
    #[error("the connection has lasted as long as it may")]
    Expired,
    /// The token that opened it is not valid any more.
    #[error("the token that opened the connection is not valid any more")]
    Revoked,
    /// The server shuts down.
    #[error("the server is restarting")]
    Restart,
}

impl SocketEnd {
    /// The code that the client gets; `None` if it gets no close frame.
    pub(super) fn answer(self) -> Option<CloseCode> {
        Some(match self {
            Self::Gone => return None,
            Self::ByClient(None) | Self::Expired => CloseCode::NORMAL,
            Self::ByClient(Some(code)) if code.is_allowed() => code,
            Self::ByClient(Some(_)) | Self::Protocol => CloseCode::PROTOCOL,
            Self::Binary => CloseCode::UNSUPPORTED,
            Self::NotText => CloseCode::NOT_TEXT,
            Self::TooSlow | Self::TooManyControlFrames | Self::Silent | Self::Revoked => {
                CloseCode::POLICY
            }
            Self::TooLarge => CloseCode::TOO_LARGE,
            Self::Restart => CloseCode::RESTART,
            Self::MemoryFull => CloseCode::TRY_LATER,
        })
    }

    /// The reason that the metrics of refused requests count, if it is one.
    pub fn refusal(self) -> Option<RefusalReason> {
        match self {
            Self::Protocol | Self::NotText | Self::TooManyControlFrames => {
                Some(RefusalReason::Malformed)
            }
            Self::Binary => Some(RefusalReason::ContentType),
            Self::TooLarge => Some(RefusalReason::TooLarge),
            Self::TooSlow => Some(RefusalReason::TooSlow),
            Self::MemoryFull => Some(RefusalReason::MemoryFull),
            Self::Revoked => Some(RefusalReason::Token),
            Self::ByClient(_) | Self::Gone | Self::Silent | Self::Expired | Self::Restart => None,
        }
    }

    /// Whether the client is expected to answer the close frame.
    pub(super) fn awaits_answer(self) -> bool {
        matches!(self, Self::Expired | Self::Revoked | Self::Restart)
    }
}

/// A close frame.
pub(super) fn frame(code: CloseCode, reason: &str) -> Vec<u8> {
    let mut payload = code.0.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    FrameKind::Close.with(&payload)
}

/// The code in the payload of a client's close frame; an error is contrary to RFC 6455.
pub(super) fn read(payload: &[u8]) -> Result<Option<CloseCode>, SocketEnd> {
    match payload {
        [] => Ok(None),
        [high, low, reason @ ..] => match std::str::from_utf8(reason) {
            Ok(_) => Ok(Some(CloseCode(u16::from_be_bytes([*high, *low])))),
            Err(_) => Err(SocketEnd::NotText),
        },
        [_] => Err(SocketEnd::Protocol),
    }
}
