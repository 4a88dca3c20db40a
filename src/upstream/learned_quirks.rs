//! Quirk patches learned from refusals of providers, kept in memory until the process ends.

use std::sync::Arc;

use adapters::quirk_patch::{ModelPatch, QuirkPatch};
use adapters::wire;
use hashlink::LinkedHashMap;
use parking_lot::RwLock;
use registry::{Route, Window, WindowSource};

/// Maximum number of models with patches; the oldest are evicted first.
const MAX_MODELS: usize = 1000;
/// Maximum number of patches for one model. The oldest patch of the kind that is added is
/// evicted first, else the oldest of any kind.
const MAX_PATCHES: usize = 16;

/// The quirk patches of each model of each provider. Most models have none; a turn then costs
/// one lookup.
#[derive(Debug, Default)]
pub struct LearnedQuirks(RwLock<PatchesByModel>);

/// By provider id and the provider's name of the model, the oldest first.
type PatchesByModel = LinkedHashMap<(String, String), Vec<QuirkPatch>>;

impl LearnedQuirks {
    /// Applies the patches of a route's model to the route. Returns whether there were any.
    pub fn apply(&self, route: &mut Route) -> bool {
        let known = self.0.read();
        let Some(patches) = known.get(&key(&route.provider.id, &route.upstream_model)) else {
            return false;
        };
        let dialect = Arc::make_mut(&mut route.dialect);
        let model = Arc::make_mut(&mut route.model);
        for patch in patches {
            wire::apply_patch(*patch, &mut dialect.quirks, model);
        }
        true
    }

    /// Adds a patch for the model of a route. It is applied after the earlier ones, so it
    /// wins where they contradict it. Returns `false` if it is already the latest of its
    /// kind.
    pub fn learn(&self, route: &Route, patch: QuirkPatch) -> bool {
        let mut known = self.0.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if known.len() >= MAX_MODELS && !known.contains_key(&key) {
            known.pop_front();
        }
        let patches = known.entry(key).or_insert_with(Vec::new);
        let is_same_kind = |old: &QuirkPatch| old.is_same_kind(&patch);
        if patches.iter().rfind(|old| is_same_kind(old)) == Some(&patch) {
            return false;
        }
        patches.retain(|old| *old != patch);
        if patches.len() >= MAX_PATCHES {
            patches.remove(patches.iter().position(is_same_kind).unwrap_or(0));
        }
        patches.push(patch);
        true
    }

    /// Removes a patch that did not help, because the same refusal came again. Limits that
    /// the provider stated as a number are kept: they are true all the same.
    pub fn unlearn(&self, route: &Route, patch: QuirkPatch) {
        if let QuirkPatch::Model(ModelPatch::Window(_) | ModelPatch::MaxOutput(_)) = patch {
            return;
        }
        let mut known = self.0.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if let Some(patches) = known.get_mut(&key) {
            patches.retain(|old| *old != patch);
        }
    }

    /// The context window that the provider stated in an overflow error, if it did.
    pub fn window(&self, provider: &str, model: &str) -> Option<Window> {
        let known = self.0.read();
        let mut patches = known.get(&key(provider, model))?.iter().rev();
        patches.find_map(|patch| {
            let QuirkPatch::Model(ModelPatch::Window(tokens)) = patch else {
                return None;
            };
            Some(Window {
                tokens: u64::from(*tokens),
                source: WindowSource::Learned,
            })
        })
    }

    /// The patches of a model, in the order in which they were learned.
    pub fn patches(&self, provider: &str, model: &str) -> Vec<QuirkPatch> {
        let known = self.0.read();
        known
            .get(&key(provider, model))
            .cloned()
            .unwrap_or_default()
    }

    /// Removes all patches of a provider. Its settings have changed, so it may be another
    /// provider under the same id.
    pub(super) fn forget_provider(&self, provider: &str) {
        self.0.write().retain(|(id, _), _| id != provider);
    }
}

fn key(provider: &str, model: &str) -> (String, String) {
    (provider.to_owned(), model.to_owned())
}

#[cfg(test)]
mod tests {
    use adapters::quirk_patch::ChatPatch;
    use registry::{MaxTokensField, Registry};
    use toml::toml;

    use super::*;

    fn registry() -> Registry {
        let over = toml! { base_url = "https://lab.example/v1" passthrough = true };
        let provider = registry::build("lab", over).unwrap().to_provider("lab");
        Registry {
            providers: vec![Arc::new(provider)],
            ..Registry::default()
        }
    }

