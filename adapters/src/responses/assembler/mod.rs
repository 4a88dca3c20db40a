//! The assembler turns upstream events into the events of the Responses API. Nothing outside this
//! folder writes them; a viewer of a background response only numbers one anew.
//!
//! It assigns ids, `output_index` and `sequence_number`, opens and closes items and their
//! parts, and writes the final response object. Items are strictly sequential: one is closed
//! before the next is opened. If an upstream interleaves text and calls, the later item is
//! held back until the earlier one is complete.
//!
//! | module | contents |
//! |---|---|
//! | `writer` | sequence numbers, item ids, the finished items |
//! | `order` | which item a text belongs to, and when it is written |
//! | `message`, `reasoning` | the items of text |
//! | `text_part` | one text of an item, and its events |
//! | `call_queue`, `call` | the items of tool calls |
//! | `custom_input` | the text input of custom tools, taken out of JSON arguments |
//! | `native` | items of an upstream that speaks the Responses API itself |
//! | `hosted` | the items of tools that run here; `found_pages` are those of a provider's own search |
//! | `mcp_call_error` | why the call of a tool of an MCP server failed |
//! | `rounds` | several upstream answers in one response |
//! | `workflow` | the events of a workflow, and an answer that goes on after a restart |
//! | `citations` | annotations that wait for the text they belong to |
//! | `waiting` | what the answer waits for, shown in Codex |
//! | `end` | the end of an answer |

mod call;
mod call_queue;
mod citations;
mod custom_input;
mod end;
mod found_pages;
mod hosted;
mod mcp_call_error;
mod message;
mod native;
pub mod open_item;
mod order;
mod reasoning;
mod rounds;
pub mod stored_end;
mod text_part;
mod waiting;
mod workflow;
mod writer;

pub use super::response_object::ResponseStatus;

use std::collections::HashSet;

pub use self::call::WithheldCall;
pub use self::hosted::HostedItem;
pub use self::mcp_call_error::{CALL_INTERRUPTED, McpCallError};
pub use self::rounds::RoundItem;

use registry::{EnumSet, RelayToolKind};

use self::call_queue::CallQueue;
use self::citations::Citations;
use self::found_pages::FoundPages;
use self::hosted::OpenHostedItem;
use self::message::MessageItem;
use self::native::NativeItems;
use self::reasoning::ReasoningItem;
use self::rounds::RoundState;
use self::waiting::WaitingItem;
use self::writer::ItemWriter;
use super::event_buffer::EventBuffer;
use super::prompt_cache::{PromptCacheDiagnostics, RemovedReasoning};
use super::response_object::ResponseObject;
use crate::baggage::KeptStates;
use crate::cited_source::CitedSource;
use crate::event::{Citation, Event, Finish, NativeText, Usage};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::notes::Notes;
use crate::tools::{ProxyTool, ToolNames};
use crate::turn::Turn;

/// The most items and parts of items of an answer. Each costs many times the bytes of its text.
const MAX_OPENED: usize = 20_000;

/// The number of events that [`Assembler::queue`] writes.
pub const QUEUE_EVENTS: u64 = 2;

/// The most pages of earlier answers that an answer may cite: the newest.
const MAX_KNOWN_SOURCES: usize = 500;

