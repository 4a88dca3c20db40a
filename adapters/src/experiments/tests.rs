//! Refusals of strict servers, whose requests are encoded, refused and changed without a network.

use registry::{CallContent, Dialect, Model, RelayQuirks, WireQuirks};
use serde_json::{Value, json};

use super::*;
use crate::plan::{Bounds, plan};
use crate::quirk_patch::{ChatPatch, Parameter, QuirkPatch, SharedPatch};
use crate::refusal::change::ChangeScope;
use crate::responses::request::TurnSource;
use crate::wire::EncodeOptions;

/// A conversation with everything in it that somebody refuses.
fn request() -> Value {
    let image = |data: &str| json!({"type": "input_image", "image_url": data});
    json!({
        "model": "m", "instructions": "You look around.", "temperature": 0.3, "top_p": 0.9,
        "presence_penalty": 0.1, "parallel_tool_calls": true, "prompt_cache_key": "said-key",
        "reasoning": {"effort": "high"}, "max_output_tokens": 40_000, "stream": true,
        "input": [
            {"role": "developer", "content": "Use the tools."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "first words"},
                image("data:image/png;base64,b25l"), {"type": "input_text", "text": "more words"}]},
            {"type": "function_call", "call_id": "call_1", "name": "look",
                "arguments": "{\"at\": \"north\"}"},
            {"type": "function_call_output", "call_id": "call_1", "output": ""},
            {"role": "assistant", "content": [{"type": "output_text", "text": "an answer"}]},
            {"role": "developer", "content": "The time is noon."},
            {"role": "user", "content": [image("data:image/png;base64,dHdv")]},
        ],
        "tools": [
            {"type": "function", "name": "look", "description": "Looks.", "parameters": {
                "type": "object", "properties": {"at": {"type": "string", "pattern": "^[a-z]+$"}}}},
            {"type": "function", "name": "bad", "parameters": {
                "type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}}}},
        ],
    })
}

/// What became of a request.
#[derive(Debug)]
struct Outcome {
    /// How many requests were sent.
    requests: usize,
    /// The changes that have helped; none if nothing did.
    learned: Vec<Change>,
    /// The last request.
    body: Value,
}

/// Sends a request to a server that refuses what `refuse` says, with this text.
fn send(quirks: &WireQuirks, refuse: impl Fn(&Value) -> Option<Value>) -> Outcome {
    let source = TurnSource::new(request().to_string());
    let mut experiments = Experiments::default();
    let mut refused = Vec::new();
    let mut encoded = encode(&source, quirks, &experiments);
    for requests in 1..=5 {
        let body: Value = serde_json::from_slice(&encoded.0).unwrap();
        let Some(reply) = refuse(&body) else {
            let learned = experiments.succeed();
            let learned = learned.into_iter().map(|trial| trial.change).collect();
            return Outcome {
                requests,
                learned,
                body,
            };
        };
        let fault = wire::error(quirks, 400, None, reply.to_string().as_bytes());
        let sent = encoded.0.clone();
        let refusal = Refusal {
            fault: &fault,
            body: &sent,
            quirks: &encoded.1,
        };
        experiments.undo_useless(&refusal);
        refused.push(sent.clone());
        let mut again = None;
        let change = experiments.next(&refusal, |experiments, _| {
            let encoded = encode(&source, quirks, experiments);
            let differs = !refused.contains(&encoded.0);
            again = Some(encoded);
            differs
        });
        if change.is_none() {
            break;
        }
        encoded = again.unwrap();
    }
    Outcome {
        requests: 5,
        learned: Vec::new(),
        body: Value::Null,
    }
}

/// The request with the changes in force, and the quirks that it was encoded with.
fn encode(
    source: &TurnSource,
    quirks: &WireQuirks,
    experiments: &Experiments,
) -> (Vec<u8>, WireQuirks) {
    let mut quirks = *quirks;
    let mut model = Model {
        images: true,
        reasoning: vec!["low".to_owned(), "high".to_owned()],
        ..Model::unlisted("m")
    };
    for change in experiments.changes() {
        if let Change::Quirk(patch) = change {
            wire::apply_patch(*patch, &mut quirks, &mut model);
        }
    }
    let dialect = Dialect {
        quirks,
        body: Vec::new(),
    };
    let turn = source.turn().unwrap();
    let images: Vec<String> = turn.images().into_iter().map(|image| image.key).collect();
    let left_out = experiments.left_out(&LeftOut::default());
    let left_out = left_out.with_old_images(&images);
    let options = EncodeOptions {
        left_out: Some(&left_out),
        ..EncodeOptions::new(&dialect, &model, "m")
    };
    let plan = plan(&turn, &Bounds::none());
    let request = wire::encode(&turn, &plan, &options).unwrap();
    (request.encoded.body, quirks)
}

