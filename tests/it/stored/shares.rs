//! Clients ask for much of what is stored and do not read the answers. The program stays within its
//! memory, what it counts is what lives, small turns are answered meanwhile, and nothing is lost.

use futures_util::future::join_all;
use kit::player::{Player, PlayerRequest, ScriptedAnswer};
use kit::session::SeededRandom;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::two_owners::{SeedOnFailure, seed};
use super::{asks, client, id, ok, says, send};
use crate::faults::answer;
use crate::proxy::{AbortOnDrop, OpenReply, Proxy, Reply, Setup};
use crate::websocket::client::{Socket, TEXT};

const MIB: usize = 1 << 20;
/// The least budget that the configuration takes.
const BUDGET: usize = 128 * MIB;
/// What the program may take besides: itself, its threads, and the caches of the database.
const BESIDES: usize = 10 * MIB;
/// The bytes of a large text.
const LARGE: usize = 8 * MIB;
/// The bytes of the pieces in which a provider sends a large text.
const PIECE: usize = 64 * 1024;

/// Held by each of these tests: each of them alone keeps two processors busy.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A request for which the program needs much memory.
#[derive(Clone, Copy, Debug)]
enum LargeRequest {
    /// Many references to one item, in one request.
    References,
    /// The same, to be counted only.
    CountedReferences,
    /// One reference.
    Reference,
    Page,
    Item,
    /// A turn that continues a long history.
    Continuation,
    /// A response with a large text.
    Response,
    /// The input of a job that has not ended.
    RunningInput,
    /// The input of a response.
    Input,
    /// The events of a background response.
    Viewer,
    /// A socket that steers a turn that is not there, again and again.
    Steer,
    /// A socket whose lanes continue a long history.
    Lanes,
    /// A large body.
    Body,
}

const LARGE_REQUESTS: [LargeRequest; 13] = [
    LargeRequest::References,
    LargeRequest::CountedReferences,
    LargeRequest::Reference,
    LargeRequest::Page,
    LargeRequest::Item,
    LargeRequest::Continuation,
    LargeRequest::Response,
    LargeRequest::RunningInput,
    LargeRequest::Input,
    LargeRequest::Viewer,
    LargeRequest::Steer,
    LargeRequest::Lanes,
    LargeRequest::Body,
];

/// An answer that nobody reads, as long as this lives.
enum Unread {
    Reply(OpenReply),
    Socket(#[expect(dead_code, reason = "the task that writes ends with it")] AbortOnDrop),
}

impl Unread {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Reply(reply) => Some(reply.status),
            Self::Socket(_) => None,
        }
    }
}

/// What an owner has stored, at least some of it large.
struct Stored {
    owner: &'static str,
    conversation: String,
    item: String,
    /// A response that continues others, with large outputs of tools.
    last: String,
    /// A response with a large answer, which ran in the background.
    answered: String,
    /// A background response with a large input that does not end.
    running: String,
    /// Small turns that were acknowledged: id and input.
    turns: Vec<(String, String)>,
}

/// The answers of the provider: the input says which.
fn provide(request: &PlayerRequest) -> ScriptedAnswer {
    match request.last_text() {
        text if text.starts_with("hang") => ScriptedAnswer {
            head_delay_ms: 600_000,
            ..says("never")
        },
        text if text.starts_with("much") => {
            let pieces = text[5..].parse::<usize>().unwrap() / PIECE;
            answer(json!(vec![json!({"text": words(PIECE)}); pieces]))
        }
        _ => says("done"),
    }
}

fn words(bytes: usize) -> String {
    "a word ".repeat(bytes / 7)
}

/// A server with these clients and its provider, whose bytes are counted if `counted`.
async fn start(names: &[&str], counted: bool) -> (Proxy, Player) {
    let player = Player::serve(vec!["m".to_owned()], Box::new(provide))
        .await
        .unwrap();
    let mut setup = Setup::new()
        // A busy machine may take long to read what has arrived.
        .server(&format!(
            "memory = {BUDGET}\nheader_timeout = \"1h\"\nbody_timeout = \"1h\""
        ))
        .env("RESPONDENT_TOKEN", "operator-token-1")
        .tables(&format!(
            "[jobs]\nrunning = {}\n[capture]\nmode = \"off\"",
            4 * names.len()
        ));
    for name in names {
        setup = setup.tables(&client(name, ""));
    }
    let setup = if counted { setup.counted() } else { setup };
    (Proxy::start_with(&player, setup).await, player)
}

