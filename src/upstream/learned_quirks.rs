//! What the proxy learns about models: quirk patches from refusals of their providers, and how
//! large requests and answers they had. In memory until the process ends.
//!
//! A refusal can be wrong, or quote a text from elsewhere. A patch that names a limit could make a
//! model useless for every session, so limits are believed within bounds only and for a time; see
//! [`LearnedQuirks::believes`].

use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::quirk_patch::{ModelPatch, QuirkPatch, SharedPatch};
use adapters::wire;
use hashlink::LinkedHashMap;
use parking_lot::RwLock;
use registry::{Route, Window, WindowSource};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Maximum number of models with patches, and of models with answers; the oldest are evicted
/// first.
const MAX_MODELS: usize = 1000;
/// Maximum number of patches for one model. The oldest patch of the kind that is added is
/// evicted first, else the oldest of any kind.
const MAX_PATCHES: usize = 16;
/// How long a learned window or output limit is used. A limit that still holds is learned again
/// by the next refusal; one that was wrong, or was raised, goes away by itself.
pub const LIMIT_LIFETIME: Duration = Duration::from_hours(1);
/// A limit below this part of the listed one is not believed. Providers do serve models with
/// less than they were listed with, but rarely with less than a quarter.
const MIN_PART_OF_LISTED: u64 = 4;

/// The quirk patches of each model of each provider, and its largest answers. Most models have
/// no patches; a turn then costs one lookup.
#[derive(Debug, Default)]
pub struct LearnedQuirks {
    patches: RwLock<LinkedHashMap<ModelKey, Vec<LearnedPatch>>>,
    answers: RwLock<LinkedHashMap<ModelKey, LargestAnswer>>,
}

/// The provider's id and its name of the model.
type ModelKey = (String, String);

/// A patch and when it was learned.
#[derive(Debug, Clone, Copy)]
struct LearnedPatch {
    patch: QuirkPatch,
    /// When it is forgotten; `None` if it is kept until the process ends.
    expires: Option<Instant>,
}

/// The most tokens that a model has taken and given, as its provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LargestAnswer {
    /// The input tokens of the largest request that was answered.
    pub input: u64,
    /// The output tokens of the largest answer.
    pub output: u64,
}

impl LargestAnswer {
    /// Whether nothing is known.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The larger figures of both.
    fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
        }
    }

    /// Whether the figures show that a limit is wrong.
    fn refutes(&self, patch: QuirkPatch) -> bool {
        match patch {
            QuirkPatch::Model(ModelPatch::Window(tokens)) => u64::from(tokens) < self.input,
            QuirkPatch::Model(ModelPatch::MaxOutput(tokens)) => u64::from(tokens) < self.output,
            _ => false,
        }
    }
}

impl LearnedPatch {
    fn new(patch: QuirkPatch) -> Self {
        let expires = is_limit(patch).then(|| Instant::now() + LIMIT_LIFETIME);
        Self { patch, expires }
    }

    fn is_valid(&self) -> bool {
        self.expires.is_none_or(|expires| Instant::now() < expires)
    }
}

impl LearnedQuirks {
    /// Applies the patches of a route's model to the route. Returns whether there were any.
    pub fn apply(&self, route: &mut Route) -> bool {
        let known = self.patches.read();
        let Some(patches) = find(&known, &route.provider.id, &route.upstream_model) else {
            return false;
        };
        let dialect = Arc::make_mut(&mut route.dialect);
        let model = Arc::make_mut(&mut route.model);
        let mut is_patched = false;
        for learned in patches.iter().filter(|learned| learned.is_valid()) {
            wire::apply_patch(learned.patch, &mut dialect.quirks, model);
            is_patched = true;
        }
        is_patched
    }

    /// Whether a patch can be true of a route's model. A window or output limit cannot if the
    /// model has answered more than it allows, or if it is less than a quarter of the listed one.
    /// Any other patch can.
    pub fn believes(&self, route: &Route, patch: QuirkPatch) -> bool {
        let listed = route.provider.model(&route.upstream_model);
        let (tokens, listed) = match patch {
            QuirkPatch::Model(ModelPatch::Window(tokens)) => {
                (tokens, listed.and_then(|model| model.window))
            }
            QuirkPatch::Model(ModelPatch::MaxOutput(tokens)) => {
                (tokens, listed.and_then(|model| model.max_output))
            }
            _ => return true,
        };
        let answer = self.largest_answer(&route.provider.id, &route.upstream_model);
        !answer.refutes(patch)
            && listed.is_none_or(|listed| u64::from(tokens) >= listed / MIN_PART_OF_LISTED)
    }

