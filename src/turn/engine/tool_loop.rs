//! What an answer knows of its tools: how much they may still do, what they have returned, and what
//! the client did not see of it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use adapters::cited_source::CitedSource;
use adapters::fault::{Fault, Kind};
use adapters::hidden_rounds::{ConversationHash, HiddenEntry, HiddenRounds};
use adapters::responses::assembler::{Assembler, HostedItem, RoundItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::ApprovalCall;
use registry::RelayToolKind;

use crate::turn::context::TurnContext;
use crate::turn::routed_history::RoutedHistory;
use crate::turn::tool_arguments;
use crate::turn::tool_results::{ANSWER_TOKENS, MIN_ROUND_TOKENS};
use crate::turn::tool_runner::{ToolEffect, ToolResult, TurnTools};

/// The most pages of an answer that it and later answers may cite. Beyond the second number only
/// pages that were read are added.
const MAX_SOURCES: usize = 500;
const MAX_FOUND_SOURCES: usize = 400;
/// The result of a call of a function of the client where there is no client to run it.
const NOT_IN_BACKGROUND: &str = "Tool not available in background mode";
/// The most bytes that are stored of why a call failed.
const MAX_ERROR_BYTES: usize = 500;

/// The tools of an answer, and what its further rounds are made of. Made with the turn if it has
/// tools that run in the proxy. Ends with the answer. What the client did not see is kept for its
/// next request after each round, and when the answer ends, however it does.
pub(in crate::turn) struct ToolLoop {
    pub(super) tools: Arc<dyn TurnTools>,
    pub(super) owner: Arc<str>,
    /// The client's request and the rounds so far.
    pub(in crate::turn) history: RoutedHistory,
    /// The rounds that ended with calls of these tools.
    pub(super) rounds: u32,
    /// How many of the last rounds, in a row, had no usable call.
    pub(super) unusable_rounds: u32,
    /// The answer has to end, and no further call begins.
    pub(super) is_stopped: bool,
    /// The labels of the MCP servers of the request.
    pub(in crate::turn) servers: Vec<String>,
    /// Whether the model gets an error for each call of a function of the client.
    pub(in crate::turn) refuses_client_tools: bool,
    /// The calls that were run, and the most that may be.
    pub(super) calls: u32,
    pub(super) max_calls: Option<u32>,
    /// The tokens that further results may take.
    pub(super) tokens_left: u64,
    /// The results of calls: an equal call that only reads is not run again. Failures are here
    /// while their round lasts.
    pub(super) known: HashMap<CallKey, ToolResult>,
    /// The items of these rounds, for the client's next request.
    pub(super) hidden: HiddenRounds,
    /// How many of these items are kept already.
    pub(super) kept_items: usize,
    /// The length of what is stored of them, which the next rounds replace.
    pub(super) stored_bytes: usize,
    /// The conversation up to the last of these items.
    pub(super) said: ConversationHash,
    /// The last item that shows calls of this round.
    pub(super) shown: Option<HiddenEntry>,
    /// The pages that the calls of this round have found or read.
    pub(super) sources: Vec<CitedSource>,
    /// The addresses of all pages of the answer, and whether these were read.
    known_sources: HashSet<(String, bool)>,
}

/// Name and arguments of a call.
pub(super) type CallKey = (String, String);

pub(super) fn key_of(call: &WithheldCall) -> CallKey {
    (call.name.clone(), call.arguments.clone())
}

/// The result of a call, and the parts of it that show sources.
pub(super) struct EndedCall {
    /// The name of the tool.
    pub(super) name: String,
    pub(super) text: String,
    /// See [`ToolResult::unusable`].
    pub(super) unusable: bool,
    pub(super) shown: Vec<ShownSource>,
    /// The item that offers what it has found, if it was a search for tools.
    pub(super) found_tools: Option<Arc<str>>,
}

/// A part of a result that shows a source.
pub(in crate::turn) struct ShownSource {
    /// The place of the source in the record of the turn.
    pub(super) source: usize,
    /// The part, in bytes of the result.
    pub(super) part: Range<usize>,
}

/// What becomes of a call.
pub(super) enum PlannedCall {
    /// It is run, and the client sees this of it meanwhile.
    Run(ToolEffect, Option<HostedItem>),
    /// It gets the result of an equal call before it.
    Repeated,
    /// It is not run, and the model is told why.
    Skipped(String),
    /// Its arguments do not fit the tool, and the model is told why.
    Mistaken(String),
}

impl ToolLoop {
    /// The tools of an answer that has not begun. `max_calls` is the client's `max_tool_calls`.
    pub(in crate::turn) fn new(
        tools: Arc<dyn TurnTools>,
        owner: &Arc<str>,
        history: RoutedHistory,
        max_calls: Option<u32>,
    ) -> Self {
        let most = history.config.tools.max_calls;
        let max_calls = max_calls.into_iter().chain(most).min();
        Self {
            tools,
            owner: Arc::clone(owner),
            history,
            rounds: 0,
            unusable_rounds: 0,
            is_stopped: false,
            servers: Vec::new(),
            refuses_client_tools: false,
            calls: 0,
            max_calls,
            tokens_left: ANSWER_TOKENS,
            known: HashMap::new(),
            hidden: HiddenRounds::default(),
            kept_items: 0,
            stored_bytes: 0,
            said: ConversationHash::default(),
            shown: None,
            sources: Vec::new(),
            known_sources: HashSet::new(),
        }
    }

    /// Hashes the conversation up to this answer, whose items are added to it.
    pub(super) fn hash_conversation(&mut self, ctx: &TurnContext) -> Result<(), Fault> {
        let source = &self.history.source;
        self.said = ctx.run_work(source.size(), || {
            Ok::<_, Fault>(ConversationHash::of(&source.turn()?))
        })?;
        Ok(())
    }

    /// Decides what becomes of a call. `planned` are the calls of this round that are run.
    pub(super) fn plan(
        &mut self,
        call: &WithheldCall,
        planned: &mut HashSet<CallKey>,
    ) -> PlannedCall {
        let limits = self.history.config.tools;
        let max_rounds = limits.max_rounds;
        if self.rounds > max_rounds {
            return PlannedCall::Skipped(format!(
                "Tool call skipped: the limit of {max_rounds} rounds of tool calls is reached. Answer with what you have."
            ));
        }
        if self.tokens_left < MIN_ROUND_TOKENS {
            return PlannedCall::Skipped(format!(
                "Tool call skipped: the limit of {ANSWER_TOKENS} tokens for all results is reached. Answer with what you have."
            ));
        }
        let name = ProxyTool::original_name(&call.name);
        let tools = self.history.source.proxy_tools();
        let tool = tools.iter().find(|tool| tool.name == name);
        if tool.is_none() && self.refuses_client_tools && !self.is_of_server(name) {
            return PlannedCall::Skipped(NOT_IN_BACKGROUND.to_owned());
        }
        let schema = tool.map_or("{}", |tool| tool.parameters.as_str());
        if let Err(mistake) = tool_arguments::check(schema, &call.arguments) {
            return PlannedCall::Mistaken(mistake);
        }
        let effect = self.tools.effect(name);
        let key = key_of(call);
        if effect.is_read_only && (self.known.contains_key(&key) || planned.contains(&key)) {
            return PlannedCall::Repeated;
        }
        if let Some(most) = self.max_calls.filter(|most| self.calls >= *most) {
            return PlannedCall::Skipped(format!(
                "Tool call skipped: the limit of {most} tool calls is reached. Answer with what you have."
            ));
        }
        self.calls += 1;
        planned.insert(key);
        let timeout = effect.timeout.min(limits.call_timeout);
        let effect = ToolEffect { timeout, ..effect };
        PlannedCall::Run(effect, self.tools.shown(call))
    }

    /// The tool that a person has approved a call of.
    pub(super) fn approved_tool(&self, call: &ApprovalCall) -> Option<&ProxyTool> {
        let mut tools = self.history.source.proxy_tools().iter();
        tools.find(|tool| {
            let asks = tool.needs_approval.as_ref();
            asks.is_some_and(|it| it.server_label == call.server_label && it.name == call.name)
        })
    }

    /// Checks the arguments of a call that a person has approved. An error says what is wrong.
    pub(super) fn check_approved(&self, call: &ApprovalCall) -> Result<(), String> {
        let tool = self.approved_tool(call);
        let schema = tool.map_or("{}", |tool| &tool.parameters);
        tool_arguments::check(schema, &call.arguments)
    }

    /// What a call of the tool of this name counts as. The names of the tools of MCP servers are
    /// chosen by others, and have no end; the same is true of names that are no tools.
    pub(super) fn counted_name<'n>(&self, name: &'n str) -> &'n str {
        let mut tools = self.history.source.proxy_tools().iter();
        match tools.find(|tool| tool.name == name) {
            Some(tool) if tool.in_place_of != Some(RelayToolKind::Mcp) => name,
            Some(_) | None => "mcp",
        }
    }

    /// Whether the name begins like those of the tools of an MCP server of the request.
    fn is_of_server(&self, name: &str) -> bool {
        let mut labels = self.servers.iter();
        labels.any(|label| name.starts_with(&ProxyTool::server_prefix(label)))
    }

    /// Whether the tool of this name reads artifacts.
    pub(super) fn reads_artifacts(&self, name: &str) -> bool {
        let mut tools = self.history.source.proxy_tools().iter();
        tools.any(|tool| tool.reads_artifacts && tool.name == name)
    }

    /// What the model gets for a call that it has made before, with this result. What it has read
    /// of artifacts counts only once against what it may read.
    pub(super) fn repeated_text(&self, call: &WithheldCall, text: &str) -> String {
        if self.reads_artifacts(&call.name) {
            "The same call was made before in this answer: see its result.".to_owned()
        } else {
            format!("The same call was made before, with this result:\n{text}")
        }
    }

    /// Counts the rounds in a row in which no call had a tool that could be used. The error says
    /// that the answer may have no more of them.
    pub(super) fn count_unusable_round(&mut self, ended: &[EndedCall]) -> Result<(), Fault> {
        if !ended.iter().all(|call| call.unusable) {
            self.unusable_rounds = 0;
            return Ok(());
        }
        self.unusable_rounds += 1;
        let most = self.history.config.tools.max_unusable_rounds;
        if self.unusable_rounds < most {
            return Ok(());
        }
        let (name, why) = ended
            .first()
            .map_or(("", ""), |call| (call.name.as_str(), call.text.as_str()));
        let (name, why) = (cut_error(name), cut_error(why));
        let message = format!(
            "Tool execution failed: in {most} rounds in a row, no tool that the model called could be used. The last was '{name}': {why}"
        );
        Err(Fault::new(Kind::Internal, message))
    }

    /// Adds pages that a call has found or read: each once, and once more when it is read. Pages
    /// that were read have places that others do not take. Returns those that are new.
    pub(super) fn add_sources(&mut self, found: &[CitedSource]) -> &[CitedSource] {
        let before = self.sources.len();
        for source in found {
            let key = (source.url.clone(), source.kept.is_some());
            let most = if source.kept.is_some() {
                MAX_SOURCES
            } else {
                MAX_FOUND_SOURCES
            };
            if self.known_sources.len() < most && self.known_sources.insert(key) {
                self.sources.push(source.clone());
            }
        }
        self.sources.get(before..).unwrap_or_default()
    }

    /// The last item of the answer shows a call of this round.
    pub(super) fn show_last(&mut self, answer: &Assembler) {
        let last = answer.items().last();
        self.shown = last.map(|(id, _)| HiddenEntry::Hosted(id.to_owned()));
    }

    /// Adds the items of a finished round to the hidden ones. `results` are the outputs of the
    /// withheld calls, if there are any.
    pub(super) fn record_round(&mut self, items: &[RoundItem<'_>], results: &[Arc<str>]) {
        let entries = &mut self.hidden.entries;
        for item in items {
            match item {
                RoundItem::Shown(json) => {
                    entries.extend(HiddenEntry::of_shown(json, &mut self.said));
                }
                RoundItem::Withheld(call) => {
                    let items = call.items.iter();
                    entries.extend(items.map(|json| HiddenEntry::Hidden(json.as_str().into())));
                }
            }
        }
        entries.extend(results.iter().cloned().map(HiddenEntry::Hidden));
        entries.extend(self.sources.drain(..).map(HiddenEntry::Source));
    }

    /// Keeps the rounds so far, if there are more than are kept: the client may go on from what it
    /// got before the answer ends, also if the process is killed meanwhile.
    pub(super) fn remember(&mut self) {
        let items = self.hidden.entries.len();
        if items > self.kept_items && self.hidden.has_hidden() {
            let (shared, session) = (&self.history.shared, &self.history.session.id);
            let rounds = Arc::new(self.hidden.clone());
            self.stored_bytes =
                shared.keep_hidden_rounds(&self.owner, session, &rounds, self.stored_bytes);
            self.kept_items = items;
        }
    }
}

impl Drop for ToolLoop {
    fn drop(&mut self) {
        self.remember();
    }
}

/// Why a call failed, not too long.
pub(super) fn cut_error(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_ERROR_BYTES);
    text.get(..end).unwrap_or_default().trim_end()
}
