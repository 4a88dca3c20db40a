//! The requests to providers, made once more of what the client asked without its
//! secrets.
//!
//! What is shortened depends on the whole text, so that a part of a text may show a
//! part of a secret, which is found by nobody, and the text without secrets has other
//! parts shown. The request that was sent is made again of what was asked, and where
//! that is the same to the byte, what is made without secrets in the same way stands
//! for it: a replay sends the same.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::compact::{Form, Purpose};
use adapters::encoded::Encoded;
use adapters::mend::Mend;
use adapters::plan::{Bounds, Forgetful, Placed, Plan, plan};
use adapters::responses::request::TurnSource;
use registry::RouteSnapshot;

use super::ids::Ids;
use super::opaque;
use crate::diagnostics::bundle::{Attempt, Turn};
use crate::turn::{Given, Spelling, stays_from};

/// A recorded turn with its secrets, and without.
pub(super) struct Again<'t> {
    old: Side<'t>,
    new: Side<'t>,
}

/// What becomes of a request.
pub(super) enum Remade {
    /// The request and its size in tokens, estimated.
    Body(Vec<u8>, u64),
    /// It cannot be made again; nothing in it was shortened.
    Whole,
    /// It cannot be made again; something in it may be a part of a secret.
    Unknown,
}

/// One of the two.
struct Side<'t> {
    turn: &'t Turn,
    source: TurnSource,
}

/// How a request was made.
struct Way {
    /// The place of its route.
    route: usize,
    /// What was known of the model.
    mends: Vec<Mend>,
}

impl<'t> Again<'t> {
    /// None of what is no request.
    pub(super) fn of(old: &'t Turn, new: &'t Turn) -> Option<Self> {
        Some(Self {
            old: Side::of(old)?,
            new: Side::of(new)?,
        })
    }

    /// The artifact ids that are others now.
    pub(super) fn ids(&self) -> Option<Ids> {
        let (old, new) = (self.old.source.turn().ok()?, self.new.source.turn().ok()?);
        Some(Ids::between(&old, &new))
    }

    /// The plan as JSON, if it is known how it was made.
    pub(super) fn plan(&self) -> Option<Vec<u8>> {
        let attempt = self.old.turn.attempts.first()?;
        [true, false].into_iter().find_map(|reasoning| {
            let old = self.old.plan(attempt, reasoning)?;
            if old != self.old.turn.plan {
                return None;
            }
            self.new.plan(attempt, reasoning)
        })
    }

    /// The request of an attempt.
    pub(super) fn request(&self, index: usize) -> Remade {
        let attempts = &self.old.turn.attempts;
        let Some(attempt) = attempts.get(index) else {
            return Remade::Unknown;
        };
        let mut whole = true;
        for way in self.ways(attempts, index) {
            for (old, new) in self.purposes() {
                let Some((plan, sent)) = self.old.request(&way, old) else {
                    continue;
                };
                whole &= !shortens(&plan);
                // It may have been too large to be kept whole.
                if !sent.body.starts_with(&attempt.body) {
                    continue;
                }
                let Some((_, made)) = self.new.request(&way, new) else {
                    continue;
                };
                let mut body = made.body;
                if attempt.body.len() < sent.body.len() {
                    body.truncate(attempt.body.len());
                }
                return Remade::Body(body, made.estimated_tokens);
            }
        }
        if whole {
            Remade::Whole
        } else {
            Remade::Unknown
        }
    }

    /// The ways that the attempt may have taken, the likeliest first: what the attempts
    /// before it taught was learned, unless it did not help.
    fn ways(&self, attempts: &[Attempt], index: usize) -> Vec<Way> {
        let Some(attempt) = attempts.get(index) else {
            return Vec::new();
        };
        let mut routes = self.old.turn.settings.routes.iter();
        let Some(route) = routes.position(|route| route.full_name() == attempt.route) else {
            return Vec::new();
        };
        let Some(settings) = self.old.turn.settings.routes.get(route) else {
            return Vec::new();
        };
        let known = self.old.turn.given.lessons.iter().filter(|lesson| {
            lesson.provider == settings.provider && lesson.model == settings.upstream_model
        });
        let known: Vec<Mend> = known.flat_map(|lesson| lesson.mends.clone()).collect();
        let before = attempts.iter().take(index);
        let taught = before.filter(|before| before.route == attempt.route);
        let taught = taught.filter_map(|before| before.fault.as_ref()?.mend);
        let mut taught: Vec<Mend> = taught.collect();
        taught.dedup();
        let most = taught.len();
        let counts = (0..=most).rev();
        counts
            .map(|count| Way {
                route,
                mends: known
                    .iter()
                    .chain(taught.iter().take(count))
                    .copied()
                    .collect(),
            })
            .collect()
    }

