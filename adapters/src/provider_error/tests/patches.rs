//! Refusals that lead to a quirk patch, and some that do not.

use registry::{
    CallContent, CallIds, EnumSet, MaxTokensField, ReasoningRequired, ResponseFormat, SchemaRule,
    SystemRole, ToolChoiceMode,
};

use super::{fault_of, openai};
use crate::fault::{Kind, Retry};
use crate::quirk_patch::{EffortLevels, Parameter, QuirkPatch};

fn without(values: &[ToolChoiceMode]) -> QuirkPatch {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    QuirkPatch::WithoutToolChoice(set)
}

#[test]
fn a_known_refusal_leads_to_one_patch() {
    let levels = |names: &[&str]| QuirkPatch::Efforts(EffortLevels::from_names(names).unwrap());
    for (message, patch) in [
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            QuirkPatch::RequireReasoning(ReasoningRequired::Calls),
        ),
        (
            "The reasoning_content in the thinking mode must be passed back to the API.",
            QuirkPatch::RequireReasoning(ReasoningRequired::Always),
        ),
        (
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
            QuirkPatch::NoReasoning,
        ),
        (
            "Function call `x` in the `1.` content block is missing a `thought_signature`.",
            QuirkPatch::RequireSignatures,
        ),
        (
            "Function call is missing a thought_signature in functionCall parts.",
            QuirkPatch::RequireSignatures,
        ),
        ("Corrupted thought signature.", QuirkPatch::NoSignatures),
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            QuirkPatch::NoReasoning,
        ),
        (
            "The `thinking` blocks in the latest assistant message cannot be modified.",
            QuirkPatch::NoReasoning,
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
            QuirkPatch::NoSampling,
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            QuirkPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens),
        ),
        (
            "property 'max_completion_tokens' is unsupported",
            QuirkPatch::MaxTokensField(MaxTokensField::MaxTokens),
        ),
        (
            "Range of max_tokens should be [1, 8192]",
            QuirkPatch::MaxOutput(8_192),
        ),
        (
            "max_tokens参数非法：取值范围 [1,131072]",
            QuirkPatch::MaxOutput(131_072),
        ),
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
            QuirkPatch::MaxOutput(8_192),
        ),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            QuirkPatch::MaxOutput(16_384),
        ),
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for x",
            QuirkPatch::MaxOutput(64_000),
        ),
        (
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
            QuirkPatch::MaxOutput(65_536),
        ),
        (
            "invalid temperature: only 1 is allowed for this model",
            QuirkPatch::NoSampling,
        ),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
            QuirkPatch::NoSampling,
        ),
        (
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
            QuirkPatch::MaxTemperature(100),
        ),
        (
            "temperature must be in (0, 1]",
            QuirkPatch::MaxTemperature(100),
        ),
        (
            "Unknown parameter: 'presence_penalty'.",
            QuirkPatch::OmitParameter(Parameter::Penalties),
        ),
        (
            "Model m does not support parameter presencePenalty.",
            QuirkPatch::OmitParameter(Parameter::Penalties),
        ),
        (
            "Unrecognized request argument supplied: logprobs",
            QuirkPatch::OmitParameter(Parameter::Logprobs),
        ),
        (
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            QuirkPatch::OmitParameter(Parameter::ParallelToolCalls),
        ),
        (
            "unknown field `strict`, expected one of `name`, `description`",
            QuirkPatch::OmitParameter(Parameter::Strict),
        ),
        (
            "Unknown name \"stream_options\": Cannot find field.",
            QuirkPatch::OmitParameter(Parameter::StreamOptions),
        ),
        (
            "property 'prompt_cache_key' is unsupported",
            QuirkPatch::OmitParameter(Parameter::PromptCacheKey),
        ),
        (
            "property 'service_tier' is unsupported",
            QuirkPatch::OmitParameter(Parameter::ServiceTier),
        ),
        (
            "Unsupported parameter: 'verbosity'",
            QuirkPatch::OmitParameter(Parameter::Verbosity),
        ),
        (
            "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            QuirkPatch::NoEffort,
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
            QuirkPatch::NoThinkingSwitch,
        ),
        (
            "invalid params, requires adaptive thinking (2013)",
            QuirkPatch::NoThinkingSwitch,
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
            QuirkPatch::ResponseFormat(ResponseFormat::JsonObject),
        ),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            QuirkPatch::ResponseFormat(ResponseFormat::JsonObject),
        ),
        (
            "Unsupported parameter: 'response_format'",
            QuirkPatch::ResponseFormat(ResponseFormat::None),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            QuirkPatch::SystemRole(SystemRole::System),
        ),
        (
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`",
            QuirkPatch::SystemRole(SystemRole::System),
        ),
        (
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
            QuirkPatch::SystemRole(SystemRole::System),
        ),
        (
            "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user, assistant, tool",
            QuirkPatch::SystemRole(SystemRole::System),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            QuirkPatch::SystemRole(SystemRole::User),
        ),
        (
            "invalid params, chat content has invalid message role: system (2013)",
            QuirkPatch::SystemRole(SystemRole::User),
        ),
        (
            "System message must be at the beginning.",
            QuirkPatch::SystemFirst,
        ),
        (
            "Unexpected role 'user' after role 'tool'",
            QuirkPatch::AnswerAfterTool,
        ),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            QuirkPatch::MergeUser,
        ),
        (
            "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`",
            QuirkPatch::NoImages,
        ),
        ("Image input not supported", QuirkPatch::NoImages),
        (
            "No endpoints found that support image input",
            QuirkPatch::NoImages,
        ),
        ("m is not a multimodal model", QuirkPatch::NoImages),
        (
            "unsupported image url: https://x/y.png",
            QuirkPatch::NoImageUrls,
        ),
        (
            "unknown variant `file`, expected one of `text`, `image_url`",
            QuirkPatch::NoFiles,
        ),
        ("text is not set", QuirkPatch::ImageNeedsText),
        (
            "invalid params, invalid chat setting (2013)",
            QuirkPatch::OmitParameter(Parameter::ParallelToolCalls),
        ),
        (
            "Invalid request: text content is empty",
            QuirkPatch::CallContent(CallContent::Omitted),
        ),
        (
            "messages[2]: missing field `content` at line 1 column 90",
            QuirkPatch::CallContent(CallContent::Empty),
        ),
        (
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
            QuirkPatch::CallIds(CallIds::NineAlphanumeric),
        ),
        (
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            QuirkPatch::CallIds(CallIds::Word),
        ),
        (
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
            QuirkPatch::CallIds(CallIds::Word),
        ),
        (
            "GenerateContentRequest.contents[3].parts[0].function_response.name: Name cannot be empty.",
            QuirkPatch::ToolNames,
        ),
        ("Cannot use tools with stream", QuirkPatch::NoCallStreaming),
    ] {
        for status in [400, 422] {
            let fault = fault_of(status, &openai(message));
            assert_eq!(fault.patch, Some(patch), "{message}");
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
        let Some(QuirkPatch::Schema(rules)) = fault_of(400, body).patch else {
            panic!("{body}");
        };
        assert!(rules.contains(some), "{body}");
    }
}

