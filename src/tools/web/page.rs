//! Pages that were read, and who reads them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use thiserror::Error;

use super::client::WebError;
use super::fetch::FetchError;
use super::service::LimitReached;
use crate::net::memory::SharedMemory;

/// For how long a session uses a page that it has read. An older one is read again, if it can be.
pub const PAGE_LIFETIME: Duration = Duration::from_hours(1);

/// How long a page may take of which the session has an old copy.
pub const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// A page that was read. Made by a [`PageReader`], or of what is kept of one.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where it was at last, after redirects.
    pub url: String,
    /// The address that the page itself gives as its own.
    pub canonical: Option<String>,
    /// The title without markup; may be empty.
    pub title: String,
    /// When it was published, as the page says it.
    pub published: Option<String>,
    /// The whole content as Markdown.
    pub markdown: String,
    /// The size of what the server sent, in bytes after decoding.
    pub received_bytes: usize,
    /// How it was fetched.
    pub fetched_by: FetchStrategy,
    /// The share of the text in the budget of the process; `None` if nobody counts it.
    pub memory: Option<SharedMemory>,
}

/// A page that is kept whole, as an artifact of the session that has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeptPage {
    /// See [`Page::url`].
    pub url: String,
    /// See [`Page::title`].
    pub title: String,
    /// See [`Page::published`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The artifact that has its text.
    pub artifact_id: String,
    /// When it was read, in seconds since 1970.
    pub read: u64,
}

impl KeptPage {
    /// How long ago it was read. `now` is in seconds since 1970.
    pub fn age(&self, now: u64) -> Duration {
        Duration::from_secs(now.saturating_sub(self.read))
    }

    /// Whether it was read so recently that it need not be read again.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.age(now) < PAGE_LIFETIME
    }

    /// Its texts, in bytes.
    pub fn bytes(&self) -> usize {
        let published = self.published.as_ref().map_or(0, String::len);
        self.url.len() + self.title.len() + published + self.artifact_id.len()
    }
}

/// Keeps the pages of a session whole, and reads them again: its artifacts, or a test.
pub trait PageKeeper: Send + Sync {
    /// Keeps a page. Nothing that quotes it is sent before it is kept. `None` if there is no room
    /// for it.
    fn keep<'k>(&'k self, page: &'k Arc<Page>) -> KeepFuture<'k>;

    /// A page as it was kept; `None` if it is not there any more.
    fn read<'k>(&'k self, kept: &'k KeptPage) -> KeptPageFuture<'k>;
}

/// A page that is being kept.
pub type KeepFuture<'k> = Pin<Box<dyn Future<Output = Option<KeptPage>> + Send + 'k>>;

/// A page that is read from where it is kept.
pub type KeptPageFuture<'k> = Pin<Box<dyn Future<Output = Option<Arc<Page>>> + Send + 'k>>;

