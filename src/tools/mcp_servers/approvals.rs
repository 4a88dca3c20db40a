//! The calls that people were asked to approve. Each was asked for in a session, of a server, with
//! its arguments; an approval is good for that call alone, once, for a day.

use std::sync::{Arc, OnceLock};

use adapters::turn::ApprovalCall;
use hashlink::LruCache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::target::PartsHash;
use crate::store::{SessionRow, Store, StoreError};
use crate::turn::{APPROVAL_SECONDS, ToolResult};

/// The most calls that are known in memory.
const MAX_KNOWN: usize = 1_000;
/// The longest result that is kept for a client that asks again, in bytes.
const MAX_RESULT: usize = 64 << 10;

/// The calls of all sessions, in memory and in the store, if there is one. Lives as long as the
/// process.
pub(super) struct McpApprovals {
    known: Mutex<LruCache<ApprovalKey, Approval>>,
    store: OnceLock<Arc<Store>>,
}

/// A call of a session.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ApprovalKey {
    pub(super) owner: Arc<str>,
    pub(super) session: String,
    /// The id of the item that asked for the approval.
    pub(super) id: String,
}

/// A call that a person was asked to approve, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    id: String,
    call: CallHash,
    /// When it was asked for, in seconds since 1970.
    asked: u64,
    state: ApprovalState,
}

/// A hash of the server, the tool and the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct CallHash(String);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApprovalState {
    /// Nobody has decided.
    Waiting,
    /// A person has refused it.
    Refused,
    /// It was begun. It never begins again.
    Begun,
    /// It has ended with this result, unless that was too long to keep.
    Ended(Option<Box<ToolResult>>),
}

/// What becomes of a call that a person has approved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimedCall {
    /// It is run, now and never again.
    Run,
    /// It has run before, with this result.
    HasRun(Box<ToolResult>),
    /// It is not run, for this reason.
    NotRun(&'static str),
}

impl CallHash {
    /// Of a call on the server with this identity.
    pub(super) fn of(server: &str, call: &ApprovalCall) -> Self {
        let mut hash = PartsHash::default();
        for part in [server, &call.name, &call.arguments] {
            hash.add(part);
        }
        Self(hash.text())
    }
}

impl Default for McpApprovals {
    fn default() -> Self {
        Self {
            known: Mutex::new(LruCache::new(MAX_KNOWN)),
            store: OnceLock::new(),
        }
    }
}

impl McpApprovals {
    /// Keeps them in the store as well.
    pub(super) fn keep_in(&self, store: &Arc<Store>) {
        self.store.set(Arc::clone(store)).ok();
    }

    /// A person is asked to approve a call. Does not wait for the disk.
    pub(super) fn ask(&self, key: ApprovalKey, call: CallHash, now: u64) {
        let approval = Approval {
            id: key.id.clone(),
            call,
            asked: now,
            state: ApprovalState::Waiting,
        };
        self.note(&key, &approval, now);
        self.known.lock().insert(key, approval);
    }

    /// A person has refused a call.
    pub(super) async fn refuse(&self, key: ApprovalKey, now: u64) {
        self.load(&key).await;
        let refused = {
            let mut known = self.known.lock();
            let approval = known.get_mut(&key);
            let approval = approval.filter(|it| it.state == ApprovalState::Waiting);
            approval.map(|approval| {
                approval.state = ApprovalState::Refused;
                approval.clone()
            })
        };
        if let Some(refused) = refused {
            self.note(&key, &refused, now);
        }
    }