/// The most bytes of text that an answer may have.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The properties of a turn that an [`Assembler`] depends on. Made before the first upstream
/// request.
#[derive(Debug, Default)]
pub struct AssemblerSettings {
    /// Maps wire names in calls to the client's tools.
    pub tool_names: ToolNames,
    /// The names of the functions that run here: the client does not see their calls.
    pub withheld_tools: HashSet<String>,
    /// What the names of the tools of MCP servers begin with that run here: the client does not see
    /// a call of such a name either if there is no such tool.
    pub withheld_prefixes: Vec<String>,
    /// Whether the client does not see calls of its own functions either.
    pub withholds_functions: bool,
    /// The pages of earlier answers that the answer may cite.
    pub known_sources: Vec<CitedSource>,
    /// The call ids of the history; a new call gets a different one.
    pub known_call_ids: HashSet<String>,
    /// Whether the client is Codex. Codex treats every `response.output_item.done` as
    /// complete: it runs a call at once and keeps a text for its next attempt. Therefore
    /// calls are held back until they are complete, and an item that is open when the
    /// answer breaks off gets no `done`. Codex ignores refusals, so that they are written as
    /// ordinary text.
    pub caller_is_codex: bool,
    /// Whether a search of the provider lists the addresses that it found.
    pub shows_sources: bool,
    /// The parameters that depend on the provider.
    pub params: AnswerParams,
    /// Upper bound of the answer in bytes, as received; a larger one fails.
    pub max_bytes: usize,
}

impl AssemblerSettings {
    /// The settings for the answer to this turn.
    pub fn for_turn(turn: &Turn<'_>, caller_is_codex: bool, params: AnswerParams) -> Self {
        Self {
            tool_names: turn.tools.names(),
            withheld_tools: turn.withheld_tools.clone(),
            withheld_prefixes: Vec::new(),
            withholds_functions: false,
            known_sources: newest_sources(turn),
            known_call_ids: turn.call_ids(),
            shows_sources: turn.controls.search_sources,
            caller_is_codex,
            params,
            max_bytes: MAX_ANSWER_BYTES,
        }
    }
}

/// The newest pages that the turn knows, the newest first. The citations need no more of them.
fn newest_sources(turn: &Turn<'_>) -> Vec<CitedSource> {
    let newest = turn.known_sources.iter().rev().take(MAX_KNOWN_SOURCES);
    let newest = newest.map(|known| CitedSource {
        url: known.url.clone(),
        title: known.title.clone(),
        kept: None,
    });
    newest.collect()
}

/// The parameters of an answer that depend on the provider and model. They change when
/// another route takes over, before any content was written.
#[derive(Clone, Debug, Default)]
pub struct AnswerParams {
    /// Whether reasoning items carry sealed
    /// [`Baggage`](crate::baggage::Baggage) also if all of it is their text, because
    /// the provider requires its reasoning back or the client asked for
    /// `reasoning.encrypted_content`.
    pub seal_reasoning: bool,
    /// The provider and model as `provider/model`, for the baggage.
    pub origin: String,
    /// An estimate of the input tokens, for a provider that reports no usage.
    pub estimated_input_tokens: u64,
    /// Bytes of text per token, to estimate the output tokens in the same case.
    pub bytes_per_token: f32,
    /// The kinds of tools that run at the upstream.
    pub relayed_tools: EnumSet<RelayToolKind>,
}

/// Writes the Responses events of one answer, whatever number of upstream answers (rounds) it is
/// made of.
///
/// Made with the answer. It accepts upstream events until the terminal event is written (by
/// [`Event::Finish`] or [`Assembler::fail`]) and ignores calls after that. If the model called
/// tools that run here, [`Event::Finish`] ends the round only, see [`Assembler::awaits_tools`].
#[derive(Debug)]
pub struct Assembler {
    settings: AssemblerSettings,
    writer: ItemWriter,
    open: OpenItem,
    calls: CallQueue,
    native: NativeItems,
    /// The ids of native items that the client has seen.
    native_ids: HashSet<String>,
    /// The state of reasoning that no item carries yet.
    reasoning_states: KeptStates,
    /// The slot of the next call, and its state.
    call_states: Option<(u32, KeptStates)>,
    citations: Citations,
    /// What a search of the provider has found.
    found: FoundPages,
    /// Text and reasoning that arrived while a call was still open, escaped.
    waiting_text: Vec<(NativeText, String)>,
    /// White space that becomes the beginning of the next text, if text follows.
    leading_blanks: String,
    /// The token counts of this round.
    usage: Option<Usage>,
    usage_is_estimated: bool,
    round: RoundState,
    received_bytes: usize,
    /// `response.created` was written by another assembler.
    is_created: bool,
    /// The items of MCP servers, which come first; none once they are written.
    servers: Vec<HostedItem>,
    /// What the answer waits for, or did, once it was shown.
    waiting: Option<WaitingItem>,
    holds: HeldBack,
}