/// Waits until a response has this status.
async fn wait_for_status(ask: &impl AsyncFn(&str, &Value) -> Value, response: &str, status: &str) {
    let route = format!("GET /v1/responses/{response}");
    loop {
        let now = ask(&route, &Value::Null).await["status"].take();
        if now == status {
            return;
        }
        assert!(now == "queued" || now == "in_progress", "{now}");
        tokio::task::yield_now().await;
    }
}

impl Stored {
    /// Stores as many large items and outputs as these numbers say.
    async fn fill(
        proxy: &Proxy,
        owner: &'static str,
        large: usize,
        items: usize,
        chain: usize,
    ) -> Self {
        let ask = async |route: &str, body: &Value| {
            let reply = send(proxy, owner, route, body).await;
            assert_eq!(reply.status, 200, "{route}: {}", reply.body);
            serde_json::from_str::<Value>(&reply.body).unwrap()
        };
        let conversation = id(&ask("POST /v1/conversations", &json!({})).await);
        let path = format!("POST /v1/conversations/{conversation}/items");
        let mut item = String::new();
        for _ in 0..items {
            let new = json!({"items": [{"role": "user", "content": words(large)}]});
            item = id(&ask(&path, &new).await["data"][0]);
        }
        let mut before = json!({});
        for _ in 0..chain {
            let output = json!([
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": words(large)},
            ]);
            let response = ask("POST /v1/responses", &asks(output, before)).await;
            before = json!({"previous_response_id": response["id"]});
        }
        let background = json!({"background": true});
        let much = asks(format!("much {large}"), background.clone());
        let answered = id(&ask("POST /v1/responses", &much).await);
        wait_for_status(&ask, &answered, "completed").await;
        let hangs = asks("hang", background.clone());
        ask("POST /v1/responses", &hangs).await;
        let large_input =
            json!([{"role": "user", "content": words(large)}, {"role": "user", "content": "hang"}]);
        let running = id(&ask("POST /v1/responses", &asks(large_input, background)).await);
        wait_for_status(&ask, &running, "in_progress").await;
        Self {
            owner,
            conversation,
            item,
            last: before["previous_response_id"].as_str().unwrap().to_owned(),
            answered,
            running,
            turns: Vec::new(),
        }
    }

    /// Asks for much and reads nothing.
    async fn open(&self, proxy: &Proxy, kind: LargeRequest) -> Unread {
        let reference = json!({"type": "item_reference", "id": self.item});
        let more = json!({"previous_response_id": self.last});
        let get = |path: String| ("GET", path, Value::Null);
        let post = |path: &str, body: Value| ("POST", path.to_owned(), body);
        let (method, path, body) = match kind {
            LargeRequest::References => {
                post("/v1/responses", asks(vec![reference; 100], json!({})))
            }
            LargeRequest::CountedReferences => post(
                "/v1/responses/input_tokens",
                asks(vec![reference; 100], json!({})),
            ),
            LargeRequest::Reference => post(
                "/v1/responses/input_tokens",
                asks(vec![reference], json!({})),
            ),
            LargeRequest::Page => get(format!(
                "/v1/conversations/{}/items?limit=100",
                self.conversation
            )),
            LargeRequest::Item => get(format!(
                "/v1/conversations/{}/items/{}",
                self.conversation, self.item
            )),
            LargeRequest::Continuation => post("/v1/responses", asks("go on", more)),
            LargeRequest::Response => get(format!("/v1/responses/{}", self.answered)),
            LargeRequest::RunningInput => {
                get(format!("/v1/responses/{}/input_items", self.running))
            }
            LargeRequest::Input => get(format!("/v1/responses/{}/input_items", self.last)),
            LargeRequest::Viewer => get(format!("/v1/responses/{}?stream=true", self.answered)),
            LargeRequest::Body => post(
                "/v1/responses/input_tokens",
                asks(words(LARGE / 2), json!({})),
            ),
            LargeRequest::Steer | LargeRequest::Lanes => {
                let headers = format!("authorization: Bearer {}-token-1\r\n", self.owner);
                let socket = Socket::open_with(proxy, &headers).await;
                let writing = tokio::spawn(write(socket, kind, self.last.clone()));
                return Unread::Socket(AbortOnDrop(writing.abort_handle()));
            }
        };
        let bearer = format!("Bearer {}-token-1", self.owner);
        let headers = [("authorization", bearer.as_str())];
        let reply = match method {
            "GET" => proxy.open_get(&path, &headers).await,
            _ => proxy.open_at(&path, body.to_string(), &headers).await,
        };
        let status = reply.status;
        assert!(STATUSES.contains(&status), "{kind:?}: {status}");
        Unread::Reply(reply)
    }

