//! An error of a provider, whatever shape it has.
//!
//! | shape | used by |
//! |---|---|
//! | `{"error": {"message", "type", "code", "param"}}` | OpenAI and most |
//! | `{"error": "…", "code": "…"}` | xAI, Ollama, TGI |
//! | `[{"error": {"code", "message", "status", "details"}}]` | Gemini |
//! | `{"error": {…, "metadata": {"raw", "provider_name"}}}` | OpenRouter |
//! | `{"object": "error", "message", "type", "code"}` | vLLM, Mistral |
//! | `{"detail": "…"}`, `{"detail": [{"loc", "msg"}]}`, the same in `message` | FastAPI, Mistral |
//! | `{"errors": […]}` | gateways |
//! | `{"base_resp": {"status_code", "status_msg"}}` | MiniMax |
//! | an HTML page, a line of text, nothing | servers between us and the provider |

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{delay, markup};

/// The longest message that is passed on, in characters.
pub(super) const MAX_MESSAGE: usize = 2000;

/// How much of a message is taken for the provider's own text, in characters.
const MAX_OWN_TEXT: usize = 1000;

/// How deep errors inside errors are searched.
const MAX_DEPTH: u8 = 8;

/// The most errors of one list that are reported.
const MAX_LISTED_ERRORS: usize = 5;

/// An error as the provider describes it; missing strings are empty.
#[derive(Debug, Default)]
pub(crate) struct ProviderError {
    /// The message for people, of at most [`MAX_MESSAGE`] characters.
    pub(crate) message: String,
    /// `type`
    pub(crate) kind: String,
    /// `code`, whatever its JSON type.
    pub(crate) code: String,
    /// `param`, or the location of a validation error, joined by dots.
    pub(crate) param: Option<String>,
    /// The HTTP status inside the error.
    pub(crate) status: Option<u16>,
    /// Further identifiers: Google's status, reasons and quota ids.
    pub(crate) keywords: Vec<String>,
    /// The pause that the error asks for.
    pub(crate) wait: Option<Duration>,
    /// The context window, if it has its own field: llama.cpp's `n_ctx`.
    pub(crate) window: Option<u64>,
    /// MiniMax's numeric code.
    pub(crate) minimax_code: Option<u32>,
}

#[derive(Default, Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    errors: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    msg: Option<&'a RawValue>,
    detail: Option<&'a RawValue>,
    loc: Option<&'a RawValue>,
    #[serde(rename = "type", alias = "error_type")]
    kind: Option<&'a RawValue>,
    code: Option<&'a RawValue>,
    param: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    #[serde(alias = "http_code")]
    status_code: Option<&'a RawValue>,
    status_msg: Option<&'a RawValue>,
    base_resp: Option<&'a RawValue>,
    /// From the problem details format of HTTP APIs (RFC 9457): NVIDIA.
    title: Option<&'a RawValue>,
    /// Novita's textual code.
    reason: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    n_ctx: Option<&'a RawValue>,
    choices: Option<&'a RawValue>,
    #[serde(rename = "object")]
    object: Option<&'a RawValue>,
}

/// A gateway's report about the provider behind it.
#[derive(Default, Deserialize)]
struct GatewayMetadata<'a> {
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
    #[serde(borrow)]
    provider_name: Option<Cow<'a, str>>,
}

/// An element of Google's `details`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleDetail<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    retry_delay: Option<Cow<'a, str>>,
    #[serde(default)]
    violations: Vec<QuotaViolation>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuotaViolation {
    quota_id: Option<String>,
}

impl ProviderError {
    /// Reads a whole reply.
    pub(super) fn from_body(text: &str) -> Self {
        Self::from_json(text, MAX_DEPTH).unwrap_or_else(|| Self {
            message: truncate(&markup::words(text)),
            ..Self::default()
        })
    }

    /// Reads an error object or text inside a reply.
    pub(super) fn from_error(raw: &RawValue) -> Self {
        Self::from_body(raw.get())
    }

