//! Texts of providers that teach something, and such that do not.

use registry::{
    CallContent, CallIds, EnumSet, MaxTokensField, ReasoningRequired, ResponseFormat, SchemaRule,
    SystemRole, ToolChoiceMode,
};

use super::{openai, told};
use crate::fault::{Kind, Retry};
use crate::mend::{Levels, Mend, Parameter};

fn without(values: &[ToolChoiceMode]) -> Mend {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    Mend::WithoutToolChoice(set)
}

#[test]
fn a_known_refusal_teaches_one_thing() {
    let levels = |words: &[&str]| Mend::Efforts(Levels::among(words).unwrap());
    for (message, mend) in [
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            Mend::Reasoning(ReasoningRequired::Calls),
        ),
        (
            "The reasoning_content in the thinking mode must be passed back to the API.",
            Mend::Reasoning(ReasoningRequired::Always),
        ),
        (
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
            Mend::NoReasoning,
        ),
        (
            "Function call `x` in the `1.` content block is missing a `thought_signature`.",
            Mend::Signatures,
        ),
        (
            "Function call is missing a thought_signature in functionCall parts.",
            Mend::Signatures,
        ),
        ("Corrupted thought signature.", Mend::NoSignatures),
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            Mend::NoReasoning,
        ),
        (
            "The `thinking` blocks in the latest assistant message cannot be modified.",
            Mend::NoReasoning,
        ),
        (
            "Thinking mode does not support this tool_choice",
            without(&[ToolChoiceMode::Required, ToolChoiceMode::Named]),
        ),
        (
            "Thinking may not be enabled when tool_choice forces tool use.",
            without(&[ToolChoiceMode::Required, ToolChoiceMode::Named]),
        ),
        (
            "`temperature` may only be set to 1 when thinking is enabled.",
            Mend::NoSampling,
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Mend::MaxTokensField(MaxTokensField::MaxCompletionTokens),
        ),
        (
            "property 'max_completion_tokens' is unsupported",
            Mend::MaxTokensField(MaxTokensField::MaxTokens),
        ),
        (
            "Range of max_tokens should be [1, 8192]",
            Mend::MaxOutput(8_192),
        ),
        (
            "max_tokens参数非法：取值范围 [1,131072]",
            Mend::MaxOutput(131_072),
        ),
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
            Mend::MaxOutput(8_192),
        ),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            Mend::MaxOutput(16_384),
        ),
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for x",
            Mend::MaxOutput(64_000),
        ),
        (
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
            Mend::MaxOutput(65_536),
        ),
        (
            "invalid temperature: only 1 is allowed for this model",
            Mend::NoSampling,
        ),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
            Mend::NoSampling,
        ),
        (
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
            Mend::MaxTemperature(100),
        ),
        ("temperature must be in (0, 1]", Mend::MaxTemperature(100)),
        (
            "Unknown parameter: 'presence_penalty'.",
            Mend::Without(Parameter::Penalties),
        ),
        (
            "Model m does not support parameter presencePenalty.",
            Mend::Without(Parameter::Penalties),
        ),
        (
            "Unrecognized request argument supplied: logprobs",
            Mend::Without(Parameter::Logprobs),
        ),
        (
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            Mend::Without(Parameter::ParallelToolCalls),
        ),
        (
            "unknown field `strict`, expected one of `name`, `description`",
            Mend::Without(Parameter::Strict),
        ),
        (
            "Unknown name \"stream_options\": Cannot find field.",
            Mend::Without(Parameter::StreamOptions),
        ),
        (
            "property 'prompt_cache_key' is unsupported",
            Mend::Without(Parameter::PromptCacheKey),
        ),
        (
            "property 'service_tier' is unsupported",
            Mend::Without(Parameter::ServiceTier),
        ),
        (
            "Unsupported parameter: 'verbosity'",
            Mend::Without(Parameter::Verbosity),
        ),
        (
            "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            Mend::NoEffort,
        ),
        (
            "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
            levels(&["low", "medium", "high", "max"]),
        ),
        (
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'none', 'low', 'medium', and 'high'.",
            levels(&["none", "low", "medium", "high"]),
        ),
        (
            "The value of the enable_thinking parameter is restricted to True.",
            Mend::NoThinkingSwitch,
        ),
        (
            "invalid params, requires adaptive thinking (2013)",
            Mend::NoThinkingSwitch,
        ),
        (
            "The tool_choice parameter does not support being set to required or object in thinking mode",
            without(&[ToolChoiceMode::Required, ToolChoiceMode::Named]),
        ),
        (
            "tool_choice 'required' is incompatible with thinking enabled",
            without(&[ToolChoiceMode::Required]),
        ),
        (
            "tool_choice 'specified' is incompatible with thinking enabled",
            without(&[ToolChoiceMode::Named]),
        ),
        (
            "This response_format type is unavailable now",
            Mend::ResponseFormat(ResponseFormat::JsonObject),
        ),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            Mend::ResponseFormat(ResponseFormat::JsonObject),
        ),
        (
            "Unsupported parameter: 'response_format'",
            Mend::ResponseFormat(ResponseFormat::None),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            Mend::SystemRole(SystemRole::System),
        ),
        (
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`",
            Mend::SystemRole(SystemRole::System),
        ),
        (
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
            Mend::SystemRole(SystemRole::System),
        ),
        (
            "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user, assistant, tool",
            Mend::SystemRole(SystemRole::System),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            Mend::SystemRole(SystemRole::User),
        ),
        (
            "invalid params, chat content has invalid message role: system (2013)",
            Mend::SystemRole(SystemRole::User),
        ),
        (
            "System message must be at the beginning.",
            Mend::SystemFirst,
        ),
        (
            "Unexpected role 'user' after role 'tool'",
            Mend::AnswerAfterTool,
        ),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            Mend::MergeUser,
        ),
        (
            "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`",
            Mend::NoImages,
        ),
        ("Image input not supported", Mend::NoImages),
        (
            "No endpoints found that support image input",
            Mend::NoImages,
        ),
        ("m is not a multimodal model", Mend::NoImages),
        ("unsupported image url: https://x/y.png", Mend::NoImageUrls),
        (
            "unknown variant `file`, expected one of `text`, `image_url`",
            Mend::NoFiles,
        ),
        ("text is not set", Mend::ImageNeedsText),
        (
            "invalid params, invalid chat setting (2013)",
            Mend::Without(Parameter::ParallelToolCalls),
        ),
        (
            "Invalid request: text content is empty",
            Mend::CallContent(CallContent::Omitted),
        ),
        (
            "messages[2]: missing field `content` at line 1 column 90",
            Mend::CallContent(CallContent::Empty),
        ),
        (
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
            Mend::CallIds(CallIds::NineAlphanumeric),
        ),
        (
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            Mend::CallIds(CallIds::Word),
        ),
        (
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
            Mend::CallIds(CallIds::Word),
        ),
        (
            "GenerateContentRequest.contents[3].parts[0].function_response.name: Name cannot be empty.",
            Mend::ToolNames,
        ),
        ("Cannot use tools with stream", Mend::WholeCalls),
    ] {
        for status in [400, 422] {
            let fault = told(status, &openai(message));
            assert_eq!(fault.mend, Some(mend), "{message}");
            assert_eq!(
                (fault.kind, fault.retry),
                (Kind::Refused, Retry::Never),
                "{message}"
            );
            assert_eq!(fault.message, message);
        }
    }
}

