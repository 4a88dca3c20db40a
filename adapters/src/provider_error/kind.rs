//! The kind of fault of a provider's error. Unambiguous numbers and codes come
//! before phrases, and phrases before the status, because providers report an
//! exhausted account with 401, 402, 403, 429 and 500.

use super::delay;
use super::error::ProviderError;
use super::find::contains_any;
use crate::fault::Kind;

/// The kind of an error that is not a context overflow.
pub(super) fn kind(status: u16, error: &ProviderError, lower: &str) -> Kind {
    by_number(error)
        .or_else(|| by_google_quota(error, lower))
        .or_else(|| contains_any(lower, USED_UP).then_some(Kind::Quota))
        .or_else(|| by_code(error))
        .or_else(|| by_text(status, lower))
        .unwrap_or_else(|| by_status(status, lower))
}

/// GLM's codes (docs.bigmodel.cn, docs.z.ai "api-code") and MiniMax's codes
/// (platform.minimax.io "error code"). Their places in the error distinguish them.
fn by_number(error: &ProviderError) -> Option<Kind> {
    if let Some(number) = error.minimax_code {
        return match number {
            1002 | 1039 | 1041 | 2045 => Some(Kind::RateLimit),
            1004 | 2049 => Some(Kind::Authentication),
            // 2056: the limit of the plan for five hours or a week.
            1008 | 2056 => Some(Kind::Quota),
            1026 | 1027 => Some(Kind::ContentFilter),
            1000 | 1001 | 1013 | 1024 | 1033 => Some(Kind::Unavailable),
            1042 | 2013 => Some(Kind::Refused),
            _ => None,
        };
    }
    match error.glm_code()? {
        1000..=1004 => Some(Kind::Authentication),
        // 1308 and 1310 end at a time that the plan sets, 1309 with a new plan.
        1113 | 1304 | 1308..=1310 => Some(Kind::Quota),
        1211 => Some(Kind::ModelNotFound),
        1220 | 1311 => Some(Kind::Permission),
        1301 => Some(Kind::ContentFilter),
        1302 | 1303 => Some(Kind::RateLimit),
        1305 | 1312 => Some(Kind::Overloaded),
        1234 => Some(Kind::Unavailable),
        1210 | 1213..=1215 => Some(Kind::Refused),
        _ => None,
    }
}

/// Google says `You exceeded your current quota, please check your plan and billing
/// details` for a limit per minute, too; the ids of the quotas show which limit it
/// is.
fn by_google_quota(error: &ProviderError, lower: &str) -> Option<Kind> {
    if !error
        .keywords
        .iter()
        .any(|word| word == "RESOURCE_EXHAUSTED")
    {
        return None;
    }
    let ids = error.keywords.join(" ").to_lowercase();
    let used_up = delay::is_day_or_longer(&ids) || lower.contains("limit: 0,");
    Some(if used_up {
        Kind::Quota
    } else {
        Kind::RateLimit
    })
}

/// Phrases for an account without credit or quota, whatever the status and code.
const USED_UP: &[&str] = &[
    // DeepSeek 402, GLM, MiniMax 500, MiMo 402
    "insufficient balance",
    "insufficient account",
    "insufficient credit",
    "insufficient funds",
    "insufficient quota",
    "credit balance is too low",
    // OpenAI
    "exceeded your current quota",
    "check your plan and billing",
    "billing hard limit",
    // Kimi Code 403
    "usage limit for this billing cycle",
    "you've reached your weekly",
    "usage limit exceeded",
    "usage limit reached",
    // GLM 1308
    "usage limit reached for",
    "使用上限",
    "余额不足",
    "欠费",
    // OpenRouter 402, 403, 429
    "requires more credits",
    "out of credits",
    "key limit exceeded",
    "never purchased credits",
    "free-models-per-day",
    // xAI
    "used all available credits",
    "monthly spending limit",
    "quota exhausted",
    "quota is exhausted",
    "please recharge",
    // SiliconFlow
    "balance is insufficient",
    // Cloudflare
    "daily free allocation",
    "in arrears",
    "overdue payment",
];

/// By code and type. Only letters and digits are compared, in lower case.
fn by_code(error: &ProviderError) -> Option<Kind> {
    [&error.code, &error.kind]
        .into_iter()
        .chain(&error.keywords)
        .find_map(|word| kind_of_code(word))
}

