//! Refusals and the quirk that each teaches. The upstream refuses requests that contain
//! a text, and the learned quirk removes that text from the request.
use serde_json::{Value, json};

/// A patch, and the turns that are refused until it is learned.
pub struct Row {
    /// The name of the patch in a bundle.
    pub patch: &'static str,
    /// The wire of the provider.
    pub wire: &'static str,
    /// Further settings of the model's table, and the provider's quirks, in TOML.
    pub model: &'static str,
    pub quirks: &'static str,
    /// The requests, without their model. The output of one is inserted into the next, after
    /// the first item.
    pub turns: Vec<Value>,
    /// The script of the upstream.
    pub script: Value,
    /// Whether the words of the refusal are known; else the patch is found by experiment.
    pub has_known_words: bool,
}

/// The upstream refuses requests that contain `text`, and accepts the others.
fn refuses(text: &str, message: &str) -> Value {
    let error = json!({"error": {"message": message}});
    json!({"answers": [
        {"repeat": true, "when": {"body_contains": text}, "status": 400, "json": error},
        {"repeat": true, "steps": [{"text": "well"}]}
    ]})
}

/// The upstream refuses requests that contain `text` but not `lacking`.
fn misses(lacking: &str, text: &str, message: &str) -> Value {
    let mut script = refuses(text, message);
    let fine =
        json!({"repeat": true, "when": {"body_contains": lacking}, "steps": [{"text": "well"}]});
    script["answers"].as_array_mut().unwrap().insert(0, fine);
    script
}

/// The upstream enforces a rule of the strict checker, with this message.
fn keeps(rule: &str, message: &str) -> Value {
    json!({
        "refuse": [{"rule": rule, "message": message}],
        "answers": [{"repeat": true, "steps": [{"text": "well"}]}]
    })
}

