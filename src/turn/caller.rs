//! The client of a turn, and the conversation that the turn belongs to.

use std::borrow::Cow;

use adapters::responses::client_event::CODEX_METADATA;
use adapters::responses::request::TurnSource;
use adapters::turn::{Item, ItemKind, Turn};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use strum::{EnumString, IntoStaticStr};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::background::restored_headers;
use super::logged_sessions::folder_of;
use crate::net::bounded_id;

/// What Codex says about a turn.
const TURN_METADATA: HeaderName = HeaderName::from_static(CODEX_METADATA);

/// Sets Codex's header about the turn. On a WebSocket each message has its own.
pub(super) fn set_turn_metadata(headers: &mut HeaderMap, metadata: &str) {
    if let Ok(value) = HeaderValue::from_str(metadata) {
        headers.insert(TURN_METADATA, value);
    }
}

/// The client behind a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The client is Codex or builds on it. Codex gets some faults in another form than other
    /// clients: see [`Fault::status`](adapters::fault::Fault::status).
    pub codex: bool,
    /// The purpose of the request, according to Codex's turn metadata.
    pub kind: TurnKind,
    /// The request is no turn of the user's own thread: it comes from a sub-agent or a review, or
    /// makes a summary, memories or a title. Codex chooses the models of most of these itself.
    pub helper: bool,
    /// The request is for a few words, such as a title, which need the least reasoning only.
    pub brief: bool,
    /// The sub-agent that a model of Codex's began, if the request is one of its: its path among
    /// the agents of the session, such as `/root/scout`, or just that it is one.
    pub agent: Option<String>,
    /// Codex's id of the conversation.
    thread_id: Option<String>,
    /// The threads that this one was begun for, the nearest first.
    parent_ids: Vec<String>,
    /// Codex's id of what it does for one prompt of its user.
    turn_id: Option<String>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TurnKind {
    /// A turn of the conversation.
    #[default]
    Turn,
    /// Warms up a connection.
    Prewarm,
    /// Summarizes the conversation.
    Compaction,
}

/// The used part of Codex's `x-codex-turn-metadata` header.
#[derive(Default, Deserialize)]
struct CodexTurnMetadata {
    request_kind: Option<String>,
    session_id: Option<String>,
    thread_id: Option<String>,
    parent_thread_id: Option<String>,
    thread_source: Option<String>,
    subagent_kind: Option<String>,
    agent_name: Option<String>,
    turn_id: Option<String>,
}

/// The headers with which Codex marks the requests of its helpers.
const HELPER_HEADERS: [HeaderName; 2] = [SUBAGENT, MEMGEN_REQUEST];
const SUBAGENT: HeaderName = HeaderName::from_static("x-openai-subagent");
const MEMGEN_REQUEST: HeaderName = HeaderName::from_static("x-openai-memgen-request");
const ORIGINATOR: HeaderName = HeaderName::from_static("originator");
const THREAD_ID: HeaderName = HeaderName::from_static("thread-id");
const SESSION_ID: HeaderName = HeaderName::from_static("session-id");
const PARENT_THREAD_ID: HeaderName = HeaderName::from_static("x-codex-parent-thread-id");

/// The headers from which [`Caller::from_headers`] makes the client of a turn. A background
/// response keeps them until it runs.
pub(super) static CALLER_HEADERS: [HeaderName; 8] = [
    USER_AGENT,
    ORIGINATOR,
    THREAD_ID,
    SESSION_ID,
    PARENT_THREAD_ID,
    TURN_METADATA,
    SUBAGENT,
    MEMGEN_REQUEST,
];

/// How Codex marks a sub-agent that a model began, in its metadata and in its header.
const SPAWNED: [&str; 2] = ["thread_spawn", "collab_spawn"];

/// The agent that talks to the user. The metadata of sub-agents of the first version (v1) have its
/// name, too.
const ROOT_AGENT: &str = "/root";

/// How the sources of threads end that exist for a few words.
const BRIEF_SOURCES: [&str; 4] = ["title", "name", "commit_message", "suggestions"];

impl TurnKind {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Caller {
    /// The name in logs.
    pub fn name(&self) -> &'static str {
        if self.codex { "codex" } else { "other" }
    }

