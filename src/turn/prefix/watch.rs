//! The last requests of each session.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Print, Reason, Telling};

/// The last requests of a session that a new one may go on from: agents of one
/// session take turns.
const LINES: usize = 4;
/// The most parts that are remembered of all sessions, of 16 bytes each; sessions
/// go that were silent longest.
const PARTS: usize = 512 << 10;
/// What a session and a request take besides, in parts.
const BASE: usize = 16;

/// Sessions by owner and id.
#[derive(Debug, Default)]
pub(in crate::turn) struct Watch(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    last: HashMap<Key, Session>,
    /// By when they were last heard of.
    order: BTreeMap<u64, Key>,
    clock: u64,
    parts: usize,
}

type Key = (Arc<str>, String);

#[derive(Debug, Default)]
struct Session {
    heard: u64,
    /// The latest is the last.
    lines: VecDeque<Arc<Print>>,
}

impl Watch {
    /// A request beside the one of its session that it has most in common with.
    pub(in crate::turn) fn tell(&self, owner: &Arc<str>, session: &str, now: &Print) -> Telling {
        let lines = {
            let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (Arc::clone(owner), session.to_owned());
            let session = sessions.last.get(&key);
            session.map_or_else(VecDeque::new, |session| session.lines.clone())
        };
        let here = lines.iter().filter(|line| line.route() == now.route());
        let best = here.max_by_key(|line| now.shared(line));
        if let Some(best) = best {
            let summarised = best.compacts() || lines.back().is_some_and(|last| last.compacts());
            return now.beside(best, summarised);
        }
        let last = lines.back();
        Telling {
            sent: now.bytes(),
            last: last.map_or(0, |last| last.bytes()),
            shared: 0,
            reason: last.map_or(Reason::First, |_| Reason::ModelChanged),
            place: None,
        }
    }

    /// Remembers a request that is being answered. What it goes on from is no longer
    /// needed.
    pub(in crate::turn) fn put(&self, owner: &Arc<str>, session: &str, print: &Arc<Print>) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = &mut *guard;
        let key = (Arc::clone(owner), session.to_owned());
        sessions.clock += 1;
        let clock = sessions.clock;
        let session = sessions.last.entry(key.clone()).or_default();
        sessions.order.remove(&session.heard);
        sessions.order.insert(clock, key);
        session.heard = clock;
        let before = session.size();
        session
            .lines
            .retain(|line| line.route() != print.route() || print.shared(line) < line.bytes());
        session.lines.push_back(Arc::clone(print));
        if session.lines.len() > LINES {
            session.lines.pop_front();
        }
        sessions.parts += session.size();
        sessions.parts -= before;
        while sessions.parts > PARTS
            && let Some((_, oldest)) = sessions.order.pop_first()
        {
            if let Some(gone) = sessions.last.remove(&oldest) {
                sessions.parts -= gone.size();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let sessions = self.0.lock().unwrap();
        assert_eq!(sessions.last.len(), sessions.order.len());
        (sessions.last.len(), sessions.parts)
    }
}

impl Session {
    fn size(&self) -> usize {
        self.lines.iter().map(|line| line.parts() + BASE).sum()
    }
}
