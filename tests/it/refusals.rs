//! Refusals of real servers, each with the rule that it stands for (`fixtures/refusals`): the proxy
//! finds the change of its request that the server wants.
mod lab;
mod minimal;
mod others;
mod property;
mod sessions;

use std::fmt::Write as _;
use std::fs;

use futures_util::future::join_all;
use kit::player::{PlayerRequest, PlayerWire, RecordedRequest, ScriptedRefusal};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::lab::{Lab, LabServer, body_key};
use crate::literals::root;

/// This part of the refusals has to be answered with the right change, in percent.
const HEALED: usize = 95;

/// The most requests that a refused turn may cost.
const MAX_REQUESTS: usize = 4;

/// How many servers are behind one proxy.
const BATCH: usize = 50;

/// A refusal of a server. The other members of an entry are for its readers.
#[derive(Clone, Debug, Deserialize)]
struct RefusalEntry {
    name: String,
    server: String,
    #[serde(default = "chat")]
    wire: PlayerWire,
    status: u16,
    body: Value,
    /// What the server refuses; null if it refuses everything.
    #[serde(default)]
    rule: Value,
    /// What the provider has beside the usual quirks.
    #[serde(default)]
    quirks: Map<String, Value>,
    /// What the client asks for beside the usual request.
    #[serde(default)]
    ask: Map<String, Value>,
}

fn chat() -> PlayerWire {
    PlayerWire::Chat
}

impl RefusalEntry {
    /// All entries with a rule.
    fn all() -> Vec<Self> {
        let folder = fs::read_dir(root().join("fixtures/refusals")).unwrap();
        let mut names: Vec<_> = folder.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        let files = names.iter().map(|name| name.to_str().unwrap());
        files
            .flat_map(|name| read::<Vec<Self>>(&format!("refusals/{name}")))
            .collect()
    }

    fn refusal(&self) -> Value {
        let mut refusal = json!({"rule": self.rule, "status": self.status});
        refusal[body_key(&self.body, "text")] = self.body.clone();
        refusal
    }

    fn refuses(&self, request: &RecordedRequest) -> bool {
        let refusal: ScriptedRefusal = serde_json::from_value(self.refusal()).unwrap();
        let path = request
            .head
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let sent = PlayerRequest::from_body(&request.body);
        refusal.answer(&PlayerRequest { path, ..sent }).is_some()
    }

    fn server(&self) -> LabServer {
        LabServer {
            name: self.name.clone(),
            wire: self.wire,
            quirks: self.quirks.clone(),
            refuse: vec![self.refusal()],
            ..LabServer::default()
        }
    }
}

