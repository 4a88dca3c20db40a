use toml::Table;

use super::*;
use crate::RegistryError;
use crate::builtin::build;
use crate::discovery::ModelSet;

fn provider(id: &str, over: Table) -> Arc<Provider> {
    Arc::new(build(id, over).unwrap().to_provider(id))
}

fn registry(providers: &[Arc<Provider>]) -> Registry {
    Registry {
        providers: providers.to_vec(),
        ..Registry::default()
    }
}

/// Two providers with listed models, of which the second accepts any name.
fn two() -> Registry {
    registry(&[
        provider("openai", Table::new()),
        provider(
            "lab",
            toml::toml! {
                base_url = "https://lab.example/v1"
                models = [{ id = "gpt-5" }, { id = "meta-llama/Llama-3" }]
            },
        ),
    ])
}

fn full_name_and_match(registry: &Registry, name: &str) -> (String, ResolvedBy) {
    let route = registry.resolve(name, false).unwrap();
    (route.full_name(), route.resolved_by)
}

#[test]
fn a_provider_prefix_has_precedence_over_a_model_id() {
    let two = two();
    assert_eq!(
        full_name_and_match(&two, "lab/gpt-5"),
        ("lab/gpt-5".into(), ResolvedBy::Prefixed)
    );
    assert_eq!(
        full_name_and_match(&two, "gpt-5"),
        ("openai/gpt-5".into(), ResolvedBy::Exact)
    );
}

#[test]
fn a_model_id_may_contain_slashes() {
    let two = two();
    let llama = "lab/meta-llama/Llama-3".to_owned();
    assert_eq!(
        full_name_and_match(&two, "meta-llama/Llama-3"),
        (llama.clone(), ResolvedBy::Exact)
    );
    assert_eq!(
        full_name_and_match(&two, "lab/meta-llama/Llama-3"),
        (llama, ResolvedBy::Prefixed)
    );
}

#[test]
fn unlisted_names_go_to_the_only_provider_that_accepts_them() {
    let mut two = two();
    let qwen = "lab/qwen3".to_owned();
    assert_eq!(
        full_name_and_match(&two, "qwen3"),
        (qwen.clone(), ResolvedBy::Passthrough)
    );
    assert_eq!(
        full_name_and_match(&two, "lab/qwen3"),
        (qwen, ResolvedBy::Prefixed)
    );
    assert!(two.resolve("lab/", false).is_err());
    assert!(two.resolve("openai/gpt-99", false).is_err());

    two.providers.push(provider("vllm", Table::new()));
    let error = two.resolve("qwen3", false).unwrap_err().to_string();
    assert!(error.contains("lab/qwen3 or vllm/qwen3"), "{error}");
    assert_eq!(
        full_name_and_match(&two, "vllm/qwen3").1,
        ResolvedBy::Prefixed
    );
}

#[test]
fn an_alias_wins_over_a_model_of_its_name() {
    let mut two = two();
    two.aliases = vec![("gpt-5".into(), "lab/qwen3".into())];
    assert_eq!(two.check(), []);
    assert_eq!(
        full_name_and_match(&two, "gpt-5"),
        ("lab/qwen3".into(), ResolvedBy::Alias)
    );
}

#[test]
fn an_alias_of_an_alias_is_refused() {
    for target in ["a", "b"] {
        let mut two = two();
        two.aliases = vec![("a".into(), target.into()), ("b".into(), "gpt-5".into())];
        assert!(
            matches!(two.check()[..], [RegistryError::AliasOfAlias(..), ..]),
            "{target}"
        );
    }
}

#[test]
fn unknown_names_in_the_configuration_are_refused() {
    let mut only = registry(&[provider("openai", Table::new())]);
    only.aliases = vec![("fast".into(), "gpt-5-mimi".into())];
    let error = only.check().remove(0).to_string();
    assert!(
        error.contains("`fast`") && error.contains("gpt-5-mini"),
        "{error}"
    );
    only.aliases.clear();
    only.default_model = Some("nothing-like-it".into());
    assert!(matches!(
        only.check()[..],
        [RegistryError::UnresolvedDefault(_)]
    ));
}

#[test]
fn the_default_model_answers_only_codex() {
    let mut only = registry(&[provider("openai", Table::new())]);
    only.aliases = vec![("best".into(), "openai/gpt-5".into())];
    only.default_model = Some("best".into());
    assert_eq!(only.check(), []);
    let route = only.resolve("codex-helper", true).unwrap();
    assert_eq!(
        (route.full_name(), route.resolved_by),
        ("openai/gpt-5".into(), ResolvedBy::Default)
    );
    assert!(only.resolve("codex-helper", false).is_err());
    assert_eq!(
        only.resolve("gpt-4o", true).unwrap().resolved_by,
        ResolvedBy::Exact
    );
}

