//! Errors of providers and their kinds.

use super::fault_of;
use crate::fault::{Kind, Retry};

#[test]
fn every_refusal_has_its_kind() {
    for (status, body, kind) in [
        // By status alone
        (401, "", Kind::Authentication),
        (402, r#"{"error":"pay"}"#, Kind::Quota),
        (403, r#"{"detail":"not yours"}"#, Kind::Permission),
        (404, r#"{"detail":"Not Found"}"#, Kind::Refused),
        (408, "", Kind::Timeout),
        (429, "", Kind::RateLimit),
        (500, "", Kind::Unavailable),
        (501, "", Kind::Unavailable),
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
        // Rate limits
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
        // A gateway's report of the error of the provider behind it
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
        let fault = fault_of(status, body);
        assert_eq!(fault.kind, kind, "{status} {body}");
        assert_eq!(fault.patch, None, "{status} {body}");
        assert_eq!(fault.upstream_status, Some(status));
        if matches!(
            kind,
            Kind::Quota | Kind::ContentFilter | Kind::Authentication
        ) {
            assert_eq!(fault.retry, Retry::Never, "{body}");
        }
    }
}
