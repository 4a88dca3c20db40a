//! Artifacts in memory. Beyond the limit the least recently used ones of owners who have more than
//! an equal part are dropped, but not those that a request names which is about to be sent: then a
//! new one is not taken.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::plan::output::OutputKind;
use hashlink::LinkedHashMap;

use crate::net::memory::CountedValue;
use crate::store::text_range;
use crate::store::{
    ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact, SweepResult,
};
use parking_lot::Mutex;

/// The memory that a reference takes besides its strings, in bytes.
const REFERENCE_OVERHEAD: usize = 128;

pub(super) struct MemoryBackend(Mutex<HeldTexts>);

struct HeldTexts {
    /// By id, the least recently used one first.
    held: LinkedHashMap<String, HeldText>,
    /// The number of the next reference.
    next_number: u64,
    bytes: usize,
    limit: usize,
}

struct HeldText {
    text: Arc<String>,
    chars: usize,
    lines: usize,
    /// The oldest first.
    references: Vec<HeldReference>,
    bytes: usize,
}

struct HeldReference {
    owner: String,
    session: String,
    call_id: String,
    kind: OutputKind,
    created: u64,
    accessed: u64,
    /// Increases from one reference to the next.
    number: u64,
}

impl MemoryBackend {
    pub(super) fn new(limit: usize) -> Self {
        Self(Mutex::new(HeldTexts {
            held: LinkedHashMap::new(),
            next_number: 0,
            bytes: 0,
            limit,
        }))
    }

    /// The bytes of what is here.
    pub(super) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Keeps artifacts for a request that names them and those with the ids `named`. Returns the
    /// ids of those for which there is no room.
    pub(super) fn keep(
        &self,
        owner: &str,
        session: &str,
        new: Vec<NewArtifact>,
        mut named: BTreeSet<String>,
        now: u64,
    ) -> BTreeSet<String> {
        named.extend(new.iter().map(|new| new.id.clone()));
        let mut texts = self.0.lock();
        new.into_iter()
            .filter_map(|new| texts.put(owner, session, new, &named, now))
            .collect()
    }

    /// Whether the text of this artifact of any owner is here.
    pub(super) fn has_text(&self, id: &str) -> bool {
        self.0.lock().held.contains_key(id)
    }

    /// Whether this is here. Asking counts as access.
    pub(super) fn is_kept(
        &self,
        owner: &str,
        session: &str,
        call_id: &str,
        id: &str,
        now: u64,
    ) -> bool {
        let mut texts = self.0.lock();
        let held = texts.held.to_back(id);
        let reference = held.and_then(|held| held.reference(owner, session, call_id));
        reference
            .map(|reference| reference.accessed = now)
            .is_some()
    }

    pub(super) fn list(&self, owner: &str, filter: &ArtifactFilter) -> Vec<ArtifactEntry> {
        let texts = self.0.lock();
        let session = filter.session.as_deref();
        let prefix = filter.id_prefix.as_deref().unwrap_or_default();
        let mut all: Vec<(u64, ArtifactEntry)> = texts
            .held
            .iter()
            .filter(|(id, _)| id.starts_with(prefix))
            .filter_map(|(id, held)| held.entry(id, owner, session))
            .collect();
        all.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        page(all.into_iter().map(|(_, entry)| entry), filter)
    }

    pub(super) fn read(
        &self,
        owner: &str,
        id: &str,
        range: &ArtifactRange,
        now: u64,
    ) -> Option<ArtifactText> {
        let (entry, text) = self.open(owner, id, now)?;
        let position = text_range::locate(&text, range);
        Some(ArtifactText {
            entry,
            bytes: position.bytes.start as u64..position.bytes.end as u64,
            first_line: position.first_line,
            text: CountedValue::elsewhere(text.get(position.bytes).unwrap_or_default().to_owned()),
        })
    }

    /// The whole text of an artifact of an owner. Counts as access.
    pub(super) fn open(
        &self,
        owner: &str,
        id: &str,
        now: u64,
    ) -> Option<(ArtifactEntry, Arc<String>)> {
        let mut texts = self.0.lock();
        let held = texts.held.to_back(id)?;
        for reference in &mut held.references {
            if reference.owner == owner {
                reference.accessed = now;
            }
        }
        let (_, entry) = held.entry(id, owner, None)?;
        Some((entry, Arc::clone(&held.text)))
    }

    /// All references, the oldest first: owner, session, and the artifact without its text.
    pub(super) fn references(&self) -> Vec<(String, String, NewArtifact)> {
        let texts = self.0.lock();
        let mut all: Vec<_> = texts
            .held
            .iter()
            .flat_map(|(id, held)| held.references.iter().map(move |one| (id, held, one)))
            .collect();
        all.sort_unstable_by_key(|(_, _, one)| one.number);
        let copy = |(id, held, one): (&String, &HeldText, &HeldReference)| {
            let new = NewArtifact {
                id: id.clone(),
                call_id: one.call_id.clone(),
                kind: one.kind,
                chars: held.chars,
                lines: held.lines,
                text: String::new(),
            };
            (one.owner.clone(), one.session.clone(), new)
        };
        all.into_iter().map(copy).collect()
    }

    /// The whole text of an artifact of any owner.
    pub(super) fn text(&self, id: &str) -> Option<Arc<String>> {
        Some(Arc::clone(&self.0.lock().held.get(id)?.text))
    }

    pub(super) fn forget(&self, owner: &str, session: &str, call_id: &str, id: &str) {
        self.0.lock().retain(id, |one| {
            (&*one.owner, &*one.session, &*one.call_id) != (owner, session, call_id)
        });
    }

