//! What is remembered of sessions, in memory and bounded: the route of a session, its tools, its
//! last requests and its last token count, the items of its answers, and what providers or the next
//! request need of them.
//!
//! There is one budget of bytes for all sessions, which counts keys as well as values. Beyond it
//! the session that was not used for the longest time is forgotten, of the owner whose sessions
//! take most; a session that takes most of the budget itself loses its oldest records first.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::hidden_rounds::HiddenRounds;
use adapters::plan::UnshortenedFrom;
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use adapters::shared_text::SharedText;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use registry::Route;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::calibration::TokenCalibration;
use super::prefix::{BillForecast, PrefixReport, RecentRequests, RequestFingerprint, StoredPrompt};

mod records;

use records::{RecordKey, RecordKind, RecordValue, SessionRecords};

/// The most bytes of all sessions.
const LIMIT: usize = 112 << 20;
/// The most bytes of one item of an answer; larger ones are not remembered.
const ITEM_LIMIT: usize = 4 << 20;
/// The most bytes of the reasoning state of one call.
const REASONING_LIMIT: usize = 1 << 20;
/// The most bytes of the hidden rounds of one answer.
const HIDDEN_LIMIT: usize = 4 << 20;
/// The most bytes of a list of tools.
const TOOLS_LIMIT: usize = 1 << 20;
/// The sessions, the newest first, in which a response is looked for that a request is compared
/// with.
const COMPARED_SESSIONS: usize = 256;
/// How long a failed request counts against a client that repeats it.
const FAILURES_LIFETIME: Duration = Duration::from_mins(10);
/// A session is sent whole after this many lost turns in a row.
pub(super) const MAX_LOST_TURNS: u8 = 3;
/// The bytes that a session takes besides its keys and values: its place in the maps.
const SESSION_BASE: usize = 512;

/// What is remembered of all sessions. Lives as long as the process.
#[derive(Debug, Default)]
pub(super) struct SessionMemory(Mutex<RememberedSessions>);

#[derive(Debug)]
struct RememberedSessions {
    /// The most bytes of it all.
    limit: usize,
    /// The one that was not used for the longest time first.
    by_key: LinkedHashMap<SessionKey, RememberedSession>,
    /// The session of each item of an answer, by owner and item id: a client may refer to an item
    /// without saying to which session it belongs.
    sessions_of_items: HashMap<(Arc<str>, Arc<str>), SessionKey>,
    bytes: usize,
    /// The same of each owner.
    bytes_of: BTreeMap<Arc<str>, usize>,
}

impl Default for RememberedSessions {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            by_key: LinkedHashMap::new(),
            sessions_of_items: HashMap::new(),
            bytes: 0,
            bytes_of: BTreeMap::new(),
        }
    }
}

/// Owner and session id.
pub(super) type SessionKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct RememberedSession {
    /// What it was counted with.
    bytes: usize,
    /// The full name of the route that the session switched to.
    moved_to: Option<String>,
    /// The `tools` of its last turn, as a JSON list.
    tools: Option<Arc<str>>,
    calibration: Option<TokenCalibration>,
    /// Shared with turns that compare themselves with it, so that the lock is not held meanwhile.
    requests: Arc<RecentRequests>,
    /// What a replay says of every comparison.
    recorded_diagnostics: Option<PromptCacheDiagnostics>,
    records: SessionRecords,
    /// Whether hidden rounds were ever among the records.
    has_hidden_rounds: bool,
    /// Whether all of them that the store has are among the records.
    hidden_rounds_are_whole: bool,
    failures: Option<PromptFailures>,
}

/// The requests that failed for the last prompt of a session. Made at the first failure; ends with
/// an answer, with another prompt, or [`FAILURES_LIFETIME`] after the last failure.
#[derive(Clone, Copy, Debug)]
struct PromptFailures {
    /// See [`Caller::prompt`](super::caller::Caller::prompt).
    prompt: u64,
    requests: u32,
    last: Instant,
}

