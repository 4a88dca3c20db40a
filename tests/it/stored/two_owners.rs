//! Two owners who do the same things at random: neither ever sees anything of the other.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use kit::player::{Player, ScriptedAnswer};
use kit::session::SeededRandom;
use serde_json::{Value, json};

use super::{asks, client, id, ok, says, send, unknown};
use crate::proxy::{Proxy, Reply, Setup};

/// The variable with the seed from which the operations are drawn.
const SEED_VARIABLE: &str = "RESPONDENT_TEST_SEED";

/// The seed unless the variable says otherwise.
const SEED: u64 = 17;

const OPERATIONS: usize = 250;

const NAMES: [&str; 2] = ["alice", "bob"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Response,
    /// A response that runs in the background.
    Job,
    Conversation,
    /// An item of a response or of a conversation.
    Item,
    Artifact,
}

/// What is done with a thing that exists. `{id}` is its id, `{response}` and `{conversation}` are
/// what the caller owns.
const OPERATIONS_ON: &[(Kind, &str)] = &[
    (Kind::Response, "GET /v1/responses/{id}"),
    (Kind::Response, "GET /v1/responses?after={id}"),
    (Kind::Response, "GET /v1/responses/{id}?stream=true"),
    (Kind::Response, "DELETE /v1/responses/{id}"),
    (Kind::Response, "POST /v1/responses/{id}/cancel"),
    (Kind::Response, "GET /v1/responses/{id}/input_items"),
    (Kind::Response, "GET /v1/responses/{id}/sources"),
    (
        Kind::Response,
        "GET /v1/responses/{id}/input_items?order=asc&limit=1",
    ),
    (Kind::Response, "POST /v1/responses"),
    (Kind::Response, "POST /v1/responses/compact"),
    (Kind::Response, "POST /v1/responses/input_tokens"),
    (
        Kind::Response,
        "GET /diagnostics/bundle?select=response:{id}",
    ),
    (Kind::Job, "GET /v1/responses/{id}"),
    (
        Kind::Job,
        "GET /v1/responses/{id}?stream=true&starting_after=1",
    ),
    (Kind::Job, "DELETE /v1/responses/{id}"),
    (Kind::Job, "POST /v1/responses/{id}/cancel"),
    (Kind::Job, "GET /v1/responses/{id}/input_items"),
    (Kind::Job, "POST /v1/responses"),
    (Kind::Conversation, "GET /v1/conversations/{id}"),
    (Kind::Conversation, "POST /v1/conversations/{id}"),
    (Kind::Conversation, "DELETE /v1/conversations/{id}"),
    (Kind::Conversation, "POST /v1/conversations/{id}/items"),
    (
        Kind::Conversation,
        "GET /v1/conversations/{id}/items?limit=100",
    ),
    (
        Kind::Conversation,
        "GET /v1/conversations/{id}/items?order=asc&limit=2",
    ),
    (Kind::Conversation, "POST /v1/responses"),
    (
        Kind::Item,
        "GET /v1/responses/{response}/input_items?after={id}",
    ),
    (
        Kind::Item,
        "GET /v1/conversations/{conversation}/items?after={id}",
    ),
    (
        Kind::Item,
        "GET /v1/conversations/{conversation}/items/{id}",
    ),
    (
        Kind::Item,
        "DELETE /v1/conversations/{conversation}/items/{id}",
    ),
    (Kind::Item, "POST /v1/responses"),
    (Kind::Artifact, "GET /v1/artifacts/{id}"),
    (Kind::Artifact, "GET /v1/artifacts/{id}/search?q=words"),
    (Kind::Artifact, "GET /v1/artifacts?after={id}"),
    (Kind::Artifact, "DELETE /v1/artifacts/{id}"),
    (Kind::Artifact, "POST /mcp"),
];

/// What is listed.
const LISTINGS: [&str; 5] = [
    "GET /v1/artifacts",
    "GET /v1/responses?limit=100",
    "GET /diagnostics/jobs",
    "GET /diagnostics/turns",
    "GET /v1/models",
];

