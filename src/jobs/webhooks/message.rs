//! The events that tell of a response, and their signatures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use super::approvals::ApprovalRequest;
use crate::config::WebhookEvent;
use crate::config::webhooks::secret_bytes;
use crate::secrets::Secret;

/// An event as webhooks get it, the same in each attempt.
pub(super) struct WebhookMessage {
    /// The header `webhook-id`, which is the id of the event.
    pub(super) id: String,
    pub(super) body: String,
}

#[derive(Serialize)]
struct WebhookBody<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    data: WebhookData<'a>,
}

#[derive(Serialize)]
struct WebhookData<'a> {
    /// The id of the response.
    id: &'a str,
    #[serde(skip_serializing_if = "<[ApprovalRequest]>::is_empty")]
    approval_requests: &'a [ApprovalRequest],
}

impl WebhookMessage {
    /// The end of a response. `now` is in seconds since 1970.
    pub(super) fn of_end(response: &str, event: WebhookEvent, now: u64) -> Self {
        // A response ends once, so its id makes the id of the event.
        Self::new(event, response, response, &[], now)
    }

    /// A person is asked to approve these calls of a response; `None` if there are none.
    pub(super) fn of_approvals(
        response: &str,
        requests: &[ApprovalRequest],
        now: u64,
    ) -> Option<Self> {
        let event = WebhookEvent::ApprovalRequested;
        // A call is asked for once, so the first one makes the id of the event.
        let first = &requests.first()?.id;
        Some(Self::new(event, first, response, requests, now))
    }

    /// `named_after` is the id that makes the id of the event.
    fn new(
        event: WebhookEvent,
        named_after: &str,
        response: &str,
        approval_requests: &[ApprovalRequest],
        now: u64,
    ) -> Self {
        let prefixes = ["resp_", "mcpr_"];
        let mut bare = prefixes
            .iter()
            .filter_map(|it| named_after.strip_prefix(it));
        let id = format!("evt_{}", bare.next().unwrap_or(named_after));
        let body = WebhookBody {
            id: &id,
            object: "event",
            created_at: now,
            kind: event.name(),
            data: WebhookData {
                id: response,
                approval_requests,
            },
        };
        let body = serde_json::to_string(&body).unwrap_or_default();
        Self { id, body }
    }
}

/// The signatures of a message, one by each secret, with a space between them: the header
/// `webhook-signature`. `timestamp` is in seconds since 1970.
pub(super) fn signature(secrets: &[Secret], id: &str, timestamp: u64, body: &str) -> String {
    let signed = format!("{id}.{timestamp}.{body}");
    let keys = secrets.iter().filter_map(secret_bytes);
    // A key of any length is accepted.
    let codes = keys.filter_map(|key| Hmac::<Sha256>::new_from_slice(&key).ok());
    let signatures = codes.map(|code| {
        let code = code.chain_update(signed.as_bytes()).finalize();
        format!("v1,{}", STANDARD.encode(code.into_bytes()))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example from the documentation of Standard Webhooks.
    #[test]
    fn a_message_is_signed_as_standard_webhooks_says() {
        let secret = Secret::new("whsec_plJ3nmyCDGBKInavdOK15jsl").unwrap();
        let id = "msg_loFOjxBNrRLzqYUf";
        let body = r#"{"event_type":"ping","data":{"success":true}}"#;
        let expected = "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=";
        let of = |secrets: &[Secret]| signature(secrets, id, 1_731_705_121, body);
        assert_eq!(of(std::slice::from_ref(&secret)), expected);
        let other = Secret::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
        let both = of(&[other, secret]);
        let parts: Vec<&str> = both.split(' ').collect();
        assert_eq!((parts.len(), parts[1]), (2, expected));
    }
}
