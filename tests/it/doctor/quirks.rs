//! Servers with three quirks each, drawn from the lines of all provider files: the doctor finds
//! them, and a tool loop runs on the file that it writes.
use std::collections::BTreeMap;
use std::fs;

use kit::player::{Player, PlayerScript};
use kit::session::SeededRandom;
use serde_json::{Value, json};

use super::{UNUSED_URL, check, doctor, seed, written};
use crate::adapting::run_tool_loop;
use crate::adapting::strict::tool_loop_answers;
use crate::literals::root;
use crate::proxy::{Proxy, Setup};

/// How many servers are drawn.
const PRESETS: usize = 20;

/// The quirks of each.
const QUIRKS: usize = 3;

/// The seed unless the variable says otherwise.
const SEED: u64 = 23;

/// This part of the quirks has to be found, in percent.
const FOUND: usize = 95;

/// Lines that cannot be shown within 20,000 tokens and a minute, and why.
const NOT_MEASURED: [(&str, &str); 4] = [
    (
        "web_search",
        "shows only in a search, which the provider charges for",
    ),
    (
        "default_max_tokens",
        "shows only where an answer of 2,000 to 4,096 tokens is cut, which takes minutes to write",
    ),
    (
        "message_limit",
        "shows only in a message of 24,000 characters, which whoever takes it charges for",
    ),
    (
        "cache_control",
        "shows only in the token counts of two prompts of 4,096 tokens each",
    ),
];

/// A line of `[quirks]` in a provider file.
#[derive(Clone, Debug, PartialEq)]
struct QuirkLine {
    key: String,
    value: toml::Value,
}

/// How a server behaves that has a quirk.
#[derive(Default)]
struct Behaviour {
    /// What it refuses; one of each list.
    refuse: Vec<Vec<Value>>,
    /// Switches of its answers.
    dialect: Vec<(&'static str, Value)>,
    /// Further keys of its calls.
    call: Option<Value>,
    /// Its token counts.
    usage: Option<Value>,
    /// Further answers.
    answers: Vec<Value>,
}

/// It refuses requests in one of these words.
fn refusing(choice: impl Into<Vec<Value>>) -> Behaviour {
    Behaviour {
        refuse: vec![choice.into()],
        ..Behaviour::default()
    }
}

/// Its answers have this form.
fn answering(name: &'static str, value: &str) -> Behaviour {
    Behaviour {
        dialect: vec![(name, json!(value))],
        ..Behaviour::default()
    }
}

/// It can turn reasoning off with this field.
fn switching(name: &str) -> Behaviour {
    answering("reasoning_switch", name)
}

/// It refuses other effort levels than these.
fn listing_efforts(levels: &[&str]) -> Behaviour {
    let quoted: Vec<String> = levels.iter().map(|level| format!("'{level}'")).collect();
    let message = format!(
        "Unsupported value: 'reasoning_effort' does not support '{{found}}' with this model. Supported values are: {}.",
        quoted.join(", ")
    );
    refusing([json!({"rule": {"effort_other_than": levels}, "message": message})])
}

/// It answers this to a request with this text.
fn saying(condition: &str, text: &str, answer: &str) -> Behaviour {
    let mut when = json!({});
    when[condition] = json!(text);
    let steps = json!([{"reasoning": "I see."}, {"text": answer}]);
    Behaviour {
        answers: vec![json!({"repeat": true, "when": when, "steps": steps})],
        ..Behaviour::default()
    }
}

/// The fields that are passed on to servers that take them.
const SERVICES: [&str; 3] = ["prompt_cache_key", "service_tier", "verbosity"];

impl QuirkLine {
    /// The lines of all provider files, those of families included.
    fn all() -> Vec<Self> {
        let mut lines = Vec::new();
        let folder = fs::read_dir(root().join("registry/providers")).unwrap();
        let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let file: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
            let families = file.get("families").and_then(toml::Value::as_array);
            let families = families.into_iter().flatten();
            let tables = families.filter_map(|family| family.get("quirks"));
            for table in file.get("quirks").into_iter().chain(tables) {
                let table = table.as_table().unwrap().clone();
                lines.extend(table.into_iter().map(|(key, value)| Self { key, value }));
            }
        }
        lines
    }

