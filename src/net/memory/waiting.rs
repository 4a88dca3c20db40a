//! Those who wait for a share: in their order within an owner, in turn between owners.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::{MemoryKind, MemoryShare, OwnerAccount, ProcessMemory};

/// The owners with waiting tasks; the one whose turn it is comes first.
#[derive(Default)]
pub(super) struct WaitingShares(VecDeque<(Arc<OwnerAccount>, VecDeque<WaitingShare>)>);

/// One waiting task. It has dropped the receiver if it does not wait any more.
struct WaitingShare {
    account: Arc<OwnerAccount>,
    kind: MemoryKind,
    bytes: usize,
    grant: oneshot::Sender<MemoryShare>,
}

impl Drop for WaitingShare {
    fn drop(&mut self) {
        self.account.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ProcessMemory {
    /// Waits for a share of `bytes` bytes, behind those of the same owner. The caller calls
    /// [`Self::serve_waiting`].
    pub(super) fn wait_for_share(
        &self,
        kind: MemoryKind,
        bytes: usize,
    ) -> oneshot::Receiver<MemoryShare> {
        let (grant, granted) = oneshot::channel();
        self.account.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = WaitingShare {
            account: Arc::clone(&self.account),
            kind,
            bytes,
            grant,
        };
        let mut all = self.budget.waiting.lock();
        let mut owners = all.0.iter_mut();
        let of_owner = owners.find(|(account, _)| Arc::ptr_eq(account, &self.account));
        if let Some((_, of_owner)) = of_owner {
            of_owner.push_back(waiting);
        } else {
            let account = Arc::clone(&self.account);
            all.0.push_back((account, VecDeque::from([waiting])));
        }
        granted
    }

    /// Grants what fits now, one share of each owner in turn.
    pub(super) fn serve_waiting(&self) {
        // Dropped when the lock is free.
        let mut unwanted = Vec::new();
        let mut all = self.budget.waiting.lock();
        let mut refused = 0;
        while refused < all.0.len() {
            let Some((account, mut of_owner)) = all.0.pop_front() else {
                break;
            };
            while of_owner.front().is_some_and(|it| it.grant.is_closed()) {
                of_owner.pop_front();
            }
            let Some(first) = of_owner.front() else {
                continue;
            };
            let of_account = Self {
                budget: Arc::clone(&self.budget),
                account: Arc::clone(&account),
            };
            let mut share = of_account.share(first.kind);
            if share.grow(first.bytes).is_ok() {
                refused = 0;
                if let Some(mut first) = of_owner.pop_front() {
                    let grant = std::mem::replace(&mut first.grant, oneshot::channel().0);
                    unwanted.extend(grant.send(share).err());
                }
            } else {
                refused += 1;
            }
            all.0.push_back((account, of_owner));
        }
    }
}
