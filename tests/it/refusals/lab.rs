//! Strict servers, one proxy in front of them, and the usual request.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use kit::player::{Player, PlayerScript, PlayerWire, RecordedRequest, ScriptStep, ScriptedAnswer};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::proxy::{Proxy, Reply, Setup, streaming};

/// The members of the usual request.
const REQUEST: &str = include_str!("request.json");

/// The text of every answer.
const ANSWER: &str = "Done.";

/// The model of a server.
const MODEL: &str = "m";

/// A server, and what the configuration says of it.
#[derive(Clone)]
pub struct LabServer {
    pub name: String,
    pub wire: PlayerWire,
    pub quirks: Map<String, Value>,
    /// What it refuses.
    pub refuse: Vec<Value>,
    /// Its answer, if that is not a text.
    pub answer: Value,
    /// Further lines of its table.
    pub settings: &'static str,
    pub models: Vec<String>,
}

impl Default for LabServer {
    fn default() -> Self {
        Self {
            name: String::new(),
            wire: PlayerWire::Chat,
            quirks: Map::new(),
            refuse: Vec::new(),
            answer: json!({"steps": [{"text": ANSWER}]}),
            settings: "",
            models: vec![MODEL.to_owned()],
        }
    }
}

/// The key of a body in a script: a text has one of its own.
pub fn body_key<'a>(body: &Value, text: &'a str) -> &'a str {
    if body.is_string() { text } else { "json" }
}

impl LabServer {
    async fn player(&self) -> Player {
        let mut answer = self.answer.clone();
        answer["repeat"] = true.into();
        let script = json!({
            "wire": self.wire.name(), "models": ["m"], "refuse": self.refuse, "answers": [answer],
        });
        let script: PlayerScript =
            serde_json::from_value(script).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Player::start(script).await.unwrap()
    }

    /// Its table, with everything sent that the wire has.
    fn table(&self, base_url: &str) -> String {
        let quirks = match self.wire {
            PlayerWire::Chat => json!({
                "system_role": "developer", "system_place": "anywhere", "strict_tools": true,
                "verbosity": true, "service_tier": true, "prompt_cache_key": true,
                "cache_control": true, "reasoning_control": "effort",
                "reasoning_replay": "reasoning_content",
            }),
            PlayerWire::Responses => json!({}),
        };
        let mut quirks = quirks.as_object().unwrap().clone();
        quirks.extend(self.quirks.clone());
        let quirks = toml::to_string(&quirks).unwrap();
        let Self { name, settings, .. } = self;
        let wire = self.wire.name();
        let mut models = String::new();
        for id in &self.models {
            let _ = writeln!(
                models,
                "[[providers.{name}.models]]\nid = \"{id}\"\nwindow = 2000000\nimages = true\n\
                 audio = true\nreasoning = [\"none\", \"low\", \"medium\", \"high\"]"
            );
        }
        format!(
            "[providers.{name}]\nwire = \"{wire}\"\nbase_url = \"{base_url}\"\n\
             key_required = false\ndiscover = \"off\"\n{settings}\n{models}\
             [providers.{name}.quirks]\n{quirks}"
        )
    }
}

/// The servers, and the proxy.
pub struct Lab {
    setup: Setup,
    proxy: Proxy,
    players: BTreeMap<String, Player>,
}

impl Lab {
    pub async fn start(servers: impl IntoIterator<Item = LabServer>) -> Self {
        let (mut setup, mut players) = (usual_setup(), BTreeMap::new());
        for server in servers {
            let player = server.player().await;
            setup = setup.tables(&server.table(&player.base_url()));
            let other = players.insert(server.name.clone(), player);
            assert!(other.is_none(), "two are named {}", server.name);
        }
        Self {
            proxy: start(setup.clone()).await,
            setup,
            players,
        }
    }

    /// Starts a proxy for servers that one player plays.
    pub async fn start_for(servers: &[LabServer], player: &Player) -> Self {
        let tables = servers
            .iter()
            .map(|server| server.table(&player.base_url()));
        let setup = tables.fold(usual_setup(), |setup, table| setup.tables(&table));
        Self {
            proxy: start(setup.clone()).await,
            setup,
            players: BTreeMap::new(),
        }
    }

    /// Ends the proxy, has its database changed and starts it again.
    pub async fn restart(self, change: impl FnOnce(&Connection)) -> Self {
        Self {
            proxy: self.proxy.restart_with(&self.setup, change).await,
            ..self
        }
    }

