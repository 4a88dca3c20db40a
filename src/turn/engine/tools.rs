//! The step between two rounds: runs the calls that the model made of the proxy's tools, and makes
//! the request of the next round from their results.

use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::hidden_rounds::{HiddenEntry, HiddenRounds};
use adapters::responses::assembler::{RoundItem, WithheldCall};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Step};
use crate::turn::observer::TurnEvent;
use crate::turn::routed_history::RoutedHistory;
use crate::turn::tool_runner::{ToolResult, ToolRunner};

/// The most rounds of an answer whose calls are run. Tools that read and search need few; a model
/// that needs more usually asks for the same thing again and again.
const MAX_TOOL_ROUNDS: u32 = 10;
/// The most calls of an answer that are run.
const MAX_TOOL_CALLS: u32 = 20;
/// The most upstream answers of one answer. After the last round of calls the model gets two more
/// to notice that nothing is run any more; a model that still calls tools ends the answer.
const MAX_ROUNDS: u32 = MAX_TOOL_ROUNDS + 2;

/// The tools of an answer, and what its further rounds are made of. Made with the turn if it has
/// tools that run in the proxy.
pub(in crate::turn) struct ToolLoop {
    runner: Arc<dyn ToolRunner>,
    /// The client's request and the rounds so far.
    pub(in crate::turn) history: RoutedHistory,
    /// The rounds that ended with calls of these tools.
    rounds: u32,
    /// The calls that were run, and the most that may be.
    calls: u32,
    max_calls: u32,
    /// The items of these rounds, for the client's next request.
    hidden: HiddenRounds,
}

impl ToolLoop {
    /// The tools of an answer that has not begun. `max_calls` is the client's `max_tool_calls`.
    pub(in crate::turn) fn new(
        runner: Arc<dyn ToolRunner>,
        history: RoutedHistory,
        max_calls: Option<u32>,
    ) -> Self {
        Self {
            runner,
            history,
            rounds: 0,
            calls: 0,
            max_calls: max_calls.map_or(MAX_TOOL_CALLS, |most| most.min(MAX_TOOL_CALLS)),
            hidden: HiddenRounds::default(),
        }
    }

    /// Why a call is not run, if it is not.
    fn refusal(&self, call: &WithheldCall) -> Option<String> {
        if self.rounds > MAX_TOOL_ROUNDS {
            return Some(format!(
                "Tool call skipped: the limit of {MAX_TOOL_ROUNDS} rounds of tool calls is reached. Answer with what you have."
            ));
        }
        if self.calls >= self.max_calls {
            return Some(format!(
                "Tool call skipped: the limit of {} tool calls is reached. Answer with what you have.",
                self.max_calls
            ));
        }
        let is_object = serde_json::from_str::<JsonObject>(&call.arguments).is_ok();
        (!is_object).then(|| "The arguments of the call are not a JSON object.".to_owned())
    }

    /// Adds the items of a finished round to the hidden ones. `results` are the outputs of the
    /// withheld calls, if there are any.
    fn record_round(&mut self, items: &[RoundItem<'_>], results: &[Arc<str>]) {
        let entries = &mut self.hidden.entries;
        for item in items {
            match item {
                RoundItem::Shown(json) => {
                    let Ok(shown) = serde_json::from_str::<ShownItem>(json) else {
                        continue;
                    };
                    entries.push(match (shown.call_id, shown.kind.as_str()) {
                        (Some(id), _) => HiddenEntry::Call(id),
                        (None, "reasoning") => HiddenEntry::Reasoning,
                        (None, "message") => HiddenEntry::Message,
                        // A compaction item is no part of a round.
                        (None, _) => continue,
                    });
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

/// Any JSON object.
#[derive(Deserialize)]
struct JsonObject {}

/// The fields of an item that tell what the client sends back.
#[derive(Deserialize)]
struct ShownItem {
    #[serde(rename = "type")]
    kind: String,
    call_id: Option<String>,
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
        let mut results: Vec<Arc<str>> = Vec::with_capacity(calls.len());
        for call in &calls {
            let result = self.run_call(&mut tools, call).await?;
            let output = json!({
                "type": "function_call_output",
                "call_id": call.id,
                "output": result.text,
            });
            results.push(output.to_string().into());
        }
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

    async fn run_call(
        &mut self,
        tools: &mut ToolLoop,
        call: &WithheldCall,
    ) -> Result<ToolResult, Fault> {
        if let Some(refusal) = tools.refusal(call) {
            self.record.notes.add("tool_call_skipped", &call.name);
            return Ok(ToolResult::failure(refusal));
        }
        tools.calls += 1;
        let shown = tools.runner.shown(call);
        self.ctx.observe(TurnEvent::ToolCall {
            call_id: &call.id,
            shown: shown.as_ref(),
        });
        let is_shown = shown.is_some();
        if let Some(item) = shown {
            self.assembler.open_item(item, &mut self.events);
            self.send().await;
        }
        let ctx = self.ctx;
        let result = self
            .wait_with_heartbeat(tools.runner.run(ctx, call))
            .await?;
        self.ctx.observe(TurnEvent::ToolResult(&result));
        if is_shown {
            let item = result.item.clone();
            self.assembler
                .close_item(item, result.failed, &mut self.events);
            self.send().await;
        }
        Ok(result)
    }

    /// Remembers what the client did not see, if the answer ends with calls of its own.
    pub(super) fn remember_rounds(&mut self) {
        if let Some(tools) = &mut self.tools
            && tools.rounds > 0
            && !self.assembler.awaits_tools()
            && self.assembler.has_client_calls()
        {
            tools.record_round(&self.assembler.round_items(), &[]);
            tools.remember(&self.ctx.owner);
        }
    }
}

impl ToolLoop {
    fn remember(&mut self, owner: &Arc<str>) {
        let hidden = std::mem::take(&mut self.hidden);
        let history = &self.history;
        let memory = &history.shared.memory;
        memory.keep_hidden_rounds(owner, &history.session.id, hidden);
    }
}