#[test]
fn the_location_of_an_error_names_the_parameter() {
    for (body, param, patch) in [
        (
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted","input":"x"}]},"type":"invalid_request_error","param":null,"code":null}"#,
            "messages.2.assistant.reasoning_content",
            QuirkPatch::NoReasoning,
        ),
        (
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]}"#,
            "tools.0.function.strict",
            QuirkPatch::OmitParameter(Parameter::Strict),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","messages",0,"role"],"msg":"Input should be 'system', 'user', 'assistant' or 'tool'"}]}"#,
            "messages.0.role",
            QuirkPatch::SystemRole(SystemRole::System),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","reasoning_effort"],"msg":"Input should be 'low', 'medium' or 'high'"}]}"#,
            "reasoning_effort",
            QuirkPatch::Efforts(EffortLevels::from_names(&["low", "medium", "high"]).unwrap()),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter","param":"top_p","code":"unsupported_parameter"}}"#,
            "top_p",
            QuirkPatch::NoSampling,
        ),
    ] {
        let fault = fault_of(422, body);
        assert_eq!(fault.param.as_deref(), Some(param), "{body}");
        assert_eq!(fault.patch, Some(patch), "{body}");
    }
}

#[test]
fn a_vague_refusal_leads_to_no_patch() {
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
        let fault = fault_of(400, &openai(message));
        assert_eq!(
            (fault.kind, fault.patch),
            (Kind::Refused, None),
            "{message}"
        );
    }
}