fn chat() -> WireQuirks {
    WireQuirks::default()
}

fn has(body: &Value, path: &str) -> bool {
    body.pointer(path).is_some()
}

/// Promise: A refusal is understood by what it names of the request, whatever its words are.
#[test]
fn the_same_refusal_is_understood_in_any_words() {
    let wordings = [
        json!({"error": {"message": "stream_options is not supported"}}),
        json!({"error": {"message": "streamOptions 不支持"}}),
        json!({"error": "the field `stream_options` cannot be used"}),
        json!({"detail": [{"loc": ["body", "stream_options"], "msg": "nope"}]}),
        json!({"errors": {"stream_options": ["darf nicht gesetzt sein"]}}),
        json!({"error": {"param": "stream_options"}}),
        json!("bad request: $.stream_options"),
    ];
    for reply in wordings {
        let outcome = send(&chat(), |body| {
            has(body, "/stream_options").then(|| reply.clone())
        });
        let omitted = SharedPatch::OmitParameter(Parameter::StreamOptions);
        assert_eq!(outcome.learned, [Change::Quirk(omitted.into())], "{reply}");
        assert_eq!(outcome.requests, 2, "{reply}");
    }
}

/// Promise: A change that does not help is undone, and the next one is tried.
#[test]
fn a_change_that_does_not_help_is_undone() {
    let content = |body: &Value, place: usize| body["messages"][place].get("content").cloned();
    let refuse = |body: &Value| {
        let content = content(body, 2);
        let is_text = content.and_then(|it| it.as_str().map(|text| !text.is_empty()));
        (is_text != Some(true)).then(|| json!({"error": {"message": "messages[2].content: ?"}}))
    };
    let outcome = send(&chat(), refuse);
    let text = ChatPatch::CallContent(CallContent::Text);
    assert_eq!(outcome.learned, [Change::Quirk(text.into())]);
    assert_eq!(outcome.requests, 4);
}

#[test]
fn another_refusal_is_progress() {
    let refuse = |body: &Value| {
        for name in ["stream_options", "top_p", "presence_penalty"] {
            if body.get(name).is_some() {
                return Some(json!({"error": format!("{name}: 🚫")}));
            }
        }
        None
    };
    let outcome = send(&chat(), refuse);
    assert_eq!((outcome.requests, outcome.learned.len()), (4, 3));
}

/// Promise: A tool whose schema is refused is offered with a plain one, and left out if that is
/// refused too. The model is told so.
#[test]
fn a_refused_tool_gets_a_plain_schema_and_is_left_out_at_last() {
    let tool = |body: &Value, name: &str| {
        let tools = body["tools"].as_array().unwrap().clone();
        let named = |tool: &Value| tool["function"]["name"] == name;
        tools.into_iter().find(named)
    };
    let any_of = |body: &Value| {
        let bad = tool(body, "bad").map(|tool| tool.to_string());
        let is_refused = bad.is_some_and(|bad| bad.contains("\"anyOf\""));
        is_refused.then(|| json!({"error": "函数 'bad' 的参数无效"}))
    };
    let outcome = send(&chat(), any_of);
    let plain = ContentChange::PlainSchema("bad".to_owned());
    assert_eq!(outcome.learned, [Change::Content(plain)]);
    let schema = &tool(&outcome.body, "bad").unwrap()["function"]["parameters"];
    assert_eq!(schema["properties"], json!({"a": {}}));
    // The model reads the whole one.
    assert!(schema["description"].as_str().unwrap().contains("anyOf"));
    assert!(
        tool(&outcome.body, "look")
            .unwrap()
            .to_string()
            .contains("pattern")
    );
    let any = |body: &Value| tool(body, "bad").map(|_| json!({"error": "函数 'bad' 无效"}));
    let outcome = send(&chat(), any);
    let without = ContentChange::WithoutTool("bad".to_owned());
    assert_eq!(outcome.learned, [Change::Content(without)]);
    let told = outcome.body["messages"].to_string();
    assert!(
        told.contains("The tool 'bad' is not available here"),
        "{told}"
    );
}

/// Promise: An image that is refused is replaced by a line of text, and the others are sent.
#[test]
fn the_image_that_is_named_is_left_out() {
    for quirks in [chat(), RelayQuirks::default().into()] {
        let refuse = |body: &Value| {
            let items = body.get("messages").or_else(|| body.get("input")).unwrap();
            let place = items
                .as_array()
                .unwrap()
                .iter()
                .position(|it| it.to_string().contains("dHdv"));
            place.map(|place| json!({"error": format!("messages[{place}]: image_url は無効です")}))
        };
        let outcome = send(&quirks, refuse);
        assert!(
            matches!(
                outcome.learned[..],
                [Change::Content(ContentChange::WithoutImage(_))]
            ),
            "{outcome:?}"
        );
        let body = outcome.body.to_string();
        assert!(body.contains("b25l"));
        assert!(body.contains("[An image was left out: the provider refused it.]"));
    }
}