    /// How a server behaves that has this line and needs it; `None` if nothing shows it. A key that
    /// is not known here fails the test, so that whoever adds a quirk says how it is measured.
    /// Some behave in one of two ways, which `variant` says.
    fn behaviour(&self, variant: usize) -> Option<Behaviour> {
        let text = self.value.as_str().unwrap_or_default();
        let is_on = self.value.as_bool() == Some(true);
        let behaviour = match (self.key.as_str(), text) {
            ("max_tokens_field", "max_completion_tokens") => refusing([
                json!("max_tokens_unsupported"),
                json!({"rule": "max_tokens_unsupported", "message": "Unrecognized request argument supplied: max_tokens"}),
            ]),
            ("system_role", "user") => refusing([
                json!("system_role"),
                json!({"rule": "system_role", "message": "System role not supported"}),
            ]),
            ("merge_user", _) if is_on => refusing([
                json!("user_after_user"),
                json!({"rule": "user_after_user", "message": "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s)."}),
            ]),
            ("answer_after_tool", _) => refusing([json!("user_after_tool")]),
            ("call_content", "omitted") => refusing([
                json!({"rule": "null_content", "message": "Invalid request: text content is empty"}),
            ]),
            ("tool_names", _) => refusing([
                json!({"rule": "missing_tool_names", "message": "* GenerateContentRequest.contents[{index}].parts[0].function_response.name: Name cannot be empty."}),
            ]),
            ("call_ids", "nine_alphanumeric") => refusing([json!("call_id_form")]),
            ("call_ids", "word") => refusing([json!("call_id_characters")]),
            ("image_needs_text", _) => refusing([json!("image_without_text")]),
            ("tool_choice", _) => self.tool_choice()?,
            ("parallel_tool_calls", _) if !is_on => refusing([
                json!("parallel_tool_calls"),
                json!({"rule": "parallel_tool_calls", "message": "Invalid JSON payload received. Unknown name \"parallel_tool_calls\": Cannot find field."}),
                json!({"rule": "parallel_tool_calls", "message": "invalid params, invalid chat setting (2013)"}),
            ]),
            ("schema", _) => {
                let is_google = self.value.to_string().contains("string_enums");
                refusing(if is_google {
                    [
                        json!({"rule": "bad_schema_gemini", "json": [{"error": {"code": 400, "message": "Invalid JSON payload received. {found} at 'tools[0].function_declarations[{index}].parameters': Cannot find field.", "status": "INVALID_ARGUMENT"}}]}),
                    ]
                } else {
                    [json!("bad_schema_kimi")]
                })
            }
            ("response_format", "json_object") => refusing([
                json!("json_schema"),
                json!({"rule": "json_schema", "message": "This model does not support response format `json_schema`."}),
            ]),
            ("response_format", "none") => refusing([
                json!({"fields": ["response_format"]}),
                json!({"rule": {"fields": ["response_format"]}, "message": "Unsupported parameter: '{found}' is not supported with this model."}),
            ]),
            ("max_temperature", _) => refusing([
                json!({"temperature_above": 100}),
                json!({"rule": {"temperature_above": 100}, "message": "temperature: range: 0..1"}),
            ]),
            ("penalties", _) => refusing([
                json!({"fields": ["presence_penalty", "frequency_penalty"]}),
                json!({"rule": {"fields": ["presence_penalty", "frequency_penalty"]}, "message": "property '{found}' is unsupported"}),
            ]),
            ("logprobs", _) => refusing([
                json!({"fields": ["logprobs", "top_logprobs"]}),
                json!({"rule": {"fields": ["logprobs", "top_logprobs"]}, "status": 422, "json": {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "{found}"], "msg": "Extra inputs are not permitted", "input": "..."}]}, "type": "invalid_request_error", "param": null, "code": null}}),
            ]),
            ("stream_usage", _) => refusing([json!("stream_options")]),
            ("reasoning_replay", "none") => refusing([json!("reasoning_content_unknown")]),
            ("reasoning_replay", "reasoning_content") => {
                answering("reasoning", "reasoning_content")
            }
            ("reasoning_replay", "reasoning") => answering("reasoning", "reasoning"),
            ("reasoning_replay", "reasoning_details") => {
                answering("reasoning", "reasoning_details")
            }
            ("reasoning_replay", "think_tags") | ("think_tags", "on") => {
                answering("reasoning", "think_tags")
            }
            ("reasoning_replay", "thinking_parts") => answering("reasoning", "content_list"),
            ("reasoning_required", need @ ("calls" | "always")) => {
                refusing([json!({"missing_reasoning_content": need})])
            }
            ("call_extra", form) => Behaviour {
                refuse: (form == "required")
                    .then(|| vec![json!("missing_thought_signature")])
                    .into_iter()
                    .collect(),
                call: Some(
                    json!({"extra_content": {"google": {"thought_signature": "CvcBAdHtim9"}}}),
                ),
                ..Behaviour::default()
            },
            ("usage_apart", _) => Behaviour {
                usage: Some(
                    json!({"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 360,
                    "completion_tokens_details": {"reasoning_tokens": 40}}),
                ),
                ..Behaviour::default()
            },
            ("image_urls", _) if !is_on => refusing([
                json!("image_urls"),
                json!({"rule": "image_urls", "message": "invalid image input"}),
                json!({"rule": "image_urls", "message": "'url' field must be a base64 encoded image."}),
            ]),
            ("system_place", "anywhere") => saying("last_contains", "word of the day", "heron"),
            ("files", _) if is_on => saying("body_contains", "application/pdf", "otter"),
            // It is taken like anything else that the server does not refuse.
            ("strict_tools" | "verbosity" | "service_tier" | "prompt_cache_key", _) if is_on => {
                Behaviour::default()
            }
            ("reasoning_control", "effort") if variant == 0 => switching("effort"),
            ("reasoning_control", "effort") => listing_efforts(&["low", "medium", "high"]),
            ("reasoning_control", "thinking_and_effort") => Behaviour {
                refuse: listing_efforts(&["high", "max"]).refuse,
                ..switching("thinking")
            },
            ("reasoning_control", switch) if switch != "none" => switching(switch),
            // A family that has less quirks than its provider.
            ("system_role", "system" | "developer")
            | ("reasoning_control", "none")
            | ("response_format", "json_schema")
            | ("merge_user" | "parallel_tool_calls", _)
            | ("reasoning_required", "never") => return None,
            (key, _) => {
                let is_known = NOT_MEASURED.iter().any(|(known, _)| *known == key);
                assert!(is_known, "how is {key} = {} measured?", self.value);
                return None;
            }
        };
        Some(behaviour)
    }

    fn tool_choice(&self) -> Option<Behaviour> {
        let values = self.value.as_array().unwrap().iter();
        let values: Vec<&str> = values.filter_map(toml::Value::as_str).collect();
        let others = |message: &str| {
            let taken: Vec<&str> = ["auto"].into_iter().chain(values.clone()).collect();
            let taken: Vec<&str> = taken
                .into_iter()
                .map(|it| if it == "named" { "specified" } else { it })
                .collect();
            json!({"rule": {"tool_choice_other_than": taken}, "message": message})
        };
        let behaviour = match values.as_slice() {
            [] => refusing([
                others("Only a tool_choice of 'auto' is supported for this model."),
                others("Only 'auto' is supported for tool_choice"),
            ]),
            ["none"] => refusing([
                others(
                    "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode",
                ),
                others("tool_choice '{found}' is incompatible with thinking enabled"),
            ]),
            ["none", "required"] => refusing([others("tool_choice: '{found}' is not supported")]),
            _ => return None,
        };
        Some(behaviour)
    }

    /// Whether the settings of the file say the same.
    fn is_in(&self, file: &toml::Table) -> bool {
        // What the doctor begins with.
        let usual = match self.key.as_str() {
            "reasoning_replay" => Some("reasoning_content".into()),
            "think_tags" => Some("on".into()),
            _ => None,
        };
        let quirks = file.get("quirks");
        let found = quirks
            .and_then(|quirks| quirks.get(&self.key).cloned())
            .or(usual);
        match (self.key.as_str(), found) {
            (_, None) => false,
            // A refusal names a rule; those that belong to it are followed too.
            ("schema", Some(found)) => {
                let found = found.as_array().unwrap().clone();
                self.value
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|rule| found.contains(rule))
            }
            (_, Some(found)) => found == self.value,
        }
    }

    /// Whether a server can have both.
    fn goes_with(&self, other: &Self) -> bool {
        let pair = |one: &str, two: &str| {
            (self.key == one && other.key == two) || (self.key == two && other.key == one)
        };
        let is_content = |it: &Self| it.value.as_str() == Some("reasoning_content");
        let is_tagged = |it: &Self| it.value.as_str() == Some("think_tags");
        if pair("reasoning_required", "reasoning_replay") {
            return is_content(self) || is_content(other);
        }
        if pair("think_tags", "reasoning_replay") {
            return is_tagged(self) || is_tagged(other);
        }
        // A server with details has the signature in them.
        let is_detailed = |it: &Self| it.value.as_str() == Some("reasoning_details");
        if pair("call_extra", "reasoning_replay") && (is_detailed(self) || is_detailed(other)) {
            return false;
        }
        self.key != other.key && !pair("think_tags", "reasoning_required")
    }
}

