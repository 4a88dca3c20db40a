//! The step between two rounds: runs the calls that the model made of the proxy's tools, and makes
//! the request of the next round from their results.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::hidden_rounds::{HiddenEntry, HiddenRounds};
use adapters::responses::assembler::{HostedItem, RoundItem, WithheldCall};
use adapters::tools::ProxyTool;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use serde_json::json;
use tokio::time::timeout;

use super::{Answer, Step};
use crate::turn::context::TurnContext;
use crate::turn::observer::TurnEvent;
use crate::turn::routed_history::RoutedHistory;
use crate::turn::tool_arguments;
use crate::turn::tool_results;
use crate::turn::tool_runner::{ToolEffect, ToolResult, TurnTools};

/// The most rounds of an answer whose calls are run. Tools that read and search need few; a model
/// that needs more usually asks for the same thing again and again.
const MAX_TOOL_ROUNDS: u32 = 10;
/// The most calls of one round.
const MAX_CALLS_AT_ONCE: usize = 20;
/// The most upstream answers of one answer. After the last round of calls the model gets two more
/// to notice that nothing is run any more; a model that still calls tools ends the answer.
const MAX_ROUNDS: u32 = MAX_TOOL_ROUNDS + 2;

/// The tools of an answer, and what its further rounds are made of. Made with the turn if it has
/// tools that run in the proxy.
pub(in crate::turn) struct ToolLoop {
    tools: Arc<dyn TurnTools>,
    /// The client's request and the rounds so far.
    pub(in crate::turn) history: RoutedHistory,
    /// The rounds that ended with calls of these tools.
    rounds: u32,
    /// The calls that were run, and the most that may be.
    calls: u32,
    max_calls: Option<u32>,
    /// The results of calls that read, by name and arguments: an equal call is not run again.
    known: HashMap<(String, String), ToolResult>,
    /// The items of these rounds, for the client's next request.
    hidden: HiddenRounds,
}

/// What becomes of a call.
enum PlannedCall {
    /// It is run.
    Run(ToolEffect),
    /// It gets the result of an equal call.
    Known(ToolResult),
    /// It is not run, and the model is told why.
    Skipped(String),
}

impl ToolLoop {
    /// The tools of an answer that has not begun. `max_calls` is the client's `max_tool_calls`.
    pub(in crate::turn) fn new(
        tools: Arc<dyn TurnTools>,
        history: RoutedHistory,
        max_calls: Option<u32>,
    ) -> Self {
        Self {
            tools,
            history,
            rounds: 0,
            calls: 0,
            max_calls,
            known: HashMap::new(),
            hidden: HiddenRounds::default(),
        }
    }

    /// Decides what becomes of a call.
    fn plan(&mut self, call: &WithheldCall) -> PlannedCall {
        if self.rounds > MAX_TOOL_ROUNDS {
            return PlannedCall::Skipped(format!(
                "Tool call skipped: the limit of {MAX_TOOL_ROUNDS} rounds of tool calls is reached. Answer with what you have."
            ));
        }
        let name = ProxyTool::called(&call.name);
        let tools = self.history.source.proxy_tools();
        let tool = tools.iter().find(|tool| tool.name == name);
        let schema = tool.map_or("{}", |tool| tool.parameters.as_str());
        if let Err(mistake) = tool_arguments::check(schema, &call.arguments) {
            return PlannedCall::Skipped(mistake);
        }
        let effect = self.tools.effect(name);
        let key = (call.name.clone(), call.arguments.clone());
        if effect.is_read_only
            && let Some(known) = self.known.get(&key)
        {
            return PlannedCall::Known(known.clone());
        }
        if let Some(most) = self.max_calls.filter(|most| self.calls >= *most) {
            return PlannedCall::Skipped(format!(
                "Tool call skipped: the limit of {most} tool calls is reached. Answer with what you have."
            ));
        }
        self.calls += 1;
        PlannedCall::Run(effect)
    }

