//! Sends one request to a provider and opens its response.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use adapters::failed_request;
use adapters::fault::{Fault, Kind, Patience, Retry};
use adapters::provider_error;
use adapters::wire;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use registry::WireQuirks;
use tokio::time::Instant;

use super::decoded_body::DecodedBody;
use super::{KeyIndex, RequestPermit, Upstream, transport};
use crate::clock::Clock;
use crate::net::patience;

/// Maximum bytes of an error response that are read, and the time limit for reading them.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes after the last event that are read, and the time limit for reading them.
const MAX_DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// An event of a request to a provider, for observers. All come before the answer is read.
pub enum AttemptEvent<'a> {
    /// The provider answered with this head.
    Head {
        /// The HTTP status.
        status: StatusCode,
        /// The response headers.
        headers: &'a HeaderMap,
    },
    /// The body of an error response, up to the limit.
    ErrorBody(&'a [u8]),
}

/// Called for each [`AttemptEvent`]; must not wait.
pub type Observe<'a> = &'a (dyn Fn(AttemptEvent<'_>) + Send + Sync);

/// A request to a provider: what its wire says, without what the provider's settings add. Made
/// for each attempt of a turn; cloning it is cheap.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamRequest {
    /// The path below the base URL.
    pub path: Cow<'static, str>,
    /// The headers that the wire requires.
    pub headers: &'static [(&'static str, &'static str)],
    /// The JSON body.
    pub body: Bytes,
}

/// The body of a response with a 2xx status. [`send_request`] makes it; it ends with the body
/// or when it is dropped. The head is not kept, to save its memory for the duration of the
/// stream.
#[derive(Debug)]
pub struct UpstreamResponse {
    body: DecodedBody,
    /// Bytes that were received and not yet returned by [`Self::read`].
    buffered: BytesMut,
    /// Released when the provider has finished its work.
    _permit: RequestPermit,
}

impl UpstreamResponse {
    fn new(response: reqwest::Response, permit: RequestPermit) -> Self {
        Self {
            body: DecodedBody::new(response),
            buffered: BytesMut::new(),
            _permit: permit,
        }
    }

    /// The next bytes of the body: exactly `length` if it is given and the body does not end
    /// earlier, else as many as arrive. `None` at the end of the body.
    pub async fn read(&mut self, length: Option<usize>) -> Result<Option<Bytes>, Fault> {
        let Some(length) = length else {
            return self.body.next_chunk().await;
        };
        while self.buffered.len() < length {
            match self.body.next_chunk().await? {
                Some(bytes) => self.buffered.extend_from_slice(&bytes),
                None => break,
            }
        }
        let length = length.min(self.buffered.len());
        Ok((length > 0).then(|| self.buffered.split_to(length).freeze()))
    }

    /// Reads the rest of the body after the last event, for a moment, so that the connection
    /// can be reused. Dropping a body before its end closes the connection, and the end comes
    /// after `[DONE]`, often in a separate packet.
    pub fn drain(mut self) {
        if let Some(Ok(None) | Err(_)) = self.body.next_coded().now_or_never() {
            return;
        }
        tokio::spawn(async move {
            let rest = async {
                let mut left = MAX_DRAIN_BYTES;
                while let Ok(Some(bytes)) = self.body.next_coded().await
                    && let Some(less) = left.checked_sub(bytes.len())
                {
                    left = less;
                }
            };
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
        });
    }
}

/// Sends a request and waits for the head of its response, within the provider's time limits. A
/// status other than 2xx is a fault, which the wire reads; the clock turns a date in `Retry-After`
/// into a delay. The permit is released at the end of the response.
pub async fn send_request(
    upstream: &Upstream,
    permit: RequestPermit,
    key: Option<KeyIndex>,
    request: UpstreamRequest,
    quirks: &WireQuirks,
    clock: &dyn Clock,
    observe: Observe<'_>,
) -> Result<UpstreamResponse, Fault> {
    let mut headers = upstream.headers(request.headers);
    let path = request.path;
    let mut url = upstream.url(&path);
    if let Some(key) = key {
        upstream.add_key(key, &mut url, &mut headers);
    }
    let began = Instant::now();
    upstream.health().begin_request(began);
    let sending = upstream
        .client
        .post(url)
        .headers(headers)
        .body(request.body);
    let limit = upstream.provider.timeouts.connect + upstream.provider.timeouts.first_byte;
    let response = match patience::within(limit, sending.send()).await {
        Some(Ok(response)) => response,
        Some(Err(error)) => {
            let request = failed_request::post(&upstream.provider, &path);
            return Err(transport::fault(upstream, &request, &error));
        }
        None => {
            let seconds = upstream.provider.timeouts.first_byte.as_secs();
            let message = format!(
                "The provider '{}' did not begin to answer within {seconds} s. If its model needs \
                 longer, raise timeouts.first_byte. The request was {}.",
                upstream.provider.id,
                failed_request::post(&upstream.provider, &path)
            );
            return Err(Fault {
                patience: Patience::NoMore,
                ..Fault::new(Kind::Timeout, message)
            });
        }
    };
    observe(AttemptEvent::Head {
        status: response.status(),
        headers: response.headers(),
    });
    if response.status().is_success() {
        if let Some(key) = key {
            upstream.keys().accepted(key, began);
        }
        return Ok(UpstreamResponse::new(response, permit));
    }
    Err(error_reply(upstream, quirks, &path, response, clock, observe).await)
}

async fn error_reply(
    upstream: &Upstream,
    quirks: &WireQuirks,
    path: &str,
    response: reqwest::Response,
    clock: &dyn Clock,
    observe: Observe<'_>,
) -> Fault {
    let status = response.status().as_u16();
    let wait = {
        let headers = response.headers();
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let now = UNIX_EPOCH + Duration::from_secs(clock.unix());
        provider_error::delay::from_headers(header, now)
    };
    let redirect = (300..400)
        .contains(&status)
        .then(|| redirect_fault(upstream, path, status, response.headers()));
    let mut response = DecodedBody::new(response);
    let mut body = Vec::new();
    let read = async {
        loop {
            match response.next_chunk().await {
                Ok(Some(chunk)) => {
                    let room = MAX_ERROR_BYTES.saturating_sub(body.len());
                    body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                    if chunk.len() >= room {
                        break;
                    }
                }
                // What cannot be read is told in place of the message.
                Err(fault) if body.is_empty() && fault.kind == Kind::BadReply => {
                    body.extend_from_slice(fault.message.as_bytes());
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
    };
    let _ = patience::within(ERROR_TIMEOUT, read).await;
    observe(AttemptEvent::ErrorBody(&body));
    if let Some(redirect) = redirect {
        return redirect;
    }
    wire::error(quirks, status, wait, &body)
}

/// The fault of a redirect. It is not followed, because a key must not go to another host.
fn redirect_fault(upstream: &Upstream, path: &str, status: u16, headers: &HeaderMap) -> Fault {
    let provider = &upstream.provider;
    let target = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    // The query may contain secrets.
    let target = target.and_then(|target| target.split(['?', '#']).next());
    let target = target.map_or_else(String::new, |target| format!(" to {target}"));
    let message = format!(
        "The provider '{}' redirects{target}, and a key does not follow. {} answered {status}. \
         If you trust the new address, write it in base_url.",
        provider.id,
        failed_request::post(provider, path)
    );
    Fault {
        retry: Retry::Never,
        ..Fault::new(Kind::BadReply, message)
    }
}
