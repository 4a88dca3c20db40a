use serde_json::Value;

use super::*;

pub(in crate::codex) fn entry(slug: &str) -> ModelEntry {
    ModelEntry {
        slug: slug.to_owned(),
        display_name: slug.to_uppercase(),
        description: format!("{slug} through Respondent"),
        owned_by: "someone".to_owned(),
        window: 262_144,
        auto_compact: ModelEntry::default_auto_compact(262_144),
        images: false,
        reasoning: ["low", "high"].map(str::to_owned).to_vec(),
        default_reasoning: Some("high".to_owned()),
    }
}

fn entries(count: usize) -> Vec<ModelEntry> {
    (0..count)
        .map(|at| entry(&format!("vendor/some-model-{at}")))
        .collect()
}

fn parsed(body: &Body) -> Value {
    serde_json::from_str(&body.json).unwrap()
}

/// The fields without which Codex 0.169 drops the list, measured by leaving
/// out one at a time.
pub(in crate::codex) const REQUIRED: [&str; 11] = [
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
    let blind = entry("kimi");
    let seeing = ModelEntry {
        images: true,
        reasoning: vec![],
        ..entry("qwen")
    };
    let body = parsed(&body(&[blind, seeing], "Be good."));

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
        assert_eq!(
            model["truncation_policy"],
            serde_json::json!({"mode": "tokens", "limit": 10_000})
        );
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

#[test]
fn no_models_is_a_valid_body() {
    assert_eq!(body(&[], "x").json, EMPTY);
}

#[test]
fn three_hundred_models_keep_their_entries_under_the_limit() {
    let body = body(&entries(300), prompt::PROMPT);
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
            let body = body_within(limit, &models, instructions);
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
    let body = body(&entries(3), &huge);
    assert_eq!((body.shortened, body.dropped), (1, 0));
    assert!(body.json.len() <= BODY_LIMIT);
}
