//! The failure of a turn or a request, and everything that follows from it.
//!
//! This module is the one table from a failure to its consequences. A [`Fault`] has
//! a [`Kind`]. From the kind follow who caused it ([`FaultSide`]), whether a retry
//! can help ([`Retry`]), the HTTP status and body before the commit point, and the
//! error inside a `response.failed` after it. Nothing else in the proxy chooses a
//! status or an error code. What follows from the kind alone is in `kind`.
//!
//! Most clients get the status that OpenAI would send. Codex retries some statuses
//! for a long time without showing their text, so it gets a status or code that it
//! handles sensibly; the `codex` parameter of the methods selects its answer.
//!
//! `message` is written for the client; `cause` goes to the log only.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::kind::{FaultClass, FaultSide, Kind, Patience, Retry};
use self::kind::{INVALID_PROMPT, SERVER_ERROR};
use crate::quirk_patch::QuirkPatch;

mod kind;

/// `Retry-After` in seconds of a rate limit for which the provider named no pause.
const DEFAULT_RATE_LIMIT_PAUSE: u64 = 5;

/// The longest pause of a rate limit that Codex is asked to wait for. It waits
/// without showing anything; for a longer pause the user has to see the reason.
const MAX_CODEX_PAUSE: Duration = Duration::from_mins(10);

/// A failed turn or request. Made where the failure is detected; the engine turns
/// it into a retry, a failover, an HTTP error or a `response.failed`. Bundles store
/// it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Deserialize, Serialize)]
#[error("{message}")]
pub struct Fault {
    /// The kind of failure.
    pub kind: Kind,
    /// Whether sending the same request again can help.
    pub retry: Retry,
    /// How long the provider is worth waiting for, if a retry can help.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub patience: Patience,
    /// The message for the client. Must not contain a secret.
    pub message: String,
    /// What is known besides. A replay finds it again.
    #[serde(skip)]
    pub detail: Option<Box<FaultDetail>>,
    /// The request parameter that caused it, such as `input[3].content`.
    pub param: Option<Cow<'static, str>>,
    /// An error code that is more specific than the one of the kind.
    pub code: Option<Box<str>>,
    /// The HTTP status of the upstream's reply, if there was one.
    pub upstream_status: Option<u16>,
    /// Details for the log.
    pub cause: Option<Box<str>>,
    /// The change of quirks that keeps the provider from refusing the request for
    /// the same reason, if the refusal was understood.
    pub patch: Option<QuirkPatch>,
    /// As many requests have failed for this prompt as may, so the client should not send it again
    /// by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
}

/// What is known of a fault besides its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultDetail {
    /// The message of a fault of an answer, without the provider: only the engine knows its name.
    /// It puts the name into the message before anyone reads it.
    Statement(Statement),
    /// What the provider wrote, if it may be about the request: its words, and what it names. Read
    /// by [`crate::experiments`].
    Refusal(String),
}

/// What a provider did wrong in an answer: a sentence whose subject is still to be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whom the sentence is about.
    pub subject: Subject,
    /// The rest of the sentence, with its full stop.
    pub predicate: Cow<'static, str>,
}

/// Whom a [`Statement`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The provider.
    Provider,
    /// The provider's answer.
    Answer,
}

impl Statement {
    /// The sentence about the provider with this id.
    pub fn naming(&self, provider: &str) -> String {
        let predicate = &self.predicate;
        match self.subject {
            Subject::Provider => format!("The provider '{provider}' {predicate}"),
            Subject::Answer => format!("The answer of the provider '{provider}' {predicate}"),
        }
    }

    /// The sentence where the provider has no name.
    fn unnamed(&self) -> String {
        let predicate = &self.predicate;
        match self.subject {
            Subject::Provider => format!("The provider {predicate}"),
            Subject::Answer => format!("The provider's answer {predicate}"),
        }
    }
}