    /// Asks for much so many times at once.
    async fn open_many(&self, proxy: &Proxy, kind: LargeRequest, times: usize) -> Vec<Unread> {
        join_all((0..times).map(|_| self.open(proxy, kind))).await
    }

    /// A small turn, which is answered whatever others do.
    async fn turn(&mut self, proxy: &Proxy) {
        let small = self.small_turn();
        let reply = send(proxy, self.owner, "POST /v1/responses", &small).await;
        self.acknowledged(&small, &reply);
    }

    fn small_turn(&self) -> Value {
        let text = format!("turn {} of {}", self.turns.len(), self.owner);
        asks(text, json!({}))
    }

    fn acknowledged(&mut self, turn: &Value, reply: &Reply) {
        let input = turn["input"].as_str().unwrap().to_owned();
        self.turns.push((id(&ok(reply)), input));
    }

    /// Everything that was acknowledged is there.
    async fn check(&self, proxy: &Proxy) {
        for (response, text) in &self.turns {
            let path = format!("GET /v1/responses/{response}/input_items");
            let listed = ok(&send(proxy, self.owner, &path, &Value::Null).await);
            assert_eq!(listed["data"][0]["content"][0]["text"], **text);
        }
        for response in [&self.last, &self.answered, &self.running] {
            let path = format!("GET /v1/responses/{response}");
            ok(&send(proxy, self.owner, &path, &Value::Null).await);
        }
        let path = format!(
            "GET /v1/conversations/{}/items?limit=100&order=asc",
            self.conversation
        );
        let listed = ok(&send(proxy, self.owner, &path, &Value::Null).await);
        assert_ne!(listed["data"], json!([]));
    }
}

/// How often a client asks for much at once.
const TIMES: usize = 16;
/// Requests that find no room wait for some seconds, so several kinds are sent together.
const KINDS_AT_ONCE: usize = 3;
/// How often what is counted and what lives are compared.
const MEASUREMENTS: usize = 1_000;
/// How often each of three owners asks for much.
const STEPS: usize = 6;
/// The statuses that a large request may get.
const STATUSES: [u16; 3] = [200, 400, 503];

/// Asks for much on a socket and reads nothing, until this is dropped.
async fn write(mut socket: Socket, kind: LargeRequest, last: String) {
    for number in 0..8 {
        let message = if matches!(kind, LargeRequest::Steer) {
            json!({"type": "response.steer", "previous_response_id": "resp_1", "input": words(MIB)})
        } else {
            let more = json!({
                "type": "response.create",
                "previous_response_id": last,
                "stream_id": format!("lane{number}"),
            });
            asks("go on", more)
        };
        // The server may end the connection of one who asks for too much.
        socket
            .send_frame(TEXT, message.to_string().as_bytes())
            .await;
    }
    std::future::pending::<()>().await;
}

/// Promise: One budget bounds the memory of requests, answers, recordings, memories and what is
/// read of the store: what it counts is what lives, an answer costs at most four times its size,
/// and beyond the budget new requests wait for a moment and are refused with 503 and `Retry-After`,
/// and running turns go on. `/metrics` shows what is used.
#[kit::test(minutes = 10)]
async fn whatever_a_client_asks_for_of_what_is_stored_the_memory_has_its_limit() {
    let _alone = ALONE.lock().await;
    each_large_request(false).await;
}

#[kit::test(minutes = 10)]
async fn what_is_counted_of_what_is_stored_is_what_lives() {
    let _alone = ALONE.lock().await;
    each_large_request(true).await;
}