/// What an owner has made.
#[derive(Clone, Debug)]
struct Thing {
    kind: Kind,
    id: String,
    is_deleted: bool,
}

/// What an owner owns, as far as it was told.
#[derive(Default)]
struct OwnerModel {
    things: Vec<Thing>,
    /// Every id in its answers.
    ids: BTreeSet<String>,
    texts: usize,
}

/// A request with the id of somebody's thing.
#[derive(Clone)]
struct DrawnRequest {
    route: String,
    body: Value,
}

impl fmt::Display for DrawnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.route, self.body)
    }
}

/// The seed of what is drawn.
pub fn seed() -> u64 {
    std::env::var(SEED_VARIABLE).map_or(SEED, |seed| seed.parse().unwrap())
}

/// Says with which seed a failure comes again.
pub struct SeedOnFailure(pub u64);

impl Drop for SeedOnFailure {
    #[expect(clippy::print_stderr, reason = "a test that fails says so there")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("set {SEED_VARIABLE}={} to draw the same again", self.0);
        }
    }
}

struct TwoOwners {
    proxy: Proxy,
    random: SeededRandom,
    models: [OwnerModel; 2],
}

#[kit::test]
async fn whatever_two_owners_do_neither_sees_an_id_or_a_text_of_the_other() {
    let seed = seed();
    let _seed = SeedOnFailure(seed);
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let record = Arc::clone(&asked);
    let echo = move |request: &kit::player::PlayerRequest| -> ScriptedAnswer {
        let messages = format!("{:?}", request.messages());
        record.lock().unwrap().push(messages);
        says(&format!(
            "heard: {}",
            request.last_text().chars().take(80).collect::<String>()
        ))
    };
    let player = Player::serve(vec!["m".to_owned()], Box::new(echo))
        .await
        .unwrap();
    let setup = Setup::new()
        .tables("[capture]\nmode = \"all\"")
        .tables(&client("alice", ""))
        .tables(&client("bob", ""));
    let proxy = Proxy::start_with(&player, setup).await;
    let mut owners = TwoOwners {
        proxy,
        random: SeededRandom::new(seed),
        models: Default::default(),
    };
    let mut foreign = 0;
    for _ in 0..OPERATIONS {
        let who = owners.random.below(2);
        match owners.random.below(10) {
            0..3 => owners.make(who).await,
            3 => owners.list(who).await,
            4..7 => owners.use_own(who).await,
            _ => foreign += usize::from(owners.use_other(who).await),
        }
    }
    assert!(foreign > 20, "only {foreign} requests with ids of another");
    owners.check_all().await;
    let asked = asked.lock().unwrap();
    assert!(asked.len() > 50);
    for request in &*asked {
        let of = NAMES.map(|name| request.contains(&words_of(name)));
        assert_ne!(of, [true, true], "one request for both: {request}");
    }
}

/// What is in every text of an owner, and in no other.
fn words_of(name: &str) -> String {
    format!("words of {name}")
}

/// The strings in a JSON document that are ids, which are long and random.
fn collect_ids(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let is_id = |(_, random): (&str, &str)| random.len() >= 16;
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if text.rsplit_once('_').is_some_and(is_id) && text.bytes().all(fits) {
                found.insert(text.clone());
            }
        }
        Value::Array(values) => values.iter().for_each(|it| collect_ids(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| collect_ids(it, found)),
        _ => {}
    }
}

