//! Compaction: a history becomes a summary, at every door at which a client asks.
//!
//! | module | noun |
//! |---|---|
//! | `door` | where a client asks |
//! | `summary` | what comes of a history: by the model, or without one |
//! | `wording` | what the model wrote, judged |
//! | `lasting` | the outputs that the summary names, kept whole |
//! | `place` | from where on a history stays as it is |
//! | `page` | what the client sees meanwhile |
//!
//! The client always gets a valid item: a summary that no model writes is an extract
//! of the session. Only a request that is wrong itself, and the end of the program,
//! are errors.

mod door;
mod lasting;
mod page;
mod place;
mod summary;
mod wording;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adapters::compact::Purpose;
use adapters::event::{Event, Fragment};
use adapters::fault::{Fault, Kind};
use adapters::json;
use adapters::responses::assembler::{AnswerParams, Assembler, ResponseStatus};
use adapters::responses::compaction_response::CompactionResponse;
use futures_util::FutureExt;
use registry::Route;

pub(super) use door::Door;
use page::Page;
pub(crate) use place::stays_from;
use summary::{Summarizer, Summary};

use super::caller::TurnKind;
use super::ctx::Ctx;
use super::engine::{self, Pace};
use super::prepare::History;
use super::recent::Recent;
use super::record::Record;
use super::sink::Sink;
use super::told::Told;
use crate::secrets::Redactor;

/// A request for a compaction.
pub(super) struct Compaction {
    pub(super) door: Door,
    pub(super) history: History,
    /// The session's tools, where the request came without them.
    pub(super) tools: Option<Arc<str>>,
    /// The id of the answer.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created_at: u64,
    /// Taken by whoever writes the answer.
    pub(super) assembler: Option<Box<Assembler>>,
    pub(super) recent: Option<Arc<Recent>>,
}

impl Compaction {
    /// What the answer's writer knows before anything was sent: the counts are given
    /// to it.
    pub(super) fn terms(routes: &[Route]) -> AnswerParams {
        AnswerParams {
            seal_reasoning: false,
            origin: routes.first().map(Route::full_name).unwrap_or_default(),
            estimated_input_tokens: 0,
            bytes_per_token: registry::Model::BYTES_PER_TOKEN,
        }
    }
}

/// Answers `POST /v1/responses/compact`: the whole answer as JSON.
pub(super) async fn endpoint(
    ctx: &Ctx,
    compaction: Box<Compaction>,
    pace: Pace,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    told: &Told,
) -> Result<Vec<u8>, Fault> {
    record.caller.kind = TurnKind::Compaction;
    let summary = summarize(ctx, &compaction, pace, redactor, record, told).await;
    let Summary {
        blob, usage, room, ..
    } = summary.inspect_err(|_| told.notes(&record.notes))?;
    let compacted = CompactionResponse {
        id: &compaction.id,
        created_at: compaction.created_at,
        blob: &blob,
        usage,
        max_message_bytes: room,
    };
    let (answer, dropped) = compacted.to_json(compaction.history.source.body());
    if dropped > 0 {
        let detail = format!("{dropped} of the oldest: there is no room for them");
        record.notes.add("user_messages_left_out", detail);
    }
    record.usage = Some(usage);
    record.ended(ResponseStatus::Completed);
    told.notes(&record.notes);
    Ok(answer)
}

/// Answers `POST /v1/responses` with a compaction, or with an answer behind one. An
/// error means that nothing was sent.
pub(super) async fn run<S: Sink>(
    ctx: &Ctx,
    mut compaction: Box<Compaction>,
    pace: Pace,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    told: &Told,
    sink: &mut S,
) -> Result<(), Fault> {
    let assembler = compaction.assembler.take();
    let Some(assembler) = assembler else {
        return Err(Fault::new(Kind::Internal, "The answer has no writer."));
    };
    let mut page = Page::new(ctx, assembler, pace.heartbeat, sink);
    if compaction.door != Door::Threshold {
        record.caller.kind = TurnKind::Compaction;
    }
    page.begin(record).await;
    let summary = page
        .meanwhile(summarize(ctx, &compaction, pace, redactor, record, told))
        .await;
    let summary = match summary {
        Ok(summary) => summary,
        Err(fault) => return page.fail(fault, record, told).await,
    };
    match compaction.door {
        Door::Trigger | Door::Endpoint => {
            page.write(|assembler, frames| assembler.write_compaction(&summary.blob, frames));
        }
        Door::Local => {
            let text = json::escape(&summary.text);
            let said = Event::Text(Fragment::from_escaped(text), None);
            let now = ctx.clock.unix();
            page.write(|assembler, frames| {
                // Only a text that is larger than any answer may be is a fault.
                let _ = assembler.event(said, now, frames);
            });
        }
        Door::Threshold => {
            page.write(|assembler, frames| assembler.write_compaction(&summary.blob, frames));
            page.send().await;
            let purpose = Purpose::Compacted {
                blob: summary.blob,
                from: summary.from,
            };
            let mut prepared = match compaction.history.prepared(ctx, purpose) {
                Ok(prepared) => prepared,
                Err(mut fault) => {
                    record.failed(&mut fault, &redactor());
                    return page.fail(fault, record, told).await;
                }
            };
            (prepared.assembler, prepared.begun) = page.leave();
            let terms = prepared.way.terms.clone();
            prepared.assembler.switch_provider(terms);
            prepared.recent = compaction.recent.take();
            drop(compaction);
            let answering = engine::run(ctx, prepared, pace, redactor, record, told, sink);
            return Box::pin(answering).await;
        }
    }
    let recent = compaction.recent.as_deref();
    page.complete(summary.usage, recent, record, told).await;
    Ok(())
}

/// A summary of the history, with its items kept. A defect on the way costs this
/// turn alone. The record knows of the fault already.
async fn summarize(
    ctx: &Ctx,
    compaction: &Compaction,
    pace: Pace,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    told: &Told,
) -> Result<Summary, Fault> {
    let summarizer = Summarizer {
        ctx,
        door: compaction.door,
        history: &compaction.history,
        tools: compaction.tools.as_ref(),
        pace,
        told,
    };
    told.route(compaction.history.home());
    let work = summarizer.summary(redactor, record);
    let done = AssertUnwindSafe(Box::pin(work)).catch_unwind().await;
    done.unwrap_or_else(|_| {
        let message = "Respondent ran into a defect while it summarized this session.";
        let mut fault = Fault::new(Kind::Internal, message);
        record.failed(&mut fault, &redactor());
        Err(fault)
    })
}
