//! What items say, as text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

/// The content of a message: its texts as they are sent, and whether it has more.
pub(super) struct Measured {
    /// Bytes inside JSON strings, with what stands around them.
    pub(super) bytes: usize,
    /// How many parts are no text.
    pub(super) media: usize,
}

/// What stands around a text in a list of parts.
const PART: usize = r#"{"type":"text","text":""},"#.len();

/// Measures a message or an output that is a string or a list of parts.
pub(super) fn measure(raw: Option<&RawValue>) -> Measured {
    let json = raw.map_or("", RawValue::get);
    if let Some(inner) = json::unquote(json) {
        return Measured {
            bytes: inner.len(),
            media: 0,
        };
    }
    let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(json) else {
        return Measured {
            bytes: json::escaped_len(json),
            media: 0,
        };
    };
    let texts = parts.iter().filter_map(|part| part.text.or(part.refusal));
    let bytes = texts.clone().map(|raw| raw.get().len() + PART).sum();
    Measured {
        bytes,
        media: parts.len() - texts.count(),
    }
}

/// The text of a message: a string, or the texts of its parts, a line each.
pub(crate) fn message<'a>(item: &Item<'a>) -> Cow<'a, str> {
    if let Some(text) = item.plain_text() {
        return text.decoded().into_owned().into();
    }
    let Some(raw) = item.content() else {
        return "".into();
    };
    if let Some(inner) = json::unquote(raw.get()) {
        return json::unescape(inner);
    }
    let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(raw.get()) else {
        return raw.get().into();
    };
    let texts = parts.iter().filter_map(|part| part.text.or(part.refusal));
    let texts = texts.filter_map(|raw| json::unquote(raw.get()));
    let texts: Vec<Cow<'_, str>> = texts
        .filter(|text| !text.is_empty())
        .map(json::unescape)
        .collect();
    texts.join("\n").into()
}

/// The arguments of a call as one JSON object: of a custom tool its input, of a
/// shell its action.
pub(crate) fn arguments<'a>(item: &Item<'a>) -> Cow<'a, str> {
    let wrapped = |name: &str, text: &Text<'_>| format!("{{\"{name}\":\"{}\"}}", text.escaped());
    let object = |raw: Option<&'a RawValue>| raw.map_or("{}", RawValue::get).into();
    match item.kind {
        ItemKind::CustomToolCall => match item.input() {
            Some(input) => wrapped("input", &input).into(),
            None => r#"{"input":""}"#.into(),
        },
        ItemKind::LocalShellCall | ItemKind::ShellCall => object(item.action()),
        ItemKind::ApplyPatchCall => object(item.operation()),
        _ => {
            let Some(raw) = item.arguments() else {
                return "{}".into();
            };
            match json::unquote(raw.get()).map(json::unescape) {
                Some(text) if text.is_empty() => "{}".into(),
                Some(text) if json::is_valid_object(&text) => text,
                None if raw.get().starts_with('{') => raw.get().into(),
                Some(text) => wrapped("arguments", &text.into_owned().into()).into(),
                None => wrapped("arguments", &raw.get().into()).into(),
            }
        }
    }
}

/// The bytes of [`arguments`] inside the `arguments` string of a call.
pub(super) fn arguments_len(item: &Item<'_>) -> usize {
    // As the client sent them they stand in a string already.
    let raw = item.arguments().and_then(|raw| json::unquote(raw.get()));
    match (item.kind, raw) {
        (ItemKind::FunctionCall | ItemKind::ToolSearchCall, Some(inner))
            if json::is_valid_object(&json::unescape(inner)) =>
        {
            inner.len()
        }
        _ => json::escaped_len(&arguments(item)),
    }
}
