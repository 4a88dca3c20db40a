//! Fairness between owners: no owner alone takes the last part of what several share.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The whole divided by this is reserved for owners with small holdings.
const RESERVED_PART: usize = 4;
/// A holding is small up to the whole divided by this.
const SMALL_PART: usize = 8;

/// Whether several owners may use the server. Made at its start and set by its configuration;
/// clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Sharing(Arc<AtomicBool>);

impl Sharing {
    /// Several owners may use the server, or only one.
    pub fn set(&self, is_shared: bool) {
        self.0.store(is_shared, Ordering::Relaxed);
    }

    /// The most that one owner may have of a whole.
    pub fn most_of_owner(&self, whole: usize) -> usize {
        if self.0.load(Ordering::Relaxed) {
            // Of two or more the last one is reserved.
            (whole - whole.div_ceil(RESERVED_PART)).max(whole.min(1))
        } else {
            whole
        }
    }

    /// Whether an owner may hold `held` of the whole, when all owners together then use `used` of
    /// it.
    pub fn allows(&self, whole: usize, used: usize, held: impl FnOnce() -> usize) -> bool {
        used <= whole
            && (used <= self.most_of_owner(whole) || held() <= (whole / SMALL_PART).max(1))
    }
}

/// A number of places that owners take and give back. Lives as long as what has the places.
#[derive(Debug)]
pub struct FairPlaces {
    sharing: Sharing,
    state: Mutex<TakenPlaces>,
}

#[derive(Debug)]
struct TakenPlaces {
    all: usize,
    used: usize,
    /// How many each owner has, if any.
    held: BTreeMap<Arc<str>, usize>,
    /// Those who wait, by owner; the owner whose turn it is comes first.
    waiting: VecDeque<(Arc<str>, VecDeque<oneshot::Sender<OwnerPlace>>)>,
}

/// A place of an owner, until it is dropped.
#[derive(Debug)]
pub struct OwnerPlace {
    places: Arc<FairPlaces>,
    owner: Arc<str>,
}

impl OwnerPlace {
    /// Whether this is a place of an owner.
    pub fn is_of(&self, owner: &str) -> bool {
        *self.owner == *owner
    }
}

