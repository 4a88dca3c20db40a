//! Texts of providers, and what they mean.

use std::time::Duration;

use serde_json::json;

use super::said::MESSAGE_LIMIT;
use super::*;

mod lessons;

fn told(status: u16, body: &str) -> Fault {
    reply(status, None, body.as_bytes())
}

/// An error in OpenAI's shape.
fn openai(message: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string()
}

#[test]
fn every_shape_gives_its_message() {
    for (body, message) in [
        (r#"{"error":{"message":"bad","type":"x"}}"#, "bad"),
        (r#"{"error":"bad"}"#, "bad"),
        (r#"{"code":"invalid-argument","error":"bad"}"#, "bad"),
        (
            r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
            "bad",
        ),
        (
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            "bad",
        ),
        (r#"{"detail":"bad"}"#, "bad"),
        (
            r#"{"detail":[{"loc":["body","n"],"msg":"bad"},{"loc":["body"],"msg":"worse"}]}"#,
            "body.n: bad; body: worse",
        ),
        (
            r#"{"object":"error","message":{"detail":[{"loc":["body"],"msg":"bad"}]}}"#,
            "body: bad",
        ),
        (r#"{"errors":[{"message":"bad"}]}"#, "bad"),
        (r#"{"errors":["bad"]}"#, "bad"),
        (r#"{"error":true,"message":"bad"}"#, "bad"),
        (r#"{"errors":{"message":"bad"}}"#, "bad"),
        (
            r#"{"base_resp":{"status_code":2013,"status_msg":"bad"}}"#,
            "bad",
        ),
        (
            r#"{"error":{"message":"{\"error\":{\"message\":\"bad\"}}"}}"#,
            "bad",
        ),
        (
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"bad\"}}","provider_name":"Near"}}}"#,
            "Provider returned error (Near): bad",
        ),
        (
            r#"{"error":{"message":"Provider returned error.","code":400,"metadata":{"raw":"bad","provider_name":"Near"}}}"#,
            "Provider returned error (Near): bad",
        ),
        (r#"{"error":{"message":null}}"#, r#"{"message":null}"#),
        (r#"{"reason":7}"#, r#"{"reason":7}"#),
        (
            "<html><head><title>413</title></head><body>Too\n large</body></html>",
            "413 Too large",
        ),
        ("bad gateway", "bad gateway"),
        (
            "",
            "The provider answered with status 400 and said nothing more.",
        ),
        ("[]", "[]"),
    ] {
        assert_eq!(told(400, body).message, message, "{body}");
    }
}

#[test]
fn every_refusal_has_its_kind() {
    for (status, body, kind) in [
        // Status alone
        (401, "", Kind::Authentication),
        (402, r#"{"error":"pay"}"#, Kind::Quota),
        (403, r#"{"detail":"not yours"}"#, Kind::Permission),
        (404, r#"{"detail":"Not Found"}"#, Kind::Refused),
        (408, "", Kind::Timeout),
        (
            413,
            "<html>413 Request Entity Too Large</html>",
            Kind::Refused,
        ),
        (429, "", Kind::RateLimit),
        (500, "", Kind::Unavailable),
        (501, "", Kind::Refused),
        (502, "bad gateway", Kind::Unavailable),
        (503, "", Kind::Overloaded),
        (524, "", Kind::Unavailable),
        (529, r#"{"message":"busy"}"#, Kind::Overloaded),
        // Bad keys. DeepSeek, Kimi, Mistral, xAI, Gemini, GLM, MiniMax
        (
            401,
            r#"{"error":{"message":"Authentication Fails, Your api key: ****-key is invalid","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#,
            Kind::Authentication,
        ),
        (
            401,
            r#"{"error":{"message":"Invalid Authentication","type":"invalid_authentication_error"}}"#,
            Kind::Authentication,
        ),
        (401, r#"{"detail":"Invalid API Key"}"#, Kind::Authentication),
        (
            400,
            r#"{"code":"invalid-argument","error":"Incorrect API key provided. You can obtain an API key from https://console.x.ai."}"#,
            Kind::Authentication,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"t","reason":"API_KEY_INVALID"}]}}]"#,
            Kind::Authentication,
        ),
        (
            401,
            r#"{"error":{"code":"1002","message":"Authorization Token invalid"}}"#,
            Kind::Authentication,
        ),
        (
            200,
            r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#,
            Kind::Authentication,
        ),
        (
            401,
            r#"{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}"#,
            Kind::Authentication,
        ),
        // Used-up accounts
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}"#,
            Kind::Quota,
        ),
        (
            403,
            r#"{"error":{"type":"permission_error","message":"You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle."}}"#,
            Kind::Quota,
        ),
        (
            403,
            r#"{"error":{"type":"access_terminated_error","message":"You've reached your weekly (7-day) usage limit."}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1113","message":"您的账户已欠费"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"1113","message":"no resource package"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1308","message":"已达到 5 小时的使用上限。您的限额将在 2026-11-22 03:00:00 重置。"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1309","message":"plan expired"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1310","message":"weekly limit"}}"#,
            Kind::Quota,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"usage limit exceeded, 5-hour usage limit reached, resets at 2026-05-15T15:00:00Z (2056)"}}"#,
            Kind::Quota,
        ),
        (
            402,
            r#"{"error":{"code":402,"message":"This request requires more credits, or fewer max_tokens."}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day. Add 10 credits."}}"#,
            Kind::Quota,
        ),
        (
            403,
            r#"{"code":"x","error":"Your team has either used all available credits or reached its monthly spending limit."}"#,
            Kind::Quota,
        ),
        (
            401,
            r#"{"error":{"message":"Insufficient balance. Manage your billing here"}}"#,
            Kind::Quota,
        ),
        // Novita, SiliconFlow, Cloudflare, NVIDIA
        (
            403,
            r#"{"code":403,"reason":"NOT_ENOUGH_BALANCE","message":"please top up","metadata":{}}"#,
            Kind::Quota,
        ),
        (
            403,
            r#"{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"errors":[{"message":"you have used up your daily free allocation of 10,000 neurons","code":3036}],"success":false,"result":{},"messages":[]}"#,
            Kind::Quota,
        ),
        (
            402,
            r#"{"type":"urn:inference-service:problem-details:payment-required","title":"Payment Required","status":402,"detail":"Account 'x': Cloud credits expired"}"#,
            Kind::Quota,
        ),
        // Limits of rate
        (
            429,
            r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"message":"request reached organization max RPM: 3","type":"rate_limit_reached_error"}}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"code":"RateLimitReached","message":"Your requests have exceeded the limit. Please retry after 26 seconds.","details":"x"}}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"code":"1302","message":"concurrency"}}"#,
            Kind::RateLimit,
        ),
        (
            200,
            r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#,
            Kind::RateLimit,
        ),
        (
            413,
            r#"{"error":{"message":"Rate limit reached for tokens","code":"rate_limit_exceeded"}}"#,
            Kind::RateLimit,
        ),
        (
            400,
            r#"{"error":{"code":"Throttling.RateQuota","message":"slow"}}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"x/y is temporarily rate-limited upstream. Please retry shortly.","provider_name":"Near"}}}"#,
            Kind::RateLimit,
        ),
        (
            503,
            r#"{"detail":"Too many requests, rate limit of 3 a second"}"#,
            Kind::RateLimit,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"try later (1002)"}}"#,
            Kind::RateLimit,
        ),
        (
            429,
            r#"{"error":{"code":"RateLimitExceeded.EndpointTPMExceeded","message":"The Tokens Per Minute (TPM) limit of the associated endpoint for your account has been exceeded.","type":"TooManyRequests"}}"#,
            Kind::RateLimit,
        ),
        // Unknown models
        (
            404,
            r#"{"code":404,"reason":"MODEL_NOT_FOUND","message":"not here","metadata":{}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"status":404,"title":"Not Found","detail":"Function 'x': Not found for account 'y'"}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"code":"ModelNotOpen","message":"Your account has not activated the model x. Please activate the model service in the Ark Console.","type":"NotFound"}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"code":"InvalidEndpointOrModel.NotFound","message":"gone","type":"NotFound"}}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"errors":[{"message":"AiError: No such model x or task","code":5007}],"success":false,"result":{},"messages":[]}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"error":{"message":"x/y is not a valid model ID","code":400}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found for x/y.","code":404}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"error":{"code":"1211","message":"模型不存在，请检查模型代码。"}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
            Kind::ModelNotFound,
        ),
        (
            404,
            r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
            Kind::ModelNotFound,
        ),
        (
            400,
            r#"{"error":{"message":"No tool output found for tool call call-a.","type":"invalid_request_error"}}"#,
            Kind::Refused,
        ),
        // Filters
        (
            400,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            Kind::ContentFilter,
        ),
        (
            400,
            r#"{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}"#,
            Kind::ContentFilter,
        ),
        (
            400,
            r#"{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}"#,
            Kind::ContentFilter,
        ),
        (
            400,
            r#"{"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容"}}"#,
            Kind::ContentFilter,
        ),
        (
            200,
            r#"{"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}"#,
            Kind::ContentFilter,
        ),
        (
            403,
            r#"{"code":"x","error":"Content violates usage guidelines."}"#,
            Kind::ContentFilter,
        ),
        // Overload
        (
            429,
            r#"{"errors":[{"message":"Capacity temporarily exceeded, please try again.","code":3040}],"success":false}"#,
            Kind::Overloaded,
        ),
        (
            503,
            r#"{"code":50505,"message":"Model service overloaded. Please try again later.","data":null}"#,
            Kind::Overloaded,
        ),
        (
            429,
            r#"{"error":{"code":"ServerOverloaded","message":"The service is currently unable to handle additional requests.","type":"TooManyRequests"}}"#,
            Kind::Overloaded,
        ),
        (
            429,
            r#"{"error":{"message":"The engine is currently overloaded, please try again later"}}"#,
            Kind::Overloaded,
        ),
        (
            500,
            r#"{"detail":"We are experiencing high demand."}"#,
            Kind::Overloaded,
        ),
        (
            400,
            r#"{"error":{"message":"Functions must not be overloaded"}}"#,
            Kind::Refused,
        ),
        (
            429,
            r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}"#,
            Kind::Overloaded,
        ),
        (
            429,
            r#"{"error":{"code":"1305","message":"too many"}}"#,
            Kind::Overloaded,
        ),
        (
            429,
            r#"{"message":"We're experiencing high traffic right now! Please try again soon.","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}"#,
            Kind::Overloaded,
        ),
        (
            503,
            r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
            Kind::Overloaded,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
            Kind::Overloaded,
        ),
        (
            500,
            r#"{"error":{"code":"1234","message":"网络错误"}}"#,
            Kind::Unavailable,
        ),
        // A gateway's words for what the provider behind it says
        (
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Insufficient Balance\"}}","provider_name":"Near"}}}"#,
            Kind::Quota,
        ),
        (
            410,
            r#"{"error":"Live search is deprecated. Please switch to the Agent Tools API"}"#,
            Kind::Refused,
        ),
        (
            400,
            r#"{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}}"#,
            Kind::Refused,
        ),
    ] {
        let fault = told(status, body);
        assert_eq!(fault.kind, kind, "{status} {body}");
        assert_eq!(fault.mend, None, "{status} {body}");
        assert_eq!(fault.upstream_status, Some(status));
        if matches!(
            kind,
            Kind::Quota | Kind::ContentFilter | Kind::Authentication
        ) {
            assert_eq!(fault.retry, Retry::Never, "{body}");
        }
    }
}

