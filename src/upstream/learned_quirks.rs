//! What refusals taught about models, for the life of the process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use adapters::mend::Mend;
use registry::{Route, Window, WindowSource};

/// The most models that something is known of; the oldest go first.
const MAX_MODELS: usize = 1000;
/// The most lessons about one model; the oldest go first, those of the kind
/// that is learned before others.
const MAX_PATCHES: usize = 16;

/// The lessons about each model of each provider. Empty for most: a turn then
/// costs two lookups at most.
#[derive(Debug, Default)]
pub struct LearnedQuirks(RwLock<PatchesByModel>);

#[derive(Debug, Default)]
struct PatchesByModel {
    /// By provider and its name of the model.
    patches: HashMap<String, HashMap<String, Vec<Mend>>>,
    /// The same names, the oldest first.
    order: VecDeque<(String, String)>,
}

impl LearnedQuirks {
    /// Changes a route to what was learned about its model. True when there
    /// was something.
    pub fn apply(&self, route: &mut Route) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(mends) = known.of(&route.provider.id, &route.upstream_model) else {
            return false;
        };
        let dialect = Arc::make_mut(&mut route.dialect);
        let model = Arc::make_mut(&mut route.model);
        for mend in mends {
            mend.apply(&mut dialect.quirks, model);
        }
        true
    }

    /// Remembers a lesson about the model of a route, to be applied after the
    /// earlier ones, so that it counts where they contradict it. False when it
    /// is known and the latest of its kind.
    pub fn learn(&self, route: &Route, mend: Mend) -> bool {
        let (provider, model) = (&route.provider.id, &route.upstream_model);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.of(provider, model).is_none() {
            known.evict_oldest();
            known.order.push_back((provider.clone(), model.clone()));
        }
        let models = known.patches.entry(provider.clone()).or_default();
        let mends = models.entry(model.clone()).or_default();
        let kind = std::mem::discriminant(&mend);
        let is_kin = |old: &Mend| std::mem::discriminant(old) == kind;
        if mends.iter().rfind(|old| is_kin(old)) == Some(&mend) {
            return false;
        }
        mends.retain(|old| *old != mend);
        if mends.len() >= MAX_PATCHES {
            mends.remove(mends.iter().position(is_kin).unwrap_or(0));
        }
        mends.push(mend);
        true
    }

    /// Forgets a lesson that did not help: the same refusal came again. What the
    /// provider said in numbers stays true all the same.
    pub fn unlearn(&self, route: &Route, mend: Mend) {
        if matches!(mend, Mend::Window(_) | Mend::MaxOutput(_)) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let models = known.patches.get_mut(&route.provider.id);
        if let Some(mends) = models.and_then(|models| models.get_mut(&route.upstream_model)) {
            mends.retain(|old| *old != mend);
        }
    }

    /// The window that an overflow told, if one did.
    pub fn window(&self, provider: &str, model: &str) -> Option<Window> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.of(provider, model)?.iter().rev().find_map(|mend| {
            let Mend::Window(tokens) = mend else {
                return None;
            };
            Some(Window {
                tokens: u64::from(*tokens),
                source: WindowSource::Learned,
            })
        })
    }

    /// The lessons about a model, in the order of learning.
    pub fn patches(&self, provider: &str, model: &str) -> Vec<Mend> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.of(provider, model).unwrap_or_default().to_vec()
    }

    /// Forgets a provider: it may be another one under the same name.
    pub(super) fn forget_provider(&self, provider: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.patches.remove(provider).is_some() {
            known.order.retain(|(id, _)| id != provider);
        }
    }
}

impl PatchesByModel {
    fn of(&self, provider: &str, model: &str) -> Option<&[Mend]> {
        self.patches.get(provider)?.get(model).map(Vec::as_slice)
    }

