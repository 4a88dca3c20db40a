//! Makes a summary of a history: asks the model for it as the next turn of the session, then with a
//! shortened history, and falls back to an extract of the session.

use std::fmt::Write as _;
use std::sync::Arc;

use adapters::compact::{self, extract};
use adapters::compaction_blob::CompactionBlob;
use adapters::event::Usage;
use adapters::fault::{Fault, Kind};
use adapters::item_text::message_text;
use adapters::plan::{self, Bounds};
use adapters::purpose::{Purpose, SummaryMode};
use adapters::turn::Turn;
use registry::{Route, WindowSource};

use super::artifacts::store_outputs;
use super::trigger::CompactionTrigger;
use super::{retained, summary_checks};
use crate::turn::context::TurnContext;
use crate::turn::engine::{Answer, Round};
use crate::turn::failover::learn_patch;
use crate::turn::recovery::a_smaller_request_may_succeed;
use crate::turn::routed_history::RoutedHistory;
use crate::upstream::PatchesOf;

/// The most characters of an extract, unless an eighth of the window is less.
const MAX_EXTRACT_CHARS: usize = 24_000;
/// The most characters of the newest user message that are appended to a summary.
const MAX_NEWEST_MESSAGE_CHARS: usize = 8_000;

pub(super) struct Summary {
    /// The `encrypted_content` of the compaction item.
    pub(super) blob: Arc<str>,
    /// The same summary as text, for a client that expects a message.
    pub(super) text: String,
    /// The usage of the last request for it; an estimate if no provider counted.
    pub(super) usage: Usage,
    /// The index of the first item that stays beside the summary.
    pub(super) retained_from: usize,
    /// The most bytes of user messages that may stay beside the summary: half of the window.
    pub(super) user_message_bytes: usize,
}

/// Makes the summary of one compaction.
pub(super) struct Summarizer<'s> {
    pub(super) trigger: CompactionTrigger,
    pub(super) history: &'s RoutedHistory,
    /// If the history ends with an answer, how many items of it the client got. Such a history can
    /// do without a summary: if no model writes one, none is made.
    pub(super) answered: Option<usize>,
    /// The session's tools as a JSON list, if the request brought none.
    pub(super) tools: Option<&'s Arc<str>>,
}

/// The result of the requests for a summary.
#[derive(Default)]
struct SummaryAttempts {
    summary: Option<(String, SummaryMode)>,
    /// Why the last request brought no summary.
    failure: String,
    usage: Option<Usage>,
    /// The estimated tokens of the whole history.
    history_tokens: Option<u64>,
}