/// vLLM repeats the input that it complains of, which may speak of anything: of
/// the errors of a proxy, for one.
#[test]
fn what_a_refusal_quotes_is_not_its_own_word() {
    let quoted = "This model's maximum context length is 8192 tokens. Insufficient balance. \
                  System message must be at the beginning.";
    for message in [
        format!(
            "[{{'type': 'missing', 'loc': ('body', 'n'), 'msg': 'Field required', 'input': {{'content': \"{quoted}\"}}}}]"
        ),
        format!(
            "1 validation error for Request\nn\n  Field required [type=missing, input_value={{'content': '{quoted}'}}]"
        ),
        format!("Failed to parse input at pos 12: {quoted}"),
        format!("Invalid JSON. {} {quoted}", "Some words. ".repeat(120)),
    ] {
        let fault = told(400, &openai(&message));
        assert_eq!((fault.kind, fault.mend), (Kind::Refused, None), "{message}");
        assert!(fault.message.contains(quoted), "{message}");
    }
}

#[test]
fn google_tells_a_minute_from_a_day() {
    let body = |quota: &str, message: &str| {
        json!([{"error": {
            "code": 429, "message": message, "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
            ],
        }}])
        .to_string()
    };
    let text = "You exceeded your current quota, please check your plan and billing details.";
    let minute = told(429, &body("InputTokensPerModelPerMinute", text));
    assert_eq!(minute.kind, Kind::RateLimit);
    assert_eq!(minute.retry, Retry::After(Duration::from_secs(37)));
    let day = told(
        429,
        &body("RequestsPerDayPerProjectPerModel-FreeTier", text),
    );
    assert_eq!((day.kind, day.retry), (Kind::Quota, Retry::Never));
    let none = told(
        429,
        &body("PerMinute", "Quota exceeded, limit: 0, model: x"),
    );
    assert_eq!(none.kind, Kind::Quota);
}

