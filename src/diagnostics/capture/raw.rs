//! A turn as it is taken down while it runs: in memory, never printed, never
//! written. What leaves the program is made of it by [`Raw::turn`] and redacted.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::plan::plan;
use adapters::responses::assembler::Terms;
use adapters::responses::request::Source;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use registry::{Route, Settings};

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
    pub(super) headers: HeaderMap,
    pub(super) body: Arc<String>,
    pub(super) asked: String,
    pub(super) routes: Vec<Route>,
    pub(super) near: Vec<String>,
    pub(super) given: Given,
    pub(super) attempts: Vec<RawAttempt>,
    pub(super) status: Option<StatusCode>,
    pub(super) answer_headers: HeaderMap,
    pub(super) answer: Stream,
    /// How many readings of the clock there were, and those that differ.
    pub(super) readings: u64,
    pub(super) clock: Vec<(u64, u64)>,
    pub(super) random: Vec<u128>,
    pub(super) ending_us: Option<u64>,
    pub(super) ended: Option<Ended>,
    /// Bytes that the large parts take.
    pub(super) bytes: usize,
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
    pub(super) route: Route,
    pub(super) terms: Terms,
    pub(super) body: Kept,
    pub(super) key: Option<usize>,
    pub(super) head: Option<(u64, StatusCode, HeaderMap)>,
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
    pub(super) fn new(request_id: Arc<str>, config: Arc<Config>, began_ms: u64) -> Self {
        Self {
            request_id,
            config,
            began_ms,
            took_us: 0,
            path: String::new(),
            headers: HeaderMap::new(),
            body: Arc::default(),
            asked: String::new(),
            routes: Vec::new(),
            near: Vec::new(),
            given: Given::default(),
            attempts: Vec::new(),
            status: None,
            answer_headers: HeaderMap::new(),
            answer: Stream::default(),
            readings: 0,
            clock: Vec::new(),
            random: Vec::new(),
            ending_us: None,
            ended: None,
            bytes: 0,
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
            Settings::nowhere(&self.asked, &self.config.registry, &self.near)
        } else {
            Settings::of(&self.asked, &self.routes)
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
                headers: pairs(&self.headers),
                body: self.body.as_bytes().to_vec(),
            },
            answer: Answer {
                status: self.status.map_or(0, |status| status.as_u16()),
                headers: pairs(&self.answer_headers),
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

    /// The plan: it depends on the request and on what was known alone.
    fn plan(&self) -> Option<Vec<u8>> {
        let items = self.given.items.iter();
        let items: HashMap<String, Arc<str>> = items
            .map(|(id, json)| (id.clone(), json.as_str().into()))
            .collect();
        let source = Source::shared(Arc::clone(&self.body)).with_items(items);
        let turn = source.turn().ok()?;
        serde_json::to_vec_pretty(&plan(&turn)).ok()
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

impl RawAttempt {
    fn attempt(&self, took_us: u64) -> Attempt {
        let model = &self.route.model;
        Attempt {
            at_us: self.at_us,
            end_us: self.end_us.unwrap_or(took_us),
            route: self.route.full_name(),
            url: self.upstream.url().to_string(),
            headers: pairs(self.upstream.headers()),
            key: self.key,
            window: Some(model.window()),
            bytes_per_token: self.terms.bytes_per_token,
            estimated_input: self.terms.estimated_input,
            head: self.head.as_ref().map(|(at_us, status, headers)| Head {
                at_us: *at_us,
                status: status.as_u16(),
                headers: pairs(headers),
            }),
            pieces: self.answer.pieces().to_vec(),
            ended: self.ended,
            fault: self.fault.clone(),
            body: self.body.bytes.to_vec(),
            answer: self.answer.bytes(),
        }
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        })
        .collect()
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
