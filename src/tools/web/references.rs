//! The references of sessions: short ids by which a model names what it was shown of the web, and
//! the pages that it has read.
//!
//! `turn0search0` is the first result of the first call of a session, `turn1view0` the first page
//! that its second call showed. There is one budget of bytes for all sessions. Beyond it the
//! session that was not used for the longest time is forgotten, of the owner whose sessions take
//! most; a session that takes most of the budget itself loses its oldest pages, which are then read
//! from where they are kept or from the web, and its oldest ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use super::fetch::page_url;
use super::numbered_page::NumberedPage;
use super::page::KeptPage;

/// The part of the budget that one session may take.
const SESSION_PART: usize = 4;
/// What a session takes besides its keys and values, in bytes.
const SESSION_BASE: usize = 512;
/// The first call after a restart has a number below this, and above those before.
const NUMBERS: u64 = 1_000_000;
/// What an id takes besides its texts, in bytes.
const ID_BASE: usize = 192;

/// The references of all sessions. Lives as long as the process.
#[derive(Debug)]
pub struct WebReferences(Mutex<AllReferences>);

/// Owner and session.
type ReferencesKey = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct AllReferences {
    limit: usize,
    /// The one that was not used for the longest time first.
    by_key: LinkedHashMap<ReferencesKey, SessionReferences>,
    bytes: usize,
    bytes_of: BTreeMap<Arc<str>, usize>,
    /// The number of the first call of a session that is not known. No forgotten session has come
    /// that far, so that an id of it never means something else.
    first_call: u64,
    /// When the process has begun, in milliseconds since 1970.
    begun_ms: u64,
}

#[derive(Debug, Default)]
struct SessionReferences {
    /// The number of its next call.
    next_call: u64,
    /// The addresses of ids, the oldest first.
    addresses: LinkedHashMap<String, String>,
    /// The pages by the address that they were asked for, the oldest first.
    pages: LinkedHashMap<String, Arc<NumberedPage>>,
    /// Where they are kept whole, by the same addresses, the oldest first.
    kept: LinkedHashMap<String, KeptPage>,
    /// What all that takes.
    bytes: usize,
}

/// One call of a session, in which ids are made. Begun with [`WebReferences::begin_call`].
#[derive(Debug)]
pub struct ReferencesCall<'r> {
    references: &'r WebReferences,
    key: ReferencesKey,
    made: CallReferences,
    /// The pages that the call has read, with the addresses under which it has asked for them.
    kept: Mutex<Vec<(String, KeptPage)>>,
    results: usize,
    views: usize,
}

/// What one call has made: ids, and the pages that it has read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CallReferences {
    /// The number of the call in its session.
    pub call: u64,
    /// Ids and their addresses.
    pub ids: Vec<(String, String)>,
    /// Where the pages are kept, with the addresses under which they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<(String, KeptPage)>,
}

/// Text that names nothing. The message is for the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" is no reference of this session: it was never given, or is forgotten by now. Search \
     again, or use the URL of the page"
)]
pub struct UnknownReference(String);

impl WebReferences {
    /// No references yet, and at most this many bytes of them. `begun_ms` is when the process has
    /// begun, in milliseconds since 1970.
    pub fn new(limit: usize, begun_ms: u64) -> Self {
        Self(Mutex::new(AllReferences {
            limit,
            by_key: LinkedHashMap::new(),
            bytes: 0,
            bytes_of: BTreeMap::new(),
            first_call: 0,
            begun_ms,
        }))
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Whether anything is known of a session.
    pub fn knows(&self, owner: &Arc<str>, session: &str) -> bool {
        let key: ReferencesKey = (Arc::clone(owner), session.into());
        self.0.lock().by_key.contains_key(&key)
    }

    /// Adds what calls of a session have made in an earlier process, the oldest first.
    pub fn load(&self, owner: &Arc<str>, session: &str, calls: &[CallReferences]) {
        let key: ReferencesKey = (Arc::clone(owner), session.into());
        self.0.lock().change(&key, |session| {
            for CallReferences { call, ids, pages } in calls {
                for (id, address) in ids {
                    session.add_address(id, address);
                }
                for (address, kept) in pages {
                    session.add_kept(address, kept);
                }
                session.next_call = session.next_call.max(call.saturating_add(1));
            }
        });
    }

    /// Begins the next call of a session.
    pub fn begin_call(&self, owner: &Arc<str>, session: &str) -> ReferencesCall<'_> {
        let key: ReferencesKey = (Arc::clone(owner), session.into());
        let mut number = 0;
        self.0.lock().change(&key, |session| {
            number = session.next_call;
            session.next_call = number.saturating_add(1);
        });
        ReferencesCall {
            references: self,
            key,
            made: CallReferences {
                call: number,
                ..CallReferences::default()
            },
            kept: Mutex::default(),
            results: 0,
            views: 0,
        }
    }
}

