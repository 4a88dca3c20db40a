//! Web tools as a configuration says.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use url::Url;

use super::web::client::WebClient;
use super::web::dialler::{Dialler, SystemDialler, WebDialler};
use super::web::fetch::browserless::{BASE_URL, BrowserlessSettings};
use super::web::reader::{ReaderSettings, WebReader};
use super::web::search::{
    CascadeEngine, EngineSettings, ResultLimits, SearchCascade, SearchEngine,
};
use super::web::service::WebTools;
use crate::clock::System;
use crate::config::SEARCH_MEMORY;
use crate::config::search::{ConfiguredSearchEngine, SearchConfig, SearchEngineName};
use crate::net::memory::ProcessMemory;

/// Web tools that reach the network as this configuration says, and take memory from this budget.
/// An error is one of TLS.
pub fn web_tools(search: &SearchConfig, memory: &ProcessMemory) -> Result<WebTools, rustls::Error> {
    let network = Network::of_system(memory)?;
    let engines = search.engines.iter();
    let engines = engines.filter_map(|of| cascade_engine(&network, of));
    let cascade = SearchCascade::new(engines.collect(), Arc::new(System));
    let Network { dialler, tls, .. } = &network;
    let reader = WebReader::new(dialler, tls, memory, reader_settings(search));
    let tools = WebTools::new(Arc::new(cascade), Arc::new(reader));
    Ok(tools.with_cache(search.cache, SEARCH_MEMORY))
}

/// The search engines of this configuration, each as a cascade of its own, to try them.
pub fn single_engines(
    search: &SearchConfig,
) -> Result<Vec<(SearchEngineName, SearchCascade)>, rustls::Error> {
    let network = Network::of_system(&ProcessMemory::unlimited())?;
    let alone = |of: &ConfiguredSearchEngine| {
        let engines = cascade_engine(&network, of).into_iter().collect();
        (of.name, SearchCascade::new(engines, Arc::new(System)))
    };
    Ok(search.engines.iter().map(alone).collect())
}

/// How servers are reached.
struct Network {
    dialler: Arc<dyn Dialler>,
    tls: Arc<ClientConfig>,
    memory: ProcessMemory,
}

impl Network {
    fn of_system(memory: &ProcessMemory) -> Result<Self, rustls::Error> {
        Ok(Self {
            dialler: Arc::new(SystemDialler),
            tls: Arc::new(tls()?),
            memory: memory.clone(),
        })
    }

    /// A client that reaches public addresses only, or any if the operator has configured one.
    fn client(&self, configured: Option<&Url>) -> WebClient {
        let reach = match configured {
            None => WebDialler::public,
            Some(_) => WebDialler::any,
        };
        let client = WebClient::new(reach(Arc::clone(&self.dialler)), Arc::clone(&self.tls));
        client.with_memory(self.memory.clone())
    }
}

/// TLS with the certificates of the system.
pub(super) fn tls() -> Result<ClientConfig, rustls::Error> {
    let builder = || {
        let provider = Arc::new(ring::default_provider());
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    };
    let trusting = match builder()?.with_platform_verifier() {
        Ok(trusting) => trusting,
        Err(error) => {
            tracing::warn!(
                "the web is searched without https, because the system has no certificates: {error}"
            );
            builder()?.with_root_certificates(RootCertStore::empty())
        }
    };
    Ok(trusting.with_no_client_auth())
}

fn reader_settings(search: &SearchConfig) -> ReaderSettings {
    let browserless = search.browserless.as_ref();
    let browserless = browserless.and_then(|of| {
        let usual = || Url::parse(BASE_URL).ok();
        Some(BrowserlessSettings {
            base_url: of.base_url.clone().or_else(usual)?,
            token: of.token.clone(),
            wait_for_selector: of.wait_for_selector.clone(),
            wait_for_timeout: Some(of.wait_for_timeout).filter(|wait| !wait.is_zero()),
        })
    });
    ReaderSettings {
        reads_text: search.allow_plain_text,
        pdf_program: search.allow_pdf.then(own_program),
        keeps_robot_rules: search.robots,
        browserless,
        chromium: search.chromium.clone(),
        browses_on_server_errors: search
            .browserless
            .as_ref()
            .is_some_and(|of| of.on_server_errors),
    }
}

/// The file of this program. Linux has a name for it that is right after an update too.
fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_default()
}

/// A search engine; `None` if it has no address.
fn cascade_engine(network: &Network, of: &ConfiguredSearchEngine) -> Option<CascadeEngine> {
    let engine = engine(of.name);
    let usual = || Url::parse(engine.base_url()?).ok();
    let settings = EngineSettings {
        base_url: of.base_url.clone().or_else(usual)?,
        key: of.key.clone(),
        model: of.model.clone(),
        limits: ResultLimits {
            results: of.limits.results,
            tokens: of.limits.tokens,
            tokens_per_page: of.limits.tokens_per_page,
        },
        price: of.price.unwrap_or_default(),
    };
    let client = network.client(of.base_url.as_ref());
    Some(CascadeEngine::new(engine, settings, client))
}

/// The search engine of a name in the configuration.
fn engine(name: SearchEngineName) -> SearchEngine {
    match name {
        SearchEngineName::SearXng => SearchEngine::SearXng,
        SearchEngineName::Brave => SearchEngine::Brave,
        SearchEngineName::Tavily => SearchEngine::Tavily,
        SearchEngineName::Exa => SearchEngine::Exa,
        SearchEngineName::Serper => SearchEngine::Serper,
        SearchEngineName::SerpApi => SearchEngine::SerpApi,
        SearchEngineName::Perplexity => SearchEngine::Perplexity,
        SearchEngineName::OpenRouter => SearchEngine::OpenRouter,
        SearchEngineName::DuckDuckGo => SearchEngine::DuckDuckGo,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use strum::VariantArray as _;

    use super::*;
    use crate::config::search::BrowserlessConfig;
    use crate::secrets::Secret;

    /// Promise: What Browserless waits for, and whether it is asked where a server is in trouble,
    /// is as the operator has set it.
    #[test]
    fn a_browser_elsewhere_is_asked_as_it_is_configured() {
        for (selector, wait, on_server_errors) in [(None, 0, false), (Some("main"), 2, true)] {
            let search = SearchConfig {
                browserless: Some(BrowserlessConfig {
                    base_url: None,
                    token: Secret::new("t").unwrap(),
                    wait_for_selector: selector.map(str::to_owned),
                    wait_for_timeout: Duration::from_secs(wait),
                    on_server_errors,
                }),
                ..SearchConfig::default()
            };
            let settings = reader_settings(&search);
            assert_eq!(settings.browses_on_server_errors, on_server_errors);
            let browserless = settings.browserless.unwrap();
            assert_eq!(browserless.wait_for_selector.as_deref(), selector);
            let expected = (wait > 0).then(|| Duration::from_secs(wait));
            assert_eq!(browserless.wait_for_timeout, expected);
        }
    }

    #[test]
    fn names_and_key_variables_are_those_of_the_search_engines() {
        for name in SearchEngineName::VARIANTS {
            let engine = engine(*name);
            assert_eq!(name.name(), engine.name());
            assert_eq!(name.key_variables(), engine.key_variables());
        }
        assert_eq!(
            SearchEngineName::VARIANTS.len(),
            SearchEngine::VARIANTS.len()
        );
    }
}
