//! The step between two rounds: runs the calls that the model made of the proxy's tools, and makes
//! the request of the next round from their results.

use std::collections::{BTreeSet, HashSet};
use std::future::ready;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::{HostedItem, McpCallError, RoundItem, WithheldCall};
use adapters::token_count::text_tokens;
use adapters::tools::ProxyTool;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::tool_loop::{EndedCall, PlannedCall, ShownSource, ToolLoop, cut_error, key_of};
use super::{Answer, Step};
use crate::clock::milliseconds;
use crate::store::{NewToolRun, ToolRunStatus};
use crate::turn::context::TurnContext;
use crate::turn::observer::TurnEvent;
use crate::turn::tool_results::{ResultForModel, RoundResults};
use crate::turn::tool_runner::{CallRecord, CallSource, ToolEffect, ToolFuture, ToolResult};

/// The most calls of one round that are run. Refused and equal calls have results of their own in
/// the places that are left, and [`NOT_RUN`] beyond them.
pub(super) const MAX_CALLS_AT_ONCE: usize = 20;
/// The most calls of one round, run or not, because each needs a result. More end the answer,
/// unless the client has calls in the same round.
const MAX_CALLS_OF_ROUND: usize = 200;
/// The short result of a call that is not run.
pub(super) const NOT_RUN: &str = "Not run: too many calls at once.";
/// The result of a call with effects that is not run, because a kill would leave no trace of it.
pub(super) const NOT_RECORDED: &str =
    "Not run: the server cannot store at the moment that it runs this call.";
/// The result of a call that was stopped with the answer.
const STOPPED: &str = "The call was stopped: the answer had to end.";
/// The result of a call that ended in a panic.
const DEFECT: &str = "The tool failed because of a defect in the proxy.";
/// How many more answers the model gets after the last round of calls, to notice that nothing is
/// run any more; a model that still calls tools ends the answer.
const ROUNDS_TO_NOTICE: u32 = 2;