fn turn(more: Value) -> Value {
    let mut body = json!({"input": [{"role": "user", "content": "go"}]});
    let Value::Object(more) = more else {
        panic!("{more}")
    };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn tool() -> Value {
    json!({"type": "function", "name": "f", "parameters": {"type": "object"}})
}

fn tools(more: Value) -> Value {
    let mut body = turn(more);
    body["tools"] = json!([tool()]);
    body
}

/// A request with a call, its result, and further items.
fn looped(more: &[Value]) -> Value {
    let mut body = tools(json!({}));
    let input = body["input"].as_array_mut().unwrap();
    input.push(json!({"type": "function_call", "call_id": "call_of_the_loop", "name": "f", "arguments": "{}"}));
    input.push(
        json!({"type": "function_call_output", "call_id": "call_of_the_loop", "output": "seen"}),
    );
    input.extend_from_slice(more);
    body
}

fn says(parts: &Value) -> Value {
    turn(json!({"input": [{"role": "user", "content": parts}]}))
}

fn row(patch: &'static str, body: Value, script: Value) -> Row {
    Row {
        patch,
        wire: "chat",
        model: "",
        quirks: "",
        turns: vec![body],
        script,
        has_known_words: true,
    }
}

impl Row {
    fn with(self, quirks: &'static str) -> Self {
        Self { quirks, ..self }
    }

    fn model(self, model: &'static str) -> Self {
        Self { model, ..self }
    }

    fn by_experiment(self) -> Self {
        Self {
            has_known_words: false,
            ..self
        }
    }

    fn over_responses(mut self) -> Self {
        self.script["wire"] = json!("responses");
        Self {
            wire: "responses",
            ..self
        }
    }
}

pub fn rows() -> Vec<Row> {
    [
        limits(),
        reasoning(),
        parameters(),
        messages(),
        media(),
        experiments(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn limits() -> Vec<Row> {
    vec![
        row(
            "window",
            turn(json!({"max_output_tokens": 9000})),
            refuses(":9000", "This model's maximum context length is 8192 tokens. However, you requested 9010 tokens (10 in the messages, 9000 in the completion)."),
        )
        .model("images = true"),
        row(
            "max_output",
            turn(json!({"max_output_tokens": 99000})),
            refuses(":99000", "max_tokens is too large: 99000. This model supports at most 8192 completion tokens, whereas you provided 99000."),
        ),
        row(
            "max_tokens_field",
            turn(json!({"max_output_tokens": 99})),
            refuses("\"max_tokens\"", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        ),
        row(
            "omit_parameter temperature",
            turn(json!({"temperature": 0.3})),
            refuses("\"temperature\"", "invalid temperature: only 1 is allowed for this model"),
        ),
        row(
            "max_temperature",
            turn(json!({"temperature": 1.5})),
            refuses(":1.5", "Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.5 instead."),
        ),
    ]
}

fn reasoning() -> Vec<Row> {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I must look."}]});
    let mut thoughtful = looped(&[]);
    thoughtful["input"]
        .as_array_mut()
        .unwrap()
        .insert(1, thought);
    let asks = |effort: &str| turn(json!({"reasoning": {"effort": effort}}));
    let signed = json!({"answers": [
        {"when": {"last_role": "user"}, "steps": [{"call": {"id": "c1", "name": "f", "arguments": "{}", "extra_content": {"google": {"thought_signature": "CvcBAdHtim9"}}}}]},
        {"repeat": true, "when": {"body_contains": "CvcBAdHtim9"}, "status": 400, "json": {"error": {"message": "Corrupted thought signature."}}},
        {"repeat": true, "steps": [{"text": "well"}]}
    ]});
    let result = json!({"type": "function_call_output", "call_id": "c1", "output": "seen"});
    let mut second = tools(json!({}));
    second["input"].as_array_mut().unwrap().push(result);
    vec![
        row(
            "require_reasoning",
            looped(&[]),
            misses("reasoning_content", "tool_calls", "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"),
        ),
        row(
            "no_reasoning",
            thoughtful,
            refuses("reasoning_content", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
        )
        .with("reasoning_replay = \"reasoning_content\""),
        row(
            "require_signatures",
            looped(&[]),
            misses("thought_signature", "tool_calls", "Function call is missing a thought_signature in functionCall parts."),
        ),
        Row {
            turns: vec![tools(json!({})), second],
            ..row("no_signatures", json!({}), signed)
        }
        .with("call_extra = \"kept\""),
        row(
            "efforts",
            asks("xhigh"),
            refuses("xhigh", "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
        )
        .with("reasoning_control = \"effort\"")
        .model("reasoning = [\"low\", \"xhigh\"]"),
        row(
            "no_effort",
            asks("high"),
            refuses("reasoning_effort", "Unsupported parameter: 'reasoning_effort' is not supported with this model."),
        )
        .with("reasoning_control = \"effort\"")
        .model("reasoning = [\"low\", \"high\"]"),
        row(
            "no_thinking_switch",
            asks("none"),
            refuses("enable_thinking", "The value of the enable_thinking parameter is restricted to True."),
        )
        .with("reasoning_control = \"enable_thinking\"")
        .model("reasoning = [\"none\", \"high\"]"),
        row(
            "omit_parameter reasoning_summary",
            turn(json!({"reasoning": {"effort": "high", "summary": "auto"}})),
            refuses("\"summary\":\"auto\"", "Unsupported parameter: 'reasoning.summary' is not supported with the 'm' model."),
        )
        .over_responses(),
        row(
            "omit_parameter include",
            turn(json!({})),
            refuses("\"include\"", "Unsupported parameter: 'include' is not supported."),
        )
        .over_responses(),
        row(
            "omit_parameter top_p",
            turn(json!({"top_p": 0.9})),
            refuses("\"top_p\"", "Unsupported parameter: 'top_p' is not supported with this model."),
        ),
        row(
            "no_agent_messages",
            turn(json!({"input": [{"type": "agent_message", "author": "/root", "recipient": "/root/a",
                "content": [{"type": "encrypted_content", "encrypted_content": "go"}]}]})),
            refuses("agent_message", "Invalid value: 'agent_message'."),
        )
        .over_responses(),
    ]
}

/// Refusals in words that nobody knows.
fn experiments() -> Vec<Row> {
    let part = |text: &str| json!({"type": "input_text", "text": text});
    let answer = json!({"role": "assistant", "phase": "final_answer", "content": "so"});
    let go_on = json!({"role": "user", "content": "and?"});
    let long = "much ".repeat(400);
    let rows = vec![
        row(
            "no_sampling",
            turn(json!({"temperature": 0.3, "top_p": 0.9})),
            refuses("\"top_p\"", "temperature: 🚫"),
        ),
        row(
            "omit_parameter stream",
            turn(json!({})),
            refuses("\"stream\":true", "`stream`: 🚫"),
        ),
        row(
            "omit_parameter stream",
            turn(json!({})),
            refuses("\"stream\":true", "`stream`: 🚫"),
        )
        .over_responses(),
        row(
            "omit_parameter max_output_tokens",
            turn(json!({"max_output_tokens": 99})),
            refuses("max_output_tokens", "max_output_tokens: 🚫"),
        )
        .over_responses(),
        row(
            "omit_parameter phase",
            turn(json!({"input": [{"role": "user", "content": "go"}, answer, go_on]})),
            refuses("\"phase\"", "`phase`: 🚫"),
        )
        .over_responses(),
        row(
            "response_format",
            turn(json!({"text": {"format": {"type": "json_object"}}})),
            refuses("\"format\"", "text.format: 🚫"),
        )
        .over_responses(),
        row(
            "without_tools",
            turn(json!({"tools": [{"type": "custom", "name": "f"}]})),
            refuses("\"custom\"", "tools[0].type: 🚫"),
        )
        .over_responses(),
        row(
            "call_arguments",
            looped(&[]),
            refuses(
                "\"arguments\":\"",
                "messages[1].tool_calls[0].function.arguments: 🚫",
            ),
        ),
        row(
            "content_form",
            says(&json!([part("one"), part("two")])),
            refuses("[{\"type\":\"text\"", "messages[0].content: 🚫 list"),
        ),
        row(
            "message_limit",
            says(&json!([part(&long)])),
            refuses(&long, "messages[0].content: 1200 🚫"),
        ),
    ];
    rows.into_iter().map(Row::by_experiment).collect()
}

fn parameters() -> Vec<Row> {
    let format = json!({"type": "json_schema", "name": "form", "schema": {"type": "object", "properties": {}}});
    let mut strict = tools(json!({}));
    strict["tools"][0]["strict"] = json!(true);
    let mut odd = tools(json!({}));
    odd["tools"][0]["parameters"] = json!({
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/place", "description": "Where"}, "level": {"enum": ["low", "high"]}},
        "$defs": {"place": {"type": "string"}}
    });
    vec![
        row(
            "omit_parameter penalties",
            turn(json!({"presence_penalty": 0.5})),
            refuses("presence_penalty", "Unknown parameter: 'presence_penalty'."),
        ),
        row(
            "omit_parameter logprobs",
            turn(json!({"top_logprobs": 2})),
            refuses(
                "logprobs",
                "Unrecognized request argument supplied: logprobs",
            ),
        ),
        row(
            "omit_parameter parallel_tool_calls",
            tools(json!({"parallel_tool_calls": false})),
            refuses(
                "parallel_tool_calls",
                "Unknown parameter: 'parallel_tool_calls'.",
            ),
        ),
        row(
            "omit_parameter strict",
            strict,
            refuses(
                "\"strict\"",
                "unknown field `strict`, expected one of `name`, `description`",
            ),
        )
        .with("strict_tools = true"),
        row(
            "omit_parameter stream_options",
            turn(json!({})),
            refuses(
                "stream_options",
                "body.stream_options: Extra inputs are not permitted",
            ),
        ),
        row(
            "omit_parameter prompt_cache_key",
            turn(json!({"prompt_cache_key": "k"})),
            refuses(
                "prompt_cache_key",
                "property 'prompt_cache_key' is unsupported",
            ),
        )
        .with("prompt_cache_key = true"),
        row(
            "omit_parameter cache_control",
            turn(json!({"instructions": "Be brief."})),
            refuses("cache_control", "property 'cache_control' is unsupported"),
        )
        .with("cache_control = true"),
        row(
            "omit_parameter service_tier",
            turn(json!({"service_tier": "flex"})),
            refuses("service_tier", "property 'service_tier' is unsupported"),
        )
        .with("service_tier = true"),
        row(
            "omit_parameter verbosity",
            turn(json!({"text": {"verbosity": "low"}})),
            refuses("verbosity", "Unsupported parameter: 'verbosity'"),
        )
        .with("verbosity = true, reasoning_control = \"effort\"")
        .model("reasoning = [\"low\"]"),
        row(
            "without_tool_choice",
            tools(json!({"tool_choice": "required"})),
            refuses(
                "tool_choice",
                "tool_choice 'required' is incompatible with thinking enabled",
            ),
        ),
        row(
            "response_format",
            turn(json!({"text": {"format": format}})),
            refuses(
                "\"json_schema\"",
                "This response_format type is unavailable now",
            ),
        ),
        row(
            "schema",
            odd,
            keeps(
                "bad_schema_kimi",
                "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.x': type is not defined>",
            ),
        ),
        row(
            "max_tools",
            turn(
                json!({"tools": (0..9).map(|n| json!({"type": "function", "name": format!("f{n}")})).collect::<Vec<_>>()}),
            ),
            refuses(
                "\"name\":\"f8\"",
                "Invalid 'tools': array too long. Expected an array with maximum length 8, but got an array with length 9 instead.",
            ),
        ),
        row(
            "no_call_streaming",
            tools(json!({})),
            refuses("\"stream\":true", "Cannot use tools with stream"),
        ),
    ]
}

fn messages() -> Vec<Row> {
    let user = |text: &str| json!({"role": "user", "content": text});
    let late = json!([user("go"), {"role": "developer", "content": "Be brief."}, user("now")]);
    vec![
        row(
            "system_role",
            turn(json!({"instructions": "Be brief."})),
            refuses("\"system\"", "System role not supported"),
        ),
        row(
            "system_first",
            turn(json!({ "input": late })),
            keeps("late_system", "System message must be at the beginning."),
        )
        .with("system_place = \"anywhere\""),
        row(
            "answer_after_tool",
            looped(&[user("now")]),
            keeps(
                "user_after_tool",
                "Unexpected role 'user' after role 'tool'",
            ),
        ),
        row(
            "end_with_user",
            turn(json!({"input": [user("go"), {"role": "assistant", "content": "Once "}]})),
            misses(
                "Continue.",
                "Once",
                "This model does not support assistant message prefill. The conversation must end with a user message.",
            ),
        ),
        row(
            "merge_user",
            turn(json!({"input": [user("go"), user("now")]})),
            keeps(
                "user_after_user",
                "Conversation roles must alternate user/assistant/user/assistant/...",
            ),
        ),
        row(
            "call_content",
            looped(&[]),
            keeps("null_content", "Invalid request: text content is empty"),
        ),
        row(
            "call_ids",
            looped(&[]),
            keeps(
                "call_id_form",
                "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9.",
            ),
        ),
        row(
            "tool_names",
            looped(&[]),
            keeps(
                "missing_tool_names",
                "GenerateContentRequest.contents[3].parts[0].function_response.name: Name cannot be empty.",
            ),
        ),
    ]
}

fn media() -> Vec<Row> {
    let text = json!({"type": "input_text", "text": "what is this?"});
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
    let linked = json!({"type": "input_image", "image_url": "https://images.example/a.png"});
    let file = json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="});
    vec![
        row(
            "no_images",
            says(&json!([text, image])),
            refuses("image_url", "Image input not supported"),
        ),
        row(
            "no_audio",
            says(
                &json!([text, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]),
            ),
            refuses("input_audio", "audio input is not supported"),
        ),
        row(
            "no_image_urls",
            says(&json!([text, linked])),
            refuses("image_url", "unsupported image url"),
        ),
        row(
            "image_needs_text",
            says(&json!([image])),
            misses("\"type\":\"text\"", "image_url", "text is not set"),
        ),
        row(
            "no_files",
            says(&json!([text, file])),
            refuses(
                "\"type\":\"file\"",
                "unknown variant `file`, expected one of `text`, `image_url`",
            ),
        )
        .with("files = true"),
    ]
}
