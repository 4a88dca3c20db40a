//! Searches of the web and the pages of it: `[search]`.

use std::path::PathBuf;
use std::time::Duration;

use registry::duration::{self, DurationText};
use registry::lists::OneOrMany;
use schemars::JsonSchema;
use serde::Deserialize;
use strum::{IntoStaticStr, VariantArray};
use url::Url;

use super::KeyOrigin;
use super::keys::KeySources;
use crate::secrets::Secret;

/// `[search]`, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct SearchSpec {
    /// Who searches the web for the models.
    pub mode: SearchMode,
    /// The search engines in the order in which they are asked, until one has results. If left out,
    /// all that have what they need.
    pub order: Option<Vec<SearchEngineName>>,
    /// How many minutes the results of a search are used again.
    pub cache_minutes: u32,
    /// Whether a page is read only if the `robots.txt` of its server allows it.
    pub robots: bool,
    /// Whether plain text, Markdown and JSON are pages that can be read.
    pub allow_plain_text: bool,
    /// Whether PDF files are pages that can be read, by a program with the feature `pdf`.
    pub allow_pdf: bool,
    /// The Chromium on this machine, as an absolute path, that gets pages which scripts fill, for a
    /// program with the feature `chromium`.
    pub chromium: Option<PathBuf>,
    /// The most searches of one answer; without a limit if absent.
    pub max_searches: Option<u32>,
    /// The most pages that one answer opens; without a limit if absent.
    pub max_pages: Option<u32>,
    /// Your instance of SearXNG, which needs its address.
    pub searxng: SearchEngineSpec,
    /// Brave Search.
    pub brave: SearchEngineSpec,
    /// Tavily.
    pub tavily: SearchEngineSpec,
    /// Exa.
    pub exa: SearchEngineSpec,
    /// Serper, which asks Google.
    pub serper: SearchEngineSpec,
    /// SerpApi, which asks DuckDuckGo.
    pub serpapi: SearchEngineSpec,
    /// The Search API of Perplexity.
    pub perplexity: SearchEngineSpec,
    /// A model of OpenRouter that searches.
    pub openrouter: SearchEngineSpec,
    /// The page of DuckDuckGo for browsers without JavaScript, which needs no key.
    pub duckduckgo: SearchEngineSpec,
    /// A browser elsewhere that gets pages which do not come without one.
    pub browserless: BrowserlessSpec,
}

impl Default for SearchSpec {
    fn default() -> Self {
        Self {
            mode: SearchMode::Auto,
            order: None,
            cache_minutes: 15,
            robots: false,
            allow_plain_text: false,
            allow_pdf: false,
            chromium: None,
            max_searches: None,
            max_pages: None,
            searxng: SearchEngineSpec::default(),
            brave: SearchEngineSpec::default(),
            tavily: SearchEngineSpec::default(),
            exa: SearchEngineSpec::default(),
            serper: SearchEngineSpec::default(),
            serpapi: SearchEngineSpec::default(),
            perplexity: SearchEngineSpec::default(),
            openrouter: SearchEngineSpec::default(),
            duckduckgo: SearchEngineSpec::default(),
            browserless: BrowserlessSpec::default(),
        }
    }
}

impl SearchSpec {
    /// The table of a search engine.
    pub(super) fn engine(&self, name: SearchEngineName) -> &SearchEngineSpec {
        match name {
            SearchEngineName::SearXng => &self.searxng,
            SearchEngineName::Brave => &self.brave,
            SearchEngineName::Tavily => &self.tavily,
            SearchEngineName::Exa => &self.exa,
            SearchEngineName::Serper => &self.serper,
            SearchEngineName::SerpApi => &self.serpapi,
            SearchEngineName::Perplexity => &self.perplexity,
            SearchEngineName::OpenRouter => &self.openrouter,
            SearchEngineName::DuckDuckGo => &self.duckduckgo,
        }
    }
}

/// How a search engine is reached, as it is written: `[search.<name>]`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct SearchEngineSpec {
    /// The address of its API.
    pub base_url: Option<String>,
    /// Whether `base_url` may be plain `http` to another machine.
    pub allow_http: bool,
    /// The environment variable with the key; the usual one of the search engine if nothing is set.
    pub key_env: Option<OneOrMany>,
    /// The key.
    pub key: Option<OneOrMany>,
    /// The model that searches, of OpenRouter alone.
    pub model: Option<String>,
    /// The most results of a search, of Perplexity alone.
    pub max_results: Option<u32>,
    /// The most tokens of all results, of Perplexity alone.
    pub max_tokens: Option<u32>,
    /// The most tokens of a result, of Perplexity alone.
    pub max_tokens_per_page: Option<u32>,
    /// What a search costs that it answers, in US dollars.
    pub price_per_search: Option<f64>,
}

impl<'a> From<&'a SearchEngineSpec> for KeySources<'a> {
    fn from(spec: &'a SearchEngineSpec) -> Self {
        Self {
            environment: ("key_env", spec.key_env.as_ref()),
            file: ("key_file", None),
            command: ("key_command", None),
            literal: ("key", spec.key.as_ref()),
        }
    }
}

