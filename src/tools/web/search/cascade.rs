//! Asks search engines one after the other, until one has results.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::time::Instant;

use super::pause::EnginePause;
use super::{EngineSettings, SearchEngine, SearchError, SearchHit, WebQuery, filter_hits};
use crate::clock::Clock;
use crate::secrets::Redactor;
use crate::tools::web::client::{WebClient, WebError, WebLimits};

/// How long one search engine may take.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long all of them may take.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer of a search engine, in bytes.
const MAX_ANSWER: usize = 2 << 20;

/// Searches the web: the network, or a test.
pub trait Searcher: Send + Sync {
    /// Searches. Dropping the future ends the request that is on its way.
    fn search<'s>(&'s self, query: &'s WebQuery) -> SearchFuture<'s>;

    /// Whether a search would be sent nowhere now.
    fn is_paused(&self) -> bool {
        false
    }
}

/// A search that runs.
pub type SearchFuture<'s> = Pin<Box<dyn Future<Output = SearchOutcome> + Send + 's>>;

/// How a search went.
#[derive(Clone, Debug, Default)]
pub struct SearchOutcome {
    /// The search engine that answered; `None` if none did.
    pub engine: Option<SearchEngine>,
    /// What it found, at most as many as were asked for.
    pub hits: Vec<SearchHit>,
    /// The search engines that were asked, in their order.
    pub attempts: Vec<SearchAttempt>,
}

/// One search engine that was asked, or that was not because it is paused.
#[derive(Clone, Debug)]
pub struct SearchAttempt {
    /// The search engine.
    pub engine: SearchEngine,
    /// How long it took.
    pub took: Duration,
    /// How many results were kept, or why there are none.
    pub found: Result<usize, SearchFailure>,
    /// What it has cost in US dollars.
    pub cost: f64,
}

/// Why a search engine has no results.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SearchFailure {
    /// It refuses, or found nothing.
    #[error(transparent)]
    Refused(#[from] SearchError),
    /// There is no answer.
    #[error(transparent)]
    NoAnswer(#[from] WebError),
    /// It was not asked, because it has failed before.
    #[error("the search engine has failed and is asked again in {} seconds", .0.as_secs())]
    Paused(Duration),
    /// None of what it found fits the domains that were asked for.
    #[error("none of the results is of the domains that were asked for")]
    OtherDomains,
}

impl SearchFailure {
    /// The kind of failure, for metrics and the log, such as `rate_limit`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.into(),
            Self::NoAnswer(error) => error.into(),
            Self::Paused(_) => "paused",
            Self::OtherDomains => "other_domains",
        }
    }

    /// Whether the search engine has answered the search: what it refuses costs nothing.
    fn is_answer(&self) -> bool {
        match self {
            Self::Refused(refusal) => match refusal {
                SearchError::Empty | SearchError::BadReply => true,
                SearchError::Key(_)
                | SearchError::RateLimit { .. }
                | SearchError::Challenge
                | SearchError::Refused { .. } => false,
            },
            Self::OtherDomains => true,
            Self::NoAnswer(_) | Self::Paused(_) => false,
        }
    }
}

/// The search engines of a configuration, in the order in which they are asked.
pub struct SearchCascade {
    engines: Vec<CascadeEngine>,
    clock: Arc<dyn Clock>,
}

/// A search engine that can be asked.
pub struct CascadeEngine {
    engine: SearchEngine,
    settings: EngineSettings,
    /// Reaches its address: any that the operator has configured, public ones otherwise.
    client: WebClient,
    pause: EnginePause,
}

impl CascadeEngine {
    /// A search engine that was not asked yet.
    pub fn new(engine: SearchEngine, settings: EngineSettings, client: WebClient) -> Self {
        Self {
            engine,
            settings,
            client,
            pause: EnginePause::default(),
        }
    }

    async fn ask(
        &self,
        query: &WebQuery,
        unix: u64,
        timeout: Duration,
    ) -> Result<Vec<SearchHit>, SearchFailure> {
        if let Some(left) = self.pause.left(Instant::now()) {
            return Err(SearchFailure::Paused(left));
        }
        let found = self.send(query, unix, timeout).await;
        self.pause.note(found.as_ref().err(), Instant::now());
        let hits = found?;
        let found_any = !hits.is_empty();
        let hits = filter_hits(query, hits);
        match (hits.is_empty(), found_any) {
            (false, _) => Ok(hits),
            (true, true) => Err(SearchFailure::OtherDomains),
            (true, false) => Err(SearchError::Empty.into()),
        }
    }

    async fn send(
        &self,
        query: &WebQuery,
        unix: u64,
        timeout: Duration,
    ) -> Result<Vec<SearchHit>, SearchFailure> {
        let now = Timestamp::from_second(i64::try_from(unix).unwrap_or(i64::MAX));
        let today = now.unwrap_or(Timestamp::MAX);
        let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
        let request = self.engine.request(query, &self.settings, today)?;
        let limits = WebLimits {
            bytes: MAX_ANSWER,
            head: timeout,
            total: timeout,
        };
        let response = self.client.send(request, limits).await?;
        let (status, headers) = (response.status, &response.headers);
        let read = self.engine.read(status, headers, &response.body);
        Ok(read.map_err(|error| self.without_key(error))?)
    }

    /// The error without the key, which a refusal may quote.
    fn without_key(&self, error: SearchError) -> SearchError {
        match (error, &self.settings.key) {
            (SearchError::Refused { status, message }, Some(key)) => SearchError::Refused {
                status,
                message: Redactor::new([key]).redact(&message).into_owned(),
            },
            (error, _) => error,
        }
    }
}

impl SearchCascade {
    /// A cascade of these search engines.
    pub fn new(engines: Vec<CascadeEngine>, clock: Arc<dyn Clock>) -> Self {
        Self { engines, clock }
    }

    async fn ask_in_turn(&self, query: &WebQuery) -> SearchOutcome {
        let begun = Instant::now();
        let mut outcome = SearchOutcome::default();
        for engine in &self.engines {
            let left = TOTAL_TIMEOUT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let asked = Instant::now();
            let found = engine.ask(query, self.clock.unix(), left.min(ENGINE_TIMEOUT));
            let found = found.await;
            let is_answered = found
                .as_ref()
                .map_or_else(SearchFailure::is_answer, |_| true);
            let price = engine.settings.price;
            outcome.attempts.push(SearchAttempt {
                cost: if is_answered { price } else { 0.0 },
                engine: engine.engine,
                took: asked.elapsed(),
                found: found.as_ref().map(Vec::len).map_err(Clone::clone),
            });
            if let Ok(hits) = found {
                outcome.engine = Some(engine.engine);
                outcome.hits = hits;
                break;
            }
        }
        outcome
    }
}

impl Searcher for SearchCascade {
    fn search<'s>(&'s self, query: &'s WebQuery) -> SearchFuture<'s> {
        Box::pin(self.ask_in_turn(query))
    }

    fn is_paused(&self) -> bool {
        let now = Instant::now();
        let mut engines = self.engines.iter();
        engines.all(|engine| engine.pause.left(now).is_some())
    }
}