impl Fault {
    /// A fault of this kind, with the retry decision that is the kind's default.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            retry: kind.retry(),
            patience: Patience::Usual,
            message: message.into(),
            detail: None,
            param: None,
            code: None,
            upstream_status: None,
            cause: None,
            patch: None,
            gave_up: false,
        }
    }

    /// A fault of an answer: what the provider did, such as `sent an empty event.`
    pub fn of_provider(kind: Kind, predicate: impl Into<Cow<'static, str>>) -> Self {
        Self::stating(kind, Subject::Provider, predicate.into())
    }

    /// A fault of an answer: what became of it, such as `is too long.`
    pub fn of_answer(kind: Kind, predicate: impl Into<Cow<'static, str>>) -> Self {
        Self::stating(kind, Subject::Answer, predicate.into())
    }

    fn stating(kind: Kind, subject: Subject, predicate: Cow<'static, str>) -> Self {
        let statement = Statement { subject, predicate };
        Self {
            message: statement.unnamed(),
            detail: Some(Box::new(FaultDetail::Statement(statement))),
            ..Self::new(kind, "")
        }
    }

    /// An answer has a call that names no tool.
    pub(crate) fn nameless_call() -> Self {
        Self::of_provider(Kind::BadReply, "sent a tool call without a name.")
    }

    /// The turn ended because the program has a defect: a panic was caught.
    pub fn defect() -> Self {
        let message = "Respondent ran into a defect while it answered this request.";
        Self::new(Kind::Internal, message)
    }

    /// A malformed client request; `param` names the parameter.
    pub fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..Self::new(Kind::InvalidRequest, message)
        }
    }

    /// A request lacks this parameter.
    pub fn missing(param: String) -> Self {
        let message = format!("Missing required parameter: '{param}'.");
        Self::invalid(param, message).with_code("missing_required_parameter")
    }

    /// Sets a code that replaces the one of the kind.
    #[must_use]
    pub fn with_code(self, code: impl Into<Box<str>>) -> Self {
        Self {
            code: Some(code.into()),
            ..self
        }
    }

    /// Sets the cause for the log.
    #[must_use]
    pub fn caused_by(self, cause: impl Into<String>) -> Self {
        Self {
            cause: Some(cause.into().into_boxed_str()),
            ..self
        }
    }

    /// Who caused the fault; follows from the kind alone.
    pub fn side(&self) -> FaultSide {
        self.kind.side()
    }

    /// Whether the client should not send the same request again by itself. After a
    /// timeout or the end of the process it may.
    pub fn is_final(&self) -> bool {
        let is_permanent = self.retry == Retry::Never && !self.kind.may_be_repeated();
        self.gave_up || is_permanent || (self.kind.is_limit() && self.exceeds_codex_pause())
    }

    /// The HTTP status if nothing has been sent to the client yet.
    ///
    /// Codex retries 401, 403, 413 and 422 five times, and a 500 thirty times
    /// without showing its text. Most faults reach it in a stream, see
    /// [`Self::is_reported_in_stream`]; where there is none, it gets permanent faults as
    /// 400 and a failing provider as 502.
    pub fn status(&self, codex: bool) -> u16 {
        match (self.kind, self.upstream_status) {
            (Kind::InvalidRequest, _) if self.code() == Some(CONVERSATION_NOT_FOUND) => 404,
            (Kind::Refused, Some(status @ (402..=428 | 430..=499))) if !codex => status,
            (Kind::Refused, Some(500..)) => 502,
            (Kind::Unavailable, Some(status @ 500..=599)) if !codex => status,
            (Kind::Authentication | Kind::Permission | Kind::Internal, _) if codex => 400,
            (Kind::RateLimit, _) if codex && self.exceeds_codex_pause() => 400,
            // Codex would wait for as long as a 429 says, without showing anything.
            (Kind::ClientLimit, _) if codex && self.is_final() => 400,
            (kind, _) => kind.status(),
        }
    }

    fn exceeds_codex_pause(&self) -> bool {
        matches!(self.retry, Retry::After(pause) if pause > MAX_CODEX_PAUSE)
    }

    /// Whether the fault is reported by a `response.failed` in a stream even if
    /// nothing has been sent yet. Codex shows the message of a failed stream, but the raw
    /// JSON of a 400, and nothing of a 429 or a 500. It has words of its own for a full
    /// window, and shows the message of a model that does not exist.
    pub fn is_reported_in_stream(&self, codex: bool) -> bool {
        codex && self.kind.class() != FaultClass::Model
    }

    /// The `error.type` of the HTTP body.
    pub fn error_type(&self) -> &'static str {
        self.kind.error_type()
    }

    /// The `error.code` of the HTTP body.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref().or(self.kind.code())
    }

    /// The `error.code` of a failed response object. On `invalid_prompt` Codex
    /// stops at once and shows the message; on `server_error` and
    /// `rate_limit_exceeded` it retries. For an exhausted quota and an overloaded server
    /// it has words of its own, which say less than the message.
    pub fn response_code(&self, codex: bool) -> &'static str {
        let usual = self.kind.response_code();
        // The model may answer differently next time.
        let may_differ = self.kind == Kind::Refused && self.retry != Retry::Never;
        if self.kind == Kind::ContextLength {
            usual
        } else if codex && self.is_final() {
            INVALID_PROMPT
        } else if may_differ || (codex && self.kind == Kind::Overloaded) {
            SERVER_ERROR
        } else {
            usual
        }
    }

    /// The message for the client. Codex reads the pause of a rate limit from the text, so
    /// the text names it in seconds, unless it should not wait at all.
    pub fn client_message(&self) -> Cow<'_, str> {
        match (self.kind, self.retry) {
            // Codex does not understand a pause with minutes, such as `6m0s`.
            (kind, Retry::After(pause))
                if kind.is_limit()
                    && !(kind == Kind::ClientLimit && self.is_final())
                    && (!self.message.contains("try again in") || pause.as_secs() >= 60) =>
            {
                format!(
                    "{} Please try again in {:.1}s.",
                    self.message,
                    pause.as_secs_f64()
                )
                .into()
            }
            _ => Cow::Borrowed(&self.message),
        }
    }

    /// The HTTP body: `{"error":{message,type,param,code}}`.
    pub fn body(&self) -> Vec<u8> {
        self.body_with_code(self.code())
    }

    /// The body in an error message of a WebSocket, where Open Responses requires a code: a missing
    /// code is replaced by the type.
    pub fn message_body(&self) -> Vec<u8> {
        self.body_with_code(self.code().or(Some(self.error_type())))
    }

    fn body_with_code(&self, code: Option<&str>) -> Vec<u8> {
        let error = serde_json::json!({"error": {
            "message": self.client_message(),
            "type": self.error_type(),
            "param": self.param,
            "code": code,
        }});
        error.to_string().into_bytes()
    }

    /// The `Retry-After` header of the HTTP reply in whole seconds, rounded up. A
    /// rate limit always has one, because Codex gives up on a 429 without it.
    pub fn retry_after(&self) -> Option<u64> {
        match (self.kind, self.retry) {
            (_, Retry::After(pause)) => Some(pause.as_secs() + u64::from(pause.subsec_nanos() > 0)),
            (kind, Retry::Soon) if kind.is_limit() => Some(DEFAULT_RATE_LIMIT_PAUSE),
            (Kind::Busy | Kind::Storage, Retry::Soon) => Some(1),
            (_, Retry::Never | Retry::Soon) => None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_usual(patience: &Patience) -> bool {
    *patience == Patience::Usual
}

/// The code of a request that continues a conversation which does not exist.
pub(crate) const CONVERSATION_NOT_FOUND: &str = "conversation_not_found";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_status_for_codex_and_for_others() {
        for (kind, upstream, codex, other) in [
            (Kind::InvalidRequest, None, 400, 400),
            (Kind::ModelNotFound, None, 404, 404),
            (Kind::ContextLength, None, 400, 400),
            (Kind::Authentication, Some(401), 400, 401),
            (Kind::Permission, Some(403), 400, 403),
            (Kind::Refused, Some(400), 400, 400),
            (Kind::ContentFilter, Some(403), 400, 400),
            (Kind::Refused, Some(404), 400, 404),
            (Kind::Refused, Some(413), 400, 413),
            (Kind::Refused, Some(422), 400, 422),
            (Kind::Refused, None, 400, 400),
            (Kind::RateLimit, Some(429), 429, 429),
            (Kind::Quota, Some(402), 429, 429),
            (Kind::Overloaded, Some(529), 503, 503),
            (Kind::Unavailable, Some(500), 502, 500),
            (Kind::Unavailable, None, 502, 502),
            (Kind::Unreachable, None, 502, 502),
            (Kind::Timeout, None, 504, 504),
            (Kind::TurnTimeout, None, 504, 504),
            (Kind::Cut, None, 502, 502),
            (Kind::BadReply, None, 502, 502),
            (Kind::Busy, None, 409, 409),
            (Kind::ClientLimit, None, 429, 429),
            (Kind::Storage, None, 503, 503),
            (Kind::Draining, None, 503, 503),
            (Kind::Internal, None, 400, 500),
        ] {
            let fault = Fault {
                upstream_status: upstream,
                ..Fault::new(kind, "x")
            };
            let statuses = (fault.status(true), fault.status(false));
            assert_eq!(statuses, (codex, other), "{kind:?} {upstream:?}");
        }
    }

    /// The kind in each line of a table, and the rest of the line.
    fn by_kind(table: &str) -> impl Iterator<Item = (Kind, &str)> {
        assert_eq!(table.lines().count(), 21);
        table.lines().map(|line| {
            let (name, answers) = line.split_once(' ').unwrap();
            (serde_json::from_value(name.into()).unwrap(), answers)
        })
    }

    /// Who caused it, whether a retry can help, type and code of the body, and the code of a failed
    /// response, with that for Codex if it is another.
    const CODES: &str = "\
invalid_request client never invalid_request_error - invalid_prompt
model_not_found client never invalid_request_error model_not_found invalid_prompt
context_length client never invalid_request_error context_length_exceeded context_length_exceeded
authentication upstream never authentication_error invalid_api_key invalid_prompt
permission upstream never permission_error permission_denied invalid_prompt
refused upstream never invalid_request_error - invalid_prompt
content_filter upstream never invalid_request_error content_filter invalid_prompt
rate_limit upstream soon rate_limit_error rate_limit_exceeded rate_limit_exceeded
quota upstream never insufficient_quota insufficient_quota insufficient_quota/invalid_prompt
overloaded upstream soon server_error server_is_overloaded server_is_overloaded/server_error
unavailable upstream soon server_error upstream_error server_error
unreachable upstream soon server_error upstream_unreachable server_error
timeout upstream never server_error upstream_timeout server_error
turn_timeout proxy never server_error turn_timeout server_error
cut upstream soon server_error upstream_cut server_error
bad_reply upstream soon server_error upstream_bad_reply server_error
busy client soon invalid_request_error conversation_locked server_error
client_limit client soon rate_limit_error rate_limit_exceeded rate_limit_exceeded
storage proxy soon server_error storage_error server_error
draining proxy never server_error server_shutting_down server_error
internal proxy never server_error internal_error server_error/invalid_prompt";

    #[test]
    fn each_kind_has_its_codes() {
        for (kind, codes) in by_kind(CODES) {
            let fault = Fault::new(kind, "x");
            let retry = match fault.retry {
                Retry::Never => "never",
                Retry::Soon | Retry::After(_) => "soon",
            };
            let (other, codex) = (fault.response_code(false), fault.response_code(true));
            let code = fault.code().unwrap_or("-");
            let side = fault.side().name();
            let mut found = [side, retry, fault.error_type(), code, other].join(" ");
            if codex != other {
                found = format!("{found}/{codex}");
            }
            assert_eq!(found, codes, "{kind:?}");
        }
    }

    /// The status for others and for Codex as the kind is by itself, after a 451 that stays, after
    /// a 503 that may pass, and with a long pause; then whether each of the last three is final.
    const STATUSES: &str = "\
invalid_request 400/400 400/400 400/400 400/400 final - -
model_not_found 404/404 404/404 404/404 404/404 final - -
context_length 400/400 400/400 400/400 400/400 final - -
authentication 401/400 401/400 401/400 401/400 final - -
permission 403/400 403/400 403/400 403/400 final - -
refused 400/400 451/400 502/502 400/400 final - -
content_filter 400/400 400/400 400/400 400/400 final - -
rate_limit 429/429 429/429 429/429 429/400 final - final
quota 429/429 429/429 429/429 429/429 final - -
overloaded 503/503 503/503 503/503 503/503 final - -
unavailable 502/502 502/502 503/502 502/502 final - -
unreachable 502/502 502/502 502/502 502/502 final - -
timeout 504/504 504/504 504/504 504/504 - - -
turn_timeout 504/504 504/504 504/504 504/504 - - -
cut 502/502 502/502 502/502 502/502 final - -
bad_reply 502/502 502/502 502/502 502/502 final - -
busy 409/409 409/409 409/409 409/409 final - -
client_limit 429/429 429/400 429/429 429/400 final - final
storage 503/503 503/503 503/503 503/503 - - -
draining 503/503 503/503 503/503 503/503 - - -
internal 500/400 500/400 500/400 500/400 final - -";

    #[test]
    fn each_kind_has_its_statuses() {
        let long = Retry::After(MAX_CODEX_PAUSE * 2);
        for (kind, expected) in by_kind(STATUSES) {
            let fault = Fault::new(kind, "x");
            let with = |retry, upstream_status| Fault {
                retry,
                upstream_status,
                ..fault.clone()
            };
            let others = [
                with(Retry::Never, Some(451)),
                with(Retry::Soon, Some(503)),
                with(long, None),
            ];
            let status = |fault: &Fault| format!("{}/{}", fault.status(false), fault.status(true));
            let statuses = [&fault].into_iter().chain(&others).map(status);
            let is_final = |fault: &Fault| {
                let word = if fault.is_final() { "final" } else { "-" };
                word.to_owned()
            };
            let found: Vec<String> = statuses.chain(others.iter().map(is_final)).collect();
            assert_eq!(found.join(" "), expected, "{kind:?}");
            for fault in others {
                let gave_up = Fault {
                    gave_up: true,
                    ..fault
                };
                assert!(gave_up.is_final(), "{kind:?}");
            }
        }
    }

    #[test]
    fn codex_stops_at_final_faults_and_repeats_others() {
        let fault = |kind| Fault::new(kind, "x");
        for (fault, code) in [
            (fault(Kind::InvalidRequest), "invalid_prompt"),
            (fault(Kind::Authentication), "invalid_prompt"),
            (fault(Kind::Permission), "invalid_prompt"),
            (fault(Kind::Refused), "invalid_prompt"),
            (fault(Kind::ContentFilter), "invalid_prompt"),
            (fault(Kind::Quota), "invalid_prompt"),
            (fault(Kind::Internal), "invalid_prompt"),
            (fault(Kind::ContextLength), "context_length_exceeded"),
            (fault(Kind::RateLimit), "rate_limit_exceeded"),
            (fault(Kind::Overloaded), "server_error"),
            (fault(Kind::Unavailable), "server_error"),
            (fault(Kind::Unreachable), "server_error"),
            (fault(Kind::Timeout), "server_error"),
            (fault(Kind::Draining), "server_error"),
            (
                Fault {
                    gave_up: true,
                    ..fault(Kind::RateLimit)
                },
                "invalid_prompt",
            ),
            (
                Fault {
                    gave_up: true,
                    ..fault(Kind::Timeout)
                },
                "invalid_prompt",
            ),
            (
                Fault {
                    retry: Retry::Never,
                    ..fault(Kind::Unreachable)
                },
                "invalid_prompt",
            ),
        ] {
            assert_eq!(fault.response_code(true), code, "{fault:?}");
        }
        assert_eq!(
            fault(Kind::Quota).response_code(false),
            "insufficient_quota"
        );
    }

    /// Promise: A failure of the provider is never reported as one of the client. Codex shows the
    /// message as it is.
    #[test]
    fn a_failure_of_the_provider_is_no_fault_of_the_client() {
        for kind in [Kind::Refused, Kind::Unavailable] {
            let fault = Fault {
                upstream_status: Some(501),
                ..Fault::new(kind, "x")
            };
            assert!(fault.status(false) >= 500, "{kind:?}");
            assert!(fault.status(true) >= 500, "{kind:?}");
        }
    }

    #[test]
    fn permanent_faults_have_no_status_that_codex_retries() {
        for kind in [
            Kind::InvalidRequest,
            Kind::ModelNotFound,
            Kind::ContextLength,
            Kind::Authentication,
            Kind::Permission,
            Kind::Refused,
            Kind::ContentFilter,
            Kind::Quota,
            Kind::Internal,
        ] {
            let fault = Fault::new(kind, "x");
            assert_eq!(fault.retry, Retry::Never, "{kind:?}");
            assert!([400, 404, 429].contains(&fault.status(true)), "{kind:?}");
        }
    }

    #[test]
    fn a_body_has_all_four_keys() {
        let fault = Fault::invalid("tools", "no \"tools\"");
        assert_eq!(
            String::from_utf8(fault.body()).unwrap(),
            r#"{"error":{"message":"no \"tools\"","type":"invalid_request_error","param":"tools","code":null}}"#
        );
    }

    #[test]
    fn a_rate_limit_always_has_a_retry_after() {
        let after = |kind, retry| {
            let fault = Fault {
                retry,
                ..Fault::new(kind, "x")
            };
            fault.retry_after()
        };
        assert_eq!(
            after(Kind::RateLimit, Retry::Soon),
            Some(DEFAULT_RATE_LIMIT_PAUSE)
        );
        assert_eq!(after(Kind::RateLimit, Retry::Never), None);
        assert_eq!(after(Kind::Overloaded, Retry::Soon), None);
        assert_eq!(after(Kind::Quota, Retry::Never), None);
    }

    #[test]
    fn codex_gets_long_pauses_as_permanent_faults() {
        let status = |minutes| {
            let fault = Fault {
                retry: Retry::After(Duration::from_mins(minutes)),
                ..Fault::new(Kind::RateLimit, "Please wait.")
            };
            (fault.status(true), fault.status(false))
        };
        assert_eq!(status(10), (429, 429));
        assert_eq!(status(11), (400, 429));
    }

    #[test]
    fn codex_finds_the_pause_in_the_text() {
        let fault = Fault {
            retry: Retry::After(Duration::from_millis(1500)),
            ..Fault::new(Kind::RateLimit, "Slow down.")
        };
        assert_eq!(
            fault.client_message(),
            "Slow down. Please try again in 1.5s."
        );
        assert_eq!(fault.retry_after(), Some(2));
        let minutes = Fault {
            retry: Retry::After(Duration::from_mins(6)),
            ..Fault::new(Kind::RateLimit, "Please try again in 6m0s.")
        };
        assert_eq!(
            minutes.client_message(),
            "Please try again in 6m0s. Please try again in 360.0s."
        );
    }
}