    /// Reads a reply that should be an answer; `None` if it is one.
    pub(super) fn from_failed_answer(text: &str) -> Option<Self> {
        let text = text.trim();
        let first = match text.strip_prefix('[') {
            Some(_) => serde_json::from_str::<Vec<&RawValue>>(text)
                .ok()?
                .first()?
                .get(),
            None => text,
        };
        let object: ErrorObject<'_> = serde_json::from_str(first).ok()?;
        let failed = object
            .base_resp
            .and_then(|raw| serde_json::from_str::<ErrorObject<'_>>(raw.get()).ok())
            .is_some_and(|base| number(base.status_code).is_some_and(|code| code != 0));
        let has_error = object.error.is_some_and(|error| !is_empty(error))
            || object.object.is_some_and(|what| what.get() == "\"error\"");
        // Ollama's native API has the answer's message, an object, in this field.
        let text = |raw: &RawValue| raw.get().starts_with(['"', '[']);
        let bare = object.choices.is_none()
            && object.object.is_none()
            && [object.errors, object.detail, object.message, object.msg]
                .into_iter()
                .flatten()
                .any(|raw| text(raw) && !is_empty(raw));
        (failed || has_error || bare).then(|| Self::from_json(first, MAX_DEPTH))?
    }

    fn from_json(text: &str, depth: u8) -> Option<Self> {
        let text = text.trim();
        let depth = depth.checked_sub(1)?;
        match text.as_bytes().first()? {
            b'{' => Self::from_object(text, depth),
            b'[' => Self::from_list(text, depth),
            b'"' => {
                let inside: String = serde_json::from_str(text).ok()?;
                let nested = inside.trim_start().starts_with(['{', '[']);
                nested
                    .then(|| Self::from_json(&inside, depth))
                    .flatten()
                    .or_else(|| Some(Self::from_text(&inside)))
            }
            _ => None,
        }
    }

    fn from_text(text: &str) -> Self {
        let message = if text.trim_start().starts_with('<') {
            truncate(&markup::words(text))
        } else {
            truncate(text)
        };
        Self {
            minimax_code: trailing_number(&message),
            message,
            ..Self::default()
        }
    }

    /// Reads a list: the first error decides, the messages of the others are
    /// appended.
    fn from_list(text: &str, depth: u8) -> Option<Self> {
        let values: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let mut all = values
            .iter()
            .take(MAX_LISTED_ERRORS)
            .filter_map(|value| Self::from_json(value.get(), depth));
        let mut first = all.next()?;
        for other in all {
            first.message = truncate(&format!("{}; {}", first.message, other.message));
        }
        Some(first)
    }

    fn from_object(text: &str, depth: u8) -> Option<Self> {
        let object: ErrorObject<'_> = serde_json::from_str(text).ok()?;
        let inner = [
            object.error,
            object.errors,
            object.message,
            object.msg,
            object.detail,
            object.status_msg,
            object.base_resp,
            object.title,
        ]
        .into_iter()
        .flatten()
        .filter(|raw| !is_empty(raw))
        .find_map(|raw| Self::from_json(raw.get(), depth));
        let mut error = inner.unwrap_or_else(|| Self {
            message: truncate(text),
            ..Self::default()
        });
        // Inner fields are more specific than outer ones.
        if error.kind.is_empty() {
            error.kind = scalar(object.kind.filter(|kind| kind.get() != "\"error\""));
        }
        if error.code.is_empty() {
            error.code = scalar(object.code);
        }
        if error.param.is_none() {
            error.param = object
                .param
                .map(|raw| scalar(Some(raw)))
                .filter(|param| !param.is_empty());
        }
        if object.status_msg.is_some() {
            error.minimax_code = number(object.status_code);
        } else if error.status.is_none() {
            error.status = [object.code, object.status_code, object.status]
                .into_iter()
                .find_map(|raw| u16::try_from(number(raw)?).ok())
                .filter(|status| (400..600).contains(status));
        }
        let keywords = [object.status, object.reason].into_iter().flatten();
        error.keywords.extend(keywords.map(|raw| scalar(Some(raw))));
        error.window = error
            .window
            .or_else(|| object.n_ctx.and_then(|raw| raw.get().parse().ok()));
        if let Some(loc) = object.loc {
            error.add_location(loc);
        }
        if let Some(details) = object.details {
            error.add_google_details(details);
        }
        if let Some(metadata) = object.metadata {
            error.add_upstream_error(metadata, depth);
        }
        Some(error)
    }

    /// Adds the location (`loc`) of a request validation error.
    fn add_location(&mut self, loc: &RawValue) {
        let steps: Vec<&RawValue> = serde_json::from_str(loc.get()).unwrap_or_default();
        let steps: Vec<String> = steps.into_iter().map(|step| scalar(Some(step))).collect();
        let path = steps.join(".");
        if path.is_empty() {
            return;
        }
        self.message = truncate(&format!("{path}: {}", self.message));
        let inside = path.strip_prefix("body.").unwrap_or(&path);
        self.param.get_or_insert(inside.to_owned());
    }

    fn add_google_details(&mut self, details: &RawValue) {
        let details: Vec<GoogleDetail<'_>> =
            serde_json::from_str(details.get()).unwrap_or_default();
        for detail in details {
            self.keywords.extend(detail.reason.map(Cow::into_owned));
            let quotas = detail.violations.into_iter().filter_map(|one| one.quota_id);
            self.keywords.extend(quotas);
            self.wait = self
                .wait
                .or_else(|| delay::parse_duration(detail.retry_delay.as_deref()?));
        }
    }

    /// Adds the error of the provider behind a gateway, which is more specific.
    fn add_upstream_error(&mut self, metadata: &RawValue, depth: u8) {
        let metadata: GatewayMetadata<'_> =
            serde_json::from_str(metadata.get()).unwrap_or_default();
        let Some(inner) = metadata
            .raw
            .filter(|raw| !is_empty(raw))
            .and_then(|raw| Self::from_json(raw.get(), depth))
        else {
            return;
        };
        let name = metadata.provider_name.as_deref().unwrap_or("upstream");
        self.message = truncate(&format!(
            "{} ({name}): {}",
            self.message.trim_end_matches('.'),
            inner.message
        ));
        if !inner.kind.is_empty() {
            self.kind = inner.kind;
        }
        if !inner.code.is_empty() {
            self.code = inner.code;
        }
        self.param = inner.param.or_else(|| self.param.take());
        self.wait = inner.wait.or(self.wait);
        self.window = inner.window.or(self.window);
        self.minimax_code = inner.minimax_code.or(self.minimax_code);
        self.keywords.extend(inner.keywords);
    }

    /// The provider's own text in lower case. Quotations of the input are left out,
    /// because a conversation may well be about errors.
    pub(super) fn own_text(&self) -> String {
        let own: String = self.message.chars().take(MAX_OWN_TEXT).collect();
        let own = own.to_lowercase();
        without_quotations(&own).to_owned()
    }

    /// GLM's code: four digits as the code (or, at its other endpoint, the type) of
    /// an error that has no other type. Mistral's codes have four digits too, but
    /// beside a textual type.
    pub(super) fn glm_code(&self) -> Option<u32> {
        let digits = |word: &str| (word.len() == 4).then(|| word.parse().ok()).flatten();
        digits(&self.kind).or_else(|| self.kind.is_empty().then(|| digits(&self.code)).flatten())
    }
}

/// The part of a text before a quotation of the input begins.
pub(super) fn without_quotations(text: &str) -> &str {
    const QUOTES: &[&str] = &[
        // vLLM and SGLang: input quoted by pydantic
        "'input': ",
        "\"input\": ",
        "\"input\":",
        "input_value=",
        // llama.cpp: output of the model
        "failed to parse input at pos",
    ];
    let end = QUOTES.iter().filter_map(|quote| text.find(quote)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// A scalar as text; empty for `null`, lists and objects.
fn scalar(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else {
        return String::new();
    };
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).unwrap_or_default(),
        Some(b'0'..=b'9' | b'-') => raw.get().to_owned(),
        _ => String::new(),
    }
}

fn number(raw: Option<&RawValue>) -> Option<u32> {
    scalar(raw).parse().ok()
}

fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "null" | "\"\"" | "[]" | "{}" | "false")
}

/// MiniMax's code at the end of its message: `invalid chat setting (2013)`.
fn trailing_number(message: &str) -> Option<u32> {
    let (_, digits) = message.strip_suffix(')')?.rsplit_once('(')?;
    let number = digits.parse().ok()?;
    (1000..3000).contains(&number).then_some(number)
}

/// The start of a text that is too long for a message.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