impl Answer<'_> {
    /// Runs the calls of the round that ended, and returns the step that follows: another round,
    /// or none if the client has calls to run as well.
    pub(super) async fn run_tools(&mut self) -> Result<Step, Fault> {
        let Some(mut tools) = self.tools.take() else {
            return Err(Fault::new(Kind::Internal, "The answer has no tools."));
        };
        tools.rounds += 1;
        self.record.tool_round();
        let max_rounds = tools.history.config.tools.max_rounds;
        if tools.rounds >= max_rounds.saturating_add(ROUNDS_TO_NOTICE)
            && !self.assembler.has_client_calls()
        {
            let message = format!(
                "Tool execution limit exceeded: after {max_rounds} rounds of tool calls the model still called tools."
            );
            return Err(Fault::new(Kind::Internal, message));
        }
        if tools.rounds == 1
            && let Err(fault) = tools.hash_conversation(self.ctx)
        {
            self.check_may_fail(fault)?;
        }
        let calls: Vec<WithheldCall> = self.assembler.withheld_calls().cloned().collect();
        let ended = self.run_calls(&mut tools, &calls).await?;
        if !self.assembler.has_client_calls() {
            tools.count_unusable_round(&ended)?;
        }
        let found_tools = ended.iter().filter_map(|call| call.found_tools.clone());
        let found_tools: Vec<Arc<str>> = found_tools.collect();
        let (texts, shown) = ended
            .into_iter()
            .map(|call| (call.text, call.shown))
            .unzip();
        let results = self.shorten_results(&mut tools, &calls, texts).await?;
        self.keep_shown(&results, shown);
        let mut results = outputs(&calls, &results);
        results.extend(found_tools);
        if self.assembler.has_client_calls() {
            let now = self.ctx.environment.clock.unix();
            self.assembler
                .finish_with_client_calls(now, &mut self.events);
            tools.record_round(&self.assembler.round_items(), &results);
            tools.remember();
            self.tools = Some(tools);
            self.send().await;
            return Ok(Step::Done);
        }
        let items = self.assembler.round_items();
        let sources = tools.sources.clone();
        tools.record_round(&items, &results);
        tools.hidden.entries.extend(tools.shown.take());
        tools.remember();
        let items = items.iter().flat_map(RoundItem::to_items);
        let items = items.map(Arc::from);
        let history = &mut tools.history;
        history.source = history
            .source
            .clone()
            .with_round(items.chain(results), &sources);
        let round = history.further_round(self.ctx)?;
        self.checkpoint().await?;
        self.assembler.begin_round();
        self.tools = Some(tools);
        Ok(Step::Upstream(Box::new(round)))
    }

    /// The results as the model gets them. Of one that is too long for a round it gets an excerpt,
    /// and the whole is kept as an artifact of the session.
    pub(super) async fn shorten_results(
        &mut self,
        tools: &mut ToolLoop,
        calls: &[WithheldCall],
        texts: Vec<String>,
    ) -> Result<Vec<ResultForModel>, Fault> {
        let reads_artifacts = |call: &WithheldCall| tools.reads_artifacts(&call.name);
        let results = RoundResults::new(calls, texts, reads_artifacts, tools.tokens_left);
        let long = results.too_long();
        let (artifacts, session) = (&tools.history.shared.artifacts, &tools.history.session.id);
        let mut unkept = BTreeSet::new();
        if !long.is_empty() {
            let named: BTreeSet<String> = long.iter().map(|it| it.id.clone()).collect();
            let commit = artifacts.keep(&self.ctx.owner, session, long, named.clone());
            unkept = match self.wait_with_heartbeat(commit.wait()).await {
                Ok(unkept) => unkept,
                Err(fault) => self.check_may_fail(fault).map(|()| named)?,
            };
        }
        let results = results.for_model(artifacts.retention(), &unkept);
        let tokens = results.iter().map(|result| text_tokens(&result.text)).sum();
        tools.tokens_left = tools.tokens_left.saturating_sub(tokens);
        let of_calls = calls.iter().zip(&results);
        for (call, result) in of_calls.filter(|(_, result)| result.is_excerpt) {
            self.ctx.observe(TurnEvent::ToolResultShortened {
                call_id: &call.id,
                text: &result.text,
            });
        }
        Ok(results)
    }

    /// Runs calls: those that follow one another and only read at the same time, others alone. The
    /// client sees one after the other.
    async fn run_calls(
        &mut self,
        tools: &mut ToolLoop,
        calls: &[WithheldCall],
    ) -> Result<Vec<EndedCall>, Fault> {
        // The client may run its calls already, so an answer that has some does not fail any more.
        let may_fail = !self.assembler.has_client_calls();
        if may_fail && calls.len() > MAX_CALLS_OF_ROUND {
            return Err(too_many_calls(calls.len()));
        }
        let mut run = HashSet::new();
        let planned = calls.iter().map(|call| (call, tools.plan(call, &mut run)));
        let mut planned: Vec<(&WithheldCall, PlannedCall)> = planned.collect();
        let is_run = |(_, planned): &&(_, PlannedCall)| matches!(planned, PlannedCall::Run(..));
        let count = planned.iter().filter(is_run).count();
        if may_fail && count > MAX_CALLS_AT_ONCE {
            return Err(too_many_calls(count));
        }
        let mut places = MAX_CALLS_AT_ONCE;
        let mut other_places = MAX_CALLS_AT_ONCE.saturating_sub(count);
        for (_, planned) in &mut planned {
            let places = match planned {
                PlannedCall::Run(..) => &mut places,
                _ => &mut other_places,
            };
            if let Some(left) = places.checked_sub(1) {
                *places = left;
                continue;
            }
            *planned = match planned {
                PlannedCall::Mistaken(_) => PlannedCall::Mistaken(NOT_RUN.to_owned()),
                _ => PlannedCall::Skipped(NOT_RUN.to_owned()),
            };
        }
        let mut results = Vec::with_capacity(calls.len());
        let may_go_together = |planned: &PlannedCall| match planned {
            PlannedCall::Run(effect, _) => effect.is_read_only,
            PlannedCall::Repeated | PlannedCall::Skipped(_) | PlannedCall::Mistaken(_) => true,
        };
        for group in
            planned.chunk_by(|(_, one), (_, next)| may_go_together(one) && may_go_together(next))
        {
            self.run_group(tools, group, &mut results).await?;
        }
        tools.known.retain(|_, result| !result.failed);
        Ok(results)
    }

    /// Runs calls at the same time.
    async fn run_group(
        &mut self,
        tools: &mut ToolLoop,
        group: &[(&WithheldCall, PlannedCall)],
        results: &mut Vec<EndedCall>,
    ) -> Result<(), Fault> {
        let ctx = self.ctx;
        let runner = Arc::clone(&tools.tools);
        let runner = &*runner;
        let mut running: FuturesOrdered<_> = group
            .iter()
            .filter_map(|(call, planned)| match planned {
                PlannedCall::Run(..) if tools.is_stopped => None,
                PlannedCall::Run(effect, shown) => {
                    let run = move || runner.run(ctx, call);
                    Some(run_call(ctx, call, *effect, shown.as_ref(), run))
                }
                PlannedCall::Repeated | PlannedCall::Skipped(_) | PlannedCall::Mistaken(_) => None,
            })
            .collect();
        for (call, planned) in group {
            let now = Instant::now();
            let (mut began, mut ended, mut status) = (now, now, ToolRunStatus::Skipped);
            let result = match planned {
                PlannedCall::Skipped(why) => {
                    self.record.notes.add("tool_call_skipped", &call.name);
                    ToolResult::failure(why)
                }
                PlannedCall::Mistaken(why) => {
                    self.record.notes.add("tool_call_skipped", &call.name);
                    ToolResult::unusable(why)
                }
                PlannedCall::Repeated => {
                    status = ToolRunStatus::Repeated;
                    let known = tools.known.get(&key_of(call)).cloned().unwrap_or_default();
                    ToolResult {
                        text: tools.repeated_text(call, &known.text),
                        ..known
                    }
                }
                PlannedCall::Run(effect, shown) => {
                    if let Some(item) = shown.clone() {
                        self.assembler.open_item(item, &mut self.events);
                        self.send().await;
                    }
                    let stopped = || failed_call(STOPPED, shown.as_ref(), McpCallError::Execution);
                    let result = match self.begin_call(tools, call, *effect).await {
                        Ok(true) => self.next_result(tools, running.next()).await,
                        Ok(false) => {
                            let not_run = || -> ToolFuture<'_> {
                                Box::pin(ready(ToolResult::failure(NOT_RECORDED)))
                            };
                            Ok(Some(
                                run_call(ctx, call, *effect, shown.as_ref(), not_run).await,
                            ))
                        }
                        Err(fault) => self.stop_tools(tools, fault).map(|()| None),
                    };
                    let result = match result {
                        Ok(result) => result,
                        Err(mut fault) => {
                            let now = Instant::now();
                            let status = ToolRunStatus::Failed;
                            self.record_call(tools, call, status, &stopped(), began..now);
                            fault.message += &while_running(call);
                            return Err(fault);
                        }
                    };
                    let result = match result {
                        None => stopped(),
                        Some((result, times)) => {
                            (began, ended) = (times.start, times.end);
                            result
                        }
                    };
                    status = status_of(&result);
                    self.record.tool_cost += tools.tools.take_cost();
                    let name = tools.counted_name(ProxyTool::original_name(&call.name));
                    self.record
                        .tool_called(name, result.failed, ended.duration_since(began));
                    let sources = tools.add_sources(&result.sources);
                    self.assembler.add_sources(sources.iter().cloned());
                    if shown.is_some() {
                        let item = result.item.clone();
                        self.assembler
                            .close_item(item, result.failed, &mut self.events);
                        tools.show_last(&self.assembler);
                        self.send().await;
                    }
                    tools.known.insert(key_of(call), result.clone());
                    result
                }
            };
            let shown = self.record_call(tools, call, status, &result, began..ended);
            if matches!(planned, PlannedCall::Run(effect, _) if !effect.is_read_only) {
                self.checkpoint().await?;
            }
            let found = result.item.as_ref().and_then(HostedItem::found_tools);
            results.push(EndedCall {
                name: ProxyTool::original_name(&call.name).to_owned(),
                found_tools: found.map(Arc::from),
                text: result.text,
                unusable: result.unusable,
                shown,
            });
        }
        Ok(())
    }

    /// Records for the stored response that a call is about to run, if it has effects: that of a
    /// background response is on the disk when this returns, so that it is known after a kill.
    /// False if it cannot be written, so that the call is not to be run.
    pub(super) async fn begin_call(
        &mut self,
        tools: &ToolLoop,
        call: &WithheldCall,
        effect: ToolEffect,
    ) -> Result<bool, Fault> {
        let Some(stored) = self.stored.as_mut().filter(|_| !effect.is_read_only) else {
            return Ok(true);
        };
        let now = milliseconds(stored.began.elapsed());
        stored.tools.put_run(NewToolRun {
            round: tools.rounds,
            call_id: call.id.clone(),
            name: ProxyTool::original_name(&call.name).to_owned(),
            status: ToolRunStatus::Running,
            started_ms: now,
            ended_ms: now,
            bytes: 0,
            artifact_id: None,
            error: None,
            attempts: None,
        });
        self.checkpoint().await
    }

    /// Writes what the tools of a background response have done so far, with its events: both are
    /// on the disk when this returns true, and so are the rounds that were remembered.
    pub(in crate::turn) async fn checkpoint(&mut self) -> Result<bool, Fault> {
        let (ctx, now) = (self.ctx, self.ctx.environment.clock.unix());
        let (Some(job), Some(stored)) = (&ctx.job, &self.stored) else {
            return Ok(true);
        };
        let written = job.log.checkpoint(stored.tool_changes(now));
        let is_written = self.wait_with_heartbeat(written).await?;
        if let Some(stored) = self.stored.as_mut().filter(|_| is_written) {
            stored.tools.mark_written();
        }
        Ok(is_written)
    }

    /// Waits for the result of a call; `None` if the answer has to end before it is there, and must
    /// not fail.
    async fn next_result<T>(
        &mut self,
        tools: &mut ToolLoop,
        result: impl Future<Output = Option<T>>,
    ) -> Result<Option<T>, Fault> {
        if tools.is_stopped {
            return Ok(None);
        }
        match self.wait_with_heartbeat(result).await {
            Ok(result) => Ok(result),
            Err(fault) => self.stop_tools(tools, fault).map(|()| None),
        }
    }

    /// Lets no further call begin, because the answer has to end. Returns the fault if it may fail.
    fn stop_tools(&self, tools: &mut ToolLoop, fault: Fault) -> Result<(), Fault> {
        self.check_may_fail(fault)?;
        tools.is_stopped = true;
        Ok(())
    }

    /// Returns the fault, unless the client has a call of this round already: it may run it by now,
    /// and the answer ends with it.
    fn check_may_fail(&self, fault: Fault) -> Result<(), Fault> {
        if self.assembler.has_released_calls() {
            Ok(())
        } else {
            Err(fault)
        }
    }

    /// Records for the stored response what became of a call. Returns the parts of its result that
    /// show sources.
    pub(super) fn record_call(
        &mut self,
        tools: &ToolLoop,
        call: &WithheldCall,
        status: ToolRunStatus,
        result: &ToolResult,
        times: Range<Instant>,
    ) -> Vec<ShownSource> {
        if self.stored.is_none() {
            return Vec::new();
        }
        let record = tools.tools.take_record(call);
        self.record_run(tools.rounds, record, call, status, result, times)
    }

    /// As [`Self::record_call`], with what the tool says of the call.
    pub(in crate::turn) fn record_run(
        &mut self,
        round: u32,
        record: CallRecord,
        call: &WithheldCall,
        status: ToolRunStatus,
        result: &ToolResult,
        times: Range<Instant>,
    ) -> Vec<ShownSource> {
        let Some(stored) = &mut self.stored else {
            return Vec::new();
        };
        let since_began = |at: Instant| milliseconds(at.saturating_duration_since(stored.began));
        let error = result.failed.then(|| cut_error(&result.text).to_owned());
        stored.tools.put_run(NewToolRun {
            round,
            call_id: call.id.clone(),
            name: ProxyTool::original_name(&call.name).to_owned(),
            status,
            started_ms: since_began(times.start),
            ended_ms: since_began(times.end),
            bytes: result.text.len(),
            artifact_id: record.artifact_id,
            error,
            attempts: record.attempts,
        });
        let mut shown = Vec::new();
        for CallSource {
            asked,
            mut source,
            shown: part,
        } in record.sources
        {
            source.call_id = Some(call.id.clone());
            let source = stored.tools.add(&asked, source);
            shown.extend(source.map(|source| ShownSource { source, part }));
        }
        shown
    }

    /// Keeps what the model sees of each source, if the client wants that.
    fn keep_shown(&mut self, results: &[ResultForModel], shown: Vec<Vec<ShownSource>>) {
        let Some(stored) = self.stored.as_mut().filter(|stored| stored.keeps_shown) else {
            return;
        };
        for (ResultForModel { text, is_excerpt }, shown) in results.iter().zip(shown) {
            for ShownSource { source, part } in shown {
                // An excerpt has no such parts any more.
                let part = if *is_excerpt { 0..text.len() } else { part };
                if let Some(seen) = text.get(part) {
                    stored.tools.add_shown(source, seen.trim());
                }
            }
        }
    }

    /// Remembers what the client did not see, once the answer ends.
    pub(super) fn remember_rounds(&mut self) {
        if let Some(tools) = &mut self.tools
            && (tools.rounds > 0 || tools.hidden.has_hidden())
            && !self.assembler.awaits_tools()
        {
            tools.record_round(&self.assembler.round_items(), &[]);
            tools.remember();
        }
    }
}