#[test]
fn an_overflow_names_its_window() {
    for (status, message, window) in [
        (
            400,
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
            Some(262_144),
        ),
        (
            400,
            "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens (1250025 in the messages, 0 in the completion).",
            Some(1_048_565),
        ),
        (
            400,
            "prompt is too long: 3333404 tokens > 200000 maximum",
            Some(200_000),
        ),
        (
            400,
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length",
            Some(200_000),
        ),
        (
            400,
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
            Some(1_048_576),
        ),
        (
            400,
            "prompt too long; exceeded max context length by 1119046 tokens (ref: 9)",
            None,
        ),
        (
            400,
            "Your input exceeds the context window of this model.",
            None,
        ),
        (
            400,
            "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
            Some(8_192),
        ),
        (
            500,
            "the request exceeds the available context size, try increasing it",
            None,
        ),
        (
            400,
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            Some(8_192),
        ),
        (
            400,
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
            Some(8_192),
        ),
        (
            400,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            Some(4_096),
        ),
        (
            400,
            "Please reduce the length of the messages or completion. Current length is 40000 while limit is 8192",
            Some(8_192),
        ),
        (
            400,
            "Range of input length should be [1, 129024]",
            Some(129_024),
        ),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            Some(131_072),
        ),
        (
            400,
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            Some(32_768),
        ),
        (
            400,
            "The prompt is too long: 140000, model maximum context length: 131071",
            Some(131_071),
        ),
        (
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 150000. This model's maximum context length is 131072 tokens and your request has 30000 input tokens",
            Some(131_072),
        ),
        (400, "Input token length too long", None),
        // LM Studio
        (
            400,
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            Some(4_096),
        ),
        (
            400,
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= n_ctx: 4096). Try to load the model with a larger context length.",
            Some(4_096),
        ),
        // llama.cpp, in the middle of an answer
        (500, "Context size has been exceeded.", None),
        // Cloudflare
        (
            413,
            "AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (24000).",
            Some(24_000),
        ),
        // SiliconFlow
        (
            400,
            "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
            Some(32_768),
        ),
        // Ark
        (
            400,
            "Input length 203743 exceeds the maximum length 202752",
            Some(202_752),
        ),
        // Cohere
        (
            400,
            "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 200000.",
            Some(128_000),
        ),
        // Copilot
        (
            400,
            "prompt token count of 100000 exceeds the limit of 65536",
            Some(65_536),
        ),
        // LiteLLM
        (
            400,
            "The input (9000 tokens) exceeds the model's maximum context length (8192).",
            Some(8_192),
        ),
        (
            403,
            "Input tokens plus max_tokens are more than the model takes",
            None,
        ),
        (
            413,
            "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.",
            None,
        ),
        (
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced.",
            None,
        ),
    ] {
        let fault = told(status, &openai(message));
        assert_eq!(fault.kind, Kind::ContextLength, "{message}");
        assert_eq!(fault.retry, Retry::Never, "{message}");
        assert_eq!(fault.code(), Some("context_length_exceeded"), "{message}");
        assert_eq!(fault.mend, window.map(Mend::Window), "{message}");
    }
    for (body, window) in [
        (
            r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
            Some(8_192),
        ),
        (r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#, None),
        (
            r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for m model. Max size: 8000 tokens."}}"#,
            Some(8_000),
        ),
        (
            r#"{"error":{"code":"OutofContextError","message":"Total tokens of image and text exceed max message tokens.","type":"BadRequest"}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            None,
        ),
    ] {
        let fault = told(400, body);
        assert_eq!(
            (fault.kind, fault.mend),
            (Kind::ContextLength, window.map(Mend::Window)),
            "{body}"
        );
    }
    let limit = told(
        429,
        &openai(
            "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.",
        ),
    );
    assert_eq!(limit.kind, Kind::RateLimit);
    assert_eq!(limit.retry, Retry::After(Duration::from_millis(4_770)));
}

