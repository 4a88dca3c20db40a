//! Models that providers list themselves, for those that no configuration lists.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::provider::Provider;

/// How a provider is asked for its models. Local servers have endpoints of their own, which also
/// tell the window that a model was loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// Not at all.
    Off,
    /// `GET {base_url}/models`, as OpenAI has it. Windows are read where the list has them.
    Models,
    /// Ollama's `/api/tags`, `/api/ps` and `/api/show`.
    Ollama,
    /// LM Studio's `/api/v0/models`.
    LmStudio,
    /// `GET {base_url}/models` and llama.cpp's `/props`.
    LlamaCpp,
    /// `GET {base_url}/models` and SGLang's `/get_server_info`.
    Sglang,
}

/// What the providers have listed. Shared by a configuration and those that replace it, and filled
/// while they are in use.
#[derive(Debug, Default)]
pub struct DiscoveredModels(RwLock<HashMap<String, ProviderModels>>);

/// What one provider has listed.
#[derive(Clone, Debug)]
struct ProviderModels {
    /// The address that was asked. At another one there may be another server.
    base_url: String,
    list: Arc<ModelSet>,
}

/// Models in the order of their provider's list, each id once.
#[derive(Debug, Default, PartialEq)]
pub struct ModelSet {
    models: Vec<Arc<Model>>,
    by_id: HashMap<String, usize>,
    /// How many entries of the list were left out because their models answer no prompt.
    pub left_out: usize,
}

impl ModelSet {
    /// The set of these models. Of several with the same id the first counts.
    pub fn new(models: impl IntoIterator<Item = Model>) -> Self {
        let mut set = Self::default();
        for model in models {
            let index = set.models.len();
            if let std::collections::hash_map::Entry::Vacant(entry) =
                set.by_id.entry(model.id.clone())
            {
                entry.insert(index);
                set.models.push(Arc::new(model));
            }
        }
        set
    }

    /// The models in order.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// The model with this id.
    pub fn get(&self, id: &str) -> Option<&Arc<Model>> {
        self.by_id.get(id).and_then(|index| self.models.get(*index))
    }

    /// An estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        let of_model = |model: &Arc<Model>| {
            2 * model.id.len() + model.name.len() + model.description.len() + 2 * size_of::<Model>()
        };
        self.models.iter().map(of_model).sum()
    }
}

impl DiscoveredModels {
    /// What a provider has listed. `None` if nothing is known, or its configuration does not want
    /// it.
    pub fn of(&self, provider: &Provider) -> Option<Arc<ModelSet>> {
        if provider.discovery == Discovery::Off {
            return None;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&provider.id)?;
        (known.base_url == provider.base_url).then(|| Arc::clone(&known.list))
    }

    /// Replaces what a provider has listed. Returns whether it is different from before.
    pub fn set(&self, provider: &Provider, list: ModelSet) -> bool {
        if self.of(provider).is_some_and(|old| *old == list) {
            return false;
        }
        let models = ProviderModels {
            base_url: provider.base_url.clone(),
            list: Arc::new(list),
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(provider.id.clone(), models);
        true
    }

    /// Forgets the lists of all providers for which `keep` is false. It gets their ids.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|id, _| keep(id));
    }

    /// An estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|models| models.list.bytes()).sum()
    }
}
