//! Servers of our own making behind unknown names: what they speak, list and refuse is drawn at
//! random.
use std::time::Instant;

use kit::harness::rows;
use kit::player::{Player, PlayerScript};
use kit::session::SeededRandom;
use serde_json::{Value, json};

use super::{UNUSED_URL, check, doctor, refusals, seed, written};
use crate::proxy::Setup;

/// How many servers are drawn.
const DIALECTS: usize = 30;

/// The seed unless the variable says otherwise.
const SEED: u64 = 19;

/// The key of every server that wants one.
const KEY: &str = "the-key-of-an-invented-lab-7";

/// What a doctor may use for one model.
const MAX_REQUESTS: usize = 12;
const MAX_TOKENS: usize = 20_000;
const MAX_SECONDS: u64 = 60;

/// The window of a model of which nothing is told.
const ASSUMED_WINDOW: u64 = 131_072;

/// Promise: Servers whose address, lists, keys, wires, dialects and refusals are drawn at random
/// are understood by `respondent doctor`: 30 of them, with wire, models, window and the form of
/// reasoning.
#[test]
fn a_server_of_our_own_making_is_understood() {
    rows(
        (1..=DIALECTS).map(|number| (number, number)),
        |number| async move {
            InventedServer::draw(seed(SEED), number).run().await;
        },
    );
}

/// A server, and what the doctor should find.
struct InventedServer {
    seed: u64,
    script: Value,
    /// What stands behind the address of the server in the URL that the user gives.
    path: String,
    /// The path below which the API is.
    base_path: &'static str,
    /// The model that the user names.
    named: Option<String>,
    has_key: bool,
    expected: Expected,
}

struct Expected {
    wire: &'static str,
    /// The model, and the number of those that are listed.
    model: String,
    listed: Option<usize>,
    window: Option<u64>,
    /// The setting for the place of the key, and its value.
    key_place: Option<(&'static str, &'static str)>,
    /// The quirk `reasoning_replay`, if reasoning arrives.
    replay: Option<&'static str>,
    /// The quirk `think_tags`.
    think_tags: &'static str,
    /// For the wire `responses`: whether reasoning is encrypted.
    is_encrypted: bool,
}

/// Draws values from a seed.
struct Draw(SeededRandom);

impl Draw {
    fn of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.0.below(among.len())].clone()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.0.below(count) == 0
    }
}

/// Where the reasoning of an answer is, how it goes back, and the quirk `think_tags`.
const PLACEMENTS: [(&str, &str, &str); 8] = [
    ("reasoning_content", "reasoning_content", "off"),
    ("reasoning", "reasoning", "off"),
    ("both_names", "reasoning_content", "off"),
    ("reasoning_details", "reasoning_details", "off"),
    ("reasoning_and_details", "reasoning_details", "off"),
    ("content_list", "thinking_parts", "off"),
    ("think_tags", "think_tags", "on"),
    ("unopened_think", "think_tags", "unopened"),
];

/// What a Chat Completions server may refuse besides broken histories.
fn chat_rules() -> Vec<Value> {
    vec![
        json!("developer"),
        json!({"rule": "developer", "message": "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.[{index}].role'"}),
        json!("late_system"),
        json!("system_role"),
        json!("user_after_tool"),
        json!("user_after_user"),
        json!({"rule": "null_content", "message": "Invalid request: text content is empty"}),
        json!("missing_content"),
        json!("call_id_form"),
        json!("call_id_characters"),
        json!({"rule": "missing_tool_names", "message": "* GenerateContentRequest.contents[{index}].parts[0].function_response.name: Name cannot be empty."}),
        json!("images"),
        json!({"rule": "images", "status": 404, "message": "No endpoints found that support image input"}),
        json!("image_without_text"),
        json!({"fields": ["store", "metadata", "prompt_cache_key"]}),
        json!({"fields": ["logprobs", "top_logprobs"]}),
        json!({"rule": {"fields": ["presence_penalty", "frequency_penalty"]}, "message": "Unsupported parameter: '{found}' is not supported with this model."}),
        json!("strict_tools"),
        json!("max_tokens_unsupported"),
        json!({"max_tokens_limit": 8192}),
        json!({"rule": {"max_tokens_limit": 65536}, "message": "`max_tokens` must be less than or equal to `{limit}`, the maximum value for `max_tokens` is less than the `context_window` for this model"}),
        json!("temperature"),
        json!({"temperature_above": 100}),
        json!("tool_choice_required"),
        json!({"rule": {"tool_choice_other_than": ["auto"]}, "message": "Only 'auto' is supported for tool_choice"}),
        json!("parallel_tool_calls"),
        json!("json_schema"),
        json!("stream_options"),
        json!("bad_schema_kimi"),
        json!({"rule": "bad_schema_gemini", "json": [{"error": {"code": 400, "message": "Invalid JSON payload received. {found} at 'tools[0].function_declarations[{index}].parameters': Cannot find field.", "status": "INVALID_ARGUMENT"}}]}),
    ]
}

