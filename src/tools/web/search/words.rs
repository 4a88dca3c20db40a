//! The words of a search. A search engine without a parameter for domains is sent operators, which
//! it may ignore: [`filter_hits`](super::filter_hits) has the last word.

use super::WebQuery;
use super::filter::domains;

/// How long the words of a search may be.
pub(super) struct WordLimit {
    /// In characters.
    pub chars: usize,
    /// In words between white space.
    pub words: usize,
}

impl WordLimit {
    /// For search engines that state no limit: an answer to more words is of no use.
    pub(super) const USUAL: Self = Self::chars(2_000);

    /// A limit of characters alone.
    pub(super) const fn chars(chars: usize) -> Self {
        Self {
            chars,
            words: usize::MAX,
        }
    }
}

/// The words, cut.
pub(super) fn words(query: &WebQuery, limit: &WordLimit) -> String {
    let mut words = String::new();
    for word in query.text.split_whitespace().take(limit.words) {
        if words.len() > limit.chars.saturating_mul(4) {
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words.chars().take(limit.chars).collect()
}

/// The words with the domains of the query as operators: `rust site:a.org OR site:b.org
/// -site:c.org`. `OR` binds more strongly than the space. What is beyond the limit is left out, the
/// operators before the words.
pub(super) fn words_with_sites(query: &WebQuery, limit: &WordLimit) -> String {
    let mut text = words(query, limit);
    let mut chars = text.chars().count();
    let mut words = text.split_whitespace().count();
    let mut or = "";
    let mut add = |operator: String| {
        chars += operator.chars().count();
        words += operator.split_whitespace().count();
        let fits = chars <= limit.chars && words <= limit.words;
        if fits {
            text.push_str(&operator);
        }
        fits
    };
    for domain in domains(&query.allowed_domains) {
        if !add(format!(" {or}site:{domain}")) {
            break;
        }
        or = "OR ";
    }
    for domain in domains(&query.blocked_domains) {
        if !add(format!(" -site:{domain}")) {
            break;
        }
    }
    text
}