impl PromptFailures {
    fn count(self, prompt: u64) -> u32 {
        let counts = self.prompt == prompt && self.last.elapsed() < FAILURES_LIFETIME;
        if counts { self.requests } else { 0 }
    }
}

impl RememberedSession {
    /// How many requests have failed for a prompt.
    fn failed_requests(&self, prompt: u64) -> u32 {
        let failures = self.failures;
        failures.map_or(0, |failures| failures.count(prompt))
    }

    /// The full name of the route of its last request.
    fn last_route(&self) -> Option<&str> {
        self.requests.last_route()
    }

    fn put_hidden_rounds(&mut self, rounds: &Arc<HiddenRounds>) {
        let mut rounds = Arc::clone(rounds);
        if rounds.bytes() > HIDDEN_LIMIT {
            rounds = Arc::new(rounds.without_sources());
        }
        let (bytes, anchors) = (rounds.bytes(), rounds.anchors().count());
        if bytes > HIDDEN_LIMIT || anchors == 0 {
            return;
        }
        let share = bytes.div_ceil(anchors);
        for anchor in rounds.anchors() {
            let key = (RecordKind::HiddenRounds, anchor.to_owned());
            let value = RecordValue::Rounds(Arc::clone(&rounds), share);
            self.records.put(key, value);
        }
        self.has_hidden_rounds = true;
    }

    /// Whether as much of the same answer, or more, is among the records.
    fn has_more_rounds(&self, rounds: &HiddenRounds) -> bool {
        rounds.anchors().any(|anchor| {
            let key = (RecordKind::HiddenRounds, anchor.to_owned());
            let known = self.records.get(&key).and_then(RecordValue::rounds);
            known.is_some_and(|known| known.entries.len() >= rounds.entries.len())
        })
    }

    fn size(&self, (_, session): &SessionKey) -> usize {
        let calibration = self.calibration.as_ref();
        SESSION_BASE
            + session.len()
            + self.moved_to.as_ref().map_or(0, String::len)
            + self.tools.as_ref().map_or(0, |tools| tools.len())
            + calibration.map_or(0, |calibration| calibration.route.len())
            + self.requests.bytes()
            + self.records.bytes()
    }
}

impl SessionMemory {
    /// What is remembered, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// The full name of the route that a session switched to. It stays there while that provider is
    /// healthy, because its prompt cache is there.
    pub(super) fn moved_to(&self, owner: &Arc<str>, session: &str) -> Option<String> {
        self.read(owner, session, |session| session.moved_to.clone())?
    }

    /// Remembers the full name of the route that a session switches to.
    pub(super) fn set_route(&self, owner: &Arc<str>, session: &str, route: String) {
        self.change(owner, session, |session| session.moved_to = Some(route));
    }

