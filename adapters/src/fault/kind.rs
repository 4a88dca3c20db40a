//! The kinds of faults, and what follows from a kind alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr};

/// The kinds of faults. The names are those of logs, metrics and bundles.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, IntoStaticStr, EnumCount,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// The client's request is malformed or asks for something unavailable.
    InvalidRequest,
    /// No configured provider has the model.
    ModelNotFound,
    /// The input does not fit into the model's context window.
    ContextLength,
    /// The provider rejected our API key.
    Authentication,
    /// Our API key lacks the permission.
    Permission,
    /// The provider rejected the request, and would reject it again.
    Refused,
    /// The provider's content filter blocked the request.
    ContentFilter,
    /// Too many requests or tokens in a period.
    RateLimit,
    /// The account has no credit or quota left.
    Quota,
    /// The provider has no capacity at the moment.
    Overloaded,
    /// The provider reported an internal error.
    Unavailable,
    /// No connection to the provider could be made.
    Unreachable,
    /// The provider sent nothing within the time limit.
    Timeout,
    /// The turn took longer than the configuration allows.
    TurnTimeout,
    /// The answer ended before it was complete.
    Cut,
    /// The answer does not follow the provider's protocol.
    BadReply,
    /// What the request is about is in use by another request.
    Busy,
    /// A limit of this server for its client is reached.
    ClientLimit,
    /// What is stored cannot be read or written at the moment.
    Storage,
    /// The proxy is shutting down.
    Draining,
    /// A defect in the proxy.
    Internal,
}

/// What a fault is about. Code that treats kinds alike asks for their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The request: any provider may refuse it.
    Request,
    /// The model: the provider does not have it, or its window is too small.
    Model,
    /// What our API key may do.
    Access,
    /// A rate limit of the provider.
    RateLimit,
    /// The provider does not work. Several of these in a row are an outage.
    Outage,
    /// The answer: it broke off, or makes no sense.
    Answer,
    /// This server, or a limit that it sets. No provider had a part in it.
    Server,
}

/// Who caused a fault: a label of logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum FaultSide {
    /// The client that sent the request.
    Client,
    /// This proxy.
    Proxy,
    /// The provider, or the connection to it.
    Upstream,
}

/// Whether sending the same request again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Retrying does not help.
    Never,
    /// Retrying may help; the caller chooses the pause.
    Soon,
    /// Retrying may help after this pause, which the provider asked for.
    After(Duration),
}

/// How long a provider with a fault is worth waiting for. What a prompt of a user may cost follows
/// from it, and from whether the provider has answered lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Patience {
    /// It is there, and may do better in a moment.
    #[default]
    Usual,
    /// Nobody is there. One more request shows whether that was a moment.
    OneMore,
    /// A whole time limit has passed in which nobody answered.
    NoMore,
    /// It says that it will answer as soon as it has loaded its model.
    UntilReady,
}

const INVALID: &str = "invalid_request_error";
pub(super) const SERVER_ERROR: &str = "server_error";
pub(super) const INVALID_PROMPT: &str = "invalid_prompt";

/// The class of a kind, who caused the fault, whether a retry can help, and whether the client may
/// send its request again although no retry helped.
type Nature = (FaultClass, FaultSide, Retry, bool);