impl ReferencesCall<'_> {
    /// The id of a result with this address.
    pub fn add_result(&mut self, address: &str) -> String {
        let id = format!("turn{}search{}", self.made.call, self.results);
        self.results += 1;
        self.put(id, address)
    }

    /// The id of a page that is shown. The address is the one that it was asked for.
    pub fn add_view(&mut self, address: &str) -> String {
        let id = format!("turn{}view{}", self.made.call, self.views);
        self.views += 1;
        self.put(id, address)
    }

    fn put(&mut self, id: String, address: &str) -> String {
        let mut all = self.references.0.lock();
        all.change(&self.key, |session| {
            session.add_address(&id, address);
        });
        self.made.ids.push((id.clone(), address.to_owned()));
        id
    }

    /// What this call has made so far.
    pub fn made(&self) -> CallReferences {
        CallReferences {
            pages: self.kept.lock().clone(),
            ..self.made.clone()
        }
    }

    /// The address that an id or a URL means.
    pub fn address(&self, reference: &str) -> Result<String, UnknownReference> {
        let reference =
            reference.trim_matches(|it: char| it.is_whitespace() || "【】[]".contains(it));
        let mut known = None;
        self.references.0.lock().change(&self.key, |session| {
            known = session.addresses.get(reference).cloned();
        });
        let is_name = |text: &str| text.contains('.') && !text.contains(char::is_whitespace);
        let address = match known {
            Some(address) => address,
            None if Url::parse(reference).is_ok_and(|url| url.has_host()) => reference.to_owned(),
            None if is_name(reference) => format!("https://{reference}"),
            None => {
                let shown: String = reference.chars().take(80).collect();
                return Err(UnknownReference(shown));
            }
        };
        // What cannot be opened stays as it is: whoever opens it says why.
        Ok(page_url(&address).map_or(address, String::from))
    }

    /// The page at an address, if the session has read it.
    pub fn page(&self, address: &str) -> Option<Arc<NumberedPage>> {
        let mut page = None;
        self.references.0.lock().change(&self.key, |session| {
            // What is used becomes the newest.
            page = session.pages.to_back(address).map(|page| Arc::clone(page));
        });
        page
    }

    /// Where the page at an address is kept whole, if the session has read it.
    pub fn kept(&self, address: &str) -> Option<KeptPage> {
        let mut kept = None;
        self.references.0.lock().change(&self.key, |session| {
            kept = session.kept.to_back(address).cloned();
        });
        kept
    }

    /// Remembers where a page is kept that the call has read.
    pub fn add_kept(&self, address: &str, kept: KeptPage) {
        self.references.0.lock().change(&self.key, |session| {
            session.add_kept(address, &kept);
        });
        self.kept.lock().push((address.to_owned(), kept));
    }

    /// Keeps a page for the session, which counts it from then on, unless it is too large.
    pub fn keep_page(&self, address: &str, page: &Arc<NumberedPage>) {
        let mut all = self.references.0.lock();
        if page.bytes() > all.limit / SESSION_PART {
            return page.set_counted(page.bytes());
        }
        page.set_counted(0);
        all.change(&self.key, |session| {
            session.add_page(address, page);
        });
    }
}

impl CallReferences {
    /// Whether it has nothing that a later call needs.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.pages.is_empty()
    }
}

/// Puts a value into a map, whose bytes are counted in `total`.
fn put_counted<V>(
    map: &mut LinkedHashMap<String, V>,
    total: &mut usize,
    (key, value): (&str, V),
    bytes: impl Fn(&V) -> usize,
) {
    let entry = |value: &V| ID_BASE + key.len() + bytes(value);
    *total += entry(&value);
    if let Some(old) = map.insert(key.to_owned(), value) {
        *total -= entry(&old);
    }
}

impl SessionReferences {
    fn add_address(&mut self, id: &str, address: &str) {
        let entry = (id, address.to_owned());
        put_counted(&mut self.addresses, &mut self.bytes, entry, String::len);
    }

