//! Bills of whole sessions: those of the [`mix`], planned and encoded by the program, and counted
//! by a simulated [`provider`]. The same sessions with nothing shortened are counted beside them.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a simulation are small"
)]

mod mix;
mod provider;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use adapters::plan::{Bounds, OutputPolicy, Retention, plan_with_cache};
use adapters::responses::request::TurnSource;
use adapters::turn::Turn;
use adapters::wire::{EncodeOptions, encode};
use kit::session::Agent;
use registry::Route;
use serde_json::json;
use tokio::time::Instant;

use crate::turn::output_cache::OutputCache;
use crate::turn::prefix::{FingerprintContext, Originals, RequestFingerprint};
use crate::turn::route::cost_of;
use crate::turn::session_memory::SessionMemory;
use crate::turn::whole_sessions::is_lost;
use mix::{AGENTS, MixedSession, SessionKind, priced_models};
use provider::{SimulatedProvider, shared_bytes};

/// The variable that says how many sessions are simulated; all 200 take minutes without
/// optimization.
const SESSIONS_VARIABLE: &str = "RESPONDENT_TEST_SESSIONS";

/// The variable that names the only session to simulate, and prints its turns.
const TRACE_VARIABLE: &str = "RESPONDENT_TEST_TRACE";

/// The sessions that are simulated unless the variable says otherwise.
const SESSIONS: u64 = 20;

/// The fewest sessions for which the sum of the bills says something: with fewer, the sessions of
/// one window or of one model decide it.
const MANY_SESSIONS: usize = 200;

/// What all sessions may cost, in relation to nothing shortened.
const MAX_RATIO: f64 = 0.3;

/// In so many sessions one may be dearer: one that ends before an epoch has paid for itself.
const SESSIONS_FOR_ONE_DEARER: usize = 100;

/// How much dearer it may be.
const MAX_DEARER: f64 = 1.1;

/// The variable with the seed from which the sessions are drawn.
const SEED_VARIABLE: &str = "RESPONDENT_TEST_SEED";

/// The seed unless the variable says otherwise.
const SEED: u64 = 16;

/// The turns that are simulated after the session with nothing shortened no longer fits.
const TURNS_AFTER: usize = 10;

/// What is known of sessions.
#[derive(Debug, Default)]
struct SimulatedSums {
    sessions: usize,
    turns: usize,
    /// Turns for which the cached tokens were forecast within 5 %.
    foreseen: usize,
    comparable: usize,
    /// Turns for which the bill with nothing shortened was reckoned within 5 %.
    reckoned: usize,
    cost: f64,
    direct: f64,
    input_cost: f64,
    direct_input: f64,
    switched: usize,
    /// Sessions that were dearer at some turn, and perhaps cheaper in the end.
    dearer_meanwhile: usize,
    /// The sessions that were dearer than with nothing shortened.
    dearer: Vec<String>,
    /// The cost of the dearest of them in relation to that.
    dearest: f64,
}

/// A request of a session.
struct SimulatedRequest {
    body: Vec<u8>,
    fingerprint: Arc<RequestFingerprint>,
    epochs: u32,
}

fn request(
    turn: &Turn<'_>,
    bounds: &Bounds,
    route: &Route,
    cache: &OutputCache,
) -> SimulatedRequest {
    let options = EncodeOptions::new(&route.dialect, &route.model, &route.upstream_model);
    let plan = plan_with_cache(turn, bounds, cache);
    let encoded = encode(turn, &plan, &options).unwrap().encoded;
    let originals = Originals::new(turn, &plan, route.model.bytes_per_token());
    let context = FingerprintContext {
        route: route.full_name(),
        epochs: plan.epochs,
        ..FingerprintContext::default()
    };
    SimulatedRequest {
        fingerprint: Arc::new(RequestFingerprint::new(&encoded, context, &originals)),
        body: encoded.body,
        epochs: plan.epochs,
    }
}

fn bounds(route: &Route, outputs: OutputPolicy) -> Bounds {
    Bounds::for_model(&route.model, outputs, Retention::Disk).for_dialect(&route.dialect)
}

/// The last request of a history with nothing shortened, and where each of its requests ends in it:
/// each begins with the one before. `items` are the numbers of items of each.
fn unshortened(last: &Turn<'_>, items: &[usize], route: &Route) -> (Vec<u8>, Vec<usize>) {
    let options = EncodeOptions::new(&route.dialect, &route.model, &route.upstream_model);
    let cache = OutputCache::default();
    let plan = plan_with_cache(last, &bounds(route, OutputPolicy::Whole), &cache);
    let encoded = encode(last, &plan, &options).unwrap().encoded;
    let end = |count: &usize| {
        let sent = encoded.spans.iter().filter(|span| span.item < *count);
        sent.map(|span| span.bytes.end).max().unwrap_or_default()
    };
    let ends = items.iter().map(end).collect();
    (encoded.body, ends)
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 * other.abs()
}

/// A turn of a session.
struct SimulatedTurn {
    /// The seconds before it.
    pause: u64,
    /// The history that it continues: a number for each agent, and a new one after a compaction.
    history: usize,
    route: Route,
    body: String,
    items: usize,
}