/// Three lines that a server can have together.
fn draw_quirks(random: &mut SeededRandom, lines: &[QuirkLine]) -> Vec<QuirkLine> {
    let mut drawn: Vec<QuirkLine> = Vec::new();
    while drawn.len() < QUIRKS {
        let line = &lines[random.below(lines.len())];
        if drawn.iter().all(|other| line.goes_with(other)) {
            drawn.push(line.clone());
        }
    }
    drawn
}

/// The script of a server with these quirks.
fn script(random: &mut SeededRandom, quirks: &[QuirkLine]) -> Value {
    let mut refuse = vec![
        json!("unmatched_results"),
        json!("unanswered_calls"),
        json!("bad_arguments"),
    ];
    let (mut dialect, mut call, mut usage) = (json!({}), json!({"id": "call_7b1e6a3f"}), None);
    let mut answers = Vec::new();
    for line in quirks {
        let behaviour = line.behaviour(random.below(2)).unwrap();
        answers.extend(behaviour.answers);
        for choice in behaviour.refuse {
            refuse.push(choice[random.below(choice.len())].clone());
        }
        for (name, value) in behaviour.dialect {
            dialect[name] = value;
        }
        if let Some(more) = behaviour.call {
            call["extra_content"] = more["extra_content"].clone();
        }
        usage = usage.or(behaviour.usage);
    }
    if random.below(3) == 0 {
        let is_drawn = |name: &&str| quirks.iter().any(|line| line.key == **name);
        let others: Vec<&str> = SERVICES
            .into_iter()
            .filter(|name| !is_drawn(name))
            .collect();
        let message = "property '{found}' is unsupported";
        refuse.push(json!({"rule": {"fields": others}, "message": message}));
    }
    let usual = tool_loop_answers(&call, usage.as_ref());
    answers.extend(usual.as_array().unwrap().clone());
    json!({"dialect": dialect, "refuse": refuse, "answers": answers})
}

