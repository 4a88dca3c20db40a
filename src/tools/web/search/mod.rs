//! Asks search engines: which requests they are sent and what their answers say. Only
//! [`cascade`] does I/O.
//!
//! | file | what it does |
//! |---|---|
//! | [`cascade`] | asks the search engines of a configuration one after the other |
//! | [`pause`] | when one that fails is asked again |
//! | [`engine`] | the search engines, with what a configuration needs to know of them |
//! | [`request`] | what the requests have in common, and the settings of a search engine |
//! | [`answer`] | what the answers have in common: refusals, and lists that may hold anything |
//! | [`filter`] | which results are kept |
//! | [`words`] | the words of a search, with `site:` operators |
//! | [`recency`] | the days of a search as dates and as periods |
//! | [`region`] | countries as DuckDuckGo names them |
//!
//! What a search engine is sent and answers, with the source of it, is in the file of its name:
//! [`searxng`], [`brave`], [`tavily`], [`exa`], [`serper`], [`serpapi`], [`perplexity`],
//! [`openrouter`] and [`duckduckgo`].

mod answer;
mod brave;
mod cascade;
mod duckduckgo;
mod engine;
mod exa;
mod filter;
mod openrouter;
mod pause;
mod perplexity;
mod recency;
mod region;
mod request;
mod searxng;
mod serpapi;
mod serper;
mod tavily;
#[cfg(test)]
mod tests;
mod words;

use http::StatusCode;
use serde::Deserialize;
use strum::IntoStaticStr;
use thiserror::Error;

use super::client::WebRequest;

pub use cascade::{
    CascadeEngine, SearchAttempt, SearchCascade, SearchFailure, SearchFuture, SearchOutcome,
    Searcher,
};
pub use engine::{SearchEngine, SearchKind};
pub use filter::{AllowedDomains, filter_hits, page_address};
pub use request::{EngineSettings, ResultLimits};

/// What is searched for. Made from the arguments of a tool call or of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WebQuery {
    /// The words.
    pub text: String,
    /// How many results are wanted; 0 leaves the number to the search engine.
    pub results: usize,
    /// Only results of these domains and of those below them, if there are any.
    pub allowed_domains: Vec<String>,
    /// No results of these domains and of those below them.
    pub blocked_domains: Vec<String>,
    /// Where the user is.
    pub location: Option<UserLocation>,
    /// Only results of the last days.
    pub recency_days: Option<u32>,
}

/// Where a user is, as the user has said it: `user_location` of the Responses API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct UserLocation {
    /// Two letters of ISO 3166-1.
    pub country: Option<String>,
    /// The region, as text.
    pub region: Option<String>,
    /// The city, as text.
    pub city: Option<String>,
    /// A time zone of IANA.
    pub timezone: Option<String>,
}

/// A page that a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHit {
    /// The address, as the search engine gives it.
    pub url: String,
    /// The title without markup.
    pub title: String,
    /// What the search engine shows of the page, without markup.
    pub snippet: String,
    /// When the page was published, as the search engine says it.
    pub published: Option<String>,
    /// How well the page fits, from 0 to 1, if the search engine says it.
    pub score: Option<f32>,
}

/// Why a search has no results.
#[derive(Clone, Debug, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SearchError {
    /// The key is missing, wrong or without money.
    #[error("the search engine does not accept the key ({0})")]
    Key(StatusCode),
    /// Too many searches.
    #[error("the search engine allows no more searches for now")]
    RateLimit {
        /// How long it asks to wait, in seconds.
        retry_after: Option<u64>,
    },
    /// The search engine takes the proxy for a robot.
    #[error("the search engine asks for proof of a human")]
    Challenge,
    /// Another refusal, with what it says.
    #[error("the search engine refuses the search ({status}): {message}")]
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// What it says, cut.
        message: String,
    },
    /// An answer of an unknown form.
    #[error("the search engine has answered something that cannot be read")]
    BadReply,
    /// It found nothing.
    #[error("the search engine has found nothing")]
    Empty,
}
