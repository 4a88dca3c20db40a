//! Tests of what is learned about models.

use adapters::quirk_patch::ChatPatch;
use registry::{MaxTokensField, Registry};
use toml::toml;

use super::*;
use crate::store::DataDir;

const SAID: &str = "no";

const LOCAL: PatchesOf<'static> = PatchesOf {
    owner: "local",
    session: None,
    begins: false,
    now: 1_000_000,
    tries_again: false,
};

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
    assert!(learned.apply(&mut route("a"), LOCAL).is_empty());
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID));
    assert!(learned.learn(
        &route("a"),
        LOCAL,
        ChatPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens).into(),
        SAID
    ));
    let mut patched = route("a");
    assert!(!learned.apply(&mut patched, LOCAL).is_empty());
    assert_eq!(patched.model.window, Some(8_192));
    assert_eq!(
        patched.dialect.quirks.as_chat().unwrap().max_tokens_field,
        MaxTokensField::MaxCompletionTokens
    );
    assert!(learned.apply(&mut route("b"), LOCAL).is_empty());
}

#[test]
fn the_registry_is_not_changed() {
    let (learned, registry) = (LearnedQuirks::default(), registry());
    let mut patched = registry.resolve("a", false).unwrap();
    learned.learn(
        &patched,
        LOCAL,
        ChatPatch::MaxTokensField(MaxTokensField::MaxCompletionTokens).into(),
        SAID,
    );
    learned.apply(&mut patched, LOCAL);
    let again = registry.resolve("a", false).unwrap();
    assert_ne!(again.dialect, patched.dialect);
}

#[test]
fn a_later_patch_of_the_same_kind_wins() {
    let learned = LearnedQuirks::default();
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID));
    assert!(!learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID));
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(4_096).into(), SAID));
    let mut patched = route("a");
    learned.apply(&mut patched, LOCAL);
    assert_eq!(patched.model.window, Some(4_096));
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID));
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(4_096).into(), SAID));
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
    learned.learn(&route("a"), LOCAL, ModelPatch::NoImages.into(), SAID);
    learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID);
    for patch in [ModelPatch::NoImages, ModelPatch::Window(8_192)] {
        learned.unlearn(&route("a"), LOCAL, patch.into());
    }
    let mut patched = route("a");
    let images = patched.model.images;
    learned.apply(&mut patched, LOCAL);
    assert_eq!(patched.model.window, Some(8_192));
    assert_eq!(patched.model.images, images);
}

#[test]
fn memory_is_bounded() {
    let learned = LearnedQuirks::default();
    for model in 0..=MAX_MODELS {
        learned.learn(
            &route(&model.to_string()),
            LOCAL,
            ModelPatch::Window(8_192).into(),
            SAID,
        );
    }
    assert_eq!(learned.window("lab", "0"), None);
    assert!(learned.window("lab", "1").is_some());
    assert!(learned.window("lab", &MAX_MODELS.to_string()).is_some());
}

#[test]
fn many_patches_of_one_kind_evict_no_other_kind() {
    let learned = LearnedQuirks::default();
    learned.learn(&route("a"), LOCAL, ModelPatch::MaxOutput(512).into(), SAID);
    for tokens in 1..100 {
        learned.learn(&route("a"), LOCAL, ModelPatch::Window(tokens).into(), SAID);
    }
    let mut patched = route("a");
    learned.apply(&mut patched, LOCAL);
    let model = &patched.model;
    assert_eq!((model.window, model.max_output), (Some(99), Some(512)));
    let known = learned.patches.read();
    assert_eq!(known.get(&key("lab", "a")).map(Vec::len), Some(MAX_PATCHES));
}

