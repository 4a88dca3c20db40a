//! A turn as it is taken down while it runs: in memory, never printed, never
//! written. What leaves the program is made of it by [`Raw::turn`] and redacted.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::plan::{Bounds, plan};
use adapters::responses::request::TurnSource;
use bytes::Bytes;
use http::StatusCode;
use registry::{RegistrySnapshot, Route, Window};

use super::headers::Headers;
use super::room::Room;
use super::stream::Stream;
use crate::config::Config;
use crate::diagnostics::bundle::{Answer, Attempt, Head, Omitted, Request, Turn};
use crate::metrics::Outcome;
use crate::turn::Given;
use crate::upstream::Upstream;

/// A turn that runs or is over.
pub struct Raw {
    pub(super) request_id: Arc<str>,
    pub(super) config: Arc<Config>,
    pub(super) began_ms: u64,
    pub(super) took_us: u64,
    pub(super) path: String,
    pub(super) headers: Headers,
    pub(super) body: Arc<String>,
    pub(super) asked: String,
    pub(super) routes: Vec<Route>,
    pub(super) near: Vec<String>,
    pub(super) given: Given,
    pub(super) attempts: Vec<RawAttempt>,
    pub(super) status: Option<StatusCode>,
    pub(super) answer_headers: Headers,
    pub(super) answer: Stream,
    /// Readings of the clock that differ: how many came before, and seconds.
    pub(super) clock: Vec<(u64, u64)>,
    pub(super) random: Vec<u128>,
    pub(super) ending_us: Option<u64>,
    pub(super) ended: Option<Ended>,
    /// Bytes that the large parts take of the room.
    pub(super) bytes: usize,
    pub(super) room: Arc<Room>,
}

/// How a turn ended.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) notes: Notes,
    pub(super) usage: Option<Usage>,
    pub(super) fault: Option<Fault>,
}

/// One request to a provider.
pub(super) struct RawAttempt {
    pub(super) at_us: u64,
    /// None when the turn ended first: its client left.
    pub(super) end_us: Option<u64>,
    pub(super) upstream: Arc<Upstream>,
    /// Provider, slash, model.
    pub(super) route: String,
    pub(super) window: Window,
    pub(super) bytes_per_token: f32,
    /// Whether earlier reasoning was sent again.
    pub(super) reasoning: bool,
    pub(super) estimated_input: u64,
    pub(super) body: Kept,
    pub(super) key: Option<usize>,
    pub(super) head: Option<(u64, StatusCode, Headers)>,
    pub(super) answer: Stream,
    pub(super) ended: bool,
    pub(super) fault: Option<Fault>,
}

/// A body that is kept or was too large.
pub(super) struct Kept {
    pub(super) bytes: Bytes,
    pub(super) total: usize,
}

impl Raw {
    pub(super) fn new(
        request_id: Arc<str>,
        config: Arc<Config>,
        began_ms: u64,
        room: Arc<Room>,
    ) -> Self {
        Self {
            request_id,
            config,
            began_ms,
            took_us: 0,
            path: String::new(),
            headers: Headers::default(),
            body: Arc::default(),
            asked: String::new(),
            routes: Vec::new(),
            near: Vec::new(),
            given: Given::default(),
            attempts: Vec::new(),
            status: None,
            answer_headers: Headers::default(),
            answer: Stream::default(),
            clock: Vec::new(),
            random: Vec::new(),
            ending_us: None,
            ended: None,
            bytes: 0,
            room,
        }
    }