    /// The full name of the route of the last request in the first of these sessions that is
    /// remembered.
    pub(super) fn last_route<'s>(
        &self,
        owner: &Arc<str>,
        sessions: impl IntoIterator<Item = Cow<'s, str>>,
    ) -> Option<String> {
        let mut routes = sessions.into_iter().filter_map(|id| {
            self.read(owner, &id, |session| {
                session.last_route().map(str::to_owned)
            })?
        });
        routes.next()
    }

    /// Whether one of the requests of a session that are remembered was on a route; `None` if none
    /// is remembered.
    pub(super) fn has_request_on(
        &self,
        owner: &Arc<str>,
        session: &str,
        route: &str,
    ) -> Option<bool> {
        self.read(owner, session, |session| {
            session.requests.has_request_on(route)
        })?
    }

    /// The full name of the route of the owner's last request, in whatever session.
    pub(super) fn newest_route(&self, owner: &Arc<str>) -> Option<String> {
        let sessions = self.0.lock();
        let newest = sessions.by_key.iter().rev();
        let mut own = newest.filter(|((other, _), _)| other == owner);
        own.find_map(|(_, session)| session.last_route().map(str::to_owned))
    }

    /// How many requests have failed for a prompt, if it is the session's last one.
    pub(super) fn failed_requests(&self, owner: &Arc<str>, session: &str, prompt: u64) -> u32 {
        let count = self.read(owner, session, |session| session.failed_requests(prompt));
        count.unwrap_or_default()
    }

    /// Counts requests that failed for a prompt, and forgets those of another one. Returns how
    /// many there are now.
    pub(super) fn add_failed_requests(
        &self,
        owner: &Arc<str>,
        session: &str,
        prompt: u64,
        more: u32,
    ) -> u32 {
        if more == 0 {
            return self.failed_requests(owner, session, prompt);
        }
        let mut total = more;
        self.change(owner, session, |session| {
            total = total.saturating_add(session.failed_requests(prompt));
            session.failures = Some(PromptFailures {
                prompt,
                requests: total,
                last: Instant::now(),
            });
        });
        total
    }

    /// Forgets the failed requests of a session, because one was answered.
    pub(super) fn forget_failed_requests(&self, owner: &Arc<str>, session: &str) {
        let has_failed = self.read(owner, session, |session| session.failures.is_some());
        if has_failed == Some(true) {
            self.change(owner, session, |session| session.failures = None);
        }
    }

    /// The session's tools as a JSON list. A client that compacts by itself asks for its summary
    /// without tools; but the history in the provider's prompt cache begins with them.
    pub(super) fn tools(&self, owner: &Arc<str>, session: &str) -> Option<Arc<str>> {
        self.read(owner, session, |session| session.tools.clone())?
    }

    /// Remembers the `tools` of a request, if it is a list and not too long.
    pub(super) fn keep_tools(&self, owner: &Arc<str>, session: &str, tools: Option<&RawValue>) {
        let Some(tools) = tools.map(RawValue::get) else {
            return;
        };
        if tools.len() <= TOOLS_LIMIT && tools.starts_with('[') {
            self.put_tools(owner, session, tools);
        }
    }

    /// Remembers a list of any length.
    pub(super) fn put_tools(&self, owner: &Arc<str>, session: &str, tools: &str) {
        self.change(owner, session, |session| {
            if session.tools.as_deref() != Some(tools) {
                session.tools = Some(tools.into());
            }
        });
    }

    /// The token count of the session's last request.
    pub(super) fn calibration(&self, owner: &Arc<str>, session: &str) -> Option<TokenCalibration> {
        self.read(owner, session, |session| session.calibration.clone())?
    }

    /// Remembers how many tokens the provider counted for the session's last request.
    pub(super) fn calibrate(&self, owner: &Arc<str>, session: &str, last: TokenCalibration) {
        self.change(owner, session, |session| session.calibration = Some(last));
    }

    /// Compares a request with the one of its session that shares the longest prefix with it.
    pub(super) fn prefix_report(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &RequestFingerprint,
    ) -> PrefixReport {
        let earlier = self.read(owner, session, |session| Arc::clone(&session.requests));
        earlier.unwrap_or_default().report(request)
    }

    /// Estimates what the provider of a route will count for a request.
    pub(super) fn bill_forecast(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &RequestFingerprint,
        route: &Route,
    ) -> BillForecast {
        let earlier = self.read(owner, session, |session| Arc::clone(&session.requests));
        let (cache, window) = (route.provider.prompt_cache, route.model.window());
        earlier.unwrap_or_default().forecast(request, cache, window)
    }

    /// Remembers what the provider counted for a request.
    pub(super) fn count_request(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
        forecast: &BillForecast,
        counted: Usage,
    ) {
        self.change(owner, session, |session| {
            Arc::make_mut(&mut session.requests).count(request, forecast, counted);
        });
    }

    /// Counts that the turn of a request lost against what it would have cost with nothing
    /// shortened, or did not. If it completes the number of lost turns in a row that its history
    /// may have, returns the point from which on the session is sent whole: after what its last
    /// requests sent.
    pub(super) fn count_lost(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
        is_lost: bool,
    ) -> Option<UnshortenedFrom> {
        let mut from = None;
        self.change(owner, session, |session| {
            let lost = Arc::make_mut(&mut session.requests).count_lost(request, is_lost);
            if lost >= MAX_LOST_TURNS {
                from = Some(UnshortenedFrom::after(session.requests.outputs()));
            }
        });
        from
    }

    /// Remembers a request that is being answered.
    pub(super) fn put_request(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
        response_id: &str,
    ) {
        self.change(owner, session, |session| {
            Arc::make_mut(&mut session.requests).put(request, response_id);
        });
    }

    /// A request as it is stored, if it is remembered.
    pub(super) fn stored_prompt(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &Arc<RequestFingerprint>,
    ) -> Option<StoredPrompt> {
        self.read(owner, session, |session| session.requests.stored(request))?
    }

    /// Compares the prompt of a request with that of the response with this id, which may belong to
    /// another session: a client may change what its sessions are told apart by. `None` if it is
    /// not remembered. A replay gets what was recorded.
    pub(super) fn cache_diagnostics(
        &self,
        owner: &Arc<str>,
        session: &str,
        request: &RequestFingerprint,
        response_id: &str,
    ) -> Option<PromptCacheDiagnostics> {
        let sessions = self.0.lock();
        let own = sessions.by_key.get(&(Arc::clone(owner), session.into()));
        if let Some(recorded) = own.and_then(|own| own.recorded_diagnostics) {
            return Some(recorded);
        }
        let diagnose =
            |session: &RememberedSession| session.requests.diagnose(request, response_id);
        let newest = sessions.by_key.iter().rev();
        let others = newest
            .filter(|((other, _), _)| other == owner)
            .take(COMPARED_SESSIONS);
        own.and_then(diagnose)
            .or_else(|| others.map(|(_, session)| session).find_map(diagnose))
    }

    /// Sets what comparisons say, for a replay.
    pub(super) fn set_cache_diagnostics(
        &self,
        owner: &Arc<str>,
        session: &str,
        recorded: PromptCacheDiagnostics,
    ) {
        self.change(owner, session, |session| {
            session.recorded_diagnostics = Some(recorded);
        });
    }

    /// Remembers the items of an answer, given by id and JSON, for clients that refer to items by
    /// id instead of sending them back.
    pub(super) fn keep_items<'i>(
        &self,
        owner: &Arc<str>,
        session: &str,
        items: impl Iterator<Item = (&'i str, &'i [u8])>,
    ) {
        let key: SessionKey = (Arc::clone(owner), session.into());
        let mut sessions = self.0.lock();
        let sessions = &mut *sessions;
        let index = &mut sessions.sessions_of_items;
        let mut kept: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (id, json) in items.filter(|(_, json)| json.len() <= ITEM_LIMIT) {
            if let Ok(json) = std::str::from_utf8(json) {
                let id: Arc<str> = id.into();
                index.insert((Arc::clone(owner), Arc::clone(&id)), key.clone());
                kept.push((id, json.into()));
            }
        }
        if !kept.is_empty() {
            sessions.change(key, |session| {
                for (id, json) in kept {
                    let key = (RecordKind::Item, id.to_string());
                    session.records.put(key, RecordValue::Text(json));
                }
            });
        }
    }

    /// Finds the remembered ones of these items, whatever their sessions.
    pub(super) fn items(&self, owner: &Arc<str>, ids: Vec<String>) -> HashMap<String, SharedText> {
        let sessions = self.0.lock();
        let found = |id: String| {
            let item = (Arc::clone(owner), Arc::<str>::from(id.as_str()));
            let session = sessions.sessions_of_items.get(&item)?;
            let records = &sessions.by_key.get(session)?.records;
            let key = (RecordKind::Item, id);
            let json = Arc::clone(records.get(&key)?.text()?);
            Some((key.1, SharedText::from(json)))
        };
        ids.into_iter().filter_map(found).collect()
    }

    /// Remembers the reasoning in the items of an answer of `origin` for the calls that it belongs
    /// to. The first source of this state are the reasoning items that the client sends back; this
    /// is the second one, for clients that do not.
    pub(super) fn keep_reasoning<'i>(
        &self,
        owner: &Arc<str>,
        session: &str,
        origin: &str,
        items: impl Iterator<Item = &'i [u8]>,
    ) {
        let blobs = records::reasoning_by_call(origin, items)
            .into_iter()
            .filter(|(_, blobs)| blobs.len() <= REASONING_LIMIT);
        self.put_reasoning(owner, session, blobs);
    }

    /// Remembers reasoning state by call id, in the form that [`Self::reasoning`] returns.
    pub(super) fn put_reasoning(
        &self,
        owner: &Arc<str>,
        session: &str,
        blobs: impl Iterator<Item = (String, String)>,
    ) {
        let mut blobs = blobs.peekable();
        if blobs.peek().is_some() {
            self.change(owner, session, |session| {
                for (call, blobs) in blobs {
                    let key = (RecordKind::Reasoning, call);
                    session.records.put(key, RecordValue::Text(blobs.into()));
                }
            });
        }
    }

    /// Finds the reasoning state of these calls of a session: sealed blobs joined with spaces.
    /// `calls` is only evaluated if the session has records.
    pub(super) fn reasoning(
        &self,
        owner: &Arc<str>,
        session: &str,
        calls: impl FnOnce() -> HashSet<String>,
    ) -> HashMap<String, String> {
        let found = self.read(owner, session, |session| {
            let records = &session.records;
            if records.is_empty() {
                return HashMap::new();
            }
            let found = calls().into_iter().filter_map(|call| {
                let key = (RecordKind::Reasoning, call);
                let blobs = records.get(&key)?.text()?.to_string();
                Some((key.1, blobs))
            });
            found.collect()
        });
        found.unwrap_or_default()
    }

    /// Remembers what the client did not see of an answer, under each of its anchors. `are_first`
    /// says that the store has no others of the session.
    pub(super) fn keep_hidden_rounds(
        &self,
        owner: &Arc<str>,
        session: &str,
        rounds: &Arc<HiddenRounds>,
        are_first: bool,
    ) {
        self.change(owner, session, |session| {
            session.hidden_rounds_are_whole |= are_first;
            session.put_hidden_rounds(rounds);
        });
    }

    /// Remembers all hidden rounds of a session that the store has, unless more of the same answer
    /// is remembered already.
    pub(super) fn load_hidden_rounds(
        &self,
        owner: &Arc<str>,
        session: &str,
        answers: &[Arc<HiddenRounds>],
    ) {
        self.change(owner, session, |session| {
            session.hidden_rounds_are_whole = true;
            for rounds in answers {
                if !session.has_more_rounds(rounds) {
                    session.put_hidden_rounds(rounds);
                }
            }
        });
    }

    /// Whether all hidden rounds of a session that the store has are remembered.
    pub(super) fn has_all_hidden_rounds(&self, owner: &Arc<str>, session: &str) -> bool {
        let are_whole = self.read(owner, session, |session| session.hidden_rounds_are_whole);
        are_whole.unwrap_or(false)
    }

    /// What the client did not see of the answers with these anchors, each answer once and in no
    /// particular order. `anchors` is only evaluated if the session has such answers.
    pub(super) fn hidden_rounds(
        &self,
        owner: &Arc<str>,
        session: &str,
        anchors: impl FnOnce() -> HashSet<String>,
    ) -> Vec<Arc<HiddenRounds>> {
        let has_any = self.read(owner, session, |session| session.has_hidden_rounds);
        if has_any != Some(true) {
            return Vec::new();
        }
        // Made without the lock: it reads the whole history.
        let anchors = anchors();
        let found = self.read(owner, session, |session| {
            let mut found: Vec<Arc<HiddenRounds>> = Vec::new();
            for anchor in anchors {
                if let Some(value) = session.records.get(&(RecordKind::HiddenRounds, anchor))
                    && let Some(rounds) = value.rounds()
                    && !found.iter().any(|other| Arc::ptr_eq(other, rounds))
                {
                    found.push(Arc::clone(rounds));
                }
            }
            found
        });
        found.unwrap_or_default()
    }

    /// Reads what is remembered of a session, if anything is.
    fn read<R>(
        &self,
        owner: &Arc<str>,
        session: &str,
        read: impl FnOnce(&RememberedSession) -> R,
    ) -> Option<R> {
        let sessions = self.0.lock();
        let key = (Arc::clone(owner), Arc::from(session));
        sessions.by_key.get(&key).map(read)
    }

    /// Remembers at most `bytes` bytes, and never more than [`LIMIT`].
    pub(super) fn set_limit(&self, bytes: usize) {
        let mut sessions = self.0.lock();
        sessions.limit = bytes.min(LIMIT);
        sessions.shrink();
    }

    /// Changes what is remembered of a session, which counts as its latest use.
    fn change(&self, owner: &Arc<str>, session: &str, change: impl FnOnce(&mut RememberedSession)) {
        let key = (Arc::clone(owner), Arc::from(session));
        self.0.lock().change(key, change);
    }
}

