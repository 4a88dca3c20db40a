//! The listener and its connections, and the requests that they recorded.

use super::http::{self, PlayerRequest};
use super::refusal::{RefusalRule, ScriptedRefusal};
use super::reply::{ReplyEnd, write_reply};
use super::responses_checks::MadeItems;
use super::script::{PlayerScript, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

/// At most this many requests are recorded; later ones are served without a record.
const MAX_RECORDS: usize = 10_000;
/// At most this many bytes of bodies are kept; beyond that the oldest bodies are emptied.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Computes the answer to a request.
pub type AnswerFunction = Box<dyn Fn(&PlayerRequest) -> ScriptedAnswer + Send + Sync>;

/// A running scripted upstream. A test starts it with a script; dropping it ends the listener and
/// all connections.
#[derive(Debug)]
pub struct Player {
    address: SocketAddr,
    wire: Option<PlayerWire>,
    base_path: String,
    /// Each with whether it is used up.
    answers: Arc<Mutex<Vec<(ScriptedAnswer, bool)>>>,
    log: Arc<RequestLog>,
    gate: Arc<Semaphore>,
    _stop: DropGuard,
}

/// A POST request that the player got, and how its reply ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Request line and headers, as sent.
    pub head: String,
    /// The body.
    pub body: String,
    /// The reply was sent to its scripted end, which may be a cut.
    pub finished: bool,
    /// The peer closed the connection.
    pub closed: bool,
    /// A refusal rule of the script matched the request.
    pub refused: bool,
    /// What was refused: the body of the reply.
    pub refusal: Value,
}

impl RecordedRequest {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Player {
    /// Plays a script on a free loopback port.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start(script: PlayerScript) -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// Plays a script on this address.
    ///
    /// # Errors
    /// The address could not be bound.
    pub async fn start_on(address: SocketAddr, script: PlayerScript) -> io::Result<Self> {
        let PlayerScript {
            wire,
            mut models,
            model_list,
            model_pages,
            base_path,
            key,
            public_list,
            answers,
            dialect,
            mut refuse,
        } = script;
        if wire == Some(PlayerWire::Responses) {
            refuse.push(ScriptedRefusal::new(RefusalRule::InvalidResponsesRequest));
        }
        let answers: Vec<(ScriptedAnswer, bool)> =
            answers.into_iter().map(|answer| (answer, false)).collect();
        let answers = Arc::new(Mutex::new(answers));
        if models.is_empty() {
            models.push("scripted".to_owned());
        }
        let remaining = Arc::clone(&answers);
        let answer_with: AnswerFunction = Box::new(move |request| {
            let mut answer = take_answer(&mut lock(&remaining), request);
            let dialect = answer.dialect.get_or_insert_with(|| dialect.clone());
            if dialect.is_without_reasoning(request) {
                answer.leave_out_reasoning();
            }
            answer
        });
        let state = PlayerState {
            wire,
            models,
            model_list,
            model_pages,
            base_path,
            key,
            public_list,
            refuse,
            answer_with,
            gate: Arc::new(Semaphore::new(0)),
            made: Mutex::default(),
            log: Arc::new(RequestLog {
                limit: MAX_RECORDS,
                ..RequestLog::default()
            }),
        };
        Self::bind(address, state, answers).await
    }

    /// Answers with a function, on a free loopback port, and records no requests.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn serve(models: Vec<String>, answer_with: AnswerFunction) -> io::Result<Self> {
        let state = PlayerState {
            wire: None,
            models,
            model_list: None,
            model_pages: BTreeMap::new(),
            base_path: None,
            key: None,
            public_list: false,
            refuse: Vec::new(),
            answer_with,
            gate: Arc::new(Semaphore::new(0)),
            made: Mutex::default(),
            log: Arc::default(),
        };
        Self::bind((Ipv4Addr::LOCALHOST, 0).into(), state, Arc::default()).await
    }