/// Reads a file of `fixtures`.
fn read<T: DeserializeOwned>(path: &str) -> T {
    let text = fs::read_to_string(root().join("fixtures").join(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Promise: Of the refusals that real servers are known for, in any words and languages, 95 % are
/// answered with the one change that the server wants.
///
/// A turn costs at most four requests, and the next one none besides its own.
#[kit::test]
async fn refusals_of_real_servers_are_answered_with_the_right_change() {
    let entries = RefusalEntry::all();
    let (mut mistakes, mut failures) = (String::new(), Vec::new());
    for batch in entries.chunks(BATCH) {
        let lab = Lab::start(batch.iter().map(RefusalEntry::server)).await;
        let judged = join_all(batch.iter().map(|entry| judge(&lab, entry))).await;
        for (entry, judged) in batch.iter().zip(judged) {
            match judged {
                Ok(()) => {}
                Err(Verdict::Mistake(told)) => {
                    let _ = writeln!(mistakes, "{}: {told}", entry.name);
                }
                Err(Verdict::Unhealed(told)) => {
                    let tried = lab.told(&entry.name);
                    failures.push(format!(
                        "{} ({}): {told}\n{tried}",
                        entry.name, entry.server
                    ));
                }
            }
        }
    }
    let (all, healed) = (entries.len(), entries.len() - failures.len());
    println!(
        "{healed} of {all} refusals are healed\n\n{}",
        failures.join("\n")
    );
    assert!(mistakes.is_empty(), "no refusals:\n{mistakes}");
    assert!(
        healed * 100 >= all * HEALED,
        "{healed} of {all} refusals are healed"
    );
}

enum Verdict {
    /// The entry is not a refusal of the request.
    Mistake(String),
    Unhealed(String),
}

async fn judge(lab: &Lab, entry: &RefusalEntry) -> Result<(), Verdict> {
    let unhealed = |told: String| Err(Verdict::Unhealed(told));
    let first = lab.ask(&entry.name, &entry.ask).await;
    let sent = lab.requests(&entry.name);
    let Some(refused) = sent.first().filter(|request| entry.refuses(request)) else {
        let first = format!(
            "{first:?} {}",
            sent.first().map_or("", |request| &request.body)
        );
        return Err(Verdict::Mistake(format!(
            "the first request is not refused: {first}"
        )));
    };
    let words = refused.refusal.to_string();
    if [
        "{path}",
        "{dots}",
        "{slashes}",
        "{loc}",
        "{name}",
        "{found}",
        "{limit}",
    ]
    .iter()
    .any(|placeholder| words.contains(placeholder))
    {
        return Err(Verdict::Mistake(format!("not filled in: {words}")));
    }
    if let Err(told) = first {
        return unhealed(told);
    }
    if sent.len() > MAX_REQUESTS {
        return unhealed(format!("{} requests", sent.len()));
    }
    let needless = needless_changes(entry, &refused.json(), &sent[sent.len() - 1].json());
    if !needless.is_empty() {
        return unhealed(format!("changed without need: {needless:?}"));
    }
    let learned = lab.learned(&entry.name).await;
    if learned != 1 {
        return unhealed(format!("{learned} changes are learned"));
    }
    let second = lab.ask(&entry.name, &entry.ask).await;
    let more = lab.requests(&entry.name).len() - sent.len();
    match second {
        Err(told) => unhealed(format!("the second turn: {told}")),
        Ok(()) if more != 1 => unhealed(format!("{more} requests of the second turn")),
        Ok(()) => Ok(()),
    }
}

/// Members of a request that belong together.
const TOGETHER: [&[&str]; 9] = [
    &["max_tokens", "max_completion_tokens", "max_output_tokens"],
    &["logprobs", "top_logprobs", "include"],
    &[
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
    ],
    &["response_format", "messages"],
    &["text", "input", "instructions"],
    &[
        "reasoning_effort",
        "thinking",
        "enable_thinking",
        "chat_template_kwargs",
    ],
    &["reasoning", "include", "input"],
    &["tools", "tool_choice", "parallel_tool_calls", "input"],
    &["stream", "stream_options"],
];

/// What follows from a change: a model whose temperature is fixed has no log probabilities, schemas
/// of answers keep the rules of those of tools, and calls of a tool that is left out become text.
const CONSEQUENCES: [(&str, &[&str]); 2] = [
    ("temperature", &["logprobs", "top_logprobs", "include"]),
    ("tools", &["response_format", "messages"]),
];

/// The members that were changed although the rule does not speak of them.
fn needless_changes(entry: &RefusalEntry, first: &Value, last: &Value) -> Vec<String> {
    let Some(path) = entry.rule.pointer("/at/path").and_then(Value::as_str) else {
        return Vec::new();
    };
    let member = path.split(['.', '[']).next().unwrap_or_default();
    let is_near = |name: &str| {
        let mut groups = TOGETHER.iter();
        let mut consequences = CONSEQUENCES.iter();
        name == member
            || groups.any(|group| group.contains(&name) && group.contains(&member))
            || consequences.any(|(cause, effects)| *cause == member && effects.contains(&name))
    };
    let names = [first, last].into_iter().filter_map(Value::as_object);
    let mut changed: Vec<String> = names
        .flat_map(Map::keys)
        .filter(|name| first.get(name) != last.get(name) && !is_near(name))
        .cloned()
        .collect();
    changed.dedup();
    changed
}
