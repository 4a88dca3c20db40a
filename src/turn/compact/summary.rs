//! What comes of a history: a summary by the model, asked for as the next turn and
//! once more in a smaller request, else an extract of the session.

use std::fmt::Write as _;
use std::sync::Arc;

use adapters::compact::{self, Blob, Form, Purpose, extract};
use adapters::event::Usage;
use adapters::fault::{Fault, Kind};
use adapters::plan::{self, Bounds};
use adapters::text::Text;
use adapters::turn::Turn;
use registry::WindowSource;

use super::{Door, place, wording};
use crate::secrets::Redactor;
use crate::turn::ctx::Ctx;
use crate::turn::engine::{self, Pace};
use crate::turn::prepare::{History, Prepared};
use crate::turn::record::Record;
use crate::turn::sink::JsonSink;
use crate::turn::told::Told;

/// The most characters of an extract, where the window does not ask for less.
const EXTRACT: usize = 24_000;
/// The most characters of a user message that are put behind a summary.
const LAST_WORDS: usize = 8_000;

/// What comes of a history.
pub(super) struct Summary {
    /// The `encrypted_content` of a compaction item.
    pub(super) blob: Arc<str>,
    /// The same for a client that wants a message.
    pub(super) text: String,
    /// What the request for it used; an estimate where nobody says so.
    pub(super) usage: Usage,
    /// The first item that stays beside it.
    pub(super) from: usize,
    /// Bytes of user messages that may stay beside it: half of the window.
    pub(super) room: usize,
}

/// What is needed to ask for one.
pub(super) struct Summarizer<'s> {
    pub(super) ctx: &'s Ctx,
    pub(super) door: Door,
    pub(super) history: &'s History,
    /// The session's tools, where the request came without them.
    pub(super) tools: Option<&'s Arc<str>>,
    pub(super) pace: Pace,
    pub(super) told: &'s Told,
}

/// What is known while the summary is asked for.
#[derive(Default)]
struct Tried {
    summary: Option<(String, Form)>,
    /// Why there is none yet.
    why: String,
    usage: Option<Usage>,
    /// Tokens of the history as a whole, estimated.
    before: Option<u64>,
}