    /// What a request may have been made for, with and without secrets, the likeliest
    /// first.
    fn purposes(&self) -> Vec<(Purpose, Purpose)> {
        let (old, new) = (&self.old, &self.new);
        let mut purposes = vec![(Purpose::Answer, Purpose::Answer)];
        if let (Some(old), Some(new)) = (old.compacted(), new.compacted()) {
            purposes.push((old, new));
        }
        for form in [Form::NextTurn, Form::Cut] {
            purposes.push((Purpose::summary(form), Purpose::summary(form)));
            purposes.push((old.prompted(form), new.prompted(form)));
        }
        purposes
    }
}

impl<'t> Side<'t> {
    fn of(turn: &'t Turn) -> Option<Self> {
        let body = String::from_utf8(turn.request.body.clone()).ok()?;
        let items = turn.given.items.iter();
        let items: HashMap<String, Arc<str>> = items
            .map(|(id, json)| (id.clone(), json.as_str().into()))
            .collect();
        Some(Self {
            turn,
            source: TurnSource::new(body).with_items(items),
        })
    }

    fn request(&self, way: &Way, purpose: Purpose) -> Option<(Plan, Encoded)> {
        let Given {
            outputs,
            keeping,
            baggage,
            ..
        } = &self.turn.given;
        let route: &RouteSnapshot = self.turn.settings.routes.get(way.route)?;
        let (mut dialect, mut model) = (route.dialect.clone(), route.model.clone());
        for mend in &way.mends {
            mend.apply(&mut dialect.quirks, &mut model);
        }
        let known_baggage = if dialect.quirks.wants_baggage() {
            baggage.clone().into_iter().collect()
        } else {
            HashMap::new()
        };
        let spelling = Spelling {
            wire: route.wire,
            dialect: &dialect,
            model: &model,
            upstream_model: &route.upstream_model,
            origin: &route.full_name(),
            outputs: *outputs,
            keeping: *keeping,
            known_baggage: &known_baggage,
        };
        let source = self.source.with_purpose(purpose);
        spelling.request(&source.turn().ok()?, &Forgetful).ok()
    }

    fn plan(&self, attempt: &Attempt, reasoning: bool) -> Option<Vec<u8>> {
        let given = &self.turn.given;
        let bounds = Bounds {
            window: attempt.window?,
            bytes_per_token: attempt.bytes_per_token,
            reasoning,
            outputs: given.outputs,
            keeping: given.keeping,
        };
        serde_json::to_vec_pretty(&plan(&self.source.turn().ok()?, &bounds)).ok()
    }

    /// The answer behind the summary that the client was told of.
    fn compacted(&self) -> Option<Purpose> {
        let answer = &self.turn.answer.body;
        let blob = opaque::blobs(answer).into_iter().find_map(|part| {
            let blob = std::str::from_utf8(answer.get(part)?).ok()?;
            blob.starts_with("rsc1.").then_some(blob)
        })?;
        Some(Purpose::Compacted {
            blob: blob.into(),
            from: stays_from(&self.source.turn().ok()?),
        })
    }

    /// The summary that the client asks for in its own words.
    fn prompted(&self, form: Form) -> Purpose {
        Purpose::Summary {
            form,
            prompted: true,
            tools: self.turn.given.tools.as_deref().map(Arc::from),
        }
    }
}

/// Whether something stands for a text that is longer.
fn shortens(plan: &Plan) -> bool {
    use adapters::plan::Form;
    let shown = plan.shown.values().any(|shown| match shown.form {
        Form::Excerpt | Form::Notice | Form::Page | Form::Cut => true,
        Form::Summary => false,
    });
    let omitted = |placed: &Placed| match placed {
        Placed::Omitted(_) => true,
        Placed::Message(_)
        | Placed::Answer(_)
        | Placed::Result(_)
        | Placed::Interrupted(_)
        | Placed::Stray(_) => false,
    };
    shown || plan.instructions.is_some() || plan.sequence.iter().any(omitted)
}
