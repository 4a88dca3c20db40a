//! Which results are kept. Search engines may ignore the domains that they are sent, and answer
//! anything.

use std::collections::HashSet;

use url::{Host, Url};

use super::{SearchHit, WebQuery};

/// A longer address is not shown to a model.
const MAX_ADDRESS_BYTES: usize = 2_000;

/// A longer title is cut.
const MAX_TITLE_CHARS: usize = 500;

/// More domains than these are not sent.
const MAX_DOMAINS: usize = 100;

/// The results of web addresses that the domains of the query allow, each address once, and no
/// more than are wanted. Titles are cut.
pub fn filter_hits(query: &WebQuery, hits: Vec<SearchHit>) -> Vec<SearchHit> {
    let domains = AllowedDomains::new(&query.allowed_domains, &query.blocked_domains);
    let mut seen = HashSet::new();
    let wanted = match query.results {
        0 => usize::MAX,
        results => results,
    };
    let kept = hits.into_iter().filter_map(|mut hit| {
        let url = page_address(&hit.url)?;
        let fits = domains.allows_url(&url);
        // Citations are found by ASCII addresses alone.
        if !hit.url.is_ascii() {
            hit.url = Url::parse(&hit.url).ok()?.into();
        }
        if !fits || !seen.insert(url) {
            return None;
        }
        if let Some((end, _)) = hit.title.char_indices().nth(MAX_TITLE_CHARS) {
            hit.title.truncate(end);
        }
        Some(hit)
    });
    kept.take(wanted).collect()
}

/// The address of the page that an address of the web leads to, whichever place on it that is.
pub fn page_address(address: &str) -> Option<Url> {
    let mut url = web_address(address)?;
    // A fragment is a place of the same page.
    url.set_fragment(None);
    Some(url)
}

/// The domains that may be used. Without any allowed domain all but the blocked ones are. What
/// holds for a domain holds for those below it.
pub struct AllowedDomains {
    /// `None` if all may.
    allowed: Option<Domains>,
    blocked: Domains,
    /// Whether a list has an entry.
    is_limited: bool,
}

impl AllowedDomains {
    /// The domains of these lists. They are parsed here, once for all addresses.
    pub fn new(allowed: &[String], blocked: &[String]) -> Self {
        Self {
            allowed: (!allowed.is_empty()).then(|| Domains::new(allowed)),
            blocked: Domains::new(blocked),
            is_limited: !allowed.is_empty() || !blocked.is_empty(),
        }
    }

    /// Whether an address is one of the web, on a domain that is allowed. Without lists any is.
    pub fn allows(&self, address: &str) -> bool {
        !self.is_limited || web_address(address).is_some_and(|url| self.allows_url(&url))
    }

    fn allows_url(&self, url: &Url) -> bool {
        let Some(host) = url.host().map(|host| host.to_owned()) else {
            return false;
        };
        let is_allowed = self.allowed.as_ref().is_none_or(|it| it.hold(&host));
        is_allowed && !self.blocked.hold(&host)
    }
}

/// The address, if it is one of the web.
fn web_address(text: &str) -> Option<Url> {
    // A parser leaves out what could be taken for another result where it is shown.
    let is_one_line = !text.contains(|char: char| char.is_whitespace() || char.is_control());
    if text.len() > MAX_ADDRESS_BYTES || !is_one_line {
        return None;
    }
    let url = Url::parse(text).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// A list of domains to look a host up in.
struct Domains(HashSet<String>);

impl Domains {
    fn new(list: &[String]) -> Self {
        Self(list.iter().filter_map(|text| domain(text)).collect())
    }

    /// Whether the list has this host or a domain that it is below.
    fn hold(&self, host: &Host) -> bool {
        match host {
            Host::Domain(name) => {
                let mut rest = Some(name.trim_end_matches('.'));
                while let Some(name) = rest {
                    if self.0.contains(name) {
                        return true;
                    }
                    rest = name.split_once('.').map(|(_, parent)| parent);
                }
                false
            }
            Host::Ipv4(_) | Host::Ipv6(_) => self.0.contains(&host.to_string()),
        }
    }
}

/// The domains of a list as search engines take them, each once. What is no domain is left out, so
/// that nothing else gets into a query.
pub(super) fn domains(list: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let domains = list.iter().filter_map(|text| domain(text));
    let domains = domains.filter(|domain| seen.insert(domain.clone()));
    domains.take(MAX_DOMAINS).collect()
}

/// The domain that a user means: `Example.org`, `*.example.org` or an address of it.
fn domain(text: &str) -> Option<String> {
    let text = text.trim();
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let url = if is_address {
        Url::parse(text)
    } else {
        let name = text.trim_start_matches("*.").trim_start_matches('.');
        Url::parse(&format!("https://{name}"))
    };
    let host = url.ok()?.host()?.to_owned();
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (!name.is_empty() && name.bytes().all(is_name)).then(|| name.to_owned())
        }
        Host::Ipv4(_) | Host::Ipv6(_) => Some(host.to_string()),
    }
}
