//! The text of a message, and the arguments of a call, of an item: decoded, and measured
//! without decoding. Texts of tool outputs are read by [`crate::plan::output`].

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::{self, ContentPart};
use crate::json;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

/// Whether a message holds the instructions of a project, as Codex begins it.
pub(crate) fn is_project_instructions(message: &str) -> bool {
    let message = message.trim_start();
    message.starts_with("# AGENTS.md instructions") || message.starts_with("<user_instructions>")
}

/// The size of a message or an output whose content is a string or a list of parts.
pub(crate) struct ContentSize {
    /// Bytes of the texts as they are escaped in the request, with the JSON around
    /// each text part.
    pub(crate) bytes: usize,
    /// How many parts are not text.
    pub(crate) media: usize,
}

/// The JSON around the text of a part in a list.
const TEXT_PART_FRAME: usize = r#"{"type":"text","text":""},"#.len();

/// Measures a content that is a string or a list of parts.
pub(crate) fn content_size(raw: Option<&RawValue>, is_output: bool) -> ContentSize {
    let json = raw.map_or("", RawValue::get);
    if let Some(inner) = json::unquote(json) {
        return ContentSize {
            bytes: inner.len(),
            media: 0,
        };
    }
    let parts = if is_output {
        content::output_parts(json)
    } else {
        content::read_parts(json).ok()
    };
    let Some(parts) = parts else {
        return ContentSize {
            bytes: json::escaped_len(json),
            media: 0,
        };
    };
    let texts = parts.iter().filter_map(ContentPart::text);
    let bytes = texts
        .clone()
        .map(|raw| raw.get().len() + TEXT_PART_FRAME)
        .sum();
    ContentSize {
        bytes,
        media: parts.len() - texts.count(),
    }
}

/// The text of a message: its content string, or the texts of its parts, one per line.
pub fn message_text<'a>(item: &Item<'a>) -> Cow<'a, str> {
    if let Some(text) = item.plain_text() {
        return text.decoded().into_owned().into();
    }
    let Some(raw) = item.content() else {
        return "".into();
    };
    if let Some(inner) = json::unquote(raw.get()) {
        return json::unescape(inner);
    }
    let Ok(parts) = content::read_parts(raw.get()) else {
        return raw.get().into();
    };
    let texts = parts.iter().filter_map(ContentPart::text);
    let texts = texts.filter_map(|raw| json::unquote(raw.get()));
    let texts: Vec<Cow<'_, str>> = texts
        .filter(|text| !text.is_empty())
        .map(json::unescape)
        .collect();
    texts.join("\n").into()
}

/// The arguments of a call as one JSON object: the input of a custom tool call and
/// arguments that are not an object are wrapped into one, the action of a shell call and
/// the operation of a patch call are used as they are.
pub(crate) fn arguments_json<'a>(item: &Item<'a>) -> Cow<'a, str> {
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
                Some(text) => match json::valid_object(&text) {
                    Some(Cow::Borrowed(_)) => text,
                    Some(Cow::Owned(sound)) => sound.into(),
                    None => wrapped("arguments", &text.into_owned().into()).into(),
                },
                None if raw.get().starts_with('{') => raw.get().into(),
                None => wrapped("arguments", &raw.get().into()).into(),
            }
        }
    }
}

/// The command of a call; `None` for a call that does not run one.
pub(crate) fn command(item: &Item<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct CommandArguments<'a> {
        #[serde(borrow)]
        cmd: Option<&'a RawValue>,
        command: Option<&'a RawValue>,
        commands: Option<&'a RawValue>,
    }
    let arguments = arguments_json(item);
    let run: CommandArguments<'_> = serde_json::from_str(&arguments).ok()?;
    let raw = run.cmd.or(run.command).or(run.commands)?;
    match json::string_value(Some(raw)) {
        Some(text) => Some(text.into_owned()),
        None => Some(
            serde_json::from_str::<Vec<String>>(raw.get())
                .ok()?
                .join(" "),
        ),
    }
}

/// The bytes of [`arguments_json`] when it is escaped into the `arguments` string of a
/// call.
pub(crate) fn escaped_arguments_len(item: &Item<'_>) -> usize {
    // The client sent these arguments escaped already.
    let raw = item.arguments().and_then(|raw| json::unquote(raw.get()));
    match (item.kind, raw) {
        (ItemKind::FunctionCall | ItemKind::ToolSearchCall, Some(inner))
            if matches!(
                json::valid_object(&json::unescape(inner)),
                Some(Cow::Borrowed(_))
            ) =>
        {
            inner.len()
        }
        _ => json::escaped_len(&arguments_json(item)),
    }
}
