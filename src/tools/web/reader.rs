//! Reads pages from the network: from their servers, else with a browser elsewhere.

use std::sync::Arc;
use std::thread::available_parallelism;

use http::StatusCode;
use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use url::Url;

use super::client::WebClient;
use super::dialler::{Dialler, WebDialler};
use super::extract::{self, PageContent, PageShape};
use super::fetch::browserless::{Browserless, BrowserlessError, BrowserlessSettings};
use super::fetch::native::NativeFetcher;
use super::fetch::{FetchLimits, FetchedPage, Fetcher, RobotRules, page_url};
use super::page::{FetchErrorCode, FetchStrategy, Page, PageError, PageFuture, PageReader};
use crate::net::memory::{ProcessMemory, SharedMemory};

/// What an operator may choose.
#[derive(Clone, Debug, Default)]
pub struct ReaderSettings {
    /// Reads plain text, Markdown and JSON as well.
    pub reads_text: bool,
    /// Keeps the rules of servers for robots.
    pub keeps_robot_rules: bool,
    /// The browser elsewhere. Without it the answer of the server is final.
    pub browserless: Option<BrowserlessSettings>,
    /// Asks the browser also where the server of a page is in trouble.
    pub browses_on_server_errors: bool,
}

/// Reads pages from the network. One for the server, or for a command.
pub struct WebReader {
    /// Reaches public addresses only.
    client: WebClient,
    native: NativeFetcher,
    browserless: Option<Browserless>,
    robots: Option<RobotRules>,
    settings: ReaderSettings,
    /// The parsers that may run. Those who wait for one hold nothing but a page in the budget, and
    /// do not wait any more once nobody wants the page.
    parsers: Arc<Semaphore>,
}

impl WebReader {
    /// A reader that trusts these certificates and takes memory from this budget.
    pub fn new(
        dialler: &Arc<dyn Dialler>,
        tls: &Arc<ClientConfig>,
        memory: &ProcessMemory,
        settings: ReaderSettings,
    ) -> Self {
        Self::with_limits(dialler, tls, memory, settings, FetchLimits::default())
    }

