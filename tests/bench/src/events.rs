//! The response body of a scripted stream: one chunk for each event, then the finish reason, the
//! usage and `[DONE]`.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    clock::now_ns,
    marker::{self, Marker},
    script::Script,
};

const HEAD: &[u8] = br#"data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,"model":"bench","choices":[{"index":0,"delta":{"content":""#;
const TAIL: &[u8] = b"\"},\"finish_reason\":null}]}\n\n";
const ROLE: &[u8] = b"data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const FINISH: &[u8] = b"data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &[u8] = b"data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"bench\",\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":100,\"total_tokens\":200}}\n\n";
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The size of the buffer from which rendered events are split off, so that a flood allocates
/// rarely.
const POOL: usize = 32 * 1024;

/// A response body that plays a [`Script`].
pub(crate) struct ScriptedBody {
    script: Script,
    sent: u64,
    step: BodyStep,
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    pool: BytesMut,
}

enum BodyStep {
    Role,
    Text,
    Hold,
    Finish,
    Usage,
    Done,
    End,
}

impl ScriptedBody {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            sent: 0,
            step: BodyStep::Role,
            due: Instant::now(),
            timer: None,
            pool: BytesMut::new(),
        }
    }

    /// Sets the time of the next burst. The times are fixed from the start of the stream, so that
    /// one late burst does not delay the others.
    fn wait(&mut self, gap: Duration) {
        if gap.is_zero() {
            return;
        }
        self.due += gap;
        let due = self.due;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(due),
            timer @ None => *timer = Some(Box::pin(sleep_until(due))),
        }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = &mut self.timer
            && timer.deadline() > Instant::now()
        {
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Ready(())
    }

    fn text(&mut self) -> Bytes {
        let len = HEAD.len() + marker::LEN + TAIL.len();
        if self.pool.capacity() < len {
            self.pool.reserve(POOL);
        }
        self.pool.extend_from_slice(HEAD);
        Marker {
            index: self.sent,
            sent_ns: now_ns(),
        }
        .write(&mut self.pool);
        self.pool.extend_from_slice(TAIL);
        self.sent += 1;
        self.pool.split().freeze()
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = loop {
            match this.step {
                BodyStep::Role => {
                    this.step = BodyStep::Text;
                    break Bytes::from_static(ROLE);
                }
                BodyStep::Text if this.sent == this.script.events => {
                    this.due = Instant::now();
                    this.wait(this.script.hold);
                    this.step = BodyStep::Hold;
                }
                BodyStep::Text => {
                    ready!(this.poll_due(cx));
                    let text = this.text();
                    if this.sent.is_multiple_of(this.script.burst) {
                        this.wait(this.script.gap);
                    }
                    break text;
                }
                BodyStep::Hold => {
                    if !this.script.hold.is_zero() {
                        ready!(this.poll_due(cx));
                    }
                    this.step = BodyStep::Finish;
                }
                BodyStep::Finish => {
                    this.step = BodyStep::Usage;
                    break Bytes::from_static(FINISH);
                }
                BodyStep::Usage => {
                    this.step = BodyStep::Done;
                    break Bytes::from_static(USAGE);
                }
                BodyStep::Done => {
                    this.step = BodyStep::End;
                    break Bytes::from_static(DONE);
                }
                BodyStep::End => return Poll::Ready(None),
            }
        };
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }
}