/// Codes and types of errors, in small letters and digits alone.
const CODES: [(Kind, &str); 7] = [
    (
        Kind::Quota,
        "insufficientquota exceededcurrentquotaerror insufficientbalance \
         insufficientbalanceerror insufficientuserquota billingnotactive billingerror \
         billinghardlimitreached usagelimitreached usagenotincluded freequotaexceeded \
         accountoverdueerror setlimitexceeded notenoughbalance arrearage paymentrequired",
    ),
    (
        Kind::Authentication,
        "invalidapikey apikeyinvalid wrongapikey incorrectapikeyerror \
         invalidauthenticationerror authenticationerror unauthenticated",
    ),
    (
        Kind::Overloaded,
        "engineoverloaded engineoverloadederror overloadederror serverisoverloaded \
         serveroverloaded modeloverloaded queueexceeded servicetiercapacityexceeded \
         capacityexceeded",
    ),
    (
        Kind::RateLimit,
        "ratelimited ratelimiterror ratelimitreached ratelimitreachederror requestquotaexceeded \
         tokenquotaexceeded toomanyrequests toomanyrequestserror",
    ),
    (
        Kind::ModelNotFound,
        "modelnotfound modelnotfounderror modelnotexist invalidmodel deploymentnotfound \
         unknownmodel modelnotopen",
    ),
    (
        Kind::ContentFilter,
        "contentfilter contentpolicyviolation datainspectionfailed responsibleaipolicyviolation",
    ),
    (
        Kind::Permission,
        "permissionerror permissiondenied permissiondeniederror accessdenied \
         accessterminatederror",
    ),
];

fn kind_of_code(word: &str) -> Option<Kind> {
    let letters = word.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let is_known = |(_, codes): &&(Kind, &str)| codes.split(' ').any(|code| code == plain);
    if let Some((kind, _)) = CODES.iter().find(is_known) {
        return Some(*kind);
    }
    match plain.as_str() {
        // Qwen: `AllocationQuota.FreeTierOnly`, `Throttling.RateQuota`
        other if other.starts_with("allocationquota") => Some(Kind::Quota),
        other if other.starts_with("throttling") => Some(Kind::RateLimit),
        // Ark: `ModelAccountTpmRateLimitExceeded`, `InputTextSensitiveContentDetected`
        other if other.contains("ratelimitexceeded") => Some(Kind::RateLimit),
        other if other.contains("sensitivecontent") => Some(Kind::ContentFilter),
        other if other.starts_with("invalidendpointormodel") => Some(Kind::ModelNotFound),
        _ => None,
    }
}

fn by_text(status: u16, lower: &str) -> Option<Kind> {
    let says = |phrases: &[&str]| contains_any(lower, phrases);
    if says(BAD_KEY) {
        Some(Kind::Authentication)
    } else if says(FILTERED) || is_about_policy(lower) {
        Some(Kind::ContentFilter)
    } else if !matches!(status, 401 | 402 | 429) && is_unknown_model(lower) {
        Some(Kind::ModelNotFound)
    } else if matches!(status, 429 | 500..) && says(BUSY) {
        Some(Kind::Overloaded)
    } else if !matches!(status, 401..=404) && says(TOO_FAST) {
        Some(Kind::RateLimit)
    } else {
        None
    }
}

const BAD_KEY: &[&str] = &[
    // xAI answers with 400
    "incorrect api key",
    "invalid api key",
    // Gemini answers with 400
    "api key not valid",
    "api key expired",
    "invalid x-api-key",
    // OpenRouter
    "no auth credentials found",
    // Azure
    "invalid subscription key",
    // FastAPI: the location of a missing header
    "header.authorization",
    "header.x-api-key",
];

const FILTERED: &[&str] = &[
    // Azure
    "content management policy",
    // Kimi: `The request was rejected because it was considered high risk`
    "considered high risk",
    // Qwen
    "inappropriate content",
    // GLM
    "敏感内容",
    "unsafe or sensitive content",
    // MiniMax
    "new_sensitive",
    // xAI
    "content violates usage guidelines",
    // OpenRouter
    "your input was flagged",
    // Gemini
    "prohibited_content",
];