    /// Adds a patch for the model of a route. It is applied after the earlier ones, so it
    /// wins where they contradict it. Returns `false` if it is already the latest of its
    /// kind.
    pub fn learn(&self, route: &Route, patch: QuirkPatch) -> bool {
        let mut known = self.patches.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if known.len() >= MAX_MODELS && !known.contains_key(&key) {
            known.pop_front();
        }
        let patches = known.entry(key).or_insert_with(Vec::new);
        patches.retain(LearnedPatch::is_valid);
        let is_same_kind = |old: &LearnedPatch| old.patch.is_same_kind(&patch);
        let latest = patches.iter_mut().rfind(|old| is_same_kind(old));
        if let Some(latest) = latest.filter(|latest| latest.patch == patch) {
            *latest = LearnedPatch::new(patch);
            return false;
        }
        patches.retain(|old| old.patch != patch);
        if patches.len() >= MAX_PATCHES {
            patches.remove(patches.iter().position(is_same_kind).unwrap_or(0));
        }
        patches.push(LearnedPatch::new(patch));
        true
    }

    /// Removes a patch that did not help, because the same refusal came again. Limits that the
    /// provider stated as a number are kept: they are still true.
    pub fn unlearn(&self, route: &Route, patch: QuirkPatch) {
        if is_limit(patch) {
            return;
        }
        let mut known = self.patches.write();
        let key = key(&route.provider.id, &route.upstream_model);
        if let Some(patches) = known.get_mut(&key) {
            patches.retain(|old| old.patch != patch);
        }
    }

    /// Remembers what a model has answered, as its provider counted it. Forgets learned limits
    /// that the answer shows to be wrong.
    pub fn record_answer(&self, provider: &str, model: &str, usage: Usage) {
        let answer = LargestAnswer {
            input: usage.input,
            output: usage.output,
        };
        self.put_answer(&key(provider, model), answer);
    }

    /// Restores what a recorded turn knew of a model's answers.
    pub fn restore_answer(&self, route: &Route, answer: LargestAnswer) {
        self.put_answer(&key(&route.provider.id, &route.upstream_model), answer);
    }

    fn put_answer(&self, key: &ModelKey, answer: LargestAnswer) {
        let known = self.answers.read().get(key).copied();
        let largest = known.unwrap_or_default().max(answer);
        if known != Some(largest) {
            let mut answers = self.answers.write();
            if answers.len() >= MAX_MODELS && !answers.contains_key(key) {
                answers.pop_front();
            }
            let entry = answers.entry(key.clone());
            let entry = entry.or_insert_with(LargestAnswer::default);
            *entry = entry.max(answer);
        }
        let is_refuted = |learned: &LearnedPatch| answer.refutes(learned.patch);
        let patches = self.patches.read();
        let is_wrong = patches
            .get(key)
            .is_some_and(|patches| patches.iter().any(is_refuted));
        drop(patches);
        if is_wrong && let Some(patches) = self.patches.write().get_mut(key) {
            patches.retain(|learned| !is_refuted(learned));
        }
    }

    /// The most that a model has answered so far.
    pub fn largest_answer(&self, provider: &str, model: &str) -> LargestAnswer {
        let answers = self.answers.read();
        find(&answers, provider, model).copied().unwrap_or_default()
    }

    /// The context window that the provider stated in an overflow error, if it did.
    pub fn window(&self, provider: &str, model: &str) -> Option<Window> {
        let mut patches = self.patches(provider, model).into_iter().rev();
        patches.find_map(|patch| {
            let QuirkPatch::Model(ModelPatch::Window(tokens)) = patch else {
                return None;
            };
            Some(Window {
                tokens: u64::from(tokens),
                source: WindowSource::Learned,
            })
        })
    }

    /// The patches of a model, in the order in which they were learned.
    pub fn patches(&self, provider: &str, model: &str) -> Vec<QuirkPatch> {
        let known = self.patches.read();
        let patches = find(&known, provider, model).into_iter().flatten();
        patches
            .filter(|learned| learned.is_valid())
            .map(|learned| learned.patch)
            .collect()
    }