impl Summarizer<'_> {
    /// Makes a summary of the history, in hidden rounds of the answer. It fails if the turn has to
    /// end (its timeout, the shutdown of the process), and after an answer also if no model writes
    /// a summary.
    pub(super) async fn summarize(&self, answer: &mut Answer<'_>) -> Result<Summary, Fault> {
        let mut attempts = SummaryAttempts::default();
        for mode in [SummaryMode::NextTurn, SummaryMode::FitWindow] {
            let purpose = Purpose::Summary {
                mode,
                prompted: self.trigger == CompactionTrigger::LocalPrompt,
                tools: self.tools.map(Arc::clone),
            };
            let (round, assembler) = match self.history.prepare(answer.ctx, purpose) {
                Ok(prepared) => prepared,
                Err(fault) if answer.ctx.stop.is_raised() => return Err(fault),
                Err(fault) => {
                    fault.kind.name().clone_into(&mut attempts.failure);
                    continue;
                }
            };
            let estimate = round.attempt.answer_params.estimated_input_tokens;
            attempts.history_tokens.get_or_insert(estimate);
            if mode == SummaryMode::NextTurn && !self.fits(answer.ctx, &round) {
                "the history does not fit".clone_into(&mut attempts.failure);
                continue;
            }
            let route = round.attempt.unpatched.clone();
            let mut round = round.hidden(assembler);
            let result = Box::pin(answer.run_round(&mut round)).await;
            attempts.usage = answer.record.usage.or(attempts.usage);
            let result = result.map(|()| summary_checks::summary_text(&round.into_response()));
            let failure = match result {
                Ok(Ok(summary)) => {
                    attempts.summary = Some((summary, mode));
                    break;
                }
                Ok(Err(failure)) => failure,
                Err(fault) if matches!(fault.kind, Kind::Draining | Kind::TurnTimeout) => {
                    return Err(fault);
                }
                Err(fault) => {
                    answer.record.summary_failed(&fault);
                    if let Some(patch) = fault.patch {
                        // The engine forgets a patch that did not change this request. The next
                        // request is another one, which it may change.
                        let RoutedHistory { shared, config, .. } = self.history;
                        let of = self.patches_of(answer.ctx, &route);
                        learn_patch(shared, config, &route, of, (patch, &fault.message));
                    }
                    if !a_smaller_request_may_succeed(fault.kind) {
                        fault.kind.name().clone_into(&mut attempts.failure);
                        break;
                    }
                    fault.kind.name()
                }
            };
            failure.clone_into(&mut attempts.failure);
        }
        self.build_summary(attempts, answer).await
    }

    /// Builds the summary from the model's text, or from an extract if there is none.
    async fn build_summary(
        &self,
        attempts: SummaryAttempts,
        answer: &mut Answer<'_>,
    ) -> Result<Summary, Fault> {
        let history = self.history;
        let bounds = self.bounds(answer.ctx);
        let ctx = answer.ctx;
        let (turn, plan) = ctx.run_work(history.source.size(), || {
            let mut turn = history.source.turn()?;
            if self.trigger == CompactionTrigger::LocalPrompt {
                // The summary prompt is not part of the history.
                turn.items.pop();
            }
            let plan = plan::plan_with_cache(&turn, &bounds, &history.shared.outputs);
            turn.stop.check()?;
            Ok::<_, Fault>((turn, plan))
        })?;
        let user_message_bytes = bounds.window_bytes() / 2;
        let (mut summary, method) = match attempts.summary {
            Some((summary, SummaryMode::NextTurn)) => (summary, "next_turn"),
            Some((summary, SummaryMode::FitWindow)) => (summary, "cut"),
            None if self.answered.is_some() => {
                return Err(Fault::new(Kind::BadReply, attempts.failure));
            }
            None => {
                answer
                    .record
                    .notes
                    .add("compaction_extracted", attempts.failure);
                let max_chars = MAX_EXTRACT_CHARS.min(bounds.window_bytes() / 8);
                let extracted =
                    ctx.run_work(history.source.size(), || extract(&turn, &plan, max_chars));
                turn.stop.check()?;
                (extracted, "extract")
            }
        };
        let (retained_from, replaces_newest_message) = match self.trigger {
            CompactionTrigger::Threshold => retained::retained(&turn),
            CompactionTrigger::Endpoint
            | CompactionTrigger::TriggerItem
            | CompactionTrigger::LocalPrompt => (turn.items.len(), false),
        };
        if replaces_newest_message {
            append_newest_message(&turn, &mut summary);
        }
        let history_tokens = attempts.history_tokens.unwrap_or_default();
        let usage = attempts.usage.unwrap_or(Usage {
            input: history_tokens,
            ..Usage::default()
        });
        if attempts.usage.is_none() {
            answer.record.usage = Some(usage);
        }
        let storing = store_outputs(answer.ctx, history, &turn, &plan, &bounds);
        let artifacts = answer.wait_with_heartbeat(storing).await?;
        let record = &mut *answer.record;
        let detail = format!(
            "{} {method}: {history_tokens} tokens to {} characters",
            self.trigger.name(),
            summary.chars().count()
        );
        record.notes.add("compacted", detail);
        record.metrics.compaction(self.trigger.name(), method);
        let answered = self.answered.unwrap_or_default();
        let retained_items = (self.trigger == CompactionTrigger::Threshold)
            .then(|| compact::count_retained_items(&turn, retained_from, answered));
        let tail = match self.answered {
            Some(_) => compact::repeated_items(&turn, retained_from),
            None => Vec::new(),
        };
        let blob = CompactionBlob {
            summary,
            artifacts,
            retained_items,
            tail,
        };
        Ok(Summary {
            blob: blob.seal().into(),
            text: blob.text(),
            usage,
            retained_from,
            user_message_bytes,
        })
    }

    /// Whether the request leaves room for a summary in the window, by the session's calibrated
    /// estimate. A wrong guess is harmless: the provider refuses the request and a smaller one
    /// follows. An assumed window is not relied on.
    fn fits(&self, ctx: &TurnContext, round: &Round) -> bool {
        let params = &round.attempt.answer_params;
        let window = round.attempt.route.model.window();
        let memory = &self.history.shared.memory;
        let calibration = memory.calibration(&ctx.owner, &self.history.session.id);
        let tokens = calibration.map_or(params.estimated_input_tokens, |calibration| {
            calibration.scale(&params.origin, params.estimated_input_tokens)
        });
        window.source == WindowSource::Assumed
            || tokens.saturating_add(window.output_allowance()) <= window.tokens
    }

    /// Whose learned patches the turn gets on a route.
    fn patches_of<'c>(&'c self, ctx: &'c TurnContext, route: &Route) -> PatchesOf<'c> {
        let RoutedHistory {
            shared, session, ..
        } = self.history;
        let now = ctx.environment.clock.unix();
        // What is summarized is a history.
        shared.patches_of(&ctx.owner, &session.id, route, true, now)
    }

    /// The bounds of the first choice, with the quirk patches learned about it.
    fn bounds(&self, ctx: &TurnContext) -> Bounds {
        let history = self.history;
        let (outputs, retention) = (
            history.config.context.outputs,
            history.shared.artifacts.retention(),
        );
        match history.routes.first() {
            Some(route) => {
                let mut route = route.clone();
                let learned = history.shared.upstreams.learned_quirks();
                let of = self.patches_of(ctx, &route);
                learned.apply(&mut route, of);
                Bounds::for_model(&route.model, outputs, retention)
            }
            None => Bounds {
                outputs,
                retention,
                ..Bounds::none()
            },
        }
    }
}

/// Appends the newest user message to the summary that replaces it.
fn append_newest_message(turn: &Turn<'_>, summary: &mut String) {
    let message = retained::newest_user_message(turn)
        .map(message_text)
        .unwrap_or_default();
    if message.is_empty() {
        return;
    }
    let shown: String = message.chars().take(MAX_NEWEST_MESSAGE_CHARS).collect();
    let _ = write!(
        summary,
        "\n\nThe newest message of the user, word for word:\n\n{shown}"
    );
    if shown.len() < message.len() {
        let left = message.chars().count() - MAX_NEWEST_MESSAGE_CHARS;
        let _ = write!(summary, "\n[{left} more characters]");
    }
}
