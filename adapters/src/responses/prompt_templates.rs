//! Prompt templates: what a request gets of the one that its `prompt` names. From there on it is a
//! request like any other, whose `prompt` only says what was filled in.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::request::TurnSource;
use crate::fault::Fault;
use crate::json;
use crate::members::{Members, rewrite};
use crate::template_text::{TemplatePiece, TemplateText, is_name_byte};

/// What a template may hold besides its texts. Whatever decides where a response is stored, sent
/// and continued is the request's alone.
const PARAMETERS: [&str; 14] = [
    "model",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "truncation",
    "service_tier",
];

/// The roles of messages.
const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// The types of variables that are objects.
const PARTS: [&str; 3] = ["input_text", "input_image", "input_file"];

/// The longest id of a template.
const MAX_ID_BYTES: usize = 64;

/// At most this many names are listed in a message.
const MAX_LISTED: usize = 20;

/// All templates, by id and version. Immutable once the configuration is loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptTemplates(BTreeMap<String, BTreeMap<u32, PromptTemplate>>);

/// A version of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptTemplate {
    /// Parameters of the request, as JSON.
    parameters: Vec<(String, String)>,
    instructions: Option<TemplateText>,
    messages: Vec<TemplateMessage>,
    /// The names of all variables in its texts.
    variables: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct TemplateMessage {
    role: String,
    content: TemplateText,
}

/// The fields of a template, as they are written.
#[derive(Deserialize)]
struct TemplateFields {
    instructions: Option<String>,
    #[serde(default)]
    messages: Vec<MessageFields>,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFields {
    role: String,
    content: String,
}

/// Whether a text can be the id of a template: 1 to 64 letters, digits, `-` and `_`.
pub fn is_prompt_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_name_byte)
}

