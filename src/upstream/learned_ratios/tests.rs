use registry::Registry;
use tempfile::TempDir;
use toml::toml;

use super::*;
use crate::store::DataDir;

/// A session of an owner with a model, unless its ratio is listed.
fn find_key(owner: &str, session: &str, model: &str) -> Option<RatioKey> {
    let over = toml! {
        base_url = "https://lab.example/v1"
        passthrough = true
        models = [{ id = "listed", bytes_per_token = 3.5 }]
    };
    let provider = registry::build("lab", over).unwrap().to_provider("lab");
    let registry = Registry {
        providers: vec![Arc::new(provider)],
        ..Registry::default()
    };
    let route = registry.resolve(model, false).unwrap();
    RatioKey::new(&owner.into(), session, &route)
}

fn key(owner: &str, session: &str, model: &str) -> RatioKey {
    find_key(owner, session, model).unwrap()
}

fn session(name: &str) -> RatioKey {
    key("me", name, "m")
}

fn counted(input: u64, cached: u64) -> Usage {
    Usage {
        input,
        cached,
        ..Usage::default()
    }
}

/// A session begins with what is known and shows another ratio, in a request of 12 kB.
fn show(ratios: &LearnedRatios, key: &RatioKey, tokens: u64) {
    let used = ratios.get(key, 1).unwrap_or(2.7);
    ratios.begin(key.clone(), used, MIN_TOKENS, 1);
    ratios.record(key, 12_000, counted(tokens, 0), 1);
}

fn open(folder: &TempDir) -> Arc<Store> {
    Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap())
}

#[test]
fn a_session_keeps_its_ratio_and_a_new_one_of_its_owner_and_model_begins_with_what_it_showed() {
    let ratios = LearnedRatios::default();
    show(&ratios, &session("s1"), 3_000);
    assert_eq!(ratios.get(&session("s1"), 1), Some(2.7));
    assert_eq!(ratios.get(&session("s2"), 1), Some(4.0));
    assert_eq!(ratios.get(&key("you", "s2", "m"), 1), None);
    assert_eq!(ratios.get(&key("me", "s2", "n"), 1), None);
    show(&ratios, &session("s2"), 6_000);
    assert_eq!(ratios.get(&session("s2"), 1), Some(4.0));
}

#[test]
fn nothing_is_learned_of_a_model_whose_ratio_is_listed() {
    assert_eq!(find_key("me", "s", "listed"), None);
}

#[test]
fn requests_that_say_little_and_counts_of_something_else_teach_nothing() {
    for (bytes, usage) in [
        (4_095, counted(1_000, 0)),
        (0, counted(1_000, 0)),
        (12_000, counted(0, 0)),
        (12_000, counted(100, 0)),
        (12_000, counted(50_000, 0)),
        // Whether these include the cached tokens cannot be told.
        (12_000, counted(3_000, 1_500)),
        (12_000, counted(3_000, 3_000)),
    ] {
        let ratios = LearnedRatios::default();
        ratios.begin(session("s1"), 2.7, MIN_TOKENS, 1);
        ratios.record(&session("s1"), bytes, usage, 1);
        assert_eq!(ratios.list(), [], "{bytes} {usage:?}");
    }
    for (tokens, cached, learned) in [
        (3_000, 300, 4.0),
        (3_000, 2_900, 4.0),
        (1_400, 0, MOST),
        (10_000, 0, LEAST),
    ] {
        let ratios = LearnedRatios::default();
        ratios.begin(session("s1"), 2.7, MIN_TOKENS, 1);
        ratios.record(&session("s1"), 12_000, counted(tokens, cached), 1);
        assert_eq!(ratios.get(&session("s2"), 1), Some(learned));
    }
    let ratios = LearnedRatios::default();
    ratios.begin(session("s1"), 2.7, MIN_TOKENS - 1, 1);
    let mut long = session("s1");
    long.model = "m".repeat(MAX_NAME + 1);
    ratios.begin(long, 2.7, MIN_TOKENS, 1);
    assert!(ratios.known.lock().by_key.is_empty());
}