/// Whether the text speaks of rules for what people may write or show. Names in quotes and with
/// underscores, such as those of tools, say nothing of that.
///
/// - OpenAI: `flagged as potentially violating our usage policy`
/// - gateways, in the language of their users
fn is_about_policy(lower: &str) -> bool {
    const RULES: &[&str] = &[
        "usage policy",
        "usage policies",
        "content policy",
        "content policies",
        "content filter",
        "safety filter",
        "safety system",
        "was flagged",
        "were flagged",
        "been flagged",
        "moderation",
        "sensitive words",
        "敏感词",
        "内容违规",
        "违规内容",
        "不安全内容",
        "利用規約",
        "コンテンツポリシー",
        "콘텐츠 정책",
        "이용 정책",
        "nutzungsrichtlinien",
        "inhaltsrichtlinien",
        "politique d'utilisation",
        "politique de contenu",
        "política de contenido",
        "políticas de uso",
        "filtro de seguridad",
        "filtro de contenido",
        "политику использования",
        "политики использования",
        "политике использования",
        "правила использования",
    ];
    const SUBJECTS: &[&str] = &["safety", "policy", "policies", "guidelines", "sensitive"];
    const VERDICTS: &[&str] = &["violat", "not allowed", "blocked", "prohibited", "flagged"];
    let plain = without_names(lower);
    contains_any(&plain, RULES) || contains_any(&plain, SUBJECTS) && contains_any(&plain, VERDICTS)
}

/// The text without words in quotes or with an underscore.
fn without_names(lower: &str) -> String {
    let is_name = |word: &&str| {
        let quotes = |quote: char| word.matches(quote).count() > 1;
        word.contains('_') || ['\'', '"', '`'].into_iter().any(quotes)
    };
    let words = lower.split(' ').filter(|word| !is_name(word));
    words.collect::<Vec<_>>().join(" ")
}

const BUSY: &[&str] = &[
    "overloaded",
    "at capacity",
    // Cloudflare
    "capacity temporarily exceeded",
    "no capacity",
    "no available capacity",
    "high demand",
    "high traffic",
    "server is busy",
    "service is too busy",
    "system is busy",
];

const TOO_FAST: &[&str] = &[
    "rate limit",
    "rate-limit",
    "too many requests",
    "速率限制",
    "请求过于频繁",
];

/// Whether the text says that the model does not exist.
fn is_unknown_model(lower: &str) -> bool {
    // DeepSeek, OpenRouter, Mistral, Together, GLM
    let whole = contains_any(
        lower,
        &[
            "model not exist",
            "unknown model",
            "no such model",
            "is not a valid model",
            "not a valid model id",
            "invalid model:",
            "supported api model names",
            "unable to access model",
            "模型不存在",
            // NVIDIA
            "not found for account",
        ],
    );
    let near = [
        "does not exist",
        "not found",
        "is not supported by any provider",
    ]
    .into_iter()
    .any(|phrase| {
        lower.match_indices(phrase).any(|(at, _)| {
            let before = lower.get(..at).unwrap_or_default();
            before.rfind("model").is_some_and(|model| at - model < 100)
        })
    });
    // OpenRouter: `No endpoints found for x/y`. In contrast, `No endpoints found
    // that support image input` is about the request.
    whole || near || lower.contains("no endpoints found for")
}

/// Whether a server says that it will answer once its model is loaded.
pub(super) fn is_loading(status: u16, lower: &str) -> bool {
    const LOADING: &[&str] = &[
        // llama.cpp
        "loading model",
        // text-generation-inference, LocalAI, llama-swap
        "model is loading",
        "model is still loading",
        // Hugging Face: `Model x/y is currently loading`
        "is currently loading",
        "model is being loaded",
        // Triton, NIM
        "model is not ready",
        "warming up",
    ];
    status == 503 && contains_any(lower, LOADING) && !contains_any(lower, &["error load", "failed"])
}

fn by_status(status: u16, lower: &str) -> Kind {
    match status {
        401 => Kind::Authentication,
        402 => Kind::Quota,
        403 => Kind::Permission,
        404 if lower.contains("model") => Kind::ModelNotFound,
        408 => Kind::Timeout,
        429 => Kind::RateLimit,
        // Groq: no capacity for flexible processing
        498 | 503 | 529 => Kind::Overloaded,
        400..=499 => Kind::Refused,
        _ => Kind::Unavailable,
    }
}