/// What is stored of a call that was run.
pub(in crate::turn) fn status_of(result: &ToolResult) -> ToolRunStatus {
    if result.failed {
        ToolRunStatus::Failed
    } else {
        ToolRunStatus::Completed
    }
}

/// The fault of an answer whose model calls so many tools at once.
fn too_many_calls(count: usize) -> Fault {
    let message = format!(
        "Too many concurrent tool calls: the model called {count} tools at once, and {MAX_CALLS_AT_ONCE} may run."
    );
    Fault::new(Kind::Internal, message)
}

/// What the fault of an answer says that ended while this call ran.
fn while_running(call: &WithheldCall) -> String {
    let name: String = ProxyTool::original_name(&call.name)
        .chars()
        .take(100)
        .collect();
    format!(" The tool '{name}' was running.")
}

/// The results of calls as items of a history.
pub(super) fn outputs(calls: &[WithheldCall], results: &[ResultForModel]) -> Vec<Arc<str>> {
    let outputs = calls.iter().zip(results).map(|(call, result)| {
        let output = json!({
            "type": "function_call_output",
            "call_id": call.id,
            "output": result.text,
        });
        output.to_string().into()
    });
    outputs.collect()
}

/// Runs a call with `run`. One that takes too long is dropped, and a panic ends that call alone.
pub(in crate::turn) async fn run_call<'r>(
    ctx: &TurnContext,
    call: &WithheldCall,
    effect: ToolEffect,
    shown: Option<&HostedItem>,
    run: impl FnOnce() -> ToolFuture<'r>,
) -> (ToolResult, Range<Instant>) {
    let began = Instant::now();
    ctx.observe(TurnEvent::ToolCall {
        call_id: &call.id,
        shown,
    });
    let run = AssertUnwindSafe(async { run().await }).catch_unwind();
    let result = match timeout(effect.timeout, run).await {
        Ok(Ok(result)) => result,
        // What the panic says may be anything, and is in the log.
        Ok(Err(_)) => failed_call(DEFECT, shown, McpCallError::Execution),
        Err(_) => {
            let timeout = effect.timeout;
            let why = format!("The call was stopped: it took longer than {timeout:?}.");
            failed_call(&why, shown, McpCallError::of_time)
        }
    };
    ctx.observe(TurnEvent::ToolResult {
        call_id: &call.id,
        result: &result,
    });
    (result, began..Instant::now())
}

/// The result of a call that has none of its own, for this reason, which the client sees as this
/// error.
fn failed_call(
    why: &str,
    shown: Option<&HostedItem>,
    error: fn(String) -> McpCallError,
) -> ToolResult {
    let item = shown.cloned();
    ToolResult {
        item: item.map(|item| item.with_error(error(why.to_owned()))),
        ..ToolResult::failure(why)
    }
}
