//! Bills of whole sessions: those of the [`mix`], planned and encoded by the program, and counted by
//! a simulated [`provider`]. The same sessions with nothing shortened are counted beside them.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a simulation are small"
)]

mod mix;
mod provider;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use adapters::plan::{Bounds, OutputPolicy, Retention, plan_with_cache};
use adapters::responses::request::TurnSource;
use adapters::turn::Turn;
use adapters::wire::{EncodeOptions, encode};
use kit::session::Agent;
use registry::Route;

use super::output_cache::OutputCache;
use super::prefix::{FingerprintContext, Originals, RequestFingerprint};
use super::record::cost_of;
use super::session_memory::SessionMemory;
use super::whole_sessions::is_lost;
use mix::{MixedSession, priced_models};
use provider::{SimulatedProvider, shared_bytes};

/// The variable that says how many sessions are simulated; all 200 take minutes without
/// optimization.
const SESSIONS_VARIABLE: &str = "RESPONDENT_TEST_SESSIONS";

/// The variable that names the only session to simulate, and prints its turns.
const TRACE_VARIABLE: &str = "RESPONDENT_TEST_TRACE";

/// The sessions that are simulated unless the variable says otherwise.
const SESSIONS: u64 = 20;

/// The sum of the bills says something from so many sessions on: of fewer, those of one window or of
/// one model decide it.
const MANY_SESSIONS: u64 = 200;

/// The end of every request, which closes the list of messages and the body.
const END: &[u8] = b"]}";

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

/// The size of each request of a session with nothing shortened, from its last one: each begins
/// with the one before. `items` are the numbers of items of each.
fn direct_sizes(last: &Turn<'_>, items: &[usize], route: &Route) -> Vec<usize> {
    let options = EncodeOptions::new(&route.dialect, &route.model, &route.upstream_model);
    let cache = OutputCache::default();
    let plan = plan_with_cache(last, &bounds(route, OutputPolicy::Whole), &cache);
    let encoded = encode(last, &plan, &options).unwrap().encoded;
    assert!(encoded.body.ends_with(END));
    let end = encoded.spans.iter().map(|span| span.bytes.end).max();
    let rest = encoded.body.len() - end.unwrap_or_default();
    let size = |count: &usize| {
        let sent = encoded.spans.iter().filter(|span| span.item < *count);
        sent.map(|span| span.bytes.end).max().unwrap_or_default() + rest
    };
    items.iter().map(size).collect()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 * other.abs()
}

/// The turns of a session: the pause before each, and the body of its request.
fn turns(session: &mut MixedSession) -> Vec<(u64, String, usize)> {
    let mut agent = Agent::new(session.shape());
    let mut turns = Vec::new();
    // A bound for the bytes that still fit with nothing shortened.
    let most = session.route.model.window().tokens as f64 * session.bytes_per_token;
    let mut after = 0;
    for number in 0..session.turns {
        let body = agent.request("m");
        after += usize::from(body.len() as f64 > most);
        if after > TURNS_AFTER {
            break;
        }
        turns.push((session.pause(), body, agent.items.len()));
        let turn = session.turn(number);
        let answer = turn.answer(str::to_owned);
        agent.continue_with(&turn, answer);
    }
    turns
}