/// The status of the HTTP reply, the `type` and the `code` of its body (the latter may be empty),
/// and the code of a failed response.
type ErrorCodes = (u16, &'static str, &'static str, &'static str);

impl Kind {
    #[expect(clippy::match_same_arms, reason = "a table with a row for each kind")]
    fn nature(self) -> Nature {
        use FaultClass::{Access, Answer, Model, Outage, RateLimit, Request, Server};
        use FaultSide::{Client, Proxy, Upstream};
        use Retry::{Never, Soon};
        match self {
            Self::InvalidRequest => (Request, Client, Never, false),
            Self::ModelNotFound => (Model, Client, Never, false),
            Self::ContextLength => (Model, Client, Never, false),
            Self::Authentication => (Access, Upstream, Never, false),
            Self::Permission => (Access, Upstream, Never, false),
            Self::Refused => (Request, Upstream, Never, false),
            Self::ContentFilter => (Request, Upstream, Never, false),
            Self::RateLimit => (RateLimit, Upstream, Soon, false),
            Self::Quota => (Access, Upstream, Never, false),
            Self::Overloaded => (Outage, Upstream, Soon, false),
            Self::Unavailable => (Outage, Upstream, Soon, false),
            Self::Unreachable => (Outage, Upstream, Soon, false),
            // A full timeout has passed; whether to wait again is up to the client.
            Self::Timeout => (Outage, Upstream, Never, true),
            Self::TurnTimeout => (Server, Proxy, Never, true),
            Self::Cut => (Answer, Upstream, Soon, false),
            Self::BadReply => (Answer, Upstream, Soon, false),
            Self::Busy => (Server, Client, Soon, false),
            Self::ClientLimit => (Server, Client, Soon, false),
            Self::Storage => (Server, Proxy, Soon, true),
            Self::Draining => (Server, Proxy, Never, true),
            Self::Internal => (Server, Proxy, Never, false),
        }
    }

    #[expect(clippy::match_same_arms, reason = "a table with a row for each kind")]
    fn error_codes(self) -> ErrorCodes {
        let quota = "insufficient_quota";
        let (rate, overloaded) = ("rate_limit_exceeded", "server_is_overloaded");
        let (no_key, no_right) = ("authentication_error", "permission_error");
        let long = "context_length_exceeded";
        match self {
            Self::InvalidRequest => (400, INVALID, "", INVALID_PROMPT),
            Self::ModelNotFound => (404, INVALID, "model_not_found", INVALID_PROMPT),
            Self::ContextLength => (400, INVALID, long, long),
            Self::Authentication => (401, no_key, "invalid_api_key", INVALID_PROMPT),
            Self::Permission => (403, no_right, "permission_denied", INVALID_PROMPT),
            Self::Refused => (400, INVALID, "", INVALID_PROMPT),
            Self::ContentFilter => (400, INVALID, "content_filter", INVALID_PROMPT),
            Self::RateLimit => (429, "rate_limit_error", rate, rate),
            Self::Quota => (429, quota, quota, quota),
            Self::Overloaded => (503, SERVER_ERROR, overloaded, overloaded),
            Self::Unavailable => (502, SERVER_ERROR, "upstream_error", SERVER_ERROR),
            Self::Unreachable => (502, SERVER_ERROR, "upstream_unreachable", SERVER_ERROR),
            Self::Timeout => (504, SERVER_ERROR, "upstream_timeout", SERVER_ERROR),
            Self::TurnTimeout => (504, SERVER_ERROR, "turn_timeout", SERVER_ERROR),
            Self::Cut => (502, SERVER_ERROR, "upstream_cut", SERVER_ERROR),
            Self::BadReply => (502, SERVER_ERROR, "upstream_bad_reply", SERVER_ERROR),
            Self::Busy => (409, INVALID, "conversation_locked", SERVER_ERROR),
            Self::ClientLimit => (429, "rate_limit_error", rate, rate),
            Self::Storage => (503, SERVER_ERROR, "storage_error", SERVER_ERROR),
            Self::Draining => (503, SERVER_ERROR, "server_shutting_down", SERVER_ERROR),
            Self::Internal => (500, SERVER_ERROR, "internal_error", SERVER_ERROR),
        }
    }

    /// What the fault is about.
    pub fn class(self) -> FaultClass {
        self.nature().0
    }

    pub(super) fn side(self) -> FaultSide {
        self.nature().1
    }

    /// Whether a retry can help, unless the fault says otherwise.
    pub(super) fn retry(self) -> Retry {
        self.nature().2
    }

    /// Whether the client may send its request again although no retry helped.
    pub(super) fn may_be_repeated(self) -> bool {
        self.nature().3
    }

    /// Whether a limit in a period is reached, the provider's or ours.
    pub(super) fn is_limit(self) -> bool {
        matches!(self, Self::RateLimit | Self::ClientLimit)
    }

    /// The usual status of the HTTP reply.
    pub(super) fn status(self) -> u16 {
        self.error_codes().0
    }

    pub(super) fn error_type(self) -> &'static str {
        self.error_codes().1
    }

    /// The `code` of the HTTP body, if it has one.
    pub(super) fn code(self) -> Option<&'static str> {
        Some(self.error_codes().2).filter(|code| !code.is_empty())
    }

    /// The usual code of a failed response.
    pub(super) fn response_code(self) -> &'static str {
        self.error_codes().3
    }

    /// The name in logs, metrics and bundles.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FaultSide {
    /// The name in logs, metrics and bundles.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