/// The version that a text names: a whole number from 1 on, without leading zeros.
pub fn prompt_version(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

impl PromptTemplate {
    /// A template with these fields. An error says what is wrong, as the rest of a sentence about
    /// the template.
    pub fn new(fields: Value) -> Result<Self, String> {
        let fields: TemplateFields =
            serde_json::from_value(fields).map_err(|error| error.to_string())?;
        let known = |name: &&String| PARAMETERS.contains(&name.as_str());
        if let Some(unknown) = fields.parameters.keys().find(|name| !known(name)) {
            return Err(format!(
                "unknown key `{unknown}`; known are instructions, messages, {}",
                PARAMETERS.join(", ")
            ));
        }
        let instructions = fields.instructions.map(|text| TemplateText::new(&text));
        let mut messages = Vec::new();
        for MessageFields { role, content } in fields.messages {
            if !ROLES.contains(&role.as_str()) {
                return Err(format!(
                    "the role of a message must be one of {}",
                    ROLES.join(", ")
                ));
            }
            let content = TemplateText::new(&content);
            messages.push(TemplateMessage { role, content });
        }
        if instructions.is_none() && messages.is_empty() {
            return Err("it needs `instructions` or `messages`".to_owned());
        }
        let texts = messages.iter().map(|message| &message.content);
        let variables = texts
            .chain(&instructions)
            .flat_map(TemplateText::variables)
            .map(str::to_owned)
            .collect();
        check_parameters(&fields.parameters)?;
        let parameters = fields.parameters.into_iter();
        Ok(Self {
            parameters: parameters
                .map(|(name, value)| (name, value.to_string()))
                .collect(),
            instructions,
            messages,
            variables,
        })
    }

    /// The changes that put the template into the request.
    fn changes(
        &self,
        body: &Members<'_>,
        variables: &Variables<'_>,
        max_bytes: usize,
    ) -> Result<Vec<(&str, Option<String>)>, Fault> {
        let mut changes: Vec<(&str, Option<String>)> = Vec::new();
        for (name, json) in &self.parameters {
            if body.present(name).is_none() {
                changes.push((name, Some(json.clone())));
            }
        }
        if let Some(instructions) = &self.instructions
            && body.present("instructions").is_none()
        {
            let text = filled_text(instructions, variables, max_bytes)?;
            changes.push(("instructions", Some(json::quoted(&text))));
        }
        if !self.messages.is_empty()
            && let Some(input) = self.input(body, variables, max_bytes)?
        {
            changes.push(("input", Some(input)));
        }
        Ok(changes)
    }

    /// The messages before the input of the request; `None` if that cannot be read.
    fn input(
        &self,
        body: &Members<'_>,
        variables: &Variables<'_>,
        max_bytes: usize,
    ) -> Result<Option<String>, Fault> {
        let mut items: Vec<String> = Vec::new();
        let mut bytes = 0;
        for message in &self.messages {
            let content = message.content(variables, max_bytes)?;
            bytes += content.len();
            if bytes > max_bytes {
                return Err(too_large());
            }
            let role = json::quoted(&message.role);
            items.push(format!(
                r#"{{"type":"message","role":{role},"content":{content}}}"#
            ));
        }
        match body.present("input").map(RawValue::get) {
            None => {}
            Some(text) if text.starts_with('"') => items.push(format!(
                r#"{{"type":"message","role":"user","content":{text}}}"#
            )),
            Some(list) => {
                let inner = list.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
                let Some(inner) = inner else { return Ok(None) };
                if !inner.trim().is_empty() {
                    items.push(inner.to_owned());
                }
            }
        }
        Ok(Some(format!("[{}]", items.join(","))))
    }
}

/// Checks the parameters of a template as those of a request.
fn check_parameters(parameters: &Map<String, Value>) -> Result<(), String> {
    let mut body = parameters.clone();
    body.insert("input".to_owned(), Value::from("x"));
    body.entry("model").or_insert_with(|| Value::from("m"));
    let checked = TurnSource::new(Value::Object(body).to_string());
    let checked = checked.turn().map(|_| ());
    checked.map_err(|fault| fault.client_message().into_owned())
}

impl TemplateMessage {
    /// Its content as JSON: a text, or a list of parts if a variable is an image or a file.
    fn content(&self, variables: &Variables<'_>, max_bytes: usize) -> Result<String, Fault> {
        let names = self.content.variables();
        let mut values = names.filter_map(|name| variables.get(name));
        if values.all(|value| matches!(value, VariableValue::Text(_))) {
            let text = filled_text(&self.content, variables, max_bytes)?;
            return Ok(json::quoted(&text));
        }
        if self.role == "assistant" {
            return Err(text_only("a message of the assistant"));
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut bytes = 0;
        let end_text = |text: &mut String, parts: &mut Vec<String>| {
            if !text.is_empty() {
                let quoted = json::quoted(&std::mem::take(text));
                parts.push(format!(r#"{{"type":"input_text","text":{quoted}}}"#));
            }
        };
        for piece in self.content.pieces() {
            let value = match piece {
                TemplatePiece::Literal(text) => Some(text.as_str()),
                TemplatePiece::Variable(name) => match variables.get(name.as_str()) {
                    Some(VariableValue::Text(text)) => Some(&**text),
                    Some(VariableValue::Part(json)) => {
                        end_text(&mut text, &mut parts);
                        bytes += json.len();
                        parts.push((*json).to_owned());
                        None
                    }
                    None => None,
                },
            };
            text.push_str(value.unwrap_or_default());
            if bytes + text.len() > max_bytes {
                return Err(too_large());
            }
        }
        end_text(&mut text, &mut parts);
        Ok(format!("[{}]", parts.join(",")))
    }
}

/// The text of a template for which all variables are texts.
fn filled_text(
    template: &TemplateText,
    variables: &Variables<'_>,
    max_bytes: usize,
) -> Result<String, Fault> {
    let is_part = |name| matches!(variables.get(name), Some(VariableValue::Part(_)));
    if template.variables().any(is_part) {
        return Err(text_only("instructions"));
    }
    let text = |name: &str| match variables.get(name) {
        Some(VariableValue::Text(text)) => text.clone(),
        Some(VariableValue::Part(_)) | None => Cow::Borrowed(""),
    };
    template.fill(max_bytes, text).ok_or_else(too_large)
}

/// The values of the variables of a request, by name.
type Variables<'a> = BTreeMap<String, VariableValue<'a>>;

/// What replaces a variable.
#[derive(Debug)]
enum VariableValue<'a> {
    Text(Cow<'a, str>),
    /// A part of a message, as JSON.
    Part(&'a str),
}

impl<'a> VariableValue<'a> {
    fn read(name: &str, value: &'a RawValue) -> Result<Self, Fault> {
        if let Some(text) = json::string_value(Some(value)) {
            return Ok(Self::Text(text));
        }
        let members = Members::read(value.get());
        let kind = members.as_ref().and_then(|members| members.text("type"));
        match (members, kind.as_deref()) {
            (Some(members), Some("input_text")) => match members.text("text") {
                Some(text) => Ok(Self::Text(text)),
                None => Err(unreadable_variable(name)),
            },
            (Some(_), Some(kind)) if PARTS.contains(&kind) => Ok(Self::Part(value.get())),
            _ => Err(unreadable_variable(name)),
        }
    }
}

impl PromptTemplates {
    /// Adds a version of a template.
    pub fn add(&mut self, id: &str, version: u32, template: PromptTemplate) {
        let versions = self.0.entry(id.to_owned()).or_default();
        versions.insert(version, template);
    }

    /// Whether there is a template with this id.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The request with the template that its `prompt` names, whose version `prompt` has then;
    /// `None` if it has no `prompt`, or is no JSON object. It has at most `max_bytes` bytes. What
    /// the request itself has counts, except that the messages of the template come before its
    /// input.
    pub fn expand(&self, body: &str, max_bytes: usize) -> Result<Option<String>, Fault> {
        // Most bodies need no look at their members.
        if !json::may_have(body, "prompt") {
            return Ok(None);
        }
        let Some(members) = Members::read(body) else {
            return Ok(None);
        };
        let Some(prompt) = members.present("prompt") else {
            return Ok(None);
        };
        let prompt = Members::read(prompt.get()).ok_or_else(unreadable_prompt)?;
        let id = prompt.text("id").ok_or_else(unreadable_prompt)?;
        let (version, template) = self.find(&id, prompt.present("version"))?;
        let variables = match prompt.present("variables") {
            Some(raw) => Some(Members::read(raw.get()).ok_or_else(unreadable_prompt)?),
            None => None,
        };
        let mut values = Variables::new();
        for (name, value) in variables.iter().flat_map(Members::iter) {
            values.insert(name.to_owned(), VariableValue::read(name, value)?);
        }
        check_names(&id, version, template, &values)?;
        let mut changes = template.changes(&members, &values, max_bytes)?;
        let sent = prompt.present("variables").map_or("null", RawValue::get);
        let filled = format!(
            r#"{{"id":{},"version":"{version}","variables":{sent}}}"#,
            json::quoted(&id)
        );
        changes.push(("prompt", Some(filled)));
        let mut expanded = Vec::new();
        rewrite(&mut expanded, &members, &changes);
        if expanded.len() > max_bytes {
            return Err(too_large());
        }
        Ok(String::from_utf8(expanded).ok())
    }

    /// A version of a template; the newest if the request names none.
    fn find(&self, id: &str, version: Option<&RawValue>) -> Result<(u32, &PromptTemplate), Fault> {
        let versions = self.0.get(id).ok_or_else(|| {
            let known = listed(self.0.keys());
            let id = shown(id);
            let message = format!("Prompt '{id}' not found: this server has the prompts {known}.");
            Fault::invalid("prompt.id", message).with_code("prompt_not_found")
        })?;
        let found = match version {
            None => versions.last_key_value(),
            Some(raw) => {
                let text = json::string_value(Some(raw));
                let number = text.as_deref().and_then(prompt_version);
                number.and_then(|number| versions.get_key_value(&number))
            }
        };
        found.map(|(number, template)| (*number, template)).ok_or_else(|| {
            let known = listed(versions.keys().map(u32::to_string));
            let message = format!(
                "The prompt '{id}' has no such version: it has {known}. A version is a string such as \"1\"; without one the newest is used."
            );
            Fault::invalid("prompt.version", message).with_code("prompt_version_not_found")
        })
    }
}

/// Checks that a request has exactly the variables of the template.
fn check_names(
    id: &str,
    version: u32,
    template: &PromptTemplate,
    values: &Variables<'_>,
) -> Result<(), Fault> {
    let names = &template.variables;
    let known = if names.is_empty() {
        "no variables".to_owned()
    } else {
        format!("the variables {}", listed(names))
    };
    let missing: Vec<&String> = names
        .iter()
        .filter(|it| !values.contains_key(*it))
        .collect();
    let (message, code) = if !missing.is_empty() {
        let missing = listed(missing);
        let message = format!(
            "The prompt '{id}' has {known} in its version {version}, and the request leaves out {missing}: send all of them in 'prompt.variables'."
        );
        (message, "missing_prompt_variable")
    } else if let Some(unknown) = values.keys().find(|name| !names.contains(*name)) {
        let unknown = shown(unknown);
        let message = format!(
            "The prompt '{id}' has {known} in its version {version}, and the request has another one, '{unknown}': leave it out."
        );
        (message, "unknown_prompt_variable")
    } else {
        return Ok(());
    };
    Err(Fault::invalid("prompt.variables", message).with_code(code))
}

/// The first names of a list, with commas between them.
pub(crate) fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut names = names.into_iter();
    let first: Vec<String> = names
        .by_ref()
        .take(MAX_LISTED)
        .map(|name| format!("'{}'", name.as_ref()))
        .collect();
    let more = names.count();
    let first = first.join(", ");
    if more == 0 {
        first
    } else {
        format!("{first} and {more} more")
    }
}

/// The beginning of a name that a client sent.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

fn unreadable_prompt() -> Fault {
    let message = "The parameter 'prompt' must be an object with the 'id' of a template, and with a 'version' and 'variables' if need be.";
    Fault::invalid("prompt", message)
}

fn unreadable_variable(name: &str) -> Fault {
    let message = format!(
        "The variable '{}' must be a string, or an object of the type {}.",
        shown(name),
        PARTS.join(", ")
    );
    Fault::invalid("prompt.variables", message)
}

fn text_only(place: &str) -> Fault {
    let message =
        format!("A variable in {place} must be a text; images and files are for other messages.");
    Fault::invalid("prompt.variables", message)
}

fn too_large() -> Fault {
    let message = "The request with its prompt template filled in is larger than a request may be (body_limit in [server]): send shorter variables.";
    Fault::invalid("prompt.variables", message).with_code("prompt_too_large")
}

#[cfg(test)]
mod tests;