async fn simulate(number: u64, mut session: MixedSession, sums: &mut SimulatedSums) {
    let turns = turns(&mut session);
    let route = session.route.clone();
    let price = route.model.price.clone().unwrap();
    let provider = || {
        let cache = route.provider.prompt_cache;
        SimulatedProvider::new(session.bytes_per_token, cache, price.clone())
    };
    let (mut sent_to, mut direct_to) = (provider(), provider());
    let items: Vec<usize> = turns.iter().map(|(_, _, items)| *items).collect();
    let source = TurnSource::new(turns.last().unwrap().1.clone());
    let direct_sizes = direct_sizes(&source.turn().unwrap(), &items, &route);
    let max_input = route.model.window().max_input();
    let (memory, owner): (_, Arc<str>) = (SessionMemory::default(), "local".into());
    let cache = OutputCache::default();
    let mut whole = None;
    let mut earlier: Vec<u8> = Vec::new();
    let mut direct_before = 0;
    let (mut cost, mut direct, mut fits) = (0.0, 0.0, true);
    let mut was_dearer = false;
    let mut trace = String::new();
    for (turn, ((pause, body, _), direct_size)) in turns.into_iter().zip(direct_sizes).enumerate() {
        tokio::time::advance(Duration::from_secs(pause)).await;
        let source = TurnSource::new(body);
        let parsed = source.turn().unwrap();
        let bounds = bounds(&route, OutputPolicy::Adaptive).with_whole(whole.clone());
        let sent = request(&parsed, &bounds, &route, &cache);
        let forecast = memory.bill_forecast(&owner, "s", &sent.fingerprint, &route);
        memory.put_request(&owner, "s", &sent.fingerprint, &turn.to_string());
        let shared = shared_bytes(&sent.body, &earlier);
        let usage = sent_to.answer(sent.body.len(), shared);
        let whole_usage = direct_to.answer(direct_size, direct_before);
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
        fits &= whole_usage.input <= max_input;
        let (bill, whole_bill) = (sent_to.bill(usage), direct_to.bill(whole_usage));
        if fits {
            cost += bill.1;
            direct += whole_bill.1;
            sums.comparable += 1;
            let reckoned = unshortened.map(|it| direct_to.bill(it).1);
            sums.reckoned += usize::from(reckoned.is_some_and(|it| is_near(it, whole_bill.1)));
            was_dearer |= cost > direct * 1.000_001;
            sums.cost += bill.0;
            sums.direct += whole_bill.0;
        }
        let _ = writeln!(
            trace,
            "{turn}: {} of {} tokens cached ({} foreseen), direct {} of {}, fits {fits}, epochs {}, {:.0} of {:.0}",
            usage.cached,
            usage.input,
            forecast.cached(),
            whole_usage.cached,
            whole_usage.input,
            sent.epochs,
            1e6 * cost,
            1e6 * direct,
        );
        earlier = sent.body;
        // The next request goes on before the end of this one.
        direct_before = direct_size - END.len();
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
            route.full_name(),
            cost / direct
        );
        sums.dearer.push(line);
    }
    if std::env::var(TRACE_VARIABLE).is_ok_and(|traced| traced == number.to_string()) {
        println!("{trace}");
    }
}

#[tokio::test(start_paused = true)]
async fn r40_r43_sessions_are_reckoned_right_and_are_not_dearer() {
    let models = priced_models();
    let count = std::env::var(SESSIONS_VARIABLE);
    let count = count.map_or(SESSIONS, |count| count.parse().unwrap());
    let only = std::env::var(TRACE_VARIABLE).ok();
    let mut sums = SimulatedSums::default();
    for number in 0..count {
        if only
            .as_ref()
            .is_some_and(|only| *only != number.to_string())
        {
            continue;
        }
        let session = MixedSession::new(number, &models);
        simulate(number, session, &mut sums).await;
    }
    println!("{sums:#?}");
    println!(
        "input {:.3}, all {:.3} of direct; foreseen {:.4}, reckoned {:.4}",
        sums.input_cost / sums.direct_input,
        sums.cost / sums.direct,
        sums.foreseen as f64 / sums.turns as f64,
        sums.reckoned as f64 / sums.comparable as f64,
    );
    assert!(sums.foreseen * 100 >= sums.turns * 95, "{sums:#?}");
    assert!(sums.reckoned * 100 >= sums.comparable * 95, "{sums:#?}");
    assert!(sums.dearer.is_empty(), "{sums:#?}");
    if count >= MANY_SESSIONS {
        assert!(sums.input_cost < 0.4 * sums.direct_input, "{sums:#?}");
    }
}
