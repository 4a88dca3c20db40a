//! The endpoints in which servers for local models tell what they give their models.

use serde::Deserialize;
use serde_json::Value;

use super::{MAX_ID, MAX_MODELS, is_plain, reported_model, tokens};
use registry::Model;

/// The tokens of context that a server gives a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedContext {
    /// What it gives.
    pub given: Option<u64>,
    /// The most that the model was made for.
    pub limit: Option<u64>,
}

/// An entry of Ollama's `GET /api/tags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OllamaTag {
    /// The name, which is the id of the model.
    pub name: String,
    /// The hash of the model. It changes when another model is pulled under the same name.
    pub digest: String,
}

/// The models of `GET /api/tags`; `None` if the body is something else.
pub fn ollama_tags(body: &[u8]) -> Option<Vec<OllamaTag>> {
    #[derive(Deserialize)]
    struct Tags {
        models: Vec<ListedTag>,
    }
    #[derive(Deserialize)]
    struct ListedTag {
        #[serde(default)]
        name: String,
        #[serde(default)]
        digest: String,
    }
    let tags: Tags = serde_json::from_slice(body).ok()?;
    let usable = tags
        .models
        .into_iter()
        .filter_map(|ListedTag { name, digest }| {
            reported_model(&name)?;
            let digest = if is_plain(&digest) {
                digest
            } else {
                String::new()
            };
            Some(OllamaTag { name, digest })
        });
    Some(usable.take(MAX_MODELS).collect())
}

/// The contexts of the models that are loaded, by name, in tokens: Ollama's `GET /api/ps`.
pub fn loaded_contexts(body: &[u8]) -> Vec<(String, u64)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = body.get("models").and_then(Value::as_array);
    let loaded = models.into_iter().flatten().filter_map(|model| {
        let name = model.get("name")?.as_str()?;
        let context = tokens(model, &["/context_length"])?;
        (name.len() <= MAX_ID).then(|| (name.to_owned(), context))
    });
    loaded.take(MAX_MODELS).collect()
}

/// What Ollama's `POST /api/show` tells of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OllamaModel {
    /// The context that its parameters ask for, and the most that it was made for.
    pub context: ServedContext,
    /// Whether it takes images, if it says so.
    pub images: Option<bool>,
    /// Whether it answers prompts; an embedding model does not.
    pub completes: bool,
}

impl OllamaModel {
    /// The model with this name; `loaded` is the context for which the server has loaded it. `None`
    /// if it answers no prompts.
    pub fn to_model(self, name: &str, loaded: Option<u64>) -> Option<Model> {
        let mut model = reported_model(name).filter(|_| self.completes)?;
        model.images = self.images.unwrap_or(model.images);
        let context = ServedContext {
            given: loaded.or(self.context.given),
            ..self.context
        };
        context.apply(&mut model);
        Some(model)
    }
}

/// Reads the body of `POST /api/show`.
pub fn ollama_model(body: &[u8]) -> OllamaModel {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let capabilities = body.get("capabilities").and_then(Value::as_array);
    let can = |what: &str| {
        let capabilities = capabilities?;
        Some(capabilities.iter().any(|capability| capability == what))
    };
    // The key begins with the architecture of the model: `qwen3.context_length`.
    let info = body.get("model_info").and_then(Value::as_object);
    let limit = info.into_iter().flatten().find_map(|(key, value)| {
        let is_own = key.ends_with(".context_length") && key.matches('.').count() == 1;
        is_own.then(|| tokens(value, &[""]))?
    });
    // One parameter on each line, as in a model file.
    let parameters = body.get("parameters").and_then(Value::as_str);
    let given = parameters
        .into_iter()
        .flat_map(str::lines)
        .find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == "num_ctx").then(|| words.next()?.parse().ok())?
        });
    OllamaModel {
        context: ServedContext { given, limit },
        images: can("vision"),
        completes: can("completion").unwrap_or(true),
    }
}

/// What llama.cpp's `GET /props` tells of the model that it has loaded: the context of a slot, and
/// whether it takes images.
pub fn props(body: &[u8]) -> (Option<u64>, Option<bool>) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let context = tokens(&body, &["/default_generation_settings/n_ctx", "/n_ctx"]);
    let images = body.pointer("/modalities/vision").and_then(Value::as_bool);
    (context, images)
}

/// The window of the model of SGLang, in tokens: `GET /get_server_info`. If none was set at its
/// start, it is what a request may have at most.
pub fn server_info(body: &[u8]) -> Option<u64> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let pointers = [
        "/context_length",
        "/max_req_input_len",
        "/internal_states/0/max_req_input_len",
        "/max_total_num_tokens",
    ];
    tokens(&body, &pointers)
}
