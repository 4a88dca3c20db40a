//! One reply: a plain body, or steps that are streamed or composed into one completion.

use super::chat::{CompletionRenderer, StreamRenderer};
use super::dialect::{ChatDialect, ReplyForm, StreamErrorForm};
use super::http::{self, PlayerRequest};
use super::responses::ResponsesRenderer;
use super::script::{ConnectionCut, ScriptStep, ScriptedAnswer, has_explicit_end};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;

const EVENTS: &str = "text/event-stream";
const DOCUMENT: &str = "application/json";

/// How a reply ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReplyEnd {
    /// With a complete body; another request may follow on the connection.
    Whole,
    /// The connection is to be closed.
    Fin,
    /// The connection is to be reset.
    Rst,
}

/// Writes the reply; an error means that the peer has closed the connection.
pub(super) async fn write_reply<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &ScriptedAnswer,
    request: &PlayerRequest,
    gate: &Semaphore,
) -> io::Result<ReplyEnd> {
    if answer.gated {
        wait_at(gate).await;
    }
    pause(answer.head_delay_ms).await;
    if let Some(body) = &answer.body {
        return write_whole(to, answer, answer.status, "text/plain", body).await;
    }
    if let Some(json) = &answer.json {
        return write_whole(to, answer, answer.status, DOCUMENT, &json.to_string()).await;
    }
    let dialect = answer.dialect.clone().unwrap_or_default();
    if let Some((kind, body)) = error_page(&answer.steps, &dialect) {
        return write_whole(to, answer, answer.status, kind, &body).await;
    }
    if streams(&dialect, request) {
        write_stream(to, answer, &dialect, request, gate).await
    } else {
        write_completion(to, answer, &dialect, request, gate).await
    }
}

/// The body of a reply made of steps, up to a stall or a cut.
pub(super) fn render_body(answer: &ScriptedAnswer, request: &PlayerRequest) -> String {
    let dialect = answer.dialect.clone().unwrap_or_default();
    if let Some((_, body)) = error_page(&answer.steps, &dialect) {
        return body;
    }
    let steps = StepIter::new(&answer.steps)
        .take_while(|step| !matches!(step, ScriptStep::Stall(_) | ScriptStep::Cut(_)));
    if !streams(&dialect, request) && !request.is_responses() {
        let mut completion = CompletionRenderer::new(&dialect, request);
        steps.for_each(|step| completion.add(step));
        let (Ok(body) | Err(body)) = completion.body();
        return body.to_string();
    }
    let mut renderer = AnyRenderer::new(&dialect, request);
    let mut bytes = renderer.begin();
    let automatic_end = !has_explicit_end(&answer.steps);
    let mut usage = None;
    for step in steps {
        match step {
            ScriptStep::Usage(counts) if automatic_end => usage = Some(counts),
            _ => bytes.push_str(&renderer.render(step)),
        }
    }
    if automatic_end {
        bytes.push_str(&renderer.end(usage));
    }
    bytes
}

/// Whether the steps of a reply, with their repetitions, are more than this.
pub(super) fn has_more_steps_than(answer: &ScriptedAnswer, number: usize) -> bool {
    StepIter::new(&answer.steps).nth(number).is_some()
}

fn streams(dialect: &ChatDialect, request: &PlayerRequest) -> bool {
    match dialect.form {
        ReplyForm::Asked => request.streams(),
        ReplyForm::Document => false,
        ReplyForm::Events => true,
    }
}

fn content_type(dialect: &ChatDialect, events: bool) -> &'static str {
    if events == dialect.mislabelled {
        DOCUMENT
    } else {
        EVENTS
    }
}

/// Content type and body if the steps begin with an error and the dialect sends it instead of a
/// stream.
fn error_page(steps: &[ScriptStep], dialect: &ChatDialect) -> Option<(&'static str, String)> {
    let first = StepIter::new(steps).find(|step| {
        !matches!(
            step,
            ScriptStep::Gate(_) | ScriptStep::DelayMs(_) | ScriptStep::Usage(_)
        )
    });
    let Some(ScriptStep::Error(error)) = first else {
        return None;
    };
    match dialect.error {
        StreamErrorForm::Document => Some((DOCUMENT, json!({"error": error}).to_string())),
        StreamErrorForm::Html => {
            let message = error.get("message").and_then(Value::as_str);
            let message = message.unwrap_or("Something went wrong.");
            let page = format!(
                "<!DOCTYPE html>\n<html><head><title>Error</title></head><body><h1>{message}</h1></body></html>\n"
            );
            Some(("text/html", page))
        }
        StreamErrorForm::Chunk
        | StreamErrorForm::InChunk
        | StreamErrorForm::Event
        | StreamErrorForm::List
        | StreamErrorForm::Bare => None,
    }
}

async fn write_whole<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &ScriptedAnswer,
    status: u16,
    kind: &str,
    body: &str,
) -> io::Result<ReplyEnd> {
    let mut bytes = http::reply_head(status, &answer.headers, kind, Some(body.len()));
    bytes.push_str(body);
    to.write_all(bytes.as_bytes()).await?;
    to.flush().await?;
    Ok(if sets_content_length(&answer.headers) {
        ReplyEnd::Fin
    } else {
        ReplyEnd::Whole
    })
}