    /// Removes all that is known of a provider's models. Its settings have changed, so it may be
    /// another provider under the same id.
    pub(super) fn forget_provider(&self, provider: &str) {
        self.patches.write().retain(|(id, _), _| id != provider);
        self.answers.write().retain(|(id, _), _| id != provider);
    }
}

/// Whether a patch is a limit that the provider stated as a number.
pub fn is_limit(patch: QuirkPatch) -> bool {
    matches!(
        patch,
        QuirkPatch::Model(ModelPatch::Window(_) | ModelPatch::MaxOutput(_))
            | QuirkPatch::Shared(SharedPatch::MaxTools(_))
    )
}

/// What is known of a model. Usually nothing is known of any model; then no key is built.
fn find<'m, V>(
    known: &'m LinkedHashMap<ModelKey, V>,
    provider: &str,
    model: &str,
) -> Option<&'m V> {
    if known.is_empty() {
        return None;
    }
    known.get(&key(provider, model))
}

fn key(provider: &str, model: &str) -> ModelKey {
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
        let known = learned.patches.read();
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

    fn listed(window: u64, max_output: u64) -> Route {
        let mut over = toml! { base_url = "https://lab.example/v1" };
        let model = format!("[[models]]\nid = \"m\"\nwindow = {window}\nmax_output = {max_output}");
        over.extend(model.parse::<toml::Table>().unwrap());
        let provider = registry::build("lab", over).unwrap().to_provider("lab");
        let registry = Registry {
            providers: vec![Arc::new(provider)],
            ..Registry::default()
        };
        registry.resolve("m", false).unwrap()
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input,
            output,
            ..Usage::default()
        }
    }

    #[test]
    fn a_limit_is_not_believed_below_what_the_model_answered() {
        let learned = LearnedQuirks::default();
        let believes = |patch: ModelPatch| learned.believes(&route("a"), patch.into());
        assert!(believes(ModelPatch::Window(4_000)) && believes(ModelPatch::MaxOutput(300)));
        learned.record_answer("lab", "a", usage(5_000, 400));
        learned.record_answer("lab", "a", usage(10, 1));
        learned.record_answer("lab", "b", usage(90_000, 9_000));
        assert!(!believes(ModelPatch::Window(4_999)) && !believes(ModelPatch::MaxOutput(399)));
        assert!(believes(ModelPatch::Window(5_000)) && believes(ModelPatch::MaxOutput(400)));
        assert!(believes(ModelPatch::NoImages));
    }

    #[test]
    fn a_limit_is_not_believed_far_below_the_listed_one() {
        let (learned, route) = (LearnedQuirks::default(), listed(200_000, 8_000));
        let believes = |patch: ModelPatch| learned.believes(&route, patch.into());
        assert!(!believes(ModelPatch::Window(49_999)) && !believes(ModelPatch::MaxOutput(1_999)));
        assert!(believes(ModelPatch::Window(50_000)) && believes(ModelPatch::MaxOutput(2_000)));
    }

    #[test]
    fn a_larger_answer_refutes_a_limit() {
        let learned = LearnedQuirks::default();
        for patch in [
            ModelPatch::Window(4_096),
            ModelPatch::MaxOutput(300),
            ModelPatch::NoImages,
        ] {
            learned.learn(&route("a"), patch.into());
        }
        learned.record_answer("lab", "a", usage(4_096, 300));
        assert_eq!(learned.patches("lab", "a").len(), 3);
        learned.record_answer("lab", "a", usage(4_097, 301));
        assert_eq!(learned.patches("lab", "a"), [ModelPatch::NoImages.into()]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_forgotten_after_an_hour() {
        let learned = LearnedQuirks::default();
        let almost = Duration::from_mins(59);
        for patch in [ModelPatch::Window(4_096), ModelPatch::NoSampling] {
            learned.learn(&route("a"), patch.into());
        }
        tokio::time::advance(almost).await;
        assert_eq!(learned.patches("lab", "a").len(), 2);
        // The provider says it again.
        assert!(!learned.learn(&route("a"), ModelPatch::Window(4_096).into()));
        tokio::time::advance(almost).await;
        assert!(learned.window("lab", "a").is_some());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(learned.window("lab", "a"), None);
        let mut patched = route("a");
        assert!(learned.apply(&mut patched));
        assert_eq!(
            (patched.model.window, patched.model.sampling),
            (None, false)
        );
    }
}