    fn know(&mut self, call: &WithheldCall, result: &ToolResult) {
        if !result.failed {
            let key = (call.name.clone(), call.arguments.clone());
            self.known.insert(key, result.clone());
        }
    }

    /// Adds the items of a finished round to the hidden ones. `results` are the outputs of the
    /// withheld calls, if there are any.
    fn record_round(&mut self, items: &[RoundItem<'_>], results: &[Arc<str>]) {
        let entries = &mut self.hidden.entries;
        for item in items {
            match item {
                RoundItem::Shown(json) => {
                    entries.extend(HiddenEntry::of_shown(json));
                }
                RoundItem::Withheld(call) => {
                    let items = call.items.iter();
                    entries.extend(items.map(|json| HiddenEntry::Hidden(json.as_str().into())));
                }
            }
        }
        entries.extend(results.iter().cloned().map(HiddenEntry::Hidden));
    }
}

impl Answer<'_> {
    /// Runs the calls of the round that ended, and returns the step that follows: another round,
    /// or none if the client has calls to run as well.
    pub(super) async fn run_tools(&mut self) -> Result<Step, Fault> {
        let Some(mut tools) = self.tools.take() else {
            return Err(Fault::new(Kind::Internal, "The answer has no tools."));
        };
        tools.rounds += 1;
        if tools.rounds >= MAX_ROUNDS && !self.assembler.has_client_calls() {
            let message = format!(
                "Tool execution limit exceeded: after {MAX_TOOL_ROUNDS} rounds of tool calls the model still called tools."
            );
            return Err(Fault::new(Kind::Internal, message));
        }
        let calls: Vec<WithheldCall> = self.assembler.withheld_calls().cloned().collect();
        let results = self.run_calls(&mut tools, &calls).await?;
        let texts = results.into_iter().map(|result| result.text);
        let texts = tool_results::share_room(texts.collect());
        let outputs = calls.iter().zip(texts).map(|(call, text)| {
            let output = json!({
                "type": "function_call_output",
                "call_id": call.id,
                "output": text,
            });
            output.to_string().into()
        });
        let results: Vec<Arc<str>> = outputs.collect();
        if self.assembler.has_client_calls() {
            let now = self.ctx.environment.clock.unix();
            self.assembler
                .finish_with_client_calls(now, &mut self.events);
            tools.record_round(&self.assembler.round_items(), &results);
            tools.remember(&self.ctx.owner);
            self.send().await;
            return Ok(Step::Done);
        }
        let items = self.assembler.round_items();
        tools.record_round(&items, &results);
        let items = items.iter().flat_map(RoundItem::to_items);
        let items = items.map(Arc::from);
        let history = &mut tools.history;
        history.source = history.source.clone().with_round(items.chain(results));
        let round = history.further_round(self.ctx)?;
        self.assembler.begin_round();
        self.tools = Some(tools);
        Ok(Step::Upstream(Box::new(round)))
    }

    /// Runs calls: those that follow one another and only read at the same time, others alone. The
    /// client sees one after the other.
    async fn run_calls(
        &mut self,
        tools: &mut ToolLoop,
        calls: &[WithheldCall],
    ) -> Result<Vec<ToolResult>, Fault> {
        let planned = calls.iter().map(|call| (call, tools.plan(call)));
        let planned: Vec<(&WithheldCall, PlannedCall)> = planned.collect();
        let is_run = |planned: &PlannedCall| matches!(planned, PlannedCall::Run(_));
        let count = planned
            .iter()
            .filter(|(_, planned)| is_run(planned))
            .count();
        if count > MAX_CALLS_AT_ONCE {
            let message = format!(
                "Too many concurrent tool calls: the model called {count} tools at once, and {MAX_CALLS_AT_ONCE} may run."
            );
            return Err(Fault::new(Kind::Internal, message));
        }
        let mut results = Vec::with_capacity(calls.len());
        let may_go_together = |planned: &PlannedCall| match planned {
            PlannedCall::Run(effect) => effect.is_read_only,
            PlannedCall::Known(_) | PlannedCall::Skipped(_) => true,
        };
        for group in
            planned.chunk_by(|(_, one), (_, next)| may_go_together(one) && may_go_together(next))
        {
            self.run_group(tools, group, &mut results).await?;
        }
        Ok(results)
    }

