//! Compaction: replaces the history of a session with a summary.
//!
//! | file | what it does |
//! |---|---|
//! | `trigger` | the four ways in which a compaction begins |
//! | `summary` | gets a summary, from the model or without one |
//! | `summary_checks` | whether the model's answer is a usable summary |
//! | `artifacts` | stores the outputs that the summary names |
//! | `retained` | which items of the history stay beside the summary |
//!
//! The summary is a step of the client's answer: it is asked for in hidden rounds, and the client's
//! stream gets heartbeats meanwhile. The client always gets a valid item: if no model writes a
//! summary, an extract of the session takes its place. Only an invalid request and the shutdown of
//! the process are errors. A summary that follows an answer may also fail: then there is none, and
//! the answer ends without it.

mod artifacts;
mod retained;
mod summary;
mod summary_checks;
mod trigger;

use std::sync::Arc;

use adapters::event::{Event, Finish, Fragment, Usage};
use adapters::fault::Fault;
use adapters::json;
use adapters::purpose::Purpose;
use adapters::responses::assembler::{AnswerParams, ResponseStatus, RoundItem};
use adapters::responses::compaction_response::CompactionResponse;
use adapters::stop_flag::StopReason;
use registry::Route;

use summary::{Summarizer, Summary};
pub(super) use trigger::CompactionTrigger;

use super::caller::TurnKind;
use super::engine::{Answer, Step};
use super::routed_history::RoutedHistory;

