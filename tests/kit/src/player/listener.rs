//! The listener, its connections, and what it remembers of them.

use super::http::{self, PlayerRequest};
use super::refusal::ScriptedRefusal;
use super::reply::{ReplyEnd, write_reply};
use super::script::{PlayerScript, ScriptedAnswer};
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Requests that are remembered at most; later ones are served all the same.
const RECORDS: usize = 10_000;
/// Bytes of bodies that are remembered at most; beyond it the oldest are emptied.
const RECORD_BYTES: usize = 64 * 1024 * 1024;

/// A pure answer to a request.
pub type AnswerFunction = Box<dyn Fn(&PlayerRequest) -> ScriptedAnswer + Send + Sync>;

/// A running player; dropping it ends the listener and all connections.
#[derive(Debug)]
pub struct Player {
    address: SocketAddr,
    deck: Arc<Mutex<Vec<(ScriptedAnswer, bool)>>>,
    log: Arc<RequestLog>,
    _stop: DropGuard,
}

/// What a POST was, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Request line and headers as sent.
    pub head: String,
    /// The body.
    pub body: String,
    /// The reply was sent to its scripted end, whether or not that was a proper one.
    pub finished: bool,
    /// The peer closed the connection.
    pub closed: bool,
    /// A rule of the script refused it.
    pub refused: bool,
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
            mut models,
            answers,
            dialect,
            refuse,
        } = script;
        let deck: Vec<(ScriptedAnswer, bool)> =
            answers.into_iter().map(|answer| (answer, false)).collect();
        let deck = Arc::new(Mutex::new(deck));
        if models.is_empty() {
            models.push("scripted".to_owned());
        }
        let cards = Arc::clone(&deck);
        let answerer: AnswerFunction = Box::new(move |request| {
            let mut answer = take_answer(&mut lock(&cards), request);
            answer.dialect.get_or_insert_with(|| dialect.clone());
            answer
        });
        let stage = PlayerState {
            models,
            refuse,
            answerer,
            log: Arc::new(RequestLog {
                limit: RECORDS,
                ..RequestLog::default()
            }),
        };
        Self::bind(address, stage, deck).await
    }

    /// Answers by a function, on a free loopback port, and remembers nothing.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn serve(models: Vec<String>, answerer: AnswerFunction) -> io::Result<Self> {
        let stage = PlayerState {
            models,
            refuse: Vec::new(),
            answerer,
            log: Arc::default(),
        };
        Self::bind((Ipv4Addr::LOCALHOST, 0).into(), stage, Arc::default()).await
    }

    async fn bind(
        address: SocketAddr,
        stage: PlayerState,
        deck: Arc<Mutex<Vec<(ScriptedAnswer, bool)>>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let log = Arc::clone(&stage.log);
        let stage = Arc::new(stage);
        let stop = CancellationToken::new();
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(accept(listener, stage, stop.clone())),
        );
        Ok(Self {
            address,
            deck,
            log,
            _stop: stop.drop_guard(),
        })
    }

    /// Where it listens, with `/v1` and without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The POST requests so far, in the order they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.log.records).clone()
    }

    /// Adds an answer behind the others. Without meaning for [`Player::serve`].
    pub fn push(&self, answer: ScriptedAnswer) {
        lock(&self.deck).push((answer, false));
    }

    /// Waits until so many requests came.
    pub async fn wait_requests(&self, count: usize) {
        self.log.wait(|records| records.len() >= count).await;
    }

    /// Waits until the peer closed the connection of the n-th request, counted from 0.
    pub async fn wait_closed(&self, n: usize) {
        self.log
            .wait(|records| records.get(n).is_some_and(|record| record.closed))
            .await;
    }
}

/// The first answer that fits and is not used up.
fn take_answer(deck: &mut [(ScriptedAnswer, bool)], request: &PlayerRequest) -> ScriptedAnswer {
    let fits = deck
        .iter_mut()
        .find(|(answer, used)| !*used && answer.when.matches(request));
    fits.map_or_else(
        || ScriptedAnswer::error(500, "script exhausted"),
        |(answer, used)| {
            *used = !answer.repeat;
            answer.clone()
        },
    )
}

struct PlayerState {
    models: Vec<String>,
    /// Looked at before an answer is used.
    refuse: Vec<ScriptedRefusal>,
    answerer: AnswerFunction,
    log: Arc<RequestLog>,
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
            if kept > RECORD_BYTES {
                record.body = String::new();
            }
        }
        let place = records.len().checked_sub(1);
        drop(records);
        self.changed.notify_waiters();
        place
    }

    fn update(&self, places: &[usize], change: fn(&mut RecordedRequest)) {
        let mut records = lock(&self.records);
        for place in places {
            if let Some(record) = records.get_mut(*place) {
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

async fn accept(listener: TcpListener, stage: Arc<PlayerState>, stop: CancellationToken) {
    loop {
        // A failed accept (no more descriptors) passes; try again a little later.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let stage = Arc::clone(&stage);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let mut places = Vec::new();
            if let ClosedBy::Peer = connection(socket, &stage, &mut places).await {
                stage.log.update(&places, |record| record.closed = true);
            }
        }));
    }
}

/// Who ended a connection.
enum ClosedBy {
    Us,
    Peer,
}

async fn connection(
    mut socket: TcpStream,
    stage: &PlayerState,
    places: &mut Vec<usize>,
) -> ClosedBy {
    let _ = socket.set_nodelay(true);
    let mut buffer = Vec::new();
    loop {
        let Ok(Some(request)) = http::read_request(&mut socket, &mut buffer).await else {
            return ClosedBy::Peer;
        };
        let place = if request.method == "POST" {
            stage.log.record(&request)
        } else {
            None
        };
        places.extend(place);
        let refused = stage
            .refuse
            .iter()
            .find_map(|refusal| refusal.answer(&request))
            .filter(|_| request.method == "POST");
        if refused.is_some() {
            stage
                .log
                .update(place.as_slice(), |record| record.refused = true);
        }
        let answer = refused.unwrap_or_else(|| answer(stage, &request));
        let (mut reading, mut writing) = socket.split();
        let end = tokio::select! {
            biased;
            end = write_reply(&mut writing, &answer, &request) => end,
            () = peer_closed(&mut reading) => return ClosedBy::Peer,
        };
        let Ok(end) = end else { return ClosedBy::Peer };
        stage
            .log
            .update(place.as_slice(), |record| record.finished = true);
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

/// Resolves when the peer closed; never if it sends more instead.
async fn peer_closed(reading: &mut ReadHalf<'_>) {
    if let Ok(1..) = reading.peek(&mut [0]).await {
        std::future::pending::<()>().await;
    }
}

fn answer(stage: &PlayerState, request: &PlayerRequest) -> ScriptedAnswer {
    match request.method.as_str() {
        "POST" => (stage.answerer)(request),
        "GET" if request.path.ends_with("/models") => {
            let model = |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "scripted"});
            let data: Vec<Value> = stage.models.iter().map(model).collect();
            ScriptedAnswer {
                json: Some(json!({"object": "list", "data": data})),
                ..ScriptedAnswer::default()
            }
        }
        _ => ScriptedAnswer::error(404, "no such route"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