/// The turns of a session.
fn turns(session: &mut MixedSession) -> Vec<SimulatedTurn> {
    let count = match session.kind {
        SessionKind::ElevenAgents => AGENTS,
        SessionKind::ShortRun | SessionKind::SubAgent | SessionKind::CodingAgent => 1,
    };
    let mut agents: Vec<Agent> = (0..count)
        .map(|number| {
            let mut agent = Agent::new(session.shape());
            let task = json!({"role": "user", "content": format!("This is part {number}.")});
            agent.items.push(task.to_string());
            agent
        })
        .collect();
    let mut turns = Vec::new();
    // A bound for the bytes that still fit with nothing shortened.
    let most = session.route.model.window().tokens as f64 * session.bytes_per_token;
    let mut after = 0;
    for number in 0..session.turns {
        let agent = number % count;
        if session.compacted_at == Some(number) {
            agents[agent].compact("The build fails because a byte is lost; go on with the parser.");
        }
        let history = agent + count * agents[agent].compactions;
        let changed = session.changed.as_ref().filter(|(from, _)| number >= *from);
        let route = changed.map_or(&session.route, |(_, route)| route).clone();
        let body = agents[agent].request("m");
        after += usize::from(body.len() as f64 > most);
        if after > TURNS_AFTER {
            break;
        }
        turns.push(SimulatedTurn {
            pause: session.pause(),
            history,
            route,
            body,
            items: agents[agent].items.len(),
        });
        let turn = session.turn(number);
        let answer = turn.answer(str::to_owned);
        agents[agent].continue_with(&turn, answer);
    }
    turns
}

/// The prompts that a provider has seen of each history and route, with nothing shortened and as
/// they were sent.
#[derive(Default)]
struct SeenPrompts(BTreeMap<(usize, String), (Instant, Vec<u8>)>);

impl SeenPrompts {
    /// The bytes that a prompt shares with an earlier one of the route, and when that was sent.
    fn shared(&self, prompt: &[u8], route: &Route) -> (usize, Option<Instant>) {
        let name = route.full_name();
        let seen = self.0.iter().filter(|((_, of), _)| *of == name);
        let shared = seen.map(|(_, (sent, seen))| (shared_bytes(prompt, seen), Some(*sent)));
        shared.max().unwrap_or((0, None))
    }

    fn put(&mut self, prompt: &[u8], history: usize, route: &Route) {
        let seen = (Instant::now(), prompt.to_vec());
        self.0.insert((history, route.full_name()), seen);
    }
}