impl Summarizer<'_> {
    /// A summary of the history. The only fault is the end of the program, which the
    /// record knows of.
    pub(super) async fn summary(
        &self,
        redactor: &(impl Fn() -> Redactor + Send + Sync),
        record: &mut Record,
    ) -> Result<Summary, Fault> {
        let mut tried = Tried::default();
        for form in [Form::NextTurn, Form::Cut] {
            let purpose = Purpose::Summary {
                form,
                prompted: self.door == Door::Local,
                tools: self.tools.map(Arc::clone),
            };
            let prepared = match self.history.prepared(self.ctx, purpose) {
                Ok(prepared) => prepared,
                Err(fault) => {
                    fault.kind.name().clone_into(&mut tried.why);
                    continue;
                }
            };
            let estimate = prepared.way.terms.estimated_input_tokens;
            tried.before.get_or_insert(estimate);
            if form == Form::NextTurn && !self.fits(&prepared) {
                "the history does not fit".clone_into(&mut tried.why);
                continue;
            }
            let route = prepared.way.route.clone();
            let answered = self.ask(prepared, redactor, record).await;
            if let Err(fault) = &answered
                && fault.kind == Kind::Draining
            {
                return Err(fault.clone());
            }
            let counted = record.goes_on();
            tried.usage = counted.or(tried.usage);
            let why = match answered.map(|response| wording::summary(&response)) {
                Ok(Ok(summary)) => {
                    tried.summary = Some((summary, form));
                    break;
                }
                Ok(Err(why)) => why,
                Err(fault) => {
                    if let Some(mend) = fault.mend {
                        // It may not have changed the request that taught it.
                        let lessons = self.history.shared.upstreams.lessons();
                        lessons.learn(&route, mend);
                    }
                    if !is_worth_another_try(fault.kind) {
                        fault.kind.name().clone_into(&mut tried.why);
                        break;
                    }
                    fault.kind.name()
                }
            };
            why.clone_into(&mut tried.why);
        }
        self.conclude(tried, record).await
    }

    /// The final response object of one request.
    async fn ask(
        &self,
        prepared: Box<Prepared>,
        redactor: &(impl Fn() -> Redactor + Send + Sync),
        record: &mut Record,
    ) -> Result<Vec<u8>, Fault> {
        let mut sink = JsonSink::default();
        let asking = engine::run(
            self.ctx, prepared, self.pace, redactor, record, self.told, &mut sink,
        );
        Box::pin(asking).await?;
        Ok(sink.0.unwrap_or_default())
    }

    /// Makes the item of what was tried.
    async fn conclude(&self, tried: Tried, record: &mut Record) -> Result<Summary, Fault> {
        let history = self.history;
        let mut turn = history.source.turn()?;
        if self.door == Door::Local {
            // Its prompt is no part of the history.
            turn.items.pop();
        }
        let bounds = self.bounds();
        let plan = plan::plan_with(&turn, &bounds, &history.shared.measured);
        let room = bounds.window_bytes() / 2;
        let (mut summary, how) = match tried.summary {
            Some((summary, Form::NextTurn)) => (summary, "next_turn"),
            Some((summary, Form::Cut)) => (summary, "cut"),
            None => {
                record.notes.add("compaction_extracted", tried.why);
                let most = EXTRACT.min(bounds.window_bytes() / 8);
                (extract(&turn, &plan, most), "extract")
            }
        };
        let (from, loses_wish) = match self.door {
            Door::Threshold => place::of(&turn),
            Door::Endpoint | Door::Trigger | Door::Local => (turn.items.len(), false),
        };
        if loses_wish {
            add_last_words(&turn, &mut summary);
        }
        let before = tried.before.unwrap_or_default();
        let usage = tried.usage.unwrap_or(Usage {
            input: before,
            ..Usage::default()
        });
        let artifacts = self.lasting(&turn, &plan, &bounds).await;
        let detail = format!(
            "{} {how}: {before} tokens to {} characters",
            self.door.name(),
            summary.chars().count()
        );
        record.notes.add("compacted", detail);
        record.metrics.compaction(self.door.name(), how);
        let late = (self.door == Door::Threshold).then(|| compact::late(&turn, from));
        let blob = Blob {
            summary,
            artifacts,
            late,
        };
        Ok(Summary {
            blob: blob.seal().into(),
            text: blob.text(),
            usage,
            from,
            room,
        })
    }

    /// Whether the request leaves room for a summary, as far as the window and what
    /// the session weighs are known. Where that is wrong the provider refuses it, and
    /// a smaller one follows.
    fn fits(&self, prepared: &Prepared) -> bool {
        let (terms, window) = (&prepared.way.terms, prepared.way.route.model.window());
        let weighings = &self.history.shared.weighings;
        let last = weighings.find(&self.ctx.owner, &self.history.session.id);
        let tokens = last.map_or(terms.estimated_input_tokens, |last| {
            last.tokens(&terms.origin, terms.estimated_input_tokens)
        });
        window.source == WindowSource::Assumed
            || tokens.saturating_add(window.output_allowance()) <= window.tokens
    }

    /// What the history is measured by: the first choice, as it is known now.
    fn bounds(&self) -> Bounds {
        let history = self.history;
        let (outputs, keeping) = (
            history.config.context.outputs,
            history.shared.artifacts.keeping(),
        );
        match history.routes.first() {
            Some(route) => {
                let mut route = route.clone();
                history.shared.upstreams.lessons().apply(&mut route);
                Bounds::of(&route.model, outputs, keeping)
            }
            None => Bounds {
                outputs,
                keeping,
                ..Bounds::none()
            },
        }
    }
}

/// Whether a smaller request without tools may be answered after this fault.
fn is_worth_another_try(kind: Kind) -> bool {
    match kind {
        Kind::InvalidRequest
        | Kind::ContextLength
        | Kind::Refused
        | Kind::ContentFilter
        | Kind::RateLimit
        | Kind::Overloaded
        | Kind::Unavailable
        | Kind::Timeout
        | Kind::Cut
        | Kind::BadReply
        | Kind::Internal => true,
        Kind::ModelNotFound
        | Kind::Authentication
        | Kind::Permission
        | Kind::Quota
        | Kind::Unreachable
        | Kind::Draining => false,
    }
}

/// Puts the newest user message behind the summary that replaces it.
fn add_last_words(turn: &Turn<'_>, summary: &mut String) {
    let words = place::newest_user_message(turn)
        .map(words)
        .unwrap_or_default();
    if words.is_empty() {
        return;
    }
    let shown: String = words.chars().take(LAST_WORDS).collect();
    let _ = write!(
        summary,
        "\n\nThe newest message of the user, word for word:\n\n{shown}"
    );
    if shown.len() < words.len() {
        let left = words.chars().count() - LAST_WORDS;
        let _ = write!(summary, "\n[{left} more characters]");
    }
}

/// The text of a message: a string, or a list of parts.
fn words(content: &serde_json::value::RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Part {
        #[serde(default)]
        text: String,
    }
    if let Some(text) = Text::from_raw(content) {
        return text.decoded().into_owned();
    }
    let parts: Vec<Part> = serde_json::from_str(content.get()).unwrap_or_default();
    let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
    texts.join("\n")
}
