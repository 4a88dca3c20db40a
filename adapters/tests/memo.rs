//! A cache of outputs saves work and does not change a plan.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use kit::session::{Agent, SessionScript, SessionShape};
use registry::Model;
use responses_translate::plan::{
    Bounds, CachedOutput, OutputPolicy, PlanCache, Retention, plan, plan_with_cache,
};
use responses_translate::responses::request::TurnSource;

/// A cache that keeps everything.
#[derive(Default)]
struct UnboundedCache {
    names: RefCell<HashMap<String, u128>>,
    found: RefCell<HashMap<u128, CachedOutput>>,
    news: Cell<usize>,
}

impl PlanCache for UnboundedCache {
    fn key(&self, text: &str) -> u128 {
        let mut names = self.names.borrow_mut();
        let next = names.len() as u128;
        *names.entry(text.to_owned()).or_insert(next)
    }

    fn get(&self, name: u128) -> Option<CachedOutput> {
        self.found.borrow().get(&name).cloned()
    }

    fn put(&self, name: u128, found: CachedOutput) {
        self.news.set(self.news.get() + 1);
        assert!(self.found.borrow_mut().insert(name, found).is_none());
    }
}

#[test]
fn a_session_with_a_memo_has_the_plans_of_one_without() {
    let memo = UnboundedCache::default();
    for window in [32_768] {
        let model = Model {
            window: Some(window),
            ..Model::unlisted("m")
        };
        for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
            let bounds = Bounds::for_model(&model, outputs, Retention::Disk);
            let shape = SessionShape::for_window(bounds.window_bytes());
            let mut agent = Agent::new(shape);
            for turn in SessionScript::new(7, shape).take(20) {
                let source = TurnSource::new(agent.request("m"));
                let asked = source.turn().unwrap();
                let fresh = plan(&asked, &bounds);
                assert_eq!(plan_with_cache(&asked, &bounds, &memo), fresh);
                let news = memo.news.get();
                assert_eq!(plan_with_cache(&asked, &bounds, &memo), fresh);
                // Nothing is computed twice.
                assert_eq!(memo.news.get(), news);
                agent.continue_with(&turn, turn.answer(str::to_owned));
            }
        }
    }
    assert!(memo.news.get() > 20);
}
