//! The event that tells of the end of a response, and its signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use crate::config::webhooks::secret_bytes;
use crate::secrets::Secret;
use crate::store::WaitingDelivery;

/// A request to a webhook. The id and the body are the same in each attempt.
pub(super) struct WebhookMessage {
    /// The header `webhook-id`, which is the id of the event.
    pub(super) id: String,
    /// The header `webhook-signature`.
    pub(super) signature: String,
    pub(super) body: String,
}

#[derive(Serialize)]
struct WebhookBody<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    #[serde(rename = "type")]
    kind: String,
    data: WebhookData<'a>,
}

#[derive(Serialize)]
struct WebhookData<'a> {
    id: &'a str,
}

impl WebhookMessage {
    /// The message of a delivery, signed by each of these secrets. `now` is in seconds since 1970.
    pub(super) fn new(
        delivery: &WaitingDelivery,
        secrets: &[Secret],
        now: u64,
    ) -> Result<Self, serde_json::Error> {
        // A response ends once, so its id makes the id of the event.
        let response = delivery.id.strip_prefix("resp_").unwrap_or(&delivery.id);
        let id = format!("evt_{response}");
        let body = serde_json::to_string(&WebhookBody {
            id: &id,
            object: "event",
            created_at: delivery.ended,
            kind: format!("response.{}", delivery.status),
            data: WebhookData { id: &delivery.id },
        })?;
        Ok(Self {
            signature: signature(secrets, &id, now, &body),
            id,
            body,
        })
    }
}

/// The signatures of a message, one by each secret, with a space between them.
fn signature(secrets: &[Secret], id: &str, timestamp: u64, body: &str) -> String {
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
