//! Compaction: replaces the history of a session with a summary.
//!
//! | file | what it does |
//! |---|---|
//! | `trigger` | the four ways in which a compaction begins |
//! | `summary` | gets a summary, from the model or without one |
//! | `summary_checks` | whether the model's answer is a usable summary |
//! | `artifacts` | stores the outputs that the summary names |
//! | `retained` | which items of the history stay beside the summary |
//! | `page` | the client's stream while the summary is made |
//!
//! The client always gets a valid item: if no model writes a summary, an extract of the session
//! takes its place. Only an invalid request and the shutdown of the process are errors.

mod artifacts;
mod page;
mod retained;
mod summary;
mod summary_checks;
mod trigger;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adapters::event::{Event, Fragment};
use adapters::fault::{Fault, Kind};
use adapters::json;
use adapters::purpose::Purpose;
use adapters::responses::assembler::{AnswerParams, Assembler, ResponseStatus};
use adapters::responses::compaction_response::CompactionResponse;
use futures_util::FutureExt;
use registry::Route;

use page::Page;
pub(crate) use retained::first_retained_item;
use summary::{Summarizer, Summary};
pub(super) use trigger::CompactionTrigger;

use super::caller::TurnKind;
use super::context::TurnContext;
use super::engine::{self, StreamTiming};
use super::item_cache::ItemCache;
use super::prepared::RoutedHistory;
use super::record::Record;
use super::response_headers::ResponseHeaders;
use super::sink::Sink;
use crate::secrets::Redactor;

/// A request that needs a compaction, alone or before its answer.
pub(super) struct Compaction {
    pub(super) trigger: CompactionTrigger,
    pub(super) history: RoutedHistory,
    /// The session's tools as a JSON list, if the request brought none.
    pub(super) tools: Option<Arc<str>>,
    /// The id of the response.
    pub(super) id: String,
    /// The `created_at` of the response, in Unix seconds.
    pub(super) created_at: u64,
    /// Taken when the answer is written.
    pub(super) assembler: Option<Box<Assembler>>,
    /// Where the answer's items are cached, if the client may refer to them by id.
    pub(super) item_cache: Option<Arc<ItemCache>>,
}

impl Compaction {
    /// The assembler's parameters while no route is chosen. Nothing is estimated with them, because
    /// a compaction gives the assembler its token counts.
    pub(super) fn answer_params(routes: &[Route]) -> AnswerParams {
        AnswerParams {
            seal_reasoning: false,
            origin: routes.first().map(Route::full_name).unwrap_or_default(),
            estimated_input_tokens: 0,
            bytes_per_token: registry::Model::BYTES_PER_TOKEN,
        }
    }
}

/// Answers `POST /v1/responses/compact` with a JSON document.
pub(super) async fn endpoint(
    ctx: &TurnContext,
    compaction: Box<Compaction>,
    timing: StreamTiming,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    headers: &ResponseHeaders,
) -> Result<Vec<u8>, Fault> {
    record.caller.kind = TurnKind::Compaction;
    let summary = summarize(ctx, &compaction, timing, redactor, record, headers).await;
    let Summary {
        blob,
        usage,
        user_message_bytes,
        ..
    } = summary.inspect_err(|_| headers.add_notes(&record.notes))?;
    let compacted = CompactionResponse {
        id: &compaction.id,
        created_at: compaction.created_at,
        blob: &blob,
        usage,
        max_message_bytes: user_message_bytes,
    };
    let (answer, dropped) = compacted.to_json(compaction.history.source.body());
    if dropped > 0 {
        let detail = format!("{dropped} of the oldest: there is no room for them");
        record.notes.add("user_messages_left_out", detail);
    }
    record.usage = Some(usage);
    record.answer_ended(ResponseStatus::Completed);
    headers.add_notes(&record.notes);
    Ok(answer)
}

/// Answers `POST /v1/responses` with a compaction, or with a compaction and the answer to the
/// compacted history. An error means that nothing was sent to the client.
pub(super) async fn run<S: Sink>(
    ctx: &TurnContext,
    mut compaction: Box<Compaction>,
    timing: StreamTiming,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    headers: &ResponseHeaders,
    sink: &mut S,
) -> Result<(), Fault> {
    let assembler = compaction.assembler.take();
    let Some(assembler) = assembler else {
        return Err(Fault::new(Kind::Internal, "The answer has no writer."));
    };
    let mut page = Page::new(ctx, assembler, timing.heartbeat, sink);
    if compaction.trigger != CompactionTrigger::Threshold {
        record.caller.kind = TurnKind::Compaction;
    }
    page.begin(record).await;
    let summary = page
        .wait_with_heartbeat(summarize(
            ctx,
            &compaction,
            timing,
            redactor,
            record,
            headers,
        ))
        .await;
    let summary = match summary {
        Ok(summary) => summary,
        Err(fault) => return page.fail(fault, record, headers).await,
    };
    match compaction.trigger {
        CompactionTrigger::TriggerItem | CompactionTrigger::Endpoint => {
            page.write(|assembler, frames| assembler.write_compaction(&summary.blob, frames));
        }
        CompactionTrigger::LocalPrompt => {
            let text = json::escape(&summary.text);
            let event = Event::Text(Fragment::from_escaped(text), None);
            let now = ctx.clock.unix();
            page.write(|assembler, frames| {
                // This fails only for a text above the size limit of answers.
                let _ = assembler.event(event, now, frames);
            });
        }
        CompactionTrigger::Threshold => {
            page.write(|assembler, frames| assembler.write_compaction(&summary.blob, frames));
            page.send().await;
            let purpose = Purpose::Compacted {
                blob: summary.blob,
                from: summary.retained_from,
            };
            let mut prepared = match compaction.history.prepare(ctx, purpose) {
                Ok(prepared) => prepared,
                Err(mut fault) => {
                    record.failed(&mut fault, &redactor());
                    return page.fail(fault, record, headers).await;
                }
            };
            (prepared.assembler, prepared.begun) = page.into_assembler();
            let params = prepared.attempt.answer_params.clone();
            prepared.assembler.switch_provider(params);
            prepared.item_cache = compaction.item_cache.take();
            drop(compaction);
            let answering = engine::run(ctx, prepared, timing, redactor, record, headers, sink);
            return Box::pin(answering).await;
        }
    }
    let items = compaction.item_cache.as_deref();
    page.complete(summary.usage, items, record, headers).await;
    Ok(())
}

/// Makes a summary of the history. A panic on the way becomes a fault of this turn. The record
/// already has the fault that is returned.
async fn summarize(
    ctx: &TurnContext,
    compaction: &Compaction,
    timing: StreamTiming,
    redactor: &(impl Fn() -> Redactor + Send + Sync),
    record: &mut Record,
    headers: &ResponseHeaders,
) -> Result<Summary, Fault> {
    let summarizer = Summarizer {
        ctx,
        trigger: compaction.trigger,
        history: &compaction.history,
        tools: compaction.tools.as_ref(),
        timing,
        headers,
    };
    headers.set_route(compaction.history.preferred_route());
    let work = summarizer.summarize(redactor, record);
    let result = AssertUnwindSafe(Box::pin(work)).catch_unwind().await;
    result.unwrap_or_else(|_| {
        let message = "Respondent ran into a defect while it summarized this session.";
        let mut fault = Fault::new(Kind::Internal, message);
        record.failed(&mut fault, &redactor());
        Err(fault)
    })
}