#[test]
fn an_error_in_a_stream_is_placed_by_its_words() {
    for (error, kind, status) in [
        (r#"{"message":"x","code":429}"#, Kind::RateLimit, 429),
        (
            r#"{"message":"x","code":"rate_limit_exceeded"}"#,
            Kind::RateLimit,
            429,
        ),
        (
            r#"{"message":"x","type":"insufficient_quota","code":null}"#,
            Kind::Quota,
            429,
        ),
        (
            r#"{"message":"x","type":"invalid_request_error"}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"message":"x","code":"invalid","status_code":400}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"code":400,"message":"Token limit reached"}"#,
            Kind::Refused,
            400,
        ),
        (
            r#"{"message":"x","type":"overloaded_error"}"#,
            Kind::Overloaded,
            503,
        ),
        (
            r#"{"message":"x","type":"server_error"}"#,
            Kind::Unavailable,
            500,
        ),
        (
            r#"{"code":500,"message":"The model produced output that does not match the expected format","type":"server_error"}"#,
            Kind::Unavailable,
            500,
        ),
        (r#"{"message":"x","code":7}"#, Kind::Unavailable, 500),
        (r#""the server is gone""#, Kind::Unavailable, 500),
        (
            r#"{"code":403,"message":"x","status":"PERMISSION_DENIED"}"#,
            Kind::Permission,
            403,
        ),
        ("[]", Kind::Unavailable, 500),
        ("7", Kind::Unavailable, 500),
    ] {
        let raw: &RawValue = serde_json::from_str(error).unwrap();
        let fault = in_stream(raw);
        assert_eq!(
            (fault.kind, fault.upstream_status),
            (kind, Some(status)),
            "{error}"
        );
    }
}

#[test]
fn an_error_in_place_of_an_answer_is_seen() {
    for (body, kind) in [
        (
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error"}}"#,
            Some(Kind::Refused),
        ),
        (
            r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#,
            Some(Kind::Overloaded),
        ),
        (
            r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"},"choices":null}"#,
            Some(Kind::RateLimit),
        ),
        (
            r#"{"object":"error","message":"x","code":429}"#,
            Some(Kind::RateLimit),
        ),
        (
            r#"{"detail":"Invalid API Key"}"#,
            Some(Kind::Authentication),
        ),
        (
            r#"{"code":500,"msg":"404 NOT_FOUND","success":false}"#,
            Some(Kind::Unavailable),
        ),
        (
            r#"{"id":"1","object":"chat.completion","choices":[],"base_resp":{"status_code":0,"status_msg":""}}"#,
            None,
        ),
        (r#"{"id":"1","choices":[{"index":0}],"error":null}"#, None),
        (r#"{"object":"chat.completion.chunk","choices":[]}"#, None),
        (
            r#"{"model":"m","message":{"role":"assistant","content":"hi"},"done":true}"#,
            None,
        ),
        ("{}", None),
        ("not json", None),
        ("", None),
    ] {
        assert_eq!(
            in_place_of_answer(body).map(|fault| fault.kind),
            kind,
            "{body}"
        );
    }
}

#[test]
fn a_wait_is_passed_on_only_where_trying_again_helps() {
    let wait = Some(Duration::from_secs(3));
    for (status, wait, body, seconds) in [
        (429, wait, "", Some(3)),
        (503, wait, "", Some(3)),
        (400, wait, "", None),
        (429, None, "", None),
        (429, wait, "Insufficient Balance", None),
        (429, None, "Please retry after 26 seconds.", Some(26)),
        (429, wait, "Please retry after 26 seconds.", Some(3)),
        (429, None, "Please try again in 6m0s.", Some(360)),
    ] {
        let asked = match reply(status, wait, body.as_bytes()).retry {
            Retry::After(wait) => Some(wait.as_secs()),
            Retry::Soon | Retry::Never => None,
        };
        assert_eq!(asked, seconds, "{status} {body}");
    }
}

#[test]
fn a_call_that_did_not_fit_is_worth_another_try() {
    let body = r#"{"error":{"code":"tool_use_failed","failed_generation":"{}","message":"Tool call validation failed","type":"invalid_request_error"}}"#;
    let fault = told(400, body);
    assert_eq!((fault.kind, fault.retry), (Kind::Refused, Retry::Soon));
    assert_eq!(
        (fault.status(true), fault.code()),
        (400, Some("tool_use_failed"))
    );
    assert_eq!(fault.response_code(), "server_error");
}

#[test]
fn codes_in_words_are_passed_on() {
    for (body, code) in [
        (
            r#"{"error":{"message":"bad","code":"unsupported_value"}}"#,
            Some("unsupported_value"),
        ),
        (r#"{"error":{"message":"bad","code":null}}"#, None),
        (r#"{"error":{"message":"bad","code":400}}"#, None),
        (r#"{"error":{"message":"bad","code":"1210"}}"#, None),
    ] {
        assert_eq!(told(400, body).code(), code, "{body}");
    }
}

#[test]
fn hints_say_what_to_do() {
    let server = told(
        400,
        &openai(
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        ),
    );
    assert!(server.message.ends_with("start it with these options.)"));
    for body in [
        r#"{"error":"m does not support tools"}"#,
        r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
    ] {
        let told = told(400, body).message;
        assert!(told.ends_with("(Choose a model that can call tools.)"));
    }
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let message = told(500, &"漢".repeat(30_000)).message;
    assert_eq!(message.chars().count(), MESSAGE_LIMIT + 1);
    let message = told(500, &openai(&"漢".repeat(30_000))).message;
    assert_eq!(message.chars().count(), MESSAGE_LIMIT + 1);
}
