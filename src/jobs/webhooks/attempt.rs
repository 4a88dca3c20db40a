//! Sends one message to a webhook.

use std::error::Error;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use adapters::provider_error::delay;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use reqwest::Url;

use super::message::signature;
use crate::config::{Webhook, address};
use crate::store::WaitingDelivery;
use crate::upstream;

/// Time limit for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the whole attempt.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why an attempt has failed. Holds nothing of the URL but its host.
pub(super) struct FailedAttempt {
    pub(super) why: String,
    /// The least pause that the webhook has asked for.
    pub(super) retry_after: Option<Duration>,
    /// The webhook has answered that there is no such receiver any more.
    pub(super) is_gone: bool,
}

impl FailedAttempt {
    fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            retry_after: None,
            is_gone: false,
        }
    }
}

/// The HTTP clients of all webhooks, made when they are first needed: those for this machine use no
/// proxy, and that for plain HTTP has no certificates.
#[derive(Default)]
pub(super) struct AttemptClients {
    local_http: OnceLock<reqwest::Client>,
    local_https: OnceLock<reqwest::Client>,
    remote: OnceLock<reqwest::Client>,
}

impl AttemptClients {
    fn client_for(&self, url: &Url) -> Result<&reqwest::Client, reqwest::Error> {
        let made = match (address::is_loopback(url), url.scheme()) {
            (false, _) => &self.remote,
            (true, "https") => &self.local_https,
            (true, _) => &self.local_http,
        };
        if let Some(client) = made.get() {
            return Ok(client);
        }
        let builder = upstream::client_builder(CONNECT_TIMEOUT, url, None).timeout(TIMEOUT);
        let client = builder.build()?;
        Ok(made.get_or_init(|| client))
    }
}

/// Sends a delivery. It is taken if the status of the answer is 2xx; redirects are not followed.
pub(super) async fn send(
    clients: &AttemptClients,
    webhook: &Webhook,
    delivery: &WaitingDelivery,
    now: u64,
) -> Result<(), FailedAttempt> {
    let unusable = || FailedAttempt::because("its settings cannot be used");
    let url = Url::parse(webhook.url.expose()).map_err(|_| unusable())?;
    let client = clients.client_for(&url).map_err(|_| unusable())?;
    let WaitingDelivery { event, body, .. } = delivery;
    let signature = signature(&webhook.secrets, event, now, body);
    let request = client
        .post(url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", event)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signature)
        .body(body.clone());
    // The body of the answer is not read.
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => return Err(FailedAttempt::because(why(&error))),
    };
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let header = |name: &str| answer.headers().get(name)?.to_str().ok();
    Err(FailedAttempt {
        why: format!("it answered {}", status.as_u16()),
        retry_after: delay::from_headers(header, UNIX_EPOCH + Duration::from_secs(now)),
        is_gone: status == StatusCode::GONE,
    })
}

/// Why a request was not answered, without its URL.
fn why(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("it did not answer within {} s", TIMEOUT.as_secs());
    }
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    let mut last = None;
    while let Some(error) = cause {
        last = Some(error.to_string());
        cause = error.source();
    }
    match last {
        Some(reason) => format!("it cannot be reached ({reason})"),
        None => "it cannot be reached".to_owned(),
    }
}