impl RememberedSessions {
    fn change(&mut self, key: SessionKey, change: impl FnOnce(&mut RememberedSession)) {
        // The session becomes the newest one.
        let mut session = self.by_key.remove(&key).unwrap_or_default();
        change(&mut session);
        self.count_again(&key, &mut session);
        self.by_key.insert(key, session);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.limit && self.forget_oldest() {}
    }

    fn count_again(&mut self, key: &SessionKey, session: &mut RememberedSession) {
        let bytes = session.size(key);
        self.recount(&key.0, session.bytes, bytes);
        session.bytes = bytes;
    }

    fn recount(&mut self, owner: &Arc<str>, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        let own = self.bytes_of.entry(Arc::clone(owner)).or_default();
        *own = *own - before + after;
        if *own == 0 {
            self.bytes_of.remove(owner);
        }
    }

    /// The oldest session of the owner whose sessions take most.
    fn oldest(&self) -> Option<SessionKey> {
        let (most, _) = self.bytes_of.iter().max_by_key(|(_, bytes)| **bytes)?;
        let mut keys = self.by_key.keys();
        keys.find(|(owner, _)| owner == most).cloned()
    }

    /// Forgets the oldest session of the owner who has most; of a session that takes more than half
    /// of the budget, the oldest record. False if there is nothing to forget.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.oldest().and_then(|key| self.by_key.remove_entry(&key));
        let Some((key, mut session)) = oldest else {
            return false;
        };
        if session.bytes > self.limit / 2
            && let Some(record) = session.records.forget_oldest()
        {
            session.hidden_rounds_are_whole &= record.0 != RecordKind::HiddenRounds;
            self.count_again(&key, &mut session);
            self.forget_item(&key, record);
            self.by_key.insert_front(key, session);
            return true;
        }
        self.recount(&key.0, session.bytes, 0);
        for record in session.records.into_keys() {
            self.forget_item(&key, record);
        }
        true
    }

    fn forget_item(&mut self, (owner, _): &SessionKey, record: RecordKey) {
        if let (RecordKind::Item, id) = record {
            self.sessions_of_items
                .remove(&(Arc::clone(owner), id.into()));
        }
    }
}

#[cfg(test)]
mod tests;
