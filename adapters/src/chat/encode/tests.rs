//! The effect of each quirk on the body, messages aside.

use std::collections::HashMap;

use registry::{ChatQuirks, Dialect, Model, WireQuirks};
use serde_json::{Value, json};

use crate::chat::refusals::find_patch;
use crate::encoded::Encoded;
use crate::fault::{Fault, Kind};
use crate::plan::{Bounds, plan};
use crate::provider_error;
use crate::responses::request::TurnSource;
use crate::wire::{self, EncodeOptions, encode};

/// The messages and the note codes for an unlisted model.
fn messages(images: bool, input: &Value) -> (Value, String) {
    let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
    let turn = source.turn().unwrap();
    let model = Model {
        images,
        ..Model::unlisted("m")
    };
    let dialect = Dialect::default();
    let options = EncodeOptions::new(&dialect, &model, "m");
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)
        .unwrap()
        .encoded;
    let mut body: Value = serde_json::from_slice(&encoded.body).unwrap();
    (body["messages"].take(), encoded.notes.codes())
}

#[test]
fn a_model_without_vision_gets_no_image() {
    let input = json!([
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
        {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
    ]);
    let (without_vision, notes) = messages(false, &input);
    assert!(
        !without_vision.to_string().contains("image_url"),
        "{without_vision}"
    );
    assert_eq!(without_vision.to_string().matches("left out").count(), 2);
    assert_eq!(notes, "image_dropped");
    let last = without_vision
        .as_array()
        .and_then(|all| all.last())
        .unwrap();
    assert_eq!(
        last["role"], "tool",
        "the line belongs into the result: {without_vision}"
    );
    let (with_vision, notes) = messages(true, &input);
    assert_eq!(
        with_vision.to_string().matches("\"image_url\":{").count(),
        2
    );
    assert_eq!(notes, "image_moved");
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    for (arguments, sent, note) in [
        (r#"{"a":1}"#, r#"{"a":1}"#, ""),
        (" {} ", " {} ", ""),
        ("", "{}", ""),
        (
            r#"{"a":"#,
            r#"{"arguments":"{\"a\":"}"#,
            "arguments_wrapped",
        ),
        ("[1]", r#"{"arguments":"[1]"}"#, "arguments_wrapped"),
        (
            "line\n\"x\"",
            r#"{"arguments":"line\n\"x\""}"#,
            "arguments_wrapped",
        ),
    ] {
        let input = json!([{"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}, {"type": "function_call_output", "call_id": "c", "output": ""}]);
        let (messages, notes) = messages(true, &input);
        let call = &messages[0]["tool_calls"][0]["function"];
        assert_eq!(call["arguments"], sent, "{arguments}");
        assert_eq!(notes, note, "{arguments}");
    }
}

/// The target of a request: quirks as TOML, fixed fields, and the model.
struct Target {
    quirks: String,
    body: Vec<(&'static str, &'static str)>,
    model: Model,
}

fn target(quirks: &str) -> Target {
    Target {
        quirks: quirks.to_owned(),
        body: Vec::new(),
        model: Model::unlisted("m"),
    }
}

/// A model with these effort levels.
fn thinker(quirks: &str, levels: &[&str]) -> Target {
    let mut target = target(quirks);
    target.model.reasoning = levels.iter().map(|level| (*level).to_owned()).collect();
    target
}

impl Target {
    fn encode(&self, request: &Value) -> (Value, Encoded) {
        let quirks: ChatQuirks = toml::from_str(&self.quirks).unwrap();
        let fields = self.body.iter();
        let dialect = Dialect {
            quirks: quirks.into(),
            body: fields
                .map(|(name, json)| ((*name).into(), (*json).into()))
                .collect(),
        };
        let mut request = request.clone();
        request["model"] = json!("m");
        if request.get("input").is_none() {
            request["input"] = json!("Go.");
        }
        let source = TurnSource::new(request.to_string());
        let turn = source.turn().unwrap();
        let options = EncodeOptions::new(&dialect, &self.model, "m");
        let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)
            .unwrap()
            .encoded;
        let mut body: HashMap<String, Value> = serde_json::from_slice(&encoded.body).unwrap();
        for name in ["model", "messages", "stream", "stream_options"] {
            body.remove(name);
        }
        (json!(body), encoded)
    }

    /// The body without the fields of every request, and the note codes.
    fn body(&self, request: &Value) -> (Value, String) {
        let (body, encoded) = self.encode(request);
        (body, encoded.notes.codes())
    }
}

#[test]
fn parameters_are_sent_to_providers_that_accept_them() {
    let sampling = json!({"temperature": 1.5, "top_p": 0.5, "presence_penalty": 0.25,
        "frequency_penalty": 0.25, "top_logprobs": 2});
    let services =
        json!({"service_tier": "flex", "prompt_cache_key": "k", "text": {"verbosity": "low"}});
    let fixed = Target {
        model: Model {
            sampling: false,
            ..Model::unlisted("m")
        },
        ..target("")
    };
    let all = "verbosity = true\nservice_tier = true\nprompt_cache_key = true";
    for (target, request, fields, notes) in [
        (
            target(""),
            &sampling,
            json!({"temperature": 1.5, "top_p": 0.5, "presence_penalty": 0.25,
                "frequency_penalty": 0.25, "logprobs": true, "top_logprobs": 2}),
            "",
        ),
        (fixed, &sampling, json!({}), "parameter_dropped"),
        (
            target("max_temperature = 1.0\npenalties = false\nlogprobs = false"),
            &sampling,
            json!({"temperature": 1.0, "top_p": 0.5}),
            "temperature_lowered,parameter_dropped",
        ),
        (target(""), &services, json!({}), "parameter_dropped"),
        (
            thinker(all, &["low"]),
            &services,
            json!({"verbosity": "low", "service_tier": "flex", "prompt_cache_key": "k"}),
            "",
        ),
    ] {
        assert_eq!(
            target.body(request),
            (fields, notes.to_owned()),
            "{}",
            target.quirks
        );
    }
}

#[test]
fn effort_is_written_for_every_reasoning_control() {
    let steps = ["low", "high", "max"];
    let switch = ["none", "high"];
    for (control, levels, wanted, fields) in [
        ("none", &steps[..], "high", json!({})),
        ("effort", &[], "high", json!({})),
        ("thinking", &[], "none", json!({})),
        (
            "effort",
            &steps,
            "high",
            json!({"reasoning_effort": "high"}),
        ),
        (
            "effort",
            &steps,
            "medium",
            json!({"reasoning_effort": "high"}),
        ),
        (
            "effort",
            &steps,
            "xhigh",
            json!({"reasoning_effort": "max"}),
        ),
        ("effort", &steps, "none", json!({"reasoning_effort": "low"})),
        (
            "effort",
            &switch,
            "low",
            json!({"reasoning_effort": "high"}),
        ),
        (
            "effort",
            &switch,
            "minimal",
            json!({"reasoning_effort": "none"}),
        ),
        (
            "thinking",
            &switch,
            "none",
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "thinking",
            &switch,
            "minimal",
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "thinking",
            &switch,
            "low",
            json!({"thinking": {"type": "enabled"}}),
        ),
        (
            "thinking",
            &steps,
            "none",
            json!({"thinking": {"type": "enabled"}}),
        ),
        (
            "thinking_and_effort",
            &steps,
            "none",
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "thinking_and_effort",
            &switch,
            "minimal",
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "thinking_and_effort",
            &steps,
            "xhigh",
            json!({"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ),
        (
            "enable_thinking",
            &switch,
            "none",
            json!({"enable_thinking": false}),
        ),
        (
            "enable_thinking",
            &switch,
            "high",
            json!({"enable_thinking": true}),
        ),
        (
            "reasoning",
            &steps,
            "none",
            json!({"reasoning": {"enabled": false}}),
        ),
        (
            "reasoning",
            &steps,
            "medium",
            json!({"reasoning": {"effort": "high"}}),
        ),
        (
            "template_switch",
            &switch,
            "none",
            json!({"chat_template_kwargs": {"enable_thinking": false}}),
        ),
    ] {
        let target = thinker(&format!("reasoning_control = '{control}'"), levels);
        let (body, notes) = target.body(&json!({"reasoning": {"effort": wanted}}));
        assert_eq!(body, fields, "{control} {levels:?} {wanted}");
        let unchanged = levels.contains(&wanted) || (wanted == "none" && notes.is_empty());
        assert_eq!(
            notes.is_empty(),
            unchanged && body != json!({}),
            "{control} {wanted} {notes}"
        );
        assert_eq!(target.body(&json!({})).0, json!({}));
    }
}

#[test]
fn fixed_fields_are_merged_with_written_fields() {
    let mut target = thinker("reasoning_control = 'thinking'", &["none", "high"]);
    target.body = vec![
        ("thinking", r#"{"keep":"all","type":"adaptive"}"#),
        ("temperature", "1"),
        ("split", "true"),
        ("max_tokens", "5"),
        ("messages", "[]"),
    ];
    let (body, _) = target.body(&json!({}));
    let fixed = json!({"thinking": {"keep": "all", "type": "adaptive"}, "temperature": 1,
        "split": true, "max_tokens": 5});
    assert_eq!(body, fixed);
    let request =
        json!({"temperature": 0.5, "max_output_tokens": 9, "reasoning": {"effort": "none"}});
    let (body, encoded) = target.encode(&request);
    let ours = json!({"thinking": {"keep": "all", "type": "disabled"}, "temperature": 0.5,
        "split": true, "max_tokens": 9});
    assert_eq!(body, ours);
    let text = String::from_utf8(encoded.body).unwrap();
    assert_eq!(text.matches("\"messages\"").count(), 1);
    assert_eq!(text.matches("\"max_tokens\"").count(), 1);
}

#[test]
fn the_output_limit_fits_model_and_window() {
    let model = |window, max_output| Model {
        window,
        max_output,
        bytes_per_token: Some(1.0),
        ..Model::unlisted("m")
    };
    let long = "x".repeat(10_000);
    let ask = |limit: u64| json!({"input": long, "max_output_tokens": limit});
    let silent = json!({ "input": long });
    for (quirks, model, request, field, limit, notes) in [
        (
            "",
            model(None, None),
            ask(200_000),
            "max_tokens",
            Some(200_000),
            "",
        ),
        (
            "",
            model(None, None),
            silent.clone(),
            "max_tokens",
            None,
            "",
        ),
        (
            "max_tokens_field = 'max_completion_tokens'",
            model(None, Some(500)),
            ask(600),
            "max_completion_tokens",
            Some(500),
            "max_output_tokens_lowered",
        ),
        (
            "max_tokens_field = 'none'",
            model(None, None),
            ask(600),
            "max_tokens",
            None,
            "parameter_dropped",
        ),
        (
            "default_max_tokens = 700",
            model(None, None),
            silent.clone(),
            "max_tokens",
            Some(700),
            "",
        ),
        (
            "default_max_tokens = 700",
            model(None, Some(600)),
            silent.clone(),
            "max_tokens",
            Some(600),
            "",
        ),
        (
            "default_max_tokens = 700",
            model(None, None),
            ask(50),
            "max_tokens",
            Some(50),
            "",
        ),
        (
            "",
            model(Some(9_000), None),
            ask(5_000),
            "max_tokens",
            Some(1_024),
            "max_output_tokens_lowered",
        ),
        (
            "",
            model(Some(9_000), None),
            ask(16),
            "max_tokens",
            Some(16),
            "",
        ),
    ] {
        let target = Target {
            model,
            ..target(quirks)
        };
        let (body, encoded) = target.encode(&request);
        assert_eq!(body.get(field).and_then(Value::as_u64), limit, "{quirks}");
        assert_eq!(encoded.notes.codes(), notes, "{quirks}");
    }
    let sent = |window| {
        let target = Target {
            model: model(Some(window), None),
            ..target("")
        };
        let (body, encoded) = target.encode(&ask(9_000));
        (body["max_tokens"].clone(), encoded.estimated_tokens)
    };
    let (limit, estimate) = sent(15_000);
    assert_eq!(limit, 15_000 - estimate);
    // An answer of a single token would be useless.
    assert_eq!(sent(10_100).0, 1_024);
    let huge = json!({"input": "x".repeat(131_000), "max_output_tokens": 9_000});
    let full = Target {
        model: model(Some(131_072), None),
        ..target("")
    };
    assert_eq!(full.encode(&huge).0["max_tokens"], 4_096);
}

/// A provider with an undocumented window. It counts three bytes as a token, and
/// adds the requested output.
fn context_overflow(body: &[u8], asked: u64, window: u64) -> Option<Fault> {
    let prompt = u64::try_from(body.len()).unwrap() / 3;
    (prompt + asked > window).then(|| {
        let message = format!(
            "This model's maximum context length is {window} tokens. However, you requested {} tokens ({prompt} in the messages, {asked} in the completion).",
            prompt + asked
        );
        let error = json!({"object": "error", "message": message, "type": "BadRequestError", "code": 400});
        provider_error::from_reply(find_patch, 400, None, error.to_string().as_bytes())
    })
}

#[test]
fn a_window_learned_from_a_refusal_bounds_later_answers() {
    for quirks in [
        "",
        "max_tokens_field = 'max_completion_tokens'",
        "default_max_tokens = 30000",
    ] {
        let mut model = Model::unlisted("m");
        let mut limits = Vec::new();
        let mut refusals = 0;
        for turns in 1..6 {
            let mut request = json!({"input": "x".repeat(9_000 * turns)});
            if !quirks.contains("default") {
                request["max_output_tokens"] = json!(30_000);
            }
            loop {
                let target = Target {
                    model: model.clone(),
                    ..target(quirks)
                };
                let (body, encoded) = target.encode(&request);
                let fields = ["max_tokens", "max_completion_tokens"];
                let limit = fields.iter().find_map(|field| body[*field].as_u64());
                let Some(fault) = context_overflow(&encoded.body, limit.unwrap(), 32_768) else {
                    limits.push(limit.unwrap());
                    break;
                };
                refusals += 1;
                assert!(refusals < 9, "nothing was learned: {fault}");
                assert_eq!(fault.kind, Kind::ContextLength, "{quirks}");
                let patch = fault.patch.unwrap();
                wire::apply_patch(patch, &mut WireQuirks::default(), &mut model);
            }
        }
        assert_eq!(refusals, 1, "{quirks}");
        assert!(limits.is_sorted_by(|a, b| a > b), "{limits:?}");
    }
}

#[test]
fn images_and_files_are_estimated_apart_from_text() {
    let data = "A".repeat(270_000);
    let image =
        json!({"type": "input_image", "image_url": format!("data:image/png;base64,{data}")});
    let file = json!({"type": "input_file", "filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{data}")});
    let tokens = |parts: Value| {
        let request = json!({"input": [{"role": "user", "content": parts}]});
        target("files = true").encode(&request).1.estimated_tokens
    };
    let text = tokens(json!([{"type": "input_text", "text": data}]));
    assert!((100_000..101_000).contains(&text), "{text}");
    let images = tokens(json!([image.clone(), image]));
    assert!((2_000..2_200).contains(&images), "{images}");
    let file = tokens(json!([file]));
    assert!((9_000..10_000).contains(&file), "{file}");
}

#[test]
fn tools_are_written_as_the_provider_accepts_them() {
    let mut tool = json!({"type": "function", "name": "f", "strict": true,
        "parameters": {"type": "object", "properties": {"a": {"const": 1}}}});
    let (body, notes) = target("").body(&json!({"tools": [tool]}));
    assert_eq!(body["tools"][0]["function"].get("strict"), None);
    assert_eq!(notes, "strict_dropped");
    let (body, notes) = target("strict_tools = true").body(&json!({"tools": [tool]}));
    assert_eq!(body["tools"][0]["function"]["strict"], true);
    assert_eq!(notes, "");
    // False is the default of providers without this field.
    tool["strict"] = json!(false);
    let request = |choice: Value| json!({"tools": [tool], "tool_choice": choice, "parallel_tool_calls": false});
    let auto = request(json!("auto"));
    assert_eq!(target("").body(&auto).0["parallel_tool_calls"], false);
    let (body, notes) = target("parallel_tool_calls = false").body(&auto);
    assert_eq!(body.get("parallel_tool_calls"), None);
    assert_eq!(notes, "parameter_dropped");
    let (body, notes) = target("schema = ['no_const']").body(&auto);
    let property = &body["tools"][0]["function"]["parameters"]["properties"]["a"];
    assert_eq!(property, &json!({"enum": [1]}));
    assert_eq!(notes, "schema_changed");

    let named = json!({"type": "function", "name": "f"});
    let some = "tool_choice = ['required']";
    for (quirks, choice, sent, notes) in [
        ("", json!("none"), json!("none"), ""),
        ("", json!("required"), json!("required"), ""),
        (
            "",
            named.clone(),
            json!({"type": "function", "function": {"name": "f"}}),
            "",
        ),
        (some, json!("required"), json!("required"), ""),
        (some, named.clone(), Value::Null, "tool_choice_dropped"),
        (
            "tool_choice = []",
            json!("required"),
            Value::Null,
            "tool_choice_dropped",
        ),
        ("tool_choice = []", json!("auto"), Value::Null, ""),
    ] {
        let (body, codes) = target(quirks).body(&request(choice.clone()));
        assert_eq!(body["tool_choice"], sent, "{quirks} {choice}");
        assert_eq!(codes, notes, "{quirks} {choice}");
        assert!(body["tools"].is_array());
    }
    let (body, notes) = target(some).body(&request(json!("none")));
    assert_eq!((body, notes), (json!({}), "tools_left_out".to_owned()));
}

#[test]
fn requests_with_tools_are_not_streamed_where_calls_cannot_be() {
    let tool = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let (with, without) = (json!({ "tools": [tool] }), json!({}));
    let usage = r#""stream":true,"stream_options":{"include_usage":true}"#;
    for (quirks, request, begin) in [
        ("", &with, usage),
        ("stream_tools = false", &with, r#""stream":false,"tools""#),
        ("stream_tools = false", &without, usage),
        (
            "stream_usage = false",
            &without,
            r#""stream":true,"messages""#,
        ),
    ] {
        let body = String::from_utf8(target(quirks).encode(request).1.body).unwrap();
        let expected = format!(r#"{{"model":"m",{begin}"#);
        assert!(body.starts_with(&expected), "{quirks} {body}");
    }
}

#[test]
fn a_schema_for_the_answer_is_sent_described_or_fitted() {
    let format = |form: Value| json!({"text": {"format": form}});
    let schema = format(json!({"type": "json_schema", "name": "n",
        "schema": {"$schema": "s", "type": "object"}}));
    let object = format(json!({"type": "json_object"}));
    let json_object = json!({"type": "json_object"});
    for (quirks, request, sent, notes) in [
        ("", &object, json_object.clone(), ""),
        (
            "response_format = 'json_object'",
            &object,
            json_object.clone(),
            "",
        ),
        (
            "response_format = 'json_object'",
            &schema,
            json_object,
            "json_schema_described",
        ),
        (
            "response_format = 'none'",
            &object,
            Value::Null,
            "json_object_described",
        ),
        (
            "response_format = 'none'",
            &schema,
            Value::Null,
            "json_schema_described",
        ),
        (
            "",
            &schema,
            json!({"type": "json_schema", "json_schema": {"name": "n",
                "schema": {"$schema": "s", "type": "object"}}}),
            "",
        ),
        (
            "schema = ['no_meta_keys']",
            &schema,
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
            "schema_changed",
        ),
    ] {
        let (body, codes) = target(quirks).body(request);
        assert_eq!(body["response_format"], sent, "{quirks}");
        assert_eq!(codes, notes, "{quirks}");
    }
}