/// A request that needs a compaction, alone, before its answer or after it.
pub(super) struct Compaction {
    pub(super) trigger: CompactionTrigger,
    /// The most tokens that a request and its answer may have without being compacted. `None` if
    /// the request alone is known to have more.
    pub(super) limit: Option<u64>,
    pub(super) history: RoutedHistory,
    /// The session's tools as a JSON list, if the request brought none.
    pub(super) tools: Option<Arc<str>>,
    /// The id of the response.
    pub(super) id: String,
    /// The `created_at` of the response, in Unix seconds.
    pub(super) created_at: u64,
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
            relayed_tools: registry::EnumSet::empty(),
        }
    }

    /// Makes the summary and writes it to the answer. Returns the step that follows: the turn with
    /// the compacted history, if the client wants more than the summary.
    pub(super) async fn run(self: Box<Self>, answer: &mut Answer<'_>) -> Result<Step, Fault> {
        match self.trigger {
            CompactionTrigger::Endpoint => {
                answer.record.caller.kind = TurnKind::Compaction;
                let summary = self.summarize(answer).await?;
                Ok(Step::Document(self.document(answer, &summary)))
            }
            CompactionTrigger::TriggerItem => {
                answer.record.caller.kind = TurnKind::Compaction;
                answer.open_stream().await;
                let summary = self.summarize(answer).await?;
                answer
                    .assembler
                    .write_compaction(&summary.blob, &mut answer.events);
                answer.complete(summary.usage).await
            }
            CompactionTrigger::LocalPrompt => {
                answer.record.caller.kind = TurnKind::Compaction;
                answer.open_stream().await;
                let summary = self.summarize(answer).await?;
                let text = Fragment::from_escaped(json::escape(&summary.text));
                answer.write(Event::Text(text, None))?;
                answer.complete(summary.usage).await
            }
            CompactionTrigger::Threshold if answer.assembler.awaits_end() => {
                self.end_answer(answer).await
            }
            CompactionTrigger::Threshold => {
                answer.open_stream().await;
                let summary = self.summarize(answer).await?;
                answer
                    .assembler
                    .write_compaction(&summary.blob, &mut answer.events);
                answer.send().await;
                let purpose = Purpose::Compacted {
                    blob: summary.blob,
                    from: summary.retained_from,
                };
                answer.assembler.begin_round();
                if let Some(tools) = &mut answer.tools {
                    let source = self.history.source.with_purpose(purpose.clone());
                    tools.history.source = source;
                }
                let (round, _) = self.history.prepare(answer.ctx, purpose)?;
                Ok(Step::Upstream(Box::new(round)))
            }
        }
    }

    /// Ends an answer that is complete. If the history is too long with it, a summary of both comes
    /// last. If the summary fails, the answer ends without it.
    async fn end_answer(mut self: Box<Self>, answer: &mut Answer<'_>) -> Result<Step, Fault> {
        if self.is_due(answer) {
            if let Some(tools) = &answer.tools {
                self.history.source = tools.history.source.clone();
            }
            let items = answer.assembler.round_items();
            let items = items.iter().flat_map(RoundItem::to_items).map(Arc::from);
            self.history.source = self.history.source.clone().with_round(items, &[]);
            match self.summarize(answer).await {
                Ok(summary) => {
                    let (assembler, events) = (&mut answer.assembler, &mut answer.events);
                    assembler.write_compaction(&summary.blob, events);
                }
                Err(fault) if answer.ctx.stop.reason() == Some(StopReason::ClientLeft) => {
                    return Err(fault);
                }
                Err(fault) => {
                    let notes = &mut answer.record.notes;
                    notes.add("compaction_failed", fault.client_message());
                }
            }
        }
        let now = answer.ctx.environment.clock.unix();
        answer.assembler.end_held(now, &mut answer.events);
        answer.headers.add_notes(&answer.record.notes);
        answer.send().await;
        Ok(Step::Done)
    }

    /// Whether the request, or the request with its answer, has too many tokens.
    fn is_due(&self, answer: &Answer<'_>) -> bool {
        let usage = answer.assembler.usage().unwrap_or_default();
        let is_counted = answer.assembler.usage_is_counted();
        let tokens = usage.input.saturating_add(usage.output);
        self.limit.is_none_or(|limit| is_counted && tokens > limit)
    }

    async fn summarize(&self, answer: &mut Answer<'_>) -> Result<Summary, Fault> {
        answer.headers.set_route(self.history.preferred_route());
        let assembler = &answer.assembler;
        let answered = assembler.awaits_end().then(|| assembler.items().count());
        let summarizer = Summarizer {
            trigger: self.trigger,
            answered,
            history: &self.history,
            tools: self.tools.as_ref(),
        };
        summarizer.summarize(answer).await
    }

    /// The answer of `POST /v1/responses/compact`: a JSON document.
    fn document(&self, answer: &mut Answer<'_>, summary: &Summary) -> Vec<u8> {
        let compacted = CompactionResponse {
            id: &self.id,
            created_at: self.created_at,
            blob: &summary.blob,
            usage: summary.usage,
            max_message_bytes: summary.user_message_bytes,
        };
        let source = &self.history.source;
        let (document, dropped) = answer
            .ctx
            .run_work(source.size(), || compacted.to_json(source));
        let record = &mut *answer.record;
        if dropped > 0 {
            let detail = format!("{dropped} of the oldest: there is no room for them");
            record.notes.add("user_messages_left_out", detail);
        }
        record.answer_ended(ResponseStatus::Completed);
        answer.headers.add_notes(&record.notes);
        document
    }
}

impl Answer<'_> {
    /// Sends `response.created` at once. A summary takes long, and a client that gets no event
    /// sends its request again.
    pub(super) async fn open_stream(&mut self) {
        self.begin();
        if self.streams() {
            self.send().await;
        }
    }

    pub(super) fn write(&mut self, event: Event<'_>) -> Result<(), Fault> {
        let now = self.ctx.environment.clock.unix();
        self.assembler.event(event, now, &mut self.events)
    }

    /// Ends the answer as completed, with the usage of the summary.
    async fn complete(&mut self, usage: Usage) -> Result<Step, Fault> {
        self.write(Event::Usage(usage))?;
        self.write(Event::Finish(Finish::Stop))?;
        self.record.notes.extend(self.assembler.notes());
        self.headers.add_notes(&self.record.notes);
        self.send().await;
        Ok(Step::Done)
    }
}