/// The JSON documents of a reply: itself, or the events of a stream.
fn documents(body: &str) -> Vec<Value> {
    if let Ok(whole) = serde_json::from_str(body) {
        return vec![whole];
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

impl TwoOwners {
    /// A text that only this owner has.
    fn text(&mut self, who: usize) -> String {
        let model = &mut self.models[who];
        model.texts += 1;
        format!("{} number {}", words_of(NAMES[who]), model.texts)
    }

    /// A thing of this kind that exists.
    fn living(&mut self, who: usize, fits: impl Fn(Kind) -> bool) -> Option<String> {
        let living = self.models[who].things.iter();
        let ids: Vec<&str> = living
            .filter(|thing| fits(thing.kind) && !thing.is_deleted)
            .map(|thing| thing.id.as_str())
            .collect();
        self.random.pick(&ids).map(str::to_owned)
    }

    /// Sends a request and checks that the answer has nothing of the other owner.
    async fn send(&mut self, who: usize, request: &DrawnRequest) -> Reply {
        let reply = send(&self.proxy, NAMES[who], &request.route, &request.body).await;
        let asked = request.to_string();
        let other = &self.models[1 - who];
        let name = NAMES[who];
        assert!(
            !reply.body.contains(&words_of(NAMES[1 - who])),
            "{name} sees a text of the other one: {asked}: {}",
            reply.body
        );
        for theirs in &other.ids {
            assert!(
                !reply.body.contains(theirs) || asked.contains(theirs),
                "{name} sees {theirs} of the other one: {asked}: {}",
                reply.body
            );
        }
        let mut ids = BTreeSet::new();
        for document in documents(&reply.body) {
            collect_ids(&document, &mut ids);
        }
        ids.retain(|id| !asked.contains(id));
        self.models[who].ids.extend(ids);
        if reply.header("content-type") == Some("text/event-stream; charset=utf-8")
            && !request.route.contains("starting_after")
        {
            reply.stream();
        }
        reply
    }

    async fn post(&mut self, who: usize, path: &str, body: Value) -> Reply {
        let route = format!("POST {path}");
        self.send(who, &DrawnRequest { route, body }).await
    }

    async fn get(&mut self, who: usize, path: &str) -> Reply {
        let route = format!("GET {path}");
        let body = Value::Null;
        self.send(who, &DrawnRequest { route, body }).await
    }

    fn add(&mut self, who: usize, kind: Kind, id: &str) {
        let things = &mut self.models[who].things;
        if !things.iter().any(|thing| thing.id == id) {
            things.push(Thing {
                kind,
                id: id.to_owned(),
                is_deleted: false,
            });
        }
    }

    /// Adds the things of a list.
    fn add_listed(&mut self, who: usize, kind: Kind, reply: &Reply) {
        let list: Value = serde_json::from_str(&reply.body).unwrap();
        for it in list["data"].as_array().unwrap() {
            self.add(who, kind, it["id"].as_str().unwrap());
        }
    }

    /// Makes something.
    async fn make(&mut self, who: usize) {
        let text = self.text(who);
        if self.random.below(4) == 0 {
            let items = json!([{"type": "message", "role": "user", "content": text}]);
            let body = json!({"items": items, "metadata": {"topic": text}});
            let made = ok(&self.post(who, "/v1/conversations", body).await);
            return self.add(who, Kind::Conversation, &id(&made));
        }
        // Both name the same session.
        let mut body = asks(text.as_str(), json!({"prompt_cache_key": "s"}));
        if self.random.below(3) == 0 {
            let log = format!("{text}\n").repeat(5_000);
            body["input"] = json!([
                {"role": "user", "content": text},
                {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": log},
                {"role": "user", "content": text},
            ]);
        }
        match self.random.below(3) {
            0 => {
                let is_response = |kind| matches!(kind, Kind::Response | Kind::Job);
                if let Some(id) = self.living(who, is_response) {
                    body["previous_response_id"] = json!(id);
                }
            }
            1 => {
                if let Some(id) = self.living(who, |kind| kind == Kind::Conversation) {
                    body["conversation"] = json!(id);
                }
            }
            _ => {}
        }
        match self.random.below(3) {
            0 => {
                body["background"] = json!(true);
                let job = id(&ok(&self.post(who, "/v1/responses", body).await));
                self.add(who, Kind::Job, &job);
                if self.random.below(4) == 0 {
                    let cancel = format!("/v1/responses/{job}/cancel");
                    let cancelled = self.post(who, &cancel, Value::Null).await;
                    // It may have ended before.
                    if cancelled.status != 400 {
                        ok(&cancelled);
                    }
                }
                // To its end, so that what comes next does not depend on when it runs.
                let events = format!("/v1/responses/{job}?stream=true");
                self.get(who, &events).await.stream();
            }
            1 => {
                body["stream"] = json!(true);
                let stream = self.post(who, "/v1/responses", body).await.stream();
                assert!(stream.text().contains(&words_of(NAMES[who])));
                self.add(who, Kind::Response, &id(&stream.response));
            }
            _ => {
                let reply = self.post(who, "/v1/responses", body).await;
                assert_eq!(reply.status, 200, "{}", reply.body);
                let response = kit::strict::check_response_or_panic(&reply.body);
                self.add(who, Kind::Response, &id(&response));
            }
        }
    }

    async fn list(&mut self, who: usize) {
        let route = self.random.pick(&LISTINGS).unwrap().to_owned();
        let body = Value::Null;
        let reply = self.send(who, &DrawnRequest { route, body }).await;
        let listed = ok(&reply);
        let listed_ids = |field: &str| -> BTreeSet<String> {
            let data = listed[field].as_array().unwrap().iter();
            data.map(|it| it["id"].as_str().unwrap().to_owned())
                .collect()
        };
        if listed["data"][0]["object"] == "response" {
            let things = self.models[who].things.iter();
            for thing in things.filter(|it| matches!(it.kind, Kind::Response | Kind::Job)) {
                let is_listed = listed_ids("data").contains(&thing.id);
                let may_be_listed = !thing.is_deleted;
                let is_cut = listed["has_more"] == true;
                assert!(
                    is_listed == may_be_listed || (may_be_listed && is_cut),
                    "{thing:?}"
                );
            }
        } else if listed["object"] == "job.list" {
            let things = self.models[who].things.iter();
            let jobs = things.filter(|thing| thing.kind == Kind::Job && !thing.is_deleted);
            let jobs: BTreeSet<String> = jobs.map(|thing| thing.id.clone()).collect();
            assert_eq!(listed_ids("data"), jobs);
        } else if listed["data"][0]["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("art_"))
        {
            self.add_listed(who, Kind::Artifact, &reply);
        }
    }

    /// The request of an operation with this id, with what the caller owns.
    fn request(
        (kind, route): (Kind, &str),
        id: &str,
        own: &(String, String),
        text: &str,
    ) -> DrawnRequest {
        let path = route.replace("{id}", id);
        let path = path.replace("{response}", &own.0);
        let route = path.replace("{conversation}", &own.1);
        let body = match (kind, route.split_once(' ').unwrap()) {
            (Kind::Conversation, ("POST", "/v1/responses")) => {
                asks(text, json!({"conversation": id}))
            }
            (Kind::Item, ("POST", "/v1/responses")) => {
                let input = json!([{"type": "item_reference", "id": id},
                    {"role": "user", "content": text}]);
                asks(input, json!({}))
            }
            (_, ("POST", "/mcp")) => {
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "artifact_read", "arguments": {"id": id}}})
            }
            (Kind::Conversation, ("POST", path)) if path.ends_with("/items") => {
                json!({"items": [{"type": "message", "role": "user", "content": text}]})
            }
            (Kind::Conversation, ("POST", _)) => json!({"metadata": {"topic": text}}),
            (_, ("POST", _)) => asks(text, json!({"previous_response_id": id})),
            _ => Value::Null,
        };
        DrawnRequest { route, body }
    }

    /// Draws what is done with a thing of an owner.
    fn draw(&mut self, whose: usize) -> Option<(Kind, &'static str, Thing)> {
        let (kind, route) = self.random.pick(OPERATIONS_ON)?;
        let things = self.models[whose].things.iter();
        let fitting: Vec<&Thing> = things.filter(|thing| thing.kind == kind).collect();
        let thing = self.random.pick(&fitting)?.clone();
        Some((kind, route, thing))
    }

    /// A response and a conversation of this owner.
    fn own_lists(&mut self, who: usize) -> Option<(String, String)> {
        let response = self.living(who, |kind| kind == Kind::Response)?;
        let conversation = self.living(who, |kind| kind == Kind::Conversation)?;
        Some((response, conversation))
    }

    /// Does something with what an owner has made: what was deleted is answered like what never
    /// was.
    async fn use_own(&mut self, who: usize) {
        let Some((kind, route, thing)) = self.draw(who) else {
            return;
        };
        let Some(own) = self.own_lists(who) else {
            return;
        };
        let text = self.text(who);
        let request = Self::request((kind, route), &thing.id, &own, &text);
        let reply = self.send(who, &request).await;
        // A recorded turn outlives its response, and an item the list that it was found in.
        if kind == Kind::Item || route.contains("/diagnostics/") {
            return;
        }
        if thing.is_deleted {
            let none = Self::request((kind, route), &unknown(&thing.id), &own, &text);
            self.check_unknown(who, &thing.id, &request, reply, &none)
                .await;
            return;
        }
        let refused = matches!(kind, Kind::Response)
            && (route.ends_with("/cancel") || route.contains("stream=true"));
        let expected = if refused { 400 } else { 200 };
        let may_refuse = route.ends_with("/v1/responses") || route.ends_with("/cancel");
        if reply.status == 400 && kind == Kind::Job && may_refuse {
            // A job that was cancelled or has failed may not be continued, and one that has ended
            // may not be cancelled.
            assert!(!reply.body.contains("not_found"), "{}", reply.body);
            return;
        }
        assert_eq!(reply.status, expected, "{request}: {}", reply.body);
        if route.starts_with("DELETE") {
            let things = &mut self.models[who].things;
            if kind == Kind::Artifact {
                // It is there again as soon as a turn has its text in its history.
                things.retain(|it| it.id != thing.id);
            } else {
                let deleted = things.iter_mut().find(|it| it.id == thing.id).unwrap();
                deleted.is_deleted = true;
            }
        }
        if route.contains("items") && route.starts_with("GET") {
            assert!(reply.body.contains(&words_of(NAMES[who])), "{}", reply.body);
            self.add_listed(who, Kind::Item, &reply);
        }
    }

    /// Does something with what the other owner has made. False if there is nothing.
    async fn use_other(&mut self, who: usize) -> bool {
        let Some((kind, route, thing)) = self.draw(1 - who) else {
            return false;
        };
        let Some(own) = self.own_lists(who) else {
            return false;
        };
        let text = self.text(who);
        let request = Self::request((kind, route), &thing.id, &own, &text);
        let none = Self::request((kind, route), &unknown(&thing.id), &own, &text);
        let reply = self.send(who, &request).await;
        self.check_unknown(who, &thing.id, &request, reply, &none)
            .await;
        true
    }

    /// Checks that the answer to a request is the one that an unknown id gets.
    async fn check_unknown(
        &mut self,
        who: usize,
        id: &str,
        request: &DrawnRequest,
        reply: Reply,
        none: &DrawnRequest,
    ) {
        let expected = self.send(who, none).await;
        let name = NAMES[who];
        assert_eq!(
            reply.status, expected.status,
            "{name}: {request}: {} but {none}: {}",
            reply.body, expected.body
        );
        let shown = expected.body.replace(&unknown(id), id);
        assert_eq!(reply.body, shown, "{name}: {request}");
    }

    /// Everything that nobody has deleted is there, with the texts of its owner.
    async fn check_all(&mut self) {
        for who in [0, 1] {
            for thing in self.models[who].things.clone() {
                let path = match thing.kind {
                    Kind::Response | Kind::Job => {
                        format!("/v1/responses/{}/input_items", thing.id)
                    }
                    Kind::Conversation => format!("/v1/conversations/{}", thing.id),
                    Kind::Artifact => format!("/v1/artifacts/{}", thing.id),
                    Kind::Item => continue,
                };
                let reply = self.get(who, &path).await;
                let expected = if thing.is_deleted { 404 } else { 200 };
                assert_eq!(reply.status, expected, "{path}: {}", reply.body);
                let has_words = reply.body.contains(&words_of(NAMES[who]));
                assert!(thing.is_deleted || has_words, "{path}: {}", reply.body);
            }
        }
    }
}
