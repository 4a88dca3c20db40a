//! All workflows of a server, and what a request gets of the one that it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::definition::{INPUT, WorkflowDefinition};
use super::progress::WorkflowProgress;
use super::run::{MEMBER, WorkflowRun, prompt_json};
use crate::fault::Fault;
use crate::json;
use crate::members::{Members, rewrite};
use crate::responses::prompt_templates::{is_prompt_id, listed, shown};
use crate::template_text::TemplateText;

/// What the id of a workflow begins with.
const ID_PREFIX: &str = "wf_";

/// The workflows of a server, by id. Immutable once the configuration is loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkflowCatalog(BTreeMap<String, Arc<WorkflowDefinition>>);

impl WorkflowCatalog {
    /// Adds a workflow, in place of one of the same id.
    pub fn add(&mut self, id: &str, definition: WorkflowDefinition) {
        self.0.insert(id.to_owned(), Arc::new(definition));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A workflow.
    pub fn get(&self, id: &str) -> Option<&WorkflowDefinition> {
        self.0.get(id).map(|definition| &**definition)
    }

    /// The workflows, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &WorkflowDefinition)> {
        self.0
            .iter()
            .map(|(id, definition)| (id.as_str(), &**definition))
    }

    /// Whether a text can be the id of a workflow: `wf_` and at least one more letter, digit, `-`
    /// or `_`.
    pub fn is_id(text: &str) -> bool {
        text.len() > ID_PREFIX.len() && text.starts_with(ID_PREFIX) && is_prompt_id(text)
    }

