//! Reads pages from the network: from their servers, else with a browser elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout};
use url::Url;

use super::client::{WebClient, WebError};
use super::dialler::{Dialler, WebDialler};
use super::extract::text::{json_content, max_json_bytes, text_content};
use super::extract::{self, PageContent, PageShape};
use super::fetch::browserless::{Browserless, BrowserlessError, BrowserlessSettings};
#[cfg(feature = "chromium")]
use super::fetch::chromium::Chromium;
use super::fetch::native::NativeFetcher;
use super::fetch::{FetchError, FetchLimits, FetchedPage, Fetcher, RobotRules, page_url};
use super::page::{FetchErrorCode, FetchStrategy, Page, PageError, PageFuture, PageReader};
#[cfg(feature = "pdf")]
use super::pdf::PdfReader;
use crate::net::blocking::run_at_low_priority;
use crate::net::memory::{ProcessMemory, SharedMemory};

/// How long a page may take: its server, and a browser elsewhere where the page needs one.
pub const PAGE_TIMEOUT: Duration = Duration::from_secs(45);

/// What an operator may choose.
#[derive(Clone, Debug, Default)]
pub struct ReaderSettings {
    /// Reads plain text, Markdown and JSON as well.
    pub reads_text: bool,
    /// Reads PDF files as well, by this program, which is the one that runs.
    pub pdf_program: Option<PathBuf>,
    /// Keeps the rules of servers for robots.
    pub keeps_robot_rules: bool,
    /// The browser elsewhere. Without it the answer of the server is final.
    pub browserless: Option<BrowserlessSettings>,
    /// The Chromium on this machine that gets pages which scripts fill.
    pub chromium: Option<PathBuf>,
    /// Asks the browser elsewhere also where the server of a page is in trouble.
    pub browses_on_server_errors: bool,
}

/// Reads pages from the network. One for the server, or for a command.
pub struct WebReader {
    /// Reaches public addresses only.
    client: WebClient,
    native: NativeFetcher,
    browserless: Option<Browserless>,
    #[cfg(feature = "chromium")]
    chromium: Option<Chromium>,
    #[cfg(feature = "pdf")]
    pdf: Option<PdfReader>,
    robots: Option<RobotRules>,
    settings: ReaderSettings,
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
        #[cfg(feature = "chromium")]
        let chromium = settings.chromium.clone().map(|program| {
            let dialler = WebDialler::public(Arc::clone(dialler));
            Chromium::new(program, dialler, memory.clone(), limits)
        });
        #[cfg(feature = "pdf")]
        let pdf = settings.pdf_program.clone();
        #[cfg(feature = "pdf")]
        let pdf = pdf.map(|program| PdfReader::new(program, memory.clone()));
        let robots = || RobotRules::new(public.clone());
        Self {
            native: NativeFetcher::new(public.clone(), limits),
            browserless,
            #[cfg(feature = "chromium")]
            chromium,
            #[cfg(feature = "pdf")]
            pdf,
            robots: settings.keeps_robot_rules.then(robots),
            client: public,
            settings,
        }
    }

    async fn read_page(&self, url: &str) -> Result<Arc<Page>, PageError> {
        let url = page_url(url)?;
        let began = Instant::now();
        let checked = self.check_robots(&url).await;
        log_stage("policy", &url, began, checked.is_ok());
        checked?;
        let mut last = url.clone();
        let failure = match self.read_native(&mut last).await {
            Ok(page) => return Ok(page),
            Err(failure) => failure,
        };
        if let Some(browserless) = &self.browserless
            && self.is_for_browsers(failure.code())
            && let Some(page) = self.browse(browserless, &url).await
        {
            return Ok(page);
        }
        // Nothing tells with which status a browser got a page, or where that was: here its server
        // has answered well, at the last address.
        #[cfg(feature = "chromium")]
        if let Some(chromium) = &self.chromium
            && failure.code() == FetchErrorCode::ContentTooShort
            && let Some(page) = self.run_scripts(chromium, &last).await
        {
            return Ok(page);
        }
        // The server of the page has refused: that is what its reader needs to know.
        Err(failure)
    }

    /// The page as its scripts make it, if they make one.
    #[cfg(feature = "chromium")]
    async fn run_scripts(&self, chromium: &Chromium, url: &Url) -> Option<Arc<Page>> {
        let began = Instant::now();
        let fetched = chromium.content(url).await;
        log_stage("fetch by chromium", url, began, fetched.is_ok());
        let fetched = fetched.inspect_err(|error| tracing::warn!(%error, "no page by Chromium"));
        let page = self.page(fetched.ok()?, FetchStrategy::Chromium).await;
        page.ok()
    }

    /// The page from its server. `url` becomes the address where it was at last.
    async fn read_native(&self, url: &mut Url) -> Result<Arc<Page>, PageError> {
        let began = Instant::now();
        let fetched = self.native.fetch(url).await;
        log_stage("fetch by native", url, began, fetched.is_ok());
        let fetched = fetched?;
        if fetched.url != *url {
            self.check_robots(&fetched.url).await?;
            url.clone_from(&fetched.url);
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
            | FetchErrorCode::LimitReached
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
        let began = Instant::now();
        let (fetched, strategy) = match browserless.content(url).await {
            Err(BrowserlessError::Page(StatusCode::FORBIDDEN)) => (
                browserless.unblock(url).await,
                FetchStrategy::BrowserlessUnblock,
            ),
            fetched => (fetched, FetchStrategy::BrowserlessContent),
        };
        log_stage("fetch by browserless", url, began, fetched.is_ok());
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
        let (url, began) = (fetched.url.clone(), Instant::now());
        let page = self.extract(fetched, fetched_by).await;
        log_stage("extract", &url, began, page.is_ok());
        page
    }

    async fn extract(
        &self,
        fetched: FetchedPage,
        fetched_by: FetchStrategy,
    ) -> Result<Arc<Page>, PageError> {
        let kind = match self.kind(&fetched.content_type)? {
            PageKind::Parsed(kind) => kind,
            PageKind::Pdf => return self.pdf_page(fetched, fetched_by).await,
        };
        let parsed = run_at_low_priority(move || {
            let content = read_content(&fetched, kind);
            content.map(|content| page_of(fetched, content, fetched_by))
        });
        let failed = Err(PageError::Hostile("its parser has failed"));
        parsed.await.unwrap_or(failed)
    }

    #[cfg(feature = "pdf")]
    async fn pdf_page(
        &self,
        fetched: FetchedPage,
        fetched_by: FetchStrategy,
    ) -> Result<Arc<Page>, PageError> {
        let pdf = self.pdf.as_ref().ok_or(PageError::NoPdf)?;
        let content = pdf.content(&fetched).await?;
        Ok(page_of(fetched, content, fetched_by))
    }

    #[cfg(not(feature = "pdf"))]
    #[expect(clippy::unused_async, reason = "with the parser it waits")]
    async fn pdf_page(&self, _: FetchedPage, _: FetchStrategy) -> Result<Arc<Page>, PageError> {
        Err(PageError::NoPdf)
    }

    fn kind(&self, content_type: &str) -> Result<PageKind, PageError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let if_on = |is_on: bool, switch, kind| {
            let off = || PageError::Off {
                kind: essence.to_owned(),
                switch,
            };
            is_on.then_some(kind).ok_or_else(off)
        };
        let text = |kind| {
            let is_on = self.settings.reads_text;
            if_on(is_on, "allow_plain_text", PageKind::Parsed(kind))
        };
        match essence {
            "text/html" | "application/xhtml+xml" => Ok(PageKind::Parsed(ContentKind::Html)),
            "text/plain" | "text/markdown" | "text/x-markdown" => text(ContentKind::Text),
            "application/json" | "text/json" => text(ContentKind::Json),
            "application/pdf" | "application/x-pdf" => {
                let is_on = self.settings.pdf_program.is_some();
                if_on(is_on, "allow_pdf", PageKind::Pdf)
            }
            "" => Err(PageError::NotHtml("unknown".to_owned())),
            other => Err(PageError::NotHtml(other.chars().take(100).collect())),
        }
    }
}

