//! Artifacts in memory. Beyond the limit the least recently used ones are dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adapters::plan::output::OutputKind;

use crate::store::text_range;
use crate::store::{
    ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact, SweepResult,
};

/// The memory that a reference takes besides its strings, in bytes.
const REFERENCE_OVERHEAD: usize = 128;

pub(super) struct MemoryBackend(Mutex<HeldTexts>);

struct HeldTexts {
    held: HashMap<String, HeldText>,
    /// The ids by their last use, which is a value of `uses`.
    order: BTreeMap<u64, String>,
    /// Counts up with each use.
    uses: u64,
    bytes: usize,
    limit: usize,
}

struct HeldText {
    text: Arc<String>,
    chars: usize,
    lines: usize,
    /// The oldest first.
    references: Vec<HeldReference>,
    used: u64,
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
            held: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            limit,
        }))
    }

    pub(super) fn keep(&self, owner: &str, session: &str, new: Vec<NewArtifact>, now: u64) {
        let mut texts = self.lock();
        for new in new {
            texts.put(owner, session, new, now);
        }
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
        let mut texts = self.lock();
        let Some(held) = texts.held.get_mut(id) else {
            return false;
        };
        let known = held.references.iter_mut().find(|reference| {
            (&*reference.owner, &*reference.session, &*reference.call_id)
                == (owner, session, call_id)
        });
        let Some(reference) = known else {
            return false;
        };
        reference.accessed = now;
        texts.mark_used(id);
        true
    }

    pub(super) fn list(&self, owner: &str, filter: &ArtifactFilter) -> Vec<ArtifactEntry> {
        let texts = self.lock();
        let session = filter.session.as_deref();
        let mut all: Vec<(u64, ArtifactEntry)> = texts
            .held
            .iter()
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
        let (entry, text) = {
            let mut texts = self.lock();
            let held = texts.held.get_mut(id)?;
            for reference in &mut held.references {
                if reference.owner == owner {
                    reference.accessed = now;
                }
            }
            let (_, entry) = held.entry(id, owner, None)?;
            let text = Arc::clone(&held.text);
            texts.mark_used(id);
            (entry, text)
        };
        let position = text_range::locate(&text, range);
        Some(ArtifactText {
            entry,
            bytes: position.bytes.start as u64..position.bytes.end as u64,
            first_line: position.first_line,
            text: text.get(position.bytes).unwrap_or_default().to_owned(),
        })
    }

    /// All references, the oldest first: owner, session, and the artifact without its text.
    pub(super) fn references(&self) -> Vec<(String, String, NewArtifact)> {
        let texts = self.lock();
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

    /// The whole text of an artifact, whoever owns it.
    pub(super) fn text(&self, id: &str) -> Option<Arc<String>> {
        Some(Arc::clone(&self.lock().held.get(id)?.text))
    }

    pub(super) fn forget(&self, owner: &str, session: &str, call_id: &str, id: &str) {
        self.lock().retain(id, |one| {
            (&*one.owner, &*one.session, &*one.call_id) != (owner, session, call_id)
        });
    }

    /// Deletes an artifact of an owner; false if there is none.
    pub(super) fn delete(&self, owner: &str, id: &str) -> bool {
        let mut texts = self.lock();
        texts.retain(id, |reference| reference.owner != owner).0
    }

    pub(super) fn sweep(&self, accessed_since: u64) -> SweepResult {
        let mut texts = self.lock();
        let ids: Vec<String> = texts.held.keys().cloned().collect();
        let mut swept = SweepResult::default();
        for id in ids {
            let (_, freed) = texts.retain(&id, |reference| reference.accessed >= accessed_since);
            if let Some(bytes) = freed {
                swept.artifacts += 1;
                swept.bytes += bytes as u64;
            }
        }
        swept
    }

    fn lock(&self) -> MutexGuard<'_, HeldTexts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn put(&mut self, owner: &str, session: &str, new: NewArtifact, now: u64) {
        let id = new.id;
        let size = new.text.len() + id.len();
        let held = self.held.entry(id.clone()).or_insert_with(|| {
            self.bytes += size;
            HeldText {
                text: Arc::new(new.text),
                chars: new.chars,
                lines: new.lines,
                references: Vec::new(),
                used: 0,
                bytes: size,
            }
        });
        let existing = held.references.iter_mut().find(|reference| {
            (&*reference.owner, &*reference.session, &*reference.call_id)
                == (owner, session, &*new.call_id)
        });
        if let Some(reference) = existing {
            reference.accessed = now;
        } else {
            let size = REFERENCE_OVERHEAD + owner.len() + session.len() + new.call_id.len();
            self.bytes += size;
            held.bytes += size;
            held.references.push(HeldReference {
                owner: owner.to_owned(),
                session: session.to_owned(),
                call_id: new.call_id,
                kind: new.kind,
                created: now,
                accessed: now,
                number: self.uses,
            });
        }
        self.mark_used(&id);
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
    }

    fn mark_used(&mut self, id: &str) {
        self.uses += 1;
        if let Some(held) = self.held.get_mut(id) {
            self.order.remove(&held.used);
            held.used = self.uses;
            self.order.insert(self.uses, id.to_owned());
        }
    }

    fn remove(&mut self, id: &str) -> Option<usize> {
        let held = self.held.remove(id)?;
        self.order.remove(&held.used);
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some(held.bytes)
    }

    /// Drops the references for which `stays` is false. Returns whether there were any, and how
    /// many bytes are freed if no reference to the text is left.
    fn retain(
        &mut self,
        id: &str,
        stays: impl Fn(&HeldReference) -> bool,
    ) -> (bool, Option<usize>) {
        let Some(held) = self.held.get_mut(id) else {
            return (false, None);
        };
        let before = held.references.len();
        held.references.retain(stays);
        let dropped = held.references.len() < before;
        if held.references.is_empty() {
            return (dropped, self.remove(id));
        }
        (dropped, None)
    }
}

impl HeldText {
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