#[test]
fn a_refused_schema_turns_rules_on() {
    for (body, some) in [
        (
            r#"{"error":{"message":"Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.x': type is not defined>","type":"invalid_request_error"}}"#,
            SchemaRule::TypedProperties,
        ),
        (
            r#"[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.","status":"INVALID_ARGUMENT"}}]"#,
            SchemaRule::NoAdditionalProperties,
        ),
        (
            r#"{"error":{"message":"Invalid schema for function 'x': In context=('properties', 'a'), array schema missing items.","param":"tools[0].function.parameters","code":"invalid_function_parameters"}}"#,
            SchemaRule::OneItemSchema,
        ),
        (
            r#"{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}"#,
            SchemaRule::NoPatterns,
        ),
    ] {
        let Some(Mend::Schema(rules)) = told(400, body).mend else {
            panic!("{body}");
        };
        assert!(rules.contains(some), "{body}");
    }
}

#[test]
fn the_place_of_a_complaint_names_the_parameter() {
    for (body, param, mend) in [
        (
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted","input":"x"}]},"type":"invalid_request_error","param":null,"code":null}"#,
            "messages.2.assistant.reasoning_content",
            Mend::NoReasoning,
        ),
        (
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]}"#,
            "tools.0.function.strict",
            Mend::Without(Parameter::Strict),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","messages",0,"role"],"msg":"Input should be 'system', 'user', 'assistant' or 'tool'"}]}"#,
            "messages.0.role",
            Mend::SystemRole(SystemRole::System),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","reasoning_effort"],"msg":"Input should be 'low', 'medium' or 'high'"}]}"#,
            "reasoning_effort",
            Mend::Efforts(Levels::among(&["low", "medium", "high"]).unwrap()),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter","param":"top_p","code":"unsupported_parameter"}}"#,
            "top_p",
            Mend::NoSampling,
        ),
    ] {
        let fault = told(422, body);
        assert_eq!(fault.param.as_deref(), Some(param), "{body}");
        assert_eq!(fault.mend, Some(mend), "{body}");
    }
}

#[test]
fn a_vague_refusal_teaches_nothing() {
    for message in [
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        "max_tokens must be at least 1, got -3",
        "Unexpected message role.",
        "Unknown parameter: 'input[0].foo'.",
        "Unsupported parameters: top_p and parallel_tool_calls are not supported parameters",
        "Cannot fetch content from the provided URL. Status: URL_ROBOTED",
        "m does not support tools",
        "Tool call validation failed",
        "strict mode is a mode of thinking",
        "No tool output found for tool call call-a.",
        "The effort was too high.",
        "Request contains an invalid argument.",
    ] {
        let fault = told(400, &openai(message));
        assert_eq!((fault.kind, fault.mend), (Kind::Refused, None), "{message}");
    }
}