impl PageReader for WebReader {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        Box::pin(async move {
            tracing::debug!("stage open_page of a page begins");
            let read = timeout(PAGE_TIMEOUT, self.read_page(url)).await;
            read.unwrap_or_else(|_| Err(FetchError::from(WebError::Timeout(PAGE_TIMEOUT)).into()))
        })
    }
}

/// Logs the end of a stage of a page: of its address, the origin alone.
fn log_stage(stage: &str, url: &Url, began: Instant, is_ok: bool) {
    let ended = if is_ok { "took" } else { "failed after" };
    tracing::debug!(
        "stage {stage} of {} {ended} {} ms",
        url.origin().ascii_serialization(),
        began.elapsed().as_millis()
    );
}

/// Who reads a page.
#[derive(Clone, Copy)]
enum PageKind {
    /// A thread of this process.
    Parsed(ContentKind),
    /// A process of its own.
    Pdf,
}

#[derive(Clone, Copy)]
enum ContentKind {
    Html,
    /// It is read as it is.
    Text,
    Json,
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
        ContentKind::Text => text_content(text.into_owned(), &fetched.url),
        ContentKind::Json => {
            grow(
                &fetched.memory,
                received + text.len() + max_json_bytes(text.len()),
            )?;
            json_content(text.into_owned(), &fetched.url)
        }
    }
}

/// The page, with no more memory than its text takes.
fn page_of(fetched: FetchedPage, content: PageContent, fetched_by: FetchStrategy) -> Arc<Page> {
    let FetchedPage {
        url, body, memory, ..
    } = fetched;
    let received_bytes = body.len();
    drop(body);
    memory.set(content.markdown.len());
    Arc::new(Page {
        url: url.to_string(),
        canonical: content.canonical,
        title: content.title,
        published: content.published,
        markdown: content.markdown,
        received_bytes,
        fetched_by,
        memory: Some(memory),
    })
}