#[test]
fn a_provider_that_changed_is_forgotten() {
    let learned = LearnedQuirks::default();
    learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID);
    learned.forget_provider("other");
    assert!(learned.window("lab", "a").is_some());
    learned.forget_provider("lab");
    assert_eq!(learned.window("lab", "a"), None);
    assert!(learned.learn(&route("a"), LOCAL, ModelPatch::Window(8_192).into(), SAID));
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
        learned.learn(&route("a"), LOCAL, patch.into(), SAID);
    }
    learned.record_answer("lab", "a", usage(4_096, 300));
    assert_eq!(learned.patches(&route("a"), LOCAL).len(), 3);
    learned.record_answer("lab", "a", usage(4_097, 301));
    assert_eq!(
        learned.patches(&route("a"), LOCAL),
        [ModelPatch::NoImages.into()]
    );
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_forgotten_after_an_hour() {
    let learned = LearnedQuirks::default();
    let almost = Duration::from_mins(59);
    for patch in [ModelPatch::Window(4_096), ModelPatch::NoSampling] {
        learned.learn(&route("a"), LOCAL, patch.into(), SAID);
    }
    tokio::time::advance(almost).await;
    assert_eq!(learned.patches(&route("a"), LOCAL).len(), 2);
    // The provider says it again.
    assert!(!learned.learn(&route("a"), LOCAL, ModelPatch::Window(4_096).into(), SAID));
    tokio::time::advance(almost).await;
    assert!(learned.window("lab", "a").is_some());
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(learned.window("lab", "a"), None);
    let mut patched = route("a");
    assert!(!learned.apply(&mut patched, LOCAL).is_empty());
    assert_eq!(
        (patched.model.window, patched.model.sampling),
        (None, false)
    );
}

/// A session that this process knows.
fn session(id: &str) -> PatchesOf<'_> {
    PatchesOf {
        session: Some(id),
        ..LOCAL
    }
}

/// The same session when it begins.
fn beginning(id: &str) -> PatchesOf<'_> {
    PatchesOf {
        begins: true,
        ..session(id)
    }
}

/// A turn of a session that begins is answered.
fn begin(learned: &LearnedQuirks, id: &str) {
    let mut limits = learned.patches(&route("a"), beginning(id));
    limits.retain(|patch| is_limit(*patch));
    learned.begin_session(&route("a"), beginning(id), &limits);
}

/// Promise: A session keeps the limits with which it began and those for which its own requests
/// were refused. A refusal of another session changes nothing for it.
#[tokio::test(start_paused = true)]
async fn a_session_keeps_its_limits() {
    let learned = LearnedQuirks::default();
    let window = |tokens| QuirkPatch::from(ModelPatch::Window(tokens));
    let output = QuirkPatch::from(ModelPatch::MaxOutput(300));
    let limits = |of| learned.patches(&route("a"), of);
    begin(&learned, "earlier");
    assert!(learned.learn(&route("a"), session("refused"), window(8_192), SAID));
    assert_eq!(limits(session("earlier")), []);
    assert_eq!(limits(session("refused")), [window(8_192)]);
    assert_eq!(limits(beginning("later")), [window(8_192)]);
    begin(&learned, "later");
    assert_eq!(learned.patches(&route("b"), session("later")), []);

    // A session that begins is refused for something else.
    assert!(learned.learn(&route("a"), beginning("both"), output, SAID));
    assert_eq!(limits(beginning("both")), [output, window(8_192)]);
    begin(&learned, "both");
    assert_eq!(limits(session("both")), [output, window(8_192)]);
    assert_eq!(limits(session("later")), [window(8_192)]);

    // The provider says again what it has said to another session.
    assert!(learned.learn(&route("a"), session("earlier"), window(8_192), SAID));
    assert!(!learned.learn(&route("a"), session("earlier"), window(8_192), SAID));
    assert!(learned.learn(&route("a"), session("later"), window(4_096), SAID));
    assert_eq!(limits(session("later")), [window(4_096)]);
    assert_eq!(limits(session("earlier")), [window(8_192)]);
    tokio::time::advance(LIMIT_LIFETIME).await;
    assert_eq!(limits(beginning("last")), [], "of the model");
    assert_eq!(limits(session("later")), [window(4_096)]);
    // Its requests are not remembered any more.
    assert_eq!(limits(beginning("later")), [window(4_096)]);
    learned.record_answer("lab", "a", usage(5_000, 1));
    assert_eq!(limits(session("later")), [], "the model has taken more");
    assert_eq!(limits(session("refused")), [window(8_192)]);
}