    /// Takes a call that a person has approved, if it is the one that was asked for and has not run
    /// yet. Waits for the disk: once it is begun it never begins again, whatever happens to the
    /// process.
    pub(super) async fn claim(&self, key: &ApprovalKey, call: &CallHash, now: u64) -> ClaimedCall {
        self.load(key).await;
        let claimed = {
            let mut known = self.known.lock();
            let Some(approval) = known.get_mut(key) else {
                return ClaimedCall::NotRun(
                    "The call was not run: nobody was asked to approve it in this session, or too long ago.",
                );
            };
            match approval.check(call, now) {
                ClaimedCall::Run => {
                    approval.state = ApprovalState::Begun;
                    approval.clone()
                }
                other => return other,
            }
        };
        let Some(store) = self.store.get() else {
            return ClaimedCall::Run;
        };
        match store.put_mcp_approval(row(key, &claimed, now)).await {
            Ok(()) => ClaimedCall::Run,
            Err(error) => {
                tracing::warn!("an approved call cannot be stored, and is not run: {error}");
                if let Some(approval) = self.known.lock().get_mut(key) {
                    approval.state = ApprovalState::Waiting;
                }
                ClaimedCall::NotRun(
                    "The call was not run, because it could not be stored that it is. It may be approved again.",
                )
            }
        }
    }

    /// A call that was claimed has ended.
    pub(super) fn end(&self, key: &ApprovalKey, result: &ToolResult, now: u64) {
        let mut known = self.known.lock();
        let Some(approval) = known.get_mut(key) else {
            return;
        };
        let kept = Some(result).filter(|result| result.text.len() <= MAX_RESULT);
        approval.state = ApprovalState::Ended(kept.cloned().map(Box::new));
        let approval = approval.clone();
        drop(known);
        self.note(key, &approval, now);
    }

    fn note(&self, key: &ApprovalKey, approval: &Approval, now: u64) {
        if let Some(store) = self.store.get()
            && !store.note_mcp_approval(row(key, approval, now))
        {
            tracing::warn!("the store is busy, and an approval is known until the next start only");
        }
    }

    /// Reads what an earlier process knew of a call.
    async fn load(&self, key: &ApprovalKey) {
        if self.known.lock().contains_key(key) {
            return;
        }
        let Some(store) = self.store.get() else {
            return;
        };
        let found = match store.mcp_approvals(&key.owner, &key.session).await {
            Ok(found) => found,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!("the approvals of a session cannot be read: {error}");
                return;
            }
        };
        let (rows, _memory) = found.into_parts();
        let rows = rows.iter().rev();
        let mut rows = rows.filter_map(|row| serde_json::from_str::<Approval>(row).ok());
        if let Some(approval) = rows.find(|approval| approval.id == key.id) {
            let mut known = self.known.lock();
            if !known.contains_key(key) {
                known.insert(key.clone(), approval);
            }
        }
    }
}

impl Approval {
    fn check(&self, call: &CallHash, now: u64) -> ClaimedCall {
        match &self.state {
            _ if self.call != *call => ClaimedCall::NotRun(
                "The call was not run: its server, tool or arguments are not those that a person was asked to approve.",
            ),
            ApprovalState::Refused => {
                ClaimedCall::NotRun("The call was not run: the user has refused it before.")
            }
            ApprovalState::Begun => ClaimedCall::NotRun(
                "The call was begun before, and it is not known how it ended. It was not run again.",
            ),
            ApprovalState::Ended(None) => ClaimedCall::NotRun(
                "The call has run before, and its result is not known any more. It was not run again.",
            ),
            ApprovalState::Ended(Some(result)) => ClaimedCall::HasRun(result.clone()),
            ApprovalState::Waiting if now.saturating_sub(self.asked) > APPROVAL_SECONDS => {
                ClaimedCall::NotRun(
                    "The call was not run: it was approved more than 24 hours after the user was asked. Call the tool again if it is still needed.",
                )
            }
            ApprovalState::Waiting => ClaimedCall::Run,
        }
    }
}