    fn route(model: &str) -> Route {
        registry().resolve(model, false).unwrap()
    }

    #[test]
    fn a_patch_applies_to_its_model_only() {
        let learned = LearnedQuirks::default();
        assert!(!learned.apply(&mut route("a")));
        assert!(learned.learn(&route("a"), ModelPatch::Window(8_192).into()));
        assert!(learned.learn(
            &route("a"),
            ChatPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens).into()
        ));
        let mut patched = route("a");
        assert!(learned.apply(&mut patched));
        assert_eq!(patched.model.window, Some(8_192));
        assert_eq!(
            patched.dialect.quirks.as_chat().unwrap().max_tokens_field,
            MaxTokensField::MaxCompletionTokens
        );
        assert!(!learned.apply(&mut route("b")));
    }

    #[test]
    fn the_registry_is_not_changed() {
        let (learned, registry) = (LearnedQuirks::default(), registry());
        let mut patched = registry.resolve("a", false).unwrap();
        learned.learn(
            &patched,
            ChatPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens).into(),
        );
        learned.apply(&mut patched);
        let again = registry.resolve("a", false).unwrap();
        assert_ne!(again.dialect, patched.dialect);
    }

    #[test]
    fn a_later_patch_of_the_same_kind_wins() {
        let learned = LearnedQuirks::default();
        assert!(learned.learn(&route("a"), ModelPatch::Window(8_192).into()));
        assert!(!learned.learn(&route("a"), ModelPatch::Window(8_192).into()));
        assert!(learned.learn(&route("a"), ModelPatch::Window(4_096).into()));
        let mut patched = route("a");
        learned.apply(&mut patched);
        assert_eq!(patched.model.window, Some(4_096));
        assert!(learned.learn(&route("a"), ModelPatch::Window(8_192).into()));
        assert!(learned.learn(&route("a"), ModelPatch::Window(4_096).into()));
        let window = learned.window("lab", "a").unwrap();
        assert_eq!(
            (window.tokens, window.source),
            (4_096, WindowSource::Learned)
        );
        assert_eq!(learned.window("lab", "b"), None);
    }

    #[test]
    fn a_patch_that_did_not_help_is_removed_unless_it_is_a_number() {
        let learned = LearnedQuirks::default();
        learned.learn(&route("a"), ModelPatch::NoImages.into());
        learned.learn(&route("a"), ModelPatch::Window(8_192).into());
        for patch in [ModelPatch::NoImages, ModelPatch::Window(8_192)] {
            learned.unlearn(&route("a"), patch.into());
        }
        let mut patched = route("a");
        let images = patched.model.images;
        learned.apply(&mut patched);
        assert_eq!(patched.model.window, Some(8_192));
        assert_eq!(patched.model.images, images);
    }

    #[test]
    fn memory_is_bounded() {
        let learned = LearnedQuirks::default();
        for model in 0..=MAX_MODELS {
            learned.learn(&route(&model.to_string()), ModelPatch::Window(8_192).into());
        }
        assert_eq!(learned.window("lab", "0"), None);
        assert!(learned.window("lab", "1").is_some());
        assert!(learned.window("lab", &MAX_MODELS.to_string()).is_some());
    }

    #[test]
    fn many_patches_of_one_kind_evict_no_other_kind() {
        let learned = LearnedQuirks::default();
        learned.learn(&route("a"), ModelPatch::MaxOutput(512).into());
        for tokens in 1..100 {
            learned.learn(&route("a"), ModelPatch::Window(tokens).into());
        }
        let mut patched = route("a");
        learned.apply(&mut patched);
        let model = &patched.model;
        assert_eq!((model.window, model.max_output), (Some(99), Some(512)));
        let known = learned.0.read();
        assert_eq!(known.get(&key("lab", "a")).map(Vec::len), Some(MAX_PATCHES));
    }

    #[test]
    fn a_provider_that_changed_is_forgotten() {
        let learned = LearnedQuirks::default();
        learned.learn(&route("a"), ModelPatch::Window(8_192).into());
        learned.forget_provider("other");
        assert!(learned.window("lab", "a").is_some());
        learned.forget_provider("lab");
        assert_eq!(learned.window("lab", "a"), None);
        assert!(learned.learn(&route("a"), ModelPatch::Window(8_192).into()));
    }
}