/// Promise: A session that began while another one was refused has no limit for that.
#[test]
fn a_session_that_is_being_answered_gets_no_limit_of_another() {
    let learned = LearnedQuirks::default();
    let window = QuirkPatch::from(ModelPatch::Window(8_192));
    let output = QuirkPatch::from(ModelPatch::MaxOutput(300));
    learned.learn(&route("a"), session("refused"), output, SAID);
    let limits = learned.patches(&route("a"), beginning("slow"));
    learned.learn(&route("a"), session("refused"), window, SAID);
    learned.begin_session(&route("a"), beginning("slow"), &limits);
    assert_eq!(learned.patches(&route("a"), session("slow")), [output]);
}

/// Promise: A session has a limit for which another owner was refused no longer than an hour.
#[tokio::test(start_paused = true)]
async fn a_limit_of_another_owner_ends_after_an_hour() {
    let learned = LearnedQuirks::default();
    let window = QuirkPatch::from(ModelPatch::Window(8_192));
    let hostile = PatchesOf {
        owner: "hostile",
        ..session("s")
    };
    learned.learn(&route("a"), hostile, window, SAID);
    begin(&learned, "s");
    assert_eq!(learned.patches(&route("a"), session("s")), [window]);
    tokio::time::advance(LIMIT_LIFETIME).await;
    assert_eq!(learned.patches(&route("a"), session("s")), []);
    assert_eq!(learned.patches(&route("a"), hostile), [window]);
}

/// Promise: The limits of a session outlive the process, until the settings of the provider
/// change. A limit for which another owner was refused does not, nor does one that was wrong.
#[tokio::test]
async fn limits_of_sessions_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap());
    let of_other = |session| PatchesOf {
        owner: "other",
        session: Some(session),
        ..LOCAL
    };
    let window = |tokens| QuirkPatch::from(ModelPatch::Window(tokens));
    let output = QuirkPatch::from(ModelPatch::MaxOutput(300));
    {
        let (learned, store) = (LearnedQuirks::default(), open());
        learned.keep_in(&store).await.unwrap();
        learned.learn(&route("a"), session("s"), window(8_192), SAID);
        learned.learn(&route("a"), of_other("s"), output, SAID);
        for id in ["t", "once"] {
            begin(&learned, id);
        }
        let held = learned.patches(&route("a"), session("t"));
        assert_eq!(held, [window(8_192), output]);
        learned.learn(&route("a"), session("wrong"), window(4_096), SAID);
        learned.record_answer("lab", "a", usage(5_000, 1));
    }
    let learned = LearnedQuirks::default();
    learned.keep_in(&open()).await.unwrap();
    for (of, limits) in [
        (session("s"), &[window(8_192)][..]),
        (session("t"), &[window(8_192)]),
        (of_other("s"), &[output]),
        (session("wrong"), &[]),
        // A session of one turn needs no row.
        (session("once"), &[]),
        (beginning("new"), &[]),
    ] {
        assert_eq!(learned.patches(&route("a"), of), limits, "{of:?}");
    }
    let mut moved = route("a");
    Arc::make_mut(&mut moved.provider).base_url.push_str("/v2");
    assert_eq!(learned.patches(&moved, session("s")), []);
}

