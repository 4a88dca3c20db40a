//! Asks the server of a page itself, without cookies, keys or a referrer. Each redirect is checked
//! like the first address.

use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, sleep};
use url::Url;

use super::page_url::check;
use super::{FetchError, FetchFuture, FetchLimits, FetchedPage, Fetcher};
use crate::clock::{Random, System};
use crate::tools::web::client::{WebClient, WebError, WebLimits, WebRequest, WebResponse};

/// How often a page is asked for again whose server has no time for it.
const RETRIES: u32 = 3;
/// The first pause before that, which doubles with each.
const BACKOFF: Duration = Duration::from_millis(250);

/// Gets pages from their servers. The dialler of its client reaches public addresses only.
pub struct NativeFetcher {
    client: WebClient,
    limits: FetchLimits,
}

impl NativeFetcher {
    /// A fetcher with this client.
    pub fn new(client: WebClient, limits: FetchLimits) -> Self {
        Self { client, limits }
    }

    async fn follow(&self, url: &Url) -> Result<FetchedPage, FetchError> {
        let deadline = Instant::now() + self.limits.total;
        let mut url = url.clone();
        let mut retries = 0;
        for _ in 0..=self.limits.redirects {
            check(&url)?;
            let response = self.ask(&url, deadline, &mut retries).await?;
            let status = response.status;
            if status.is_success() {
                let content_type = response.headers.get(CONTENT_TYPE);
                let content_type = content_type.and_then(|value| value.to_str().ok());
                return Ok(FetchedPage {
                    url,
                    content_type: content_type.unwrap_or_default().to_ascii_lowercase(),
                    body: response.body,
                    memory: response.memory,
                });
            }
            let to = response.headers.get(LOCATION);
            let Some(to) = to.filter(|_| status.is_redirection()) else {
                return Err(FetchError::Status(status));
            };
            let to = to.to_str().ok().and_then(|to| url.join(to).ok());
            url = to.ok_or(FetchError::BadUrl("it redirects to no address"))?;
            url.set_fragment(None);
        }
        Err(FetchError::TooManyRedirects(self.limits.redirects))
    }

    /// Asks a server, and asks again where there is time left: where it says that it has no time
    /// now, and once if it cannot be reached or is in trouble.
    async fn ask(
        &self,
        url: &Url,
        deadline: Instant,
        retries: &mut u32,
    ) -> Result<WebResponse, FetchError> {
        let mut may_repeat = true;
        loop {
            let limits = WebLimits {
                bytes: self.limits.bytes,
                head: self.limits.head,
                total: deadline.saturating_duration_since(Instant::now()),
            };
            let answer = self.client.send(request(url), limits).await;
            let asks_again = match &answer {
                Ok(response) if is_for_now(response.status) => *retries < RETRIES,
                Ok(response) => may_repeat && response.status.is_server_error(),
                Err(error) => may_repeat && may_pass(error),
            };
            let headers = answer.as_ref().map(|response| &response.headers);
            let pause = pause(*retries, headers.ok());
            if !asks_again || pause >= deadline.saturating_duration_since(Instant::now()) {
                return Ok(answer?);
            }
            match &answer {
                Ok(response) if is_for_now(response.status) => *retries += 1,
                Ok(_) | Err(_) => may_repeat = false,
            }
            drop(answer);
            sleep(pause).await;
        }
    }
}

impl Fetcher for NativeFetcher {
    fn fetch<'f>(&'f self, url: &'f Url) -> FetchFuture<'f> {
        Box::pin(self.follow(url))
    }
}

/// Whether a server refuses for now: too many requests, a request that took too long, or no time.
fn is_for_now(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::SERVICE_UNAVAILABLE
    )
}

/// Whether a connection may succeed that has failed with this.
fn may_pass(error: &WebError) -> bool {
    match error {
        WebError::Unreachable(_) | WebError::Timeout(_) => true,
        WebError::BadUrl(_)
        | WebError::NotPublic(_)
        | WebError::TooLarge(_)
        | WebError::BadReply(_)
        | WebError::NoMemory => false,
    }
}

/// The time before the next request: at least what the server asks for, else half to one and a half
/// of the backoff.
fn pause(retries: u32, headers: Option<&HeaderMap>) -> Duration {
    let backoff = BACKOFF * 2_u32.saturating_pow(retries);
    let percent = u32::try_from(System.bits() % 100).unwrap_or_default();
    let jittered = backoff * (50 + percent) / 100;
    let asked = headers
        .and_then(|headers| headers.get(RETRY_AFTER))
        .and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|seconds| seconds.trim().parse().ok());
    jittered.max(Duration::from_secs(asked.unwrap_or_default()))
}

fn request(url: &Url) -> WebRequest {
    let accept = "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.5";
    WebRequest {
        method: Method::GET,
        url: url.clone(),
        headers: HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static(accept)),
            (ACCEPT_LANGUAGE, HeaderValue::from_static("en,*;q=0.5")),
        ]),
        body: Vec::new(),
    }
}
