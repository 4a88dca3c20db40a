//! Answers the refusal of a request with a changed one, and remembers what has helped.

use adapters::experiments::Refusal;
use adapters::fault::Fault;
use adapters::provider_error;
use adapters::quirk_patch::QuirkPatch;
use adapters::refusal::change::{Change, ChangeScope};
use registry::Route;
use xxhash_rust::xxh3::xxh3_64;

use super::{Failover, PreparedAttempt, learn_patch};
use crate::turn::context::TurnContext;
use crate::turn::session_changes::ChangedSession;
use crate::upstream::{PatchesOf, is_limit};

impl Failover {
    /// Whose learned patches this turn gets on a route.
    pub(super) fn patches_of(&self, route: &Route) -> PatchesOf<'_> {
        let (shared, owner) = (&self.shared, &self.owner);
        PatchesOf {
            tries_again: self.tries_again,
            ..shared.patches_of(owner, &self.session, route, self.has_history, self.now)
        }
    }

    /// Undoes the last change if the refusal has come back, and, if one more request may be sent,
    /// encodes the turn again with the next change that may answer it. `None` if there is none
    /// that makes it a request which was not refused before. What the wording of the refusal makes
    /// sure is learned at once; other changes are once the request is answered.
    pub(in crate::turn) fn answer_refusal(
        &mut self,
        ctx: &TurnContext,
        attempt: &PreparedAttempt,
        fault: &Fault,
        may_send: bool,
    ) -> Option<(Change, PreparedAttempt)> {
        self.refused.insert(xxh3_64(&attempt.request.body));
        let route = &attempt.unpatched;
        if let Some(patch) = fault.patch.filter(|patch| is_limit(*patch)) {
            self.learn(attempt, patch, &fault.message);
        }
        let refusal = Refusal {
            fault,
            body: &attempt.request.body,
            quirks: &attempt.route.dialect.quirks,
        };
        // A failure that is not about the request does not show that an old patch is needed.
        if may_send
            && (refusal.may_be_answered() || fault.patch.is_some())
            && let Some(known) = self.put_back_old(ctx, attempt)
        {
            return Some(known);
        }
        let name = route.full_name();
        let mut changed = self.changed.get(&name).cloned().unwrap_or_default();
        let mut experiments = std::mem::take(&mut changed.experiments);
        if let Some(Change::Quirk(patch)) = experiments.undo_useless(&refusal) {
            let learned = self.shared.upstreams.learned_quirks();
            learned.unlearn(route, self.patches_of(route), patch);
        }
        let mut encoded = None;
        let change = may_send.then(|| {
            experiments.next(&refusal, |experiments, change| {
                if !self.is_believed(attempt, fault, change) {
                    return false;
                }
                changed.experiments = experiments.clone();
                self.changed.insert(name.clone(), changed.clone());
                let again = self.encode_again(ctx, route).ok();
                encoded = again.filter(|again| !self.is_refused(again));
                encoded.is_some()
            })
        });
        changed.experiments = experiments;
        self.put_changed(name, changed);
        let change = change.flatten()?;
        if let Some(patch) = fault.patch.filter(|patch| Change::Quirk(*patch) == change) {
            self.learn(attempt, patch, &fault.message);
        }
        Some((change, encoded?))
    }

    fn is_refused(&self, attempt: &PreparedAttempt) -> bool {
        self.refused.contains(&xxh3_64(&attempt.request.body))
    }

    /// Takes back the old patches that the request was sent without, if it had any: they are still
    /// needed.
    fn put_back_old(
        &mut self,
        ctx: &TurnContext,
        attempt: &PreparedAttempt,
    ) -> Option<(Change, PreparedAttempt)> {
        let first = *attempt.tried_again.first()?;
        self.tries_again = false;
        for patch in &attempt.tried_again {
            self.learn(attempt, *patch, "it was refused again without it");
        }
        let again = self.encode_again(ctx, &attempt.unpatched).ok()?;
        let is_new = !self.is_refused(&again);
        is_new.then_some((Change::Quirk(first), again))
    }

    /// Learns a patch that an answer shows to be true of its model, or forgets it.
    pub(in crate::turn) fn observe(
        &self,
        attempt: &PreparedAttempt,
        patch: QuirkPatch,
        is_true: bool,
    ) {
        if is_true {
            self.learn(attempt, patch, "its answers");
        } else {
            let learned = self.shared.upstreams.learned_quirks();
            let route = &attempt.unpatched;
            learned.unlearn(route, self.patches_of(route), patch);
        }
    }

    /// Whether a limit can be true. One that the refusal quotes from the request cannot.
    fn is_believed(&self, attempt: &PreparedAttempt, fault: &Fault, change: &Change) -> bool {
        let Change::Quirk(patch) = change else {
            return true;
        };
        let learned = self.shared.upstreams.learned_quirks();
        let body = &attempt.request.body;
        learned.believes(&attempt.unpatched, *patch)
            && !provider_error::quotes_limit(&fault.message, *patch, body)
    }

    fn learn(&self, attempt: &PreparedAttempt, patch: QuirkPatch, evidence: &str) {
        let learned = (patch, evidence);
        let (shared, config) = (&self.shared, &self.config);
        let route = &attempt.unpatched;
        learn_patch(shared, config, route, self.patches_of(route), learned);
    }

    /// Remembers the changes with which the attempt was answered, and forgets those without which
    /// it was although they were thought to be needed. Returns the number of the former.
    pub(super) fn learn_what_helped(&mut self, attempt: &PreparedAttempt) -> usize {
        let route = &attempt.unpatched;
        let name = route.full_name();
        let mut changed = self.changed.get(&name).cloned().unwrap_or_default();
        let trials = changed.experiments.succeed();
        for trial in &trials {
            match &trial.change {
                // A limit that no known phrase states holds for its owner alone.
                Change::Quirk(patch) if is_limit(*patch) => {
                    let learned = self.shared.upstreams.learned_quirks();
                    let (of, of_owner) = (self.patches_of(route), (*patch, ChangeScope::Owner));
                    learned.learn_for(route, of, of_owner, trial.evidence());
                }
                Change::Quirk(patch) => self.learn(attempt, *patch, trial.evidence()),
                Change::Content(change) => changed.left_out.add(change),
            }
        }
        if !trials.is_empty() {
            self.put_changed(name, changed);
        }
        if self.tries_again {
            let learned = self.shared.upstreams.learned_quirks();
            for patch in &attempt.tried_again {
                learned.unlearn(route, self.patches_of(route), *patch);
            }
        }
        trials.len()
    }

    /// Remembers what the session does otherwise on a route.
    fn put_changed(&mut self, route: String, changed: ChangedSession) {
        let (owner, session) = (&self.owner, &self.session);
        let changes = &self.shared.session_changes;
        changes.put(owner, session, &route, &changed, self.now);
        self.changed.insert(route, changed);
    }
}