    /// The request as one of the workflow that its `prompt` names; `None` if it names none. It has
    /// at most `max_bytes` bytes. What only this server may write into a body is taken out. The id
    /// of a template is not that of a missing workflow.
    pub fn expand(
        &self,
        body: &str,
        max_bytes: usize,
        is_template: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, Fault> {
        let is_forged = json::may_have(body, MEMBER);
        if !is_forged && !json::may_have(body, "prompt") {
            return Ok(None);
        }
        let Some(members) = Members::read(body) else {
            return Ok(None);
        };
        let prompt = members.present("prompt").map(RawValue::get);
        let prompt = prompt.and_then(Members::read);
        let id = prompt.as_ref().and_then(|prompt| prompt.text("id"));
        let found = id.as_deref().and_then(|id| self.0.get_key_value(id));
        let changes = match (found, id.as_deref(), &prompt) {
            (Some((id, definition)), _, Some(prompt)) => expand(id, definition, &members, prompt)?,
            (None, Some(id), _) if id.starts_with(ID_PREFIX) && !is_template(id) => {
                return Err(self.unknown(id));
            }
            _ if is_forged => vec![(MEMBER, None)],
            _ => return Ok(None),
        };
        let mut expanded = Vec::new();
        rewrite(&mut expanded, &members, &changes);
        if expanded.len() > max_bytes {
            return Err(Fault::invalid(
                "prompt",
                "The workflow makes the request too large: send shorter variables or a shorter input.",
            ));
        }
        Ok(String::from_utf8(expanded).ok())
    }

    fn unknown(&self, id: &str) -> Fault {
        let (id, known) = (shown(id), listed(self.0.keys()));
        let message = format!("Workflow '{id}' not found: this server has {known}.");
        Fault::invalid("prompt.id", message).with_code("prompt_not_found")
    }
}

/// The changes that make a request one of this workflow.
fn expand(
    id: &str,
    definition: &Arc<WorkflowDefinition>,
    body: &Members<'_>,
    prompt: &Members<'_>,
) -> Result<Vec<(&'static str, Option<String>)>, Fault> {
    let tools = body.present("tools").map(RawValue::get);
    let is_empty =
        |list: &str| serde_json::from_str(list).is_ok_and(|list: Vec<Value>| list.is_empty());
    if tools.is_some_and(|tools| !is_empty(tools)) {
        let message = format!("The workflow '{id}' has tools of its own: leave 'tools' out.");
        return Err(Fault::invalid("tools", message));
    }
    let input = input_text(body);
    let variables = read_variables(id, definition, prompt, &input)?;
    let run = WorkflowRun {
        id: id.to_owned(),
        definition: Arc::clone(definition),
        variables,
        input,
        model: body.text("model").map(Into::into),
        progress: WorkflowProgress::default(),
        approval: None,
    };
    let sent = prompt.present("variables").map_or("null", RawValue::get);
    run.changes(body, prompt_json(id, sent))
        .map_err(|why| Fault::invalid("prompt.variables", format!("The workflow '{id}': {why}.")))
}

/// The values of all variables. An error names those that are missing, or not known.
fn read_variables(
    id: &str,
    definition: &WorkflowDefinition,
    prompt: &Members<'_>,
    input: &str,
) -> Result<BTreeMap<String, String>, Fault> {
    let names = definition.variables();
    let mut values = BTreeMap::new();
    for (name, text) in &definition.defaults {
        values.insert(name.clone(), filled_default(text, input));
    }
    let sent = prompt.present("variables").map(RawValue::get);
    let sent = match sent.map(Members::read) {
        None => Members::default(),
        Some(Some(sent)) => sent,
        Some(None) => {
            let message = "'prompt.variables' must be an object.";
            return Err(Fault::invalid("prompt.variables", message));
        }
    };
    let known = if names.is_empty() {
        "no variables".to_owned()
    } else {
        format!("the variables {}", listed(&names))
    };
    for (name, value) in sent.iter() {
        let shown = shown(name);
        if !names.contains(name) {
            let message = format!(
                "The workflow '{id}' has {known}, and the request has another one, '{shown}': leave it out."
            );
            let fault = Fault::invalid("prompt.variables", message);
            return Err(fault.with_code("unknown_prompt_variable"));
        }
        let Some(text) = json::string_value(Some(value)) else {
            let message = format!("The variable '{shown}' of a workflow must be a string.");
            return Err(Fault::invalid("prompt.variables", message));
        };
        values.insert(name.to_owned(), text.into_owned());
    }
    let missing: Vec<&String> = names
        .iter()
        .filter(|it| !values.contains_key(*it))
        .collect();
    if !missing.is_empty() {
        let message = format!(
            "The workflow '{id}' has {known}, and the request leaves out {}: send them in 'prompt.variables'.",
            listed(missing)
        );
        let fault = Fault::invalid("prompt.variables", message);
        return Err(fault.with_code("missing_prompt_variable"));
    }
    Ok(values)
}

/// A default value, in which the input of the request may stand.
fn filled_default(text: &str, input: &str) -> String {
    let template = TemplateText::new(text);
    let value = |name: &str| if name == INPUT { input } else { "" };
    let filled = template.fill(usize::MAX, |name| value(name).to_owned().into());
    filled.unwrap_or_default()
}

/// The text of the input: itself, or that of its last message of the user.
fn input_text(body: &Members<'_>) -> String {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum InputContent {
        Text(String),
        Parts(Vec<InputTextPart>),
    }
    #[derive(Deserialize)]
    struct InputTextPart {
        #[serde(default)]
        text: String,
    }
    #[derive(Deserialize)]
    struct InputMessage {
        role: String,
        content: InputContent,
    }
    let input = body.present("input").map_or("null", RawValue::get);
    if let Ok(text) = serde_json::from_str(input) {
        return text;
    }
    let items: Vec<&RawValue> = serde_json::from_str(input).unwrap_or_default();
    let messages = items.iter().rev();
    let mut messages =
        messages.filter_map(|item| serde_json::from_str::<InputMessage>(item.get()).ok());
    let of_user = messages.find(|message| message.role == "user");
    match of_user.map(|message| message.content) {
        Some(InputContent::Text(text)) => text,
        Some(InputContent::Parts(parts)) => {
            let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
            texts.join("\n")
        }
        None => String::new(),
    }
}
