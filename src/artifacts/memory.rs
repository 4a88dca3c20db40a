//! Artifacts in memory. Beyond the limit those go that were not used for longest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adapters::plan::output::OutputKind;

use super::cut;
use super::{ArtifactEntry, ArtifactFilter, NewArtifact, ArtifactRange, ArtifactText, SweepResult};

/// What a reference takes besides its names.
const REFERENCE_OVERHEAD: usize = 128;

/// Bounded memory, shared by all owners.
pub(super) struct MemoryBackend(Mutex<HeldTexts>);

struct HeldTexts {
    held: HashMap<String, HeldText>,
    /// When each was used last, as a count, and its id.
    order: BTreeMap<u64, String>,
    uses: u64,
    bytes: usize,
    limit: usize,
}

struct HeldText {
    text: Arc<String>,
    chars: usize,
    lines: usize,
    /// In the order in which they came.
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
    /// Grows from one to the next.
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

    /// Keeps what there is room for.
    pub(super) fn keep(&self, owner: &str, session: &str, new: Vec<NewArtifact>, now: u64) {
        let mut shelf = self.shelf();
        for new in new {
            shelf.put(owner, session, new, now);
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
        let mut shelf = self.shelf();
        let Some(held) = shelf.held.get_mut(id) else {
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
        shelf.use_now(id);
        true
    }

    /// The owner's artifacts, the newest first.
    pub(super) fn list(&self, owner: &str, filter: &ArtifactFilter) -> Vec<ArtifactEntry> {
        let shelf = self.shelf();
        let session = filter.session.as_deref();
        let mut all: Vec<(u64, ArtifactEntry)> = shelf
            .held
            .iter()
            .filter_map(|(id, held)| held.entry(id, owner, session))
            .collect();
        all.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        page(all.into_iter().map(|(_, entry)| entry), filter)
    }

    /// A part of an artifact.
    pub(super) fn read(&self, owner: &str, id: &str, part: &ArtifactRange, now: u64) -> Option<ArtifactText> {
        let (entry, text) = {
            let mut shelf = self.shelf();
            let held = shelf.held.get_mut(id)?;
            for reference in &mut held.references {
                if reference.owner == owner {
                    reference.accessed = now;
                }
            }
            let (_, entry) = held.entry(id, owner, None)?;
            let text = Arc::clone(&held.text);
            shelf.use_now(id);
            (entry, text)
        };
        let place = cut::locate(&text, part);
        Some(ArtifactText {
            entry,
            bytes: place.bytes.start as u64..place.bytes.end as u64,
            first_line: place.first_line,
            text: text.get(place.bytes).unwrap_or_default().to_owned(),
        })
    }

    /// All references: owner, session, and what was kept, without its text.
    pub(super) fn references(&self) -> Vec<(String, String, NewArtifact)> {
        let shelf = self.shelf();
        let mut all: Vec<_> = shelf
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

    /// The whole text of an artifact, whoever has it.
    pub(super) fn text(&self, id: &str) -> Option<Arc<String>> {
        Some(Arc::clone(&self.shelf().held.get(id)?.text))
    }

    /// Forgets a reference.
    pub(super) fn forget(&self, owner: &str, session: &str, call_id: &str, id: &str) {
        self.shelf().retain(id, |one| {
            (&*one.owner, &*one.session, &*one.call_id) != (owner, session, call_id)
        });
    }

    /// Forgets an artifact; false when there is none.
    pub(super) fn delete(&self, owner: &str, id: &str) -> bool {
        let mut shelf = self.shelf();
        shelf.retain(id, |reference| reference.owner != owner).0
    }

    /// Forgets what was not used since then.
    pub(super) fn sweep(&self, since: u64) -> SweepResult {
        let mut shelf = self.shelf();
        let ids: Vec<String> = shelf.held.keys().cloned().collect();
        let mut swept = SweepResult::default();
        for id in ids {
            let (_, freed) = shelf.retain(&id, |reference| reference.accessed >= since);
            if let Some(bytes) = freed {
                swept.artifacts += 1;
                swept.bytes += bytes as u64;
            }
        }
        swept
    }

    fn shelf(&self) -> MutexGuard<'_, HeldTexts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a list is wanted.
pub(super) fn page(all: impl Iterator<Item = ArtifactEntry>, filter: &ArtifactFilter) -> Vec<ArtifactEntry> {
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
        let again = held.references.iter_mut().find(|reference| {
            (&*reference.owner, &*reference.session, &*reference.call_id)
                == (owner, session, &*new.call_id)
        });
        if let Some(reference) = again {
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
        self.use_now(&id);
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
    }

    fn use_now(&mut self, id: &str) {
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

    /// Drops references; tells whether there were such, and how many bytes are free
    /// if nobody refers to the text any more.
    fn retain(&mut self, id: &str, stays: impl Fn(&HeldReference) -> bool) -> (bool, Option<usize>) {
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
    /// What an owner knows of it, and a number that is higher for what is newer.
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