/// What a Responses server may refuse besides what OpenAI refuses.
fn responses_rules() -> Vec<Value> {
    vec![
        json!("beyond_functions"),
        json!({"rule": "developer", "message": "Invalid value: 'developer'. Supported values are: 'system', 'user' and 'assistant': unknown variant `developer`, expected one of `system`, `user`, `assistant` at role"}),
        json!("temperature"),
        json!({"fields": ["prompt_cache_key"]}),
        json!({"rule": {"fields": ["parallel_tool_calls"]}, "message": "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."}),
        json!({"max_tokens_limit": 8192}),
    ]
}

/// The words in which an overflow names the window.
const OVERFLOWS: [&str; 6] = [
    "This model's maximum context length is {limit} tokens. However, you requested {wanted} tokens ({prompt} in the messages, {output} in the completion). Please reduce the length of the messages or completion.",
    "Invalid request: Your request exceeded model token limit: {limit} (requested: {wanted})",
    "The input token count ({wanted}) exceeds the maximum number of tokens allowed ({limit}).",
    "Prompt contains {wanted} tokens and 0 draft tokens, too large for model with {limit} maximum context length",
    "request ({wanted} tokens) exceeds the available context size ({limit} tokens), try increasing it",
    "This model's maximum prompt length is {limit} but the request contains {wanted} tokens.",
];

impl InventedServer {
    fn draw(seed: u64, number: usize) -> Self {
        let mixed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let mut draw = Draw(SeededRandom::new(mixed));
        let is_responses = draw.one_in(3);
        let (base_path, path) = draw.of(&[
            ("/v1", "/v1"),
            ("/v1", "/v1/"),
            ("/v1", ""),
            ("/v1", "/v1/chat/completions"),
            ("/v1", "/v1/responses"),
            ("/api/paas/v4", "/api/paas/v4"),
            ("/openai", "/openai"),
            ("/api/openai/v1", "/api/openai"),
        ]);
        let (key, key_place) = draw.of(&[
            (None, None),
            (Some(("authorization", format!("Bearer {KEY}"))), None),
            (Some(("authorization", format!("Bearer {KEY}"))), None),
            (
                Some(("api-key", KEY.to_owned())),
                Some(("key_header", "api-key")),
            ),
            (
                Some(("authorization", format!("Token {KEY}"))),
                Some(("key_scheme", "Token")),
            ),
        ]);
        let has_key = key.is_some();
        let model = draw.of(&[
            "lab-1",
            "maker/model-7b:free",
            "Qwen/Qwen9-8B",
            "model.v2@fp8",
        ]);
        let sizes = [
            4096, 8192, 32_768, 65_536, 131_072, 200_000, 262_144, 1_048_576,
        ];
        let size: u64 = draw.of(&sizes);
        let (list, listed, window) = draw_list(&mut draw, model, size);
        let named = listed.is_none() || draw.one_in(3);
        let mut refuse = vec![
            json!("unmatched_results"),
            json!("unanswered_calls"),
            json!("bad_arguments"),
        ];
        let rules = if is_responses {
            responses_rules()
        } else {
            chat_rules()
        };
        let mut taken = Vec::new();
        for _ in 0..draw.0.below(4) {
            let rule = draw.of(&rules);
            let kind = subject(&rule);
            if !taken.contains(&kind) {
                taken.push(kind);
                refuse.push(rule);
            }
        }
        let mut window = window;
        if window.is_none() && draw.one_in(2) {
            // Before a rule for the output, which would hide it.
            let rule = json!({"rule": {"window": size}, "message": draw.of(&OVERFLOWS)});
            refuse.insert(0, rule);
            window = Some(size);
        }
        let reasons = !draw.one_in(4);
        let (placement, replay, think_tags) = draw.of(&PLACEMENTS);
        let mut replay = Some(replay).filter(|_| reasons && !is_responses);
        if replay == Some("reasoning_content") {
            match draw.0.below(4) {
                0 => {
                    refuse.push(json!("reasoning_content_unknown"));
                    replay = Some("none");
                }
                1 => {
                    refuse
                        .push(json!({"missing_reasoning_content": draw.of(&["calls", "always"])}));
                }
                _ => {}
            }
        }
        let is_beyond = refuse.contains(&json!("beyond_functions"));
        let mut script = json!({
            "wire": if is_responses { "responses" } else { "chat" },
            "base_path": base_path,
            "dialect": draw_dialect(&mut draw, placement, is_responses),
            "refuse": refuse, "answers": answers(&mut draw, reasons),
        });
        if !is_responses && draw.one_in(6) {
            // It speaks both.
            script["wire"] = Value::Null;
        }
        if let Some((name, value)) = key {
            script["key"] = json!([name, value]);
            script["public_list"] = json!(draw.one_in(4));
        }
        match list {
            Some(list) => script["model_list"] = list,
            None => script["models"] = json!([]),
        }
        Self {
            seed: mixed,
            script,
            path: path.to_owned(),
            base_path,
            named: named.then(|| model.to_owned()),
            has_key,
            expected: Expected {
                wire: if is_responses { "responses" } else { "chat" },
                model: model.to_owned(),
                listed,
                window,
                key_place,
                replay,
                think_tags: if reasons && !is_responses {
                    think_tags
                } else {
                    "off"
                },
                is_encrypted: !is_beyond,
            },
        }
    }