    /// Sends the usual request, with these members, to a model of a server as a stream.
    pub async fn post(&self, name: &str, model: &str, ask: &Map<String, Value>) -> Reply {
        let mut body: Value = serde_json::from_str(REQUEST).unwrap();
        body["model"] = format!("{name}/{model}").into();
        // Each server has a session of its own.
        body["prompt_cache_key"] = name.into();
        body.as_object_mut().unwrap().extend(ask.clone());
        self.proxy.post(&streaming(&body)).await
    }

    /// The same, which must be answered; else what the client got.
    pub async fn ask(&self, name: &str, ask: &Map<String, Value>) -> Result<(), String> {
        let reply = self.post(name, MODEL, ask).await;
        if reply.status != 200 {
            return Err(format!("{} {}", reply.status, reply.body));
        }
        let stream = reply.stream();
        let text = stream.response.pointer("/output/0/content/0/text");
        let is_answered = stream.terminal == "response.completed" && text == Some(&json!(ANSWER));
        let told = || format!("{}: {}", stream.terminal, stream.response["error"]);
        is_answered.then_some(()).ok_or_else(told)
    }

    pub fn requests(&self, name: &str) -> Vec<RecordedRequest> {
        self.players[name].requests()
    }

    /// The number of changes that were learned for a server.
    pub async fn learned(&self, name: &str) -> usize {
        let labels = format!("provider=\"{name}\"");
        let count = self.proxy.metric("respondent_learned_total", &labels).await;
        format!("{count}").parse().unwrap()
    }

    /// The requests that were tried, as what each changed, and the replies.
    pub fn told(&self, name: &str) -> String {
        let (mut told, mut before) = (String::new(), None);
        for request in self.requests(name) {
            let (json, mut changes) = (request.json(), Vec::new());
            if let Some(before) = &before {
                differences("", before, &json, &mut changes);
            }
            let reply = if request.refused {
                request.refusal.to_string()
            } else {
                "accepted".into()
            };
            let _ = writeln!(told, "    {} -> {reply}", changes.join(", "));
            before = Some(json);
        }
        told
    }
}

fn usual_setup() -> Setup {
    Setup::new().server("data_dir = \"data\"")
}

async fn start(setup: Setup) -> Proxy {
    Proxy::start_for_url("http://127.0.0.1:9/v1", setup).await
}

/// The usual answer.
pub fn done() -> ScriptedAnswer {
    ScriptedAnswer::steps([ScriptStep::Text(ANSWER.to_owned())])
}

/// Whether a client reads a text of a reply that is for people; if it has none, any text.
pub fn tells(told: &str, reply: &Value) -> bool {
    let mut texts = Vec::new();
    collect(reply, &mut texts);
    let is_for_people = |text: &String| text.trim().contains(' ');
    if texts.iter().any(is_for_people) {
        texts.retain(is_for_people);
    }
    let told = plain(told);
    let begin = |text: &String| plain(&text.chars().take(60).collect::<String>());
    texts.iter().any(|text| told.contains(&begin(text)))
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // The text may be a document or an event.
            match serde_json::from_str(text.strip_prefix("data: ").unwrap_or(text)) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => collect(&inner, into),
                _ => into.push(text.clone()),
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, into)),
        Value::Object(object) => object.values().for_each(|value| collect(value, into)),
        _ => {}
    }
}

/// A text without escapes, quotes and spaces.
fn plain(text: &str) -> String {
    let text = text.replace("\\n", "");
    text.chars()
        .filter(|it| !it.is_whitespace() && !"'\"\\".contains(*it))
        .collect()
}

/// Adds the paths at which two values differ, at most eight.
fn differences(path: &str, one: &Value, other: &Value, into: &mut Vec<String>) {
    if one == other || into.len() > 7 {
        return;
    }
    let members = |value: &Value| match value {
        Value::Object(object) => object.clone().into_iter().collect(),
        Value::Array(list) => {
            let named = list.iter().enumerate();
            named
                .map(|(at, value)| (at.to_string(), value.clone()))
                .collect()
        }
        _ => BTreeMap::new(),
    };
    let (old, new) = (members(one), members(other));
    if old.is_empty() || new.is_empty() {
        let mut other = other.to_string();
        other.truncate(
            other
                .char_indices()
                .nth(60)
                .map_or(other.len(), |(at, _)| at),
        );
        into.push(format!("{path} = {other}"));
        return;
    }
    for (name, value) in &old {
        match new.get(name) {
            Some(other) => differences(&format!("{path}/{name}"), value, other, into),
            None => into.push(format!("-{path}/{name}")),
        }
    }
    let added = new.keys().filter(|name| !old.contains_key(*name));
    into.extend(added.map(|name| format!("+{path}/{name}")));
}