/// `[search.browserless]`, as it is written.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct BrowserlessSpec {
    /// The address of the service.
    pub base_url: Option<String>,
    /// Whether `base_url` may be plain `http` to another machine.
    pub allow_http: bool,
    /// The environment variable with the token; BROWSERLESS_TOKEN if nothing is set.
    pub token_env: Option<OneOrMany>,
    /// The token. Without one, no browser is asked.
    pub token: Option<OneOrMany>,
    /// The browser waits until the page has an element with this CSS selector.
    pub wait_for_selector: Option<String>,
    /// The browser waits for this time after the page was loaded, at most 5 seconds.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub wait_for_timeout: Duration,
    /// Whether a page is asked of the browser also where its server answers with an error of its
    /// own, with a status of 500 to 599.
    pub on_server_errors: bool,
}

impl<'a> From<&'a BrowserlessSpec> for KeySources<'a> {
    fn from(spec: &'a BrowserlessSpec) -> Self {
        Self {
            environment: ("token_env", spec.token_env.as_ref()),
            file: ("token_file", None),
            command: ("token_command", None),
            literal: ("token", spec.token.as_ref()),
        }
    }
}

/// Who searches the web where a request offers `web_search`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// The provider, where its own search gives no less than that of this server, and else this
    /// server.
    #[default]
    Auto,
    /// The provider, where it has a search of its own that does what is asked, and else nobody.
    Native,
    /// This server.
    Proxy,
    /// This server searches nothing. A provider that takes the tool as it is gets it.
    Off,
}

/// A search engine that can be configured, in the order in which they are asked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum SearchEngineName {
    /// A SearXNG of the user.
    SearXng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Serper.
    Serper,
    /// SerpApi.
    SerpApi,
    /// Perplexity.
    Perplexity,
    /// OpenRouter.
    OpenRouter,
    /// DuckDuckGo.
    DuckDuckGo,
}

impl SearchEngineName {
    /// The name in the configuration file.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The environment variables of its key, the usual one first; none if it takes no key.
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::SearXng | Self::DuckDuckGo => &[],
            Self::Brave => &["BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"],
            Self::Tavily => &["TAVILY_API_KEY"],
            Self::Exa => &["EXA_API_KEY"],
            Self::Serper => &["SERPER_API_KEY"],
            Self::SerpApi => &["SERPAPI_API_KEY"],
            Self::Perplexity => &["PERPLEXITY_API_KEY", "PPLX_API_KEY"],
            Self::OpenRouter => &["OPENROUTER_API_KEY"],
        }
    }
}

/// Searches of the web, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchConfig {
    /// Who searches for the models.
    pub mode: SearchMode,
    /// The search engines that can be asked, in their order.
    pub engines: Vec<ConfiguredSearchEngine>,
    /// How long the results of a search are used again.
    pub cache: Duration,
    /// Whether the rules of servers for robots are kept.
    pub robots: bool,
    /// Whether plain text, Markdown and JSON are pages.
    pub allow_plain_text: bool,
    /// Whether PDF files are pages.
    pub allow_pdf: bool,
    /// The Chromium on this machine.
    pub chromium: Option<PathBuf>,
    /// The most searches of one answer, if they are limited.
    pub max_searches: Option<u32>,
    /// The most pages that one answer opens, if they are limited.
    pub max_pages: Option<u32>,
    /// The browser elsewhere, if there is one.
    pub browserless: Option<BrowserlessConfig>,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            mode: SearchMode::Auto,
            engines: vec![ConfiguredSearchEngine::without_key(
                SearchEngineName::DuckDuckGo,
            )],
            cache: Duration::from_mins(15),
            robots: false,
            allow_plain_text: false,
            allow_pdf: false,
            chromium: None,
            max_searches: None,
            max_pages: None,
            browserless: None,
        }
    }
}

/// A search engine that has what it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredSearchEngine {
    /// Which one.
    pub name: SearchEngineName,
    /// The address of its API, if it is not the usual one.
    pub base_url: Option<Url>,
    /// The key, if it takes one.
    pub key: Option<Secret>,
    /// Where the key comes from.
    pub key_origin: Option<KeyOrigin>,
    /// The model that searches.
    pub model: Option<String>,
    /// How much it sends.
    pub limits: SearchResultLimits,
    /// What a search costs that it answers, in US dollars, if that is known.
    pub price: Option<f64>,
}

impl ConfiguredSearchEngine {
    /// A search engine at its usual address.
    pub(super) fn without_key(name: SearchEngineName) -> Self {
        Self {
            name,
            base_url: None,
            key: None,
            key_origin: None,
            model: None,
            limits: SearchResultLimits::default(),
            price: None,
        }
    }
}

/// How much a search engine sends, where that can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchResultLimits {
    /// The most results, if not those that are asked for.
    pub results: Option<u32>,
    /// The most tokens of all results.
    pub tokens: Option<u32>,
    /// The most tokens of a result.
    pub tokens_per_page: Option<u32>,
}

/// A browser elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserlessConfig {
    /// The address of the service, if it is not the usual one.
    pub base_url: Option<Url>,
    /// The token.
    pub token: Secret,
    /// What the browser waits for.
    pub wait_for_selector: Option<String>,
    /// How long it waits after the page was loaded.
    pub wait_for_timeout: Duration,
    /// Whether it is asked also where a server is in trouble.
    pub on_server_errors: bool,
}