impl FairPlaces {
    /// A limit of `all` places for all owners together.
    pub fn new(all: usize, sharing: Sharing) -> Arc<Self> {
        Arc::new(Self {
            sharing,
            state: Mutex::new(TakenPlaces {
                all,
                used: 0,
                held: BTreeMap::new(),
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Takes a place, once there is one for this owner: those who wait have theirs in turn by
    /// owner.
    pub async fn take(self: &Arc<Self>, owner: &str) -> OwnerPlace {
        let owner: Arc<str> = owner.into();
        loop {
            let (grant, granted) = oneshot::channel();
            let unwanted = {
                let mut state = self.state.lock();
                let mut owners = state.waiting.iter_mut();
                match owners.find(|(waiting, _)| *waiting == owner) {
                    Some((_, of_owner)) => of_owner.push_back(grant),
                    None => state
                        .waiting
                        .push_back((Arc::clone(&owner), VecDeque::from([grant]))),
                }
                self.serve(&mut state)
            };
            drop(unwanted);
            if let Ok(place) = granted.await {
                return place;
            }
        }
    }

    /// Takes a place if there is one for this owner now.
    pub fn try_take(self: &Arc<Self>, owner: &Arc<str>) -> Option<OwnerPlace> {
        let mut state = self.state.lock();
        self.may_take(&state, owner)
            .then(|| self.placed(&mut state, owner))
    }

    /// How many places are taken.
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    fn may_take(&self, state: &TakenPlaces, owner: &str) -> bool {
        let held = || state.held.get(owner).copied().unwrap_or(0) + 1;
        self.sharing.allows(state.all, state.used + 1, held)
    }

    fn placed(self: &Arc<Self>, state: &mut TakenPlaces, owner: &Arc<str>) -> OwnerPlace {
        state.used += 1;
        *state.held.entry(Arc::clone(owner)).or_default() += 1;
        OwnerPlace {
            places: Arc::clone(self),
            owner: Arc::clone(owner),
        }
    }

    /// Gives places to those who wait. Returns the places of those who do not wait any more, to be
    /// dropped without the lock.
    fn serve(self: &Arc<Self>, state: &mut TakenPlaces) -> Vec<OwnerPlace> {
        let mut unwanted = Vec::new();
        let mut refused = 0;
        while refused < state.waiting.len() {
            let Some((owner, mut of_owner)) = state.waiting.pop_front() else {
                break;
            };
            of_owner.retain(|grant| !grant.is_closed());
            if of_owner.is_empty() {
                continue;
            }
            if self.may_take(state, &owner)
                && let Some(grant) = of_owner.pop_front()
            {
                refused = 0;
                let place = self.placed(state, &owner);
                unwanted.extend(grant.send(place).err());
            } else {
                refused += 1;
            }
            state.waiting.push_back((owner, of_owner));
        }
        unwanted
    }
}

impl Drop for OwnerPlace {
    fn drop(&mut self) {
        let unwanted = {
            let mut state = self.places.state.lock();
            state.used -= 1;
            if let Some(held) = state.held.get_mut(&self.owner) {
                *held -= 1;
                if *held == 0 {
                    state.held.remove(&self.owner);
                }
            }
            self.places.serve(&mut state)
        };
        drop(unwanted);
    }
}

/// Which entry of a full list has to go, so that nobody takes away what others have: the position
/// of the oldest entry of the owner who has most. `owners` are those of the entries, the oldest
/// first. `None` if there are none.
pub(crate) fn oldest_of_largest<'o>(
    mut owners: impl Iterator<Item = &'o str> + Clone,
) -> Option<usize> {
    let mut entries = BTreeMap::<&str, usize>::new();
    for owner in owners.clone() {
        *entries.entry(owner).or_default() += 1;
    }
    let most = entries.values().max()?;
    owners.position(|owner| entries.get(owner) == Some(most))
}

/// Inserts an entry as the newest. If there are more than `most` then, the oldest entry of the
/// owner who has most goes.
pub(crate) fn insert_newest<K: Clone + Eq + Hash, V>(
    entries: &mut LinkedHashMap<K, V>,
    (key, value): (K, V),
    most: usize,
    owner: impl Fn(&K) -> &str + Copy,
) {
    entries.insert(key, value);
    if entries.len() <= most {
        return;
    }
    let oldest = oldest_of_largest(entries.keys().map(owner));
    let oldest = oldest.and_then(|oldest| entries.keys().nth(oldest).cloned());
    if let Some(oldest) = oldest {
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, is_shared: bool) -> Arc<FairPlaces> {
        let sharing = Sharing::default();
        sharing.set(is_shared);
        FairPlaces::new(all, sharing)
    }

    /// How many places an owner gets.
    fn taken(places: &Arc<FairPlaces>, owner: &str) -> Vec<OwnerPlace> {
        let owner = owner.into();
        std::iter::from_fn(|| places.try_take(&owner)).collect()
    }

    #[test]
    fn the_last_places_are_for_owners_who_hold_little() {
        for (all, alice, bob, carol) in [
            (1, 1, 0, 0),
            (2, 1, 1, 0),
            (3, 2, 1, 0),
            (4, 3, 1, 0),
            (1024, 768, 128, 128),
        ] {
            let places = places(all, true);
            let held = ["alice", "bob", "carol"].map(|owner| taken(&places, owner));
            assert_eq!(held.each_ref().map(Vec::len), [alice, bob, carol], "{all}");
            drop(held);
            assert_eq!(places.used(), 0);
            assert!(places.state.lock().held.is_empty());
        }
        assert_eq!(taken(&places(4, false), "alice").len(), 4);
    }

    #[tokio::test]
    async fn those_who_wait_have_their_turn_by_owner() {
        let places = places(1, true);
        let first = places.take("alice").await;
        let (named, mut order) = tokio::sync::mpsc::unbounded_channel();
        let left = tokio::spawn({
            let places = Arc::clone(&places);
            async move { drop(places.take("alice").await) }
        });
        for (at, owner) in ["alice", "alice", "alice", "bob"].into_iter().enumerate() {
            let (places, named) = (Arc::clone(&places), named.clone());
            tokio::spawn(async move {
                let place = places.take(owner).await;
                named.send((at, owner)).unwrap();
                drop(place);
            });
            tokio::task::yield_now().await;
        }
        drop(named);
        left.abort();
        tokio::task::yield_now().await;
        drop(first);
        let mut names = Vec::new();
        while let Some(name) = order.recv().await {
            names.push(name);
        }
        assert_eq!(
            names,
            [(0, "alice"), (3, "bob"), (1, "alice"), (2, "alice")]
        );
        assert!(places.state.lock().waiting.is_empty());
    }
}