    fn add_page(&mut self, address: &str, page: &Arc<NumberedPage>) {
        let entry = (address, Arc::clone(page));
        put_counted(&mut self.pages, &mut self.bytes, entry, |page| page.bytes());
    }

    fn add_kept(&mut self, address: &str, kept: &KeptPage) {
        let entry = (address, kept.clone());
        put_counted(&mut self.kept, &mut self.bytes, entry, KeptPage::bytes);
    }

    /// Forgets the oldest page. If there is none but the newest, forgets the oldest id, or where
    /// the oldest page is kept.
    fn forget_oldest(&mut self) -> bool {
        let has_others = !self.addresses.is_empty() || !self.kept.is_empty();
        if (self.pages.len() > 1 || !has_others)
            && let Some((address, page)) = self.pages.pop_front()
        {
            self.bytes -= ID_BASE + address.len() + page.bytes();
            return true;
        }
        if self.kept.len() > self.addresses.len()
            && let Some((address, kept)) = self.kept.pop_front()
        {
            self.bytes -= ID_BASE + address.len() + kept.bytes();
            return true;
        }
        let Some((id, address)) = self.addresses.pop_front() else {
            return false;
        };
        self.bytes -= ID_BASE + id.len() + address.len();
        true
    }
}

impl AllReferences {
    /// Changes a session, which becomes the newest, and forgets what is beyond the budget.
    fn change(&mut self, key: &ReferencesKey, change: impl FnOnce(&mut SessionReferences)) {
        let known = self.by_key.remove(key);
        let before = known.as_ref().map_or(0, |session| session.bytes);
        let mut session = known.unwrap_or_else(|| SessionReferences {
            next_call: self.first_call_of(&key.1),
            bytes: SESSION_BASE + key.1.len(),
            ..SessionReferences::default()
        });
        change(&mut session);
        while session.bytes > self.limit / SESSION_PART && session.forget_oldest() {}
        self.count(&key.0, before, session.bytes);
        self.by_key.insert(key.clone(), session);
        while self.bytes > self.limit && self.forget_session() {}
    }

    /// The number of the first call of a session that is not known. One that is older than this
    /// process may have had ids before, of numbers that are lower than the seconds of its begin.
    fn first_call_of(&self, session: &str) -> u64 {
        match began_ms(session) {
            Some(began_ms) if began_ms < self.begun_ms => {
                self.first_call + self.begun_ms / 1000 % NUMBERS
            }
            _ => self.first_call,
        }
    }

    fn count(&mut self, owner: &Arc<str>, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        let own = self.bytes_of.entry(Arc::clone(owner)).or_default();
        *own = *own - before + after;
        if *own == 0 {
            self.bytes_of.remove(owner);
        }
    }

    /// Forgets the oldest session of the owner who has most.
    fn forget_session(&mut self) -> bool {
        let most = self.bytes_of.iter().max_by_key(|(_, bytes)| **bytes);
        let oldest = most.and_then(|(most, _)| {
            let mut keys = self.by_key.keys();
            keys.find(|(owner, _)| owner == most).cloned()
        });
        let Some((key, session)) = oldest.and_then(|key| self.by_key.remove_entry(&key)) else {
            return false;
        };
        self.first_call = self.first_call.max(session.next_call);
        self.count(&key.0, session.bytes, 0);
        true
    }
}