    /// Whether it ended in a failure, of whatever side.
    pub fn failed(&self) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|ended| ended.outcome.is_failure())
    }

    /// The turn with everything that it takes to run it again. Not redacted.
    pub fn turn(&self) -> Turn {
        let server = &self.config.server;
        let settings = if self.routes.is_empty() {
            RegistrySnapshot::for_unknown_model(&self.asked, &self.config.registry, &self.near)
        } else {
            RegistrySnapshot::new(&self.asked, &self.routes)
        };
        let mut turn = Turn {
            request_id: self.request_id.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_digest: format!("{:016x}", self.config.digest),
            began_ms: self.began_ms,
            took_us: self.took_us,
            outcome: self.ended.as_ref().map(|ended| ended.outcome),
            fault: self.ended.as_ref().and_then(|ended| ended.fault.clone()),
            usage: self.ended.as_ref().and_then(|ended| ended.usage),
            ending_us: self.ending_us,
            request: Request {
                path: self.path.clone(),
                headers: self.headers.pairs(),
                body: self.body.as_bytes().to_vec(),
            },
            answer: Answer {
                status: self.status.map_or(0, |status| status.as_u16()),
                headers: self.answer_headers.pairs(),
                pieces: self.answer.pieces().to_vec(),
                body: self.answer.bytes(),
            },
            attempts: self
                .attempts
                .iter()
                .map(|attempt| attempt.attempt(self.took_us))
                .collect(),
            settings,
            heartbeat_ms: milliseconds(server.heartbeat),
            commit_after_ms: milliseconds(server.commit_after),
            given: self.given.clone(),
            clock: self.clock.clone(),
            random: self
                .random
                .iter()
                .map(|bits| format!("{bits:032x}"))
                .collect(),
            omitted: self.omitted(),
            ..Turn::default()
        };
        if let Some(ended) = &self.ended {
            turn.note(&ended.notes);
        }
        if !turn.attempts.is_empty() {
            turn.plan = self.plan().unwrap_or_default();
        }
        turn
    }

    /// The plan of the first attempt: it depends on the request and on what was known
    /// alone.
    fn plan(&self) -> Option<Vec<u8>> {
        let attempt = self.attempts.first()?;
        let items = self.given.items.iter();
        let items: HashMap<String, Arc<str>> = items
            .map(|(id, json)| (id.clone(), json.as_str().into()))
            .collect();
        let source = TurnSource::from_shared(Arc::clone(&self.body)).with_items(items);
        let turn = source.turn().ok()?;
        let bounds = Bounds {
            window: attempt.window,
            bytes_per_token: attempt.bytes_per_token,
            reasoning: self.attempts.first().is_some_and(|it| it.reasoning),
            outputs: self.given.outputs,
            keeping: self.given.keeping,
        };
        serde_json::to_vec_pretty(&plan(&turn, &bounds)).ok()
    }

    fn omitted(&self) -> Vec<Omitted> {
        let mut omitted = Vec::new();
        let mut check = |what: &str, total: u64, kept: u64| {
            if kept < total {
                omitted.push(Omitted {
                    what: what.to_owned(),
                    total,
                    kept,
                });
            }
        };
        for (index, attempt) in self.attempts.iter().enumerate() {
            let number = index + 1;
            let body = &attempt.body;
            check(
                &format!("attempt {number} request"),
                body.total as u64,
                body.bytes.len() as u64,
            );
            let answer = &attempt.answer;
            check(
                &format!("attempt {number} answer"),
                answer.total(),
                answer.kept(),
            );
        }
        check("answer", self.answer.total(), self.answer.kept());
        omitted
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
        let attempts = self.attempts.iter_mut().map(|attempt| &mut attempt.answer);
        let answers = attempts.chain([&mut self.answer]);
        let blocks = answers.flat_map(Stream::take_blocks);
        self.room.reuse(blocks, self.config.capture.memory);
    }
}

impl RawAttempt {
    fn attempt(&self, took_us: u64) -> Attempt {
        Attempt {
            at_us: self.at_us,
            end_us: self.end_us.unwrap_or(took_us),
            route: self.route.clone(),
            url: self.upstream.url().to_string(),
            headers: Headers::of(self.upstream.headers()).pairs(),
            key: self.key,
            window: Some(self.window),
            bytes_per_token: self.bytes_per_token,
            estimated_input: self.estimated_input,
            head: self.head.as_ref().map(|(at_us, status, headers)| Head {
                at_us: *at_us,
                status: status.as_u16(),
                headers: headers.pairs(),
            }),
            pieces: self.answer.pieces().to_vec(),
            ended: self.ended,
            fault: self.fault.clone(),
            body: self.body.bytes.to_vec(),
            answer: self.answer.bytes(),
        }
    }
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