/// What of an answer the client does not get yet.
#[derive(Debug, Default)]
struct HeldBack {
    /// The terminal event of a complete answer.
    end: bool,
    /// That of an incomplete one as well.
    early_end: bool,
    /// See [`Assembler::hold_all`].
    all: bool,
}

#[derive(Debug)]
enum OpenItem {
    Nothing,
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Hosted(Box<OpenHostedItem>),
}

impl Assembler {
    /// An assembler that has written no event. `response` is the response at its beginning.
    pub fn new(response: ResponseObject, mut settings: AssemblerSettings) -> Self {
        let mut writer = ItemWriter::new(response);
        writer.search = settings.tool_names.take_search();
        writer
            .sources
            .extend(std::mem::take(&mut settings.known_sources));
        Self {
            writer,
            settings,
            open: OpenItem::Nothing,
            calls: CallQueue::default(),
            native: NativeItems::default(),
            native_ids: HashSet::new(),
            reasoning_states: KeptStates::new(),
            call_states: None,
            citations: Citations::default(),
            found: FoundPages::default(),
            waiting_text: Vec::new(),
            leading_blanks: String::new(),
            usage: None,
            usage_is_estimated: false,
            round: RoundState::default(),
            received_bytes: 0,
            is_created: false,
            servers: Vec::new(),
            waiting: None,
            holds: HeldBack::default(),
        }
    }

    /// An assembler for the answer to this turn, whose response has this id. `created_at` is in
    /// Unix seconds.
    pub fn for_turn(
        turn: &Turn<'_>,
        id: &str,
        created_at: u64,
        settings: AssemblerSettings,
    ) -> Self {
        let relayed = settings.params.relayed_tools;
        let response = ResponseObject::new(turn, id, created_at, relayed);
        Self::new(response, settings)
    }

    /// Leaves only these of the tools that run here, because the others are not offered: calls of
    /// their names are the client's.
    pub fn withhold_only(&mut self, runs_here: impl Fn(&str) -> bool) {
        let AssemblerSettings {
            withheld_tools,
            tool_names,
            ..
        } = &mut self.settings;
        for name in withheld_tools.extract_if(|name| !runs_here(name)) {
            tool_names.remove(&name);
        }
    }

