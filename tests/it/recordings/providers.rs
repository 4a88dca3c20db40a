//! The providers and models behind the folders of the recordings.

use std::sync::Arc;

use registry::{Dialect, Model, Provider};

/// Folder names that differ from the provider ids, as (folder, id).
const NAMES: [(&str, &str); 13] = [
    ("alibaba", "qwen"),
    ("ark", "volcengine-ark"),
    ("azure", "azure-openai"),
    ("dashscope", "qwen"),
    ("glm", "zai"),
    ("google", "gemini"),
    ("grok", "xai"),
    ("kimi", "moonshot"),
    ("lm-studio", "lmstudio"),
    ("moonshotai", "moonshot"),
    ("volcengine", "volcengine-ark"),
    ("z-ai", "zai"),
    ("zhipu", "bigmodel"),
];

/// The provider of a folder: the one whose id is the folder's name or a part of it, or the generic
/// one.
pub fn provider(folder: &str) -> Provider {
    let parts = [
        Some(folder),
        folder.rsplit_once('-').map(|(before, _)| before),
        folder.rsplit_once('-').map(|(_, last)| last),
        folder.split_once('-').map(|(first, _)| first),
    ];
    let id = parts
        .into_iter()
        .flatten()
        .map(|part| {
            let named = NAMES.iter().find(|(name, _)| *name == part);
            named.map_or(part, |(_, id)| *id)
        })
        .find(|id| registry::builtin::is_builtin(id))
        .unwrap_or(folder);
    registry::build(id, toml::Table::new())
        .unwrap()
        .to_provider(id)
}

/// The dialect and the properties of a model.
pub fn model(provider: &Provider, id: &str) -> (Arc<Dialect>, Model) {
    let model = match provider.model(id) {
        Some(model) => Model::clone(model),
        None => Model::unlisted(id),
    };
    (Arc::clone(provider.dialect_for(id)), model)
}