/// Promise: Of three quirks each that are drawn from the provider files the doctor finds 95 %, and
/// on each file that it writes no request of a tool loop is refused, that of the Codex CLI neither;
/// four keys are not drawn, `web_search`, `default_max_tokens`, `message_limit` and
/// `cache_control`, and a small tool loop runs without them.
#[kit::test]
async fn quirks_that_are_drawn_from_all_provider_files_are_found() {
    let lines: Vec<QuirkLine> = QuirkLine::all();
    let lines: Vec<QuirkLine> = lines
        .into_iter()
        .filter(|line| line.behaviour(0).is_some())
        .collect();
    let mut random = SeededRandom::new(seed(SEED));
    let (mut found, mut requests, mut tokens) = (0, 0, 0);
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..PRESETS {
        let quirks = draw_quirks(&mut random, &lines);
        let script = script(&mut random, &quirks);
        let measured = measured(&script, &quirks).await;
        let file = &measured.file;
        requests += measured.requests;
        tokens += measured.tokens;
        let parameters = check(&measured.report, Some(0), "parameters");
        // Where no request is left for them, the doctor says so.
        let is_told = parameters["status"] == "warning";
        for name in SERVICES {
            let is_refused = script["refuse"]
                .to_string()
                .contains(&format!("\"{name}\""));
            let is_sent = file["quirks"].get(name).and_then(toml::Value::as_bool);
            let is_right = is_refused != (is_sent == Some(true)) || (is_told && is_sent.is_none());
            assert!(is_right, "{name}: {script}");
        }
        for line in &quirks {
            if line.is_in(file) {
                found += 1;
            } else {
                *missing
                    .entry(format!(
                        "{} = {}, not {:?} ({})",
                        line.key,
                        line.value,
                        file["quirks"].get(&line.key),
                        script["refuse"]
                    ))
                    .or_default() += 1;
            }
        }
    }
    println!(
        "{found} of {} quirks with {requests} requests and {tokens} tokens, without {missing:?}",
        PRESETS * QUIRKS
    );
    assert!(
        found * 100 >= PRESETS * QUIRKS * FOUND,
        "{found}: {missing:?}"
    );
}

