//! `[search]`.
use super::*;
use crate::config::load::search::without_feature;
use crate::config::search::{SearchMode, SearchSpec};

/// The search engines that are asked, in their order, with their keys.
fn asked(inputs: &TestInputs) -> String {
    let config = inputs.config();
    let shown = |engine: &crate::config::search::ConfiguredSearchEngine| {
        let key = engine.key.as_ref().map_or("-", Secret::expose);
        format!("{}:{key}", engine.name.name())
    };
    let engines: Vec<String> = config.search.engines.iter().map(shown).collect();
    engines.join(" ")
}

#[test]
fn a_search_engine_is_asked_if_it_has_what_it_needs() {
    assert_eq!(asked(&TestInputs::new("")), "duckduckgo:-");
    let config = "[search.searxng]\nbase_url = \"http://localhost:8080\"\n\
        [search.exa]\nkey_env = \"MINE\"\n[search.tavily]\nkey = \"k-t\"";
    let inputs = TestInputs::new(config)
        .set("MINE", "k-mine")
        .set("SERPAPI_API_KEY", "k-s")
        .set("BRAVE_SEARCH_API_KEY", "k-b")
        .set("PPLX_API_KEY", "k-p");
    assert_eq!(
        asked(&inputs),
        "searxng:- brave:k-b tavily:k-t exa:k-mine serpapi:k-s perplexity:k-p duckduckgo:-"
    );
    assert!(inputs.config().warnings.is_empty());
}

/// The founding order: SerpAPI, OpenRouter, DuckDuckGo, each only with its key.
#[test]
fn an_order_names_the_search_engines_that_are_asked() {
    let founding = "[search]\norder = [\"serpapi\", \"openrouter\", \"duckduckgo\"]";
    let both = TestInputs::new(founding)
        .set("SERPAPI_API_KEY", "k-s")
        .set("OPENROUTER_API_KEY", "k-o")
        .set("BRAVE_API_KEY", "k-b");
    assert_eq!(asked(&both), "serpapi:k-s openrouter:k-o duckduckgo:-");
    let without = TestInputs::new(founding).set("OPENROUTER_API_KEY", "k-o");
    assert_eq!(asked(&without), "openrouter:k-o duckduckgo:-");
    assert_eq!(
        without.config().warnings,
        [
            "search engine `serpapi` is off: it needs a key: set SERPAPI_API_KEY, or give key_env or key"
        ]
    );
    assert_eq!(asked(&TestInputs::new("[search]\norder = []")), "");
    let off = TestInputs::new("[search]\nmode = \"off\"").config();
    assert_eq!(off.search.mode, SearchMode::Off);
}

/// Promise: A setting that needs a feature of the build is told, with the feature, by a program
/// that lacks it; and a Chromium that is not where the setting says.
#[test]
fn a_setting_that_does_nothing_is_told() {
    let spec = SearchSpec {
        allow_pdf: true,
        chromium: Some("/usr/bin/chromium".into()),
        ..SearchSpec::default()
    };
    let told = |built| without_feature(&spec, built).join("\n");
    let why = |key: &str, feature: &str| {
        format!(
            "`{key}` of [search] does nothing: this program was built without the feature `{feature}`"
        )
    };
    assert_eq!(told([true, true]), "");
    assert_eq!(told([false, true]), why("allow_pdf", "pdf"));
    assert_eq!(told([true, false]), why("chromium", "chromium"));
    let warned = TestInputs::new("[search]\nallow_pdf = true")
        .config()
        .warnings;
    assert_eq!(warned.is_empty(), cfg!(feature = "pdf"), "{warned:?}");
    let absent = TestInputs::new("[search]\nchromium = '/nonexistent'").config();
    let why = "`chromium` of [search]: there is no file /nonexistent";
    assert!(
        absent.warnings.iter().any(|it| it == why),
        "{:?}",
        absent.warnings
    );
}