    /// Reads the headers that Codex sends (`originator`, `user-agent`, `thread-id`,
    /// `x-codex-turn-metadata`, and those of its helpers).
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let codex = [ORIGINATOR, USER_AGENT]
            .into_iter()
            .any(|name| text(name).is_some_and(|value| value.starts_with("codex")))
            || headers.contains_key(TURN_METADATA);
        let metadata = text(TURN_METADATA)
            .and_then(|json| serde_json::from_str::<CodexTurnMetadata>(json).ok())
            .unwrap_or_default();
        let kind = metadata.request_kind.as_deref();
        let kind = kind.and_then(|kind| kind.parse().ok()).unwrap_or_default();
        let own = |name: HeaderName| text(name).map(str::to_owned);
        let parent = own(PARENT_THREAD_ID).or(metadata.parent_thread_id);
        let source = metadata.thread_source.as_deref();
        let helper = HELPER_HEADERS
            .into_iter()
            .any(|name| text(name).is_some_and(|value| !value.is_empty()))
            || parent.is_some()
            || kind == TurnKind::Compaction
            || source.is_some_and(|source| source != "user");
        let is_brief = |source: &str| BRIEF_SOURCES.iter().any(|end| source.ends_with(end));
        let session = own(SESSION_ID).or(metadata.session_id);
        let is_spawned = [metadata.subagent_kind.as_deref(), text(SUBAGENT)]
            .into_iter()
            .flatten()
            .any(|kind| SPAWNED.contains(&kind));
        let agent = is_spawned.then(|| {
            let name = metadata.agent_name.filter(|name| name != ROOT_AGENT);
            name.unwrap_or_else(|| "sub-agent".to_owned())
        });
        Self {
            codex,
            kind,
            helper,
            brief: source.is_some_and(is_brief),
            agent,
            thread_id: own(THREAD_ID).or(metadata.thread_id),
            parent_ids: parent.into_iter().chain(session).collect(),
            turn_id: metadata.turn_id,
        }
    }

    /// The ids of the sessions whose model a helper gets: its own one, and those that it works for.
    pub(super) fn sessions(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let ids = self.thread_id.iter().chain(&self.parent_ids);
        ids.map(|id| bounded_id(id.into()))
    }

    /// A hash that is the same when the client repeats a request by itself. Codex then writes the
    /// body in another order, but names the same turn. Other clients send the same bytes. Instead
    /// of them, the model, the last item and the length of the body are hashed: a history may be
    /// long.
    pub(super) fn prompt(&self, turn: &Turn<'_>, size: usize) -> u64 {
        if let Some(turn_id) = &self.turn_id {
            return xxh3_64(turn_id.as_bytes());
        }
        let last = turn.items.last();
        let text = last.and_then(Item::plain_text).map(|text| text.decoded());
        let json = last.and_then(Item::raw);
        hash_of_parts([
            Some(&turn.model),
            Some(&size.to_string()),
            text.as_deref(),
            json,
        ])
    }
}

/// The conversation that a turn belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The same for all turns of a conversation; at most 256 bytes, whatever the client sent.
    pub id: String,
    /// The id was derived from the content of the request. A derived session never authorizes
    /// anything.
    pub derived: bool,
    /// The name of the folder that the client works in, if the request tells it. For logs.
    pub folder: Option<Box<str>>,
}

impl Session {
    /// The session's id is Codex's thread id, else the prompt cache key, else a hash of the owner,
    /// the instructions and the first user item.
    pub fn from_turn(caller: &Caller, owner: &str, turn: &Turn<'_>) -> Self {
        if let Some(thread_id) = &caller.thread_id {
            return Self {
                id: bounded_id(thread_id.into()).into_owned(),
                derived: false,
                folder: caller.codex.then(|| folder_of(turn)).flatten(),
            };
        }
        if let Some(key) = &turn.controls.prompt_cache_key {
            return Self {
                id: bounded_id(key.decoded()).into_owned(),
                derived: false,
                folder: None,
            };
        }
        let first_text = turn.items.first().and_then(|item| item.plain_text());
        let first_of_user = turn
            .replaced_items
            .iter()
            .chain(&turn.items)
            .find(|item| item.kind == ItemKind::Message && item.role() == "user");
        let hash = hash_of_parts([
            Some(owner),
            turn.echo.instructions.map(RawValue::get),
            first_text.map(|text| text.decoded()).as_deref(),
            first_of_user.and_then(Item::content).map(RawValue::get),
        ]);
        Self {
            id: format!("{hash:016x}"),
            derived: true,
            folder: None,
        }
    }