/// When a session began whose id is a UUID of version 7, as those of Codex are: its first 48 bits
/// are the milliseconds since 1970.
fn began_ms(session: &str) -> Option<u64> {
    let (high, rest) = session.split_once('-')?;
    let (low, rest) = rest.split_once('-')?;
    let is_uuid = session.len() == 36 && high.len() == 8 && low.len() == 4 && rest.starts_with('7');
    if !is_uuid {
        return None;
    }
    u64::from_str_radix(&format!("{high}{low}"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::web::page::{FetchStrategy, Page};

    fn page(bytes: usize) -> Arc<NumberedPage> {
        let page = NumberedPage::new(&Page {
            url: "https://a.org/".to_owned(),
            canonical: None,
            title: String::new(),
            published: None,
            markdown: "x".repeat(bytes),
            received_bytes: bytes,
            fetched_by: FetchStrategy::Native,
            memory: None,
        });
        Arc::new(page.unwrap())
    }

    fn owner(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn an_id_means_an_address_in_its_session_alone() {
        let references = WebReferences::new(1 << 20, 0);
        let mut call = references.begin_call(&owner("a"), "s");
        assert_eq!(call.add_result("https://a.org/1"), "turn0search0");
        assert_eq!(call.add_result("https://a.org/2"), "turn0search1");
        assert_eq!(call.add_view("https://a.org/2"), "turn0view0");
        let mut next = references.begin_call(&owner("a"), "s");
        assert_eq!(next.add_view("https://a.org/3"), "turn1view0");
        for (reference, address) in [
            ("turn0search1", Some("https://a.org/2")),
            (" 【turn0view0】", Some("https://a.org/2")),
            ("turn1view0", Some("https://a.org/3")),
            ("https://b.org/x#y", Some("https://b.org/x")),
            ("b.org/x", Some("https://b.org/x")),
            ("turn1search0", None),
            ("", None),
        ] {
            assert_eq!(
                next.address(reference).ok().as_deref(),
                address,
                "{reference}"
            );
        }
        for (name, session) in [("b", "s"), ("a", "t")] {
            let other = references.begin_call(&owner(name), session);
            let unknown = other.address("turn0search0").unwrap_err();
            assert!(
                unknown
                    .to_string()
                    .contains("is no reference of this session")
            );
        }
    }

    /// Promise: The references of sessions have one budget of bytes, of which no session takes more
    /// than a quarter. Beyond it the oldest session of the owner who has most is forgotten, and an
    /// id of a forgotten session never means another page.
    #[test]
    fn what_is_beyond_the_budget_is_forgotten() {
        let references = WebReferences::new(100_000, 0);
        let mut first = references.begin_call(&owner("a"), "first");
        let id = first.add_result("https://a.org/1");
        first.keep_page("https://a.org/1", &page(5_000));
        assert!(first.page("https://a.org/1").is_some());
        first.keep_page("https://a.org/large", &page(30_000));
        assert!(first.page("https://a.org/large").is_none());
        let small = references.begin_call(&owner("b"), "small");
        small.keep_page("https://a.org/1", &page(100));
        for number in 0..20 {
            let session = references.begin_call(&owner("a"), &format!("s{number}"));
            for part in 0..4 {
                session.keep_page(&format!("https://a.org/{part}"), &page(10_000));
            }
            // A quarter holds two of them.
            assert!(session.page("https://a.org/0").is_none());
            assert!(session.page("https://a.org/3").is_some());
            assert!(references.bytes() <= 100_000, "{}", references.bytes());
        }
        assert!(small.page("https://a.org/1").is_some());
        let mut again = references.begin_call(&owner("a"), "first");
        assert!(again.address(&id).is_err());
        assert_ne!(again.add_result("https://a.org/2"), id);
        for number in 0..1_000 {
            again.add_result(&format!("https://a.org/{number}"));
        }
        assert!(references.bytes() <= 100_000, "{}", references.bytes());
    }

    /// What calls have made is known again where it is loaded, and its ids are not given again.
    #[test]
    fn the_references_of_a_session_are_loaded() {
        let references = WebReferences::new(1 << 20, 0);
        let mut call = references.begin_call(&owner("a"), "s");
        call.add_result("https://a.org/1");
        call.add_view("https://a.org/2");
        let made = call.made();
        let again = WebReferences::new(1 << 20, 0);
        assert!(!again.knows(&owner("a"), "s"));
        again.load(&owner("a"), "s", &[made]);
        assert!(again.knows(&owner("a"), "s"));
        let mut call = again.begin_call(&owner("a"), "s");
        for (id, address) in [
            ("turn0search0", "https://a.org/1"),
            ("turn0view0", "https://a.org/2"),
        ] {
            assert_eq!(call.address(id).as_deref(), Ok(address));
        }
        assert_eq!(call.add_result("https://a.org/3"), "turn1search0");
    }

    #[test]
    fn ids_of_a_session_that_is_older_than_the_process_are_not_given_again() {
        let session = "01a2202a-7df6-7282-bab2-fe6f8257e34e";
        let began = 1_795_835_985_398;
        assert_eq!(began_ms(session), Some(began));
        for (begun_ms, id) in [
            (began - 1_000, "turn0search0"),
            (began + 1_000, "turn835986search0"),
        ] {
            let references = WebReferences::new(1 << 20, begun_ms);
            let mut call = references.begin_call(&owner("a"), session);
            assert_eq!(call.add_result("https://a.org/"), id);
        }
        for other in [
            "",
            "a-b",
            "01a2202a-7df6-4282-bab2-fe6f8257e34e",
            "é1a2202-7df6-7282-bab2-fe6f8257e34e",
        ] {
            assert_eq!(began_ms(other), None, "{other}");
        }
    }
}