async fn simulate(
    number: u64,
    mut session: MixedSession,
    deviates: bool,
    sums: &mut SimulatedSums,
) {
    let turns = turns(&mut session);
    let other = session.random.clone();
    let provider = |route: &Route| {
        let (cache, price) = (route.provider.prompt_cache, route.model.price.clone());
        let (cache, noise) = if deviates {
            let cache = SimulatedProvider::other_cache(cache, &mut other.clone());
            (cache, 0.1)
        } else {
            (cache, 0.0)
        };
        SimulatedProvider::new(session.bytes_per_token, cache, price.unwrap(), noise)
    };
    let mut whole_bodies = BTreeMap::new();
    for turn in &turns {
        let key = (turn.history, turn.route.full_name());
        if whole_bodies.contains_key(&key) {
            continue;
        }
        let same = turns
            .iter()
            .filter(|it| (it.history, it.route.full_name()) == key);
        let items: Vec<usize> = same.clone().map(|it| it.items).collect();
        let source = TurnSource::new(same.clone().next_back().unwrap().body.clone());
        let (body, ends) = unshortened(&source.turn().unwrap(), &items, &turn.route);
        let last_end = *ends.last().unwrap();
        whole_bodies.insert(key, ((body, last_end), VecDeque::from(ends)));
    }
    let (memory, owner): (_, Arc<str>) = (SessionMemory::default(), "local".into());
    let cache = OutputCache::default();
    let mut whole = None;
    let (mut seen, mut seen_whole) = (SeenPrompts::default(), SeenPrompts::default());
    let (mut cost, mut direct, mut fits) = (0.0, 0.0, true);
    let mut was_dearer = false;
    let mut trace = String::new();
    for (number, turn) in turns.into_iter().enumerate() {
        tokio::time::advance(Duration::from_secs(turn.pause)).await;
        let (route, history) = (&turn.route, turn.history);
        let to = provider(route);
        let price = route.model.price.clone().unwrap();
        let source = TurnSource::new(turn.body);
        let parsed = source.turn().unwrap();
        let bounds = bounds(route, OutputPolicy::Adaptive).with_unshortened_from(whole.clone());
        let sent = request(&parsed, &bounds, route, &cache);
        let forecast = memory.bill_forecast(&owner, "s", &sent.fingerprint, route);
        memory.put_request(&owner, "s", &sent.fingerprint, &number.to_string());
        let (shared, last) = seen.shared(&sent.body, route);
        let usage = to.answer(&sent.body, shared, last);
        let key = (history, route.full_name());
        let (whole_body, ends) = whole_bodies.get_mut(&key).unwrap();
        // The body closes after the last item.
        let (end, last_end) = (ends.pop_front().unwrap(), whole_body.1);
        let whole_body = &[&whole_body.0[..end], &whole_body.0[last_end..]].concat();
        let (shared, last) = seen_whole.shared(whole_body, route);
        let whole_usage = to.answer(whole_body, shared, last);
        seen_whole.put(whole_body, history, route);
        memory.count_request(&owner, "s", &sent.fingerprint, &forecast, usage);
        let unshortened = forecast.unshortened_usage(usage);
        let lost = unshortened.map(|it| is_lost(cost_of(&price, usage), cost_of(&price, it)));
        if let (None, Some(lost)) = (&whole, lost) {
            whole = memory.count_lost(&owner, "s", &sent.fingerprint, lost);
            sums.switched += usize::from(whole.is_some());
        }
        sums.turns += 1;
        let foreseen = is_near(forecast.cached() as f64, usage.cached as f64);
        sums.foreseen += usize::from(foreseen);
        fits &= whole_usage.input <= route.model.window().max_input();
        let (bill, whole_bill) = (to.bill(usage), to.bill(whole_usage));
        if fits {
            cost += bill.1;
            direct += whole_bill.1;
            sums.comparable += 1;
            let reckoned = unshortened.map(|it| to.bill(it).1);
            sums.reckoned += usize::from(reckoned.is_some_and(|it| is_near(it, whole_bill.1)));
            was_dearer |= cost > direct * 1.000_001;
            sums.cost += bill.0;
            sums.direct += whole_bill.0;
        }
        let _ = writeln!(
            trace,
            "{number} of {history}: {} of {} tokens cached ({} foreseen), direct {} of {}, fits {fits}, epochs {}, {:.0} of {:.0}",
            usage.cached,
            usage.input,
            forecast.cached(),
            whole_usage.cached,
            whole_usage.input,
            sent.epochs,
            1e6 * cost,
            1e6 * direct,
        );
        seen.put(&sent.body, history, route);
    }
    sums.sessions += 1;
    sums.dearer_meanwhile += usize::from(was_dearer);
    sums.input_cost += cost;
    sums.direct_input += direct;
    if cost > direct * 1.000_001 {
        let line = format!(
            "{number} {:?} {} turns, {:.2} bytes a token, {}: {:.4} times",
            session.kind,
            session.turns,
            session.bytes_per_token,
            session.route.full_name(),
            cost / direct
        );
        sums.dearer.push(line);
        sums.dearest = sums.dearest.max(cost / direct);
    }
    if std::env::var(TRACE_VARIABLE).is_ok_and(|traced| traced == number.to_string()) {
        println!("{trace}");
    }
}

/// Simulates the sessions of the mix with providers as their files say, or others.
async fn simulate_mix(deviates: bool) -> SimulatedSums {
    let models = priced_models();
    let number = |name: &str, default: u64| {
        let value = std::env::var(name);
        value.map_or(default, |value| value.parse().unwrap())
    };
    let (count, seed) = (
        number(SESSIONS_VARIABLE, SESSIONS),
        number(SEED_VARIABLE, SEED),
    );
    let only = std::env::var(TRACE_VARIABLE).ok();
    let mut sums = SimulatedSums::default();
    for number in 0..count {
        if only
            .as_ref()
            .is_some_and(|only| *only != number.to_string())
        {
            continue;
        }
        let session = MixedSession::new(number, seed, &models);
        simulate(number, session, deviates, &mut sums).await;
    }
    println!("{sums:#?}");
    println!(
        "deviates {deviates}: input {:.3}, all {:.3} of direct; foreseen {:.4}, reckoned {:.4}",
        sums.input_cost / sums.direct_input,
        sums.cost / sums.direct,
        sums.foreseen as f64 / sums.turns as f64,
        sums.reckoned as f64 / sums.comparable as f64,
    );
    sums
}

fn assert_hardly_dearer(sums: &SimulatedSums) {
    let dearer = sums.dearer.len();
    assert!(
        dearer * SESSIONS_FOR_ONE_DEARER <= sums.sessions,
        "{sums:#?}"
    );
    assert!(sums.dearest < MAX_DEARER, "{sums:#?}");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_reckoned_right_and_are_hardly_dearer() {
    let sums = simulate_mix(false).await;
    assert!(sums.foreseen * 100 >= sums.turns * 95, "{sums:#?}");
    assert!(sums.reckoned * 100 >= sums.comparable * 95, "{sums:#?}");
    assert_hardly_dearer(&sums);
    if sums.sessions >= MANY_SESSIONS {
        assert!(sums.cost < MAX_RATIO * sums.direct, "{sums:#?}");
    }
}

/// A provider may cache and count otherwise than its file says.
#[tokio::test(start_paused = true)]
async fn sessions_of_other_providers_are_hardly_dearer() {
    let sums = simulate_mix(true).await;
    assert_hardly_dearer(&sums);
    if sums.sessions >= MANY_SESSIONS {
        assert!(sums.cost < MAX_RATIO * sums.direct, "{sums:#?}");
    }
}