/// On servers that have what is not measured, a tool loop runs without it.
#[kit::test]
async fn a_tool_loop_does_not_need_what_is_not_measured() {
    let lines = QuirkLine::all().into_iter();
    let lines = lines.filter(|line| NOT_MEASURED.iter().any(|(key, _)| *key == line.key));
    let mut seen: Vec<QuirkLine> = Vec::new();
    for line in lines {
        if seen.contains(&line) {
            continue;
        }
        let mut refuse = vec![json!("unmatched_results"), json!("unanswered_calls")];
        if line.key == "message_limit" {
            refuse.push(json!({"message_length": line.value.as_integer().unwrap()}));
        }
        let answers = tool_loop_answers(&json!({"id": "call_7b1e6a3f"}), None);
        let script = json!({"refuse": refuse, "answers": answers});
        let file = measured(&script, std::slice::from_ref(&line)).await.file;
        assert_eq!(file["quirks"].get(&line.key), None, "{file}");
        seen.push(line);
    }
    let keys: Vec<&str> = seen.iter().map(|line| line.key.as_str()).collect();
    assert!(NOT_MEASURED.iter().all(|(key, _)| keys.contains(key)));
}

/// What the doctor has measured.
struct Measured {
    /// The file that it has written.
    file: toml::Table,
    /// What it has printed.
    report: Value,
    requests: usize,
    tokens: u64,
}

/// Measures a server with this script. Nothing is refused in a tool loop on the file.
async fn measured(script: &Value, quirks: &[QuirkLine]) -> Measured {
    let player_script: PlayerScript = serde_json::from_value(script.clone()).unwrap();
    let player = Player::start(player_script).await.unwrap();
    let setup = Setup::new();
    let folder = setup.folder(UNUSED_URL);
    let base_url = player.base_url();
    let args = ["--url", &base_url, "--provider", "lab", "--write"];
    let (code, report) = doctor(&setup, folder.path(), &args).await;
    let requests = player.requests();
    let told = || format!("{quirks:?}\n{script}\n{report:#}");
    assert_eq!(code, 0, "{}", told());
    assert!(requests.len() <= 12, "{}", told());
    let tokens = report["providers"][0]["tokens"].as_u64().unwrap();
    assert!(tokens <= 20_000, "{}", told());
    let file = written(folder.path(), "lab");

    let proxy = Proxy::start_in_folder(folder, &setup).await;
    run_tool_loop(&proxy, "lab/scripted").await;
    for request in player.requests().split_off(requests.len()) {
        assert!(
            !request.refused,
            "{}\n{}\n{}",
            request.refusal,
            request.body,
            told()
        );
    }
    Measured {
        requests: requests.len(),
        file,
        report,
        tokens,
    }
}