#[test]
fn mistakes_in_search_are_told() {
    for (config, why) in [
        (
            "[search]\nchromium = \"chromium\"",
            "proxy-config.toml:2: `chromium` must be an absolute path",
        ),
        (
            "[search]\norder = [\"exa\", \"exa\"]",
            "proxy-config.toml:2: `order` names `exa` twice",
        ),
        (
            "[search]\norder = [\"bing\"]",
            "proxy-config.toml:2: `order`: expected one of `searxng`, `brave`, `tavily`, `exa`, \
             `serper`, `serpapi`, `perplexity`, `openrouter`, `duckduckgo`",
        ),
        (
            "[search.duckduckgo]\nkey = \"k\"",
            "proxy-config.toml:2: `duckduckgo` of [search]: it takes no key",
        ),
        (
            "[search.brave]\nmodel = \"m\"",
            "proxy-config.toml:2: `brave` of [search]: it takes no model",
        ),
        (
            "[search.brave]\nmax_tokens = 1",
            "proxy-config.toml:2: `brave` of [search]: it takes no max_tokens",
        ),
        (
            "[search.perplexity]\nmax_tokens_per_page = 0",
            "proxy-config.toml:2: `perplexity` of [search]: max_tokens_per_page must be above zero",
        ),
        (
            "[search.brave]\nprice_per_search = -1",
            "proxy-config.toml:2: `brave` of [search]: it must be 0 or more",
        ),
        (
            "[search.brave]\nkey = \"k\"\nkey_env = \"X\"",
            "proxy-config.toml:2: `brave` of [search]: give key_env or key, not both",
        ),
        (
            "[search.brave]\nbase_url = \"http://10.0.0.7/\"",
            "proxy-config.toml:2: `brave` of [search]: base_url is http to another host; use https \
             or set allow_http = true",
        ),
        (
            "[search.browserless]\ntoken = \"\"",
            "proxy-config.toml:2: `browserless` of [search]: token is empty",
        ),
        (
            "[search.browserless]\ntoken = \"t\"\nwait_for_timeout = \"6s\"",
            "proxy-config.toml:3: `browserless` of [search]: wait_for_timeout must be at most 5 seconds",
        ),
    ] {
        assert_eq!(error(config), why);
    }
}

/// Promise: The key of a search engine goes to its own address, unless the configuration gives it
/// to another one, and nothing that is logged, recorded or reported shows it.
#[test]
fn a_key_of_a_search_engine_is_not_moved_and_not_shown() {
    let moved = TestInputs::new("[search.brave]\nbase_url = \"https://other.example/\"")
        .set("BRAVE_API_KEY", "key-of-brave-1");
    assert_eq!(asked(&moved), "duckduckgo:-");
    assert_eq!(
        moved.config().warnings,
        ["search engine `brave` is off: it needs a key: give key_env or key"]
    );
    let config = "[search]\nchromium = \"/bin/sh\"\n[search.brave]\nprice_per_search = 0.005\n\
        [search.browserless]\ntoken_env = \"MINE\"";
    let inputs = TestInputs::new(config)
        .set("BRAVE_API_KEY", "key-of-brave-1")
        .set("MINE", "token-of-browserless-1");
    let config = inputs.config();
    assert!(config.search.browserless.is_some());
    let report = crate::config::report::report(&config);
    for line in [
        "search     brave (environment BRAVE_API_KEY, $0.005 a search), duckduckgo",
        "browser    Browserless gets pages that need one",
        "browser    /bin/sh gets pages that scripts fill",
    ] {
        assert!(report.contains(line), "{line} is not in\n{report}");
    }
    let told = "key-of-brave-1 token-of-browserless-1";
    let shown = format!("{report}{config:?}{}", config.redactor().redact(told));
    assert!(
        !shown.contains("brave-1") && !shown.contains("browserless-1"),
        "{shown}"
    );
}