/// Ways to fetch a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum FetchStrategy {
    /// From its server.
    Native,
    /// `/content` of Browserless: a browser elsewhere.
    BrowserlessContent,
    /// `/unblock` of Browserless.
    BrowserlessUnblock,
    /// By a Chromium on this machine.
    Chromium,
    /// It was not fetched now: it was read earlier, and kept.
    Kept,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// It is something else than a page, such as a picture.
    #[error("the address leads to '{0}', which is not a page that can be read")]
    NotHtml(String),
    /// It is read only if the operator wants it.
    #[error(
        "the address leads to '{kind}', which is read only with {switch} = true in [search] of the \
         configuration"
    )]
    Off {
        /// The `content-type`.
        kind: String,
        /// The key of the configuration.
        switch: &'static str,
    },
    /// The program has no parser for PDF.
    #[error("the address leads to a PDF, and this program was built without the feature pdf")]
    NoPdf,
    /// The file is another one than its server says.
    #[error("the server says that the file is text, which it is not")]
    Binary,
    /// A PDF of pictures.
    #[error("the address leads to a PDF without text, such as one of scanned pages")]
    NoText,
    /// It is nested too deep, or has too many attributes, for any parser.
    #[error("the page cannot be parsed safely: {0}")]
    Hostile(&'static str),
    /// There is nearly nothing to read.
    #[error("the page has only {0} characters of text")]
    TooShort(usize),
    /// The operator has the rules of servers for robots kept.
    #[error("the server does not allow robots to read this page")]
    Robots,
    /// There is no memory left for it.
    #[error("there is not enough memory to read the page now")]
    NoMemory,
    /// Whoever asks may read no more pages today.
    #[error(transparent)]
    Limit(#[from] LimitReached),
}

/// What kind of reason it is that there is no page, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum FetchErrorCode {
    /// The address cannot be that of a page, or leads to a place that is not public.
    BadUrl,
    /// The server refuses: a status of 400 to 499.
    HttpClientError,
    /// The server is in trouble: a status of 500 to 599.
    HttpServerError,
    /// The server takes too long.
    Timeout,
    /// The server cannot be reached, or what it says is no answer.
    FetchFailed,
    /// The answer is too large.
    TooLarge,
    /// It is something else than a page.
    NonHtml,
    /// It cannot be parsed safely.
    Hostile,
    /// There is nearly nothing to read.
    ContentTooShort,
    /// The server does not allow robots.
    Robots,
    /// There is no memory left.
    NoMemory,
    /// A limit of the day is reached.
    LimitReached,
}

impl FetchErrorCode {
    /// The name, such as `HTTP_CLIENT_ERROR`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl PageError {
    /// What is shown of the page could not be made.
    pub const NOT_SHOWN: Self = Self::Hostile("it cannot be shown");

    /// The kind of the reason.
    pub fn code(&self) -> FetchErrorCode {
        match self {
            Self::Fetch(error) => match error {
                FetchError::BadUrl(_) => FetchErrorCode::BadUrl,
                FetchError::NoAnswer(error) => match error {
                    WebError::BadUrl(_) | WebError::NotPublic(_) => FetchErrorCode::BadUrl,
                    WebError::Timeout(_) => FetchErrorCode::Timeout,
                    WebError::TooLarge(_) => FetchErrorCode::TooLarge,
                    WebError::NoMemory => FetchErrorCode::NoMemory,
                    WebError::Unreachable(_) | WebError::BadReply(_) => FetchErrorCode::FetchFailed,
                },
                FetchError::Status(status) if status.is_client_error() => {
                    FetchErrorCode::HttpClientError
                }
                FetchError::Status(status) if status.is_server_error() => {
                    FetchErrorCode::HttpServerError
                }
                FetchError::Status(_) | FetchError::TooManyRedirects(_) => {
                    FetchErrorCode::FetchFailed
                }
            },
            Self::NotHtml(_) | Self::Off { .. } | Self::NoPdf | Self::Binary | Self::NoText => {
                FetchErrorCode::NonHtml
            }
            Self::Hostile(_) => FetchErrorCode::Hostile,
            Self::TooShort(_) => FetchErrorCode::ContentTooShort,
            Self::Robots => FetchErrorCode::Robots,
            Self::NoMemory => FetchErrorCode::NoMemory,
            Self::Limit(_) => FetchErrorCode::LimitReached,
        }
    }
}

impl From<FetchError> for PageError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::NoAnswer(WebError::NoMemory) => Self::NoMemory,
            error => Self::Fetch(error),
        }
    }
}

/// Reads pages: the network, or a test.
pub trait PageReader: Send + Sync {
    /// Reads the page at this address, whatever a model or a user has written. Dropping the future
    /// ends its connections.
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r>;
}

/// A page that is read.
pub type PageFuture<'r> = Pin<Box<dyn Future<Output = Result<Arc<Page>, PageError>> + Send + 'r>>;
