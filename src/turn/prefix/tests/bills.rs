//! The bills of random sessions, by a simulated provider that caches prompts, beside the forecasts.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a simulation are small"
)]

use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::plan::{Bounds, OutputPolicy, Retention, plan_with_cache};
use adapters::responses::request::TurnSource;
use adapters::turn::Turn;
use adapters::wire::{EncodeOptions, encode};
use kit::session::{Agent, SeededRandom, SessionScript, SessionShape};
use registry::{Dialect, Model, Price, PromptCache};
use tokio::time::Instant;

use super::super::{FingerprintContext, Originals, RecentRequests, RequestFingerprint};
use crate::turn::output_cache::OutputCache;

/// A provider with its own idea of a token, which caches the beginnings of prompts.
struct SimulatedProvider {
    bytes_per_token: f64,
    cache: PromptCache,
    seen: Vec<(Instant, Vec<u8>)>,
}

impl SimulatedProvider {
    /// Answers a request: what it counts for the input.
    fn count(&mut self, body: Vec<u8>) -> Usage {
        let now = Instant::now();
        let fresh = self
            .seen
            .iter()
            .filter(|(sent, _)| now - *sent <= self.cache.lifetime);
        let shared = fresh.map(|(_, earlier)| {
            let same = body
                .iter()
                .zip(earlier)
                .take_while(|(one, other)| one == other);
            same.count()
        });
        let cached = self.cache.reusable(self.tokens(shared.max().unwrap_or(0)));
        let input = self.tokens(body.len());
        if self.seen.len() == 2 {
            self.seen.remove(0);
        }
        self.seen.push((now, body));
        Usage {
            input,
            cached,
            ..Usage::default()
        }
    }

    fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token) as u64
    }
}

/// A random session and what it is billed with.
struct Session {
    shape: SessionShape,
    turns: usize,
    window: u64,
    price: Price,
    bytes_per_token: f64,
    /// One pause in this many is longer than the provider caches.
    long_pauses: usize,
}

impl Session {
    fn random(seed: u64, random: &mut SeededRandom) -> Self {
        let (shape, turns) = match seed % 4 {
            // Short runs in which nothing is worth shortening: headroom, issue 2438.
            0 => (outputs(200, 3_000, 12_000), random.within((3, 8))),
            // Sub-agents behind one long prompt, with outputs of a few kilobytes: issue 327.
            1 => (outputs(1_000, 12_000, 40_000), random.within((10, 16))),
            2 => (outputs(500, 36_000, 8_000), random.within((8, 30))),
            _ => (outputs(1_000, 300_000, 8_000), random.within((8, 25))),
        };
        let cached = [0.02, 0.1, 0.25, 0.5][random.below(4)];
        Self {
            shape,
            turns,
            window: [65_536, 131_072, 262_144][random.below(3)],
            price: Price {
                input: 1.0,
                cached_input: Some(cached),
                cache_write: None,
                output: 4.0,
                tiers: Vec::new(),
            },
            bytes_per_token: 2.5 + random.below(200) as f64 / 100.0,
            long_pauses: 5 + random.below(40),
        }
    }

    fn provider(&self) -> SimulatedProvider {
        SimulatedProvider {
            bytes_per_token: self.bytes_per_token,
            cache: PromptCache::default(),
            seen: Vec::new(),
        }
    }
}

fn outputs(from: usize, to: usize, instructions: usize) -> SessionShape {
    SessionShape {
        instructions,
        said: (400, 1_500),
        output: (from, to),
        cut_one_in: 0,
    }
}

/// What is known of many sessions.
#[derive(Debug, Default)]
struct Sums {
    turns: usize,
    well_predicted: usize,
    well_reckoned: usize,
    comparable: usize,
    cost: f64,
    direct: f64,
    /// The sessions that were dearer than direct: seed, cost and cost without shortening.
    dearer: Vec<(u64, f64, f64)>,
}

