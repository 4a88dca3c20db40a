//! One reply: a plain body, or steps streamed or gathered.

use super::chat::{Completion, Voice};
use super::dialect::{Dialect, ErrorForm, Form};
use super::http::{self, Request};
use super::script::{Answer, Cut, Step, ends_itself};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

const EVENTS: &str = "text/event-stream";
const DOCUMENT: &str = "application/json";

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
        return whole(to, answer, answer.status, DOCUMENT, &json.to_string()).await;
    }
    let dialect = answer.dialect.clone().unwrap_or_default();
    if let Some((kind, body)) = error_page(&answer.steps, &dialect) {
        return whole(to, answer, answer.status, kind, &body).await;
    }
    if streams(&dialect, request) {
        stream(to, answer, &dialect, request).await
    } else {
        compose(to, answer, &dialect, request).await
    }
}

/// The body of a reply made of steps, up to a cut, all at once.
pub(super) fn body(answer: &Answer, request: &Request) -> String {
    let dialect = answer.dialect.clone().unwrap_or_default();
    if let Some((_, body)) = error_page(&answer.steps, &dialect) {
        return body;
    }
    let said =
        Walk::new(&answer.steps).take_while(|step| !matches!(step, Step::Stall(_) | Step::Cut(_)));
    if !streams(&dialect, request) {
        let mut completion = Completion::new(&dialect, request);
        said.for_each(|step| completion.add(step));
        let (Ok(body) | Err(body)) = completion.body();
        return body.to_string();
    }
    let mut voice = Voice::new(&dialect, request);
    let mut bytes = voice.begin();
    let by_itself = !ends_itself(&answer.steps);
    let mut usage = None;
    for step in said {
        match step {
            Step::Usage(counts) if by_itself => usage = Some(counts),
            _ => bytes.push_str(&voice.say(step)),
        }
    }
    if by_itself {
        bytes.push_str(&voice.end(usage));
    }
    bytes
}

fn streams(dialect: &Dialect, request: &Request) -> bool {
    match dialect.form {
        Form::Asked => request.streams(),
        Form::Document => false,
        Form::Events => true,
    }
}

fn content_type(dialect: &Dialect, events: bool) -> &'static str {
    if events == dialect.mislabelled {
        DOCUMENT
    } else {
        EVENTS
    }
}

/// Content type and body of an error that comes in the place of a stream.
fn error_page(steps: &[Step], dialect: &Dialect) -> Option<(&'static str, String)> {
    let first = Walk::new(steps).find(|step| !matches!(step, Step::DelayMs(_) | Step::Usage(_)));
    let Some(Step::Error(error)) = first else {
        return None;
    };
    match dialect.error {
        ErrorForm::Document => Some((DOCUMENT, json!({"error": error}).to_string())),
        ErrorForm::Html => {
            let message = error.get("message").and_then(Value::as_str);
            let message = message.unwrap_or("Something went wrong.");
            let page = format!(
                "<!DOCTYPE html>\n<html><head><title>Error</title></head><body><h1>{message}</h1></body></html>\n"
            );
            Some(("text/html", page))
        }
        ErrorForm::Chunk
        | ErrorForm::InChunk
        | ErrorForm::Event
        | ErrorForm::List
        | ErrorForm::Bare => None,
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
    dialect: &Dialect,
    request: &Request,
) -> io::Result<End> {
    let kind = content_type(dialect, false);
    let mut completion = Completion::new(dialect, request);
    for step in Walk::new(&answer.steps) {
        match step {
            Step::DelayMs(time) => pause(*time).await,
            Step::Stall(_) => std::future::pending().await,
            Step::Cut(cut) => return Ok(cut.end()),
            _ => completion.add(step),
        }
    }
    match completion.body() {
        Ok(body) => whole(to, answer, answer.status, kind, &body.to_string()).await,
        Err(body) => whole(to, answer, 500, kind, &body.to_string()).await,
    }
}

async fn stream<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &Answer,
    dialect: &Dialect,
    request: &Request,
) -> io::Result<End> {
    let kind = content_type(dialect, true);
    let head = http::reply_head(answer.status, &answer.headers, kind, None);
    to.write_all(head.as_bytes()).await?;
    let own_length = own_length(&answer.headers);
    let mut out = Out {
        to,
        split: answer.split,
        pending: Vec::new(),
        chunked: !own_length,
    };
    let mut voice = Voice::new(dialect, request);
    out.put(voice.begin().as_bytes()).await?;
    let by_itself = !ends_itself(&answer.steps);
    let mut usage = None;
    for step in Walk::new(&answer.steps) {
        match step {
            Step::DelayMs(time) => {
                out.put(voice.say(step).as_bytes()).await?;
                out.flush().await?;
                pause(*time).await;
            }
            Step::Stall(_) => {
                out.put(voice.say(step).as_bytes()).await?;
                out.flush().await?;
                std::future::pending::<()>().await;
            }
            Step::Cut(cut) => {
                out.put(voice.say(step).as_bytes()).await?;
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
