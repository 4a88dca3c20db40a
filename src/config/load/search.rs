//! Loads `[search]`.

use std::path::Path;
use std::time::Duration;

use strum::VariantArray as _;
use url::Url;

use super::ConfigLoader;
use crate::config::address;
use crate::config::keys::{self, ApiKeys, KeyError, KeySources};
use crate::config::search::{
    BrowserlessConfig, BrowserlessSpec, ConfiguredSearchEngine, SearchConfig, SearchEngineName,
    SearchEngineSpec, SearchResultLimits, SearchSpec,
};
use crate::config::toml_file::TomlFile;

/// The usual variable with the token of Browserless.
const BROWSERLESS_VARIABLES: &[&str] = &["BROWSERLESS_TOKEN"];

/// The longest time that a browser waits after a page was loaded: loading takes up to 15 seconds,
/// and all of it up to 20.
const MAX_BROWSER_WAIT: Duration = Duration::from_secs(5);

/// A table of a search engine or of Browserless, with what messages need.
struct SearchTable<'a> {
    main: &'a TomlFile,
    name: &'static str,
    base_url: Option<&'a str>,
    allow_http: bool,
    keys: KeySources<'a>,
    /// The usual variables of its key.
    variables: &'static [&'static str],
}

impl ConfigLoader<'_> {
    /// Decides which search engines can be asked. One that is named without what it needs is left
    /// out, with a warning.
    pub(super) fn search(&mut self, main: &TomlFile, spec: &SearchSpec) {
        let is_named = spec.order.is_some();
        let order = spec.order.as_deref();
        let order = order.unwrap_or(SearchEngineName::VARIANTS);
        let mut engines: Vec<ConfiguredSearchEngine> = Vec::new();
        for (at, name) in order.iter().enumerate() {
            if order.iter().take(at).any(|before| before == name) {
                let why = format!("`order` names `{}` twice", name.name());
                self.fail(main.error(&["search", "order"], why));
                continue;
            }
            engines.extend(self.search_engine(main, *name, spec.engine(*name), is_named));
        }
        if let Some(chromium) = &spec.chromium {
            if !chromium.is_absolute() {
                let why = "`chromium` must be an absolute path".to_owned();
                self.fail(main.error(&["search", "chromium"], why));
            } else if !chromium.is_file() {
                let path = chromium.display();
                self.warn(format!("`chromium` of [search]: there is no file {path}"));
            }
        }
        let built = [cfg!(feature = "pdf"), cfg!(feature = "chromium")];
        for warning in without_feature(spec, built) {
            self.warn(warning);
        }
        self.config.search = SearchConfig {
            mode: spec.mode,
            engines,
            cache: Duration::from_mins(spec.cache_minutes.into()),
            robots: spec.robots,
            allow_plain_text: spec.allow_plain_text,
            allow_pdf: spec.allow_pdf,
            chromium: spec.chromium.clone(),
            max_searches: spec.max_searches,
            max_pages: spec.max_pages,
            browserless: self.browserless(main, &spec.browserless),
        };
    }

    /// A search engine, if it has what it needs. `is_named` says that the user wants it.
    fn search_engine(
        &mut self,
        main: &TomlFile,
        name: SearchEngineName,
        spec: &SearchEngineSpec,
        is_named: bool,
    ) -> Option<ConfiguredSearchEngine> {
        let table = SearchTable {
            main,
            name: name.name(),
            base_url: spec.base_url.as_deref(),
            allow_http: spec.allow_http,
            keys: spec.into(),
            variables: name.key_variables(),
        };
        let takes_key = !table.variables.is_empty();
        let takes_model = name == SearchEngineName::OpenRouter;
        let takes_limits = name == SearchEngineName::Perplexity;
        let limits = [
            ("max_results", spec.max_results),
            ("max_tokens", spec.max_tokens),
            ("max_tokens_per_page", spec.max_tokens_per_page),
        ];
        if let Some((key, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            self.fail_search(&table, key, &format!("{key} must be above zero"));
            return None;
        }
        let limits = limits.map(|(key, limit)| (key, limit.is_some() && !takes_limits));
        let others = [
            ("key", spec.key.is_some() && !takes_key),
            ("key_env", spec.key_env.is_some() && !takes_key),
            ("model", spec.model.is_some() && !takes_model),
        ];
        for (key, is_wrong) in others.into_iter().chain(limits) {
            if is_wrong {
                self.fail_search(&table, key, &format!("it takes no {key}"));
                return None;
            }
        }
        let price = spec.price_per_search;
        if price.is_some_and(|price| !(price >= 0.0 && price.is_finite())) {
            self.fail_search(&table, "price_per_search", "it must be 0 or more");
            return None;
        }
        let base_url = self.search_address(&table)?;
        let mut engine = ConfiguredSearchEngine {
            base_url,
            model: spec.model.clone(),
            limits: SearchResultLimits {
                results: spec.max_results,
                tokens: spec.max_tokens,
                tokens_per_page: spec.max_tokens_per_page,
            },
            price,
            ..ConfiguredSearchEngine::without_key(name)
        };
        let lacks = if takes_key {
            let keys = self.search_keys(&table)?;
            let origin = keys.as_ref().map(|keys| keys.origin.clone());
            engine.key = keys.and_then(|keys| keys.secrets.into_iter().next());
            engine.key_origin = origin;
            engine.key.is_none().then(|| match table.variables {
                [usual, ..] if table.base_url.is_none() => format!("a key: set {usual}, or give"),
                _ => "a key: give".to_owned(),
            } + " key_env or key")
        } else {
            let needs_address = name == SearchEngineName::SearXng && engine.base_url.is_none();
            needs_address.then(|| "base_url, the address of your instance".to_owned())
        };
        let Some(lacks) = lacks else {
            return Some(engine);
        };
        if is_named || spec.base_url.is_some() {
            self.warn(format!(
                "search engine `{}` is off: it needs {lacks}",
                table.name
            ));
        }
        None
    }

    fn browserless(
        &mut self,
        main: &TomlFile,
        spec: &BrowserlessSpec,
    ) -> Option<BrowserlessConfig> {
        let table = SearchTable {
            main,
            name: "browserless",
            base_url: spec.base_url.as_deref(),
            allow_http: spec.allow_http,
            keys: spec.into(),
            variables: BROWSERLESS_VARIABLES,
        };
        let base_url = self.search_address(&table)?;
        let token = self.search_keys(&table)??.secrets.into_iter().next()?;
        let wait_for_timeout = spec.wait_for_timeout;
        if wait_for_timeout > MAX_BROWSER_WAIT {
            let seconds = MAX_BROWSER_WAIT.as_secs();
            let why = format!("wait_for_timeout must be at most {seconds} seconds");
            self.fail_search(&table, "wait_for_timeout", &why);
            return None;
        }
        Some(BrowserlessConfig {
            base_url,
            token,
            wait_for_selector: spec.wait_for_selector.clone(),
            wait_for_timeout,
            on_server_errors: spec.on_server_errors,
        })
    }

    /// The address that a table gives, if it gives one; `None` if it is wrong.
    #[expect(clippy::option_option, reason = "a mistake, or none that is given")]
    fn search_address(&mut self, table: &SearchTable<'_>) -> Option<Option<Url>> {
        let Some(base_url) = table.base_url else {
            return Some(None);
        };
        if let Some(why) = address::base_url_error(base_url, table.allow_http) {
            self.fail_search(table, "base_url", why);
            return None;
        }
        Some(Url::parse(base_url).ok())
    }

    /// The keys of a table, or those in the usual variables. These hold keys for the usual address,
    /// so another one gets them only if the table names the variable. `None` if there is a mistake.
    #[expect(clippy::option_option, reason = "a mistake, or none that is given")]
    fn search_keys(&mut self, table: &SearchTable<'_>) -> Option<Option<ApiKeys>> {
        let environment = self.inputs.environment.as_ref();
        let found = keys::api_keys(&table.keys, environment, true, Path::to_owned);
        let found = match found {
            Ok(None) if table.base_url.is_none() => {
                let names: Vec<String> = table.variables.iter().map(ToString::to_string).collect();
                keys::default_keys(&names, environment)
            }
            found => found,
        };
        match found {
            Ok(keys) => Some(keys),
            Err(KeyError::Mistake(key, why)) => {
                self.fail_search(table, key, &why);
                None
            }
            Err(KeyError::Missing(why)) => {
                self.warn(format!("`{}` of [search] is off: {why}", table.name));
                None
            }
        }
    }

    fn fail_search(&mut self, table: &SearchTable<'_>, key: &str, why: &str) {
        let path = ["search", table.name, key];
        let why = format!("`{}` of [search]: {why}", table.name);
        self.fail(table.main.error(&path, why));
    }
}

/// What is set that needs the features `pdf` and `chromium`, if they are not built.
pub(super) fn without_feature(spec: &SearchSpec, built: [bool; 2]) -> Vec<String> {
    let [has_pdf, has_chromium] = built;
    let settings = [
        ("allow_pdf", "pdf", spec.allow_pdf && !has_pdf),
        (
            "chromium",
            "chromium",
            spec.chromium.is_some() && !has_chromium,
        ),
    ];
    let idle = settings.into_iter().filter(|(.., is_idle)| *is_idle);
    let warnings = idle.map(|(key, feature, _)| {
        format!(
            "`{key}` of [search] does nothing: this program was built without the feature `{feature}`"
        )
    });
    warnings.collect()
}