    fn evict_oldest(&mut self) {
        if self.order.len() < MAX_MODELS {
            return;
        }
        if let Some((provider, model)) = self.order.pop_front()
            && let Some(models) = self.patches.get_mut(&provider)
        {
            models.remove(&model);
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::{MaxTokensField, Registry};
    use toml::toml;

    use super::*;

    fn registry() -> Registry {
        let over = toml! { base_url = "https://lab.example/v1" passthrough = true };
        let provider = registry::build("lab", over).unwrap().provider("lab");
        Registry {
            providers: vec![Arc::new(provider)],
            ..Registry::default()
        }
    }

    fn route(model: &str) -> Route {
        registry().resolve(model, false).unwrap()
    }

    #[test]
    fn a_lesson_holds_for_its_model_alone() {
        let lessons = LearnedQuirks::default();
        assert!(!lessons.apply(&mut route("a")));
        assert!(lessons.learn(&route("a"), Mend::Window(8_192)));
        assert!(lessons.learn(
            &route("a"),
            Mend::MaxTokensField(MaxTokensField::MaxCompletionTokens)
        ));
        let mut taught = route("a");
        assert!(lessons.apply(&mut taught));
        assert_eq!(taught.model.window, Some(8_192));
        assert_eq!(
            taught.dialect.quirks.max_tokens_field,
            MaxTokensField::MaxCompletionTokens
        );
        assert!(!lessons.apply(&mut route("b")));
    }

    #[test]
    fn the_registry_stays_as_it_is() {
        let (lessons, registry) = (LearnedQuirks::default(), registry());
        let mut taught = registry.resolve("a", false).unwrap();
        lessons.learn(
            &taught,
            Mend::MaxTokensField(MaxTokensField::MaxCompletionTokens),
        );
        lessons.apply(&mut taught);
        let again = registry.resolve("a", false).unwrap();
        assert_ne!(again.dialect, taught.dialect);
    }

    #[test]
    fn a_later_lesson_of_the_same_kind_counts() {
        let lessons = LearnedQuirks::default();
        assert!(lessons.learn(&route("a"), Mend::Window(8_192)));
        assert!(!lessons.learn(&route("a"), Mend::Window(8_192)));
        assert!(lessons.learn(&route("a"), Mend::Window(4_096)));
        let mut taught = route("a");
        lessons.apply(&mut taught);
        assert_eq!(taught.model.window, Some(4_096));
        assert!(lessons.learn(&route("a"), Mend::Window(8_192)));
        assert!(lessons.learn(&route("a"), Mend::Window(4_096)));
        let window = lessons.window("lab", "a").unwrap();
        assert_eq!(
            (window.tokens, window.source),
            (4_096, WindowSource::Learned)
        );
        assert_eq!(lessons.window("lab", "b"), None);
    }

    #[test]
    fn a_lesson_that_did_not_help_is_forgotten_unless_it_is_a_number() {
        let lessons = LearnedQuirks::default();
        lessons.learn(&route("a"), Mend::NoImages);
        lessons.learn(&route("a"), Mend::Window(8_192));
        for mend in [Mend::NoImages, Mend::Window(8_192)] {
            lessons.unlearn(&route("a"), mend);
        }
        let mut taught = route("a");
        let images = taught.model.images;
        lessons.apply(&mut taught);
        assert_eq!(taught.model.window, Some(8_192));
        assert_eq!(taught.model.images, images);
    }

    #[test]
    fn memory_is_bounded() {
        let lessons = LearnedQuirks::default();
        for model in 0..=MAX_MODELS {
            lessons.learn(&route(&model.to_string()), Mend::Window(8_192));
        }
        assert_eq!(lessons.window("lab", "0"), None);
        assert!(lessons.window("lab", "1").is_some());
        assert!(lessons.window("lab", &MAX_MODELS.to_string()).is_some());
    }

    #[test]
    fn many_lessons_of_one_kind_crowd_no_other_out() {
        let lessons = LearnedQuirks::default();
        lessons.learn(&route("a"), Mend::MaxOutput(512));
        for tokens in 1..100 {
            lessons.learn(&route("a"), Mend::Window(tokens));
        }
        let mut taught = route("a");
        lessons.apply(&mut taught);
        let model = &taught.model;
        assert_eq!((model.window, model.max_output), (Some(99), Some(512)));
        let known = lessons.0.read().unwrap();
        assert_eq!(known.of("lab", "a").map(<[Mend]>::len), Some(MAX_PATCHES));
    }

    #[test]
    fn a_provider_that_changed_is_learned_anew() {
        let lessons = LearnedQuirks::default();
        lessons.learn(&route("a"), Mend::Window(8_192));
        lessons.forget_provider("other");
        assert!(lessons.window("lab", "a").is_some());
        lessons.forget_provider("lab");
        assert_eq!(lessons.window("lab", "a"), None);
        assert!(lessons.learn(&route("a"), Mend::Window(8_192)));
    }
}