async fn write_completion<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &ScriptedAnswer,
    dialect: &ChatDialect,
    request: &PlayerRequest,
    gate: &Semaphore,
) -> io::Result<ReplyEnd> {
    let kind = content_type(dialect, false);
    if request.is_responses() {
        let mut renderer = ResponsesRenderer::new(dialect, request);
        for step in StepIter::new(&answer.steps) {
            renderer.render(step);
        }
        let body = renderer.into_response().to_string();
        return write_whole(to, answer, answer.status, kind, &body).await;
    }
    let mut completion = CompletionRenderer::new(dialect, request);
    for step in StepIter::new(&answer.steps) {
        match step {
            ScriptStep::Gate(_) => wait_at(gate).await,
            ScriptStep::DelayMs(time) => pause(*time).await,
            ScriptStep::Stall(_) => std::future::pending().await,
            ScriptStep::Cut(cut) => return Ok(cut.end()),
            _ => completion.add(step),
        }
    }
    match completion.body() {
        Ok(body) => write_whole(to, answer, answer.status, kind, &body.to_string()).await,
        Err(body) => write_whole(to, answer, 500, kind, &body.to_string()).await,
    }
}

async fn write_stream<W: AsyncWrite + Unpin>(
    to: &mut W,
    answer: &ScriptedAnswer,
    dialect: &ChatDialect,
    request: &PlayerRequest,
    gate: &Semaphore,
) -> io::Result<ReplyEnd> {
    let kind = content_type(dialect, true);
    let head = http::reply_head(answer.status, &answer.headers, kind, None);
    to.write_all(head.as_bytes()).await?;
    let sets_length = sets_content_length(&answer.headers);
    let mut out = ReplyBodyWriter {
        to,
        split: answer.split,
        pending: Vec::new(),
        chunked: !sets_length,
    };
    let mut renderer = AnyRenderer::new(dialect, request);
    out.put(renderer.begin().as_bytes()).await?;
    let automatic_end = !has_explicit_end(&answer.steps);
    let mut usage = None;
    for step in StepIter::new(&answer.steps) {
        match step {
            ScriptStep::Gate(_) => {
                out.put(renderer.render(step).as_bytes()).await?;
                out.flush().await?;
                wait_at(gate).await;
            }
            ScriptStep::DelayMs(time) => {
                out.put(renderer.render(step).as_bytes()).await?;
                out.flush().await?;
                pause(*time).await;
            }
            ScriptStep::Stall(_) => {
                out.put(renderer.render(step).as_bytes()).await?;
                out.flush().await?;
                std::future::pending::<()>().await;
            }
            ScriptStep::Cut(cut) => {
                out.put(renderer.render(step).as_bytes()).await?;
                out.flush().await?;
                return Ok(cut.end());
            }
            ScriptStep::Usage(counts) if automatic_end => usage = Some(counts),
            _ => out.put(renderer.render(step).as_bytes()).await?,
        }
        if answer.gap_ms > 0 {
            out.flush().await?;
            pause(answer.gap_ms).await;
        }
    }
    if automatic_end {
        out.put(renderer.end(usage).as_bytes()).await?;
    }
    out.flush().await?;
    if sets_length {
        return Ok(ReplyEnd::Fin);
    }
    out.to.write_all(b"0\r\n\r\n").await?;
    out.to.flush().await?;
    Ok(ReplyEnd::Whole)
}

impl ConnectionCut {
    fn end(self) -> ReplyEnd {
        match self {
            Self::Fin => ReplyEnd::Fin,
            Self::Rst => ReplyEnd::Rst,
        }
    }
}

/// The renderer for the wire of the request.
enum AnyRenderer<'d> {
    Chat(Box<StreamRenderer<'d>>),
    Responses(Box<ResponsesRenderer<'d>>),
}

impl<'d> AnyRenderer<'d> {
    fn new(dialect: &'d ChatDialect, request: &'d PlayerRequest) -> Self {
        if request.is_responses() {
            Self::Responses(Box::new(ResponsesRenderer::new(dialect, request)))
        } else {
            Self::Chat(Box::new(StreamRenderer::new(dialect, request)))
        }
    }

    fn begin(&self) -> String {
        match self {
            Self::Chat(renderer) => renderer.begin(),
            // Its first events come with the first step.
            Self::Responses(_) => String::new(),
        }
    }

    fn render(&mut self, step: &ScriptStep) -> String {
        match self {
            Self::Chat(renderer) => renderer.render(step),
            Self::Responses(renderer) => renderer.render(step),
        }
    }

    fn end(&mut self, usage: Option<&Map<String, Value>>) -> String {
        match self {
            Self::Chat(renderer) => renderer.end(usage),
            Self::Responses(renderer) => renderer.end(usage),
        }
    }
}

/// Writes a streamed body in writes of `split` bytes, or as it comes if `split` is 0.
struct ReplyBodyWriter<'a, W> {
    to: &'a mut W,
    split: usize,
    pending: Vec<u8>,
    chunked: bool,
}

impl<W: AsyncWrite + Unpin> ReplyBodyWriter<'_, W> {
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

/// The steps in order; repeats are unrolled as they are reached.
struct StepIter<'a> {
    open: Vec<(&'a [ScriptStep], std::slice::Iter<'a, ScriptStep>, u64)>,
}

impl<'a> StepIter<'a> {
    fn new(steps: &'a [ScriptStep]) -> Self {
        Self {
            open: vec![(steps, steps.iter(), 1)],
        }
    }
}

impl<'a> Iterator for StepIter<'a> {
    type Item = &'a ScriptStep;

    fn next(&mut self) -> Option<&'a ScriptStep> {
        loop {
            let (steps, ahead, times) = self.open.last_mut()?;
            match ahead.next() {
                Some(ScriptStep::Repeat(inner)) if inner.times > 0 && !inner.steps.is_empty() => {
                    self.open
                        .push((&inner.steps, inner.steps.iter(), inner.times));
                }
                Some(ScriptStep::Repeat(_)) => {}
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

fn sets_content_length(headers: &BTreeMap<String, String>) -> bool {
    headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("content-length"))
}

/// Waits until a test opens the gate for one reply.
async fn wait_at(gate: &Semaphore) {
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
}

async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}
