use serde_json::Value;

use super::*;

pub(crate) fn entry(slug: &str) -> CatalogEntry {
    CatalogEntry {
        slug: slug.to_owned(),
        other_slug: None,
        display_name: slug.to_uppercase(),
        description: format!("{slug} through Respondent"),
        owned_by: "someone".to_owned(),
        window: 262_144,
        auto_compact: CatalogEntry::default_auto_compact(262_144),
        images: false,
        reasoning: ["low", "high"].map(str::to_owned).to_vec(),
        default_reasoning: Some("high".to_owned()),
        hidden: false,
        tool_search: false,
    }
}

fn entries(count: usize) -> Vec<CatalogEntry> {
    (0..count)
        .map(|at| entry(&format!("vendor/some-model-{at}")))
        .collect()
}

fn parsed(body: &ModelListBody) -> Value {
    serde_json::from_str(&body.json).unwrap()
}

/// The fields without which Codex 0.169 drops the list, found by leaving out one at a
/// time.
pub(crate) const REQUIRED: [&str; 11] = [
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "base_instructions",
    "support_verbosity",
    "truncation_policy",
    "experimental_supported_tools",
];

#[test]
fn one_body_serves_sdks_and_codex() {
    let without_images = entry("kimi");
    let with_images = CatalogEntry {
        images: true,
        reasoning: vec![],
        ..entry("qwen")
    };
    let body = parsed(&build(&[without_images, with_images], "Be good."));

    assert_eq!(body["object"], "list");
    assert_eq!(
        body["data"][0],
        serde_json::json!({"id": "kimi", "object": "model", "created": 0, "owned_by": "someone"})
    );
    let models = body["models"].as_array().unwrap();
    for model in models {
        for field in REQUIRED {
            assert!(
                model.get(field).is_some_and(|value| !value.is_null()),
                "{field}"
            );
        }
        assert_eq!(model["apply_patch_tool_type"], "freeform");
        assert_eq!(model["base_instructions"], "Be good.");
        assert_eq!(model["context_window"], 262_144);
        assert_eq!(model["auto_compact_token_limit"], 235_929);
    }
    assert_eq!(models[0]["input_modalities"], serde_json::json!(["text"]));
    assert_eq!(
        models[1]["input_modalities"],
        serde_json::json!(["text", "image"])
    );
    assert_eq!(models[0]["supported_reasoning_levels"][1]["effort"], "high");
    assert_eq!(models[0]["default_reasoning_level"], "high");
    assert_eq!(models[1].get("default_reasoning_level"), None);
    assert_eq!(
        (&models[0]["priority"], &models[1]["priority"]),
        (&1.into(), &2.into())
    );
}

/// Promise: The window that Codex shows for Kimi models follows from the catalog: 95 % of 262,144.
/// Kimi models have a window of 262,144 tokens in the catalog; Codex shows 95 % of it, 249,036, and
/// compacts at 235,929.
#[test]
fn a_kimi_model_has_its_whole_window_of_which_codex_shows_95_percent() {
    let windows = ["kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code"].map(|id| {
        let provider = registry::builtin::provider_listing(id).unwrap();
        let spec = registry::build(provider, toml::Table::new()).unwrap();
        spec.to_provider(provider)
            .model(id)
            .unwrap()
            .window()
            .tokens
    });
    for window in windows {
        let kimi = CatalogEntry {
            window,
            auto_compact: CatalogEntry::default_auto_compact(window),
            ..entry("kimi")
        };
        let body = parsed(&build(&[kimi], "Be good."));
        let model = &body["models"][0];
        let number = |key: &str| model[key].as_u64().unwrap();
        assert_eq!(number("context_window"), 262_144);
        assert_eq!(number("max_context_window"), 262_144);
        assert_eq!(number("auto_compact_token_limit"), 235_929);
        let shown = number("context_window") * number("effective_context_window_percent") / 100;
        assert_eq!(shown, 249_036);
    }
}

#[test]
fn codex_lets_more_of_an_output_through_where_the_window_is_large() {
    for (window, tokens) in [
        (8_192, 10_000),
        (32_768, 10_000),
        (131_072, 16_384),
        (262_144, 32_768),
        (1_048_576, 32_768),
    ] {
        let model = CatalogEntry {
            window,
            ..entry("any")
        };
        let body = parsed(&build(&[model], "Be good."));
        assert_eq!(
            body["models"][0]["truncation_policy"],
            serde_json::json!({"mode": "tokens", "limit": tokens}),
            "{window}"
        );
    }
}

/// Promise: Codex knows a model by both of its names, with and without its provider: it offers
/// `apply_patch` for either and does not miss the model's metadata.
#[test]
fn a_model_has_an_entry_for_each_of_its_names() {
    let mut kimi = entry("kimi-k3");
    kimi.other_slug = Some("moonshot/kimi-k3".into());
    let body = parsed(&build(&[kimi, entry("glm-5")], "Work."));
    let models = body["models"].as_array().unwrap();
    let told: Vec<_> = models
        .iter()
        .map(|model| {
            (
                model["slug"].as_str().unwrap(),
                model["visibility"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("kimi-k3", "list"),
            ("glm-5", "list"),
            ("moonshot/kimi-k3", "hide")
        ]
    );
    assert_eq!(models[2]["context_window"], models[0]["context_window"]);
    assert_eq!(models[2]["apply_patch_tool_type"], "freeform");
    // An SDK sees each model once.
    assert_eq!(body["data"].as_array().unwrap().len(), 2);
}

#[test]
fn no_models_is_a_valid_body() {
    assert_eq!(build(&[], "x").json, EMPTY);
}

#[test]
fn three_hundred_models_keep_their_entries_under_the_limit() {
    let body = build(&entries(300), prompt::PROMPT);
    assert!(body.json.len() <= BODY_LIMIT, "{}", body.json.len());
    assert_eq!(body.dropped, 0);
    assert!(body.shortened > 0);

    let parsed = parsed(&body);
    let models = parsed["models"].as_array().unwrap();
    assert_eq!(
        (models.len(), parsed["data"].as_array().unwrap().len()),
        (300, 300)
    );
    for (at, model) in models.iter().enumerate() {
        let expected = if at < 300 - body.shortened {
            prompt::PROMPT
        } else {
            prompt::SHORT
        };
        assert_eq!(model["base_instructions"], expected, "{at}");
    }
}

#[test]
fn the_limit_holds_for_every_size() {
    let table: &[(usize, &str)] = &[
        (100, prompt::PROMPT),
        (100, "x"),
        (3, prompt::PROMPT),
        (100, "\u{1}\"\n"),
    ];
    for (count, instructions) in table {
        let models = entries(*count);
        for limit in (EMPTY.len()..120_000).step_by(9_973) {
            let body = build_within(limit, &models, instructions);
            assert!(body.json.len() <= limit, "{} > {limit}", body.json.len());
            let kept = parsed(&body)["models"].as_array().unwrap().len();
            assert_eq!(kept + body.dropped, *count);
            assert!(body.shortened <= kept);
        }
    }
}

#[test]
fn a_few_models_with_a_huge_prompt_of_the_users_keep_it_at_the_head() {
    let huge = "x".repeat(400 * 1024);
    let body = build(&entries(3), &huge);
    assert_eq!((body.shortened, body.dropped), (1, 0));
    assert!(body.json.len() <= BODY_LIMIT);
}
