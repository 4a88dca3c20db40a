//! The search engines that can be asked.

use http::{HeaderMap, StatusCode};
use jiff::civil::Date;
use serde::Deserialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::answer::SearchReply;
use super::{
    EngineSettings, SearchError, SearchHit, WebQuery, WebRequest, brave, duckduckgo, exa,
    openrouter, perplexity, searxng, serpapi, serper, tavily,
};

/// A search engine, by its name in a configuration file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum SearchEngine {
    /// A SearXNG of the user.
    SearXng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Serper, which asks Google.
    Serper,
    /// SerpApi, which asks DuckDuckGo.
    SerpApi,
    /// The Search API of Perplexity.
    Perplexity,
    /// A model of OpenRouter that searches.
    OpenRouter,
    /// The page of DuckDuckGo for browsers without JavaScript.
    DuckDuckGo,
}

/// What the results of a search engine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum SearchKind {
    /// Pages that it ranks, with excerpts of them.
    Raw,
    /// Pages that a model has cited in a text of its own. They are no excerpts to quote from.
    Summary,
}

/// What is known of a search engine.
pub(super) struct EngineFacts {
    pub kind: SearchKind,
    /// The environment variables of its key, the usual one first; none if it takes no key.
    pub key_variables: &'static [&'static str],
    /// `None` if everybody has an address of their own.
    pub base_url: Option<&'static str>,
    pub request: fn(&WebQuery, &EngineSettings, Date) -> Result<WebRequest, SearchError>,
    pub read: fn(&SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError>,
}

impl SearchEngine {
    /// Its name in a configuration file.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What its results are.
    pub fn kind(self) -> SearchKind {
        self.facts().kind
    }

    /// Whether it answers those alone who have a key.
    pub fn needs_key(self) -> bool {
        !self.facts().key_variables.is_empty()
    }

    /// The environment variables in which its key usually is, the most usual first.
    pub fn key_variables(self) -> &'static [&'static str] {
        self.facts().key_variables
    }

    /// The address of its API; `None` for SearXNG, of which everybody has their own.
    pub fn base_url(self) -> Option<&'static str> {
        self.facts().base_url
    }

    /// The request of a search. `today` is the day in UTC. The error is that the key is missing or
    /// cannot be sent.
    pub fn request(
        self,
        query: &WebQuery,
        settings: &EngineSettings,
        today: Date,
    ) -> Result<WebRequest, SearchError> {
        (self.facts().request)(query, settings, today)
    }

    /// What an answer says. The results are as the search engine gives them: [`filter_hits`] keeps
    /// those that fit the query.
    ///
    /// [`filter_hits`]: super::filter_hits
    pub fn read(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Vec<SearchHit>, SearchError> {
        (self.facts().read)(&SearchReply {
            status,
            headers,
            body,
        })
    }

    fn facts(self) -> &'static EngineFacts {
        match self {
            Self::SearXng => &searxng::FACTS,
            Self::Brave => &brave::FACTS,
            Self::Tavily => &tavily::FACTS,
            Self::Exa => &exa::FACTS,
            Self::Serper => &serper::FACTS,
            Self::SerpApi => &serpapi::FACTS,
            Self::Perplexity => &perplexity::FACTS,
            Self::OpenRouter => &openrouter::FACTS,
            Self::DuckDuckGo => &duckduckgo::FACTS,
        }
    }
}