fn row(key: &ApprovalKey, approval: &Approval, now: u64) -> SessionRow {
    SessionRow {
        owner: key.owner.to_string(),
        session: key.session.clone(),
        text: serde_json::to_string(approval).unwrap_or_default(),
        accessed: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DataDir;

    const NOW: u64 = 1_000_000;

    fn key(owner: &str, session: &str, id: &str) -> ApprovalKey {
        ApprovalKey {
            owner: owner.into(),
            session: session.to_owned(),
            id: id.to_owned(),
        }
    }

    fn hash(server: &str, name: &str, arguments: &str) -> CallHash {
        let call = ApprovalCall {
            id: String::new(),
            server_label: "docs".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        CallHash::of(server, &call)
    }

    fn call() -> CallHash {
        hash("s", "remove", "{}")
    }

    fn asked() -> McpApprovals {
        let approvals = McpApprovals::default();
        approvals.ask(key("local", "s", "a"), call(), NOW);
        approvals
    }

    /// Promise: An approval is good for the call that was asked for alone: in its session, for its
    /// client, on its server, of its tool, with its arguments, and for 24 hours.
    #[tokio::test]
    async fn an_approval_is_bound_to_its_call() {
        let asked_for = key("local", "s", "a");
        for (claimed, by, at, runs) in [
            (call(), asked_for.clone(), NOW + APPROVAL_SECONDS, true),
            (call(), asked_for.clone(), NOW + APPROVAL_SECONDS + 1, false),
            (call(), key("other", "s", "a"), NOW, false),
            (call(), key("local", "t", "a"), NOW, false),
            (call(), key("local", "s", "b"), NOW, false),
            (hash("t", "remove", "{}"), asked_for.clone(), NOW, false),
            (hash("s", "list", "{}"), asked_for.clone(), NOW, false),
            (hash("s", "remove", "{ }"), asked_for, NOW, false),
        ] {
            let found = asked().claim(&by, &claimed, at).await;
            assert_eq!(found == ClaimedCall::Run, runs, "{found:?}");
        }
    }

    /// Promise: An approved call runs once. A request that is sent again gets the result of the
    /// first one.
    #[tokio::test]
    async fn an_approval_is_good_once() {
        let (approvals, key) = (asked(), key("local", "s", "a"));
        assert_eq!(approvals.claim(&key, &call(), NOW).await, ClaimedCall::Run);
        let again = approvals.claim(&key, &call(), NOW).await;
        assert!(matches!(again, ClaimedCall::NotRun(_)), "{again:?}");
        let result = ToolResult {
            text: "done".to_owned(),
            ..ToolResult::default()
        };
        approvals.end(&key, &result, NOW);
        let again = approvals
            .claim(&key, &call(), NOW + 2 * APPROVAL_SECONDS)
            .await;
        assert_eq!(again, ClaimedCall::HasRun(Box::new(result)));
    }

    /// Promise: A call that a person has refused does not run if it is approved later.
    #[tokio::test]
    async fn a_refusal_is_final() {
        let (approvals, key) = (asked(), key("local", "s", "a"));
        approvals.refuse(key.clone(), NOW).await;
        let claimed = approvals.claim(&key, &call(), NOW).await;
        assert!(matches!(claimed, ClaimedCall::NotRun(_)), "{claimed:?}");
    }

    /// Promise: After a restart a call can still be approved, and one that had begun does not begin
    /// again, whether or not its end is known.
    #[tokio::test]
    async fn approvals_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let started = || {
            let approvals = McpApprovals::default();
            let store = Store::open(&DataDir::new(folder.path()), 0).unwrap();
            approvals.keep_in(&Arc::new(store));
            approvals
        };
        let key = |id| key("local", "s", id);
        {
            let approvals = started();
            for id in ["waiting", "begun", "ended", "refused"] {
                approvals.ask(key(id), call(), NOW);
            }
            for id in ["begun", "ended"] {
                let claimed = approvals.claim(&key(id), &call(), NOW).await;
                assert_eq!(claimed, ClaimedCall::Run);
            }
            approvals.end(&key("ended"), &ToolResult::failure("no"), NOW);
            approvals.refuse(key("refused"), NOW).await;
        }
        let approvals = started();
        let mut found = Vec::new();
        for id in ["waiting", "begun", "ended", "refused"] {
            found.push(match approvals.claim(&key(id), &call(), NOW).await {
                ClaimedCall::Run => "run",
                ClaimedCall::HasRun(_) => "has run",
                ClaimedCall::NotRun(_) => "not run",
            });
        }
        assert_eq!(found, ["run", "not run", "has run", "not run"]);
    }
}
