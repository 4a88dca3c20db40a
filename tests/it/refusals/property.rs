//! Servers that refuse what is drawn at random, in words drawn at random.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kit::player::{Player, PlayerRequest, PlayerWire, ScriptedAnswer, ScriptedRefusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::lab::{Lab, LabServer, done, tells};

/// The rules of each wire, and the words of servers: of fields that they do not take, and of
/// values.
const POOL: &str = include_str!("property.json");

const SERVERS: u32 = 128;

/// How many more are tried to find the smallest one that breaks a limit.
const MAX_SHRINKS: u32 = 200;

/// How many servers there is room for.
pub const MODELS: u32 = SERVERS + MAX_SHRINKS;

/// The most that a server refuses.
const MAX_RULES: usize = 5;

/// The most requests of a turn: its own, and four with a change.
const MAX_REQUESTS: usize = 5;

/// The most refused requests of a prompt, besides one for each repetition that the client was told
/// not to make.
const MAX_REFUSED: usize = 8;

const MAX_TURNS: usize = 5;

/// A server: its rules, and the replies so far.
#[derive(Clone, Debug, Default)]
pub struct DrawnServer {
    pub wire: &'static str,
    pub refusals: Vec<ScriptedRefusal>,
    /// What was refused, and nothing for an answer.
    pub replies: Vec<Option<ScriptedAnswer>>,
}

/// The servers by the names of their models.
pub type DrawnServers = Arc<Mutex<HashMap<String, DrawnServer>>>;

pub fn any_server() -> impl Strategy<Value = DrawnServer> {
    let pool: Value = serde_json::from_str(POOL).unwrap();
    let drawn = (any::<bool>(), vec(any::<[Index; 3]>(), 0..=MAX_RULES));
    drawn.prop_map(move |(is_responses, draws)| {
        let wire = if is_responses {
            PlayerWire::Responses
        } else {
            PlayerWire::Chat
        }
        .name();
        let of = |list: &Value, index: Index| index.get(list.as_array().unwrap()).clone();
        let refusal = |[kind, rule, words]: [Index; 3]| {
            let kind = *kind.get(&["field", "field", "value"]);
            let mut refusal = of(&pool["words"][kind], words);
            refusal["rule"] = of(&pool[wire][kind], rule);
            serde_json::from_value(refusal).unwrap()
        };
        let refusals = draws.into_iter().map(refusal).collect();
        DrawnServer {
            wire,
            refusals,
            replies: Vec::new(),
        }
    })
}

fn answer(servers: &DrawnServers, request: &PlayerRequest) -> ScriptedAnswer {
    let mut servers = servers.lock().unwrap();
    let model = request.json["model"].as_str().unwrap();
    let server = servers.get_mut(model).unwrap();
    let refused = server
        .refusals
        .iter()
        .find_map(|refusal| refusal.answer(request));
    server.replies.push(refused.clone());
    refused.unwrap_or_else(done)
}

/// Promise: Whatever a server refuses, and in whatever words, a turn is answered or fails with the
/// server's last words, after four changed requests at most, and eight for a prompt that is
/// repeated.
#[kit::test]
async fn any_refusals_are_healed_or_told_within_the_limits() {
    let (servers, _player, lab) = start().await;
    let handle = Handle::current();
    let property = |server: DrawnServer| {
        let turns = keeps_limits(&lab, &servers, server);
        block_in_place(|| handle.block_on(turns)).map_err(TestCaseError::fail)
    };
    let config = Config {
        cases: SERVERS,
        max_shrink_iters: MAX_SHRINKS,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&any_server(), property);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Room for drawn servers, a player that plays them, and a proxy in front of it.
pub async fn start() -> (DrawnServers, Player, Lab) {
    let servers = DrawnServers::default();
    let served = Arc::clone(&servers);
    let player = Player::serve(
        Vec::new(),
        Box::new(move |request| answer(&served, request)),
    );
    let player = player.await.unwrap();
    let lab = PlayerWire::ALL.map(|wire| {
        let name = wire.name().to_owned();
        let models = (0..MODELS).map(|number| format!("m{number}")).collect();
        LabServer {
            name,
            wire,
            models,
            ..LabServer::default()
        }
    });
    let lab = Lab::start_for(&lab, &player).await;
    (servers, player, lab)
}

/// Repeats a turn until it is answered, at most so many times.
pub async fn keeps_limits(
    lab: &Lab,
    servers: &DrawnServers,
    server: DrawnServer,
) -> Result<(), String> {
    let wire = server.wire;
    let model = {
        let mut servers = servers.lock().unwrap();
        let model = format!("m{}", servers.len());
        servers.insert(model.clone(), server);
        model
    };
    let (mut before, mut allowed) = (0, MAX_REFUSED);
    for turn in 1..=MAX_TURNS {
        let reply = lab.post(wire, &model, &Map::new()).await;
        let replies = servers.lock().unwrap()[&model].replies.clone();
        let refused = replies.iter().flatten().count();
        let sent = replies.len() - before;
        before = replies.len();
        if sent > MAX_REQUESTS || refused > allowed {
            return Err(format!(
                "turn {turn}: {sent} requests, {refused} are refused"
            ));
        }
        let Some(Some(last)) = replies.last() else {
            let answered = reply.status == 200 && reply.stream().terminal == "response.completed";
            return answered.then_some(()).ok_or(reply.body);
        };
        let words = last
            .json
            .clone()
            .or_else(|| last.body.clone().map(Value::from));
        let words = words.unwrap_or_default();
        if !tells(&reply.body, &words) {
            return Err(format!("{} instead of {words}", reply.body));
        }
        if reply.header("x-should-retry") == Some("false") {
            allowed += 1;
        }
    }
    Ok(())
}