/// Encodes a turn in both forms: as it is sent, and with nothing shortened.
fn bodies(
    turn: &Turn<'_>,
    model: &Model,
    cache: &OutputCache,
) -> (Vec<u8>, Vec<u8>, Arc<RequestFingerprint>) {
    let dialect = Dialect::default();
    let options = EncodeOptions::new(&dialect, model, &model.id);
    let bounds = Bounds::for_model(model, OutputPolicy::Adaptive, Retention::Disk);
    let plan = plan_with_cache(turn, &bounds, cache);
    let encoded = encode(turn, &plan, &options).unwrap().encoded;
    let originals = Originals::new(turn, &plan, model.bytes_per_token());
    let context = FingerprintContext {
        route: "acme/m".to_owned(),
        epochs: plan.epochs,
        ..FingerprintContext::default()
    };
    let fingerprint = RequestFingerprint::new(&encoded, context, &originals);
    let bounds = Bounds::for_model(model, OutputPolicy::Whole, Retention::Nothing);
    let plan = plan_with_cache(turn, &bounds, cache);
    let whole = encode(turn, &plan, &options).unwrap().encoded;
    (encoded.body, whole.body, Arc::new(fingerprint))
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 * other.abs()
}

async fn run(seed: u64, session: &Session, random: &mut SeededRandom, sums: &mut Sums) {
    let model = Model {
        window: Some(session.window),
        price: Some(session.price.clone()),
        ..Model::unlisted("m")
    };
    let (mut sent_to, mut direct_to) = (session.provider(), session.provider());
    let cache = OutputCache::default();
    let mut recent = RecentRequests::default();
    let mut agent = Agent::new(session.shape);
    let (mut cost, mut direct) = (0.0, 0.0);
    let mut fits = true;
    for turn in SessionScript::new(seed, session.shape).take(session.turns) {
        let is_long = random.below(session.long_pauses) == 0;
        let pause = if is_long { 400 } else { 5 + random.below(60) };
        tokio::time::advance(Duration::from_secs(pause as u64)).await;
        let source = TurnSource::new(agent.request("m"));
        let parsed = source.turn().unwrap();
        let (body, whole, fingerprint) = bodies(&parsed, &model, &cache);
        let forecast = recent.forecast(&fingerprint, PromptCache::default(), model.window());
        recent.put(&fingerprint, "resp_1");
        let usage = sent_to.count(body);
        recent.count(&fingerprint, &forecast, usage);
        sums.turns += 1;
        let is_right = is_near(forecast.cached() as f64, usage.cached as f64);
        sums.well_predicted += usize::from(is_right);
        let whole = direct_to.count(whole);
        // A session that does not fit any more ends for whoever shortens nothing.
        fits &= whole.input <= model.window().max_input();
        if fits {
            let output = Usage {
                output: 400,
                ..Usage::default()
            };
            let bill = |usage: Usage| {
                let price = &session.price;
                price.cost(usage.input, usage.cached, 0, output.output)
            };
            cost += bill(usage);
            direct += bill(whole);
            sums.comparable += 1;
            let reckoned = forecast.unshortened_usage(usage).map(bill);
            let is_right = reckoned.is_some_and(|reckoned| is_near(reckoned, bill(whole)));
            sums.well_reckoned += usize::from(is_right);
        }
        drop(parsed);
        let answer = turn.answer(str::to_owned);
        agent.continue_with(&turn, answer);
    }
    if cost > direct * 1.000_001 {
        sums.dearer.push((seed, cost, direct));
    }
    sums.cost += cost;
    sums.direct += direct;
}

/// The window has 131,072 tokens, of which 20,000 are for the answer.
#[test]
fn r40_nothing_shortened_needs_room_for_an_answer() {
    let model = Model::unlisted("m");
    for (tokens, fits) in [(100_000, true), (115_000, false), (140_000, false)] {
        let text = "one line\\n".repeat(tokens * 27 / 100);
        let items = format!(
            r#"{{"model":"m","input":[{{"type":"function_call","call_id":"c","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"c","output":"{text}"}}]}}"#
        );
        let source = TurnSource::new(items);
        let turn = source.turn().unwrap();
        let (_, _, request) = bodies(&turn, &model, &OutputCache::default());
        let recent = RecentRequests::default();
        let forecast = recent.forecast(&request, PromptCache::default(), model.window());
        assert_eq!(forecast.fits_unshortened(), fits, "{tokens}");
    }
}

#[tokio::test(start_paused = true)]
async fn r40_random_sessions_are_reckoned_right() {
    let mut sums = Sums::default();
    let mut random = SeededRandom::new(7);
    for seed in 0..40 {
        let session = Session::random(seed, &mut random);
        run(seed, &session, &mut random, &mut sums).await;
    }
    println!("{sums:?}");
    assert!(sums.well_predicted * 100 >= sums.turns * 95, "{sums:?}");
    assert!(sums.well_reckoned * 100 >= sums.comparable * 95, "{sums:?}");
}
