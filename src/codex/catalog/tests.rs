use serde_json::{Value, json};

use super::*;
use crate::app::models::list::codex_infos;
use crate::app::models::list::tests::{REQUIRED, entry};

fn printed_models(models: &Value) -> String {
    json!({ "models": models }).to_string()
}

fn infos(slugs: [&str; 2]) -> Vec<Value> {
    codex_infos(&slugs.map(entry), "").collect()
}

#[test]
fn our_models_get_the_prompt_of_the_best_plain_model() {
    let printed = printed_models(&json!([
        {"slug": "newest", "base_instructions": "js", "tool_mode": "code_mode_only", "priority": 1},
        {"slug": "lite", "base_instructions": "lite", "use_responses_lite": true, "priority": 2},
        {"slug": "blank", "base_instructions": "", "priority": 3},
        {"slug": "hidden", "base_instructions": "hidden", "visibility": "hide", "priority": 4},
        {"slug": "kimi", "base_instructions": "ours, from an earlier run", "priority": 5},
        {"slug": "old", "base_instructions": "old", "visibility": "list", "priority": 9},
        {"slug": "plain", "base_instructions": "plain", "tool_mode": null, "visibility": "list",
         "priority": 8, "unknown": {"a": [1]}},
    ]));
    let catalog = build(&printed, infos(["kimi", "glm"])).unwrap();
    assert_eq!(catalog.prompt_model, "plain");

    let written: Value = serde_json::from_str(&catalog.json).unwrap();
    let models = written["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    for (model, slug) in models.iter().zip(["kimi", "glm"]) {
        assert_eq!(model["slug"], slug);
        assert_eq!(model["base_instructions"], "plain");
        assert!(REQUIRED.iter().all(|field| !model[*field].is_null()));
    }
}

/// Promise: Codex's own prompt is in the catalog of the setup and of `run codex` whatever models
/// this server and Codex have, and the model that is named is in it, also if no provider lists one.
#[test]
fn a_codex_without_another_plain_model_has_a_prompt_all_the_same() {
    let prompt = |printed: &Value| {
        let catalog = build(&printed_models(printed), infos(["kimi", "gpt-9"])).unwrap();
        let written: Value = serde_json::from_str(&catalog.json).unwrap();
        let prompt = written["models"][0]["base_instructions"].as_str().unwrap();
        (catalog.prompt_model, prompt.to_owned())
    };
    // Our own provider serves its only plain model.
    let code = json!({"slug": "new", "tool_mode": "code_mode_only", "use_responses_lite": true,
        "base_instructions": "Be brief.\nUse functions.exec for it.\nBe kind.\n", "priority": 1});
    let plain = json!({"slug": "gpt-9", "base_instructions": "plain", "priority": 9});
    let found = prompt(&json!([code, plain]));
    assert_eq!(found, ("gpt-9".to_owned(), "plain".to_owned()));
    // It has none at all. What is about code mode is left out.
    let found = prompt(&json!([code]));
    assert_eq!(
        found,
        ("new".to_owned(), "Be brief.\nBe kind.\n".to_owned())
    );
}

#[test]
fn unusable_output_of_codex_is_refused() {
    for printed in [
        "",
        "no",
        "[]",
        "{}",
        r#"{"models":{}}"#,
        r#"{"models":[{}]}"#,
    ] {
        let error = build(printed, Vec::new()).unwrap_err();
        assert!(
            matches!(error, CatalogError::NotAList { .. }),
            "{printed}: {error}"
        );
    }
    let without = printed_models(&json!([{"slug": "a"}, {"slug": "b", "base_instructions": " "}]));
    assert!(matches!(
        build(&without, Vec::new()),
        Err(CatalogError::NoPrompt)
    ));
}

#[tokio::test]
async fn the_error_for_a_missing_codex_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("codex");
    let error = run_codex_debug_models(program.as_os_str())
        .await
        .unwrap_err();
    assert!(matches!(error, CatalogError::NotFound { .. }));
    assert!(
        error.to_string().contains("npm install -g @openai/codex"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_output_or_the_error_of_the_command_is_returned() {
    let printed = run(OsStr::new("sh"), &["-c", "echo list; echo noise >&2"])
        .await
        .unwrap();
    assert_eq!(printed, "list\n");
    let error = run(
        OsStr::new("sh"),
        &["-c", "echo first >&2; echo why >&2; exit 2"],
    )
    .await;
    assert!(matches!(&error, Err(CatalogError::Failed { last_line }) if last_line == "why"));
}

#[test]
fn a_feature_is_there_unless_it_was_removed() {
    const LISTED: &str = "search_tool      stable             true\n\
        standalone_web_search                    under development  false\n\
        old              removed            false\n";
    for (name, expected) in [
        ("standalone_web_search", true),
        ("search_tool", true),
        ("web_search", false),
        ("old", false),
        ("", false),
    ] {
        assert_eq!(
            CodexFeatures(LISTED.to_owned()).has(name),
            expected,
            "{name}"
        );
    }
    assert!(!CodexFeatures::default().has("x"));
}