    /// Deletes an artifact of an owner; false if there is none.
    pub(super) fn delete(&self, owner: &str, id: &str) -> bool {
        let mut texts = self.0.lock();
        texts.retain(id, |reference| reference.owner != owner)
    }

    pub(super) fn sweep(&self, accessed_since: u64) -> SweepResult {
        let mut texts = self.0.lock();
        let HeldTexts { held, bytes, .. } = &mut *texts;
        let mut swept = SweepResult::default();
        held.retain(|_, held| {
            let references = &mut held.references;
            references.retain(|reference| reference.accessed >= accessed_since);
            let stays = !references.is_empty();
            if !stays {
                *bytes -= held.bytes;
                swept.artifacts += 1;
                swept.bytes += held.bytes as u64;
            }
            stays
        });
        swept
    }
}

/// The part of a list that a filter selects.
pub(super) fn page(
    all: impl Iterator<Item = ArtifactEntry>,
    filter: &ArtifactFilter,
) -> Vec<ArtifactEntry> {
    let limit = match filter.limit {
        0 => usize::MAX,
        limit => limit,
    };
    match &filter.after {
        None => all.take(limit).collect(),
        Some(after) => all
            .skip_while(|entry| entry.id != *after)
            .skip(1)
            .take(limit)
            .collect(),
    }
}

impl HeldTexts {
    /// Returns the id if there is no room.
    fn put(
        &mut self,
        owner: &str,
        session: &str,
        new: NewArtifact,
        named: &BTreeSet<String>,
        now: u64,
    ) -> Option<String> {
        // What is known already counts as used.
        let held = self.held.to_back(&new.id);
        let is_new_text = held.is_none();
        if let Some(reference) = held.and_then(|held| held.reference(owner, session, &new.call_id))
        {
            reference.accessed = now;
            return None;
        }
        let text_size = new.text.len() + new.id.len();
        let reference_size = REFERENCE_OVERHEAD + owner.len() + session.len() + new.call_id.len();
        let size = reference_size + if is_new_text { text_size } else { 0 };
        if !self.make_room(owner, size, named) {
            return Some(new.id);
        }
        self.bytes += size;
        let held = self.held.entry(new.id).or_insert_with(|| HeldText {
            text: Arc::new(new.text),
            chars: new.chars,
            lines: new.lines,
            references: Vec::new(),
            bytes: 0,
        });
        held.bytes += size;
        held.references.push(HeldReference {
            owner: owner.to_owned(),
            session: session.to_owned(),
            call_id: new.call_id,
            kind: new.kind,
            created: now,
            accessed: now,
            number: self.next_number,
        });
        self.next_number += 1;
        None
    }

    /// Drops artifacts that are not `named` until there is room for `size` bytes of an owner: the
    /// least recently used ones of those who have more than an equal part. False if that is not
    /// enough; then nothing is dropped.
    fn make_room(&mut self, owner: &str, size: usize, named: &BTreeSet<String>) -> bool {
        let mut left = self.bytes.saturating_add(size);
        if left <= self.limit {
            return true;
        }
        // A text that owners share counts for each of them.
        let mut taken = HashMap::from([(owner, size)]);
        for held in self.held.values() {
            for owner in held.owners() {
                *taken.entry(owner).or_default() += held.bytes;
            }
        }
        let share = self.limit / taken.len();
        let mut dropped = Vec::new();
        for (id, held) in &self.held {
            if left <= self.limit {
                break;
            }
            let owners = held.owners();
            let are_over = |owner: &&str| taken.get(owner).is_some_and(|bytes| *bytes > share);
            if !named.contains(id) && owners.iter().all(are_over) {
                left -= held.bytes;
                for owner in owners {
                    *taken.entry(owner).or_default() -= held.bytes;
                }
                dropped.push(id.clone());
            }
        }
        if left > self.limit {
            return false;
        }
        for id in dropped {
            if let Some(held) = self.held.remove(&id) {
                self.bytes -= held.bytes;
            }
        }
        true
    }

    /// Drops the references for which `stays` is false, and the text if none is left. Returns
    /// whether there were any.
    fn retain(&mut self, id: &str, stays: impl Fn(&HeldReference) -> bool) -> bool {
        let Some(held) = self.held.get_mut(id) else {
            return false;
        };
        let before = held.references.len();
        held.references.retain(stays);
        let left = held.references.len();
        if left == 0 {
            self.bytes -= held.bytes;
            self.held.remove(id);
        }
        left < before
    }
}

impl HeldText {
    fn owners(&self) -> BTreeSet<&str> {
        self.references.iter().map(|one| &*one.owner).collect()
    }

    fn reference(
        &mut self,
        owner: &str,
        session: &str,
        call_id: &str,
    ) -> Option<&mut HeldReference> {
        self.references
            .iter_mut()
            .find(|one| (&*one.owner, &*one.session, &*one.call_id) == (owner, session, call_id))
    }

    /// The entry for an owner, and the number of its newest reference.
    fn entry(&self, id: &str, owner: &str, session: Option<&str>) -> Option<(u64, ArtifactEntry)> {
        let mut mine = self.references.iter().filter(|reference| {
            reference.owner == owner && session.is_none_or(|session| reference.session == session)
        });
        let accessed = mine.clone().map(|reference| reference.accessed).max()?;
        let latest = mine.next_back()?;
        let entry = ArtifactEntry {
            id: id.to_owned(),
            session: latest.session.clone(),
            call_id: latest.call_id.clone(),
            kind: latest.kind,
            chars: self.chars as u64,
            lines: self.lines as u64,
            bytes: self.text.len() as u64,
            created: latest.created,
            accessed,
            persistent: false,
        };
        Some((latest.number, entry))
    }
}
