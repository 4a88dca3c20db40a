//! The kinds of faults, and what follows from a kind alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The kinds of faults. The names are those of logs, metrics and bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, IntoStaticStr)]
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

const INVALID: &str = "invalid_request_error";
pub(super) const SERVER_ERROR: &str = "server_error";
pub(super) const INVALID_PROMPT: &str = "invalid_prompt";

/// What follows from a kind alone: who caused the fault, whether a retry can help, the `type` and
/// the `code` of the HTTP body (the latter may be empty), and the code of a failed response.
pub(super) type Consequences = (FaultSide, Retry, &'static str, &'static str, &'static str);

impl Kind {
    pub(super) fn consequences(self) -> Consequences {
        use FaultSide::{Client, Proxy, Upstream};
        use Retry::{Never, Soon};
        let quota = "insufficient_quota";
        let (rate, overloaded) = ("rate_limit_exceeded", "server_is_overloaded");
        let (no_key, no_right) = ("authentication_error", "permission_error");
        let long = "context_length_exceeded";
        match self {
            Self::InvalidRequest => (Client, Never, INVALID, "", INVALID_PROMPT),
            Self::ModelNotFound => (Client, Never, INVALID, "model_not_found", INVALID_PROMPT),
            Self::ContextLength => (Client, Never, INVALID, long, long),
            Self::Authentication => (Upstream, Never, no_key, "invalid_api_key", INVALID_PROMPT),
            Self::Permission => (
                Upstream,
                Never,
                no_right,
                "permission_denied",
                INVALID_PROMPT,
            ),
            Self::Refused => (Upstream, Never, INVALID, "", INVALID_PROMPT),
            Self::ContentFilter => (Upstream, Never, INVALID, "content_filter", INVALID_PROMPT),
            Self::RateLimit => (Upstream, Soon, "rate_limit_error", rate, rate),
            Self::Quota => (Upstream, Never, quota, quota, quota),
            Self::Overloaded => (Upstream, Soon, SERVER_ERROR, overloaded, overloaded),
            Self::Unavailable => (Upstream, Soon, SERVER_ERROR, "upstream_error", SERVER_ERROR),
            Self::Unreachable => (
                Upstream,
                Soon,
                SERVER_ERROR,
                "upstream_unreachable",
                SERVER_ERROR,
            ),
            // A full timeout has passed; whether to wait again is up to the client.
            Self::Timeout => (
                Upstream,
                Never,
                SERVER_ERROR,
                "upstream_timeout",
                SERVER_ERROR,
            ),
            Self::TurnTimeout => (Proxy, Never, SERVER_ERROR, "turn_timeout", SERVER_ERROR),
            Self::Cut => (Upstream, Soon, SERVER_ERROR, "upstream_cut", SERVER_ERROR),
            Self::BadReply => (
                Upstream,
                Soon,
                SERVER_ERROR,
                "upstream_bad_reply",
                SERVER_ERROR,
            ),
            Self::Busy => (Client, Soon, INVALID, "conversation_locked", SERVER_ERROR),
            Self::ClientLimit => (Client, Soon, "rate_limit_error", rate, rate),
            Self::Storage => (Proxy, Soon, SERVER_ERROR, "storage_error", SERVER_ERROR),
            Self::Draining => (
                Proxy,
                Never,
                SERVER_ERROR,
                "server_shutting_down",
                SERVER_ERROR,
            ),
            Self::Internal => (Proxy, Never, SERVER_ERROR, "internal_error", SERVER_ERROR),
        }
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
