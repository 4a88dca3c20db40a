//! Reads the lists of models that providers give. What a list does not say stays unknown; an entry
//! that cannot be read is left out.

mod kinds;
mod local;
mod pages;

use registry::{Model, Window};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use kinds::may_answer_prompts;
pub use local::{
    OllamaModel, OllamaTag, ServedContext, loaded_contexts, ollama_model, ollama_tags, props,
    server_info,
};
pub use pages::{NextPage, linked_page, next_page};

/// At most this many models of a list are read.
pub const MAX_MODELS: usize = 5_000;
/// A longer id is not read, in bytes.
const MAX_ID: usize = 256;
/// No window has more tokens; a larger number is something else.
const MAX_WINDOW: u64 = 100_000_000;

/// The models of a list, or of one page of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedModels {
    /// Those that may answer prompts.
    pub models: Vec<Model>,
    /// How many others there are, by what the list says of them.
    pub others: usize,
}

/// A list in the form of OpenAI's `GET /models`, with or without the object around it. `None` if
/// the body is no list.
pub fn listed_models(body: &[u8]) -> Option<ListedModels> {
    let mut list = ListedModels::default();
    for entry in entries(body)? {
        if list.models.len() >= MAX_MODELS {
            break;
        }
        let Ok(entry) = serde_json::from_str::<Value>(entry.get()) else {
            continue;
        };
        if kinds::answers_no_prompt(&entry) {
            list.others += 1;
        } else {
            list.models.extend(listed_model(&entry));
        }
    }
    Some(list)
}

/// The entries of a list; `None` if the body is no list.
fn entries(body: &[u8]) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow, default)]
        data: Option<Vec<&'a RawValue>>,
        #[serde(borrow, default)]
        models: Option<Vec<&'a RawValue>>,
    }
    match serde_json::from_slice::<Whole<'_>>(body) {
        Ok(whole) => whole.data.or(whole.models),
        Err(_) => serde_json::from_slice(body).ok(),
    }
}

/// One entry of a list; `None` if it has no usable id.
fn listed_model(entry: &Value) -> Option<Model> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let id = text("id").or_else(|| text("name"))?;
    // Gemini writes the kind of resource before each id, and takes the id without it.
    let id = id.strip_prefix("models/").unwrap_or(id);
    let kind = text("type").unwrap_or_default();
    let mut model = reported_model(id)?;
    let name = text("display_name").or_else(|| text("name"));
    if let Some(name) = name.filter(|name| is_plain(name)) {
        name.clone_into(&mut model.name);
    }
    model.images = takes_images(entry, kind).unwrap_or(model.images);
    model.audio = has_modality(entry, "audio").unwrap_or(model.audio);
    model.max_output = tokens(
        entry,
        &[
            "/max_completion_tokens",
            "/max_output_tokens",
            "/outputTokenLimit",
            "/top_provider/max_completion_tokens",
        ],
    );
    let context = if entry.get("state").is_some() {
        // A server that loads models when they are asked for: until then, only their limit is
        // known.
        ServedContext {
            given: tokens(entry, &["/loaded_context_length"]),
            limit: tokens(entry, &["/max_context_length"]),
        }
    } else {
        ServedContext {
            given: tokens(
                entry,
                &[
                    "/max_model_len",
                    "/context_length",
                    "/context_window",
                    "/max_context_length",
                    "/inputTokenLimit",
                    "/meta/n_ctx",
                ],
            ),
            limit: tokens(entry, &["/meta/n_ctx_train"]),
        }
    };
    context.apply(&mut model);
    Some(model)
}

/// Whether a model takes images, if its entry says so.
fn takes_images(entry: &Value, kind: &str) -> Option<bool> {
    let flags = [
        "/supports_vision",
        "/supports_image_in",
        "/capabilities/vision",
    ];
    let flag = flags.iter().find_map(|at| entry.pointer(at)?.as_bool());
    flag.or(has_modality(entry, "image")).or(match kind {
        "vlm" => Some(true),
        "llm" => Some(false),
        _ => None,
    })
}

/// Whether a model takes input of this kind, if its entry lists the kinds.
fn has_modality(entry: &Value, wanted: &str) -> Option<bool> {
    let modalities = ["/architecture/input_modalities", "/input_modalities"];
    modalities.iter().find_map(|at| {
        let modalities = entry.pointer(at)?.as_array()?;
        Some(modalities.iter().any(|modality| modality == wanted))
    })
}

/// A model known by its id only; `None` if this cannot be an id.
fn reported_model(id: &str) -> Option<Model> {
    let is_usable = !id.is_empty() && id.len() <= MAX_ID && is_plain(id) && id.trim() == id;
    is_usable.then(|| Model {
        name: String::new(),
        reported: true,
        ..Model::unlisted(id)
    })
}

fn is_plain(text: &str) -> bool {
    text.len() <= MAX_ID && !text.contains(char::is_control)
}

/// The first of these members that is a possible number of tokens.
fn tokens(value: &Value, pointers: &[&str]) -> Option<u64> {
    let mut found = pointers.iter().filter_map(|at| value.pointer(at)?.as_u64());
    found.find(|tokens| (1..=MAX_WINDOW).contains(tokens))
}

impl ServedContext {
    /// Sets the window of a model: what the server gives it. If only the limit of the model is
    /// known, the server may give it less; so a limit counts only if it is below the window that is
    /// assumed otherwise.
    pub fn apply(self, model: &mut Model) {
        let assumed = Window::assumed().tokens;
        let limit = self.limit.filter(|limit| *limit < assumed);
        model.window = self.given.or(model.window).or(limit);
    }
}

#[cfg(test)]
mod tests;
