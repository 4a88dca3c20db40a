//! One reply: a plain body, or steps streamed or gathered.

use super::chat::{Completion, Voice};
use super::http::{self, Request};
use super::script::{Answer, Cut, Step, ends_itself};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// How a reply ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// Another request may follow.
    Whole,
    Fin,
    Rst,
}

/// Writes the reply; an error means the peer is gone.
pub(super) async fn play<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &Answer,
    request: &Request,
) -> io::Result<End> {
    pause(answer.head_delay_ms).await;
    if let Some(body) = &answer.body {
        return whole(to, answer, answer.status, "text/plain", body).await;
    }
    if let Some(json) = &answer.json {
        return whole(
            to,
            answer,
            answer.status,
            "application/json",
            &json.to_string(),
        )
        .await;
    }
    if request.streams() {
        stream(to, answer, request).await
    } else {
        compose(to, answer, request).await
    }
}

async fn whole<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &Answer,
    status: u16,
    kind: &str,
    body: &str,
) -> io::Result<End> {
    let mut bytes = http::reply_head(status, &answer.headers, kind, Some(body.len()));
    bytes.push_str(body);
    to.write_all(bytes.as_bytes()).await?;
    to.flush().await?;
    Ok(if own_length(&answer.headers) {
        End::Fin
    } else {
        End::Whole
    })
}

async fn compose<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &Answer,
    request: &Request,
) -> io::Result<End> {
    let mut completion = Completion::new(request);
    for step in Walk::new(&answer.steps) {
        match step {
            Step::DelayMs(time) => pause(*time).await,
            Step::Stall(_) => std::future::pending().await,
            Step::Cut(cut) => return Ok(cut.end()),
            _ => completion.add(step),
        }
    }
    match completion.body() {
        Ok(body) => {
            whole(
                to,
                answer,
                answer.status,
                "application/json",
                &body.to_string(),
            )
            .await
        }
        Err(body) => whole(to, answer, 500, "application/json", &body.to_string()).await,
    }
}

async fn stream<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &Answer,
    request: &Request,
) -> io::Result<End> {
    let head = http::reply_head(answer.status, &answer.headers, "text/event-stream", None);
    to.write_all(head.as_bytes()).await?;
    let own_length = own_length(&answer.headers);
    let mut out = Out {
        to,
        split: answer.split,
        pending: Vec::new(),
        chunked: !own_length,
    };
    let mut voice = Voice::new(request);
    let by_itself = !ends_itself(&answer.steps);
    let mut usage = None;
    for step in Walk::new(&answer.steps) {
        match step {
            Step::DelayMs(time) => {
                out.flush().await?;
                pause(*time).await;
            }
            Step::Stall(_) => {
                out.flush().await?;
                std::future::pending::<()>().await;
            }
            Step::Cut(cut) => {
                out.flush().await?;
                return Ok(cut.end());
            }
            Step::Usage(counts) if by_itself => usage = Some(counts),
            _ => out.put(voice.say(step).as_bytes()).await?,
        }
        if answer.gap_ms > 0 {
            out.flush().await?;
            pause(answer.gap_ms).await;
        }
    }
    if by_itself {
        out.put(voice.end(usage).as_bytes()).await?;
    }
    out.flush().await?;
    if own_length {
        return Ok(End::Fin);
    }
    out.to.write_all(b"0\r\n\r\n").await?;
    out.to.flush().await?;
    Ok(End::Whole)
}

impl Cut {
    fn end(self) -> End {
        match self {
            Self::Fin => End::Fin,
            Self::Rst => End::Rst,
        }
    }
}

/// A streamed body on its way, cut into writes.
struct Out<'a, W> {
    to: &'a mut W,
    split: usize,
    pending: Vec<u8>,
    chunked: bool,
}

impl<W: AsyncWrite + Unpin> Out<'_, W> {
    async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.split == 0 {
            return self.flush().await;
        }
        while self.pending.len() >= self.split {
            let rest = self.pending.split_off(self.split);
            self.flush().await?;
            self.pending = rest;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.pending);
        if self.chunked {
            let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
            framed.append(&mut bytes);
            framed.extend_from_slice(b"\r\n");
            bytes = framed;
        }
        self.to.write_all(&bytes).await?;
        self.to.flush().await
    }
}

/// The steps in order, repeats unrolled as they are reached.
struct Walk<'a> {
    open: Vec<(&'a [Step], std::slice::Iter<'a, Step>, u64)>,
}

impl<'a> Walk<'a> {
    fn new(steps: &'a [Step]) -> Self {
        Self {
            open: vec![(steps, steps.iter(), 1)],
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Step;

    fn next(&mut self) -> Option<&'a Step> {
        loop {
            let (steps, ahead, times) = self.open.last_mut()?;
            match ahead.next() {
                Some(Step::Repeat(inner)) if inner.times > 0 && !inner.steps.is_empty() => {
                    self.open
                        .push((&inner.steps, inner.steps.iter(), inner.times));
                }
                Some(Step::Repeat(_)) => {}
                Some(step) => return Some(step),
                None if *times > 1 => {
                    *times -= 1;
                    *ahead = steps.iter();
                }
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

fn own_length(headers: &BTreeMap<String, String>) -> bool {
    headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("content-length"))
}

async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}
