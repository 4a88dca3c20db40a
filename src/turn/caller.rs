//! Who asks, and which conversation it belongs to.

use std::hash::{DefaultHasher, Hash, Hasher};

use adapters::turn::{ItemKind, Turn};
use http::HeaderMap;
use serde::Deserialize;

/// The client behind a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// It is Codex, or builds on it: it wants some faults in another form.
    pub codex: bool,
    /// What the request is for, as Codex says.
    pub kind: TurnKind,
    thread: Option<String>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnKind {
    /// A turn of the conversation.
    #[default]
    Turn,
    /// Warms up a connection.
    Prewarm,
    /// Summarises the conversation.
    Compaction,
}

/// Codex's `x-codex-turn-metadata` header, as far as it is used.
#[derive(Deserialize)]
struct Metadata {
    request_kind: Option<String>,
    thread_id: Option<String>,
}

impl TurnKind {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Prewarm => "prewarm",
            Self::Compaction => "compaction",
        }
    }
}

impl Caller {
    /// The name in logs.
    pub fn name(&self) -> &'static str {
        if self.codex { "codex" } else { "other" }
    }

    /// Reads the headers that Codex sends (`originator`, `user-agent`,
    /// `thread-id`, `x-codex-turn-metadata`).
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let codex = ["originator", "user-agent"]
            .into_iter()
            .any(|name| text(name).is_some_and(|value| value.starts_with("codex")))
            || headers.contains_key("x-codex-turn-metadata");
        let metadata = text("x-codex-turn-metadata")
            .and_then(|json| serde_json::from_str::<Metadata>(json).ok());
        let kind = match metadata.as_ref().and_then(|m| m.request_kind.as_deref()) {
            Some("prewarm") => TurnKind::Prewarm,
            Some("compaction") => TurnKind::Compaction,
            _ => TurnKind::Turn,
        };
        let thread = text("thread-id")
            .map(str::to_owned)
            .or(metadata.and_then(|m| m.thread_id));
        Self {
            codex,
            kind,
            thread,
        }
    }
}

/// The conversation that a turn belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The same for all turns of a conversation.
    pub id: String,
    /// Guessed from the content. A derived session never authorizes anything.
    pub derived: bool,
}

impl Session {
    /// Codex's thread, else the prompt cache key, else a hash of the owner,
    /// the instructions and the first user item.
    pub fn of(caller: &Caller, owner: &str, turn: &Turn<'_>) -> Self {
        if let Some(thread) = &caller.thread {
            return Self {
                id: thread.clone(),
                derived: false,
            };
        }
        if let Some(key) = &turn.controls.prompt_cache_key {
            return Self {
                id: key.decoded().into_owned(),
                derived: false,
            };
        }
        let mut hasher = DefaultHasher::new();
        owner.hash(&mut hasher);
        turn.echo
            .instructions
            .map(serde_json::value::RawValue::get)
            .hash(&mut hasher);
        if let Some(said) = turn.items.first().and_then(|item| item.plain_text()) {
            said.decoded().hash(&mut hasher);
        }
        let first = turn
            .replaced_items
            .iter()
            .chain(&turn.items)
            .find(|item| item.kind == ItemKind::Message && item.role() == "user");
        first
            .and_then(adapters::turn::Item::content)
            .map(serde_json::value::RawValue::get)
            .hash(&mut hasher);
        Self {
            id: format!("{:016x}", hasher.finish()),
            derived: true,
        }
    }

    /// A number that is the same for all turns of a conversation, to choose
    /// among equals by.
    pub fn affinity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use adapters::responses::request::TurnSource;
    use http::HeaderValue;

    use super::*;

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
    fn codex_is_known_by_its_headers() {
        let caller = Caller::of(&headers(&[
            ("originator", "codex_exec"),
            ("thread-id", "t1"),
            (
                "x-codex-turn-metadata",
                r#"{"request_kind":"compaction","thread_id":"t1"}"#,
            ),
        ]));
        assert!(caller.codex);
        assert_eq!(caller.kind, TurnKind::Compaction);
        assert!(!Caller::of(&headers(&[("user-agent", "OpenAI/Python 3.54")])).codex);
    }

    #[test]
    fn a_session_is_the_same_for_all_turns_of_a_conversation() {
        let first =
            TurnSource::new(r#"{"model":"m","input":[{"role":"user","content":"hi"}]}"#.into());
        let second = TurnSource::new(r#"{"model":"m","input":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"go on"}]}"#.into());
        let of = |source: &TurnSource, caller: &Caller| {
            Session::of(caller, "local", &source.turn().unwrap())
        };
        let nobody = Caller::default();
        assert_eq!(of(&first, &nobody), of(&second, &nobody));
        assert!(of(&first, &nobody).derived);
        let codex = Caller::of(&headers(&[("thread-id", "t1")]));
        assert_eq!(
            of(&second, &codex),
            Session {
                id: "t1".into(),
                derived: false
            }
        );
    }
}