#[test]
fn as_many_images_as_the_provider_takes_are_sent() {
    let count = |body: &Value| body.to_string().matches("base64").count();
    let refuse = |body: &Value| {
        let count = count(body);
        (count > 1).then(|| json!({"error": format!("{count} images, at most 1 image")}))
    };
    let outcome = send(&chat(), refuse);
    let newest = Change::Content(ContentChange::NewestImages(1));
    assert_eq!(outcome.learned, [newest]);
    assert!(outcome.body.to_string().contains("dHdv"));
}

#[test]
fn nothing_is_tried_where_nothing_is_named() {
    for message in ["Something went wrong.", "Ungültige Anfrage", "error 400"] {
        let outcome = send(&chat(), |_| Some(json!({"error": message})));
        assert!(outcome.learned.is_empty());
    }
}

/// Every patch that is learned for everybody, and what everybody has said.
///
/// Promise: What one owner's refusals teach takes nothing away that another one says.
#[test]
fn what_is_learned_for_all_takes_nothing_away() {
    const SAID: [&str; 12] = [
        "You look around.",
        "Use the tools.",
        "first words",
        "more words",
        "b25l",
        "dHdv",
        "north",
        "an answer",
        "The time is noon.",
        "\"bad\"",
        "^[a-z]+$",
        "40000",
    ];
    let source = TurnSource::new(request().to_string());
    let mut of_all = 0;
    for patch in every_patch() {
        let change = Change::Quirk(patch);
        if change.scope() != ChangeScope::Model {
            continue;
        }
        of_all += 1;
        for quirks in [chat(), RelayQuirks::default().into()] {
            let mut experiments = Experiments::default();
            experiments.trials.push(Trial {
                change: change.clone(),
                refusal: 0,
                text: String::new(),
                places: 0,
            });
            let (body, _) = encode(&source, &quirks, &experiments);
            let body = String::from_utf8(body).unwrap();
            for said in SAID {
                assert!(body.contains(said), "{patch}: {said} is not in {body}");
            }
        }
    }
    assert!(of_all > 15, "{of_all}");
}

/// A patch of every kind that needs no number.
fn every_patch() -> Vec<QuirkPatch> {
    let texts = [
        r#"{"model": ["no_sampling", "no_images", "no_audio"]}"#,
        r#"{"shared": ["no_reasoning", "no_effort", "no_image_urls", "no_files", "end_with_user",
            "no_agent_messages"]}"#,
        r#"{"chat": ["require_signatures", "no_signatures", "no_thinking_switch", "system_first",
            "answer_after_tool", "merge_user", "image_needs_text", "tool_names",
            "no_call_streaming", "thinking_unopened"]}"#,
    ];
    let mut patches = Vec::new();
    for text in texts {
        let groups: Value = serde_json::from_str(text).unwrap();
        for (part, names) in groups.as_object().unwrap() {
            for name in names.as_array().unwrap() {
                patches.push(json!({ part: name }));
            }
        }
    }
    for parameter in [
        "penalties",
        "logprobs",
        "parallel_tool_calls",
        "strict",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "include",
        "max_output_tokens",
        "phase",
        "prompt_cache_key",
        "cache_control",
        "service_tier",
        "verbosity",
        "reasoning_summary",
    ] {
        patches.push(json!({"shared": {"omit_parameter": parameter}}));
    }
    for (kind, values) in [
        (
            "max_tokens_field",
            &["max_tokens", "max_completion_tokens", "none"][..],
        ),
        ("require_reasoning", &["calls", "always"]),
        ("response_format", &["json_object", "none"]),
        ("call_content", &["empty", "omitted", "text"]),
        ("call_arguments", &["text", "object"]),
        ("content_form", &["parts", "joined_text", "string"]),
        ("call_ids", &["word", "nine_alphanumeric"]),
    ] {
        patches.extend(values.iter().map(|value| json!({"chat": {kind: value}})));
    }
    for role in ["system", "developer", "user"] {
        patches.push(json!({"shared": {"system_role": role}}));
    }
    patches.push(json!({"chat": {"message_limit": 10}}));
    patches.push(json!({"shared": {"schema": ["no_patterns"]}}));
    patches.push(json!({"shared": {"max_tools": 1}}));
    let read = |patch: Value| {
        serde_json::from_value(patch.clone()).unwrap_or_else(|error| panic!("{patch}: {error}"))
    };
    patches.into_iter().map(read).collect()
}