    async fn bind(
        address: SocketAddr,
        state: PlayerState,
        answers: Arc<Mutex<Vec<(ScriptedAnswer, bool)>>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let log = Arc::clone(&state.log);
        let gate = Arc::clone(&state.gate);
        let wire = state.wire;
        let base_path = state.base_path.clone();
        let state = Arc::new(state);
        let stop = CancellationToken::new();
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(accept(listener, state, stop.clone())),
        );
        Ok(Self {
            address,
            wire,
            base_path: base_path.unwrap_or_else(|| "/v1".to_owned()),
            answers,
            log,
            gate,
            _stop: stop.drop_guard(),
        })
    }

    /// The base URL for a client, without a trailing slash; with `/v1` unless the script says
    /// otherwise.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.base_path)
    }

    /// The only wire that it speaks; `None` if it speaks all.
    pub fn wire(&self) -> Option<PlayerWire> {
        self.wire
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The POST requests so far, in the order they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.log.records).clone()
    }

    /// Adds an answer behind the others. Has no effect with [`Player::serve`].
    pub fn push(&self, answer: ScriptedAnswer) {
        lock(&self.answers).push((answer, false));
    }

    /// Lets one reply go on that waits at the gate, now or later.
    pub fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until this many requests have arrived.
    pub async fn wait_requests(&self, count: usize) {
        self.log.wait(|records| records.len() >= count).await;
    }

    /// Waits until the peer has closed the connection of the n-th request, counted from 0.
    pub async fn wait_closed(&self, n: usize) {
        self.log
            .wait(|records| records.get(n).is_some_and(|record| record.closed))
            .await;
    }
}

/// The first answer whose condition matches and that is not used up.
fn take_answer(answers: &mut [(ScriptedAnswer, bool)], request: &PlayerRequest) -> ScriptedAnswer {
    let matching = answers
        .iter_mut()
        .find(|(answer, used)| !*used && answer.when.matches(request));
    matching.map_or_else(
        || ScriptedAnswer::error(500, "script exhausted"),
        |(answer, used)| {
            *used = !answer.repeat;
            answer.clone()
        },
    )
}

struct PlayerState {
    /// The only wire; all if absent.
    wire: Option<PlayerWire>,
    models: Vec<String>,
    model_list: Option<Value>,
    model_pages: BTreeMap<String, Value>,
    base_path: Option<String>,
    key: Option<(String, String)>,
    public_list: bool,
    /// Checked before an answer is used.
    refuse: Vec<ScriptedRefusal>,
    answer_with: AnswerFunction,
    /// At which the replies wait whose script says so.
    gate: Arc<Semaphore>,
    /// What a strict upstream of the Responses wire has answered.
    made: Mutex<MadeItems>,
    log: Arc<RequestLog>,
}

impl PlayerState {
    /// The reply to a request that breaks a rule.
    fn refusal(&self, request: &PlayerRequest) -> Option<ScriptedAnswer> {
        if !self.wire.is_none_or(|wire| wire.is_of(request)) {
            return None;
        }
        let by_rule = || self.refuse.iter().find_map(|rule| rule.answer(request));
        let by_memory = || {
            let remembers = self.remembers(request);
            let problem = remembers.then(|| lock(&self.made).problem(&request.json))??;
            Some(ScriptedAnswer::error(400, &problem))
        };
        by_rule().or_else(by_memory)
    }