    /// The session of a background response that an earlier process has begun: `headers` are those
    /// that are stored with its request. `None` if the request cannot be read.
    pub fn of_stored_request(headers: &str, owner: &str, source: &TurnSource) -> Option<Self> {
        let caller = Caller::from_headers(&restored_headers(headers));
        Some(Self::from_turn(&caller, owner, &source.turn().ok()?))
    }

    /// The turn continues a stored one, which was in this session.
    pub(super) fn continue_stored(&mut self, session: &str) {
        session.clone_into(&mut self.id);
        self.derived = false;
    }

    /// A hash of the id, by which the session keeps the same one of several API keys.
    pub fn affinity(&self) -> u64 {
        xxh3_64(self.id.as_bytes())
    }
}

fn hash_of_parts(parts: [Option<&str>; 4]) -> u64 {
    let mut hasher = Xxh3::new();
    for part in parts {
        // The length tells where a part ends, and whether it is there.
        let length = part.map_or(0, |part| part.len() as u64 + 1);
        hasher.update(&length.to_le_bytes());
        hasher.update(part.unwrap_or_default().as_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::turn::background::{kept_headers, restored_headers};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn codex_is_recognised_by_its_headers() {
        let caller = Caller::from_headers(&headers(&[
            ("originator", "codex_exec"),
            ("thread-id", "t1"),
            (
                "x-codex-turn-metadata",
                r#"{"request_kind":"compaction","thread_id":"t1"}"#,
            ),
        ]));
        assert!(caller.codex);
        assert_eq!(caller.kind, TurnKind::Compaction);
        assert!(!Caller::from_headers(&headers(&[("user-agent", "OpenAI/Python 3.54")])).codex);
    }

    #[test]
    fn helpers_of_codex_are_recognised() {
        for (name, value, helper, brief) in [
            ("x-openai-subagent", "review", true, false),
            ("x-openai-subagent", "", false, false),
            ("x-openai-memgen-request", "true", true, false),
            ("x-codex-parent-thread-id", "t0", true, false),
            (
                "x-codex-turn-metadata",
                r#"{"thread_source":"user"}"#,
                false,
                false,
            ),
            (
                "x-codex-turn-metadata",
                r#"{"thread_source":"subagent"}"#,
                true,
                false,
            ),
            (
                "x-codex-turn-metadata",
                r#"{"parent_thread_id":"t0"}"#,
                true,
                false,
            ),
            (
                "x-codex-turn-metadata",
                r#"{"request_kind":"compaction"}"#,
                true,
                false,
            ),
            (
                "x-codex-turn-metadata",
                r#"{"thread_source":"thread_title"}"#,
                true,
                true,
            ),
            ("x-codex-turn-metadata", "no JSON", false, false),
            ("thread-id", "t1", false, false),
        ] {
            let caller = Caller::from_headers(&headers(&[(name, value)]));
            assert_eq!(
                (caller.helper, caller.brief),
                (helper, brief),
                "{name}: {value}"
            );
        }
        let caller = Caller::from_headers(&headers(&[
            ("thread-id", "own"),
            ("session-id", "root"),
            ("x-codex-parent-thread-id", "parent"),
        ]));
        let sessions: Vec<_> = caller.sessions().collect();
        assert_eq!(sessions, ["own", "parent", "root"]);
    }

    #[test]
    fn a_sub_agent_of_codex_has_a_name() {
        for (metadata, subagent, agent) in [
            (
                r#"{"agent_name":"/root/scout","subagent_kind":"thread_spawn"}"#,
                "collab_spawn",
                Some("/root/scout"),
            ),
            // The metadata alone, as over a WebSocket, and the first version of sub-agents.
            (
                r#"{"agent_name":"/root/scout","subagent_kind":"thread_spawn"}"#,
                "",
                Some("/root/scout"),
            ),
            (
                r#"{"agent_name":"/root","subagent_kind":"thread_spawn"}"#,
                "collab_spawn",
                Some("sub-agent"),
            ),
            ("", "collab_spawn", Some("sub-agent")),
            (r#"{"agent_name":"/root","thread_source":"user"}"#, "", None),
            (r#"{"thread_source":"thread_title"}"#, "", None),
            ("", "review", None),
        ] {
            let caller = Caller::from_headers(&headers(&[
                ("x-codex-turn-metadata", metadata),
                ("x-openai-subagent", subagent),
            ]));
            assert_eq!(caller.agent.as_deref(), agent, "{metadata} {subagent}");
        }
    }

    #[test]
    fn a_background_response_keeps_what_makes_its_caller() {
        for name in &CALLER_HEADERS {
            let value = match name.as_str() {
                CODEX_METADATA => r#"{"turn_id":"t1","thread_source":"subagent"}"#,
                _ => "codex_exec",
            };
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
            let caller = Caller::from_headers(&headers);
            assert_ne!(caller, Caller::default(), "{name}");
            let restored = restored_headers(&kept_headers(&headers));
            assert_eq!(Caller::from_headers(&restored), caller, "{name}");
        }
    }

    #[test]
    fn a_repeated_request_is_of_the_same_prompt() {
        let codex = |turn_id: &str| {
            let metadata = format!(r#"{{"turn_id":"{turn_id}"}}"#);
            let mut headers = HeaderMap::new();
            let metadata = HeaderValue::from_str(&metadata).unwrap();
            headers.insert("x-codex-turn-metadata", metadata);
            Caller::from_headers(&headers)
        };
        let prompt = |caller: &Caller, body: &str| {
            let source = TurnSource::new(body.to_owned());
            caller.prompt(&source.turn().unwrap(), source.size())
        };
        let body = r#"{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        let reordered = r#"{"input":"a","model":"m"}"#;
        assert_eq!(prompt(&codex("t1"), body), prompt(&codex("t1"), reordered));
        assert_ne!(prompt(&codex("t1"), body), prompt(&codex("t2"), body));
        let other = Caller::default();
        assert_eq!(prompt(&other, body), prompt(&other, body));
        for changed in [
            body.replace(r#""b""#, r#""c""#),
            body.replace(r#""a""#, r#""a, or not""#),
            body.replace(r#""m""#, r#""n""#),
            r#"{"model":"m","input":"b"}"#.to_owned(),
        ] {
            assert_ne!(prompt(&other, body), prompt(&other, &changed), "{changed}");
        }
        let text = |text: &str| prompt(&other, &format!(r#"{{"model":"m","input":"{text}"}}"#));
        assert_eq!(text("a"), text("a"));
        assert_ne!(text("a"), text("b"));
    }

    #[test]
    fn a_long_session_id_is_hashed() {
        let session = |key: &str| {
            let body = format!(r#"{{"model":"m","input":"a","prompt_cache_key":"{key}"}}"#);
            let source = TurnSource::new(body);
            Session::from_turn(&Caller::default(), "local", &source.turn().unwrap()).id
        };
        let long = "k".repeat(5_000_000);
        assert!(session(&long).len() <= 256);
        assert_eq!(session(&long), session(&long));
        assert_ne!(session(&long), session(&format!("{long}2")));
        assert_eq!(session("key"), "key");
        let header = "t".repeat(10_000);
        let mut headers = HeaderMap::new();
        headers.insert("thread-id", HeaderValue::from_str(&header).unwrap());
        let source = TurnSource::new(r#"{"model":"m","input":"a"}"#.into());
        let caller = Caller::from_headers(&headers);
        let id = Session::from_turn(&caller, "local", &source.turn().unwrap()).id;
        assert!(id.len() <= 256);
    }

    #[test]
    fn a_session_is_the_same_for_all_turns_of_a_conversation() {
        let first =
            TurnSource::new(r#"{"model":"m","input":[{"role":"user","content":"hi"}]}"#.into());
        let second = TurnSource::new(r#"{"model":"m","input":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"go on"}]}"#.into());
        let session = |source: &TurnSource, caller: &Caller| {
            Session::from_turn(caller, "local", &source.turn().unwrap())
        };
        let other = Caller::default();
        assert_eq!(session(&first, &other), session(&second, &other));
        assert!(session(&first, &other).derived);
        let codex = Caller::from_headers(&headers(&[("thread-id", "t1")]));
        assert_eq!(
            session(&second, &codex),
            Session {
                id: "t1".into(),
                derived: false,
                folder: None,
            }
        );
    }
}