#[test]
fn a_model_has_the_ratio_that_three_in_four_of_its_last_sessions_exceed() {
    let ratios = LearnedRatios::default();
    let listed = |ratios: &LearnedRatios| ratios.list()[0].bytes_per_token;
    for (name, tokens, learned) in [
        ("s1", 3_000, 4.0),
        ("s2", 4_000, 3.0),
        ("s3", 2_400, 3.0),
        ("s4", 3_000, 4.0),
        ("s5", 8_000, 3.0),
    ] {
        show(&ratios, &session(name), tokens);
        assert!(
            (listed(&ratios) - learned).abs() < 1e-6,
            "{name}: {}",
            listed(&ratios)
        );
    }
    // However many requests a session has, it counts once.
    for _ in 0..100 {
        show(&ratios, &session("s5"), 8_000);
    }
    assert!((listed(&ratios) - 3.0).abs() < 1e-6);
    for number in 0..SESSIONS {
        show(&ratios, &session(&format!("later {number}")), 2_400);
    }
    assert!((listed(&ratios) - 5.0).abs() < 1e-6);
}

#[test]
fn a_provider_that_changed_has_other_ratios_but_its_sessions_keep_theirs() {
    let ratios = LearnedRatios::default();
    show(&ratios, &session("s1"), 3_000);
    show(&ratios, &session("s2"), 3_000);
    ratios.forget_provider("other");
    assert_eq!(ratios.list().len(), 1);
    ratios.forget_provider("lab");
    assert_eq!(ratios.list(), []);
    assert_eq!(ratios.get(&session("s2"), 1), Some(4.0));
    assert_eq!(ratios.get(&session("s3"), 1), None);
}

#[tokio::test]
async fn ratios_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = open(&folder);
        let ratios = LearnedRatios::default();
        ratios.keep_in(&store).await.unwrap();
        ratios.begin(session("s1"), 2.7, MIN_TOKENS, 1_000);
        ratios.record(&session("s1"), 12_000, counted(3_000, 0), 1_000);
        // So small a change is not stored, and a later use only after a day.
        ratios.record(&session("s1"), 12_000, counted(3_001, 0), 1_001);
        ratios.get(&session("s1"), 1_000 + STORED_EVERY - 1);
    }
    let store = open(&folder);
    let rows = store.token_ratios().await.unwrap();
    assert_eq!((rows.len(), rows[0].accessed), (1, 1_000));
    assert!(rows[0].ratio.contains(r#""shown":4.0"#), "{rows:?}");
    let ratios = LearnedRatios::default();
    ratios.keep_in(&store).await.unwrap();
    assert_eq!(ratios.get(&session("s1"), 1_000 + STORED_EVERY), Some(2.7));
    assert_eq!(ratios.get(&session("s2"), 1_000), Some(4.0));
    let listed = LearnedRatio {
        owner: "me".into(),
        provider: "lab".to_owned(),
        model: "m".to_owned(),
        bytes_per_token: 4.0,
        since: 1_000,
    };
    assert_eq!(ratios.list(), [listed]);
    ratios.forget_provider("lab");
    drop((ratios, store));
    let rows = open(&folder).token_ratios().await.unwrap();
    assert_eq!(rows[0].accessed, 1_000 + STORED_EVERY);
    assert!(rows[0].ratio.contains(r#""shown":null"#), "{rows:?}");
}

#[test]
fn the_owner_with_most_sessions_loses_the_oldest() {
    let ratios = LearnedRatios::default();
    show(&ratios, &key("you", "s", "m"), 3_000);
    let template = session("s");
    for number in 0..MAX_TOKEN_RATIOS + 10 {
        let mut key = template.clone();
        key.session = number.to_string();
        ratios.begin(key, 2.7, MIN_TOKENS, 1);
    }
    let known = ratios.known.lock();
    assert_eq!(known.by_key.len(), MAX_TOKEN_RATIOS);
    assert_eq!(known.of_owner.values().sum::<usize>(), MAX_TOKEN_RATIOS);
    assert!(known.by_key.contains_key(&key("you", "s", "m")));
    assert!(!known.by_key.contains_key(&session("10")));
    assert!(known.by_key.contains_key(&session("11")));
}