    /// Withholds all calls of names that begin like those of the tools of these MCP servers, except
    /// the client's own: see [`ProxyTool::server_prefix`].
    pub fn withhold_servers<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        self.settings.withheld_prefixes = labels.map(ProxyTool::server_prefix).collect();
    }

    /// Withholds the calls of functions of the client, except those in a namespace.
    pub fn withhold_functions(&mut self) {
        self.settings.withholds_functions = true;
    }

    /// Holds the terminal event of a complete answer back, because an item may follow that the
    /// model does not write: see [`Assembler::awaits_end`].
    pub fn hold_end(&mut self) {
        self.holds.end = true;
    }

    /// An assembler for a request that could not be read, or not be sent to any provider: it can
    /// only begin the response and fail it.
    pub fn without_request(id: &str, created_at: u64, caller_is_codex: bool) -> Self {
        let settings = AssemblerSettings {
            caller_is_codex,
            ..AssemblerSettings::default()
        };
        Self::new(ResponseObject::without_request(id, created_at), settings)
    }

    /// The client gets the answer in one piece: no call is written before it is whole, and an
    /// answer that cannot be used is forgotten.
    pub fn hold_all(&mut self) {
        self.holds.all = true;
    }

    /// Writes `response.created` and `response.in_progress`, only the latter after
    /// [`Self::continue_queued`], and the items of [`Self::set_servers`].
    pub fn begin(&mut self, events: &mut EventBuffer) {
        if !std::mem::take(&mut self.is_created) {
            self.writer.to(events).response_event("response.created");
        }
        self.writer
            .to(events)
            .response_event("response.in_progress");
        self.show_servers(events);
    }

    /// Writes `response.created` and `response.queued` for an answer that begins later, with an
    /// assembler of its own.
    pub fn queue(&mut self, events: &mut EventBuffer) {
        self.writer.response.is_queued = true;
        self.writer.to(events).response_event("response.created");
        self.writer.to(events).response_event("response.queued");
    }

    /// Goes on after the events that [`Self::queue`] has written.
    pub fn continue_queued(&mut self) {
        self.is_created = true;
        self.writer.continue_at(QUEUE_EVENTS);
    }

    /// Says of the response whether it is stored. The terminal event, if it was just written, is
    /// written again.
    pub fn set_stored(&mut self, is_stored: bool, events: &mut EventBuffer) {
        if self.writer.response.store == is_stored {
            return;
        }
        self.writer.response.store = is_stored;
        if let Some(status) = self.final_status()
            && events.has_final_response()
        {
            self.writer.take_back(events);
            self.writer.to(events).response_event(status.event_name());
        }
    }

    /// Replaces the parameters because another provider answers. Only valid before the
    /// first content event of a round.
    pub fn switch_provider(&mut self, params: AnswerParams) {
        self.settings.params = params;
    }

    /// Sets what the response says of its prompt. It is known once the request is encoded.
    pub fn describe_prompt(&mut self, removed: Vec<RemovedReasoning>) {
        self.writer.response.cache_diagnostics = None;
        self.writer.response.removed_reasoning = removed;
    }

    /// Sets how the prompt compares with another one.
    pub fn diagnose_prompt(&mut self, diagnostics: PromptCacheDiagnostics) {
        self.writer.response.cache_diagnostics = Some(diagnostics);
    }

    /// Writes `response.in_progress` with the output so far, so that a silent connection
    /// does not look dead.
    pub fn heartbeat(&mut self, events: &mut EventBuffer) {
        if self.final_status().is_none() {
            self.writer
                .to(events)
                .response_event("response.in_progress");
        }
    }

    /// Handles one upstream event. `now` is in Unix seconds. An error is the upstream's
    /// fault or means that the answer cannot be passed on; the caller writes it with
    /// [`Assembler::fail`] or tries again.
    pub fn event(
        &mut self,
        event: Event<'_>,
        now: u64,
        events: &mut EventBuffer,
    ) -> Result<(), Fault> {
        if self.final_status().is_some() || self.round.awaits_tools || self.awaits_end() {
            return Ok(());
        }
        if matches!(
            event,
            Event::Text(..) | Event::Refusal(_) | Event::Reasoning(_) | Event::CallStart { .. }
        ) {
            self.show_search_before_text(events);
        }
        match event {
            Event::Started => {}
            Event::MessageEnd => {
                if self.calls.is_empty() && matches!(self.open, OpenItem::Message(_)) {
                    self.close_text("completed", true, events);
                }
            }
            Event::Text(fragment, logprobs) => {
                self.add_text(NativeText::Output, &fragment, logprobs.as_deref(), events);
            }
            Event::Refusal(fragment) => {
                let kind = if self.settings.caller_is_codex {
                    NativeText::Output
                } else {
                    NativeText::Refusal
                };
                self.add_text(kind, &fragment, None, events);
            }
            Event::Reasoning(fragment) => {
                self.add_text(NativeText::Summary, &fragment, None, events);
            }
            Event::CallStart { slot, id, name } => self.start_call(slot, &id, &name, events),
            Event::CallArguments(slot, fragment) => {
                self.count_bytes(fragment.escaped().len());
                let taken = self
                    .calls
                    .push_arguments(slot, &fragment, &mut self.writer.to(events));
                if !taken && !fragment.is_blank() {
                    self.writer
                        .notes
                        .add("arguments_after_end", format!("call {slot}"));
                }
            }
            Event::ReasoningState(state) => self.keep_reasoning_state(state),
            Event::Citation(Citation {
                url, title, end: 0, ..
            })
            | Event::Source { url, title }
                if self.provider_searches() =>
            {
                self.add_found_page(&url, &title);
            }
            Event::Searched => self.found.has_searched = true,
            Event::Citation(citation) => {
                let annotation = self.citations.annotation(&citation);
                self.count_bytes(annotation.len());
                self.add_annotation(annotation, events);
            }
            Event::Source { url, title } => {
                if let Some(annotation) = self.citations.source_annotation(&url, &title) {
                    self.count_bytes(annotation.len());
                    self.add_annotation(annotation, events);
                }
            }
            Event::Native(event) => self.native_event(event, events),
            Event::Usage(usage) => {
                self.usage = Some(usage);
                self.usage_is_estimated = false;
            }
            Event::Note(code, detail) => self.writer.notes.add(code, detail),
            Event::Finish(Finish::ContentFilter) if self.settings.caller_is_codex => {
                // Codex mistakes a response that is incomplete for this reason for a
                // broken connection and repeats the request again and again.
                let predicate = "cut off its answer with its content filter.";
                return Err(Fault::of_provider(Kind::ContentFilter, predicate));
            }
            Event::Finish(finish) => self.finish(finish, now, events),
            Event::Failed(fault) => return Err(fault),
        }
        if let Some(fault) = self.writer.fault.take() {
            return Err(*fault);
        }
        if self.final_status().is_some() {
            return Ok(());
        }
        let predicate = if self.received_bytes > self.settings.max_bytes {
            let limit = self.settings.max_bytes;
            format!("is larger than {limit} bytes.")
        } else if self.writer.opened() > MAX_OPENED {
            format!("has more than {MAX_OPENED} items and parts.")
        } else {
            return Ok(());
        };
        Err(Fault::of_answer(Kind::BadReply, predicate))
    }

    /// Writes a compaction item with this `encrypted_content`. No item may be open. Like
    /// OpenAI's compaction items it has an id and no status.
    pub fn write_compaction(&mut self, blob: &str, events: &mut EventBuffer) {
        if self.final_status().is_some() {
            return;
        }
        let mut out = self.writer.to(events);
        let position = out.next_position("cmp");
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &position.id);
        json::field(&mut item, "type", "compaction");
        json::field(&mut item, "encrypted_content", blob);
        item.push(b'}');
        out.item_added(&position, &item);
        out.item_done(&position, item);
    }

    /// The final status, once the terminal event is written.
    pub fn final_status(&self) -> Option<ResponseStatus> {
        self.writer.response.status
    }

    /// The response as it is so far; final after the terminal event.
    pub fn response(&self) -> &ResponseObject {
        &self.writer.response
    }

    /// The finished items: item id and JSON.
    pub fn items(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.writer.response.output.iter()
    }

    /// The token counts that the provider sent for this round; after the end of the round an
    /// estimate if it sent none.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether [`Self::usage`] is what the provider counted, and no estimate.
    pub fn usage_is_counted(&self) -> bool {
        self.usage.is_some() && !self.usage_is_estimated
    }

    /// The repairs and omissions in the answer.
    pub fn notes(&self) -> &Notes {
        &self.writer.notes
    }

    /// The token counts of this round's answer so far: those that the provider sent, or an
    /// estimate.
    pub fn usage_so_far(&self) -> Usage {
        self.usage.unwrap_or_else(|| self.estimated_usage())
    }

    /// The bytes of content of the answer so far, as received.
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.received_bytes += bytes;
    }
}