    async fn run(self) {
        let script: PlayerScript = serde_json::from_value(self.script.clone()).unwrap();
        let player = Player::start(script).await.unwrap();
        let setup = Setup::new().env("LAB_KEY", KEY);
        let folder = setup.folder(UNUSED_URL);
        let url = format!("http://{}{}", player.address(), self.path);
        let mut args = vec!["--url", &url, "--provider", "lab", "--write"];
        if self.has_key {
            args.extend(["--key-env", "LAB_KEY"]);
        }
        if let Some(model) = &self.named {
            args.extend(["--model", model]);
        }
        let began = Instant::now();
        let (code, report) = doctor(&setup, folder.path(), &args).await;
        let told = format!(
            "seed {}: {args:?} {}\n{}\n{report:#}",
            self.seed,
            self.script,
            refusals(&player)
        );
        assert!(began.elapsed().as_secs() < MAX_SECONDS, "{told}");
        assert_eq!(code, 0, "{told}");
        let measured = &report["providers"][0];
        let requests = player.requests();
        assert_eq!(measured["requests"], requests.len(), "{told}");
        assert!(requests.len() <= MAX_REQUESTS, "{told}");
        // As the player counts them, with every refused prompt.
        let tokens: usize = requests.iter().map(|sent| sent.body.len() / 4 + 50).sum();
        assert!(tokens <= MAX_TOKENS, "{tokens}: {told}");

        let expected = &self.expected;
        let file = written(folder.path(), "lab");
        assert_eq!(measured["model"], expected.model, "{told}");
        if let Some(count) = expected.listed {
            let listed = check(&report, Some(0), "models")["message"]
                .as_str()
                .unwrap();
            assert!(listed.starts_with(&format!("{count} model")), "{told}");
        }
        assert_eq!(
            check(&report, Some(0), "wire")["message"],
            expected.wire,
            "{told}"
        );
        assert_eq!(file["wire"].as_str(), Some(expected.wire), "{told}");
        let base_url = format!("http://{}{}", player.address(), self.base_path);
        assert_eq!(file["base_url"].as_str(), Some(base_url.as_str()), "{told}");
        for setting in ["key_header", "key_scheme"] {
            let found = file.get(setting).and_then(toml::Value::as_str);
            let place = expected.key_place.filter(|place| place.0 == setting);
            assert_eq!(found, place.map(|place| place.1), "{told}");
        }
        let window = check(&report, Some(0), "window");
        let tokens = expected.window.unwrap_or(ASSUMED_WINDOW);
        let message = window["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{tokens} tokens")), "{told}");
        let status = if expected.window.is_some() {
            "ok"
        } else {
            "warning"
        };
        assert_eq!(window["status"], status, "{told}");
        let quirk = |name: &str, usual: &str| {
            let quirks = file.get("quirks");
            let value = quirks.and_then(|quirks| quirks.get(name)?.as_str().map(str::to_owned));
            value.unwrap_or_else(|| usual.to_owned())
        };
        if let Some(replay) = expected.replay {
            assert_eq!(
                quirk("reasoning_replay", "reasoning_content"),
                replay,
                "{told}"
            );
            // `on` is the rule for own providers, and harms no other.
            let tags = expected.think_tags.replace("off", "on");
            assert_eq!(quirk("think_tags", "on"), tags, "{told}");
        }
        if expected.wire == "responses" {
            let quirks = file.get("quirks");
            let encrypted = quirks.and_then(|quirks| quirks.get("encrypted_reasoning")?.as_bool());
            assert_eq!(encrypted.unwrap_or(true), expected.is_encrypted, "{told}");
        }
    }
}

