//! Refusals that lead to a quirk patch, and some that do not.

use registry::{
    CallContent, CallIds, EnumSet, MaxTokensField, ReasoningRequired, ResponseFormat, SchemaRule,
    SystemRole, ToolChoiceMode,
};

use super::{fault_of, from_reply, openai};
use crate::fault::{Kind, Retry};
use crate::quirk_patch::{ChatPatch, EffortLevels, ModelPatch, Parameter, QuirkPatch, SharedPatch};
use crate::relay::refusals;

fn omit(parameter: Parameter) -> QuirkPatch {
    SharedPatch::OmitParameter(parameter).into()
}

fn without(values: &[ToolChoiceMode]) -> QuirkPatch {
    let set = values
        .iter()
        .fold(EnumSet::empty(), |set, value| set.with(*value));
    SharedPatch::WithoutToolChoice(set).into()
}

#[test]
fn a_known_refusal_leads_to_one_patch() {
    let levels = |names: &[&str]| {
        QuirkPatch::from(ModelPatch::Efforts(
            EffortLevels::from_names(names).unwrap(),
        ))
    };
    for (message, patch) in [
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            ChatPatch::RequireReasoning(ReasoningRequired::Calls).into(),
        ),
        (
            "The reasoning_content in the thinking mode must be passed back to the API.",
            ChatPatch::RequireReasoning(ReasoningRequired::Always).into(),
        ),
        (
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
            SharedPatch::NoReasoning.into(),
        ),
        (
            "Function call `x` in the `1.` content block is missing a `thought_signature`.",
            ChatPatch::RequireSignatures.into(),
        ),
        (
            "Function call is missing a thought_signature in functionCall parts.",
            ChatPatch::RequireSignatures.into(),
        ),
        (
            "Corrupted thought signature.",
            ChatPatch::NoSignatures.into(),
        ),
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            SharedPatch::NoReasoning.into(),
        ),
        (
            "The `thinking` blocks in the latest assistant message cannot be modified.",
            SharedPatch::NoReasoning.into(),
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
            omit(Parameter::Temperature),
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            ChatPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens).into(),
        ),
        (
            "property 'max_completion_tokens' is unsupported",
            ChatPatch::MaxTokensField(MaxTokensField::MaxTokens).into(),
        ),
        (
            "Range of max_tokens should be [1, 8192]",
            ModelPatch::MaxOutput(8_192).into(),
        ),
        (
            "max_tokens参数非法：取值范围 [1,131072]",
            ModelPatch::MaxOutput(131_072).into(),
        ),
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
            ModelPatch::MaxOutput(8_192).into(),
        ),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            ModelPatch::MaxOutput(16_384).into(),
        ),
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for x",
            ModelPatch::MaxOutput(64_000).into(),
        ),
        (
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
            ModelPatch::MaxOutput(65_536).into(),
        ),
        (
            "invalid temperature: only 1 is allowed for this model",
            omit(Parameter::Temperature),
        ),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
            omit(Parameter::Temperature),
        ),
        (
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
            ChatPatch::MaxTemperature(100).into(),
        ),
        (
            "temperature must be in (0, 1]",
            ChatPatch::MaxTemperature(100).into(),
        ),
        (
            "Unknown parameter: 'presence_penalty'.",
            SharedPatch::OmitParameter(Parameter::Penalties).into(),
        ),
        (
            "Model m does not support parameter presencePenalty.",
            SharedPatch::OmitParameter(Parameter::Penalties).into(),
        ),
        (
            "Unrecognized request argument supplied: logprobs",
            SharedPatch::OmitParameter(Parameter::Logprobs).into(),
        ),
        (
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            SharedPatch::OmitParameter(Parameter::ParallelToolCalls).into(),
        ),
        (
            "unknown field `strict`, expected one of `name`, `description`",
            SharedPatch::OmitParameter(Parameter::Strict).into(),
        ),
        (
            "Unknown name \"stream_options\": Cannot find field.",
            SharedPatch::OmitParameter(Parameter::StreamOptions).into(),
        ),
        (
            "property 'prompt_cache_key' is unsupported",
            SharedPatch::OmitParameter(Parameter::PromptCacheKey).into(),
        ),
        (
            "property 'service_tier' is unsupported",
            SharedPatch::OmitParameter(Parameter::ServiceTier).into(),
        ),
        (
            "Unsupported parameter: 'verbosity'",
            SharedPatch::OmitParameter(Parameter::Verbosity).into(),
        ),
        (
            "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            SharedPatch::NoEffort.into(),
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
            ChatPatch::NoThinkingSwitch.into(),
        ),
        (
            "invalid params, requires adaptive thinking (2013)",
            ChatPatch::NoThinkingSwitch.into(),
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
            "Only a tool_choice of 'auto' is supported for this model.",
            without(&[
                ToolChoiceMode::None,
                ToolChoiceMode::Required,
                ToolChoiceMode::Named,
            ]),
        ),
        (
            "tool_choice 'specified' is incompatible with thinking enabled",
            without(&[ToolChoiceMode::Named]),
        ),
        (
            "This response_format type is unavailable now",
            ChatPatch::ResponseFormat(ResponseFormat::JsonObject).into(),
        ),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            ChatPatch::ResponseFormat(ResponseFormat::JsonObject).into(),
        ),
        (
            "Unsupported parameter: 'response_format'",
            ChatPatch::ResponseFormat(ResponseFormat::None).into(),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            SharedPatch::SystemRole(SystemRole::System).into(),
        ),
        (
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`",
            SharedPatch::SystemRole(SystemRole::System).into(),
        ),
        (
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
            SharedPatch::SystemRole(SystemRole::System).into(),
        ),
        (
            "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user, assistant, tool",
            SharedPatch::SystemRole(SystemRole::System).into(),
        ),
        (
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            SharedPatch::SystemRole(SystemRole::User).into(),
        ),
        (
            "invalid params, chat content has invalid message role: system (2013)",
            SharedPatch::SystemRole(SystemRole::User).into(),
        ),
        (
            "System message must be at the beginning.",
            ChatPatch::SystemFirst.into(),
        ),
        (
            "Unexpected role 'user' after role 'tool'",
            ChatPatch::AnswerAfterTool.into(),
        ),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            ChatPatch::MergeUser.into(),
        ),
        (
            "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`",
            ModelPatch::NoImages.into(),
        ),
        ("Image input not supported", ModelPatch::NoImages.into()),
        (
            "No endpoints found that support image input",
            ModelPatch::NoImages.into(),
        ),
        ("m is not a multimodal model", ModelPatch::NoImages.into()),
        (
            "content blocks are expected to be either text or image_url type",
            ModelPatch::NoAudio.into(),
        ),
        (
            "messages[0]: unknown variant `input_audio`, expected `text` or `image_url`",
            ModelPatch::NoAudio.into(),
        ),
        (
            "No endpoints found that support input audio",
            ModelPatch::NoAudio.into(),
        ),
        (
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
            SharedPatch::MaxTools(128).into(),
        ),
        (
            "Currently, max 64 functions are supported",
            SharedPatch::MaxTools(64).into(),
        ),
        (
            "Too many tools: 300, the limit is 256",
            SharedPatch::MaxTools(256).into(),
        ),
        (
            "This model does not support assistant message prefill. The conversation must end with a user message.",
            SharedPatch::EndWithUser.into(),
        ),
        (
            "Your API request included an `assistant` message in the final position, which would pre-fill the `assistant` response.",
            SharedPatch::EndWithUser.into(),
        ),
        (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
            SharedPatch::EndWithUser.into(),
        ),
        (
            "The last message of m must be a user message, or an assistant message with prefix mode on",
            SharedPatch::EndWithUser.into(),
        ),
        (
            "Assistant response prefill is incompatible with enable_thinking.",
            SharedPatch::EndWithUser.into(),
        ),
        (
            "unsupported image url: https://x/y.png",
            SharedPatch::NoImageUrls.into(),
        ),
        (
            "unknown variant `file`, expected one of `text`, `image_url`",
            SharedPatch::NoFiles.into(),
        ),
        ("text is not set", ChatPatch::ImageNeedsText.into()),
        (
            "invalid params, invalid chat setting (2013)",
            SharedPatch::OmitParameter(Parameter::ParallelToolCalls).into(),
        ),
        (
            "Invalid request: text content is empty",
            ChatPatch::CallContent(CallContent::Omitted).into(),
        ),
        (
            "messages[2]: missing field `content` at line 1 column 90",
            ChatPatch::CallContent(CallContent::Empty).into(),
        ),
        (
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
            ChatPatch::CallIds(CallIds::NineAlphanumeric).into(),
        ),
        (
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            ChatPatch::CallIds(CallIds::Word).into(),
        ),
        (
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
            ChatPatch::CallIds(CallIds::Word).into(),
        ),
        (
            "GenerateContentRequest.contents[3].parts[0].function_response.name: Name cannot be empty.",
            ChatPatch::ToolNames.into(),
        ),
        (
            "Cannot use tools with stream",
            ChatPatch::NoCallStreaming.into(),
        ),
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
        let body = openai(message);
        let of_relay = from_reply(refusals::find_patch, 400, None, body.as_bytes()).patch;
        match patch {
            QuirkPatch::Model(_) | QuirkPatch::Shared(_) => {
                // On the other wire the parameter does not exist.
                let is_unknown = message.contains("stream_options");
                assert_eq!(of_relay, (!is_unknown).then_some(patch), "{message}");
            }
            QuirkPatch::Chat(_) => assert_eq!(of_relay, None, "{message}"),
            QuirkPatch::Relay(_) => panic!("{message}"),
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
        let Some(QuirkPatch::Shared(SharedPatch::Schema(rules))) = fault_of(400, body).patch else {
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
            SharedPatch::NoReasoning.into(),
        ),
        (
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]}"#,
            "tools.0.function.strict",
            SharedPatch::OmitParameter(Parameter::Strict).into(),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","messages",0,"role"],"msg":"Input should be 'system', 'user', 'assistant' or 'tool'"}]}"#,
            "messages.0.role",
            SharedPatch::SystemRole(SystemRole::System).into(),
        ),
        (
            r#"{"detail":[{"type":"enum","loc":["body","reasoning_effort"],"msg":"Input should be 'low', 'medium' or 'high'"}]}"#,
            "reasoning_effort",
            ModelPatch::Efforts(EffortLevels::from_names(&["low", "medium", "high"]).unwrap())
                .into(),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter","param":"top_p","code":"unsupported_parameter"}}"#,
            "top_p",
            omit(Parameter::TopP),
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
        "Unsupported audio format: opus. Use wav or mp3.",
        "Invalid 'messages[3].tool_calls': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
    ] {
        let fault = fault_of(400, &openai(message));
        assert_eq!(
            (fault.kind, fault.patch),
            (Kind::Refused, None),
            "{message}"
        );
    }
}