    /// A reader with other limits on what servers send.
    pub fn with_limits(
        dialler: &Arc<dyn Dialler>,
        tls: &Arc<ClientConfig>,
        memory: &ProcessMemory,
        settings: ReaderSettings,
        limits: FetchLimits,
    ) -> Self {
        let client = |dialler: WebDialler| {
            let client = WebClient::new(dialler, Arc::clone(tls));
            client.with_memory(memory.clone())
        };
        let public = client(WebDialler::public(Arc::clone(dialler)));
        let browserless = settings.browserless.clone().map(|settings| {
            let any = client(WebDialler::any(Arc::clone(dialler)));
            Browserless::new(any, settings, limits.bytes)
        });
        let robots = || RobotRules::new(public.clone());
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            native: NativeFetcher::new(public.clone(), limits),
            browserless,
            robots: settings.keeps_robot_rules.then(robots),
            client: public,
            settings,
            parsers: Arc::new(Semaphore::new(cores)),
        }
    }

    /// Waits until no parser runs.
    #[cfg(test)]
    pub(super) async fn idle(&self) {
        let cores = available_parallelism().map_or(1, usize::from);
        let all = u32::try_from(cores).unwrap();
        drop(self.parsers.acquire_many(all).await.unwrap());
    }

    async fn read_page(&self, url: &str) -> Result<Arc<Page>, PageError> {
        let url = page_url(url)?;
        self.check_robots(&url).await?;
        let failure = match self.read_native(&url).await {
            Ok(page) => return Ok(page),
            Err(failure) => failure,
        };
        let browserless = self.browserless.as_ref();
        let Some(browserless) = browserless.filter(|_| self.is_for_browsers(failure.code())) else {
            return Err(failure);
        };
        // The server of the page has refused: that is what its reader needs to know.
        let browsed = self.browse(browserless, &url).await;
        browsed.ok_or(failure)
    }

    async fn read_native(&self, url: &Url) -> Result<Arc<Page>, PageError> {
        let fetched = self.native.fetch(url).await?;
        if fetched.url != *url {
            self.check_robots(&fetched.url).await?;
        }
        self.page(fetched, FetchStrategy::Native).await
    }

    async fn check_robots(&self, url: &Url) -> Result<(), PageError> {
        match &self.robots {
            Some(robots) => robots.check(url).await,
            None => Ok(()),
        }
    }

    /// Whether a browser may get what a server has refused.
    fn is_for_browsers(&self, code: FetchErrorCode) -> bool {
        match code {
            FetchErrorCode::HttpClientError
            | FetchErrorCode::Timeout
            | FetchErrorCode::FetchFailed
            | FetchErrorCode::ContentTooShort => true,
            FetchErrorCode::HttpServerError => self.settings.browses_on_server_errors,
            FetchErrorCode::BadUrl
            | FetchErrorCode::TooLarge
            | FetchErrorCode::NonHtml
            | FetchErrorCode::Hostile
            | FetchErrorCode::Robots
            | FetchErrorCode::NoMemory => false,
        }
    }

    /// The page as a browser has it, if one gets it.
    async fn browse(&self, browserless: &Browserless, url: &Url) -> Option<Arc<Page>> {
        self.client.check(url).await.ok()?;
        let (fetched, strategy) = match browserless.content(url).await {
            Err(BrowserlessError::Page(StatusCode::FORBIDDEN)) => (
                browserless.unblock(url).await,
                FetchStrategy::BrowserlessUnblock,
            ),
            fetched => (fetched, FetchStrategy::BrowserlessContent),
        };
        let fetched = fetched.inspect_err(|error| tracing::warn!(%error, "no page by Browserless"));
        let fetched = fetched.ok()?;
        // The browser may have been led to a place in its own network.
        let last = page_url(fetched.url.as_str()).ok()?;
        self.client.check(&last).await.ok()?;
        self.page(fetched, strategy).await.ok()
    }

    /// What a page says. Nobody waits for a parser longer than for the page: dropping the future
    /// leaves at most one that runs, which has a page of limited size.
    async fn page(
        &self,
        fetched: FetchedPage,
        fetched_by: FetchStrategy,
    ) -> Result<Arc<Page>, PageError> {
        let kind = self.kind(&fetched.content_type)?;
        let running = Arc::clone(&self.parsers).acquire_owned().await;
        let parsed = spawn_blocking(move || {
            let content = read_content(&fetched, kind);
            let page = content.map(|content| page_of(&fetched, content, fetched_by));
            // The next one runs once the memory is free.
            drop(fetched);
            drop(running);
            page
        });
        let parsed = parsed.await;
        parsed.map_err(|_| PageError::Hostile("its parser has failed"))?
    }

    fn kind(&self, content_type: &str) -> Result<ContentKind, PageError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence {
            "text/html" | "application/xhtml+xml" => Ok(ContentKind::Html),
            "text/plain" | "text/markdown" | "application/json" if self.settings.reads_text => {
                Ok(ContentKind::Text)
            }
            "" => Err(PageError::NotHtml("unknown".to_owned())),
            other => Err(PageError::NotHtml(other.chars().take(100).collect())),
        }
    }
}

impl PageReader for WebReader {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        Box::pin(self.read_page(url))
    }
}

#[derive(Clone, Copy)]
enum ContentKind {
    Html,
    /// It is read as it is.
    Text,
}

/// A text takes this many times the bytes of its page, at most, once it is UTF-8.
const DECODED: usize = 3;

fn read_content(fetched: &FetchedPage, kind: ContentKind) -> Result<PageContent, PageError> {
    let received = fetched.body.len();
    let grow =
        |memory: &SharedMemory, bytes: usize| memory.grow(bytes).map_err(|_| PageError::NoMemory);
    grow(&fetched.memory, received * (1 + DECODED))?;
    let text = extract::decode(&fetched.body, &fetched.content_type);
    match kind {
        ContentKind::Html => {
            let shape = PageShape::of(&text)?;
            grow(&fetched.memory, received + shape.memory())?;
            extract::extract(&text, shape, &fetched.url)
        }
        ContentKind::Text if text.trim().is_empty() => Err(PageError::TooShort(0)),
        ContentKind::Text => Ok(PageContent {
            title: String::new(),
            canonical: None,
            published: None,
            markdown: text.into_owned(),
        }),
    }
}

fn page_of(fetched: &FetchedPage, content: PageContent, fetched_by: FetchStrategy) -> Arc<Page> {
    Arc::new(Page {
        url: fetched.url.to_string(),
        canonical: content.canonical,
        title: content.title,
        published: content.published,
        markdown: content.markdown,
        received_bytes: fetched.body.len(),
        fetched_by,
    })
}
