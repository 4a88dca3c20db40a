//! Pages that were read, and who reads them.

use std::pin::Pin;
use std::sync::Arc;

use strum::IntoStaticStr;
use thiserror::Error;

use super::client::WebError;
use super::fetch::FetchError;

/// A page that was read. Made by a [`PageReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How it was got.
    pub fetched_by: FetchStrategy,
}

/// Ways to get a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum FetchStrategy {
    /// From its server.
    Native,
    /// `/content` of Browserless: a browser elsewhere.
    BrowserlessContent,
    /// `/unblock` of Browserless.
    BrowserlessUnblock,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// It was not got.
    #[error(transparent)]
    Fetch(FetchError),
    /// It is something else than a page, such as a picture.
    #[error("the address leads to '{0}', which is not a page that can be read")]
    NotHtml(String),
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
}

/// What kind of reason it is that there is no page, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum FetchErrorCode {
    /// The address is none of a page, or leads to a place that is not public.
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
}

impl FetchErrorCode {
    /// The name, such as `HTTP_CLIENT_ERROR`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl PageError {
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
            Self::NotHtml(_) => FetchErrorCode::NonHtml,
            Self::Hostile(_) => FetchErrorCode::Hostile,
            Self::TooShort(_) => FetchErrorCode::ContentTooShort,
            Self::Robots => FetchErrorCode::Robots,
            Self::NoMemory => FetchErrorCode::NoMemory,
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
