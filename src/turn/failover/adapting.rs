//! Answers the refusal of a request with a changed one, and remembers what has helped.

use adapters::experiments::Refusal;
use adapters::fault::Fault;
use adapters::quirk_patch::QuirkPatch;
use adapters::refusal::change::Change;

use super::{Failover, PreparedAttempt, learn_patch};
use crate::turn::context::TurnContext;
use crate::turn::session_changes::ChangedSession;
use crate::upstream::{PatchesOf, is_limit};

impl Failover {
    /// Whose learned patches this turn gets.
    pub(super) fn patches_of(&self) -> PatchesOf<'_> {
        PatchesOf {
            owner: &self.owner,
            now: self.now,
            tries_again: self.tries_again,
        }
    }

    /// Encodes the turn again with the next change that may answer a refusal. `None` if there is
    /// none that would change the request. What the wording of the refusal makes sure is learned
    /// at once; other changes are once the request is answered.
    pub(in crate::turn) fn answer_refusal(
        &mut self,
        ctx: &TurnContext,
        attempt: &PreparedAttempt,
        fault: &Fault,
    ) -> Option<(Change, PreparedAttempt)> {
        let route = &attempt.unpatched;
        if let Some(patch) = fault.patch.filter(|patch| is_limit(*patch)) {
            self.learn(attempt, patch, &fault.message);
        }
        let known = self.shared.upstreams.learned_quirks();
        let known = known.tried_again(route, self.patches_of());
        let known: Vec<Change> = known.into_iter().map(Change::Quirk).collect();
        let name = route.full_name();
        let mut changed = self.changed.get(&name).cloned().unwrap_or_default();
        let mut experiments = std::mem::take(&mut changed.experiments);
        let refusal = Refusal {
            fault,
            body: &attempt.request.body,
            quirks: &attempt.route.dialect.quirks,
        };
        let mut undone = Vec::new();
        let mut encoded = None;
        let change = experiments.next(
            &refusal,
            &known,
            |change| undone.push(change.clone()),
            |experiments, change| {
                if !self.is_believed(attempt, change) {
                    return false;
                }
                changed.experiments = experiments.clone();
                self.changed.insert(name.clone(), changed.clone());
                let again = self.encode_again(ctx, route).ok();
                encoded = again.filter(|again| again.request != attempt.request);
                encoded.is_some()
            },
        );
        changed.experiments = experiments;
        for change in undone {
            if let Change::Quirk(patch) = change {
                let learned = self.shared.upstreams.learned_quirks();
                learned.unlearn(route, self.patches_of(), patch);
            }
        }
        self.put_changed(name, changed);
        let change = change?;
        if let Some(patch) = fault.patch.filter(|patch| Change::Quirk(*patch) == change) {
            self.learn(attempt, patch, &fault.message);
        }
        Some((change, encoded?))
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
            learned.unlearn(&attempt.unpatched, self.patches_of(), patch);
        }
    }

    /// Whether a limit can be true.
    fn is_believed(&self, attempt: &PreparedAttempt, change: &Change) -> bool {
        match change {
            Change::Quirk(patch) => {
                let learned = self.shared.upstreams.learned_quirks();
                learned.believes(&attempt.unpatched, *patch)
            }
            Change::Content(_) => true,
        }
    }

    fn learn(&self, attempt: &PreparedAttempt, patch: QuirkPatch, evidence: &str) {
        let learned = (patch, evidence);
        let (shared, config) = (&self.shared, &self.config);
        learn_patch(
            shared,
            config,
            &attempt.unpatched,
            self.patches_of(),
            learned,
        );
    }

    /// Remembers the changes with which the attempt was answered, and forgets those without which
    /// it was although they were thought to be needed. Returns the number of the former.
    pub(super) fn learn_what_helped(&mut self, attempt: &PreparedAttempt) -> usize {
        let name = attempt.unpatched.full_name();
        let mut changed = self.changed.get(&name).cloned().unwrap_or_default();
        let trials = changed.experiments.succeed();
        for trial in &trials {
            match &trial.change {
                Change::Quirk(patch) => self.learn(attempt, *patch, trial.evidence()),
                Change::Content(change) => changed.left_out.add(change),
            }
        }
        if !trials.is_empty() {
            self.put_changed(name, changed);
        }
        let learned = self.shared.upstreams.learned_quirks();
        for patch in learned.tried_again(&attempt.unpatched, self.patches_of()) {
            learned.unlearn(&attempt.unpatched, self.patches_of(), patch);
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