#[test]
fn the_default_model_has_precedence_over_a_provider_that_accepts_any_name() {
    let mut two = two();
    two.default_model = Some("gpt-5".into());
    assert_eq!(
        two.resolve("helper", true).unwrap().resolved_by,
        ResolvedBy::Default
    );
    assert_eq!(
        two.resolve("helper", false).unwrap().resolved_by,
        ResolvedBy::Passthrough
    );
}

#[test]
fn the_error_suggests_similar_names() {
    let only = registry(&[provider("openai", Table::new())]);
    let error = only.resolve("gpt-5-mimi", false).unwrap_err();
    assert_eq!(
        error.suggestions.first().map(String::as_str),
        Some("gpt-5-mini")
    );
    for (name, hint) in [
        ("vllm/qwen3", "'vllm' is off: configure it."),
        (
            "kimi-k33",
            "Did you mean kimi-k3? Its provider moonshot is off: set MOONSHOT_API_KEY.",
        ),
        (
            "deepseek/x",
            "'deepseek' is off: set DEEPSEEK_API_KEY or configure it.",
        ),
        (
            "kimi-k2.6",
            "'moonshot' is off: set MOONSHOT_API_KEY or configure it.",
        ),
        ("openai/x", "GET /v1/models"),
    ] {
        let error = only.resolve(name, false).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn a_shadowed_model_is_listed_as_provider_and_model() {
    let two = two();
    let names: Vec<String> = two.models().map(|(p, m)| two.public_name(p, &m)).collect();
    assert!(names.contains(&"gpt-5".to_owned()) && names.contains(&"lab/gpt-5".to_owned()));
    assert!(names.contains(&"meta-llama/Llama-3".to_owned()));
    for (provider, model) in two.models() {
        let route = two
            .resolve(&two.public_name(provider, &model), false)
            .unwrap();
        assert_eq!(
            (&route.provider.id, &route.model.id),
            (&provider.id, &model.id)
        );
    }
}

#[test]
fn the_address_of_an_embedded_provider_is_set_later() {
    let mut sandbox = registry(&[provider(builtin::SANDBOX, Table::new())]);
    let before = sandbox.clone();
    sandbox.set_base_url(builtin::SANDBOX, "http://127.0.0.1:1/v1");
    let route = sandbox.resolve("sandbox-1", false).unwrap();
    assert_eq!(route.provider.base_url, "http://127.0.0.1:1/v1");
    assert_eq!(before.providers[0].base_url, "");
}

/// The full names of the fallbacks of `requested`.
fn fallback_names(registry: &Registry, requested: &str) -> Vec<String> {
    let route = registry.resolve(requested, true).unwrap();
    let routes = registry.fallbacks(requested, &route);
    routes.iter().map(Route::full_name).collect()
}

fn with_fallbacks(fallbacks: &[(&str, &[&str])]) -> Registry {
    let mut two = two();
    two.aliases = vec![("fast".into(), "gpt-5".into())];
    two.fallbacks = fallbacks
        .iter()
        .map(|(of, others)| {
            let others = others.iter().map(|other| (*other).to_owned()).collect();
            ((*of).to_owned(), others)
        })
        .collect();
    two
}

#[test]
fn fallbacks_are_ordered_from_the_name_to_every_model() {
    let two = with_fallbacks(&[
        ("*", &["lab/last", "lab/for-alias"]),
        ("openai/gpt-5", &["lab/for-model"]),
        ("gpt-5", &["lab/for-target"]),
        ("fast", &["lab/for-alias", "fast"]),
    ]);
    assert_eq!(two.check(), []);
    assert_eq!(
        fallback_names(&two, "fast"),
        [
            "lab/for-alias",
            "lab/for-target",
            "lab/for-model",
            "lab/last"
        ]
    );
    assert_eq!(
        fallback_names(&two, "openai/gpt-5"),
        [
            "lab/for-model",
            "lab/for-target",
            "lab/last",
            "lab/for-alias"
        ]
    );
    assert_eq!(
        fallback_names(&two, "lab/other"),
        ["lab/last", "lab/for-alias"]
    );
    assert_eq!(fallback_names(&two, "lab/last"), ["lab/for-alias"]);
}

#[test]
fn unknown_names_have_the_fallbacks_of_the_default_model() {
    let mut two = with_fallbacks(&[("gpt-5", &["lab/gpt-5"])]);
    two.default_model = Some("fast".into());
    assert_eq!(fallback_names(&two, "gpt-unknown"), ["lab/gpt-5"]);
    assert_eq!(fallback_names(&two, "lab/gpt-5"), [""; 0]);
}

#[test]
fn an_unknown_name_with_or_as_a_fallback_is_refused() {
    for (of, other, unknown) in [
        ("*", "openai/gpt-99", "openai/gpt-99"),
        ("openai/gpt-98", "gpt-5", "openai/gpt-98"),
    ] {
        let error = with_fallbacks(&[(of, &[other])]).check().remove(0);
        let words = format!("fallbacks of `{of}`: there is no model `{unknown}`");
        assert!(error.to_string().starts_with(&words), "{error}");
    }
}

#[test]
fn a_new_model_of_a_known_family_goes_to_its_provider() {
    let maker = registry(&[
        provider("moonshot", Table::new()),
        provider("openai", Table::new()),
        provider("openrouter", Table::new()),
        provider("vllm", Table::new()),
    ]);
    for name in [
        "gpt-5.6-nova",
        "gpt-6.9-sol",
        "gpt-7-codex-mini",
        "gpt-5.9-pro",
    ] {
        let found = full_name_and_match(&maker, name);
        assert_eq!(found, (format!("openai/{name}"), ResolvedBy::Passthrough));
        let own = format!("openai/{name}");
        assert_eq!(
            full_name_and_match(&maker, &own),
            (own, ResolvedBy::Prefixed)
        );
    }
    // A name of no family is unknown, and so is one of a provider that is off or has a prefix.
    for name in [
        "gpt-55",
        "gpt-60-sol",
        "kimi-k33",
        "gtp-6-sol",
        "xai/gpt-6-sol",
        "grok-4.5",
        "vllm/",
        "moonshot/gpt-6-x",
    ] {
        assert!(maker.resolve(name, false).is_err(), "{name}");
    }
    let mut off = maker.clone();
    off.off = vec![off.providers.remove(1).as_ref().clone()];
    let error = off.resolve("gpt-6-sol", false).unwrap_err().to_string();
    assert!(error.contains("The provider 'openai' is off"), "{error}");
}

#[test]
fn a_new_model_has_what_the_nearest_one_of_its_family_has() {
    let openai = registry(&[provider("openai", Table::new())]);
    let model = openai.resolve("gpt-6.1-sol-next", false).unwrap().model;
    let listed = openai.resolve("gpt-6.1-sol", false).unwrap().model;
    assert_eq!(
        (&model.reasoning, model.window),
        (&listed.reasoning, listed.window)
    );
    assert!(model.unlisted && model.price.is_none() && !model.sampling);
    // No listed model is of this family.
    let deepseek = registry(&[provider("deepseek", Table::new())]);
    let model = deepseek.resolve("deepseek-r1-0528", false).unwrap().model;
    assert_eq!(*model, Model::unlisted("deepseek-r1-0528"));
}

#[test]
fn every_family_of_a_built_in_provider_can_be_asked_for() {
    for id in builtin::ids() {
        let file = build(id, Table::new()).unwrap();
        let alone = registry(&[provider(id, Table::new())]);
        for pattern in file.families.iter().flat_map(|family| &family.patterns.0) {
            let name = pattern.replace('*', "-9");
            let full = format!("{id}/{name}");
            assert_eq!(full_name_and_match(&alone, &full).0, full);
            let begins_with_provider = name.split('/').next().is_some_and(builtin::is_builtin);
            if !begins_with_provider && builtin::provider_listing(&name).is_none() {
                assert_eq!(full_name_and_match(&alone, &name).0, full);
            }
        }
    }
}

#[test]
fn a_provider_that_accepts_any_name_has_not_the_models_of_others() {
    let mut local = registry(&[provider("vllm", Table::new())]);
    for (name, is_served) in [
        ("my-role-model", true),
        ("vllm/gpt-6.1-terra", true),
        ("gpt-6.1-terra", false),
    ] {
        assert_eq!(local.serves(name), is_served, "{name}");
    }
    let list = ModelSet::new([Model::unlisted("coder:latest")]);
    local.discovered.set(&local.providers[0], list);
    for (name, is_served) in [
        ("coder", true),
        ("code", false),
        ("codex-auto-review", false),
    ] {
        assert_eq!(local.serves(name), is_served, "{name}");
    }
    local.providers.push(provider("openai", Table::new()));
    assert!(local.serves("gpt-6.1-terra"));
}

#[test]
fn a_family_of_every_model_takes_no_unknown_name() {
    let all = provider(
        "lab",
        toml::toml! {
            base_url = "https://lab.example/v1"
            passthrough = false
            models = [{ id = "one" }]
            families = [{ match = ["*"], quirks = { penalties = false } }]
        },
    );
    assert!(registry(&[all]).resolve("two", false).is_err());
}