    /// The reply to a request at another path, or without the key.
    fn denial(&self, request: &PlayerRequest) -> Option<ScriptedAnswer> {
        let is_below = |base: &String| {
            let rest = request.path.strip_prefix(base.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if !self.base_path.as_ref().is_none_or(is_below) {
            return Some(ScriptedAnswer::error(404, "no such route"));
        }
        let has = |(name, value): &(String, String)| {
            let mut lines = request
                .head
                .lines()
                .filter_map(|line| line.split_once(": "));
            lines.any(|(sent, found)| sent.eq_ignore_ascii_case(name) && found == value)
        };
        let is_public = self.public_list && request.method == "GET";
        let is_let_in = is_public || self.key.as_ref().is_none_or(has);
        (!is_let_in).then(|| ScriptedAnswer::error(401, "no such key"))
    }

    /// Whether the items of the answer are remembered, and compared when they come back.
    fn remembers(&self, request: &PlayerRequest) -> bool {
        let is_strict =
            |refusal: &ScriptedRefusal| refusal.rule == RefusalRule::InvalidResponsesRequest;
        request.is_responses() && self.refuse.iter().any(is_strict)
    }
}

#[derive(Debug, Default)]
struct RequestLog {
    records: Mutex<Vec<RecordedRequest>>,
    changed: Notify,
    limit: usize,
}

impl RequestLog {
    fn record(&self, request: &PlayerRequest) -> Option<usize> {
        let mut records = lock(&self.records);
        if records.len() >= self.limit {
            return None;
        }
        records.push(RecordedRequest {
            head: request.head.clone(),
            body: request.body.clone(),
            ..RecordedRequest::default()
        });
        let mut kept = 0_usize;
        for record in records.iter_mut().rev() {
            kept = kept.saturating_add(record.body.len());
            if kept > MAX_BODY_BYTES {
                record.body = String::new();
            }
        }
        let index = records.len().checked_sub(1);
        drop(records);
        self.changed.notify_waiters();
        index
    }

    /// The requests for a client that is not written in Rust.
    fn to_json(&self) -> Value {
        let records = lock(&self.records);
        let entry = |record: &RecordedRequest| {
            let path = record.head.split(' ').nth(1).unwrap_or_default();
            json!({
                "path": path, "refusal": record.refusal, "json": record.json(), "body": record.body,
            })
        };
        records.iter().map(entry).collect()
    }

    fn update(&self, indexes: &[usize], change: impl Fn(&mut RecordedRequest)) {
        let mut records = lock(&self.records);
        for index in indexes {
            if let Some(record) = records.get_mut(*index) {
                change(record);
            }
        }
        drop(records);
        self.changed.notify_waiters();
    }

    async fn wait(&self, ready: impl Fn(&[RecordedRequest]) -> bool) {
        loop {
            let changed = self.changed.notified();
            if ready(&lock(&self.records)) {
                return;
            }
            changed.await;
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<PlayerState>, stop: CancellationToken) {
    loop {
        // Accepting fails while the process has no free file descriptor.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let mut indexes = Vec::new();
            if let ClosedBy::Peer = connection(socket, &state, &mut indexes).await {
                state.log.update(&indexes, |record| record.closed = true);
            }
        }));
    }
}

enum ClosedBy {
    Us,
    Peer,
}

async fn connection(
    mut socket: TcpStream,
    state: &PlayerState,
    indexes: &mut Vec<usize>,
) -> ClosedBy {
    let _ = socket.set_nodelay(true);
    let mut buffer = Vec::new();
    loop {
        let Ok(Some(mut request)) = http::read_request(&mut socket, &mut buffer).await else {
            return ClosedBy::Peer;
        };
        let index = if request.method == "POST" {
            state.log.record(&request)
        } else {
            None
        };
        indexes.extend(index);
        request.number = index.unwrap_or_default();
        let denied = state.denial(&request);
        let refused = if request.method == "POST" && denied.is_none() {
            state.refusal(&request)
        } else {
            None
        };
        if let Some(refusal) = &refused {
            state.log.update(index.as_slice(), |record| {
                record.refused = true;
                let text = || refusal.body.clone().map(Value::from);
                record.refusal = refusal.json.clone().or_else(text).unwrap_or_default();
            });
        }
        let answer = denied
            .or(refused)
            .unwrap_or_else(|| answer(state, &request));
        if state.remembers(&request) && !answer.is_endless() {
            lock(&state.made).add(&answer.body_for(&request));
        }
        let (mut reading, mut writing) = socket.split();
        let end = tokio::select! {
            biased;
            end = write_reply(&mut writing, &answer, &request, &state.gate) => end,
            () = peer_closed(&mut reading) => return ClosedBy::Peer,
        };
        let Ok(end) = end else { return ClosedBy::Peer };
        state
            .log
            .update(index.as_slice(), |record| record.finished = true);
        match end {
            ReplyEnd::Whole if !request.closes => {}
            ReplyEnd::Whole | ReplyEnd::Fin => {
                let _ = socket.shutdown().await;
                return ClosedBy::Us;
            }
            ReplyEnd::Rst => {
                let _ = socket.set_zero_linger();
                return ClosedBy::Us;
            }
        }
    }
}

/// Resolves when the peer closes the connection; never if it sends more instead.
async fn peer_closed(reading: &mut ReadHalf<'_>) {
    if let Ok(1..) = reading.peek(&mut [0]).await {
        std::future::pending::<()>().await;
    }
}

fn answer(state: &PlayerState, request: &PlayerRequest) -> ScriptedAnswer {
    match request.method.as_str() {
        "POST" if state.wire.is_none_or(|wire| wire.is_of(request)) => (state.answer_with)(request),
        _ if request.asks_for_requests() => ScriptedAnswer {
            json: Some(state.log.to_json()),
            ..ScriptedAnswer::default()
        },
        "GET" if is_model_list(&request.path) => {
            let mut pages = state.model_pages.iter();
            let page = pages.find(|(mark, _)| request.path.contains(mark.as_str()));
            let page = page.map(|(_, page)| page.clone());
            let model = |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "scripted"});
            let data: Vec<Value> = state.models.iter().map(model).collect();
            let list = || json!({"object": "list", "data": data});
            ScriptedAnswer {
                json: page
                    .or_else(|| state.model_list.clone())
                    .or_else(|| Some(list())),
                ..ScriptedAnswer::default()
            }
        }
        _ => ScriptedAnswer::error(404, "no such route"),
    }
}

/// Whether this is the path of the list of models, with or without a query.
fn is_model_list(path: &str) -> bool {
    let path = path.split('?').next();
    path.is_some_and(|path| path.ends_with("/models"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