/// What a rule is about: two rules about the same would contradict each other.
fn subject(rule: &Value) -> String {
    let rule = rule.get("rule").unwrap_or(rule);
    let name = if let Some(name) = rule.as_str() {
        name.to_owned()
    } else {
        let (name, value) = rule.as_object().unwrap().iter().next().unwrap();
        match value.pointer("/0") {
            Some(first) => format!("{name} {first}"),
            None => name.clone(),
        }
    };
    let same = [
        ("role", &["system_role", "late_system"][..]),
        ("content", &["null_content", "missing_content"]),
        ("ids", &["call_id_form", "call_id_characters"]),
        ("images", &["images", "image_without_text"]),
        ("temperature", &["temperature", "temperature_above"]),
        (
            "choice",
            &["tool_choice_required", "tool_choice_other_than \"auto\""],
        ),
        ("schema", &["bad_schema_kimi", "bad_schema_gemini"]),
    ];
    let group = same
        .iter()
        .find(|(_, names)| names.contains(&name.as_str()));
    group.map_or(name, |(group, _)| (*group).to_owned())
}

/// A list of models: the body, how many models it has, and the window that it tells. `None` if
/// nothing is listed.
fn draw_list(
    draw: &mut Draw,
    model: &str,
    size: u64,
) -> (Option<Value>, Option<usize>, Option<u64>) {
    if draw.one_in(8) {
        return (Some(json!({"error": {"message": "not here"}})), None, None);
    }
    let window = draw.of(&[
        None,
        None,
        Some("context_length"),
        Some("max_model_len"),
        Some("context_window"),
        Some("max_context_length"),
    ]);
    let more = draw.of(&[0, 0, 1, 7, 40]);
    let entry = |id: &str| {
        let mut entry = json!({"id": id, "object": "model", "created": 0, "owned_by": "lab"});
        if let Some(name) = window {
            entry[name] = json!(size);
        }
        entry
    };
    let mut data = vec![entry(model)];
    data.extend((0..more).map(|number| entry(&format!("other-{number}"))));
    let mut count = data.len();
    match draw.0.below(4) {
        0 => {
            data.insert(
                0,
                json!({"id": "lab-embed-1", "object": "model", "type": "embedding"}),
            );
        }
        1 => {
            data.insert(0, json!({"id": "text-embedding-lab", "object": "model"}));
            count += 1;
        }
        _ => {}
    }
    let list = match draw.0.below(4) {
        0 => Value::Array(data),
        1 => json!({"models": data}),
        _ => json!({"object": "list", "data": data}),
    };
    (Some(list), Some(count), window.map(|_| size))
}

/// How answers are written.
fn draw_dialect(draw: &mut Draw, placement: &str, is_responses: bool) -> Value {
    if is_responses {
        return json!({});
    }
    json!({
        "reasoning": placement,
        "ids": draw.of(&["first", "first", "empty_later", "repeated", "empty", "missing"]),
        "index": draw.of(&["counted", "counted", "from_one"]),
        "arguments": draw.of(&["pieces", "pieces_at_once", "whole", "object"]),
        "usage": draw.of(&["apart", "on_finish", "in_choice", "x_groq", "every_chunk", "nowhere"]),
        "finish": draw.of(&["null_before", "absent_before", "empty_before", "repeated", "stop_always", "unknown"]),
        "role_everywhere": draw.one_in(3),
        "nulls": draw.one_in(3),
        "chunk_without_choices": draw.one_in(4),
        "form": draw.of(&["asked", "asked", "asked", "document"]),
        "framing": {
            "line_end": draw.of(&["lf", "lf", "cr_lf"]),
            "tight": draw.one_in(3), "comments": draw.one_in(3), "named": draw.one_in(4),
            "no_done": draw.one_in(4),
        },
    })
}

/// The answers of a model that calls a tool once or twice.
fn answers(draw: &mut Draw, reasons: bool) -> Value {
    let call = |id: &str, place: &str| {
        let arguments = json!({"at": place}).to_string();
        json!({"call": {"id": id, "name": "look", "arguments": arguments, "pieces": 2}})
    };
    let thought: Vec<Value> = reasons
        .then(|| json!({"reasoning": "I must look."}))
        .into_iter()
        .collect();
    let mut calls = thought.clone();
    calls.push(call(
        draw.of(&["call_1", "functions.look:0", "D681PevKs"]),
        "the door",
    ));
    if draw.one_in(2) {
        calls.push(call(
            draw.of(&["call_2", "functions.look:1", "E681PevKs"]),
            "the window",
        ));
    }
    let mut seen = thought;
    seen.push(json!({"text": "Both are closed."}));
    json!([
        {"repeat": true, "when": {"last_contains": "Call the tool"}, "steps": calls},
        {"repeat": true, "steps": seen},
    ])
}
