//! Gets pages. [`native`] asks the server itself, [`browserless`] a browser elsewhere, `chromium`
//! one on this machine, whose way to the network is `guarded_proxy` and whose folder is a
//! `browser_profile`; [`robots`] keeps the rules of servers for robots.

use std::pin::Pin;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;
use url::Url;

use super::client::WebError;
use crate::net::memory::SharedMemory;

#[cfg(feature = "chromium")]
mod browser_profile;
pub mod browserless;
#[cfg(feature = "chromium")]
pub mod chromium;
#[cfg(feature = "chromium")]
mod guarded_proxy;
pub mod native;
mod page_url;
mod robots;

pub use page_url::{MAX_URL, page_url};
pub use robots::RobotRules;

/// What a page may take.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// The largest body after decoding, in bytes.
    pub bytes: usize,
    /// The time until the head of an answer is there.
    pub head: Duration,
    /// The time of everything, redirects included.
    pub total: Duration,
    /// The most redirects that are followed.
    pub redirects: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            bytes: 10 << 20,
            head: Duration::from_secs(5),
            total: Duration::from_secs(10),
            redirects: 5,
        }
    }
}

/// A page as its server sent it.
#[derive(Clone, Debug)]
pub struct FetchedPage {
    /// Where it was at last.
    pub url: Url,
    /// The `content-type`, in lower case.
    pub content_type: String,
    /// The body without its content coding.
    pub body: Vec<u8>,
    /// The memory of the body.
    pub memory: SharedMemory,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchError {
    /// The address cannot be that of a page.
    #[error("the address cannot be opened: {0}")]
    BadUrl(&'static str),
    /// There is no answer.
    #[error(transparent)]
    NoAnswer(#[from] WebError),
    /// The server refuses.
    #[error("the server answered {0}")]
    Status(StatusCode),
    /// Redirects without an end.
    #[error("the page redirects more than {0} times")]
    TooManyRedirects(usize),
}

/// Gets pages: the network, a browser elsewhere, or a test.
pub trait Fetcher: Send + Sync {
    /// Gets a page. Dropping the future ends its connection.
    fn fetch<'f>(&'f self, url: &'f Url) -> FetchFuture<'f>;
}

/// A page that is fetched.
pub type FetchFuture<'f> =
    Pin<Box<dyn Future<Output = Result<FetchedPage, FetchError>> + Send + 'f>>;