#[test]
fn sessions_with_limits_are_bounded_and_fair() {
    let learned = LearnedQuirks::default();
    let window = QuirkPatch::from(ModelPatch::Window(8_192));
    let other = PatchesOf {
        owner: "other",
        ..session("only")
    };
    learned.learn(&route("a"), other, window, SAID);
    let ids: Vec<String> = (0..=session_limits::MAX_SESSIONS)
        .map(|number| number.to_string())
        .collect();
    let has = |of| !learned.patches(&route("a"), of).is_empty();
    for id in &ids {
        learned.learn(&route("a"), session(id), window, SAID);
        assert!(has(session("0")), "it is used");
    }
    assert!(has(other) && has(session("1024")) && !has(session("1")));
    assert_eq!(learned.sessions.lock().len(), session_limits::MAX_SESSIONS);
}

#[test]
fn what_takes_something_away_holds_for_its_owner_alone() {
    let learned = LearnedQuirks::default();
    let other = PatchesOf {
        owner: "other",
        ..LOCAL
    };
    learned.learn(&route("a"), LOCAL, ModelPatch::NoImages.into(), SAID);
    learned.learn(&route("a"), LOCAL, ChatPatch::MergeUser.into(), SAID);
    let patches = |of| learned.patches(&route("a"), of);
    assert_eq!(patches(other), [ChatPatch::MergeUser.into()]);
    assert_eq!(patches(LOCAL).len(), 2);
    // The other cannot undo it either.
    learned.unlearn(&route("a"), other, ModelPatch::NoImages.into());
    assert_eq!(patches(LOCAL).len(), 2);
}

/// Promise: What was learned of a model is tried again after a week, in a turn that begins a
/// session.
#[test]
fn old_patches_are_left_out_of_a_turn_that_begins_a_session() {
    let learned = LearnedQuirks::default();
    learned.learn(&route("a"), LOCAL, ChatPatch::MergeUser.into(), SAID);
    let later = |days: u64, tries_again| PatchesOf {
        now: LOCAL.now + days * 24 * 60 * 60 + 1,
        tries_again,
        ..LOCAL
    };
    let counts = |of| {
        let route = route("a");
        let kept = learned.patches(&route, of).len();
        (kept, learned.tried_again(&route, of).len())
    };
    assert_eq!(counts(later(6, true)), (1, 0));
    assert_eq!(counts(later(7, false)), (1, 0));
    assert_eq!(counts(later(7, true)), (0, 1));
    // The refusal has come back.
    learned.learn(
        &route("a"),
        later(7, true),
        ChatPatch::MergeUser.into(),
        SAID,
    );
    assert_eq!(counts(later(8, true)), (1, 0));
}

#[tokio::test]
async fn what_was_learned_outlives_the_process_until_the_settings_change() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap());
    {
        let (learned, store) = (LearnedQuirks::default(), open());
        learned.keep_in(&store).await.unwrap();
        for patch in [ModelPatch::NoImages, ModelPatch::Window(8_192)] {
            learned.learn(&route("a"), LOCAL, patch.into(), SAID);
        }
        learned.learn(&route("a"), LOCAL, ChatPatch::MergeUser.into(), SAID);
        learned.learn(&route("a"), LOCAL, ChatPatch::SystemFirst.into(), SAID);
        learned.unlearn(&route("a"), LOCAL, ChatPatch::SystemFirst.into());
    }
    let learned = LearnedQuirks::default();
    learned.keep_in(&open()).await.unwrap();
    let mut known = learned.patches(&route("a"), LOCAL);
    known.sort_by_key(ToString::to_string);
    // A limit is learned again.
    assert_eq!(
        known,
        [ChatPatch::MergeUser.into(), ModelPatch::NoImages.into()]
    );
    let (_, _, all) = learned.all().remove(0);
    assert!(
        all.iter()
            .all(|it| &*it.evidence == SAID && it.learned == LOCAL.now)
    );
    let mut moved = route("a");
    Arc::make_mut(&mut moved.provider).base_url.push_str("/v2");
    assert_eq!(learned.patches(&moved, LOCAL), []);
}