/// Alice sends many large requests of each kind, and bob has a small turn meanwhile.
async fn each_large_request(counted: bool) {
    let (proxy, _player) = start(&["alice", "bob"], counted).await;
    let at_rest = if counted {
        Some(measured(&proxy).await)
    } else {
        None
    };
    let alice = Stored::fill(&proxy, "alice", LARGE, 3, 2).await;
    let mut bob = Stored {
        owner: "bob",
        turns: Vec::new(),
        ..Stored::fill(&proxy, "bob", 1000, 1, 1).await
    };
    let mut most_counted = 0;
    for kinds in LARGE_REQUESTS.chunks(KINDS_AT_ONCE) {
        let opened = kinds
            .iter()
            .map(|kind| alice.open_many(&proxy, *kind, TIMES));
        let (opened, ()) = tokio::join!(join_all(opened), bob.turn(&proxy));
        bob.turn(&proxy).await;
        let answers = opened.iter().flatten();
        let statuses: Vec<u16> = answers.filter_map(Unread::status).collect();
        let what = format!("{kinds:?}: {statuses:?}");
        assert!(statuses.iter().any(|status| *status != 503), "{what}");
        match at_rest {
            Some(at_rest) => {
                most_counted = most_counted.max(check_counted(&proxy, at_rest, &what).await);
            }
            None => check_memory(&proxy, &what),
        }
        drop(opened);
        proxy.wait_until_idle().await;
    }
    assert!(most_counted > 4 * LARGE || !counted, "{most_counted} bytes");
    bob.check(&proxy).await;
}

fn check_memory(proxy: &Proxy, what: &str) {
    let peak = proxy.memory().own_peak();
    assert!(peak < BUDGET + BESIDES, "{what}: {} MiB", peak / MIB);
}

/// The bytes that are counted of requests and answers, and those that live.
async fn measured(proxy: &Proxy) -> [usize; 2] {
    let headers = [("authorization", "Bearer operator-token-1")];
    let metrics = proxy.get_with("/metrics", &headers).await.body;
    let of_kind = |kind: &str| -> usize {
        let name = format!("respondent_memory_bytes{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse().unwrap()
    };
    let counted = of_kind("requests") + of_kind("answers");
    [counted, proxy.live_bytes().now]
}

/// What is counted and what lives has grown by about the same, once nothing is on its way. Returns
/// by how much.
async fn check_counted(proxy: &Proxy, at_rest: [usize; 2], what: &str) -> usize {
    proxy.wait_until_idle().await;
    let mut grown = [0, 0];
    for _ in 0..MEASUREMENTS {
        let now = measured(proxy).await;
        grown = [0, 1].map(|of| now[of].saturating_sub(at_rest[of]));
        let [counted, live] = grown;
        if live.abs_diff(counted) < counted / 5 + MIB {
            return counted;
        }
    }
    panic!("{what}: what is counted and what lives has grown by {grown:?} bytes");
}

/// Three owners store and ask for much at random, and each of them has small turns between.
#[kit::test(minutes = 10)]
async fn three_owners_at_once_are_answered_whatever_they_ask_for_and_nothing_is_lost() {
    let _alone = ALONE.lock().await;
    let seed = seed();
    let _seed = SeedOnFailure(seed);
    let mut random = SeededRandom::new(seed);
    let (proxy, _player) = start(&["alice", "bob", "carol"], false).await;
    let filled = ["alice", "bob", "carol"].map(|name| {
        let large = random.within((MIB / 2, LARGE / 2));
        let (items, chain) = (random.within((1, 4)), random.within((1, 3)));
        Stored::fill(&proxy, name, large, items, chain)
    });
    let mut owners = join_all(filled).await;
    let seeds: Vec<u64> = owners.iter().map(|_| random.next_u64()).collect();
    let all = owners
        .iter_mut()
        .zip(seeds)
        .map(|(stored, seed)| at_random(&proxy, stored, seed));
    join_all(all).await;
    check_memory(&proxy, "three owners");
    for stored in &owners {
        stored.check(&proxy).await;
    }
}

async fn at_random(proxy: &Proxy, stored: &mut Stored, seed: u64) {
    let mut random = SeededRandom::new(seed);
    let mut held = Vec::new();
    for _ in 0..STEPS {
        held.truncate(random.below(held.len() + 1));
        let kind = random.pick(&LARGE_REQUESTS).unwrap();
        let times = random.within((1, TIMES));
        let small = stored.small_turn();
        let (opened, response) = tokio::join!(
            stored.open_many(proxy, kind, times),
            send(proxy, stored.owner, "POST /v1/responses", &small)
        );
        held.extend(opened);
        stored.acknowledged(&small, &response);
    }
}
