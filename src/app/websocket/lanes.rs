//! The lanes of a WebSocket. The turns of one lane run one after another, those of different lanes
//! at the same time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use adapters::fault::{Fault, Kind, Retry};
use adapters::responses::client_event::CreateEvent;
use bytes::Bytes;
use tokio::time::Instant;

use crate::metrics::{Metrics, OpenStream};
use crate::net::memory::MemoryShare;
use crate::turn::{EventStream, LAST_EVENT_ROOM};

/// The most turns that run at once.
const MAX_RUNNING: usize = 16;
/// The most lanes with names.
const MAX_NAMED: usize = 32;
/// The most turns that wait.
const MAX_WAITING: usize = 64;

/// The lanes of a connection, in the order in which they were used first.
pub(super) struct Lanes {
    metrics: Arc<Metrics>,
    all: Vec<Lane>,
    /// The lane whose turn is asked first, so that all get their share of the connection.
    first: usize,
}

struct Lane {
    name: Option<String>,
    waiting: VecDeque<WaitingTurn>,
    running: Option<RunningLaneTurn>,
    _open: OpenStream,
}

/// A turn that has not begun.
pub(super) struct WaitingTurn {
    pub(super) event: CreateEvent,
    /// The memory of its body.
    pub(super) memory: MemoryShare,
}

struct RunningLaneTurn {
    frames: EventStream,
    deadline: Instant,
}

impl Lanes {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            all: Vec::new(),
            first: 0,
        }
    }

    /// Adds a turn to its lane.
    pub(super) fn add(&mut self, turn: WaitingTurn) -> Result<(), Fault> {
        let waiting: usize = self.all.iter().map(|lane| lane.waiting.len()).sum();
        if waiting >= MAX_WAITING {
            let message = format!(
                "This WebSocket has {MAX_WAITING} requests waiting, as many as it may: send this one again when some of them have ended."
            );
            return Err(Fault {
                retry: Retry::Soon,
                ..Fault::new(Kind::ClientLimit, message)
            });
        }
        let name = &turn.event.stream_id;
        if let Some(lane) = self.all.iter_mut().find(|lane| lane.name == *name) {
            lane.waiting.push_back(turn);
            return Ok(());
        }
        let named = self.all.iter().filter(|lane| lane.name.is_some());
        if name.is_some() && named.count() >= MAX_NAMED {
            let message = format!(
                "This WebSocket has used {MAX_NAMED} different values of 'stream_id', as many as it may: use one of them again, or open another WebSocket."
            );
            let fault = Fault::invalid("stream_id", message);
            return Err(fault.with_code("websocket_stream_limit_reached"));
        }
        self.all.push(Lane {
            name: name.clone(),
            waiting: [turn].into(),
            running: None,
            _open: self.metrics.open_lane(),
        });
        Ok(())
    }

    /// Whether a turn has not begun.
    pub(super) fn has_waiting(&self) -> bool {
        self.all.iter().any(|lane| !lane.waiting.is_empty())
    }

    /// Takes out the turns that have not begun.
    pub(super) fn take_waiting(&mut self) -> Vec<WaitingTurn> {
        let lanes = self.all.iter_mut();
        lanes.flat_map(|lane| lane.waiting.drain(..)).collect()
    }

    /// Whether no turn runs or waits.
    pub(super) fn is_idle(&self) -> bool {
        let mut lanes = self.all.iter();
        lanes.all(|lane| lane.running.is_none() && lane.waiting.is_empty())
    }

    /// When the turn that has to end first may have sent its last event; `None` if no turn runs.
    pub(super) fn last_deadline(&self) -> Option<Instant> {
        let running = self.all.iter().filter_map(|lane| lane.running.as_ref());
        let first = running.map(|turn| turn.deadline).min()?;
        Some(first + LAST_EVENT_ROOM)
    }

    /// Runs the turns up to the next frames of one of them. `begin` begins a turn, which has to end
    /// at the time that it returns.
    pub(super) fn poll_frames(
        &mut self,
        cx: &mut Context<'_>,
        mut begin: impl FnMut(WaitingTurn) -> (EventStream, Instant),
    ) -> Poll<Bytes> {
        loop {
            let mut running = self
                .all
                .iter()
                .filter(|lane| lane.running.is_some())
                .count();
            let count = self.all.len();
            let mut has_ended = false;
            for at in (self.first..count).chain(0..self.first.min(count)) {
                let Some(lane) = self.all.get_mut(at) else {
                    continue;
                };
                if lane.running.is_none()
                    && running < MAX_RUNNING
                    && let Some(turn) = lane.waiting.pop_front()
                {
                    let (frames, deadline) = begin(turn);
                    lane.running = Some(RunningLaneTurn { frames, deadline });
                    running += 1;
                }
                let Some(turn) = &mut lane.running else {
                    continue;
                };
                match turn.frames.poll_chunk(cx) {
                    Poll::Ready(Some(frames)) => {
                        self.first = at + 1;
                        return Poll::Ready(frames);
                    }
                    Poll::Ready(None) => {
                        lane.running = None;
                        running -= 1;
                        has_ended = true;
                    }
                    Poll::Pending => {}
                }
            }
            // Others may begin now.
            if !has_ended {
                return Poll::Pending;
            }
        }
    }
}