    /// Runs calls at the same time.
    async fn run_group(
        &mut self,
        tools: &mut ToolLoop,
        group: &[(&WithheldCall, PlannedCall)],
        results: &mut Vec<ToolResult>,
    ) -> Result<(), Fault> {
        let ctx = self.ctx;
        let runner = Arc::clone(&tools.tools);
        let shown = |call: &WithheldCall| runner.shown(call);
        let mut running: FuturesOrdered<_> = group
            .iter()
            .filter_map(|(call, planned)| match planned {
                PlannedCall::Run(effect) => {
                    Some(run_call(ctx, &*runner, call, *effect, shown(call)))
                }
                PlannedCall::Known(_) | PlannedCall::Skipped(_) => None,
            })
            .collect();
        for (call, planned) in group {
            let result = match planned {
                PlannedCall::Skipped(why) => {
                    self.record.notes.add("tool_call_skipped", &call.name);
                    ToolResult::failure(why)
                }
                PlannedCall::Known(known) => ToolResult {
                    text: format!(
                        "The same call was made before, with this result:\n{}",
                        known.text
                    ),
                    ..known.clone()
                },
                PlannedCall::Run(_) => {
                    let item = shown(call);
                    let is_shown = item.is_some();
                    if let Some(item) = item {
                        self.assembler.open_item(item, &mut self.events);
                        self.send().await;
                    }
                    let result = self.wait_with_heartbeat(running.next()).await?;
                    let result =
                        result.unwrap_or_else(|| ToolResult::failure("The tool has not run."));
                    self.record
                        .metrics
                        .tool_called(ProxyTool::called(&call.name), result.failed);
                    self.assembler.add_sources(result.sources.iter().cloned());
                    if is_shown {
                        let item = result.item.clone();
                        self.assembler
                            .close_item(item, result.failed, &mut self.events);
                        self.send().await;
                    }
                    tools.know(call, &result);
                    result
                }
            };
            results.push(result);
        }
        Ok(())
    }

    /// Remembers what the client did not see, once the answer ends.
    pub(super) fn remember_rounds(&mut self) {
        if let Some(tools) = &mut self.tools
            && tools.rounds > 0
            && !self.assembler.awaits_tools()
        {
            tools.record_round(&self.assembler.round_items(), &[]);
            tools.remember(&self.ctx.owner);
        }
    }
}

/// Runs a call, and once more if that may help. One that takes too long is dropped.
async fn run_call(
    ctx: &TurnContext,
    tools: &dyn TurnTools,
    call: &WithheldCall,
    effect: ToolEffect,
    shown: Option<HostedItem>,
) -> ToolResult {
    ctx.observe(TurnEvent::ToolCall {
        call_id: &call.id,
        shown: shown.as_ref(),
    });
    let run = async {
        let result = tools.run(ctx, call).await;
        if result.failed && result.may_be_repeated && effect.is_read_only {
            tools.run(ctx, call).await
        } else {
            result
        }
    };
    let result = timeout(effect.timeout, run).await;
    let result = result.unwrap_or_else(|_| {
        let timeout = effect.timeout;
        ToolResult::failure(format!(
            "The call was stopped: it took longer than {timeout:?}."
        ))
    });
    ctx.observe(TurnEvent::ToolResult {
        call_id: &call.id,
        result: &result,
    });
    result
}

impl ToolLoop {
    fn remember(&mut self, owner: &Arc<str>) {
        let hidden = std::mem::take(&mut self.hidden);
        let history = &self.history;
        if hidden.has_hidden() {
            history
                .shared
                .keep_hidden_rounds(owner, &history.session.id, hidden);
        }
    }
}
